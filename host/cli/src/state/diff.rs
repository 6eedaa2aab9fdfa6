//! `howdah state diff`: how the rows of two checkpoints differ.

use super::{Location, Place, find_table};
use crate::differences::{self, Differences};
use crate::failure::{Failure, Result};
use crate::run;
use howdah_pipeline::{Checkpoint, Checkpoints, read_savepoint};
use howdah_state::{At, StateDiff, StateReader, TableInfo};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah state diff q18.toml 41 now
  howdah state diff q18.toml backup/monday 41 --state last --limit 20
  howdah state diff q18.toml 41 42 --output json | jq 'select(.change == \"removed\")'

The two are read in the order of their keys, side by side: it takes little memory, however large they
are. Where a state has a time to live, rows that have ended count until they are merged away.")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// A checkpoint's number, the directory of a savepoint, or `now`
    #[arg(value_name = "BEFORE")]
    before: String,
    /// The same
    #[arg(value_name = "AFTER")]
    after: String,
    /// This table alone: its name, or just the state's if no other table has it
    #[arg(long, value_name = "TABLE")]
    state: Option<String>,
    /// Show at most so many rows of each table; all are counted
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// How to print what differs
    #[arg(long, value_enum, default_value = "text")]
    output: differences::Output,
}

/// Runs `howdah state diff`.
pub(super) fn run(args: &Args) -> Result<()> {
    let location = Location::find(&args.place.place)?;
    let before = Side::find(&location, &args.before)?;
    let after = Side::find(&location, &args.after)?;
    let names: BTreeSet<&str> =
        before.tables.keys().chain(after.tables.keys()).map(String::as_str).collect();
    let chosen = match &args.state {
        Some(name) => BTreeSet::from([find_table(names.iter().copied(), name)?]),
        None => names,
    };
    let mut printed = Differences::new(args.limit, args.output);
    for table in chosen {
        let (old, new) = (before.open(table)?, after.open(table)?);
        let old = old.as_ref().map(|(reader, at)| (reader, at));
        let new = new.as_ref().map(|(reader, at)| (reader, at));
        let diff = StateDiff::between(old, new).map_err(super::failure)?;
        printed.begin(table);
        for rows in diff {
            printed.rows(&rows.map_err(super::failure)?)?;
        }
    }
    printed.counts()
}

/// One of the two versions: its tables.
struct Side {
    warehouse: PathBuf,
    tenant: String,
    tables: BTreeMap<String, At>,
}

impl Side {
    fn find(location: &Location, text: &str) -> Result<Self> {
        let Location { state_directory, warehouse, tenant } = location;
        let here = |tables| Self { warehouse: warehouse.clone(), tenant: tenant.clone(), tables };
        if text == "now" {
            // Not those of states that were dropped.
            let newest = Checkpoints::newest(state_directory).ok();
            let is_known = |table: &TableInfo| {
                let mut states = newest.iter().flat_map(Checkpoint::states);
                newest.is_none() || states.any(|state| state.table == table.name)
            };
            let tables = location.tables()?.into_iter();
            let tables = tables.filter(|table| table.snapshot.is_some() && is_known(table));
            return Ok(here(tables.map(|table| (table.name, At::Latest)).collect()));
        }
        if let Ok(id) = text.parse() {
            let checkpoint = Checkpoints::find(state_directory, id).map_err(run::failure)?;
            let states = checkpoint.states();
            let tables = states.map(|it| (it.table.clone(), At::Snapshot(it.snapshot)));
            return Ok(here(tables.collect()));
        }
        Self::of_savepoint(Path::new(text))
    }

    fn of_savepoint(directory: &Path) -> Result<Self> {
        if !directory.is_dir() {
            return Err(Failure::usage(format!(
                "{} is no number of a checkpoint, no directory of a savepoint, and not `now`",
                directory.display()
            )));
        }
        let savepoint = read_savepoint(directory).map_err(run::failure)?;
        let tables = savepoint.tables.into_iter();
        Ok(Self {
            warehouse: directory.to_owned(),
            tenant: savepoint.tenant,
            tables: tables.map(|table| (table, At::Latest)).collect(),
        })
    }

    /// `None`: it has no such table.
    fn open(&self, table: &str) -> Result<Option<(StateReader, At)>> {
        let Some(at) = self.tables.get(table) else { return Ok(None) };
        let reader = StateReader::open(&self.warehouse, &self.tenant, table);
        Ok(Some((reader.map_err(super::failure)?, *at)))
    }
}

//! The tables of a state directory, and the versions of them that checkpoints name.

use super::{Examination, Finding};
use crate::checkpoint::Checkpoint;
use crate::directory;
use crate::error::Error;
use crate::pipeline::WAREHOUSE;
use howdah_state::{At, StateReader, VerifiedTable, find_orphans};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Attempts to look at the newest version of a table while its pipeline moves on.
const ATTEMPTS: usize = 5;
/// The least age of files that nothing needs, while a pipeline runs: it may be about to commit them,
/// or to remove them.
const ORPHAN_AGE_MS: u64 = 3_600_000;
/// Ends the name of a database's directory.
const DATABASE: &str = ".db";

/// Looks at every table, and at every table's version of every checkpoint.
pub(super) fn examine(
    examination: &mut Examination,
    state_directory: &Path,
    checkpoints: &[Checkpoint],
    look: &mut dyn FnMut(&str),
) {
    let warehouse = state_directory.join(WAREHOUSE);
    for (tenant, table) in tables(examination, &warehouse) {
        look(&table);
        Table { warehouse: &warehouse, tenant: &tenant, name: &table }
            .examine(examination, checkpoints);
    }
    let mut known = BTreeMap::new();
    for checkpoint in checkpoints {
        look(&format!("checkpoint {}", checkpoint.id));
        of_checkpoint(examination, &warehouse, checkpoint, checkpoints, &mut known);
    }
}

/// Tenants and names of all tables.
fn tables(examination: &mut Examination, warehouse: &Path) -> Vec<(String, String)> {
    let mut tables = Vec::new();
    let mut names = |path: &Path| {
        let names = directory::names(path);
        let shown = path.display().to_string();
        examination.take(&shown, "mend the directory", names).unwrap_or_default()
    };
    for database in names(warehouse) {
        let Some(tenant) = database.strip_suffix(DATABASE) else { continue };
        let directory = warehouse.join(&database);
        for name in names(&directory) {
            // One that is being made has no snapshot yet.
            if directory.join(&name).join("snapshot").is_dir() {
                tables.push((tenant.to_owned(), name));
            }
        }
    }
    tables
}

struct Table<'a> {
    warehouse: &'a Path,
    tenant: &'a str,
    name: &'a str,
}

impl Table<'_> {
    fn examine(&self, examination: &mut Examination, checkpoints: &[Checkpoint]) {
        examination.tables += 1;
        let subject = format!("table {}", self.name);
        let advice = "run with --checkpoint and an earlier one, or restore a savepoint with --from";
        let attempts = if examination.running.is_some() { ATTEMPTS } else { 1 };
        let newest = self.newest(attempts);
        if let Some(verified) = examination.take(&subject, advice, newest) {
            count(examination, &verified);
            examination.rows += verified.rows;
        }
        let mut states = checkpoints.iter().flat_map(Checkpoint::states);
        let is_known = states.any(|state| state.table == self.name);
        if !is_known && !checkpoints.is_empty() && examination.running.is_none() {
            let path = self.warehouse.join(format!("{}{DATABASE}", self.tenant)).join(self.name);
            let advice = format!("remove {} if you do not need its rows", path.display());
            let message = "no checkpoint has it: it is of a state that was dropped";
            examination.findings.push(Finding::note(&subject, message, advice));
        }
        self.orphans(examination, &subject);
    }

    /// Every file of the newest version is whole, and each key is there once.
    fn newest(&self, attempts: usize) -> Result<VerifiedTable, Error> {
        let mut attempt = 1;
        loop {
            let look = || -> howdah_state::Result<VerifiedTable> {
                let reader = StateReader::open(self.warehouse, self.tenant, self.name)?;
                let at = At::Snapshot(reader.snapshot_id(&At::Latest)?);
                let verified = reader.verify(&at)?;
                // Those of what is newest now: a pipeline that runs may have let go of the other.
                reader.check_keys(&At::Latest)?;
                Ok(verified)
            };
            match look() {
                Err(_) if attempt < attempts => attempt += 1,
                other => return Ok(other?),
            }
        }
    }

    fn orphans(&self, examination: &mut Examination, subject: &str) {
        let age_ms = if examination.running.is_some() { ORPHAN_AGE_MS } else { 0 };
        let found = find_orphans(self.warehouse, self.tenant, self.name, age_ms);
        let advice = "run with --checkpoint and an earlier one, or restore a savepoint with --from";
        let found = examination.take(subject, advice, found.map_err(Error::from));
        let Some(first) = found.as_ref().and_then(|found| found.first()) else { return };
        let all = found.as_deref().unwrap_or_default();
        let message = format!(
            "{} files of {} bytes are in nobody's use, as a crash leaves them; the first is {}",
            all.len(),
            all.iter().map(length).sum::<u64>(),
            first.display()
        );
        let advice = "run the pipeline: its next start removes them";
        examination.findings.push(Finding::note(subject, message, advice));
    }
}

fn length(path: &PathBuf) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn count(examination: &mut Examination, verified: &VerifiedTable) {
    examination.files += verified.files;
    examination.bytes += verified.bytes;
}

/// Every file of a checkpoint's tables is whole. `known` are versions that were looked at.
fn of_checkpoint(
    examination: &mut Examination,
    warehouse: &Path,
    checkpoint: &Checkpoint,
    all: &[Checkpoint],
    known: &mut BTreeMap<(String, i64), Option<String>>,
) {
    for state in checkpoint.states() {
        let version = (state.table.clone(), state.snapshot);
        let problem = match known.get(&version) {
            Some(problem) => problem.clone(),
            None => {
                let verified = StateReader::open(warehouse, &checkpoint.shape.tenant, &state.table)
                    .and_then(|reader| reader.verify(&At::Snapshot(state.snapshot)));
                if let Ok(verified) = &verified {
                    count(examination, verified);
                }
                let problem = verified.err().map(|error| error.to_string());
                known.insert(version, problem.clone());
                problem
            }
        };
        let Some(problem) = problem else { continue };
        // The pipeline may have let go of it since.
        let documents = warehouse.with_file_name(crate::checkpoint::DIRECTORY);
        if !documents.join(crate::checkpoint::document(checkpoint.id)).exists() {
            return;
        }
        let earlier = all.iter().rev().find(|other| other.id < checkpoint.id);
        let advice = match earlier {
            Some(Checkpoint { id, .. }) => {
                format!("do not go back to it; if it is the newest, run with --checkpoint {id}")
            }
            None => "restore a savepoint with --from, or run with --fresh".to_owned(),
        };
        let subject = format!("checkpoint {}, table {}", checkpoint.id, state.table);
        examination.findings.push(Finding::problem(subject, problem, advice));
    }
}

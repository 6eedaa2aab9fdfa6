//! `howdah state`: looks at the state of a pipeline, also while it runs.

mod diff;
mod export;
mod import;

use crate::environment;
use crate::failure::{Failure, Result};
use crate::table::{self, Output};
use anyhow::Context;
use arrow_array::builder::{Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use howdah_pipeline::PipelineConfig;
use howdah_state::{At, ErrorKind, StateReader, TableInfo, list_tables};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The last column of a table whose rows have a time to live: when it ends.
const EXPIRES: &str = "expires_at";
/// The column that is shown with it.
const ENDED: &str = "expired";

/// Look at the state of a pipeline, also while it runs, export and import it
///
/// State tables are Apache Paimon tables: other engines can read them too. All but `import` take no
/// lock and stop nothing, and of a pipeline only its state must be there.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  howdah state ls q18.toml
  howdah state get q18.toml last bidder=1001 auction=1000
  howdah state scan q18.toml last --limit 5
  howdah state scan q18.toml last --at 41 --output csv > as-of-41.csv
  howdah state diff q18.toml 41 now
  howdah state export q18.toml last --to last.parquet
  howdah state import q18.toml last=last.parquet

`howdah checkpoint ls` lists what --at and diff take.

Exit codes: 0 shown, 1 it cannot be read, 2 wrong arguments, a wrong pipeline file, or no such table
or checkpoint; 3 `get` found no row."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the state tables
    Ls {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        print: Print,
    },
    /// Show the row of a key
    Get {
        #[command(flatten)]
        place: Place,
        /// The table: its name, or just the state's if no other table has it
        table: String,
        /// Every key column, as `column=value`
        #[arg(required = true, value_name = "COLUMN=VALUE")]
        key: Vec<String>,
        #[command(flatten)]
        version: Version,
        #[command(flatten)]
        print: Print,
    },
    /// Show rows of a table; where they have a time to live, `expired` says whose is over
    Scan {
        #[command(flatten)]
        place: Place,
        /// The table: its name, or just the state's if no other table has it
        table: String,
        /// Show at most so many rows
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        #[command(flatten)]
        version: Version,
        #[command(flatten)]
        print: Print,
    },
    /// Compare the rows of two checkpoints, savepoints, or what is on disk now
    Diff(diff::Args),
    /// Write the rows of a table to a file
    Export(export::Args),
    /// Fill the states of a pipeline that has none with rows from elsewhere
    Import(import::Args),
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The pipeline file, or the pipeline's state directory
    #[arg(value_name = "PIPELINE.toml|STATE_DIR")]
    place: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Version {
    /// As of this completed checkpoint, instead of the newest rows on disk
    #[arg(long, value_name = "CHECKPOINT")]
    at: Option<u64>,
}

impl Version {
    fn at(&self) -> At {
        self.at.map_or(At::Latest, At::Checkpoint)
    }
}

#[derive(Debug, clap::Args)]
struct Print {
    /// How to print rows
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Runs `howdah state`.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Ls { place, print } => ls(&Location::find(&place.place)?, print.output),
        Command::Diff(args) => diff::run(args),
        Command::Export(args) => export::run(args),
        Command::Import(args) => import::run(args),
        Command::Get { place, table, key, version, print } => {
            let reader = Location::find(&place.place)?.open(table)?;
            let key = key_values(&reader, key)?;
            let rows = reader.get(&version.at(), &key).map_err(failure)?;
            print_rows(&reader.schema(), &rows, print.output)?;
            if rows.iter().all(|batch| batch.num_rows() == 0) {
                return Err(Failure::Nothing(format!("no row of {table} has this key")));
            }
            Ok(())
        }
        Command::Scan { place, table, limit, version, print } => {
            let reader = Location::find(&place.place)?.open(table)?;
            let rows = reader.scan(&version.at(), *limit).map_err(failure)?;
            print_rows(&reader.schema(), &rows, print.output)
        }
    }
}

/// What is not there, or cannot be a value, is a wrong argument; anything else is a failure.
fn failure(error: howdah_state::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::InvalidArgument => Failure::Usage(error.into()),
        _ => Failure::Failed(error.into()),
    }
}

/// Where the tables and checkpoints of a pipeline are.
pub(crate) struct Location {
    pub(crate) state_directory: PathBuf,
    pub(crate) warehouse: PathBuf,
    pub(crate) tenant: String,
}

impl Location {
    /// From a pipeline file, or from a state directory.
    pub(crate) fn find(place: &Path) -> Result<Self> {
        if place.is_dir() {
            return Self::of_directory(place);
        }
        let config =
            PipelineConfig::load_alone(place).map_err(|error| Failure::Usage(error.into()))?;
        Ok(Self {
            warehouse: config.warehouse(),
            state_directory: config.state_directory,
            tenant: config.tenant,
        })
    }

    /// The warehouse in a state directory has one database.
    fn of_directory(directory: &Path) -> Result<Self> {
        let warehouse = directory.join("warehouse");
        let entries = std::fs::read_dir(&warehouse).map_err(|error| {
            Failure::usage(format!(
                "{} is no state directory of a pipeline (cannot read {}: {error}); give the one \
                 that `state-directory` of the pipeline file names, or the pipeline file",
                directory.display(),
                warehouse.display()
            ))
        })?;
        let tenant = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .find_map(|name| Some(name.strip_suffix(".db")?.to_owned()))
            .ok_or_else(|| Failure::usage(format!("{} has no tables yet", warehouse.display())))?;
        Ok(Self { state_directory: directory.to_owned(), warehouse, tenant })
    }

    fn tables(&self) -> Result<Vec<TableInfo>> {
        Ok(list_tables(&self.warehouse, &self.tenant).map_err(anyhow::Error::from)?)
    }

    /// Opens the table with this name, or the only one whose state has this name.
    fn open(&self, name: &str) -> Result<StateReader> {
        let tables = self.tables()?;
        let named = find_table(tables.iter().map(|table| table.name.as_str()), name)?;
        Ok(StateReader::open(&self.warehouse, &self.tenant, named).map_err(anyhow::Error::from)?)
    }
}

/// The full name of a table that is given by its full name, or by the end of it.
fn find_table<'a>(tables: impl Iterator<Item = &'a str> + Clone, name: &str) -> Result<&'a str> {
    if let Some(table) = tables.clone().find(|table| *table == name) {
        return Ok(table);
    }
    let ending = format!("__{name}");
    let mut matching = tables.clone().filter(|table| table.ends_with(&ending));
    match (matching.next(), matching.next()) {
        (Some(table), None) => Ok(table),
        (Some(first), Some(second)) => Err(Failure::usage(format!(
            "more than one table has a state `{name}`: {first} and {second}; give the whole name"
        ))),
        (None, _) => {
            let known: Vec<_> = tables.collect();
            Err(Failure::usage(if known.is_empty() {
                format!("there is no table `{name}`, and no other; has the pipeline run?")
            } else {
                format!("there is no table `{name}`; there are: {}", known.join(", "))
            }))
        }
    }
}

/// The values of `column=value` arguments, in the order of the key columns.
fn key_values(reader: &StateReader, arguments: &[String]) -> Result<Vec<String>> {
    let columns: Vec<&str> = reader.key().iter().map(|column| column.name.as_str()).collect();
    let wanted = || {
        let words: Vec<_> = columns.iter().map(|name| format!("{name}=VALUE")).collect();
        format!("the key of this table is: {}", words.join(" "))
    };
    let mut values = vec![None; columns.len()];
    for argument in arguments {
        let slot = argument.split_once('=').and_then(|(name, value)| {
            let index = columns.iter().position(|column| *column == name)?;
            Some((values.get_mut(index)?, value))
        });
        match slot {
            Some((slot, value)) if slot.is_none() => *slot = Some(value.to_owned()),
            Some(_) => return Err(Failure::usage(format!("`{argument}` repeats a column"))),
            None => {
                return Err(Failure::usage(format!(
                    "`{argument}` names no key column; {}",
                    wanted()
                )));
            }
        }
    }
    values
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Failure::usage(format!("a key column is missing; {}", wanted())))
}

/// Prints rows of a table. Where they have a time to live, a column says whose is over: operators do
/// not see those any more, though they may stay in the table until it is merged.
fn print_rows(schema: &SchemaRef, rows: &[RecordBatch], output: Output) -> Result<()> {
    let now = environment::epoch_ms();
    if ended(&RecordBatch::new_empty(SchemaRef::clone(schema)), now).is_none() {
        return table::print(schema, rows, output);
    }
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(ENDED, DataType::Boolean, true)));
    let schema = Arc::new(Schema::new(fields));
    let marked = rows.iter().map(|batch| {
        let columns = batch.columns().iter().cloned().chain(ended(batch, now));
        RecordBatch::try_new(SchemaRef::clone(&schema), columns.collect())
    });
    let marked = marked.collect::<Result<Vec<_>, _>>().context("cannot show the rows")?;
    table::print(&schema, &marked, output)
}

/// Which rows have ended; `None`: they have no time to live.
fn ended(batch: &RecordBatch, now_ms: i64) -> Option<ArrayRef> {
    let last = batch.num_columns().checked_sub(1)?;
    if batch.schema().field(last).name() != EXPIRES {
        return None;
    }
    let ends = batch.column(last).as_primitive_opt::<TimestampMillisecondType>()?;
    let ended: BooleanArray = ends.iter().map(|end| end.map(|end| end <= now_ms)).collect();
    Some(Arc::new(ended))
}

fn ls(location: &Location, output: Output) -> Result<()> {
    let tables = location.tables()?;
    let mut name = StringBuilder::new();
    let (mut rows, mut bytes, mut files) =
        (UInt64Builder::new(), UInt64Builder::new(), UInt64Builder::new());
    let mut snapshot = Int64Builder::new();
    let mut checkpoints = StringBuilder::new();
    for table in &tables {
        name.append_value(&table.name);
        rows.append_value(table.rows);
        bytes.append_value(table.bytes);
        files.append_value(table.files);
        snapshot.append_option(table.snapshot);
        let ids: Vec<_> = table.checkpoints.iter().map(u64::to_string).collect();
        checkpoints.append_value(ids.join(" "));
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table", Arc::new(name.finish())),
        ("rows", Arc::new(rows.finish())),
        ("bytes", Arc::new(bytes.finish())),
        ("files", Arc::new(files.finish())),
        ("snapshot", Arc::new(snapshot.finish())),
        ("checkpoints", Arc::new(checkpoints.finish())),
    ];
    table::list(columns, output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::TimestampMillisecondArray;

    #[test]
    fn rows_that_have_ended_are_told_from_those_that_live() {
        let ends = TimestampMillisecondArray::from(vec![Some(10), Some(11), None]);
        let batch = |name| {
            RecordBatch::try_from_iter_with_nullable([(
                name,
                Arc::new(ends.clone()) as ArrayRef,
                true,
            )])
        };
        let ended = ended(&batch(EXPIRES).unwrap(), 10).unwrap();
        let ended: Vec<_> = ended.as_boolean().iter().collect();
        assert_eq!(ended, [Some(true), Some(false), None]);
        assert!(super::ended(&batch("at").unwrap(), 10).is_none());
    }

    const TABLES: [&str; 3] = ["q18__last-bid__last", "q7__top__best", "q7__other__best"];

    #[test]
    fn a_table_is_found_by_its_whole_name_and_by_the_end_of_it() {
        let find = |name| find_table(TABLES.into_iter(), name).map_err(|error| error.message());
        assert_eq!(find("q7__top__best"), Ok("q7__top__best"));
        assert_eq!(find("last"), Ok("q18__last-bid__last"));
        assert_eq!(find("other__best"), Ok("q7__other__best"));
    }

    #[test]
    fn a_name_that_two_tables_end_with_is_refused_with_both() {
        let message = find_table(TABLES.into_iter(), "best").unwrap_err().message();
        assert!(message.contains("q7__top__best and q7__other__best"), "{message}");
    }

    #[test]
    fn an_unknown_table_is_refused_with_what_there_is() {
        let message = find_table(TABLES.into_iter(), "lost").unwrap_err().message();
        assert!(message.contains("q18__last-bid__last"), "{message}");
        let message = find_table(std::iter::empty(), "lost").unwrap_err().message();
        assert!(message.contains("has the pipeline run?"), "{message}");
    }
}

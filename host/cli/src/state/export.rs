//! `howdah state export`: the rows of a table as a file.

use super::{Location, Place, Version};
use crate::failure::{Failure, Result};
use crate::row_file::{self, Format, Writer};
use howdah_state::Error;
use indicatif::HumanCount;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah state export q18.toml last --to last.parquet
  howdah state export q18.toml last --to as-of-41.csv --at 41

Rows come by key group (the column `kg`) and key, elements of a list in their order. `howdah state
import` reads Parquet files of it.")]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// The table: its name, or just the state's if no other table has it
    table: String,
    /// File to write; its name ends with .parquet, .csv or .ndjson. It appears once it is whole
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    version: Version,
    /// How to print what was done
    #[arg(long, value_enum, default_value = "text")]
    output: crate::operate::Output,
}

/// Runs `howdah state export`.
pub(super) fn run(args: &Args) -> Result<()> {
    let format = Format::of(&args.to)?;
    let reader = Location::find(&args.place.place)?.open(&args.table)?;
    let at = args.version.at();
    let schema = reader.schema_at(&at).map_err(super::failure)?;
    let mut exported = 0;
    row_file::create(&args.to, args.force, |file| {
        let mut writer = Writer::new(format, &schema, file)?;
        exported = reader.read_ordered(&at, |batch| writer.write(&batch))?;
        if exported == 0 {
            // The header or the schema all the same.
            writer.write(&arrow_array::RecordBatch::new_empty(schema.clone()))?;
        }
        writer.finish()
    })
    .map_err(named)?;
    let to = args.to.display();
    match args.output {
        crate::operate::Output::Text => {
            writeln!(std::io::stdout(), "{to}: {} rows", HumanCount(exported))?;
        }
        crate::operate::Output::Json => {
            writeln!(std::io::stdout(), "{}", json!({ "file": args.to, "rows": exported }))?;
        }
    }
    Ok(())
}

/// What is not there was named by the caller.
fn named(failure: Failure) -> Failure {
    match failure {
        Failure::Failed(error) => match error.downcast::<Error>() {
            Ok(error) => super::failure(error),
            Err(error) => Failure::Failed(error),
        },
        other => other,
    }
}

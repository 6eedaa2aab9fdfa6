//! `howdah state import`: begins a pipeline with states that are filled with rows from elsewhere.

use crate::directories::DirectoryArgs;
use crate::failure::{Failure, Result};
use crate::operate::Output;
use crate::run::{engine, failure};
use crate::wasi;
use anyhow::Context;
use howdah_pipeline::{Imported, Pipeline, PipelineConfig, StateImport};
use indicatif::HumanCount;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah state import q18.toml last=last.parquet
  howdah state import q9.toml winners.open=open.parquet sellers.stats=stats.parquet
  howdah state import q18.toml last=warehouse/default.db/bids    of a Paimon table

Columns go by name: those of the key, of a map also its map key, of timers also `time`; then those of
the value, of which nullable ones may be left out. Other columns are passed over. Elements of a list
are appended in the order of the file. A time to live begins with the import. A key that is there
twice is an error.

Exit codes: 0 imported; 1 a row cannot be a state, and nothing is left of the import; 2 the pipeline
has state already, or a file lacks columns, and nothing was changed.")]
pub(super) struct Args {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// Each a state, or `operator.state`, and the Parquet file or the directory of the Paimon table
    /// that has its rows
    #[arg(value_name = "STATE=FILE", required = true, value_parser = state_and_file)]
    states: Vec<StateImport>,
    /// How to print what was done
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    directories: DirectoryArgs,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

fn state_and_file(text: &str) -> Result<StateImport, String> {
    match text.split_once('=') {
        Some((state, path)) if !state.is_empty() && !path.is_empty() => {
            Ok(StateImport { state: state.to_owned(), path: PathBuf::from(path) })
        }
        _ => Err("write it as STATE=FILE".to_owned()),
    }
}

/// Runs `howdah state import`.
pub(super) fn run(args: &Args) -> Result<()> {
    let mut config =
        PipelineConfig::load(&args.pipeline).map_err(|error| Failure::Usage(error.into()))?;
    args.directories.grant(&mut config);
    let engine = engine(args.wasi.permission())?;
    let pipeline = Pipeline::prepare(config, &engine).map_err(failure)?;
    let imported = pipeline.import(&args.states).map_err(failure)?;
    let mut out = std::io::stdout().lock();
    match args.output {
        Output::Text => write!(out, "{}", text(&imported))?,
        Output::Json => {
            let line = serde_json::to_string(&imported).context("cannot write JSON")?;
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn text(imported: &Imported) -> String {
    let mut text = String::new();
    for table in &imported.tables {
        let rows = HumanCount(table.rows);
        text.push_str(&format!("{}: {rows} rows of {}\n", table.table, table.path.display()));
        // What is the same on both sides goes without saying.
        let unlike = table.columns.iter().filter(|it| it.found.is_none() || it.wanted.is_none());
        for column in unlike {
            text.push_str(&format!("  column {column}\n"));
        }
    }
    text.push_str(&format!("checkpoint {}: `howdah run` begins there\n", imported.checkpoint));
    text
}

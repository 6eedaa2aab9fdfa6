//! `howdah schema`: what a pipeline file may have.

use crate::failure::Result;
use anyhow::Context;
use howdah_pipeline::{pipeline_file_reference, pipeline_file_schema};
use std::io::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// A JSON Schema, for editors.
    Json,
    /// A page of tables, for readers.
    Markdown,
}

/// Print what a pipeline file may have, as a JSON Schema or as a page
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah schema > pipeline.schema.json     then begin pipeline files with: #:schema pipeline.schema.json
  howdah schema --output markdown")]
pub(crate) struct Args {
    /// What to print
    #[arg(long, value_enum, default_value = "json")]
    output: Output,
}

/// Runs `howdah schema`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let text = match args.output {
        Output::Json => {
            let schema = serde_json::to_string_pretty(&pipeline_file_schema());
            format!("{}\n", schema.context("cannot write JSON")?)
        }
        Output::Markdown => pipeline_file_reference(),
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

//! `howdah checkpoint ls`.

use crate::failure::Result;
use crate::run::failure;
use crate::state::Location;
use crate::table::{self, Output};
use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, StringBuilder, TimestampMillisecondBuilder, UInt64Builder,
};
use howdah_pipeline::{Checkpoint, Checkpoints};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The pipeline file, or the pipeline's state directory
    #[arg(value_name = "PIPELINE.toml|STATE_DIR")]
    place: PathBuf,
    /// How to print them
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// One row for each document; a damaged one has a problem in place of a position.
pub(super) fn run(args: &Args) -> Result<()> {
    let directory = Location::find(&args.place)?.state_directory;
    let pins = Checkpoints::pinned(&directory).map_err(failure)?;
    let entries = Checkpoints::list(&directory).map_err(failure)?;
    let mut id = UInt64Builder::new();
    let mut pinned = BooleanBuilder::new();
    let mut completed = TimestampMillisecondBuilder::new();
    let (mut rows, mut bytes) = (UInt64Builder::new(), UInt64Builder::new());
    let mut watermark = TimestampMillisecondBuilder::new();
    let mut snapshots = StringBuilder::new();
    let mut problem = StringBuilder::new();
    for entry in &entries {
        id.append_value(entry.id);
        pinned.append_value(pins.contains(&entry.id));
        let document = entry.checkpoint.as_ref().ok();
        completed.append_option(document.and_then(|document| i64::try_from(document.time_ms).ok()));
        rows.append_option(document.map(Checkpoint::rows));
        bytes.append_option(document.map(|document| {
            document.sources.iter().filter_map(|source| source.position.byte_offset()).sum()
        }));
        watermark.append_option(document.and_then(Checkpoint::watermark));
        snapshots.append_option(document.map(|document| snapshots_of(document).join(" ")));
        problem.append_option(entry.checkpoint.as_ref().err().map(ToString::to_string));
    }
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("checkpoint", Arc::new(id.finish())),
        ("pinned", Arc::new(pinned.finish())),
        ("completed", Arc::new(completed.finish())),
        ("source_rows", Arc::new(rows.finish())),
        ("source_bytes", Arc::new(bytes.finish())),
        ("watermark", Arc::new(watermark.finish())),
        ("snapshots", Arc::new(snapshots.finish())),
        ("problem", Arc::new(problem.finish())),
    ];
    table::list(columns, args.output)
}

/// The snapshots of all states, as `state=snapshot`; where there are several operators, as
/// `operator.state=snapshot`.
fn snapshots_of(checkpoint: &Checkpoint) -> Vec<String> {
    let several = checkpoint.operators.len() > 1;
    let mut named = Vec::new();
    for operator in &checkpoint.operators {
        let prefix = if several { format!("{}.", operator.name) } else { String::new() };
        for state in &operator.states {
            named.push(format!("{prefix}{}={}", state.state, state.snapshot));
        }
    }
    named
}

//! Reads rows from a file: only the columns that are needed, from any position.

mod chunk;
mod column_builder;
mod csv;
mod infer;
mod ndjson;
mod parquet;
mod plan;
mod reject;
mod rows;
mod start;

use crate::checkpoint::SourcePosition;
use crate::config::{Format, SourceConfig};
use crate::error::Result;
use arrow_array::RecordBatch;
pub(crate) use plan::{FileShape, Plan, Wanted, widens};
pub(crate) use reject::Rejected;
pub(crate) use start::Start;
use std::sync::Arc;

/// Rows that are read before a batch is handed on, at most this many times the rows that
/// the batch may have: a filter that keeps little must not hold up barriers.
const READ_FACTOR: usize = 8;

/// Rows of a source, in the order of the file.
#[derive(Debug)]
pub(crate) struct SourceBatch {
    /// With the columns of the operator's input.
    pub(crate) rows: RecordBatch,
    /// One for each row.
    pub(crate) event_times: Vec<i64>,
    /// Rows that the filter kept out.
    pub(crate) filtered: u64,
    /// Malformed rows, unless they are errors.
    pub(crate) rejected: Vec<Rejected>,
}

/// A file that is read from front to back.
pub(crate) trait Source: Send {
    /// The next rows, `rows_limit` at most; `None` at the end of the file. A batch may be
    /// empty.
    fn next_batch(&mut self, rows_limit: usize) -> Result<Option<SourceBatch>>;

    /// Where the next row is.
    fn position(&self) -> SourcePosition;

    /// The size of the file when it was opened.
    fn length_bytes(&self) -> u64;
}

/// What columns the file has, and of what types they seem to be.
pub(crate) fn inspect(config: &SourceConfig) -> Result<FileShape> {
    match config.format {
        Format::Csv => csv::inspect(config),
        Format::Ndjson => ndjson::inspect(config),
        Format::Parquet => parquet::inspect(config),
    }
}

/// Opens the file at a position; `None`: at its first row.
pub(crate) fn open(
    config: &SourceConfig,
    plan: Arc<Plan>,
    position: Option<SourcePosition>,
) -> Result<Box<dyn Source>> {
    Ok(match config.format {
        Format::Csv => Box::new(csv::CsvSource::open(config, plan, position)?),
        Format::Ndjson => Box::new(ndjson::NdjsonSource::open(config, plan, position)?),
        Format::Parquet => Box::new(parquet::ParquetSource::open(config, plan, position)?),
    })
}

#[cfg(test)]
mod tests;

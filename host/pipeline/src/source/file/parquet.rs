//! Parquet.

use super::{FilePosition, FileReader};
use crate::config::SourceConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::place::Place;
use crate::source::columnar::Columnar;
use crate::source::plan::{FileShape, Plan};
use crate::source::reject::Rejects;
use crate::source::{READ_FACTOR, SourceBatch};
use arrow_array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file says what the columns are.
pub(super) fn inspect(place: &Place) -> Result<FileShape> {
    let builder = open_file(place)?;
    Ok(FileShape::of_schema(builder.schema()))
}

fn open_file(place: &Place) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    ParquetRecordBatchReaderBuilder::try_new(place.open()?).map_err(|error| {
        Error::input(format!(
            "{} is no whole Parquet file: {}; its footer may be cut off",
            place.shown().display(),
            plain(&error)
        ))
    })
}

fn plain(error: &ParquetError) -> String {
    let message = error.to_string();
    message.strip_prefix("Parquet error: ").unwrap_or(&message).to_owned()
}

/// Reads a Parquet file.
pub(super) struct ParquetSource {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
    columnar: Columnar,
    position: FilePosition,
    rows_total: u64,
    length_bytes: u64,
    /// What was read and did not fit into the batch.
    rest: Option<RecordBatch>,
}

/// Rows that are decoded at a time.
const DECODE_ROWS: usize = 8_192;

impl ParquetSource {
    pub(super) fn open(
        place: &Place,
        config: &SourceConfig,
        plan: Arc<Plan>,
        position: Option<FilePosition>,
    ) -> Result<Self> {
        let path = place.shown().to_owned();
        let length = place.open()?.metadata();
        let length = length.map_err(|error| Error::io("read", &path, error))?;
        let builder = open_file(place)?;
        let rows_total =
            u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or_default();
        let position = position.unwrap_or_default();
        if position.rows > rows_total {
            return Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "{} has {rows_total} rows, fewer than the {} that the checkpoint has read; \
                     bring the old file back, or start afresh with --fresh",
                    path.display(),
                    position.rows
                ),
            ));
        }
        let wanted = plan.columns().iter().map(|column| column.name.as_str());
        let mask = ProjectionMask::columns(builder.parquet_schema(), wanted);
        let reader = builder
            .with_projection(mask)
            .with_batch_size(DECODE_ROWS)
            .with_offset(usize::try_from(position.rows).unwrap_or(usize::MAX))
            .build()
            .map_err(|error| damaged(&path, position.rows, &plain(&error)))?;
        Ok(Self {
            reader,
            columnar: Columnar::new(plan, Rejects::new(config)),
            path,
            position,
            rows_total,
            length_bytes: length.len(),
            rest: None,
        })
    }

    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let batch = self.reader.next().transpose();
        batch.map_err(|error| damaged(&self.path, self.position.rows, &error.to_string()))
    }
}

impl FileReader for ParquetSource {
    fn next_batch(&mut self, rows_limit: usize) -> Result<Option<SourceBatch>> {
        let Some(batch) = self.decode()? else { return Ok(None) };
        let limit = rows_limit.saturating_mul(READ_FACTOR).clamp(1, DECODE_ROWS);
        let batch = if batch.num_rows() > limit.min(rows_limit) {
            let limit = limit.min(rows_limit);
            self.rest = Some(batch.slice(limit, batch.num_rows() - limit));
            batch.slice(0, limit)
        } else {
            batch
        };
        let taken = self.columnar.take(&batch, self.position.rows + 1)?;
        self.position.rows += u64::try_from(batch.num_rows()).unwrap_or_default();
        let share = u128::from(self.length_bytes) * u128::from(self.position.rows)
            / u128::from(self.rows_total.max(1));
        self.position.byte_offset = u64::try_from(share).unwrap_or(self.length_bytes);
        Ok(Some(taken))
    }

    fn position(&self) -> FilePosition {
        self.position
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }
}

fn damaged(path: &Path, row: u64, reason: &str) -> Error {
    Error::input(format!(
        "{}: the rows from {} on cannot be read: {reason}",
        path.display(),
        row + 1
    ))
}

#[cfg(test)]
mod tests;

//! Reads a data file through crate `parquet`: whatever another engine made of it, and whole
//! files of ours.

use super::source::FileBytes;
use crate::schema::KEY_GROUP_COLUMN;
use crate::{Column, ColumnType, Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use std::ops::Range;
use std::path::PathBuf;

/// Rows decoded at a time, at most.
const BATCH_ROWS: usize = 8192;
/// Bytes decoded at a time, as far as rows are of about the same size: a merge holds a few batches
/// of each of its inputs, and no array can be larger than 2 GiB.
const BATCH_BYTES: usize = 8 << 20;

/// A file that is read by decoding it.
#[derive(Debug)]
pub(super) struct DecodedFile {
    pub(super) path: PathBuf,
    pub(super) bytes: FileBytes,
    /// Footer and page index. Many times the size of a page directory: kept only where every
    /// probe needs them, otherwise read again.
    metadata: Option<ArrowReaderMetadata>,
}

impl DecodedFile {
    /// The file and its metadata.
    ///
    /// # Errors
    /// `Corrupt` when it is no Parquet file.
    pub(super) fn open(path: PathBuf, bytes: FileBytes) -> Result<(Self, ArrowReaderMetadata)> {
        let file = Self { path, bytes, metadata: None };
        let metadata = file.metadata()?;
        Ok((file, metadata))
    }

    pub(super) fn keep(&mut self, metadata: ArrowReaderMetadata) {
        self.metadata = Some(metadata);
    }

    pub(super) fn corrupt(&self, why: impl std::fmt::Display) -> Error {
        Error::corrupt(format!("data file {} is damaged: {why}", self.path.display()))
    }

    fn metadata(&self) -> Result<ArrowReaderMetadata> {
        if let Some(metadata) = &self.metadata {
            return Ok(metadata.clone());
        }
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        without_panic(|| ArrowReaderMetadata::load(&self.bytes, options))
            .map_err(|why| self.corrupt(why))?
            .map_err(|error| self.corrupt(error))
    }

    /// Decodes some columns, or all, of ranges of rows, or all.
    pub(super) fn batches(
        &self,
        columns: Option<&[usize]>,
        ranges: Option<Vec<Range<u32>>>,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + '_> {
        let metadata = self.metadata()?;
        let mask = match columns {
            Some(columns) => {
                ProjectionMask::leaves(metadata.parquet_schema(), columns.iter().copied())
            }
            None => ProjectionMask::all(),
        };
        let rows = usize::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        let batch_rows = batch_rows(metadata.metadata(), &mask, rows);
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), metadata)
                .with_projection(mask)
                .with_batch_size(batch_rows);
        if let Some(ranges) = ranges {
            let ranges = ranges.iter().map(|range| range.start as usize..range.end as usize);
            builder =
                builder.with_row_selection(RowSelection::from_consecutive_ranges(ranges, rows));
        }
        let mut reader = without_panic(|| builder.build())
            .map_err(|why| self.corrupt(why))?
            .map_err(|error| self.corrupt(error))?;
        Ok(std::iter::from_fn(move || self.next_batch(&mut reader).transpose()))
    }

    fn next_batch(&self, reader: &mut ParquetRecordBatchReader) -> Result<Option<RecordBatch>> {
        without_panic(|| reader.next())
            .map_err(|why| self.corrupt(why))?
            .transpose()
            .map_err(|error| self.corrupt(error))
    }

    /// A column of the table in a decoded batch: widened, or null throughout when the file is
    /// older than the column.
    pub(super) fn column(&self, column: &Column, batch: &RecordBatch) -> Result<ArrayRef> {
        let data_type = column.column_type.to_arrow();
        let array = match batch.column_by_name(&column.name) {
            Some(array) => arrow_cast::cast(array, &data_type)
                .map_err(|error| self.corrupt(format!("column `{}`: {error}", column.name)))?,
            None if column.nullable => new_null_array(&data_type, batch.num_rows()),
            None => return Err(self.corrupt(format!("column `{}` is missing", column.name))),
        };
        if !column.nullable && array.null_count() > 0 {
            return Err(self.corrupt(format!("column `{}` has rows without a value", column.name)));
        }
        Ok(array)
    }

    /// Reads the `kg` column once: rows are sorted by it. The first row of each key group, and
    /// the number of rows at the end.
    pub(super) fn group_starts(&self, column: usize, groups: u32, rows: u32) -> Result<Vec<u32>> {
        let mut starts = Vec::with_capacity(groups as usize + 1);
        let mut row = 0;
        for batch in self.batches(Some(&[column]), None)? {
            let array =
                self.column(&Column::required(KEY_GROUP_COLUMN, ColumnType::Int32), &batch?)?;
            for &group in array.as_primitive::<Int32Type>().values() {
                let group = u32::try_from(group).unwrap_or(u32::MAX);
                if group >= groups || (group as usize) + 1 < starts.len() {
                    return Err(self.corrupt(format!("key group {group} is out of order")));
                }
                starts.resize((group as usize + 1).max(starts.len()), row);
                row += 1;
            }
        }
        if row != rows {
            return Err(self.corrupt(format!("`kg` has {row} values for {rows} rows")));
        }
        starts.resize(groups as usize + 1, row);
        Ok(starts)
    }
}

/// How many rows of these columns to decode at a time.
fn batch_rows(metadata: &ParquetMetaData, mask: &ProjectionMask, rows: usize) -> usize {
    let bytes: usize = metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns().iter().enumerate())
        .filter(|(column, _)| mask.leaf_included(*column))
        .map(|(_, column)| usize::try_from(column.uncompressed_size()).unwrap_or(0))
        .fold(0, usize::saturating_add);
    let row_bytes = bytes / rows.max(1);
    (BATCH_BYTES / row_bytes.max(1)).clamp(1, BATCH_ROWS)
}

/// Crate `parquet` panics on some damaged files; a host may not.
pub(super) fn without_panic<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .map_err(|_| "its pages do not fit together".to_owned())
}

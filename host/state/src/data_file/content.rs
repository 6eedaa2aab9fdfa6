//! What is in a data file, and how to find rows in it.
#![expect(
    clippy::indexing_slicing,
    reason = "page offsets are checked against the file once, when it is opened"
)]

use super::mapping;
use crate::file_system::FileSystem;
use crate::key::{EncodedKeys, write_eight, write_four};
use crate::schema::{KEY_GROUP_COLUMN, TableSchema};
use crate::value_column::{SourceColumn, ValueColumn};
use crate::{Column, ColumnType, Error, ErrorKind, KeyEncoder, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use parquet::file::metadata::PageIndexPolicy;
use std::cmp::Ordering;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// An open, mapped data file.
#[derive(Debug)]
pub(crate) struct Content {
    path: PathBuf,
    bytes: Bytes,
    metadata: ArrowReaderMetadata,
    rows: u32,
    /// First row of each key group, and the number of rows at the end.
    group_starts: Vec<u32>,
    key: Vec<FileColumn>,
    value: Vec<FileColumn>,
}

/// A column of the table in this file.
#[derive(Debug)]
struct FileColumn {
    /// Index of the column in the file.
    index: usize,
    column: Column,
    /// `None`: has to be decoded.
    in_place: Option<InPlaceColumn>,
}

/// A column whose values lie packed in the mapped file.
#[derive(Debug)]
struct InPlaceColumn {
    width: usize,
    /// First row of each page, ascending.
    first_rows: Vec<u32>,
    /// Where in the file the values of each page begin.
    offsets: Vec<usize>,
}

impl InPlaceColumn {
    fn value<'a>(&self, bytes: &'a [u8], row: u32) -> &'a [u8] {
        let page = self.first_rows.partition_point(|&first| first <= row) - 1;
        let start = self.offsets[page] + (row - self.first_rows[page]) as usize * self.width;
        &bytes[start..start + self.width]
    }
}

/// A key that is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeKey<'a> {
    pub(crate) group: u32,
    pub(crate) key: &'a [u8],
    /// The caller's number for it.
    pub(crate) index: u32,
}

impl Content {
    /// Opens and checks a file; `row_count` is what the metadata says.
    ///
    /// # Errors
    /// `Corrupt` when the file is not what its metadata says.
    pub(crate) fn open(
        files: &FileSystem,
        path: &Path,
        schema: &TableSchema,
        row_count: i64,
    ) -> Result<Self> {
        let corrupt = |why: String| {
            Error::new(
                ErrorKind::Corrupt,
                format!("data file {} is damaged: {why}", path.display()),
            )
        };
        let bytes = mapping::map(files, path)?;
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = without_panic(|| ArrowReaderMetadata::load(&bytes, options))
            .map_err(corrupt)?
            .map_err(|error| corrupt(error.to_string()))?;
        let rows = u32::try_from(metadata.metadata().file_metadata().num_rows())
            .ok()
            .filter(|&rows| i64::from(rows) == row_count)
            .ok_or_else(|| corrupt(format!("it should have {row_count} rows")))?;
        let file_column = |column: &Column| -> Result<FileColumn> {
            let index = metadata
                .parquet_schema()
                .columns()
                .iter()
                .position(|found| found.name() == column.name)
                .ok_or_else(|| corrupt(format!("column `{}` is missing", column.name)))?;
            let in_place = in_place(&metadata, &bytes, index, column);
            Ok(FileColumn { index, column: column.clone(), in_place })
        };
        let key = schema.key().iter().map(&file_column).collect::<Result<_>>()?;
        let value = schema.value.iter().map(&file_column).collect::<Result<_>>()?;
        let group_column =
            file_column(&Column::required(KEY_GROUP_COLUMN, ColumnType::Int32))?.index;
        let mut content = Self {
            path: path.to_owned(),
            bytes,
            metadata,
            rows,
            group_starts: Vec::new(),
            key,
            value,
        };
        content.group_starts =
            content.read_group_starts(group_column, schema.key_groups.count())?;
        Ok(content)
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    fn corrupt(&self, why: impl std::fmt::Display) -> Error {
        Error::corrupt(format!("data file {} is damaged: {why}", self.path.display()))
    }

    /// Reads the `kg` column once: rows are sorted by it.
    fn read_group_starts(&self, column: usize, groups: u32) -> Result<Vec<u32>> {
        let mut starts = Vec::with_capacity(groups as usize + 1);
        let mut row = 0;
        let mask = ProjectionMask::leaves(self.metadata.parquet_schema(), [column]);
        let mut reader = self.reader(mask, None)?;
        while let Some(batch) = self.next_batch(&mut reader)? {
            let array = batch.column(0);
            if array.data_type() != &ColumnType::Int32.to_arrow() {
                return Err(self.corrupt("`kg` is no INT"));
            }
            for &group in array.as_primitive::<Int32Type>().values() {
                let group = u32::try_from(group).unwrap_or(u32::MAX);
                if group >= groups || (group as usize) + 1 < starts.len() {
                    return Err(self.corrupt(format!("key group {group} is out of order")));
                }
                starts.resize((group as usize + 1).max(starts.len()), row);
                row += 1;
            }
        }
        if row != self.rows {
            return Err(self.corrupt(format!("`kg` has {row} values for {} rows", self.rows)));
        }
        starts.resize(groups as usize + 1, row);
        Ok(starts)
    }

    fn reader(
        &self,
        mask: ProjectionMask,
        selection: Option<RowSelection>,
    ) -> Result<ParquetRecordBatchReader> {
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.bytes.clone(),
            self.metadata.clone(),
        )
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS);
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        without_panic(|| builder.build())
            .map_err(|why| self.corrupt(why))?
            .map_err(|error| self.corrupt(error))
    }

    fn next_batch(&self, reader: &mut ParquetRecordBatchReader) -> Result<Option<RecordBatch>> {
        without_panic(|| reader.next())
            .map_err(|why| self.corrupt(why))?
            .transpose()
            .map_err(|error| self.corrupt(error))
    }

    /// The rows of these keys, as (number of the key, row), by ascending row. `keys` are sorted
    /// by key group and key.
    pub(crate) fn find(
        &self,
        encoder: &KeyEncoder,
        keys: &[ProbeKey<'_>],
    ) -> Result<Vec<(u32, u32)>> {
        let found = if self.key.iter().all(|column| column.in_place.is_some()) {
            self.find_in_place(keys)
        } else {
            self.find_decoded(encoder, keys)?
        };
        if !found.is_sorted_by(|a, b| a.1 < b.1) {
            return Err(self.corrupt("its keys are out of order"));
        }
        Ok(found)
    }

    fn group_rows(&self, group: u32) -> Range<u32> {
        let group = group as usize;
        match (self.group_starts.get(group), self.group_starts.get(group + 1)) {
            (Some(&start), Some(&end)) => start..end,
            _ => 0..0,
        }
    }

    /// The rows of a key group whose encoded keys are at least `from` and less than `to`; both may
    /// be the beginning of a key.
    pub(crate) fn range(
        &self,
        encoder: &KeyEncoder,
        group: u32,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Range<u32>> {
        let rows = self.group_rows(group);
        let (keys, _) = self.decode_keys(encoder, std::slice::from_ref(&rows))?;
        let first_not_before = |bound: &[u8]| {
            let (mut low, mut high) = (0, keys.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if keys.key(middle) < bound { low = middle + 1 } else { high = middle }
            }
            // No more keys than rows, which are counted in 32 bits.
            rows.start + u32::try_from(low).unwrap_or(u32::MAX)
        };
        let start = first_not_before(from);
        let end = to.map_or(rows.end, first_not_before);
        Ok(start..end.max(start))
    }

    /// The encoded keys of these rows (ascending), one each, in this order.
    pub(crate) fn keys(&self, encoder: &KeyEncoder, rows: &[u32]) -> Result<EncodedKeys> {
        Ok(self.decode_keys(encoder, &consecutive(rows))?.0)
    }

    /// Binary search in the mapped key pages.
    fn find_in_place(&self, keys: &[ProbeKey<'_>]) -> Vec<(u32, u32)> {
        let columns: Vec<_> = self
            .key
            .iter()
            .filter_map(|column| Some((column.in_place.as_ref()?, column.column.column_type)))
            .collect();
        let mut scratch = Vec::with_capacity(32);
        let mut found = Vec::new();
        for key in keys {
            let mut range = self.group_rows(key.group);
            while !range.is_empty() {
                let middle = range.start + (range.end - range.start) / 2;
                match compare_row(&columns, &self.bytes, middle, key.key, &mut scratch) {
                    Ordering::Less => range.start = middle + 1,
                    Ordering::Greater => range.end = middle,
                    Ordering::Equal => {
                        found.push((key.index, middle));
                        break;
                    }
                }
            }
        }
        found
    }

    /// Decodes the key groups that are asked for and searches them.
    fn find_decoded(&self, encoder: &KeyEncoder, keys: &[ProbeKey<'_>]) -> Result<Vec<(u32, u32)>> {
        let mut groups: Vec<Range<u32>> = Vec::new();
        for key in keys {
            let range = self.group_rows(key.group);
            if !range.is_empty() && groups.last() != Some(&range) {
                groups.push(range);
            }
        }
        let (encoded, rows) = self.decode_keys(encoder, &groups)?;
        let mut found = Vec::new();
        for key in keys {
            let group = self.group_rows(key.group);
            let start = rows.partition_point(|&row| row < group.start);
            let end = rows.partition_point(|&row| row < group.end);
            let (mut low, mut high) = (start, end);
            while low < high {
                let middle = low + (high - low) / 2;
                match encoded.key(middle).cmp(key.key) {
                    Ordering::Less => low = middle + 1,
                    Ordering::Greater => high = middle,
                    Ordering::Equal => {
                        found.push((key.index, rows[middle]));
                        break;
                    }
                }
            }
        }
        Ok(found)
    }

    /// The keys of ranges of rows, with their row numbers.
    fn decode_keys(
        &self,
        encoder: &KeyEncoder,
        ranges: &[Range<u32>],
    ) -> Result<(EncodedKeys, Vec<u32>)> {
        let rows: Vec<u32> = ranges.iter().cloned().flatten().collect();
        let mut encoded = EncodedKeys::with_capacity(rows.len(), rows.len() * 16);
        if rows.is_empty() {
            return Ok((encoded, rows));
        }
        let columns: Vec<&FileColumn> = self.key.iter().collect();
        self.decode(&columns, ranges.iter().cloned(), |arrays| {
            encoded.append(&encoder.encode(&arrays)?)
        })?;
        if encoded.len() != rows.len() {
            return Err(self.corrupt("key columns have other lengths than they should"));
        }
        Ok((encoded, rows))
    }

    /// Decodes columns for ranges of rows, batch by batch.
    fn decode(
        &self,
        columns: &[&FileColumn],
        ranges: impl Iterator<Item = Range<u32>>,
        mut each: impl FnMut(Vec<ArrayRef>) -> Result<()>,
    ) -> Result<()> {
        let ranges = ranges.map(|range| range.start as usize..range.end as usize);
        let selection = RowSelection::from_consecutive_ranges(ranges, self.rows as usize);
        let mask = ProjectionMask::leaves(
            self.metadata.parquet_schema(),
            columns.iter().map(|column| column.index),
        );
        let mut reader = self.reader(mask, Some(selection))?;
        while let Some(batch) = self.next_batch(&mut reader)? {
            each(self.arrange(columns, &batch)?)?;
        }
        Ok(())
    }

    /// The columns of a decoded batch in the order and types asked for.
    fn arrange(&self, columns: &[&FileColumn], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        columns
            .iter()
            .map(|FileColumn { column, .. }| {
                let array = batch
                    .column_by_name(&column.name)
                    .ok_or_else(|| self.corrupt(format!("column `{}` is missing", column.name)))?;
                arrow_cast::cast(array, &column.column_type.to_arrow())
                    .map_err(|error| self.corrupt(format!("column `{}`: {error}", column.name)))
            })
            .collect()
    }

    /// The value columns of these rows (ascending), one row each, in this order.
    pub(crate) fn values(&self, rows: &[u32]) -> Result<Vec<ValueColumn>> {
        let mut values: Vec<ValueColumn> =
            self.value.iter().map(|column| ValueColumn::new(&column.column)).collect();
        let mut decoded = Vec::new();
        for (at, column) in self.value.iter().enumerate() {
            match &column.in_place {
                Some(in_place) => {
                    for &row in rows {
                        values[at].push_fixed(in_place.value(&self.bytes, row));
                    }
                }
                None => decoded.push((at, column)),
            }
        }
        if decoded.is_empty() || rows.is_empty() {
            return Ok(values);
        }
        let columns: Vec<&FileColumn> = decoded.iter().map(|&(_, column)| column).collect();
        self.decode(&columns, consecutive(rows).into_iter(), |arrays| {
            for ((at, column), array) in decoded.iter().zip(&arrays) {
                let source = SourceColumn::new(&column.column, array)
                    .map_err(|error| self.corrupt(error))?;
                let target = &mut values[*at];
                for from in 0..array.len() {
                    target.push_empty();
                    let last = target.rows() - 1;
                    target.set(last, &source, from);
                }
            }
            Ok(())
        })?;
        if values.iter().any(|column| column.rows() != rows.len()) {
            return Err(self.corrupt("value columns have other lengths than they should"));
        }
        Ok(values)
    }

    /// Reads rows that are not in `deleted`, in file order: sequence numbers, key groups, key
    /// columns and value columns.
    pub(crate) fn scan(
        &self,
        deleted: &roaring::RoaringBitmap,
    ) -> Result<impl Iterator<Item = Result<ScannedRows>> + '_> {
        let live = live_ranges(self.rows, deleted);
        let selection = RowSelection::from_consecutive_ranges(
            live.iter().map(|range| range.start as usize..range.end as usize),
            self.rows as usize,
        );
        let mut reader = self.reader(ProjectionMask::all(), Some(selection))?;
        let mut positions = live.into_iter().flatten();
        let batches = std::iter::from_fn(move || self.next_batch(&mut reader).transpose());
        Ok(batches.map(move |batch| {
            let batch = batch?;
            let rows: Vec<u32> = positions.by_ref().take(batch.num_rows()).collect();
            self.scanned(&batch, rows)
        }))
    }

    fn scanned(&self, batch: &RecordBatch, rows: Vec<u32>) -> Result<ScannedRows> {
        let system = |name: &str, column_type: ColumnType| -> Result<ArrayRef> {
            let array = batch
                .column_by_name(name)
                .ok_or_else(|| self.corrupt(format!("column `{name}` is missing")))?;
            arrow_cast::cast(array, &column_type.to_arrow()).map_err(|error| self.corrupt(error))
        };
        let key: Vec<&FileColumn> = self.key.iter().collect();
        let value: Vec<&FileColumn> = self.value.iter().collect();
        Ok(ScannedRows {
            rows,
            sequence_numbers: system("_SEQUENCE_NUMBER", ColumnType::Int64)?,
            key_groups: system(KEY_GROUP_COLUMN, ColumnType::Int32)?,
            key: self.arrange(&key, batch)?,
            value: self.arrange(&value, batch)?,
        })
    }
}

/// Crate `parquet` panics on some damaged files; a host may not.
fn without_panic<T>(work: impl FnOnce() -> T) -> std::result::Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .map_err(|_| "its pages do not fit together".to_owned())
}

/// A batch of a scan.
pub(crate) struct ScannedRows {
    /// Row numbers in the file.
    pub(crate) rows: Vec<u32>,
    /// `Int64`.
    pub(crate) sequence_numbers: ArrayRef,
    /// `Int32`.
    pub(crate) key_groups: ArrayRef,
    pub(crate) key: Vec<ArrayRef>,
    pub(crate) value: Vec<ArrayRef>,
}

/// The ranges of rows that are not in `deleted`.
fn live_ranges(rows: u32, deleted: &roaring::RoaringBitmap) -> Vec<Range<u32>> {
    let mut live = Vec::new();
    let mut start = 0;
    for dead in deleted.iter().take_while(|&row| row < rows) {
        if start < dead {
            live.push(start..dead);
        }
        start = dead + 1;
    }
    if start < rows {
        live.push(start..rows);
    }
    live
}

/// Ascending rows as ranges.
fn consecutive(rows: &[u32]) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for &row in rows {
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end = row + 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}

/// Compares the key of a row with an encoded key, column by column.
fn compare_row(
    columns: &[(&InPlaceColumn, ColumnType)],
    bytes: &[u8],
    row: u32,
    key: &[u8],
    scratch: &mut Vec<u8>,
) -> Ordering {
    let mut rest = key;
    for (column, _) in columns {
        scratch.clear();
        let value = column.value(bytes, row);
        // In-place key columns are integers of four or eight bytes.
        if let Ok(value) = <[u8; 4]>::try_from(value) {
            write_four(i32::from_le_bytes(value), scratch);
        } else if let Ok(value) = <[u8; 8]>::try_from(value) {
            write_eight(i64::from_le_bytes(value), scratch);
        }
        let (wanted, following) = rest.split_at(scratch.len().min(rest.len()));
        match scratch.as_slice().cmp(wanted) {
            Ordering::Equal => rest = following,
            unequal => return unequal,
        }
    }
    Ordering::Equal
}

/// Where the values of a column lie, if they can be read in place: fixed width, no nulls,
/// uncompressed, PLAIN, with an offset index.
fn in_place(
    metadata: &ArrowReaderMetadata,
    bytes: &[u8],
    index: usize,
    column: &Column,
) -> Option<InPlaceColumn> {
    let width = match column.column_type {
        // Parquet stores decimals big-endian or narrowed.
        ColumnType::Decimal128 { .. } => return None,
        other => other.width_bytes()?,
    };
    let descriptor = metadata.parquet_schema().columns().get(index)?;
    let physical_width = match descriptor.physical_type() {
        PhysicalType::INT32 | PhysicalType::FLOAT => 4,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 8,
        _ => return None,
    };
    // The logical type decides the unit of times.
    let data_type = metadata.schema().fields().get(index)?.data_type();
    let flat = descriptor.max_def_level() == 0 && descriptor.max_rep_level() == 0;
    if !flat || data_type != &column.column_type.to_arrow() || physical_width != width {
        return None;
    }
    let offset_index = metadata.metadata().offset_index()?;
    let mut pages = InPlaceColumn { width, first_rows: Vec::new(), offsets: Vec::new() };
    let mut first_row_of_group = 0_i64;
    for (group, locations) in metadata.metadata().row_groups().iter().zip(offset_index) {
        let chunk = group.columns().get(index)?;
        let plain = chunk.compression() == Compression::UNCOMPRESSED
            && chunk.dictionary_page_offset().is_none()
            && chunk
                .encodings()
                .all(|encoding| matches!(encoding, Encoding::PLAIN | Encoding::RLE));
        if !plain {
            return None;
        }
        let locations = locations.get(index)?.page_locations();
        for (at, page) in locations.iter().enumerate() {
            let next = locations.get(at + 1).map_or(group.num_rows(), |next| next.first_row_index);
            let rows = usize::try_from(next.checked_sub(page.first_row_index)?).ok()?;
            // Without levels, the values are the end of the page.
            let start = usize::try_from(page.offset).ok()?;
            let end = start.checked_add(usize::try_from(page.compressed_page_size).ok()?)?;
            let values = end.checked_sub(rows.checked_mul(width)?)?;
            if values <= start || end > bytes.len() {
                return None;
            }
            let first_row = first_row_of_group.checked_add(page.first_row_index)?;
            pages.first_rows.push(u32::try_from(first_row).ok()?);
            pages.offsets.push(values);
        }
        first_row_of_group = first_row_of_group.checked_add(group.num_rows())?;
    }
    let ascending = pages.first_rows.first() == Some(&0) && pages.first_rows.is_sorted();
    (ascending && first_row_of_group == metadata.metadata().file_metadata().num_rows())
        .then_some(pages)
}

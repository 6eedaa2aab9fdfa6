//! What is in a data file, and how to find rows in it.

use super::decoded::{DecodedFile, without_panic};
use super::expiry::expiry_range_ms;
use super::plain::{self, PlainColumn};
use super::pruning::KeyPages;
use super::sidecar::{DamagedSidecar, Sidecar};
use super::source::{FileBytes, PageReader};
use crate::file_system::FileSystem;
use crate::key::{EncodedKeys, beginning};
use crate::schema::{KEY_GROUP_COLUMN, TableSchema};
use crate::value_column::{SourceColumn, ValueColumn};
use crate::{Column, ColumnType, KeyEncoder, Result};
use arrow_array::{ArrayRef, RecordBatch};
use paimon::spec::DataFileMeta;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

/// An open data file.
#[derive(Debug)]
pub(crate) struct Content {
    file: DecodedFile,
    rows: u32,
    /// First row of each key group, and the number of rows at the end.
    group_starts: Vec<u32>,
    sidecar: Option<Sidecar>,
    /// When a file has to be decoded and has a page index.
    key_pages: Option<KeyPages>,
    key: Vec<FileColumn>,
    value: Vec<FileColumn>,
    expiry_range_ms: Option<RangeInclusive<i64>>,
}

/// A column of the table in this file.
#[derive(Debug)]
struct FileColumn {
    column: Column,
    stored: Stored,
}

#[derive(Debug)]
enum Stored {
    InPlace(PlainColumn),
    /// Has to be decoded: its number in the file.
    Decoded(usize),
    /// The file is older than the column: null throughout.
    Missing,
}

/// A key that is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeKey<'a> {
    pub(crate) group: u32,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    /// The first eight bytes of the key, as a number of the same order.
    pub(crate) beginning: u64,
    /// The caller's number for it.
    pub(crate) index: u32,
}

impl<'a> ProbeKey<'a> {
    pub(crate) fn new(group: u32, key: &'a [u8], hash: u64, index: u32) -> Self {
        let beginning = beginning(key);
        Self { group, key, hash, beginning, index }
    }
}

impl Content {
    /// Opens and checks a file of a bucket's directory.
    ///
    /// # Errors
    /// `Corrupt` when the file is not what its metadata says.
    pub(crate) fn open(
        files: &FileSystem,
        directory: &Path,
        meta: &DataFileMeta,
        schema: &TableSchema,
        damaged: DamagedSidecar,
    ) -> Result<Self> {
        let path = directory.join(&meta.file_name);
        let sidecar = Sidecar::open(files, directory, meta, damaged)?;
        let bytes = FileBytes::open(files, &path)?;
        Self::of_bytes(path, bytes, sidecar, meta.row_count, schema)
    }

    fn of_bytes(
        path: PathBuf,
        bytes: FileBytes,
        sidecar: Option<Sidecar>,
        row_count: i64,
        schema: &TableSchema,
    ) -> Result<Self> {
        let (mut file, metadata) = DecodedFile::open(path, bytes)?;
        let rows = u32::try_from(metadata.metadata().file_metadata().num_rows())
            .ok()
            .filter(|&rows| i64::from(rows) == row_count)
            .ok_or_else(|| file.corrupt(format!("it should have {row_count} rows")))?;
        let open_column = |column: &Column| open_column(&file, &metadata, column);
        let mut key: Vec<FileColumn> =
            schema.key().iter().map(open_column).collect::<Result<_>>()?;
        let value: Vec<FileColumn> = schema.value.iter().map(open_column).collect::<Result<_>>()?;
        for column in &mut key {
            if !matches!(&column.stored, Stored::InPlace(plain) if plain.is_key()) {
                column.stored = Stored::Decoded(column_index(&file, &metadata, &column.column)?);
            }
        }
        let groups = Column::required(KEY_GROUP_COLUMN, ColumnType::Int32);
        let groups = column_index(&file, &metadata, &groups)?;
        let group_starts = file.group_starts(groups, schema.key_groups.count(), rows)?;
        let expiry_range_ms = expiry_range_ms(metadata.metadata(), schema);
        let decoded = |column: &FileColumn| matches!(column.stored, Stored::Decoded(_));
        let key_pages = match key.first() {
            Some(first) if key.iter().any(decoded) => {
                let index = column_index(&file, &metadata, &first.column)?;
                KeyPages::new(&metadata, index, &first.column, file.bytes.length_bytes())
            }
            _ => None,
        };
        if key.iter().chain(&value).any(decoded) {
            file.keep(metadata);
        }
        Ok(Self { file, rows, group_starts, sidecar, key_pages, key, value, expiry_range_ms })
    }

    /// A file that lies in memory, without a sidecar.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn in_memory(bytes: Vec<u8>, row_count: i64, schema: &TableSchema) -> Result<Self> {
        let bytes = FileBytes::Mapped(bytes.into());
        Self::of_bytes(PathBuf::from("memory"), bytes, None, row_count, schema)
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// When the first and the last row with a time to live end, in milliseconds since the Unix
    /// epoch; `None` when rows have none, or another engine wrote the file and did not say.
    pub(crate) fn expiry_range_ms(&self) -> Option<&RangeInclusive<i64>> {
        self.expiry_range_ms.as_ref()
    }

    /// Compares every byte of the file with the checksum in its sidecar; without one, nothing.
    ///
    /// # Errors
    /// `Corrupt` when they differ.
    pub(crate) fn verify(&self) -> Result<()> {
        let Some(sidecar) = &self.sidecar else { return Ok(()) };
        if self.file.bytes.length_bytes() == sidecar.data_bytes
            && self.file.bytes.checksum()? == sidecar.data_checksum
        {
            return Ok(());
        }
        Err(self.file.corrupt("its checksum does not match; restore from an earlier checkpoint"))
    }

    /// False when a key is certainly not in the file.
    pub(crate) fn may_have(&self, key: &ProbeKey<'_>) -> bool {
        self.sidecar.as_ref().is_none_or(|sidecar| sidecar.may_have(key.group, key.hash))
    }

    /// Whether all columns are read in place.
    #[cfg(test)]
    pub(super) fn is_in_place(&self) -> bool {
        self.key.iter().chain(&self.value).all(|column| matches!(column.stored, Stored::InPlace(_)))
    }

    /// Bytes of the page directories in memory.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let columns = self.key.iter().chain(&self.value);
        let directories = columns.map(|column| match &column.stored {
            Stored::InPlace(plain) => plain.memory_bytes(),
            Stored::Decoded(_) | Stored::Missing => 0,
        });
        directories.sum::<usize>() + self.group_starts.capacity() * 4
    }

    fn reader(&self) -> PageReader<'_> {
        PageReader::new(&self.file.bytes, &self.file.path)
    }

    /// The rows of these keys, as (number of the key, row), by ascending row. `keys` are sorted
    /// by key group and key.
    pub(crate) fn find(
        &self,
        encoder: &KeyEncoder,
        keys: &[ProbeKey<'_>],
    ) -> Result<Vec<(u32, u32)>> {
        let found = match self.plain_key() {
            Some(columns) => self.find_in_place(&columns, keys)?,
            None => self.find_decoded(encoder, keys)?,
        };
        if !found.is_sorted_by(|a, b| a.1 < b.1) {
            return Err(self.file.corrupt("its keys are out of order"));
        }
        Ok(found)
    }

    /// The key columns, when all can be searched in place.
    fn plain_key(&self) -> Option<Vec<(&PlainColumn, ColumnType)>> {
        self.key
            .iter()
            .map(|FileColumn { column, stored }| match stored {
                Stored::InPlace(plain) => Some((plain, column.column_type)),
                Stored::Decoded(_) | Stored::Missing => None,
            })
            .collect()
    }

    /// The rows of a key group.
    pub(crate) fn group_rows(&self, group: u32) -> Range<u32> {
        let group = group as usize;
        match (self.group_starts.get(group), self.group_starts.get(group + 1)) {
            (Some(&start), Some(&end)) => start..end,
            _ => 0..0,
        }
    }

    fn find_in_place(
        &self,
        columns: &[(&PlainColumn, ColumnType)],
        keys: &[ProbeKey<'_>],
    ) -> Result<Vec<(u32, u32)>> {
        let mut reader = self.reader();
        if let [(column, column_type)] = columns {
            let keys = keys.iter().map(|key| (self.group_rows(key.group), key.key, key.index));
            if let Some(found) = plain::find_integers(column, *column_type, keys, &mut reader)? {
                return Ok(found);
            }
        }
        let mut found = Vec::new();
        for key in keys {
            let rows = self.group_rows(key.group);
            if let Some(row) = plain::find(columns, rows, key.key, &mut reader)? {
                found.push((key.index, row));
            }
        }
        Ok(found)
    }

    /// The rows of a file that has to be decoded which may have one of these keys, ascending.
    pub(super) fn candidates(&self, keys: &[ProbeKey<'_>]) -> Vec<Range<u32>> {
        let mut candidates: Vec<Range<u32>> = Vec::new();
        for key in keys {
            let rows = self.group_rows(key.group);
            match &self.key_pages {
                _ if rows.is_empty() => {}
                Some(pages) => candidates.extend(pages.candidates(rows, key.key)),
                None => candidates.push(rows),
            }
        }
        candidates.sort_unstable_by_key(|rows| rows.start);
        let mut together: Vec<Range<u32>> = Vec::new();
        for rows in candidates {
            match together.last_mut() {
                Some(last) if rows.start <= last.end => last.end = last.end.max(rows.end),
                _ => together.push(rows),
            }
        }
        together
    }

    /// Decodes the rows that may have the keys and searches them.
    fn find_decoded(&self, encoder: &KeyEncoder, keys: &[ProbeKey<'_>]) -> Result<Vec<(u32, u32)>> {
        let candidates = self.candidates(keys);
        let encoded = self.keys_of(encoder, &candidates)?;
        let rows: Vec<u32> = candidates.into_iter().flatten().collect();
        let mut found = Vec::new();
        for key in keys {
            let group = self.group_rows(key.group);
            let mut low = rows.partition_point(|&row| row < group.start);
            let mut high = rows.partition_point(|&row| row < group.end);
            while low < high {
                let middle = low + (high - low) / 2;
                match encoded.key(middle).cmp(key.key) {
                    Ordering::Less => low = middle + 1,
                    Ordering::Greater => high = middle,
                    Ordering::Equal => {
                        found.extend(rows.get(middle).map(|&row| (key.index, row)));
                        break;
                    }
                }
            }
        }
        Ok(found)
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
        if rows.is_empty() {
            return Ok(rows);
        }
        // What has to be decoded is decoded once; what can be read in place, row by row.
        let plain = self.plain_key();
        let whole = match &plain {
            Some(_) => EncodedKeys::default(),
            None => self.keys_of(encoder, std::slice::from_ref(&rows))?,
        };
        let mut reader = self.reader();
        let mut scratch = Vec::new();
        let mut first_not_before = |mut within: Range<u32>, bound: &[u8]| -> Result<u32> {
            while !within.is_empty() {
                let middle = within.start + (within.end - within.start) / 2;
                let is_before = match &plain {
                    Some(columns) => {
                        plain::is_before(columns, middle, bound, &mut reader, &mut scratch)?
                    }
                    None => whole.key((middle - rows.start) as usize) < bound,
                };
                if is_before { within.start = middle + 1 } else { within.end = middle }
            }
            Ok(within.start)
        };
        let start = match from.is_empty() {
            true => rows.start,
            false => first_not_before(rows.clone(), from)?,
        };
        let end = match to {
            Some(to) => first_not_before(start..rows.end, to)?,
            None => rows.end,
        };
        Ok(start..end)
    }

    /// The encoded keys of these rows (ascending), one each, in this order.
    pub(crate) fn keys(&self, encoder: &KeyEncoder, rows: &[u32]) -> Result<EncodedKeys> {
        let columns: Vec<&FileColumn> = self.key.iter().collect();
        let every: Vec<Option<u32>> = (0_u32..).zip(rows).map(|(row, _)| Some(row)).collect();
        let arrays: Vec<ArrayRef> = self
            .read(&columns, rows)?
            .iter()
            .map(|column| column.gather(&every))
            .collect::<Result<_>>()?;
        encoder.encode(&arrays)
    }

    /// The encoded keys of ranges of rows.
    fn keys_of(&self, encoder: &KeyEncoder, ranges: &[Range<u32>]) -> Result<EncodedKeys> {
        let rows: Vec<u32> = ranges.iter().cloned().flatten().collect();
        self.keys(encoder, &rows)
    }

    /// Value columns of these rows (ascending), one row each, in this order: those that are asked
    /// for, in that order, or all.
    pub(crate) fn values(
        &self,
        rows: &[u32],
        columns: Option<&[usize]>,
    ) -> Result<Vec<ValueColumn>> {
        let columns: Vec<&FileColumn> = match columns {
            None => self.value.iter().collect(),
            Some(columns) => columns.iter().filter_map(|&column| self.value.get(column)).collect(),
        };
        self.read(&columns, rows)
    }

    fn read(&self, columns: &[&FileColumn], rows: &[u32]) -> Result<Vec<ValueColumn>> {
        let mut values: Vec<ValueColumn> =
            columns.iter().map(|column| ValueColumn::new(&column.column)).collect();
        let mut reader = self.reader();
        let mut decoded = Vec::new();
        for (target, FileColumn { column, stored }) in values.iter_mut().zip(columns) {
            match stored {
                Stored::InPlace(plain) => {
                    plain.read(rows, &mut reader, target)?;
                    if !column.nullable && target.has_nulls() {
                        let name = &column.name;
                        return Err(self
                            .file
                            .corrupt(format!("column `{name}` has rows without a value")));
                    }
                }
                Stored::Decoded(index) => decoded.push((*index, column, target)),
                Stored::Missing => rows.iter().for_each(|_| target.push_empty()),
            }
        }
        if !decoded.is_empty() && !rows.is_empty() {
            self.decode(&mut decoded, rows)?;
        }
        Ok(values)
    }

    fn decode(
        &self,
        targets: &mut [(usize, &Column, &mut ValueColumn)],
        rows: &[u32],
    ) -> Result<()> {
        let indices: Vec<usize> = targets.iter().map(|(index, ..)| *index).collect();
        for batch in self.file.batches(Some(&indices), Some(consecutive(rows)))? {
            let batch = batch?;
            for (_, column, target) in targets.iter_mut() {
                let array = self.file.column(column, &batch)?;
                let source =
                    SourceColumn::new(column, &array).map_err(|error| self.file.corrupt(error))?;
                for from in 0..array.len() {
                    target.push_empty();
                    target.set(target.rows() - 1, &source, from);
                }
            }
        }
        if targets.iter().any(|(.., target)| target.rows() != rows.len()) {
            return Err(self.file.corrupt("columns have other lengths than they should"));
        }
        Ok(())
    }

    /// Reads rows that are not in `deleted`, in file order: sequence numbers, key groups, key
    /// columns and value columns.
    pub(crate) fn scan(
        &self,
        deleted: &roaring::RoaringBitmap,
    ) -> Result<impl Iterator<Item = Result<ScannedRows>> + '_> {
        let live = live_ranges(self.rows, deleted);
        let batches = self.file.batches(None, Some(live.clone()))?;
        let mut positions = live.into_iter().flatten();
        Ok(batches.map(move |batch| {
            let batch = batch?;
            let rows: Vec<u32> = positions.by_ref().take(batch.num_rows()).collect();
            self.scanned(&batch, rows)
        }))
    }

    fn scanned(&self, batch: &RecordBatch, rows: Vec<u32>) -> Result<ScannedRows> {
        let system = |name: &str, column_type: ColumnType| {
            self.file.column(&Column::required(name, column_type), batch)
        };
        let arrange = |columns: &[FileColumn]| -> Result<Vec<ArrayRef>> {
            columns.iter().map(|column| self.file.column(&column.column, batch)).collect()
        };
        Ok(ScannedRows {
            rows,
            sequence_numbers: system("_SEQUENCE_NUMBER", ColumnType::Int64)?,
            key_groups: system(KEY_GROUP_COLUMN, ColumnType::Int32)?,
            key: arrange(&self.key)?,
            value: arrange(&self.value)?,
        })
    }
}

fn open_column(
    file: &DecodedFile,
    metadata: &ArrowReaderMetadata,
    column: &Column,
) -> Result<FileColumn> {
    let stored = match column_index(file, metadata, column) {
        Err(_) if column.nullable => Stored::Missing,
        Err(error) => return Err(error),
        Ok(index) => {
            let plain = without_panic(|| {
                PlainColumn::new(metadata, &file.bytes, &file.path, index, column)
            });
            plain.map_err(|why| file.corrupt(why))?.map_or(Stored::Decoded(index), Stored::InPlace)
        }
    };
    Ok(FileColumn { column: column.clone(), stored })
}

fn column_index(
    file: &DecodedFile,
    metadata: &ArrowReaderMetadata,
    column: &Column,
) -> Result<usize> {
    metadata
        .parquet_schema()
        .columns()
        .iter()
        .position(|found| found.name() == column.name)
        .ok_or_else(|| file.corrupt(format!("column `{}` is missing", column.name)))
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

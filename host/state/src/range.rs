//! Reads the live rows of several files as one, in key order.

use crate::Result;
use crate::pin::{FileRange, RangeRows};
use crate::schema::TableSchema;
use crate::value_column::ValueColumn;
use crate::write_buffer::Location;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Rows of a file that are read at first; then always twice as many, up to the limit.
const FIRST_READ_ROWS: usize = 16;
const READ_LIMIT_ROWS: usize = 1024;

/// A row on disk.
pub(crate) struct FoundRow {
    pub(crate) key: Vec<u8>,
    pub(crate) hash: u64,
    pub(crate) location: Location,
    /// The values of the row are at `row` of these.
    pub(crate) values: Arc<[ValueColumn]>,
    pub(crate) row: usize,
}

/// A position in each of several ranges.
pub(crate) struct RangeCursors {
    cursors: Vec<Cursor>,
    /// The next row key of each range, with the number of the range.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

struct Cursor {
    range: FileRange,
    read: Option<Read>,
    next_read_rows: usize,
}

struct Read {
    rows: RangeRows,
    values: Arc<[ValueColumn]>,
    at: usize,
}

impl RangeCursors {
    pub(crate) fn open(schema: &TableSchema, ranges: Vec<FileRange>) -> Result<Self> {
        let mut this = Self { cursors: Vec::with_capacity(ranges.len()), heads: BinaryHeap::new() };
        for range in ranges {
            let mut cursor = Cursor { range, read: None, next_read_rows: FIRST_READ_ROWS };
            if let Some(key) = cursor.head(schema)? {
                this.heads.push(Reverse((key, this.cursors.len())));
                this.cursors.push(cursor);
            }
        }
        Ok(this)
    }

    /// The row with the least row key that was not returned yet.
    pub(crate) fn next(&mut self, schema: &TableSchema) -> Result<Option<FoundRow>> {
        let Some(Reverse((key, index))) = self.heads.pop() else { return Ok(None) };
        let Some(cursor) = self.cursors.get_mut(index) else { return Ok(None) };
        let found = cursor.take(key);
        if let Some(key) = cursor.head(schema)? {
            self.heads.push(Reverse((key, index)));
        }
        Ok(found)
    }
}

impl Cursor {
    /// The key of the next row, which is read if need be.
    fn head(&mut self, schema: &TableSchema) -> Result<Option<Vec<u8>>> {
        if self.read.as_ref().is_none_or(|read| read.at >= read.rows.rows.len()) {
            let Some(mut rows) = self.range.next(schema, self.next_read_rows)? else {
                self.read = None;
                return Ok(None);
            };
            self.next_read_rows = (self.next_read_rows * 2).min(READ_LIMIT_ROWS);
            let values = std::mem::take(&mut rows.values).into();
            self.read = Some(Read { rows, values, at: 0 });
        }
        Ok(self.read.as_ref().map(|read| read.rows.keys.key(read.at).to_vec()))
    }

    fn take(&mut self, key: Vec<u8>) -> Option<FoundRow> {
        let read = self.read.as_mut()?;
        let row = read.at;
        read.at += 1;
        Some(FoundRow {
            key,
            hash: *read.rows.keys.hashes().get(row)?,
            location: Location::At { file: read.rows.file, row: *read.rows.rows.get(row)? },
            values: read.values.clone(),
            row,
        })
    }
}

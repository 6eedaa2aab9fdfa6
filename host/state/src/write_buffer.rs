//! The write buffer of one subtask: every key touched since the last freeze.
//!
//! One row for each key; a later write goes over an earlier one. Keys that were only read
//! are here too, as clean rows: that makes the second read of a key free, and remembers
//! where on disk the row lies that a later write will supersede.
#![expect(clippy::indexing_slicing, reason = "the index holds rows of this buffer only")]

use crate::data_file::FileId;
use crate::key::EncodedKeys;
use crate::value_column::{SourceColumn, ValueColumn};
use crate::{Column, Error, Result};
use arrow_array::ArrayRef;
use hashbrown::HashTable;

/// What a buffer knows of a key's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Read, not written: a row.
    CleanPresent,
    /// Read, not written: no row.
    CleanAbsent,
    /// Written.
    Written,
    /// Deleted.
    Deleted,
}

impl Status {
    pub(crate) fn is_present(self) -> bool {
        matches!(self, Self::CleanPresent | Self::Written)
    }

    pub(crate) fn is_dirty(self) -> bool {
        matches!(self, Self::Written | Self::Deleted)
    }
}

/// Where on disk a key's row lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// Nobody has looked since it was last written.
    Unknown,
    /// A probe found none.
    Absent,
    /// Row `row` of the file.
    At { file: FileId, row: u32 },
}

/// Rows by key. Writable while it is the active buffer, shared once it is frozen.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    keys: EncodedKeys,
    index: HashTable<u32>,
    statuses: Vec<Status>,
    locations: Vec<Location>,
    values: Vec<ValueColumn>,
    dirty_rows: usize,
}

impl WriteBuffer {
    pub(crate) fn new(value: &[Column]) -> Self {
        Self {
            keys: EncodedKeys::default(),
            index: HashTable::new(),
            statuses: Vec::new(),
            locations: Vec::new(),
            values: value.iter().map(ValueColumn::new).collect(),
            dirty_rows: 0,
        }
    }

    pub(crate) fn find(&self, key: &[u8], hash: u64) -> Option<u32> {
        self.index.find(hash, |&row| self.keys.key(row as usize) == key).copied()
    }

    pub(crate) fn status(&self, row: u32) -> Status {
        self.statuses[row as usize]
    }

    pub(crate) fn location(&self, row: u32) -> Location {
        self.locations[row as usize]
    }

    pub(crate) fn keys(&self) -> &EncodedKeys {
        &self.keys
    }

    pub(crate) fn rows(&self) -> usize {
        self.statuses.len()
    }

    /// Rows that were written or deleted.
    pub(crate) fn dirty_rows(&self) -> usize {
        self.dirty_rows
    }

    /// Bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(ValueColumn::memory_bytes).sum();
        // A row's index entry, status and location take about 32 bytes.
        self.keys.memory_bytes() + values + self.rows() * 32
    }

    /// Adds a key that is not there yet, without values.
    fn add(&mut self, key: &[u8], hash: u64, status: Status, location: Location) -> Result<u32> {
        let row = u32::try_from(self.rows())
            .map_err(|_| Error::invalid("a write buffer holds at most 2^32 keys"))?;
        self.keys.push(key, hash)?;
        self.statuses.push(status);
        self.locations.push(location);
        self.dirty_rows += usize::from(status.is_dirty());
        let hashes = self.keys.hashes();
        self.index.insert_unique(hash, row, |&row| hashes[row as usize]);
        Ok(row)
    }

    /// Adds a key that a probe did not find.
    pub(crate) fn add_absent(&mut self, key: &[u8], hash: u64) -> Result<u32> {
        let row = self.add(key, hash, Status::CleanAbsent, Location::Absent)?;
        self.values.iter_mut().for_each(ValueColumn::push_empty);
        Ok(row)
    }

    /// Adds a key that a probe found, with its values at row `from` of these columns.
    pub(crate) fn add_found(
        &mut self,
        key: &[u8],
        hash: u64,
        location: Location,
        values: &[ValueColumn],
        from: usize,
    ) -> Result<u32> {
        let row = self.add(key, hash, Status::CleanPresent, location)?;
        for (column, other) in self.values.iter_mut().zip(values) {
            column.push_from(other, from)?;
        }
        Ok(row)
    }

    /// Adds a key as an older buffer has it; `location` is what is known by now.
    pub(crate) fn add_from(
        &mut self,
        key: &[u8],
        hash: u64,
        other: &Self,
        from: u32,
        location: Location,
    ) -> Result<u32> {
        if other.status(from).is_present() {
            return self.add_found(key, hash, location, &other.values, from as usize);
        }
        let row = self.add_absent(key, hash)?;
        self.locations[row as usize] = location;
        Ok(row)
    }

    /// Writes a row for a key; `location` counts when the key is new to this buffer.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        hash: u64,
        location: Location,
        sources: &[SourceColumn<'_>],
        from: usize,
    ) -> Result<()> {
        let row = self.row_for_write(key, hash, Status::Written, location)?;
        for (column, source) in self.values.iter_mut().zip(sources) {
            column.set(row as usize, source, from);
        }
        Ok(())
    }

    /// Removes the row of a key; `location` counts when the key is new to this buffer.
    pub(crate) fn delete(&mut self, key: &[u8], hash: u64, location: Location) -> Result<()> {
        self.row_for_write(key, hash, Status::Deleted, location).map(|_| ())
    }

    fn row_for_write(
        &mut self,
        key: &[u8],
        hash: u64,
        status: Status,
        location: Location,
    ) -> Result<u32> {
        if let Some(row) = self.find(key, hash) {
            let old = &mut self.statuses[row as usize];
            self.dirty_rows += usize::from(!old.is_dirty());
            *old = status;
            return Ok(row);
        }
        let row = self.add(key, hash, status, location)?;
        self.values.iter_mut().for_each(ValueColumn::push_empty);
        Ok(row)
    }

    /// Whether this many more bytes of values fit the limits of a column.
    pub(crate) fn has_room_for(&self, more_bytes: usize) -> bool {
        self.values.iter().all(|column| column.has_room_for(more_bytes))
    }

    /// The value columns of these rows; `None` is a row of empty values.
    pub(crate) fn gather(&self, rows: &[Option<u32>]) -> Result<Vec<ArrayRef>> {
        self.values.iter().map(|column| column.gather(rows)).collect()
    }
}

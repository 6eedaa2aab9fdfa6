//! The write buffer of one subtask: every key touched since the last freeze.
//!
//! One row for each key; a later write goes over an earlier one. Keys that were only read
//! are here too, as clean rows: that makes the second read of a key free, and remembers
//! where on disk the row lies that a later write will supersede.
#![expect(clippy::indexing_slicing, reason = "the index holds rows of this buffer only")]

use crate::data_file::FileId;
use crate::key::EncodedKeys;
use crate::schema::TableSchema;
use crate::undo::Undo;
use crate::value_column::{SourceColumn, ValueColumn};
use crate::{Error, KeyEncoder, Result, StateKind};
use arrow_array::ArrayRef;
use hashbrown::HashTable;
use std::collections::HashMap;
use xxhash_rust::xxh3::Xxh3;

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
    /// Row of each key, with a part of its hash, so that few keys are compared in vain.
    index: HashTable<(u32, u32)>,
    statuses: Vec<Status>,
    locations: Vec<Location>,
    values: Vec<ValueColumn>,
    dirty_rows: usize,
    /// Which value column says when a row ends.
    expires: Option<usize>,
    /// For kinds with several rows a key.
    groups: Option<Groups>,
    /// For maps: hashes of rows as they were read, by row, so that a change that is taken back
    /// writes nothing.
    originals: Option<HashMap<u32, u128>>,
    /// While a transaction is under way.
    undo: Option<Box<Undo>>,
}

/// The rows of each key, where it can have several.
#[derive(Debug)]
struct Groups {
    encoder: KeyEncoder,
    of_key: HashMap<Box<[u8]>, Group>,
    memory_bytes: usize,
}

#[derive(Debug, Default)]
struct Group {
    rows: Vec<u32>,
    /// All rows of the key are in the buffer.
    complete: bool,
}

impl WriteBuffer {
    pub(crate) fn new(schema: &TableSchema) -> Self {
        let several = matches!(schema.kind, StateKind::List | StateKind::Map { .. });
        Self {
            keys: EncodedKeys::default(),
            index: HashTable::new(),
            statuses: Vec::new(),
            locations: Vec::new(),
            values: schema.value.iter().map(ValueColumn::new).collect(),
            dirty_rows: 0,
            expires: schema.expires_column(),
            groups: several.then(|| Groups {
                encoder: schema.encoder.clone(),
                of_key: HashMap::new(),
                memory_bytes: 0,
            }),
            originals: matches!(schema.kind, StateKind::Map { .. }).then(HashMap::new),
            undo: None,
        }
    }

    /// An empty buffer with room for as many rows as `before` has.
    pub(crate) fn with_room_of(schema: &TableSchema, before: &Self) -> Self {
        let mut new = Self::new(schema);
        new.keys = EncodedKeys::with_room_of(&before.keys);
        let rows = and_an_eighth(before.rows());
        new.index = HashTable::with_capacity(rows);
        new.statuses.reserve(rows);
        new.locations.reserve(rows);
        for (column, before) in new.values.iter_mut().zip(&before.values) {
            column.make_room_of(before);
        }
        new
    }

    /// Without its rows; the memory that they took stays, for the next ones.
    pub(crate) fn cleared(mut self) -> Self {
        self.keys.clear();
        self.index.clear();
        self.statuses.clear();
        self.locations.clear();
        self.values.iter_mut().for_each(ValueColumn::clear);
        self.dirty_rows = 0;
        if let Some(groups) = &mut self.groups {
            groups.of_key.clear();
            groups.memory_bytes = 0;
        }
        if let Some(originals) = &mut self.originals {
            originals.clear();
        }
        self.undo = None;
        self
    }

    /// The rows of a key, in no order.
    pub(crate) fn rows_of(&self, key: &[u8]) -> &[u32] {
        let group = self.groups.as_ref().and_then(|groups| groups.of_key.get(key));
        group.map_or(&[], |group| &group.rows)
    }

    /// Whether the buffer has all rows of a key.
    pub(crate) fn is_complete(&self, key: &[u8]) -> bool {
        let group = self.groups.as_ref().and_then(|groups| groups.of_key.get(key));
        group.is_some_and(|group| group.complete)
    }

    /// Takes note that the buffer has all rows of a key.
    pub(crate) fn set_complete(&mut self, key: &[u8]) {
        if let Some(groups) = &mut self.groups {
            groups.of_key.entry(key.into()).or_default().complete = true;
        }
    }

    /// When a row ends, in milliseconds since the Unix epoch.
    pub(crate) fn expires_ms(&self, row: u32) -> Option<i64> {
        self.values.get(self.expires?)?.timestamp_ms(row as usize)
    }

    pub(crate) fn find(&self, key: &[u8], hash: u64) -> Option<u32> {
        let tag = tag(hash);
        let found =
            self.index.find(hash, |&(of, row)| of == tag && self.keys.key(row as usize) == key);
        found.map(|&(_, row)| row)
    }

    /// Whether a row, if there is one, has this key.
    pub(crate) fn has_key(&self, row: u32, key: &[u8]) -> bool {
        (row as usize) < self.rows() && self.keys.key(row as usize) == key
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
        let groups = self.groups.as_ref().map_or(0, |groups| groups.memory_bytes);
        let originals = self.originals.as_ref().map_or(0, |originals| originals.len() * 40);
        let undo = self.undo.as_ref().map_or(0, |undo| undo.memory_bytes());
        // A row's index entry, status and location take about 40 bytes.
        self.keys.memory_bytes() + values + groups + originals + undo + self.rows() * 40
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
        self.index.insert_unique(hash, (tag(hash), row), |&(_, row)| hashes[row as usize]);
        if let Some(groups) = &mut self.groups {
            groups.add(key, row);
        }
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

    /// Adds keys that a probe found, each with its place on disk, and their values: those of the
    /// first key first.
    pub(crate) fn add_all_found<'a>(
        &mut self,
        keys: impl ExactSizeIterator<Item = (&'a [u8], u64, Location)>,
        values: &[ValueColumn],
        mut added: impl FnMut(u32),
    ) -> Result<()> {
        for (column, other) in self.values.iter().zip(values) {
            column.check_room_for_all(other)?;
        }
        let hashes = self.keys.hashes();
        self.index.reserve(keys.len(), |&(_, row)| hashes[row as usize]);
        for (key, hash, location) in keys {
            added(self.add(key, hash, Status::CleanPresent, location)?);
        }
        self.values.iter_mut().zip(values).for_each(|(column, other)| column.append(other));
        Ok(())
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

    /// Writes a row for a key; `row` is what [`WriteBuffer::find`] gives for it, and `location`
    /// counts when the key is new to this buffer.
    pub(crate) fn put(
        &mut self,
        row: Option<u32>,
        key: &[u8],
        hash: u64,
        location: Location,
        sources: &[SourceColumn<'_>],
        from: usize,
    ) -> Result<()> {
        if self.is_no_change(row, sources, from) {
            return Ok(());
        }
        let row = self.row_for_write(row, key, hash, Status::Written, location)?;
        for (column, source) in self.values.iter_mut().zip(sources) {
            column.set(row as usize, source, from);
        }
        if let Some(originals) = &self.originals
            && let Some(original) = originals.get(&row)
            && *original == self.hash_of(row)
        {
            self.statuses[row as usize] = Status::CleanPresent;
            self.dirty_rows -= 1;
        }
        Ok(())
    }

    /// Whether a map has this very row already.
    fn is_no_change(&self, row: Option<u32>, sources: &[SourceColumn<'_>], from: usize) -> bool {
        let Some(row) = row.filter(|_| self.originals.is_some()) else {
            return false;
        };
        let mut columns = self.values.iter().zip(sources);
        self.status(row).is_present()
            && columns.all(|(column, source)| column.equals(row as usize, source, from))
    }

    fn hash_of(&self, row: u32) -> u128 {
        let mut hasher = Xxh3::new();
        self.values.iter().for_each(|column| column.hash(row as usize, &mut hasher));
        hasher.digest128()
    }

    /// Removes the row of a key; `row` and `location` as for [`WriteBuffer::put`].
    pub(crate) fn delete(
        &mut self,
        row: Option<u32>,
        key: &[u8],
        hash: u64,
        location: Location,
    ) -> Result<()> {
        self.row_for_write(row, key, hash, Status::Deleted, location).map(|_| ())
    }

    fn row_for_write(
        &mut self,
        row: Option<u32>,
        key: &[u8],
        hash: u64,
        status: Status,
        location: Location,
    ) -> Result<u32> {
        if let Some(row) = row {
            let old = self.status(row);
            if old == Status::CleanAbsent && status == Status::Deleted {
                return Ok(row);
            }
            if old == Status::CleanPresent && self.originals.is_some() {
                let original = self.hash_of(row);
                if let Some(originals) = &mut self.originals {
                    originals.insert(row, original);
                }
            }
            if let Some(undo) = &mut self.undo {
                undo.note(row, old, &self.values)?;
            }
            self.dirty_rows += usize::from(!old.is_dirty());
            self.statuses[row as usize] = status;
            return Ok(row);
        }
        let row = self.add(key, hash, status, location)?;
        self.values.iter_mut().for_each(ValueColumn::push_empty);
        Ok(row)
    }

    /// A transaction begins: until it ends, all that is done to the buffer can be undone.
    ///
    /// # Errors
    /// `Internal` when one is under way already.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.undo.is_some() {
            return Err(Error::internal("a transaction begins in the middle of another"));
        }
        let rows = u32::try_from(self.rows())
            .map_err(|_| Error::invalid("a write buffer holds at most 2^32 keys"))?;
        self.undo = Some(Box::new(Undo::new(rows, &self.values)));
        Ok(())
    }

    /// Whether a transaction is under way.
    pub(crate) fn in_transaction(&self) -> bool {
        self.undo.is_some()
    }

    /// The transaction ends: what was done stays.
    pub(crate) fn commit(&mut self) {
        self.undo = None;
    }

    /// The transaction ends: the buffer is what it was when it began.
    pub(crate) fn roll_back(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        let kept = undo.rows as usize;
        for row in (kept..self.rows()).rev() {
            self.remove_last(row);
        }
        self.keys.truncate(kept);
        self.values.iter_mut().for_each(|column| column.truncate(kept));
        for (from, &(row, status)) in undo.changed.iter().enumerate() {
            let row = row as usize;
            self.dirty_rows += usize::from(status.is_dirty());
            self.dirty_rows -= usize::from(self.statuses[row].is_dirty());
            self.statuses[row] = status;
            for (column, values) in self.values.iter_mut().zip(&undo.values) {
                column.set_from(row, values, from);
            }
        }
    }

    /// Takes the last row out of all but the keys and the values.
    fn remove_last(&mut self, row: usize) {
        let (key, hash) = (self.keys.key(row), self.keys.hashes()[row]);
        let row_number = u32::try_from(row).unwrap_or(u32::MAX);
        if let Ok(entry) = self.index.find_entry(hash, |&(_, found)| found == row_number) {
            entry.remove();
        }
        if let Some(groups) = &mut self.groups {
            groups.remove_last(key, row_number);
        }
        if let Some(originals) = &mut self.originals {
            originals.remove(&row_number);
        }
        self.dirty_rows -= usize::from(self.statuses[row].is_dirty());
        self.statuses.truncate(row);
        self.locations.truncate(row);
    }

    /// A buffer with the rows of this one that were written or deleted. It has all rows of no
    /// key, since those that were only read are left out.
    pub(crate) fn without_clean_rows(&self, schema: &TableSchema) -> Result<Self> {
        let mut kept = Self::new(schema);
        for row in (0_u32..).take(self.rows()).filter(|&row| self.status(row).is_dirty()) {
            let at = row as usize;
            let (key, hash) = (self.keys.key(at), self.keys.hashes()[at]);
            let new_row = kept.add(key, hash, self.status(row), self.location(row))?;
            for (column, other) in kept.values.iter_mut().zip(&self.values) {
                column.push_from(other, at)?;
            }
            if let (Some(to), Some(from)) = (&mut kept.originals, &self.originals)
                && let Some(original) = from.get(&row)
            {
                to.insert(new_row, *original);
            }
        }
        Ok(kept)
    }

    /// Whether this many more bytes of values fit the limits of a column.
    pub(crate) fn has_room_for(&self, more_bytes: usize) -> bool {
        self.values.iter().all(|column| column.has_room_for(more_bytes))
    }

    /// The value columns of these rows; `None` is a row of empty values.
    pub(crate) fn gather(&self, rows: &[Option<u32>]) -> Result<Vec<ArrayRef>> {
        self.gather_within(rows, usize::MAX)
    }

    /// The same, unless they take more than `limit_bytes`.
    pub(crate) fn gather_within(
        &self,
        rows: &[Option<u32>],
        limit_bytes: usize,
    ) -> Result<Vec<ArrayRef>> {
        let mut left_bytes = limit_bytes;
        let gather = |column: &ValueColumn| {
            let array = column.gather_within(rows, left_bytes)?;
            left_bytes = left_bytes.saturating_sub(array.get_buffer_memory_size());
            Ok(array)
        };
        self.values.iter().map(gather).collect()
    }
}

/// Room for so many and some more: buffers of equal work differ by a little, and one that has to
/// grow by a little is copied as a whole.
pub(crate) fn and_an_eighth(count: usize) -> usize {
    count.saturating_add(count / 8)
}

/// The part of a hash that the index keeps; it uses others of its bits itself.
fn tag(hash: u64) -> u32 {
    u32::try_from((hash >> 20) & u64::from(u32::MAX)).unwrap_or(0)
}

impl Groups {
    /// Takes a row out that was added last.
    fn remove_last(&mut self, key: &[u8], row: u32) {
        let of = key.get(self.encoder.grouping_bytes(key)).unwrap_or(key);
        if let Some(group) = self.of_key.get_mut(of)
            && group.rows.pop_if(|last| *last == row).is_some()
        {
            self.memory_bytes -= 4;
            // What was read of the key went with what was written.
            group.complete = false;
        }
    }

    fn add(&mut self, key: &[u8], row: u32) {
        let of = key.get(self.encoder.grouping_bytes(key)).unwrap_or(key);
        self.memory_bytes += 4;
        match self.of_key.get_mut(of) {
            Some(group) => group.rows.push(row),
            None => {
                self.memory_bytes += of.len() + 64;
                self.of_key.insert(of.into(), Group { rows: vec![row], complete: false });
            }
        }
    }
}

#[cfg(test)]
mod tests;

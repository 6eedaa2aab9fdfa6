//! Value state: at most one row for each key.

use crate::data_file::FileId;
use crate::pin::{FileHits, Want};
use crate::schema::TableSchema;
use crate::value_column::SourceColumn;
use crate::view::{Counters, SharedView, View};
use crate::worker::Command;
use crate::write_buffer::{Location, WriteBuffer};
use crate::{Error, ErrorKind, KeyBatch, Result};
use arrow_array::{Array as _, ArrayRef};
use arrow_buffer::BooleanBuffer;
use crossbeam_channel::Sender;
use std::sync::Arc;

/// What a state holds for a list of keys: row `i` belongs to key `i`.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Whether the key has a row.
    pub present: BooleanBuffer,
    /// The value columns. A key without a row has a slot all the same: null, or zero or empty
    /// in a column that is not nullable.
    pub columns: Vec<ArrayRef>,
}

/// The state of one subtask. Used by one thread at a time.
#[derive(Debug)]
pub struct ValueState {
    table: Arc<str>,
    subtask: u32,
    schema: TableSchema,
    view: Arc<SharedView>,
    commands: Sender<Command>,
    active: WriteBuffer,
    /// Bytes at which the active buffer is frozen without a barrier.
    write_buffer_limit_bytes: usize,
}

impl ValueState {
    pub(crate) fn new(
        table: Arc<str>,
        subtask: u32,
        schema: TableSchema,
        view: Arc<SharedView>,
        commands: Sender<Command>,
        write_buffer_limit_bytes: usize,
    ) -> Self {
        let active = WriteBuffer::new(&schema.value);
        Self { table, subtask, schema, view, commands, active, write_buffer_limit_bytes }
    }

    /// The rows of these keys. Costs one probe of the disk at most, and none when the write
    /// buffer knows all keys.
    ///
    /// # Errors
    /// `InvalidArgument` for a key of another subtask; `Corrupt` or `Storage` when files cannot
    /// be read; `Closed` after the background part has failed.
    pub fn get(&mut self, keys: &KeyBatch) -> Result<Rows> {
        self.check_keys(keys)?;
        let counters = &self.view.counters;
        Counters::add(&counters.gets, 1);
        Counters::add(&counters.keys_read, keys.len());
        self.make_resident(keys)?;
        let encoded = keys.encoded();
        let rows: Vec<Option<u32>> = encoded
            .hashes()
            .iter()
            .enumerate()
            .map(|(index, &hash)| {
                let row = self.active.find(encoded.key(index), hash)?;
                self.active.status(row).is_present().then_some(row)
            })
            .collect();
        let present = rows.iter().map(Option::is_some).collect();
        let columns = self.active.gather(&rows)?;
        self.freeze_when_full()?;
        Ok(Rows { present, columns })
    }

    /// Writes one row for each key; with a key given twice, the last row counts.
    ///
    /// # Errors
    /// `InvalidArgument` for a key of another subtask, or columns that are not the state's;
    /// `Closed` after the background part has failed.
    pub fn put(&mut self, keys: &KeyBatch, columns: &[ArrayRef]) -> Result<()> {
        self.check_keys(keys)?;
        if columns.len() != self.schema.value.len() {
            return Err(Error::invalid(format!(
                "state {} has {} value columns, {} given",
                self.table,
                self.schema.value.len(),
                columns.len()
            )));
        }
        let mut sources = Vec::with_capacity(columns.len());
        for (column, array) in self.schema.value.iter().zip(columns) {
            if array.len() != keys.len() {
                return Err(Error::invalid(format!(
                    "column `{}` has {} rows for {} keys",
                    column.name,
                    array.len(),
                    keys.len()
                )));
            }
            sources.push(SourceColumn::new(column, array)?);
        }
        let bytes: usize = columns.iter().map(arrow_array::Array::get_buffer_memory_size).sum();
        self.make_room_for(bytes)?;
        Counters::add(&self.view.counters.keys_written, keys.len());
        let view = self.view.current()?;
        let encoded = keys.encoded();
        for (index, &hash) in encoded.hashes().iter().enumerate() {
            let key = encoded.key(index);
            let location = self.location_in_layers(&view, key, hash);
            self.active.put(key, hash, location, &sources, index)?;
        }
        self.freeze_when_full()
    }

    /// Removes the rows of these keys; a key without one is fine.
    ///
    /// # Errors
    /// As [`ValueState::put`].
    pub fn delete(&mut self, keys: &KeyBatch) -> Result<()> {
        self.check_keys(keys)?;
        Counters::add(&self.view.counters.keys_written, keys.len());
        let view = self.view.current()?;
        let encoded = keys.encoded();
        for (index, &hash) in encoded.hashes().iter().enumerate() {
            let key = encoded.key(index);
            let location = self.location_in_layers(&view, key, hash);
            self.active.delete(key, hash, location)?;
        }
        self.freeze_when_full()
    }

    /// The barrier of this checkpoint has been reached: what was written so far belongs to it.
    /// Hands the write buffer over and returns; no I/O.
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        self.hand_over(Some(checkpoint))
    }

    /// Which subtask this is.
    pub fn subtask(&self) -> u32 {
        self.subtask
    }

    fn check_keys(&self, keys: &KeyBatch) -> Result<()> {
        let wanted = self.schema.key().iter().map(|column| column.column_type.to_arrow());
        let given = keys.columns().iter().map(|column| column.data_type().clone());
        if !given.eq(wanted) {
            return Err(Error::invalid(format!(
                "the keys of the batch are of other types than those of state {}",
                self.table
            )));
        }
        let groups = &self.schema.key_groups;
        let hashes = keys.encoded().hashes();
        match hashes.iter().position(|&hash| groups.subtask_of(hash) != self.subtask) {
            None => Ok(()),
            Some(row) => Err(Error::invalid(format!(
                "key {row} of the batch belongs to another subtask than {} of state {}",
                self.subtask, self.table
            ))),
        }
    }

    /// What the layers know of where a key lies; only asked for a key new to the buffer.
    fn location_in_layers(&self, view: &View, key: &[u8], hash: u64) -> Location {
        if self.active.find(key, hash).is_some() {
            return Location::Unknown;
        }
        let found = view.find(self.subtask, key, hash);
        found.map_or(Location::Unknown, |(layer, row)| layer.location(row))
    }

    /// Brings every key into the active buffer: from the layers, or by one probe.
    fn make_resident(&mut self, keys: &KeyBatch) -> Result<()> {
        let view = self.view.current()?;
        let encoded = keys.encoded();
        let mut missing: Vec<u32> = Vec::new();
        for (index, &hash) in (0_u32..).zip(encoded.hashes()) {
            let key = encoded.key(index as usize);
            if self.active.find(key, hash).is_some() {
                continue;
            }
            match view.find(self.subtask, key, hash) {
                Some((layer, row)) => {
                    let location = layer.location(row);
                    self.active.add_from(key, hash, &layer.buffer, row, location)?;
                }
                None => missing.push(index),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Counters::add(&self.view.counters.probes, 1);
        let hits = view.pin.probe(&self.schema, self.subtask, encoded, &missing, Want::Values)?;
        self.add_hits(keys, hits)?;
        for index in missing {
            let (key, hash) = self.key_at(keys, index)?;
            if self.active.find(key, hash).is_none() {
                self.active.add_absent(key, hash)?;
            }
        }
        Ok(())
    }

    fn add_hits(&mut self, keys: &KeyBatch, hits: Vec<FileHits>) -> Result<()> {
        for FileHits { file, rows, values } in hits {
            for (from, (index, row)) in rows.into_iter().enumerate() {
                let (key, hash) = self.key_at(keys, index)?;
                // A key that is given twice is found twice.
                if self.active.find(key, hash).is_none() {
                    let location = located(file, row);
                    self.active.add_found(key, hash, location, &values, from)?;
                }
            }
        }
        Ok(())
    }

    fn key_at<'a>(&self, keys: &'a KeyBatch, index: u32) -> Result<(&'a [u8], u64)> {
        let encoded = keys.encoded();
        let hash = encoded.hashes().get(index as usize);
        let hash = hash.ok_or_else(|| Error::invalid("key index past the end of the batch"))?;
        Ok((encoded.key(index as usize), *hash))
    }

    fn make_room_for(&mut self, bytes: usize) -> Result<()> {
        if self.active.has_room_for(bytes) { Ok(()) } else { self.hand_over(None) }
    }

    fn freeze_when_full(&mut self) -> Result<()> {
        if self.active.memory_bytes() < self.write_buffer_limit_bytes {
            return Ok(());
        }
        if self.active.dirty_rows() == 0 {
            // Only a cache: nothing is lost with it.
            self.active = WriteBuffer::new(&self.schema.value);
            return Ok(());
        }
        self.hand_over(None)
    }

    fn hand_over(&mut self, checkpoint: Option<u64>) -> Result<()> {
        let fresh = WriteBuffer::new(&self.schema.value);
        let buffer = Arc::new(std::mem::replace(&mut self.active, fresh));
        // A barrier never waits; a full buffer does while too many are on their way.
        self.view.freeze(self.subtask, buffer.clone(), checkpoint.is_none())?;
        self.commands
            .send(Command::Frozen { subtask: self.subtask, checkpoint, buffer })
            .map_err(|_| Error::new(ErrorKind::Closed, format!("state {} is closed", self.table)))
    }
}

fn located(file: FileId, row: u32) -> Location {
    Location::At { file, row }
}

//! The rows of one subtask of a state, whatever their kind: what all kinds of state stand on.

use crate::data_file::FileId;
use crate::pin::{FileHits, Want};
use crate::pool::PoolQueue;
use crate::range::{FoundRow, RangeCursors};
use crate::read_ahead::ReadAhead;
use crate::schema::TableSchema;
use crate::value_column::SourceColumn;
use crate::view::{Counters, SharedView, View};
use crate::worker::Command;
use crate::write_buffer::{Location, WriteBuffer};
use crate::{Clock, EncodedKeys, Error, ErrorKind, KeyBatch, Result};
use arrow_array::{Array as _, ArrayRef, TimestampMillisecondArray};
use arrow_buffer::BooleanBuffer;
use crossbeam_channel::Sender;
use std::fmt;
use std::sync::Arc;

/// Bytes by which a transaction may let the write buffer grow past its limit.
const TRANSACTION_LIMIT_BYTES: usize = 64 << 20;

/// What a state holds for a list of keys: row `i` belongs to key `i`.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Whether the key has a row.
    pub present: BooleanBuffer,
    /// The value columns. A key without a row has a slot all the same: null, or zero or empty
    /// in a column that is not nullable.
    pub columns: Vec<ArrayRef>,
}

/// What a subtask's rows are made of.
#[derive(Debug, Clone)]
pub(crate) struct SubtaskLinks {
    pub(crate) table: Arc<str>,
    pub(crate) schema: TableSchema,
    pub(crate) view: Arc<SharedView>,
    pub(crate) commands: Sender<Command>,
    pub(crate) pool: PoolQueue,
    pub(crate) clock: Clock,
    /// Milliseconds that a row lives after it was written.
    pub(crate) ttl_ms: Option<u64>,
    /// Bytes at which the active buffer is frozen without a barrier.
    pub(crate) write_buffer_limit_bytes: usize,
    /// Greater than the position of any row of a list.
    pub(crate) next_position: i64,
    pub(crate) timers_in_memory: usize,
}

/// How large the answer to one call may be. Default: as large as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimit {
    /// Rows, over all keys.
    pub rows: usize,
    /// Bytes of values.
    pub bytes: usize,
}

impl Default for AnswerLimit {
    fn default() -> Self {
        Self { rows: usize::MAX, bytes: usize::MAX }
    }
}

/// The rows of one subtask. Used by one thread at a time.
#[derive(Debug)]
pub(crate) struct SubtaskRows {
    pub(crate) links: SubtaskLinks,
    pub(crate) subtask: u32,
    pub(crate) active: WriteBuffer,
    ahead: Option<ReadAhead>,
    /// Of what is handed out.
    pub(crate) limit: AnswerLimit,
    /// The row of the active buffer that each key of the last read had. What is written next are
    /// mostly the same keys.
    last_read: Vec<u32>,
}

impl SubtaskRows {
    pub(crate) fn new(subtask: u32, links: SubtaskLinks) -> Self {
        let active = WriteBuffer::new(&links.schema);
        Self {
            links,
            subtask,
            active,
            ahead: None,
            limit: AnswerLimit::default(),
            last_read: Vec::new(),
        }
    }

    /// The rows of these row keys. One probe of the disk at most.
    pub(crate) fn get(&mut self, keys: &EncodedKeys) -> Result<Rows> {
        let counters = &self.links.view.counters;
        Counters::add(&counters.gets, 1);
        Counters::add(&counters.keys_read, keys.len());
        self.check_answer_rows(keys.len(), self.limit)?;
        self.last_read = self.make_resident(keys)?;
        let rows = self.live_among(&self.last_read);
        let present = rows.iter().map(Option::is_some).collect();
        let columns = self.answer(&rows)?;
        self.freeze_when_full()?;
        Ok(Rows { present, columns })
    }

    /// Writes one row for each row key; with one given twice, the last row counts.
    pub(crate) fn put(&mut self, keys: &EncodedKeys, columns: &[ArrayRef]) -> Result<()> {
        self.write(keys, columns, None)
    }

    /// Writes rows under row keys that are on nobody's record.
    pub(crate) fn append(&mut self, keys: &EncodedKeys, columns: &[ArrayRef]) -> Result<()> {
        self.write(keys, columns, Some(Location::Absent))
    }

    fn write(
        &mut self,
        keys: &EncodedKeys,
        columns: &[ArrayRef],
        known: Option<Location>,
    ) -> Result<()> {
        let mut columns = columns.to_vec();
        self.check_columns(keys.len(), &columns)?;
        columns.extend(self.expires(keys.len()));
        let sources = self
            .links
            .schema
            .value
            .iter()
            .zip(&columns)
            .map(|(column, array)| SourceColumn::new(column, array))
            .collect::<Result<Vec<_>>>()?;
        let bytes: usize = columns.iter().map(arrow_array::Array::get_buffer_memory_size).sum();
        self.make_room_for(bytes)?;
        Counters::add(&self.links.view.counters.keys_written, keys.len());
        let view = self.links.view.current_for_write(self.subtask)?;
        for (index, &hash) in keys.hashes().iter().enumerate() {
            let key = keys.key(index);
            let row = self.find_active(index, key, hash);
            let location = known.unwrap_or_else(|| self.location(row, &view, key, hash));
            self.active.put(row, key, hash, location, &sources, index)?;
        }
        self.freeze_when_full()
    }

    /// The row of key `index` of a write in the active buffer.
    fn find_active(&self, index: usize, key: &[u8], hash: u64) -> Option<u32> {
        let as_read = self.last_read.get(index).copied();
        as_read.filter(|&row| self.active.has_key(row, key)).or_else(|| self.active.find(key, hash))
    }

    /// Removes the rows of these row keys; one without a row is fine.
    pub(crate) fn delete(&mut self, keys: &EncodedKeys) -> Result<()> {
        Counters::add(&self.links.view.counters.keys_written, keys.len());
        let view = self.links.view.current_for_write(self.subtask)?;
        for (index, &hash) in keys.hashes().iter().enumerate() {
            let key = keys.key(index);
            let row = self.active.find(key, hash);
            let location = self.location(row, &view, key, hash);
            self.active.delete(row, key, hash, location)?;
        }
        self.freeze_when_full()
    }

    /// Removes rows whose place on disk may be known.
    pub(crate) fn delete_located(
        &mut self,
        keys: &EncodedKeys,
        locations: &[Location],
    ) -> Result<()> {
        Counters::add(&self.links.view.counters.keys_written, keys.len());
        let view = self.links.view.current_for_write(self.subtask)?;
        let keyed = keys.hashes().iter().zip(locations).enumerate();
        for (index, (&hash, &location)) in keyed {
            let key = keys.key(index);
            let row = self.active.find(key, hash);
            let location = match location {
                Location::Unknown => self.location(row, &view, key, hash),
                known => known,
            };
            self.active.delete(row, key, hash, location)?;
        }
        self.freeze_when_full()
    }

    /// Removes all rows of these keys, `chunk_rows` at a time.
    pub(crate) fn clear(&mut self, keys: &EncodedKeys, chunk_rows: usize) -> Result<()> {
        self.count_read(keys.len());
        for (index, &hash) in keys.hashes().iter().enumerate() {
            let key = keys.key(index);
            let to = after(key);
            let mut from = key.to_vec();
            loop {
                let (from_key, to) = (from.as_slice(), to.as_deref());
                let limit = AnswerLimit::default();
                let range =
                    KeyRange { key, hash, from: from_key, to, limit_rows: chunk_rows, limit };
                let rows = self.range(&range)?;
                let row_keys = self.active.keys().take(&rows);
                let Some(last) = row_keys.len().checked_sub(1) else { break };
                from = [row_keys.key(last), &[0]].concat();
                self.delete(&row_keys)?;
                if rows.len() < chunk_rows {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Counts a call that reads ranges of the rows of keys: one probe.
    pub(crate) fn count_read(&self, keys: usize) {
        let counters = &self.links.view.counters;
        Counters::add(&counters.gets, 1);
        Counters::add(&counters.probes, 1);
        Counters::add(&counters.keys_read, keys);
    }

    /// The columns of the row keys of rows of the active buffer.
    pub(crate) fn row_key_columns(&self, rows: &[Option<u32>]) -> Result<Vec<ArrayRef>> {
        let rows: Vec<u32> = rows.iter().copied().flatten().collect();
        self.links.schema.encoder.decode(&self.active.keys().take(&rows))
    }

    /// Hands the write buffer over at a barrier, or (`None`) because it is full.
    pub(crate) fn freeze(&mut self, checkpoint: Option<u64>) -> Result<()> {
        if self.active.in_transaction() {
            return Err(Error::internal("a barrier came in the middle of a transaction"));
        }
        let with_room = || WriteBuffer::with_room_of(&self.links.schema, &self.active);
        let fresh = self.links.view.take_spare(self.subtask).unwrap_or_else(with_room);
        let buffer = Arc::new(std::mem::replace(&mut self.active, fresh));
        // A barrier never waits; a full buffer does while too many are on their way.
        self.links.view.freeze(self.subtask, buffer.clone(), checkpoint.is_none())?;
        let span = tracing::Span::current();
        let command = Command::Frozen { subtask: self.subtask, checkpoint, buffer, span };
        self.links.commands.send(command).map_err(|_| {
            Error::new(
                ErrorKind::Closed,
                format!("state {} is closed; open the store again", self.links.table),
            )
        })
    }

    /// Those of these rows of the active buffer that are live; `None` for another.
    pub(crate) fn live_among(&self, rows: &[u32]) -> Vec<Option<u32>> {
        let now_ms = self.now_ms();
        rows.iter().map(|&row| self.is_live(row, now_ms).then_some(row)).collect()
    }

    /// Whether a row of the active buffer is there at this time.
    pub(crate) fn is_live(&self, row: u32, now_ms: i64) -> bool {
        let expired = || self.active.expires_ms(row).is_some_and(|ends_ms| ends_ms <= now_ms);
        self.active.status(row).is_present() && !expired()
    }

    /// One reading of the clock, when it matters.
    pub(crate) fn now_ms(&self) -> i64 {
        match self.links.schema.expires_column() {
            Some(_) => self.links.clock.now_ms(),
            None => 0,
        }
    }

    /// The value columns, as the operator knows them, of rows of the active buffer.
    pub(crate) fn gather(&self, rows: &[Option<u32>]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.active.gather(rows)?;
        columns.truncate(self.value_columns());
        Ok(columns)
    }

    /// The same, to be handed out: no more than the limit.
    pub(crate) fn answer(&self, rows: &[Option<u32>]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.active.gather_within(rows, self.limit.bytes).map_err(|error| {
            match error.kind() {
                ErrorKind::LimitExceeded => {
                    self.too_large(format_args!("{} bytes", self.limit.bytes))
                }
                _ => error,
            }
        })?;
        columns.truncate(self.value_columns());
        Ok(columns)
    }

    fn check_answer_rows(&self, rows: usize, limit: AnswerLimit) -> Result<()> {
        if rows <= limit.rows {
            return Ok(());
        }
        Err(self.too_large(format_args!("{} rows", limit.rows)))
    }

    fn too_large(&self, limit: fmt::Arguments<'_>) -> Error {
        Error::new(
            ErrorKind::LimitExceeded,
            format!(
                "the answer of state {} has more than {limit}; ask for fewer keys, or limit the \
                 rows or the range",
                self.links.table
            ),
        )
    }

    /// How many value columns the operator knows of.
    pub(crate) fn value_columns(&self) -> usize {
        let schema = &self.links.schema;
        schema.expires_column().unwrap_or(schema.value.len())
    }

    pub(crate) fn check_columns(&self, rows: usize, columns: &[ArrayRef]) -> Result<()> {
        if columns.len() != self.value_columns() {
            return Err(Error::invalid(format!(
                "state {} has {} value columns, {} given",
                self.links.table,
                self.value_columns(),
                columns.len()
            )));
        }
        for (column, array) in self.links.schema.value.iter().zip(columns) {
            if array.len() != rows {
                return Err(Error::invalid(format!(
                    "state {}: column `{}` has {} rows for {rows} keys",
                    self.links.table,
                    column.name,
                    array.len(),
                )));
            }
        }
        Ok(())
    }

    /// The column that says when rows written now end, if they do.
    pub(crate) fn expires(&self, rows: usize) -> Option<ArrayRef> {
        self.links.schema.expires_column()?;
        // Rows without a time to live, in a table whose rows once had one, never end.
        let ends_ms = match self.links.ttl_ms {
            Some(ttl_ms) => {
                let ttl_ms = i64::try_from(ttl_ms).unwrap_or(i64::MAX);
                self.links.clock.now_ms().saturating_add(ttl_ms)
            }
            None => i64::MAX,
        };
        Some(Arc::new(TimestampMillisecondArray::from(vec![ends_ms; rows])))
    }

    /// Checks that keys, as the operator knows them, are of this state and subtask.
    pub(crate) fn check_keys(&self, keys: &KeyBatch) -> Result<()> {
        let columns = self.links.schema.key_encoder.columns();
        let wanted = columns.iter().map(|column| column.column_type.to_arrow());
        let given = keys.columns().iter().map(|column| column.data_type().clone());
        if !given.eq(wanted) {
            return Err(Error::invalid(format!(
                "the keys of the batch are of other types than those of state {}; encode them with \
                 StateTable::key_encoder",
                self.links.table
            )));
        }
        let groups = &self.links.schema.key_groups;
        let hashes = keys.encoded().hashes();
        match hashes.iter().position(|&hash| groups.subtask_of(hash) != self.subtask) {
            None => Ok(()),
            Some(row) => Err(Error::invalid(format!(
                "key {row} of the batch belongs to another subtask than {} of state {}; deal \
                 batches out with KeyGroups::split",
                self.subtask, self.links.table
            ))),
        }
    }

    /// What the layers know of where the row of a key lies; only asked for a key that is new to
    /// the active buffer, where it has no row yet.
    fn location(&self, row: Option<u32>, view: &View, key: &[u8], hash: u64) -> Location {
        if row.is_some() {
            return Location::Unknown;
        }
        let found = view.find(self.subtask, key, hash);
        found.map_or(Location::Unknown, |(layer, row)| layer.location(row))
    }

    /// Brings every row key into the active buffer: from the layers, or by one probe. Returns
    /// the row that each has there.
    pub(crate) fn make_resident(&mut self, keys: &EncodedKeys) -> Result<Vec<u32>> {
        /// No row yet.
        const MISSING: u32 = u32::MAX;
        let view = self.links.view.current()?;
        let mut rows = Vec::with_capacity(keys.len());
        let mut missing: Vec<u32> = Vec::new();
        for (index, &hash) in (0_u32..).zip(keys.hashes()) {
            let key = keys.key(index as usize);
            let row = match self.active.find(key, hash) {
                Some(row) => row,
                None => match view.find(self.subtask, key, hash) {
                    Some((layer, row)) => {
                        let location = layer.location(row);
                        self.active.add_from(key, hash, &layer.buffer, row, location)?
                    }
                    None => {
                        missing.push(index);
                        MISSING
                    }
                },
            };
            rows.push(row);
        }
        if missing.is_empty() {
            return Ok(rows);
        }
        Counters::add(&self.links.view.counters.probes, 1);
        if self.take_read_ahead(&view)? {
            self.find_missing(keys, &mut missing, &mut rows)?;
        }
        if missing.is_empty() {
            return Ok(rows);
        }
        let schema = &self.links.schema;
        let since = crate::seam::now();
        let hits = view.pin.probe(schema, self.subtask, keys, &missing, Want::Values)?;
        self.links.view.instruments.probe_seconds.record(since.elapsed());
        for FileHits { file, rows: found, values } in hits {
            let mut indices = found.iter().map(|&(index, _)| index);
            let found = found.iter().map(|&(index, row)| {
                let at = index as usize;
                let hash = keys.hashes().get(at).copied().unwrap_or_default();
                (keys.key(at), hash, located(file, row))
            });
            self.active.add_all_found(found, &values, |row| {
                if let Some(index) = indices.next() {
                    set(&mut rows, index, row);
                }
            })?;
        }
        missing.retain(|&index| rows.get(index as usize) == Some(&MISSING));
        for index in missing {
            let (key, hash) = key_at(keys, index)?;
            // A key that is given twice is found once.
            let row = match self.active.find(key, hash) {
                Some(row) => row,
                None => self.active.add_absent(key, hash)?,
            };
            set(&mut rows, index, row);
        }
        Ok(rows)
    }

    /// Notes the rows of missing keys that are in the active buffer by now.
    fn find_missing(
        &self,
        keys: &EncodedKeys,
        missing: &mut Vec<u32>,
        rows: &mut [u32],
    ) -> Result<()> {
        let mut still = Vec::new();
        for &index in missing.iter() {
            let (key, hash) = key_at(keys, index)?;
            match self.active.find(key, hash) {
                Some(row) => set(rows, index, row),
                None => still.push(index),
            }
        }
        *missing = still;
        Ok(())
    }

    /// Begins to look for row keys that will be asked for next, if the disk has to be asked.
    pub(crate) fn read_ahead(&mut self, keys: &EncodedKeys) -> Result<()> {
        let view = self.links.view.current()?;
        let mut missing = EncodedKeys::default();
        for (index, &hash) in keys.hashes().iter().enumerate() {
            let key = keys.key(index);
            if self.active.find(key, hash).is_none() && view.find(self.subtask, key, hash).is_none()
            {
                missing.push(key, hash)?;
            }
        }
        self.ahead = (!missing.is_empty()).then(|| {
            let SubtaskLinks { pool, schema, .. } = &self.links;
            ReadAhead::begin(pool, schema, self.subtask, view.pin.clone(), missing)
        });
        Ok(())
    }

    /// Brings what was looked for ahead into the active buffer; false when there is nothing.
    fn take_read_ahead(&mut self, view: &View) -> Result<bool> {
        let Some(ahead) = self.ahead.take_if(|ahead| Arc::ptr_eq(&ahead.pin, &view.pin)) else {
            self.ahead = None;
            return Ok(false);
        };
        let Some(hits) = ahead.take() else { return Ok(false) };
        // What was written since is newer than what lies on disk.
        let is_known = |this: &Self, key: &[u8], hash: u64| {
            this.active.find(key, hash).is_some() || view.find(this.subtask, key, hash).is_some()
        };
        for FileHits { file, rows, values } in hits? {
            for (from, (index, row)) in rows.into_iter().enumerate() {
                let (key, hash) = key_at(&ahead.keys, index)?;
                if !is_known(self, key, hash) {
                    self.active.add_found(key, hash, located(file, row), &values, from)?;
                }
            }
        }
        for (index, &hash) in ahead.keys.hashes().iter().enumerate() {
            let key = ahead.keys.key(index);
            if !is_known(self, key, hash) {
                self.active.add_absent(key, hash)?;
            }
        }
        Ok(true)
    }

    pub(crate) fn make_room_for(&mut self, bytes: usize) -> Result<()> {
        if self.active.has_room_for(bytes) {
            return Ok(());
        }
        if self.active.in_transaction() {
            return Err(self.transaction_too_large());
        }
        self.freeze(None)
    }

    /// Freezes the active buffer when it is full. In a transaction it cannot be: what is frozen
    /// may be published at any time.
    pub(crate) fn freeze_when_full(&mut self) -> Result<()> {
        let limit_bytes = self.links.write_buffer_limit_bytes;
        if self.active.memory_bytes() < limit_bytes {
            return Ok(());
        }
        if self.active.in_transaction() {
            let most_bytes = limit_bytes.saturating_add(TRANSACTION_LIMIT_BYTES);
            return match self.active.memory_bytes() < most_bytes {
                true => Ok(()),
                false => Err(self.transaction_too_large()),
            };
        }
        // Rows that were only read are a cache: nothing is lost with them, and a flush costs
        // more than reading them again.
        if self.active.dirty_rows() <= self.active.rows() / 2 {
            self.active = self.active.without_clean_rows(&self.links.schema)?;
            if self.active.memory_bytes() < self.links.write_buffer_limit_bytes {
                return Ok(());
            }
        }
        self.freeze(None)
    }
}

impl SubtaskRows {
    /// What is done from here on can be rolled back.
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.active.begin()
    }

    /// What was done since the beginning stays.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.active.commit();
        self.freeze_when_full()
    }

    /// What was done since the beginning is undone.
    pub(crate) fn roll_back(&mut self) {
        self.active.roll_back();
    }

    fn transaction_too_large(&self) -> Error {
        Error::new(
            ErrorKind::LimitExceeded,
            format!(
                "what one transaction of state {} reads and writes takes more than {} MiB; do less \
                 in one",
                self.links.table,
                TRANSACTION_LIMIT_BYTES >> 20
            ),
        )
    }
}

/// Rows of one key that are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRange<'a> {
    /// The encoded key.
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    /// The least row key; it begins with the key.
    pub(crate) from: &'a [u8],
    /// The row key to stop before.
    pub(crate) to: Option<&'a [u8]>,
    pub(crate) limit_rows: usize,
    /// Of what is handed out.
    pub(crate) limit: AnswerLimit,
}

impl KeyRange<'_> {
    fn contains(&self, row_key: &[u8]) -> bool {
        row_key >= self.from && self.to.is_none_or(|to| row_key < to)
    }
}

/// Rows of several keys, key after key: rows of the active buffer, valid until it is frozen.
#[derive(Debug)]
pub(crate) struct FoundRows {
    /// For each row, the index of its key.
    pub(crate) key_of: Vec<u32>,
    pub(crate) rows: Vec<Option<u32>>,
    /// For each key, whether it may have more rows than the limit let through.
    pub(crate) more: BooleanBuffer,
}

impl SubtaskRows {
    /// The live rows of each key, at most `limit_rows` of each; only those whose row key without
    /// the key is at least `from` and less than `to`.
    pub(crate) fn ranges(
        &mut self,
        keys: &EncodedKeys,
        (from, to): (&[u8], Option<&[u8]>),
        limit_rows: usize,
    ) -> Result<FoundRows> {
        self.count_read(keys.len());
        let (mut key_of, mut found, mut more) = (Vec::new(), Vec::new(), Vec::new());
        for (index, &hash) in (0_u32..).zip(keys.hashes()) {
            let key = keys.key(index as usize);
            let from = [key, from].concat();
            let to = to.map(|to| [key, to].concat()).or_else(|| after(key));
            let (from, to) = (from.as_slice(), to.as_deref());
            let limit = self.limit;
            let rows = self.range(&KeyRange { key, hash, from, to, limit_rows, limit })?;
            self.check_answer_rows(found.len().saturating_add(rows.len()), limit)?;
            more.push(rows.len() == limit_rows);
            key_of.extend(std::iter::repeat_n(index, rows.len()));
            found.extend(rows.into_iter().map(Some));
        }
        Ok(FoundRows { key_of, rows: found, more: more.into_iter().collect() })
    }

    /// The live rows of a key in a range, in the order of their row keys: rows of the active
    /// buffer, valid until it is frozen.
    pub(crate) fn range(&mut self, range: &KeyRange<'_>) -> Result<Vec<u32>> {
        if !self.active.is_complete(range.key) {
            let view = self.links.view.current()?;
            self.add_from_layers(&view, range)?;
            let all = self.add_from_files(&view, range)?;
            let whole = range.from == range.key && range.to == after(range.key).as_deref();
            if all && whole {
                self.active.set_complete(range.key);
            }
        }
        let now_ms = self.now_ms();
        let active = &self.active;
        let key = |row: &u32| active.keys().key(*row as usize);
        let mut rows: Vec<u32> = active
            .rows_of(range.key)
            .iter()
            .copied()
            .filter(|row| range.contains(key(row)) && self.is_live(*row, now_ms))
            .collect();
        rows.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        rows.truncate(range.limit_rows);
        Ok(rows)
    }

    fn add_from_layers(&mut self, view: &View, range: &KeyRange<'_>) -> Result<()> {
        for layer in view.layers.get(self.subtask as usize).into_iter().flatten() {
            for &row in layer.buffer.rows_of(range.key) {
                let key = layer.buffer.keys().key(row as usize);
                let hash = layer.buffer.keys().hashes().get(row as usize).copied();
                let hash = hash.unwrap_or_default();
                if range.contains(key) && self.active.find(key, hash).is_none() {
                    let location = layer.location(row);
                    self.active.add_from(key, hash, &layer.buffer, row, location)?;
                }
            }
        }
        Ok(())
    }

    /// Adds rows on disk until there are enough; false when there are more.
    fn add_from_files(&mut self, view: &View, range: &KeyRange<'_>) -> Result<bool> {
        let schema = self.links.schema.clone();
        let group = schema.key_groups.group_of(range.hash);
        let ranges = view.pin.range(&schema, self.subtask, group, range.from, range.to)?;
        let mut cursors = RangeCursors::open(&schema, ranges)?;
        let now_ms = self.now_ms();
        // A row takes more in the buffer than in an answer, but mostly not twice as much.
        let full_bytes =
            range.limit.bytes.saturating_mul(2).saturating_add(self.active.memory_bytes());
        let mut live_rows = 0;
        while let Some(found) = cursors.next(&schema)? {
            if self.active.find(&found.key, found.hash).is_some() {
                continue;
            }
            if live_rows == range.limit_rows {
                return Ok(false);
            }
            let FoundRow { key, hash, location, values, row } = &found;
            let row = self.active.add_found(key, *hash, *location, values, *row)?;
            live_rows += usize::from(self.is_live(row, now_ms));
            self.check_answer_rows(live_rows, range.limit)?;
            if self.active.memory_bytes() > full_bytes {
                return Err(self.too_large(format_args!("{} bytes", range.limit.bytes)));
            }
        }
        Ok(true)
    }
}

/// The least bytes that are greater than all that begin with `prefix`.
pub(crate) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut next = prefix.get(..=last)?.to_vec();
    *next.last_mut()? += 1;
    Some(next)
}

fn key_at(keys: &EncodedKeys, index: u32) -> Result<(&[u8], u64)> {
    let hash = keys.hashes().get(index as usize);
    let hash = hash.ok_or_else(|| Error::internal("key index past the end of the batch"))?;
    Ok((keys.key(index as usize), *hash))
}

fn set(rows: &mut [u32], index: u32, row: u32) {
    if let Some(slot) = rows.get_mut(index as usize) {
        *slot = row;
    }
}

pub(crate) fn located(file: FileId, row: u32) -> Location {
    Location::At { file, row }
}

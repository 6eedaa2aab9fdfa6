//! Timers: points in time for each key.

use crate::range::{FoundRow, RangeCursors};
use crate::rows::SubtaskRows;
use crate::schema::TIME_COLUMN;
use crate::view::{Counters, View};
use crate::write_buffer::{Location, Status, WriteBuffer};
use crate::{Column, ColumnType, EncodedKeys, KeyBatch, KeyEncoder, Result};
use arrow_array::cast::AsArray as _;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, TimestampMillisecondArray};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Bytes of the time at the beginning of a row key.
const TIME_BYTES: usize = 8;

/// Timers that were due, in the order of their time and key.
#[derive(Debug, Clone)]
pub struct DueTimers {
    /// When each was due, in milliseconds since the Unix epoch.
    pub times: ArrayRef,
    /// Key columns, one row for each timer.
    pub key: Vec<ArrayRef>,
}

/// The timers of one subtask: each point in time at most once for each key. Used by one thread
/// at a time.
///
/// On disk they are ordered by time; in memory are only those that are due next.
#[derive(Debug)]
pub struct Timers {
    rows: SubtaskRows,
    time: KeyEncoder,
    /// All timers whose row key (time, then key) is less than `end`.
    horizon: BTreeMap<Vec<u8>, Pending>,
    /// `None`: the horizon holds all timers.
    end: Option<Vec<u8>>,
}

/// What is known of a timer in memory.
#[derive(Debug, Clone, Copy)]
struct Pending {
    hash: u64,
    location: Location,
    /// When it ends without having been due.
    expires_ms: i64,
}

impl Timers {
    pub(crate) fn new(rows: SubtaskRows) -> Result<Self> {
        let time = Column::required(TIME_COLUMN, ColumnType::TimestampMillis);
        let time = KeyEncoder::new(&[time])?;
        Ok(Self { rows, time, horizon: BTreeMap::new(), end: Some(Vec::new()) })
    }

    /// Sets a timer of each key: `times` (timestamps in milliseconds) has one row for each key. A
    /// key may be given more than once; setting a timer that is set changes nothing.
    ///
    /// # Errors
    /// As [`crate::ValueState::put`].
    pub fn set(&mut self, keys: &KeyBatch, times: &ArrayRef) -> Result<()> {
        let row_keys = self.row_keys(keys, times)?;
        let expires_ms = self
            .rows
            .expires(1)
            .map_or(i64::MAX, |column| column.as_primitive::<TimestampMillisecondType>().value(0));
        let mut fresh = Vec::with_capacity(row_keys.len());
        for (row, &hash) in (0_u32..).zip(row_keys.hashes()) {
            let key = row_keys.key(row as usize);
            // A timer with a time to live is set anew.
            if expires_ms == i64::MAX && self.horizon.contains_key(key) {
                continue;
            }
            fresh.push(row);
            if self.end.as_ref().is_none_or(|end| key < end.as_slice()) {
                let pending = Pending { hash, location: Location::Unknown, expires_ms };
                self.horizon.insert(key.to_vec(), pending);
            }
        }
        self.let_go();
        self.rows.put(&row_keys.take(&fresh), &[])
    }

    /// Removes timers, named as in [`Timers::set`]; one that is not set is fine.
    ///
    /// # Errors
    /// As [`Timers::set`].
    pub fn delete(&mut self, keys: &KeyBatch, times: &ArrayRef) -> Result<()> {
        let row_keys = self.row_keys(keys, times)?;
        for row in 0..row_keys.len() {
            self.horizon.remove(row_keys.key(row));
        }
        self.rows.delete(&row_keys)
    }

    /// Takes the timers that are due at `time_ms` (their time is at most that), earliest first,
    /// at most `limit` of them: they are set no longer. Call again when there were `limit`.
    ///
    /// # Errors
    /// As [`crate::ValueState::get`].
    pub fn take_due(&mut self, time_ms: i64, limit: usize) -> Result<DueTimers> {
        self.take_all_or_none(time_ms, limit, false)
    }

    /// Takes timers as [`Timers::take_due`] does, but no two of one key: it stops before the
    /// first whose key it has. Call again until there is none.
    ///
    /// # Errors
    /// As [`Timers::take_due`].
    pub fn take_due_once(&mut self, time_ms: i64, limit: usize) -> Result<DueTimers> {
        self.take_all_or_none(time_ms, limit, true)
    }

    fn take_all_or_none(&mut self, time_ms: i64, limit: usize, once: bool) -> Result<DueTimers> {
        let mut taken = Vec::new();
        let due = self.take(time_ms, limit, once, &mut taken);
        if due.is_err() {
            // They are set still.
            self.horizon.extend(taken);
        }
        due
    }

    /// `taken` gets the timers that leave the horizon, as far as it comes.
    fn take(
        &mut self,
        time_ms: i64,
        limit: usize,
        once: bool,
        taken: &mut Vec<(Vec<u8>, Pending)>,
    ) -> Result<DueTimers> {
        let mut due = EncodedKeys::default();
        let mut locations = Vec::new();
        let now_ms = self.rows.now_ms();
        // Row keys of timers that are due are less than this.
        let bound = match time_ms.checked_add(1) {
            Some(after_ms) => Some(self.encoded_time(after_ms)?),
            None => None,
        };
        let is_due = |key: &[u8]| bound.as_deref().is_none_or(|bound| key < bound);
        let mut keys: HashSet<Vec<u8>> = HashSet::new();
        while due.len() < limit {
            match self.horizon.first_entry() {
                Some(first) if is_due(first.key()) => {
                    let key = first.key().get(TIME_BYTES..).unwrap_or_default();
                    if once && keys.contains(key) {
                        break;
                    }
                    if once {
                        keys.insert(key.to_vec());
                    }
                    let (key, pending) = first.remove_entry();
                    if pending.expires_ms > now_ms {
                        due.push(&key, pending.hash)?;
                        locations.push(pending.location);
                        taken.push((key, pending));
                    }
                }
                _ if self.end.as_ref().is_some_and(|end| is_due(end)) => self.look_ahead()?,
                _ => break,
            }
        }
        self.rows.delete_located(&due, &locations)?;
        let columns = self.rows.links.schema.encoder.decode(&due)?;
        let mut columns = columns.into_iter();
        let times = columns
            .next()
            .unwrap_or_else(|| Arc::new(TimestampMillisecondArray::from(Vec::<i64>::new())));
        Ok(DueTimers { times, key: columns.collect() })
    }

    /// When the next timer is due, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// As [`Timers::take_due`].
    pub fn next_ms(&mut self) -> Result<Option<i64>> {
        let now_ms = self.rows.now_ms();
        loop {
            match self.horizon.first_entry() {
                Some(first) if first.get().expires_ms <= now_ms => drop(first.remove()),
                Some(first) => {
                    let mut keys = EncodedKeys::default();
                    keys.push(first.key(), first.get().hash)?;
                    let columns = self.rows.links.schema.encoder.decode(&keys)?;
                    let times = columns
                        .first()
                        .map(|column| column.as_primitive::<TimestampMillisecondType>().value(0));
                    return Ok(times);
                }
                None if self.end.is_some() => self.look_ahead()?,
                None => return Ok(None),
            }
        }
    }

    /// Begins a transaction; as [`crate::ValueState::begin`].
    ///
    /// # Errors
    /// `Internal` when one is under way already.
    pub fn begin(&mut self) -> Result<()> {
        self.rows.begin()
    }

    /// Ends a transaction: what was written stays.
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub fn commit(&mut self) -> Result<()> {
        self.rows.commit()
    }

    /// Ends a transaction: all is as it was when it began. Without one it does nothing.
    pub fn roll_back(&mut self) {
        self.rows.roll_back();
        // What is due next is read again.
        self.horizon.clear();
        self.end = Some(Vec::new());
    }

    /// The barrier of this checkpoint has been reached; as [`crate::ValueState::freeze`].
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        self.rows.freeze(Some(checkpoint))
    }

    /// Which subtask this is.
    pub fn subtask(&self) -> u32 {
        self.rows.subtask
    }

    fn row_keys(&self, keys: &KeyBatch, times: &ArrayRef) -> Result<EncodedKeys> {
        self.rows.check_keys(keys)?;
        let times = self.time.encode(std::slice::from_ref(times))?;
        let key_of: Vec<u32> = (0..).take(keys.len()).collect();
        EncodedKeys::join((keys.encoded(), &key_of), &times, true)
    }

    fn encoded_time(&self, time_ms: i64) -> Result<Vec<u8>> {
        let column: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![time_ms]));
        Ok(self.time.encode(&[column])?.key(0).to_vec())
    }

    /// Lets the latest timers of the horizon go when there are too many: they are in a buffer or
    /// on disk.
    fn let_go(&mut self) {
        let limit = self.rows.links.timers_in_memory;
        if self.horizon.len() <= limit.saturating_mul(2) {
            return;
        }
        if let Some(end) = self.horizon.keys().nth(limit).cloned() {
            self.horizon.split_off(&end);
            self.end = Some(end);
        }
    }

    /// Moves the end of the horizon, by about as many timers as may be in memory.
    fn look_ahead(&mut self) -> Result<()> {
        let Some(start) = self.end.clone() else { return Ok(()) };
        let limit = self.rows.links.timers_in_memory;
        let view = self.rows.links.view.current()?;
        Counters::add(&self.rows.links.view.counters.probes, 1);
        let mut end: Option<Vec<u8>> = None;
        let mut buffered = self.buffered(&view, &start);
        if buffered.len() > limit {
            buffered.truncate(limit);
            end = buffered.last().map(|(last, _)| [last.as_slice(), &[0]].concat());
        }
        let mut next: BTreeMap<Vec<u8>, Pending> = buffered.into_iter().collect();
        let schema = self.rows.links.schema.clone();
        let mut on_disk = self.on_disk(&view, &start)?;
        let mut read = 0;
        while let Some(found) = on_disk.next(&schema)? {
            if end.as_ref().is_some_and(|end| found.key >= *end) {
                break;
            }
            if read == limit {
                end = Some(found.key);
                break;
            }
            read += 1;
            // What a buffer says of a timer is newer.
            let key = (found.key.as_slice(), found.hash);
            let buffered = self.rows.active.find(key.0, key.1).is_some()
                || view.find(self.rows.subtask, key.0, key.1).is_some();
            if !buffered {
                let pending = self.pending(&found);
                next.insert(found.key, pending);
            }
        }
        if let Some(end) = &end {
            next.split_off(end);
        }
        self.end = end;
        self.horizon.append(&mut next);
        Ok(())
    }

    /// Timers in the buffers, from `start` on, in order.
    fn buffered(&self, view: &View, start: &[u8]) -> Vec<(Vec<u8>, Pending)> {
        let subtask = self.rows.subtask;
        let mut found = set_in(&self.rows.active, start, |_, _| true);
        for layer in view.layers.get(subtask as usize).into_iter().flatten() {
            found.extend(set_in(&layer.buffer, start, |key, hash| {
                let newest = view.find(subtask, key, hash);
                self.rows.active.find(key, hash).is_none()
                    && newest.is_some_and(|(newest, _)| Arc::ptr_eq(&newest.buffer, &layer.buffer))
            }));
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// Timers on disk, from `start` on: those of each key group lie together, in order.
    fn on_disk(&self, view: &View, start: &[u8]) -> Result<RangeCursors> {
        let (schema, subtask) = (&self.rows.links.schema, self.rows.subtask);
        let mut ranges = Vec::new();
        for group in schema.key_groups.groups_of(subtask) {
            ranges.extend(view.pin.range(schema, subtask, group, start, None)?);
        }
        RangeCursors::open(schema, ranges)
    }

    fn pending(&self, found: &FoundRow) -> Pending {
        let expires = self.rows.links.schema.expires_column();
        let expires_ms = expires
            .and_then(|column| found.values.get(column)?.timestamp_ms(found.row))
            .unwrap_or(i64::MAX);
        Pending { hash: found.hash, location: found.location, expires_ms }
    }
}

/// Timers that are set in a buffer, from `start` on.
fn set_in(
    buffer: &WriteBuffer,
    start: &[u8],
    wanted: impl Fn(&[u8], u64) -> bool,
) -> Vec<(Vec<u8>, Pending)> {
    let keys = buffer.keys();
    (0_u32..)
        .zip(keys.hashes())
        .filter_map(|(row, &hash)| {
            let key = keys.key(row as usize);
            if key < start || buffer.status(row) != Status::Written || !wanted(key, hash) {
                return None;
            }
            let expires_ms = buffer.expires_ms(row).unwrap_or(i64::MAX);
            Some((key.to_vec(), Pending { hash, location: Location::Unknown, expires_ms }))
        })
        .collect()
}

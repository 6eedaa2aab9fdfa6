//! Runs an operator in an ordinary `#[test]`, over states in memory.
//!
//! A [`TestHost`] does what a host does with one subtask: it groups the rows of a batch by
//! key, gives the operator its states, and keeps the states of the last barrier to go back to.
//! Rows and states pass through the same columns as in a component.
//!
//! ```
//! use howdah_sdk::prelude::*;
//! use howdah_sdk::testing::{Event, TestHost};
//!
//! #[derive(Row)]
//! struct Click { user: String }
//! #[derive(Key)]
//! struct User { user: String }
//! #[derive(Row, Clone, Debug, PartialEq)]
//! struct Count { clicks: i64 }
//!
//! struct Counter { counts: ValueState<User, Count> }
//!
//! impl Operator for Counter {
//!     type Input = Click;
//!     type Key = User;
//!     type Output = Count;
//!
//!     fn open(open: &mut Open<User>) -> Result<Self> {
//!         Ok(Self { counts: open.value("counts")? })
//!     }
//!
//!     fn process(
//!         &mut self,
//!         _: Click,
//!         record: &Record<'_, User>,
//!         out: &mut Emitter<Count>,
//!     ) -> Result<()> {
//!         let clicks = self.counts.get(record)?.map_or(1, |count| count.clicks + 1);
//!         out.emit(&Count { clicks });
//!         self.counts.put(record, Count { clicks });
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let click = || Click { user: "ann".to_owned() };
//! let mut host = TestHost::<Counter>::new()?;
//! host.process([click(), click()])?;
//! host.barrier()?;
//! host.process([click()])?;
//!
//! host.crash(); // what came after the barrier is lost, and comes again
//! host.restore()?;
//! assert_eq!(host.process([click()])?, [Event::insert(Count { clicks: 3 })]);
//! assert_eq!(host.calls("counts")?.gets, 3); // one for each batch
//! # Ok(())
//! # }
//! ```

mod memory;
mod table;

use std::collections::HashMap;
use std::rc::Rc;

use crate::columns::chunk;
use crate::driver::{self, Driver};
use crate::log::Level;
use crate::{Error, Operator, Result, Row, RowKind, Timestamp, row, wit};
use memory::Memory;
use table::Cells;

pub use memory::StateCalls;

/// A row on a stream: what goes into an operator, or comes out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<R> {
    /// The row.
    pub row: R,
    /// What it means if the stream is a changelog.
    pub kind: RowKind,
    /// Its event time.
    pub timestamp: Timestamp,
}

impl<R> Event<R> {
    /// A row of this kind, at event time 0.
    pub fn new(kind: RowKind, row: R) -> Self {
        Self { row, kind, timestamp: Timestamp::default() }
    }

    /// A new row, at event time 0.
    pub fn insert(row: R) -> Self {
        Self::new(RowKind::Insert, row)
    }

    /// The same with this event time.
    #[must_use]
    pub fn at(self, timestamp: Timestamp) -> Self {
        Self { timestamp, ..self }
    }
}

/// Hosts one subtask of the operator `O` in memory.
pub struct TestHost<O: Operator> {
    config: String,
    memory: Rc<Memory>,
    /// `None` after a crash.
    driver: Option<Driver<O>>,
    watermark: Timestamp,
    /// The last completed one; 0 before the first.
    checkpoint: u64,
}

impl<O: Operator> TestHost<O> {
    /// Opens the operator with an empty configuration and empty states.
    pub fn new() -> Result<Self> {
        Self::with_config("{}")
    }

    /// Opens the operator with this JSON object as configuration, and empty states.
    pub fn with_config(config: &str) -> Result<Self> {
        let spec = driver::describe::<O>(config)?;
        let mut host = Self {
            config: config.to_owned(),
            memory: Rc::new(Memory::new(&spec.states, row::fields::<O::Key>())),
            driver: None,
            watermark: Timestamp::MIN,
            checkpoint: 0,
        };
        host.restore()?;
        Ok(host)
    }

    /// Processes new rows at event time 0 as one batch, and returns what the operator emits.
    ///
    /// If the operator fails, so does this, and the host has [crashed](Self::crash).
    pub fn process(
        &mut self,
        rows: impl IntoIterator<Item = O::Input>,
    ) -> Result<Vec<Event<O::Output>>> {
        self.process_events(rows.into_iter().map(Event::insert))
    }

    /// The same for rows with kinds and event times.
    pub fn process_events(
        &mut self,
        events: impl IntoIterator<Item = Event<O::Input>>,
    ) -> Result<Vec<Event<O::Output>>> {
        let events: Vec<_> = events.into_iter().collect();
        if events.is_empty() {
            return Ok(Vec::new()); // a host sends no batch without rows
        }
        let (input, keys) = batch::<O>(&events, self.watermark)?;
        self.memory.begin_batch(keys);
        self.call(|driver| driver.process(&input))
    }

    /// Moves the watermark that comes with the next batches.
    pub fn set_watermark(&mut self, watermark: Timestamp) {
        self.watermark = watermark;
    }

    /// Lets a barrier pass the operator and completes its checkpoint: this is where a crash
    /// goes back to. Returns what the operator emits at the barrier.
    pub fn barrier(&mut self) -> Result<Vec<Event<O::Output>>> {
        let checkpoint = self.checkpoint.saturating_add(1);
        let events = self.call(|driver| driver.on_barrier(checkpoint))?;
        self.memory.commit();
        self.checkpoint = checkpoint;
        Ok(events)
    }

    /// Ends the input. Returns what the operator emits then.
    pub fn close(&mut self) -> Result<Vec<Event<O::Output>>> {
        self.call(Driver::close)
    }

    /// Drops the operator, and takes the states back to the last barrier.
    pub fn crash(&mut self) {
        self.driver = None;
        self.memory.end_batch();
        self.memory.roll_back();
    }

    /// Opens the operator anew, with the states as they are.
    pub fn restore(&mut self) -> Result<()> {
        self.driver = None;
        self.driver = Some(self.open_driver()?);
        Ok(())
    }

    pub(crate) fn open_driver(&self) -> Result<Driver<O>> {
        let context = wit::Context {
            pipeline: "test".to_owned(),
            operator: "operator".to_owned(),
            subtask: 0,
            parallelism: 1,
            config: self.config.clone(),
            restored_from: (self.checkpoint > 0).then_some(self.checkpoint),
        };
        Driver::open(context, Rc::clone(&self.memory) as Rc<_>)
    }

    /// The row of a key in a value state. Fails if there is no such state, or if its rows are
    /// no `V`.
    pub fn value<V: Row>(&self, state: &str, key: &O::Key) -> Result<Option<V>> {
        let key = table::rows(&row::encode([key].into_iter()), &row::fields::<O::Key>(), 1)?;
        let wanted = key.first();
        let rows = self.memory.rows(state, |cells| Some(cells) == wanted)?;
        Ok(self.decode(state, rows)?.pop().map(|(_, value)| value))
    }

    /// All keys and rows of a value state, in no particular order. Fails like
    /// [`value`](Self::value).
    pub fn values<V: Row>(&self, state: &str) -> Result<Vec<(O::Key, V)>> {
        let rows = self.memory.rows(state, |_| true)?;
        self.decode(state, rows)
    }

    /// The calls that the operator has made to a state so far. Fails if there is no such state.
    pub fn calls(&self, state: &str) -> Result<StateCalls> {
        self.memory.calls(state)
    }

    /// The messages that the operator has logged so far.
    pub fn logs(&self) -> Vec<(Level, String)> {
        self.memory.logs()
    }

    fn call(
        &mut self,
        call: impl FnOnce(&mut Driver<O>) -> Result<Vec<wit::Output>>,
    ) -> Result<Vec<Event<O::Output>>> {
        let Some(driver) = &mut self.driver else {
            return Err(Error::new("the operator has crashed: call `restore` first"));
        };
        let result = call(driver);
        self.memory.end_batch();
        let events = result.and_then(|outputs| events::<O>(&outputs));
        if events.is_err() {
            self.crash();
        }
        events
    }

    fn decode<V: Row>(&self, state: &str, rows: Vec<(Cells, Cells)>) -> Result<Vec<(O::Key, V)>> {
        self.memory.check_row::<V>(state)?;
        let count = rows.len();
        let (keys, values): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let keys = table::columns(&row::fields::<O::Key>(), keys.iter().map(Some))?;
        let values = table::columns(&row::fields::<V>(), values.iter().map(Some))?;
        (0..count).map(|row| Ok((O::Key::read(&keys, row)?, V::read(&values, row)?))).collect()
    }
}

/// The events as the batch that a host would make of them, and its distinct keys.
fn batch<O: Operator>(
    events: &[Event<O::Input>],
    watermark: Timestamp,
) -> Result<(wit::Input, Vec<Cells>)> {
    let is_changelog = events.iter().any(|event| event.kind != RowKind::Insert);
    if is_changelog && !O::INPUT_CHANGELOG {
        return Err(Error::new(
            "a host gives only inserts to an operator without `INPUT_CHANGELOG`",
        ));
    }
    let columns = row::encode(events.iter().map(|event| &event.row));
    let mut keys = Vec::new();
    let mut index_of = HashMap::new();
    let mut row_keys = Vec::new();
    for cells in key_cells::<O>(&columns, events.len())? {
        let index = *index_of.entry(cells).or_insert_with_key(|cells| {
            keys.push(Cells::clone(cells));
            index_u32(keys.len() - 1)
        });
        row_keys.extend_from_slice(&index.to_le_bytes());
    }
    let key_fields = row::fields::<O::Key>();
    let kinds = || events.iter().map(|event| event.kind as u8).collect();
    let timestamps = events.iter().flat_map(|event| event.timestamp.millis().to_le_bytes());
    let input = wit::Input {
        port: 0,
        batch: wit::Batch {
            rows: index_u32(events.len()),
            columns,
            row_kinds: O::INPUT_CHANGELOG.then(kinds),
        },
        timestamps: timestamps.collect(),
        watermark: watermark.millis(),
        keys: wit::KeyColumns {
            rows: index_u32(keys.len()),
            columns: table::columns(&key_fields, keys.iter().map(Some))?,
        },
        row_keys,
    };
    Ok((input, keys))
}

/// The key of each input row.
fn key_cells<O: Operator>(columns: &[wit::Column], rows: usize) -> Result<Vec<Cells>> {
    let input = <O::Input as Row>::FIELDS;
    let key_columns = <O::Key as Row>::FIELDS.iter().filter_map(|key| {
        let position = input.iter().position(|field| field.name == key.name)?;
        columns.get(position).cloned()
    });
    table::rows(&key_columns.collect::<Vec<_>>(), &row::fields::<O::Key>(), rows)
}

/// The rows of the outputs.
fn events<O: Operator>(outputs: &[wit::Output]) -> Result<Vec<Event<O::Output>>> {
    let mut events = Vec::new();
    for output in outputs {
        let batch = &output.batch;
        row::check::<O::Output>(&batch.columns, batch.rows as usize)
            .map_err(|error| error.context("output"))?;
        for row in 0..batch.rows as usize {
            let kind = batch.row_kinds.as_ref().and_then(|kinds| kinds.get(row)).copied();
            let timestamp = chunk(&output.timestamps, row).map(i64::from_le_bytes);
            events.push(Event {
                row: O::Output::read(&batch.columns, row)?,
                kind: RowKind::from_byte(kind.unwrap_or(0))?,
                timestamp: Timestamp::from_millis(timestamp.unwrap_or(0)),
            });
        }
    }
    Ok(events)
}

/// A test has no batch with more rows than that.
fn index_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

//! Runs an operator in an ordinary `#[test]`, over states in memory.
//!
//! A [`TestHost`] does what a host does with one subtask: it groups the rows of a batch by
//! key, gives the operator its states, fires its timers, and keeps the states of the last barrier
//! to go back to. Rows and states pass through the same columns as in a component.
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
//! #[derive(States)]
//! struct Clicks { counts: ValueState<User, Count> }
//!
//! #[operator]
//! impl Clicks {
//!     fn process(
//!         &mut self,
//!         _: Click,
//!         record: &Record<User>,
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
//! let mut host = TestHost::<Clicks>::new()?;
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
//!
//! # What it does
//!
//! * [`process`](TestHost::process) gives the rows to the operator as one batch (for each run of rows
//!   of one input, if there are several), with its distinct keys in the order of their first rows.
//! * [`advance_watermark`](TestHost::advance_watermark) and
//!   [`advance_clock`](TestHost::advance_clock) fire the timers that are due; a batch fires those
//!   that it set for times that have come. Event time comes before processing time. A call of the
//!   operator gets timers of one family in the order of time and key, up to the first that
//!   belongs to another family or whose key came already, at most 4096. When none is left, the
//!   operator hears of the watermark, if it has risen. A watermark or clock that goes back changes
//!   nothing.
//! * [`barrier`](TestHost::barrier) completes a checkpoint at once.
//!   [`crash`](TestHost::crash) goes back to the last one: states, timers and watermark; not the
//!   clock, metrics and logs.
//! * The clock begins at 0 and stands still. Rows with a time to live end by it.
//! * There is one subtask, which has all keys. Limits of time and memory are not imposed.

pub(crate) mod memory;
mod reduce;
mod table;

use std::collections::HashMap;
use std::rc::Rc;

use crate::columns::chunk;
use crate::driver::{self, Driver};
use crate::log::Level;
use crate::{
    Error, InputPort, Inputs, Operator, Outputs, Result, Row, RowKind, Timestamp, row, wit,
};
use memory::{Host, Memory};
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

/// What an operator has emitted: events, or for several outputs a tuple with those of each.
pub type Emitted<O> = <<O as Operator>::Output as Outputs>::Events;

/// Key and fields of a state are columns of one table, so no two may have a name. The key is called
/// as in the first input.
fn check_columns(spec: &wit::Spec) -> Result<()> {
    let key = spec.inputs.first().map(|input| input.key.as_slice()).unwrap_or_default();
    for state in &spec.states {
        let map_key = match &state.kind {
            wit::StateKind::Map(map_key) => map_key.as_slice(),
            _ => &[],
        };
        let names = |what, fields: &[wit::Field]| -> Vec<(&'static str, String)> {
            fields.iter().map(|field| (what, field.name.clone())).collect()
        };
        let mut columns: Vec<_> = key.iter().map(|name| ("key field", name.clone())).collect();
        columns.extend(names("map key field", map_key));
        columns.extend(names("field", &state.fields));
        let mut seen = HashMap::new();
        for (what, name) in columns {
            let before = *seen.entry(name.to_ascii_lowercase()).or_insert(what);
            if before != what {
                return Err(Error::new(format!(
                    "state `{}`: its {what} `{name}` is called like a {before}: rename it",
                    state.name
                )));
            }
        }
    }
    Ok(())
}

/// Hosts one subtask of the operator `O` in memory.
pub struct TestHost<O: Operator> {
    config: String,
    memory: Rc<Memory>,
    /// `None` after a crash.
    driver: Option<Driver<O>>,
    watermark: Timestamp,
    /// The last that the operator heard of.
    announced: Timestamp,
    /// The watermark at the last barrier.
    committed: Timestamp,
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
        check_columns(&spec)?;
        let mut host = Self {
            config: config.to_owned(),
            memory: Rc::new(Memory::new(&spec, row::fields::<O::Key>())),
            driver: None,
            watermark: Timestamp::MIN,
            announced: Timestamp::MIN,
            committed: Timestamp::MIN,
            checkpoint: 0,
        };
        host.restore()?;
        Ok(host)
    }

    /// Processes new rows at event time 0 as one batch, and returns what the operator emits.
    ///
    /// If the operator fails, so does this, and the host has [crashed](Self::crash).
    pub fn process(&mut self, rows: impl IntoIterator<Item = O::Input>) -> Result<Emitted<O>> {
        self.process_events(rows.into_iter().map(Event::insert))
    }

    /// The same for rows with kinds and event times.
    pub fn process_events(
        &mut self,
        events: impl IntoIterator<Item = Event<O::Input>>,
    ) -> Result<Emitted<O>> {
        let events: Vec<_> = events.into_iter().collect();
        let mut outputs = Vec::new();
        // A host sends no batch without rows.
        for events in events.chunk_by(|a, b| a.row.port() == b.row.port()) {
            let (input, keys) = batch::<O>(events, self.watermark)?;
            outputs.extend(self.call(Some(keys), false, |driver| driver.process(&input))?);
            outputs.extend(self.fire()?);
        }
        self.decode_outputs(&outputs)
    }

    /// Raises the watermark, of all inputs: timers of event time at or before it fire, then the
    /// operator hears of it. Returns what it emits. One that is not higher changes nothing.
    ///
    /// [`Timestamp::MAX`] is the watermark at the end of all inputs.
    pub fn advance_watermark(&mut self, watermark: Timestamp) -> Result<Emitted<O>> {
        self.watermark = self.watermark.max(watermark);
        let outputs = self.fire()?;
        self.decode_outputs(&outputs)
    }

    /// Sets the clock: timers of processing time at or before it fire. Returns what the operator
    /// emits. The clock does not go back.
    pub fn advance_clock(&mut self, time: Timestamp) -> Result<Emitted<O>> {
        self.memory.set_clock(time.millis());
        let outputs = self.fire()?;
        self.decode_outputs(&outputs)
    }

    /// Lets a barrier pass the operator and completes its checkpoint: this is where a crash
    /// goes back to. Returns what the operator emits at the barrier.
    pub fn barrier(&mut self) -> Result<Emitted<O>> {
        let checkpoint = self.checkpoint.saturating_add(1);
        let mut outputs = self.call(None, false, |driver| driver.on_barrier(checkpoint))?;
        self.memory.commit();
        self.committed = self.watermark;
        self.checkpoint = checkpoint;
        self.call(None, true, |driver| {
            driver.on_checkpoint_complete(checkpoint).map(|()| Vec::new())
        })?;
        outputs.extend(self.fire()?);
        self.decode_outputs(&outputs)
    }

    /// Calls the operator's `close`, and nothing else. Returns what it emits then. See
    /// [`end_input`](Self::end_input).
    pub fn close(&mut self) -> Result<Emitted<O>> {
        let outputs = self.call(None, false, Driver::close)?;
        self.decode_outputs(&outputs)
    }

    /// The end of the input as a pipeline comes to it: raises the watermark to [`Timestamp::MAX`], at
    /// which all timers of event time fire, then [`close`](Self::close)s. Returns what is emitted.
    pub fn end_input(&mut self) -> Result<Emitted<O>> {
        self.watermark = Timestamp::MAX;
        let mut outputs = self.fire()?;
        outputs.extend(self.call(None, false, Driver::close)?);
        self.decode_outputs(&outputs)
    }

    /// Drops the operator, and takes the states, the timers and the watermark back to the last
    /// barrier.
    pub fn crash(&mut self) {
        self.driver = None;
        self.memory.end_call();
        self.memory.roll_back();
        self.watermark = self.committed;
        self.announced = self.committed;
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
        self.memory.begin_call(None, true);
        Driver::open(context, Host(Rc::clone(&self.memory)))
    }

    /// The row of a key in a value or reducing state. Fails if there is no such state, or if its
    /// rows are no `V`.
    pub fn value<V: Row>(&self, state: &str, key: &O::Key) -> Result<Option<V>> {
        Ok(self.of_key(state, key)?.pop().map(|(_, value)| value))
    }

    /// All keys and rows of a state, those of a list or map one by one, in no particular order of
    /// the keys. Fails like [`value`](Self::value).
    pub fn values<V: Row>(&self, state: &str) -> Result<Vec<(O::Key, V)>> {
        let rows = self.memory.rows(state, |_| true)?;
        let keys = decode_cells::<O::Key>(rows.iter().map(|(key, _, _)| key))?;
        Ok(keys.into_iter().zip(self.decode(state, &rows)?).collect())
    }

    /// The rows of a key in a list state, in order. Fails like [`value`](Self::value).
    pub fn list<V: Row>(&self, state: &str, key: &O::Key) -> Result<Vec<V>> {
        Ok(self.of_key(state, key)?.into_iter().map(|(_, value)| value).collect())
    }

    /// The entries of a key in a map state, in the order of their map keys. Fails like
    /// [`value`](Self::value), and if its map keys are no `M`.
    pub fn map<M: Row, V: Row>(&self, state: &str, key: &O::Key) -> Result<Vec<(M, V)>> {
        match &self.memory.spec(state)?.kind {
            wit::StateKind::Map(fields) if *fields == row::fields::<M>() => {}
            _ => {
                let message = format!("state `{state}` is no map, or has other map keys");
                return Err(Error::new(message));
            }
        }
        let rows: Vec<(Cells, V)> = self.of_key(state, key)?;
        let (map_keys, values): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        Ok(decode_cells(map_keys.iter())?.into_iter().zip(values).collect())
    }

    /// The timers of a family that are set, in the order of their times. Fails if there is no
    /// such family.
    pub fn timers(&self, name: &str) -> Result<Vec<(O::Key, Timestamp)>> {
        let timers = self.memory.timers(name)?;
        let keys = decode_cells(timers.iter().map(|(_, key)| key))?;
        let times = timers.iter().map(|(time, _)| Timestamp::from_millis(*time));
        Ok(keys.into_iter().zip(times).collect())
    }

    /// The calls that the operator has made to a state or a family of timers so far. Fails if
    /// there is none of this name.
    pub fn calls(&self, name: &str) -> Result<StateCalls> {
        self.memory.calls(name)
    }

    /// What was added to a counter so far.
    pub fn counter(&self, name: &str) -> u64 {
        self.memory.counters.borrow().get(name).copied().unwrap_or_default()
    }

    /// The value of a gauge, if it was set.
    pub fn gauge(&self, name: &str) -> Option<f64> {
        self.memory.gauges.borrow().get(name).copied()
    }

    /// The values that a histogram took in so far.
    pub fn histogram(&self, name: &str) -> Vec<f64> {
        self.memory.histograms.borrow().get(name).cloned().unwrap_or_default()
    }

    /// The messages that the operator has logged so far.
    pub fn logs(&self) -> Vec<(Level, String)> {
        self.memory.logs()
    }

    /// The watermark.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Does what is due.
    fn fire(&mut self) -> Result<Vec<wit::Output>> {
        let mut outputs = Vec::new();
        while let Some((timer, due)) = self.memory.take_due(self.watermark.millis()) {
            let times = due.iter().flat_map(|(time, _)| time.to_le_bytes()).collect();
            let keys: Vec<_> = due.into_iter().map(|(_, key)| key).collect();
            let due = wit::Due {
                timer,
                keys: key_columns::<O>(&keys),
                times,
                watermark: self.watermark.millis(),
            };
            outputs.extend(self.call(Some(keys), false, |driver| driver.on_timers(&due))?);
        }
        if self.announced < self.watermark {
            self.announced = self.watermark;
            let watermark = self.watermark.millis();
            outputs.extend(self.call(None, false, |driver| driver.on_watermark(watermark))?);
            outputs.extend(self.fire()?); // of timers that it set
        }
        Ok(outputs)
    }

    fn call(
        &mut self,
        keys: Option<Vec<Cells>>,
        is_read_only: bool,
        call: impl FnOnce(&mut Driver<O>) -> Result<Vec<wit::Output>>,
    ) -> Result<Vec<wit::Output>> {
        let Some(driver) = &mut self.driver else {
            return Err(Error::new("the operator has crashed: call `restore` first"));
        };
        self.memory.begin_call(keys, is_read_only);
        let outputs = call(driver);
        self.memory.end_call();
        if outputs.is_err() {
            self.crash();
        }
        outputs
    }

    fn decode_outputs(&mut self, outputs: &[wit::Output]) -> Result<Emitted<O>> {
        let events = O::Output::events(outputs);
        if events.is_err() {
            self.crash();
        }
        events
    }

    /// What a state holds for a key, and under what.
    fn of_key<V: Row>(&self, state: &str, key: &O::Key) -> Result<Vec<(Cells, V)>> {
        let key = table::rows(&row::encode([key].into_iter()), &row::fields::<O::Key>(), 1)?;
        let wanted = key.first();
        let rows = self.memory.rows(state, |cells| Some(cells) == wanted)?;
        let values = self.decode(state, &rows)?;
        Ok(rows.into_iter().map(|(_, under, _)| under).zip(values).collect())
    }

    fn decode<V: Row>(&self, state: &str, rows: &[(Cells, Cells, Cells)]) -> Result<Vec<V>> {
        self.memory.check_row::<V>(state)?;
        decode_cells(rows.iter().map(|(_, _, row)| row))
    }
}

/// Rows of `R` from their cells.
fn decode_cells<'a, R: Row>(rows: impl ExactSizeIterator<Item = &'a Cells>) -> Result<Vec<R>> {
    let count = rows.len();
    let columns = table::columns(&row::fields::<R>(), rows.map(Some));
    (0..count).map(|row| R::read(&columns, row)).collect()
}

fn key_columns<O: Operator>(keys: &[Cells]) -> wit::KeyColumns {
    let columns = table::columns(&row::fields::<O::Key>(), keys.iter().map(Some));
    wit::KeyColumns { rows: index_u32(keys.len()), columns }
}

/// The events, all of one input, as the batch that a host would make of them, and its distinct
/// keys.
fn batch<O: Operator>(
    events: &[Event<O::Input>],
    watermark: Timestamp,
) -> Result<(wit::Input, Vec<Cells>)> {
    let index = events.first().map_or(0, |event| event.row.port());
    let Some(port) = <O::Input as Inputs>::PORTS.get(index) else {
        return Err(Error::new(format!("there is no input {index}")));
    };
    let takes_changes = port.changelog || (port.name.is_empty() && O::INPUT_CHANGELOG);
    let is_changelog = events.iter().any(|event| event.kind != RowKind::Insert);
    if is_changelog && !takes_changes {
        return Err(Error::new(
            "a host gives only inserts to an operator without `INPUT_CHANGELOG`, or to an input \
             without `#[input(changelog)]`",
        ));
    }
    let mut builders = row::builders_of(port.fields, events.len());
    events.iter().for_each(|event| event.row.write(&mut builders));
    let columns = row::finish(builders);
    let mut keys = Vec::new();
    let mut index_of = HashMap::new();
    let mut row_keys = Vec::new();
    for cells in key_cells::<O>(port, &columns, events.len())? {
        let index = *index_of.entry(cells).or_insert_with_key(|cells| {
            keys.push(Cells::clone(cells));
            index_u32(keys.len() - 1)
        });
        row_keys.extend_from_slice(&index.to_le_bytes());
    }
    let kinds = || events.iter().map(|event| event.kind as u8).collect();
    let timestamps = events.iter().flat_map(|event| event.timestamp.millis().to_le_bytes());
    let input = wit::Input {
        port: index_u32(index),
        batch: wit::Batch {
            rows: index_u32(events.len()),
            columns,
            row_kinds: takes_changes.then(kinds),
        },
        timestamps: timestamps.collect(),
        watermark: watermark.millis(),
        keys: key_columns::<O>(&keys),
        row_keys,
    };
    Ok((input, keys))
}

/// The key of each input row.
fn key_cells<O: Operator>(
    port: &InputPort,
    columns: &[wit::Column],
    rows: usize,
) -> Result<Vec<Cells>> {
    let names = driver::key_names::<O::Key>(port, "the input")?;
    let key_columns = names.iter().filter_map(|name| {
        let position = port.fields.iter().position(|field| field.name == name)?;
        columns.get(position).cloned()
    });
    table::rows(&key_columns.collect::<Vec<_>>(), &row::fields::<O::Key>(), rows)
}

/// The rows of one output.
#[doc(hidden)]
pub fn events<R: Row>(outputs: &[wit::Output], port: u32) -> Result<Vec<Event<R>>> {
    let mut events = Vec::new();
    for output in outputs.iter().filter(|output| output.port == port) {
        let batch = &output.batch;
        row::check::<R>(&batch.columns, batch.rows as usize)
            .map_err(|error| error.context("output"))?;
        for row in 0..batch.rows as usize {
            let kind = batch.row_kinds.as_ref().and_then(|kinds| kinds.get(row)).copied();
            let timestamp = chunk(&output.timestamps, row).map(i64::from_le_bytes);
            events.push(Event {
                row: R::read(&batch.columns, row)?,
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

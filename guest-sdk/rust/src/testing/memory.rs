//! States, timers, clock and metrics of a test, in memory, behind the same calls as in a component.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use super::reduce::fold;
use super::table::{self, Cells};
use crate::columns::chunk;
use crate::log::Level;
use crate::metrics::Metric;
use crate::{Error, ErrorKind, Result, Row, Timestamp, row, wit};

/// Timers that are handed over in one call.
const TIMERS_PER_CALL: usize = 4096;

/// How often an operator called a state or its timers, and for how many keys or entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StateCalls {
    /// Look-ups: `get`, `entries`.
    pub gets: u64,
    /// Keys or entries that were looked up.
    pub keys_read: u64,
    /// Calls that write rows: `put`, `append`, `add`, `set`.
    pub puts: u64,
    /// Rows that were written.
    pub keys_written: u64,
    /// Calls that remove rows: `delete`, `clear`.
    pub deletes: u64,
    /// Keys or entries whose row was to be removed.
    pub keys_deleted: u64,
}

/// The host of a test.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(super) Rc<Memory>);

/// All that a subtask keeps.
#[derive(Debug)]
pub(super) struct Memory {
    key_fields: Vec<wit::Field>,
    states: BTreeMap<String, Rc<State>>,
    /// In the order in which they were declared.
    timers: Vec<Rc<Family>>,
    call: Rc<Running>,
    clock: Cell<i64>,
    logs: RefCell<Vec<(Level, String)>>,
    pub(super) counters: RefCell<BTreeMap<String, u64>>,
    pub(super) gauges: RefCell<BTreeMap<String, f64>>,
    pub(super) histograms: RefCell<BTreeMap<String, Vec<f64>>>,
}

/// The call that is running.
#[derive(Debug, Default)]
struct Running {
    /// The keys that it is about.
    keys: RefCell<Option<Vec<Cells>>>,
    /// Whether it may change state and timers.
    is_read_only: Cell<bool>,
    /// The time of the clock when it began.
    now: Cell<i64>,
}

/// Rows: those of a key under their map keys, or under their positions in a list, or one under
/// nothing.
type Rows = BTreeMap<(Cells, Cells), Stored>;

/// A row of a state.
#[derive(Debug, Clone)]
struct Stored {
    cells: Cells,
    /// When it ends, by the clock.
    ends_ms: i64,
}

/// One state.
#[derive(Debug)]
pub(super) struct State {
    spec: wit::StateSpec,
    rows: RefCell<Rows>,
    /// The rows at the last barrier.
    committed: RefCell<Rows>,
    calls: Cell<StateCalls>,
}

/// A family of timers.
#[derive(Debug)]
struct Family {
    spec: wit::TimerSpec,
    set: RefCell<BTreeSet<(i64, Cells)>>,
    /// Those that were set at the last barrier.
    committed: RefCell<BTreeSet<(i64, Cells)>>,
    calls: Cell<StateCalls>,
}

impl Memory {
    pub(super) fn new(spec: &wit::Spec, key_fields: Vec<wit::Field>) -> Self {
        let state = |spec: &wit::StateSpec| {
            let state = State {
                spec: spec.clone(),
                rows: RefCell::default(),
                committed: RefCell::default(),
                calls: Cell::default(),
            };
            (spec.name.clone(), Rc::new(state))
        };
        let family = |spec: &wit::TimerSpec| {
            Rc::new(Family {
                spec: spec.clone(),
                set: RefCell::default(),
                committed: RefCell::default(),
                calls: Cell::default(),
            })
        };
        Self {
            key_fields,
            states: spec.states.iter().map(state).collect(),
            timers: spec.timers.iter().map(family).collect(),
            call: Rc::default(),
            clock: Cell::new(0),
            logs: RefCell::default(),
            counters: RefCell::default(),
            gauges: RefCell::default(),
            histograms: RefCell::default(),
        }
    }

    /// A call begins; `keys` are those that it is about.
    pub(super) fn begin_call(&self, keys: Option<Vec<Cells>>, is_read_only: bool) {
        self.call.keys.replace(keys);
        self.call.is_read_only.set(is_read_only);
        self.call.now.set(self.clock.get());
    }

    pub(super) fn end_call(&self) {
        self.call.keys.replace(None);
    }

    /// Sets the clock, which does not go back.
    pub(super) fn set_clock(&self, millis: i64) {
        self.clock.set(self.clock.get().max(millis));
    }

    pub(super) fn commit(&self) {
        for state in self.states.values() {
            state.committed.replace(state.rows.borrow().clone());
        }
        for family in &self.timers {
            family.committed.replace(family.set.borrow().clone());
        }
    }

    pub(super) fn roll_back(&self) {
        for state in self.states.values() {
            state.rows.replace(state.committed.borrow().clone());
        }
        for family in &self.timers {
            family.set.replace(family.committed.borrow().clone());
        }
    }

    /// Takes the next timers that are due, by the rules of the host: event time comes before
    /// processing time; a call gets timers of one family, in the order of time and key, up to the
    /// first that belongs to another family or whose key came already.
    pub(super) fn take_due(&self, watermark: i64) -> Option<(u32, Vec<(i64, Cells)>)> {
        let event_time = self.take_due_of(wit::TimeDomain::EventTime, watermark);
        event_time.or_else(|| self.take_due_of(wit::TimeDomain::ProcessingTime, self.clock.get()))
    }

    fn take_due_of(&self, domain: wit::TimeDomain, until: i64) -> Option<(u32, Vec<(i64, Cells)>)> {
        let in_domain = (0_u32..).zip(&self.timers).filter(|(_, f)| f.spec.domain == domain);
        let mut next: Vec<(i64, u32)> = in_domain
            .filter_map(|(index, family)| Some((family.set.borrow().first()?.0, index)))
            .collect();
        next.sort_unstable();
        let (first, others) = next.split_first()?;
        let family = self.timers.get(first.1 as usize)?;
        let mut keys = BTreeSet::new();
        let mut due = Vec::new();
        let mut set = family.set.borrow_mut();
        while let Some((time, key)) = set.first() {
            let is_earlier = others.first().is_none_or(|other| (*time, first.1) < *other);
            if *time > until || !is_earlier || due.len() == TIMERS_PER_CALL {
                break;
            }
            if !keys.insert(key.clone()) {
                break;
            }
            due.extend(set.pop_first());
        }
        (!due.is_empty()).then_some((first.1, due))
    }

    /// The rows of a state whose key is wanted, with what they are stored under.
    pub(super) fn rows(
        &self,
        state: &str,
        is_wanted: impl Fn(&Cells) -> bool,
    ) -> Result<Vec<(Cells, Cells, Cells)>> {
        let now = self.clock.get();
        let state = self.state(state)?;
        let rows = state.rows.borrow();
        let wanted = rows.iter().filter(|((key, _), row)| row.ends_ms > now && is_wanted(key));
        Ok(wanted
            .map(|((key, under), row)| (key.clone(), under.clone(), row.cells.clone()))
            .collect())
    }

    /// The timers of a family, in the order of time and key.
    pub(super) fn timers(&self, name: &str) -> Result<Vec<(i64, Cells)>> {
        Ok(self.family(name)?.set.borrow().iter().cloned().collect())
    }

    /// What a state was declared with.
    pub(super) fn spec(&self, state: &str) -> Result<&wit::StateSpec> {
        Ok(&self.state(state)?.spec)
    }

    /// Checks that `V` is the row of this state.
    pub(super) fn check_row<V: Row>(&self, state: &str) -> Result<()> {
        let fields = &self.spec(state)?.fields;
        let wanted = row::fields::<V>();
        if *fields == wanted {
            return Ok(());
        }
        let names = |fields: &[wit::Field]| {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            names.join(", ")
        };
        Err(Error::new(format!(
            "state `{state}` has rows with other fields: {}, not {}; or with other types",
            names(fields),
            names(&wanted)
        )))
    }

    pub(super) fn calls(&self, name: &str) -> Result<StateCalls> {
        match self.timers.iter().find(|family| family.spec.name == name) {
            Some(family) => Ok(family.calls.get()),
            None => Ok(self.state(name)?.calls.get()),
        }
    }

    pub(super) fn logs(&self) -> Vec<(Level, String)> {
        self.logs.borrow().clone()
    }

    fn state(&self, name: &str) -> Result<&Rc<State>> {
        self.states.get(name).ok_or_else(|| not_declared("state", name))
    }

    fn family(&self, name: &str) -> Result<&Rc<Family>> {
        let found = self.timers.iter().find(|family| family.spec.name == name);
        found.ok_or_else(|| not_declared("timers", name))
    }
}

fn not_declared(what: &str, name: &str) -> Error {
    let message = format!("the operator declares no {what} `{name}`");
    wit::Error { kind: ErrorKind::NotDeclared, message }.into()
}

impl Host {
    fn handle(&self, name: &str) -> Result<Handle, wit::Error> {
        Ok(Handle {
            key_fields: self.0.key_fields.clone(),
            state: Rc::clone(self.0.state(name)?),
            call: Rc::clone(&self.0.call),
        })
    }

    pub(crate) fn value(&self, name: &str) -> Result<ValueState, wit::Error> {
        self.handle(name).map(ValueState)
    }

    pub(crate) fn list(&self, name: &str) -> Result<ListState, wit::Error> {
        self.handle(name).map(ListState)
    }

    pub(crate) fn map(&self, name: &str) -> Result<MapState, wit::Error> {
        self.handle(name).map(MapState)
    }

    pub(crate) fn reducing(&self, name: &str) -> Result<ReducingState, wit::Error> {
        self.handle(name).map(ReducingState)
    }

    pub(crate) fn timers(&self, name: &str) -> Result<TimerService, wit::Error> {
        Ok(TimerService {
            key_fields: self.0.key_fields.clone(),
            family: Rc::clone(self.0.family(name)?),
            call: Rc::clone(&self.0.call),
        })
    }

    pub(crate) fn log(&self, level: Level, message: &str) {
        self.0.logs.borrow_mut().push((level, message.to_owned()));
    }

    #[expect(clippy::unused_self, reason = "the host of a component needs it")]
    pub(crate) fn log_enabled(&self, _: Level) -> bool {
        true
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.call.now.get())
    }

    pub(crate) fn record(&self, name: &str, metric: Metric) {
        let name = name.to_owned();
        match metric {
            Metric::Counter(amount) => {
                *self.0.counters.borrow_mut().entry(name).or_default() += amount;
            }
            Metric::Gauge(value) => drop(self.0.gauges.borrow_mut().insert(name, value)),
            Metric::Histogram(value) => {
                self.0.histograms.borrow_mut().entry(name).or_default().push(value);
            }
        }
    }
}

impl Running {
    /// The keys that a call to the host means.
    fn keys(&self, keys: &wit::Keys, fields: &[wit::Field]) -> Result<Vec<Cells>> {
        let current = self.keys.borrow();
        let current = current.as_ref().ok_or_else(|| {
            Error::invalid_argument(
                "keys of the running call are there only in `process` and `on-timers`",
            )
        });
        match keys {
            wit::Keys::Current => current.cloned(),
            wit::Keys::Selected(indices) => {
                let current = current?;
                u32s(indices)
                    .map(|index| {
                        let key = current.get(index as usize);
                        key.cloned().ok_or_else(|| Error::invalid_argument("no such key"))
                    })
                    .collect()
            }
            wit::Keys::Explicit(keys) => {
                let rows = keys.rows as usize;
                check(&keys.columns, fields, rows)?;
                table::rows(&keys.columns, fields, rows)
            }
        }
    }

    fn check_writable(&self) -> Result<()> {
        if self.is_read_only.get() {
            return Err(Error::invalid_argument("state and timers cannot be changed in this call"));
        }
        Ok(())
    }
}

/// A state as the operator has it.
#[derive(Debug)]
struct Handle {
    key_fields: Vec<wit::Field>,
    state: Rc<State>,
    call: Rc<Running>,
}

impl Handle {
    fn keys(&self, keys: &wit::Keys) -> Result<Vec<Cells>> {
        self.call.keys(keys, &self.key_fields)
    }

    fn count(&self, count: impl FnOnce(&mut StateCalls)) {
        let mut calls = self.state.calls.get();
        count(&mut calls);
        self.state.calls.set(calls);
    }

    fn count_read(&self, keys: usize) {
        self.count(|calls| {
            calls.gets += 1;
            calls.keys_read += keys as u64;
        });
    }

    /// The rows of what is named, and whether there are any.
    fn get(&self, names: &[(Cells, Cells)]) -> wit::Rows {
        self.count_read(names.len());
        let rows = self.state.rows.borrow();
        let now = self.call.now.get();
        let found: Vec<_> =
            names.iter().map(|name| rows.get(name).filter(|row| row.ends_ms > now)).collect();
        let present = found.chunks(8).map(|rows| {
            let is_there = rows.iter().map(|row| u8::from(row.is_some()));
            is_there.enumerate().fold(0, |bits, (bit, is_there)| bits | is_there << bit)
        });
        wit::Rows {
            present: found.iter().any(Option::is_none).then(|| present.collect()),
            columns: table::columns(
                &self.state.spec.fields,
                found.iter().map(|row| row.map(|row| &row.cells)),
            ),
        }
    }

    fn put(&self, names: Vec<(Cells, Cells)>, columns: &[wit::Column]) -> Result<()> {
        self.call.check_writable()?;
        check(columns, &self.state.spec.fields, names.len())?;
        let written = table::rows(columns, &self.state.spec.fields, names.len())?;
        self.count(|calls| {
            calls.puts += 1;
            calls.keys_written += names.len() as u64;
        });
        let mut rows = self.state.rows.borrow_mut();
        for (name, cells) in names.into_iter().zip(written) {
            rows.insert(name, self.stored(cells));
        }
        Ok(())
    }

    fn stored(&self, cells: Cells) -> Stored {
        let ttl_ms = self.state.spec.ttl.map(|ttl| i64::try_from(ttl.millis).unwrap_or(i64::MAX));
        let ends_ms = ttl_ms.map_or(i64::MAX, |ttl| self.call.now.get().saturating_add(ttl));
        Stored { cells, ends_ms }
    }

    fn delete(&self, names: &[(Cells, Cells)]) -> Result<()> {
        self.call.check_writable()?;
        self.count(|calls| {
            calls.deletes += 1;
            calls.keys_deleted += names.len() as u64;
        });
        let mut rows = self.state.rows.borrow_mut();
        names.iter().for_each(|name| drop(rows.remove(name)));
        Ok(())
    }

    fn clear(&self, keys: &wit::Keys) -> Result<()> {
        let keys: BTreeSet<_> = self.keys(keys)?.into_iter().collect();
        self.call.check_writable()?;
        self.count(|calls| {
            calls.deletes += 1;
            calls.keys_deleted += keys.len() as u64;
        });
        self.state.rows.borrow_mut().retain(|(key, _), _| !keys.contains(key));
        Ok(())
    }

    /// The rows of each key in a range, at most `limit` of each.
    fn ranges(
        &self,
        keys: &[Cells],
        (from, to): (Option<&Cells>, Option<&Cells>),
        limit: u32,
    ) -> Ranges {
        let rows = self.state.rows.borrow();
        let now = self.call.now.get();
        let mut found = Ranges::default();
        for (key_of, key) in (0_u32..).zip(keys) {
            let start = (key.clone(), from.cloned().unwrap_or_default());
            let in_range = rows
                .range((Bound::Included(start), Bound::Unbounded))
                .take_while(|((other, under), _)| other == key && to.is_none_or(|to| under < to))
                .filter(|(_, row)| row.ends_ms > now);
            let mut is_truncated = false;
            for (count, ((_, under), row)) in (0..).zip(in_range) {
                if count == limit {
                    is_truncated = true;
                    break;
                }
                found.key_of.push(key_of);
                found.under.push(under.clone());
                found.rows.push(row.cells.clone());
            }
            found.truncated.push(is_truncated);
        }
        self.count_read(keys.len());
        found
    }
}

/// Rows of several keys.
#[derive(Default)]
struct Ranges {
    key_of: Vec<u32>,
    under: Vec<Cells>,
    rows: Vec<Cells>,
    truncated: Vec<bool>,
}

impl Ranges {
    fn key_of(&self) -> Vec<u8> {
        self.key_of.iter().flat_map(|key| key.to_le_bytes()).collect()
    }

    fn truncated(&self) -> Option<Vec<u8>> {
        let bits = self.truncated.chunks(8).map(|bits| {
            bits.iter().enumerate().fold(0, |byte, (bit, set)| byte | u8::from(*set) << bit)
        });
        self.truncated.contains(&true).then(|| bits.collect())
    }

    fn count(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }
}

/// At most one row for each key.
#[derive(Debug)]
pub(crate) struct ValueState(Handle);

impl ValueState {
    pub(crate) fn get(&self, keys: &wit::Keys) -> Result<wit::Rows, wit::Error> {
        Ok(self.0.get(&single(self.0.keys(keys)?)))
    }

    pub(crate) fn put(&self, keys: &wit::Keys, columns: &[wit::Column]) -> Result<(), wit::Error> {
        Ok(self.0.put(single(self.0.keys(keys)?), columns)?)
    }

    pub(crate) fn delete(&self, keys: &wit::Keys) -> Result<(), wit::Error> {
        Ok(self.0.delete(&single(self.0.keys(keys)?))?)
    }
}

/// The names of the rows of states that have one for each key.
fn single(keys: Vec<Cells>) -> Vec<(Cells, Cells)> {
    keys.into_iter().map(|key| (key, Cells::new())).collect()
}

/// Rows in the order in which they were added.
#[derive(Debug)]
pub(crate) struct ListState(Handle);

impl ListState {
    pub(crate) fn append(
        &self,
        keys: &wit::Keys,
        key_of: &[u8],
        columns: &[wit::Column],
    ) -> Result<(), wit::Error> {
        let mut names = Vec::new();
        let mut ends: BTreeMap<Cells, i128> = BTreeMap::new();
        for key in named(&self.0.keys(keys)?, key_of)? {
            let end = ends.entry(key.clone()).or_insert_with(|| {
                let rows = self.0.state.rows.borrow();
                let end = (key.clone(), vec![table::Cell::Integer(i128::MAX)]);
                match rows.range(..end).next_back() {
                    Some(((other, under), _)) if *other == key => match under.first() {
                        Some(table::Cell::Integer(position)) => position + 1,
                        _ => 0,
                    },
                    _ => 0,
                }
            });
            names.push((key, vec![table::Cell::Integer(*end)]));
            *end += 1;
        }
        Ok(self.0.put(names, columns)?)
    }

    pub(crate) fn get(
        &self,
        keys: &wit::Keys,
        limit_rows: u32,
    ) -> Result<wit::ListRows, wit::Error> {
        let found = self.0.ranges(&self.0.keys(keys)?, (None, None), limit_rows);
        Ok(wit::ListRows {
            rows: found.count(),
            key_of: found.key_of(),
            columns: table::columns(&self.0.state.spec.fields, found.rows.iter().map(Some)),
            truncated: found.truncated(),
        })
    }

    pub(crate) fn clear(&self, keys: &wit::Keys) -> Result<(), wit::Error> {
        Ok(self.0.clear(keys)?)
    }
}

/// Rows under map keys.
#[derive(Debug)]
pub(crate) struct MapState(Handle);

impl MapState {
    fn map_key_fields(&self) -> &[wit::Field] {
        match &self.0.state.spec.kind {
            wit::StateKind::Map(fields) => fields,
            _ => &[],
        }
    }

    /// The names of entries.
    fn names(
        &self,
        keys: &wit::Keys,
        key_of: &[u8],
        map_keys: &[wit::Column],
    ) -> Result<Vec<(Cells, Cells)>> {
        let keys = named(&self.0.keys(keys)?, key_of)?;
        check(map_keys, self.map_key_fields(), keys.len())?;
        let map_keys = table::rows(map_keys, self.map_key_fields(), keys.len())?;
        Ok(keys.into_iter().zip(map_keys).collect())
    }

    pub(crate) fn get(
        &self,
        keys: &wit::Keys,
        key_of: &[u8],
        map_keys: &[wit::Column],
    ) -> Result<wit::Rows, wit::Error> {
        Ok(self.0.get(&self.names(keys, key_of, map_keys)?))
    }

    pub(crate) fn put(
        &self,
        keys: &wit::Keys,
        key_of: &[u8],
        map_keys: &[wit::Column],
        columns: &[wit::Column],
    ) -> Result<(), wit::Error> {
        Ok(self.0.put(self.names(keys, key_of, map_keys)?, columns)?)
    }

    pub(crate) fn delete(
        &self,
        keys: &wit::Keys,
        key_of: &[u8],
        map_keys: &[wit::Column],
    ) -> Result<(), wit::Error> {
        Ok(self.0.delete(&self.names(keys, key_of, map_keys)?)?)
    }

    pub(crate) fn entries(
        &self,
        keys: &wit::Keys,
        range: &wit::MapRange,
        limit_rows: u32,
    ) -> Result<wit::MapRows, wit::Error> {
        let bound = |bound: &Option<Vec<wit::Column>>| -> Result<Option<Cells>> {
            let Some(columns) = bound else { return Ok(None) };
            check(columns, self.map_key_fields(), 1)?;
            Ok(table::rows(columns, self.map_key_fields(), 1)?.pop())
        };
        let (from, to) = (bound(&range.from)?, bound(&range.to)?);
        let keys = self.0.keys(keys)?;
        let found = self.0.ranges(&keys, (from.as_ref(), to.as_ref()), limit_rows);
        Ok(wit::MapRows {
            rows: found.count(),
            key_of: found.key_of(),
            map_keys: table::columns(self.map_key_fields(), found.under.iter().map(Some)),
            columns: table::columns(&self.0.state.spec.fields, found.rows.iter().map(Some)),
            truncated: found.truncated(),
        })
    }

    pub(crate) fn clear(&self, keys: &wit::Keys) -> Result<(), wit::Error> {
        Ok(self.0.clear(keys)?)
    }
}

/// One folded row for each key.
#[derive(Debug)]
pub(crate) struct ReducingState(Handle);

impl ReducingState {
    pub(crate) fn get(&self, keys: &wit::Keys) -> Result<wit::Rows, wit::Error> {
        Ok(self.0.get(&single(self.0.keys(keys)?)))
    }

    pub(crate) fn add(&self, keys: &wit::Keys, columns: &[wit::Column]) -> Result<(), wit::Error> {
        let keys = self.0.keys(keys)?;
        self.0.call.check_writable()?;
        let spec = &self.0.state.spec;
        let wit::StateKind::Reducing(reducers) = &spec.kind else { return Ok(()) };
        let mut added_fields = spec.fields.clone();
        for (field, reducer) in added_fields.iter_mut().zip(reducers) {
            field.nullable |= *reducer == wit::Reducer::Count; // what is counted may lack a value
        }
        check(columns, &added_fields, keys.len())?;
        let added = table::rows(columns, &spec.fields, keys.len())?;
        self.0.count(|calls| {
            calls.puts += 1;
            calls.keys_written += keys.len() as u64;
        });
        let now = self.0.call.now.get();
        let mut rows = self.0.state.rows.borrow_mut();
        for (name, added) in single(keys).into_iter().zip(added) {
            let old = rows.get(&name).filter(|row| row.ends_ms > now).map(|row| &row.cells);
            let mut folded = Cells::new();
            for (index, (field, reducer)) in spec.fields.iter().zip(reducers).enumerate() {
                let old = old.and_then(|cells| cells.get(index));
                let added = added.get(index).unwrap_or(&table::Cell::Null);
                folded.push(fold(*reducer, field, old, added)?);
            }
            rows.insert(name, self.0.stored(folded));
        }
        Ok(())
    }

    pub(crate) fn clear(&self, keys: &wit::Keys) -> Result<(), wit::Error> {
        Ok(self.0.clear(keys)?)
    }
}

/// A family of timers.
#[derive(Debug)]
pub(crate) struct TimerService {
    key_fields: Vec<wit::Field>,
    family: Rc<Family>,
    call: Rc<Running>,
}

impl TimerService {
    fn timers(&self, keys: &wit::Keys, times: &[u8]) -> Result<Vec<(i64, Cells)>> {
        self.call.check_writable()?;
        let keys = self.call.keys(keys, &self.key_fields)?;
        if times.len() != keys.len() * 8 {
            return Err(Error::invalid_argument("there is not one time for each key"));
        }
        let times = times.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
        Ok(times.zip(keys).collect())
    }

    pub(crate) fn set(&self, keys: &wit::Keys, times: &[u8]) -> Result<(), wit::Error> {
        let timers = self.timers(keys, times)?;
        let mut calls = self.family.calls.get();
        calls.puts += 1;
        calls.keys_written += timers.len() as u64;
        self.family.calls.set(calls);
        self.family.set.borrow_mut().extend(timers);
        Ok(())
    }

    pub(crate) fn delete(&self, keys: &wit::Keys, times: &[u8]) -> Result<(), wit::Error> {
        let timers = self.timers(keys, times)?;
        let mut calls = self.family.calls.get();
        calls.deletes += 1;
        calls.keys_deleted += timers.len() as u64;
        self.family.calls.set(calls);
        let mut set = self.family.set.borrow_mut();
        for timer in &timers {
            set.remove(timer);
        }
        Ok(())
    }
}

fn u32s(buffer: &[u8]) -> impl Iterator<Item = u32> {
    (0..buffer.len() / 4).filter_map(|index| chunk(buffer, index).map(u32::from_le_bytes))
}

/// The key of each row that `key_of` names.
fn named(keys: &[Cells], key_of: &[u8]) -> Result<Vec<Cells>> {
    u32s(key_of)
        .map(|index| {
            let key = keys.get(index as usize);
            key.cloned().ok_or_else(|| Error::invalid_argument("no such key"))
        })
        .collect()
}

fn check(columns: &[wit::Column], fields: &[wit::Field], rows: usize) -> Result<()> {
    if columns.len() != fields.len() {
        return Err(row::wrong_column_count(fields.len(), columns.len()));
    }
    fields.iter().zip(columns).try_for_each(|(field, column)| {
        column
            .check(field.type_, field.nullable, rows)
            .map_err(|error| error.context(format!("column `{}`", field.name)))
    })
}

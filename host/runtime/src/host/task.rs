//! What one subtask keeps: its keys, states and timers.

use crate::bindings::types::{Error, ErrorKind};
use crate::instance::Context;
use crate::limits::Limits;
use crate::spec::{OperatorSpec, TimeDomain};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_buffer::ScalarBuffer;
use howdah_state::{
    AnswerLimit, Clock, Column, KeyBatch, KeyEncoder, KeyGroups, ListState, MapState, Reducer,
    ReducingState, Result, StateKind, StateTable, Timers, ValueState,
};

/// Bytes that an answer may have, however little the operator may hand over.
const LEAST_ANSWER_BYTES: usize = 1 << 20;
/// Timers that are handed over in one call.
pub(crate) const TIMERS_PER_CALL: usize = 4096;

/// The keys, states and timers of one subtask.
pub(crate) struct Task {
    pub(crate) subtask: u32,
    pub(crate) encoder: KeyEncoder,
    pub(crate) key_groups: KeyGroups,
    pub(crate) clock: Clock,
    pub(super) values: Vec<Named<ValueState>>,
    pub(super) lists: Vec<Named<ListState>>,
    pub(super) maps: Vec<Named<KeyedMap>>,
    pub(super) reducing: Vec<Named<ReducingState>>,
    pub(crate) timers: Vec<TimerFamily>,
    /// Timers that are handed over in one call, at most.
    pub(crate) timers_per_call: usize,
}

/// A state that `describe` declared.
pub(super) struct Named<S> {
    pub(super) name: String,
    /// The columns of the rows that the operator hands over.
    pub(super) fields: Vec<Column>,
    pub(super) state: S,
}

/// A map state with the fields of its map keys.
pub(super) struct KeyedMap {
    pub(super) state: MapState,
    pub(super) map_key: Vec<Column>,
}

/// A family of timers that `describe` declared.
pub(crate) struct TimerFamily {
    pub(crate) name: String,
    pub(crate) domain: TimeDomain,
    pub(crate) timers: Timers,
}

/// Timers that are set no longer, since they are due.
pub(crate) struct DueTimers {
    /// Index of the family.
    pub(crate) timer: u32,
    /// The key of each; no key comes twice.
    pub(crate) keys: KeyBatch,
    /// When each was due, in milliseconds since the Unix epoch.
    pub(crate) times: ScalarBuffer<i64>,
}

impl Task {
    /// Takes the subtask's handles of the tables that the spec asks for.
    pub(crate) fn new(
        spec: &OperatorSpec,
        context: &Context,
        limits: &Limits,
        tables: &[StateTable],
    ) -> Result<Self> {
        let limit = AnswerLimit {
            rows: limits.batch_rows,
            bytes: limits.batch_bytes.max(LEAST_ANSWER_BYTES),
        };
        // Most of what an instance takes would be to work them out again.
        let key_groups = match tables.first() {
            Some(table) => table.key_groups().clone(),
            None => KeyGroups::new(context.key_groups, context.parallelism)?,
        };
        let mut task = Self {
            subtask: context.subtask,
            encoder: KeyEncoder::new(&spec.key_columns())?,
            key_groups,
            clock: context.clock.clone(),
            values: Vec::new(),
            lists: Vec::new(),
            maps: Vec::new(),
            reducing: Vec::new(),
            timers: Vec::new(),
            timers_per_call: TIMERS_PER_CALL,
        };
        let mut tables = tables.iter();
        for (state, table) in spec.states.iter().zip(&mut tables) {
            let (name, fields) = (state.name.clone(), state.fields.clone());
            match &state.kind {
                StateKind::List => {
                    let mut state = table.list_state(task.subtask)?;
                    state.limit_answers(limit);
                    task.lists.push(Named { name, fields, state });
                }
                StateKind::Map { map_key } => {
                    let mut state = table.map_state(task.subtask)?;
                    state.limit_answers(limit);
                    let state = KeyedMap { state, map_key: map_key.clone() };
                    task.maps.push(Named { name, fields, state });
                }
                StateKind::Reducing { reducers } => {
                    let fields = added(fields, reducers);
                    let mut state = table.reducing_state(task.subtask)?;
                    state.limit_answers(limit);
                    task.reducing.push(Named { name, fields, state });
                }
                StateKind::Value | StateKind::Timers => {
                    let mut state = table.value_state(task.subtask)?;
                    state.limit_answers(limit);
                    task.values.push(Named { name, fields, state });
                }
            }
        }
        for (timers, table) in spec.timers.iter().zip(tables) {
            task.timers.push(TimerFamily {
                name: timers.name.clone(),
                domain: timers.domain,
                timers: table.timers(task.subtask)?,
            });
        }
        Ok(task)
    }

    /// Hands over all write buffers: what was written so far belongs to the checkpoint.
    pub(crate) fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        self.values.iter_mut().try_for_each(|named| named.state.freeze(checkpoint))?;
        self.lists.iter_mut().try_for_each(|named| named.state.freeze(checkpoint))?;
        self.maps.iter_mut().try_for_each(|named| named.state.state.freeze(checkpoint))?;
        self.reducing.iter_mut().try_for_each(|named| named.state.freeze(checkpoint))?;
        self.timers.iter_mut().try_for_each(|family| family.timers.freeze(checkpoint))
    }

    /// What is written from here on can be rolled back.
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.values.iter_mut().try_for_each(|named| named.state.begin())?;
        self.lists.iter_mut().try_for_each(|named| named.state.begin())?;
        self.maps.iter_mut().try_for_each(|named| named.state.state.begin())?;
        self.reducing.iter_mut().try_for_each(|named| named.state.begin())?;
        self.timers.iter_mut().try_for_each(|family| family.timers.begin())
    }

    /// What was written since the beginning stays.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.values.iter_mut().try_for_each(|named| named.state.commit())?;
        self.lists.iter_mut().try_for_each(|named| named.state.commit())?;
        self.maps.iter_mut().try_for_each(|named| named.state.state.commit())?;
        self.reducing.iter_mut().try_for_each(|named| named.state.commit())?;
        self.timers.iter_mut().try_for_each(|family| family.timers.commit())
    }

    /// States and timers are again what they were at the beginning.
    pub(crate) fn roll_back(&mut self) {
        self.values.iter_mut().for_each(|named| named.state.roll_back());
        self.lists.iter_mut().for_each(|named| named.state.roll_back());
        self.maps.iter_mut().for_each(|named| named.state.state.roll_back());
        self.reducing.iter_mut().for_each(|named| named.state.roll_back());
        self.timers.iter_mut().for_each(|family| family.timers.roll_back());
    }

    /// When the next timer of this domain is due.
    pub(crate) fn next_ms(&mut self, domain: TimeDomain) -> Result<Option<i64>> {
        let mut next: Option<i64> = None;
        for family in self.timers.iter_mut().filter(|family| family.domain == domain) {
            let time = family.timers.next_ms()?;
            next = [next, time].into_iter().flatten().min();
        }
        Ok(next)
    }

    /// Takes the next timers that are due: of event time at or before the watermark, else of
    /// processing time.
    pub(crate) fn take_due(&mut self, watermark: i64) -> Result<Option<DueTimers>> {
        if let Some(due) = self.take_due_of(TimeDomain::EventTime, watermark)? {
            return Ok(Some(due));
        }
        let now_ms = self.clock.now_ms();
        self.take_due_of(TimeDomain::ProcessingTime, now_ms)
    }

    /// Takes timers of the family whose next timer is the earliest, up to the next timer of
    /// another family; the one that was declared first is the earlier at the same time.
    fn take_due_of(&mut self, domain: TimeDomain, time_ms: i64) -> Result<Option<DueTimers>> {
        let mut earliest: Option<(i64, usize)> = None;
        let mut until_ms = time_ms;
        for (index, family) in self.timers.iter_mut().enumerate() {
            if family.domain != domain {
                continue;
            }
            let Some(next_ms) = family.timers.next_ms()? else { continue };
            match earliest {
                Some((first_ms, _)) if first_ms <= next_ms => until_ms = until_ms.min(next_ms),
                _ => {
                    // The one that was the earliest so far was declared before this one.
                    let before = earliest.map(|(ms, _)| ms.saturating_sub(1));
                    until_ms = time_ms.min(before.unwrap_or(time_ms));
                    earliest = Some((next_ms, index));
                }
            }
        }
        let Some((_, index)) = earliest.filter(|(next_ms, _)| *next_ms <= time_ms) else {
            return Ok(None);
        };
        let Some(family) = self.timers.get_mut(index) else { return Ok(None) };
        let due = family.timers.take_due_once(until_ms, self.timers_per_call)?;
        let times = due.times.as_primitive::<TimestampMillisecondType>().values().clone();
        let keys = KeyBatch::new(&self.encoder, due.key)?;
        let timer = u32::try_from(index).unwrap_or(u32::MAX);
        Ok(Some(DueTimers { timer, keys, times }))
    }

    /// Why there is no state of this name and kind.
    pub(super) fn no_state(&self, name: &str, wanted: &str) -> Error {
        let declared: Vec<(&str, &str)> = self
            .values
            .iter()
            .map(|named| (named.name.as_str(), "value"))
            .chain(self.lists.iter().map(|named| (named.name.as_str(), "list")))
            .chain(self.maps.iter().map(|named| (named.name.as_str(), "map")))
            .chain(self.reducing.iter().map(|named| (named.name.as_str(), "reducing")))
            .collect();
        let name = name.escape_debug();
        let message = match declared.iter().find(|(declared, _)| name.clone().eq(declared.chars()))
        {
            Some((_, kind)) => {
                format!("describe declared `{name}` as {kind} state, not as {wanted} state")
            }
            None => {
                let names: Vec<&str> = declared.iter().map(|(declared, _)| *declared).collect();
                format!("describe declared no state `{name}`, only: {}", names.join(", "))
            }
        };
        Error { kind: ErrorKind::NotDeclared, message }
    }
}

/// What is added to a reducing state: what is counted may lack a value.
fn added(mut fields: Vec<Column>, reducers: &[Reducer]) -> Vec<Column> {
    for (field, reducer) in fields.iter_mut().zip(reducers) {
        field.nullable |= *reducer == Reducer::Count;
    }
    fields
}

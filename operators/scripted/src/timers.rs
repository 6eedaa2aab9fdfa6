//! Rows set and delete timers; what fires comes out.

use crate::bindings::exports::howdah::operator::operator::{
    Error, Field, Input, InputSpec, Output, OutputSpec, Spec, TimeDomain, TimerSpec,
};
use crate::bindings::exports::howdah::operator::timer_handler::Due;
use crate::bindings::howdah::operator::clock;
use crate::bindings::howdah::operator::metrics;
use crate::bindings::howdah::operator::state::Keys;
use crate::bindings::howdah::operator::timers::TimerService;
use crate::bindings::howdah::operator::types::{Batch, Column, ValueType};
use crate::{Timers, error};

/// The families, in the order of `describe`: what a row's `family` is an index into.
const FAMILIES: [(&str, TimeDomain); 3] = [
    ("first", TimeDomain::EventTime),
    ("second", TimeDomain::EventTime),
    ("by-clock", TimeDomain::ProcessingTime),
];

/// Stands for the family in the row of a watermark.
const WATERMARK: i64 = -1;

/// The script, open.
pub(crate) struct Script {
    config: Timers,
    families: Vec<TimerService>,
    /// The last checkpoint that it heard of; comes out with the next watermark.
    completed: i64,
}

/// Rows of `key`, `family`, `time` and `set` (1) or delete (0) a timer. What comes out is a timer
/// that fired or, with [`WATERMARK`] as family, a watermark; its key is then the last checkpoint
/// that is complete.
pub(crate) fn describe(config: Timers) -> Spec {
    let int64 =
        |name: &str| Field { name: name.to_owned(), type_: ValueType::Int64, nullable: false };
    Spec {
        inputs: vec![InputSpec {
            name: "commands".to_owned(),
            fields: ["key", "family", "time", "set"].map(int64).into(),
            key: vec!["key".to_owned()],
            changelog: false,
        }],
        outputs: vec![OutputSpec {
            name: "events".to_owned(),
            fields: ["key", "family", "time", "watermark", "clock"].map(int64).into(),
            changelog: false,
        }],
        states: Vec::new(),
        timers: FAMILIES
            .iter()
            .take(config.families.unwrap_or(FAMILIES.len()))
            .map(|(name, domain)| TimerSpec { name: (*name).to_owned(), domain: *domain })
            .collect(),
    }
}

impl Script {
    pub(crate) fn open(config: Timers) -> Result<Self, Error> {
        let families = FAMILIES.iter().take(config.families.unwrap_or(FAMILIES.len()));
        let families = families.map(|(name, _)| TimerService::open(name));
        Ok(Self { config, families: families.collect::<Result<_, _>>()?, completed: 0 })
    }

    /// Obeys the rows, one after the other.
    pub(crate) fn process(&self, input: &Input) -> Result<Vec<Output>, Error> {
        let [_, family, time, set] = input.batch.columns.as_slice() else {
            return Err(error("there are four columns"));
        };
        let commands = int64s(&family.data).zip(int64s(&time.data)).zip(int64s(&set.data));
        for (row_key, ((family, time), set)) in input.row_keys.chunks(4).zip(commands) {
            let family = usize::try_from(family).ok().and_then(|index| self.families.get(index));
            let family = family.ok_or_else(|| error("there is no such family"))?;
            let (key, time) = (Keys::Selected(row_key.to_vec()), time.to_le_bytes());
            if set == 1 { family.set(&key, &time)? } else { family.delete(&key, &time)? }
        }
        metrics::counter_add("commands_total", u64::from(input.batch.rows));
        Ok(Vec::new())
    }

    pub(crate) fn on_timers(&self, due: &Due) -> Result<Vec<Output>, Error> {
        let family = usize::try_from(due.timer).ok().and_then(|index| self.families.get(index));
        let family = family.ok_or_else(|| error("there is no such family"))?;
        let key = due.keys.columns.first().ok_or_else(|| error("there is a key"))?;
        let times: Vec<i64> = int64s(&due.times).collect();
        for (index, time) in (0_u32..).zip(&times) {
            let key = Keys::Selected(index.to_le_bytes().to_vec());
            let Timers { again_every, for_ever, deletes_next, .. } = self.config;
            if again_every > 0 && time.rem_euclid(again_every) == 0 {
                family.set(&key, &(time - 1).to_le_bytes())?;
            }
            if for_ever {
                family.set(&key, &time.to_le_bytes())?;
            }
            if deletes_next {
                family.delete(&key, &(time + 1).to_le_bytes())?;
            }
        }
        let same = |value: i64| column(&vec![value; times.len()]);
        let columns = vec![
            key.clone(),
            same(i64::from(due.timer)),
            column(&times),
            same(due.watermark),
            same(clock::now()),
        ];
        Ok(vec![output(due.keys.rows, columns, &times)])
    }

    pub(crate) fn on_watermark(&self, watermark: i64) -> Vec<Output> {
        let row = [self.completed, WATERMARK, watermark, watermark, clock::now()];
        vec![output(1, row.map(|value| column(&[value])).into(), &[watermark])]
    }

    /// Notes the checkpoint, and that it may not set a timer now.
    pub(crate) fn on_checkpoint_complete(&mut self, checkpoint: u64) -> Result<(), Error> {
        self.completed = i64::try_from(checkpoint).unwrap_or(i64::MAX);
        let family = self.families.first().ok_or_else(|| error("there is a family"))?;
        match family.set(&Keys::Selected(Vec::new()), &[]) {
            Ok(()) => Err(error("a timer could be set")),
            Err(_) => Ok(()),
        }
    }
}

fn int64s(buffer: &[u8]) -> impl Iterator<Item = i64> {
    buffer.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes))
}

fn bytes(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn column(values: &[i64]) -> Column {
    Column { data: bytes(values), offsets: None, validity: None }
}

fn output(rows: u32, columns: Vec<Column>, timestamps: &[i64]) -> Output {
    Output {
        port: 0,
        batch: Batch { rows, columns, row_kinds: None },
        timestamps: bytes(timestamps),
    }
}

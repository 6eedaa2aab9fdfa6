//! Calls of list, map and reducing state and of timers that the host must refuse.

use crate::bindings::exports::howdah::operator::operator::Error;
use crate::bindings::howdah::operator::metrics;
use crate::bindings::howdah::operator::state::{
    Keys, ListState, MapRange, MapState, ReducingState,
};
use crate::bindings::howdah::operator::timers::TimerService;
use crate::bindings::howdah::operator::types::{Column, KeyColumns};
use crate::buffers::{bits, int64s, u32s};
use crate::{Mode, spec};

/// Rows that a list gets when it is to get too many.
const MANY_ROWS: u32 = 1000;

/// Text columns with these bytes, one row for each.
fn texts(values: &[&[u8]]) -> Column {
    let ends = values.iter().scan(0, |end, value| {
        *end += u32::try_from(value.len()).unwrap_or(u32::MAX);
        Some(*end)
    });
    let offsets: Vec<u32> = std::iter::once(0).chain(ends).collect();
    Column { data: values.concat(), offsets: Some(u32s(&offsets)), validity: None }
}

/// Makes the call of this mode and returns what the host says; `None` if the mode is about
/// something else.
pub(crate) fn call(mode: Mode, keys: u32) -> Option<Result<(), Error>> {
    match mode {
        Mode::ListAsMap => Some(MapState::open(spec::NOTES).map(drop)),
        Mode::TimersUndeclared => Some(TimerService::open("undeclared").map(drop)),
        Mode::MetricFlood => {
            flood();
            None
        }
        _ => list(mode, keys)
            .or_else(|| map(mode, keys))
            .or_else(|| reducing(mode))
            .or_else(|| timers(mode)),
    }
}

fn list(mode: Mode, keys: u32) -> Option<Result<(), Error>> {
    let two = texts(&[b"a", b"b"]);
    let (key_of, columns) = match mode {
        Mode::ListAppendKeyPastLast => (u32s(&[0, keys]), vec![two]),
        Mode::ListAppendShortKeyOf => (vec![0; 7], vec![two]),
        Mode::ListAppendInvalidUtf8 => (u32s(&[0, 0]), vec![texts(&[b"a", b"\xFF"])]),
        Mode::ListAppendNoColumn => (u32s(&[0, 0]), vec![]),
        Mode::ListGetTooMuch | Mode::ListKeyTooOften => {
            let rows = usize::try_from(MANY_ROWS).unwrap_or_default();
            (u32s(&vec![0; rows]), vec![texts(&vec![b"note" as &[u8]; rows])])
        }
        _ => return None,
    };
    Some(ListState::open(spec::NOTES).and_then(|notes| {
        if mode == Mode::ListGetTooMuch {
            // In steps that are small enough.
            for _ in 0..MANY_ROWS {
                notes.append(&Keys::Current, &u32s(&[0]), &[texts(&[b"note"])])?;
            }
            return notes.get(&Keys::Current, u32::MAX).map(drop);
        }
        notes.append(&Keys::Current, &key_of, &columns)
    }))
}

fn map(mode: Mode, keys: u32) -> Option<Result<(), Error>> {
    let key_of = u32s(&[0, 0]);
    let notes = || texts(&[b"a", b"b"]);
    let null = Column { validity: Some(bits(&[true, false])), ..int64s(&[1, 2]) };
    let bound = |bound| MapRange { from: Some(vec![bound]), to: None };
    let call =
        |call: &dyn Fn(MapState) -> Result<(), Error>| MapState::open(spec::TAGS).and_then(call);
    Some(match mode {
        Mode::MapPutShortMapKeys => {
            call(&|tags| tags.put(&Keys::Current, &key_of, &[int64s(&[1])], &[notes()]))
        }
        Mode::MapPutNullMapKey => {
            call(&|tags| tags.put(&Keys::Current, &key_of, std::slice::from_ref(&null), &[notes()]))
        }
        Mode::MapGetKeyPastLast => {
            call(&|tags| tags.get(&Keys::Current, &u32s(&[keys]), &[int64s(&[1])]).map(drop))
        }
        Mode::MapRangeTwoRows => {
            call(&|tags| tags.entries(&Keys::Current, &bound(int64s(&[1, 2])), 1).map(drop))
        }
        Mode::MapRangeWrongType => {
            call(&|tags| tags.entries(&Keys::Current, &bound(texts(&[b"a"])), 1).map(drop))
        }
        _ => return None,
    })
}

fn reducing(mode: Mode) -> Option<Result<(), Error>> {
    let added = match mode {
        Mode::ReducingOverflow => int64s(&[i64::MAX, 1]),
        Mode::ReducingNull => Column { validity: Some(bits(&[true, false])), ..int64s(&[1, 1]) },
        _ => return None,
    };
    let twice = Keys::Selected(u32s(&[0, 0]));
    Some(ReducingState::open(spec::TOTALS).and_then(|totals| totals.add(&twice, &[added])))
}

fn timers(mode: Mode) -> Option<Result<(), Error>> {
    let first = Keys::Selected(u32s(&[0]));
    let alarms = || TimerService::open(spec::ALARMS);
    Some(match mode {
        Mode::TimersShortTimes => alarms()
            .and_then(|alarms| alarms.set(&Keys::Selected(u32s(&[0, 0])), &int64s(&[5]).data)),
        Mode::TimersForeignKey => alarms().and_then(|alarms| {
            let auctions: Vec<i64> = (0..1_000).collect();
            let keys = KeyColumns { rows: 1_000, columns: vec![int64s(&auctions)] };
            alarms.delete(&Keys::Explicit(keys), &int64s(&auctions).data)
        }),
        Mode::TimersPanic | Mode::TimersMalformed => {
            alarms().and_then(|alarms| alarms.set(&first, &int64s(&[5]).data))
        }
        _ => return None,
    })
}

/// A timer that is set where none may be.
pub(crate) fn set_timers() -> Result<(), Error> {
    let keys = KeyColumns { rows: 1, columns: vec![int64s(&[1])] };
    TimerService::open(spec::ALARMS)?.set(&Keys::Explicit(keys), &int64s(&[5]).data)
}

/// A state call for the current keys where there are none.
pub(crate) fn use_current() -> Result<(), Error> {
    ReducingState::open(spec::TOTALS)?.get(&Keys::Current).map(drop)
}

fn flood() {
    for number in 0..1_000 {
        metrics::counter_add(&format!("number_{number}"), 1);
    }
    metrics::counter_add("Upper", 1);
    metrics::gauge_set("", 1.0);
    metrics::gauge_set("number_0", 1.0);
    metrics::histogram_record(&"a".repeat(65), 1.0);
}

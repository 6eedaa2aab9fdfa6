//! An operator against version 0.1.0 of the contract, of which `wit/` beside it is a copy that
//! never changes: whatever is added to the contract, a host must run what was built before.
//!
//! It keeps the sum of the values of each key, and emits it with each row.

mod bindings;

use std::cell::RefCell;

use bindings::exports::howdah::operator::operator::{
    CheckpointId, Context, Error, Field, Guest, Input, InputSpec, Output, OutputSpec, Spec,
    StateKind, StateSpec,
};
use bindings::howdah::operator::logging::{self, Level};
use bindings::howdah::operator::state::{Keys, ValueState};
use bindings::howdah::operator::types::{Batch, Column, ErrorKind, ValueType};

/// The component.
pub struct Sums;

// Only a component has exports; elsewhere their names would not link.
#[cfg(target_arch = "wasm32")]
bindings::export!(Sums with_types_in bindings);

const STATE: &str = "sums";

thread_local! {
    static SUMS: RefCell<Option<ValueState>> = const { RefCell::new(None) };
}

impl Guest for Sums {
    fn describe(_: String) -> Result<Spec, Error> {
        let int64 =
            |name: &str| Field { name: name.to_owned(), type_: ValueType::Int64, nullable: false };
        Ok(Spec {
            inputs: vec![InputSpec {
                name: "rows".to_owned(),
                fields: vec![int64("key"), int64("value")],
                key: vec!["key".to_owned()],
                changelog: false,
            }],
            outputs: vec![OutputSpec {
                name: "sums".to_owned(),
                fields: vec![int64("key"), int64("sum")],
                changelog: false,
            }],
            states: vec![StateSpec {
                name: STATE.to_owned(),
                kind: StateKind::Value,
                fields: vec![int64("sum")],
                schema_version: 1,
                ttl: None,
            }],
            timers: Vec::new(),
        })
    }

    fn open(context: Context) -> Result<(), Error> {
        if logging::enabled(Level::Debug) {
            logging::log(Level::Debug, &format!("subtask {} opens", context.subtask));
        }
        SUMS.set(Some(ValueState::open(STATE)?));
        Ok(())
    }

    fn process(input: Input) -> Result<Vec<Output>, Error> {
        SUMS.with_borrow(|sums| match sums {
            Some(sums) => add(sums, input),
            None => Err(error("`open` must be called first")),
        })
    }

    fn on_barrier(_: CheckpointId) -> Result<Vec<Output>, Error> {
        Ok(Vec::new())
    }

    fn close() -> Result<Vec<Output>, Error> {
        Ok(Vec::new())
    }
}

fn add(state: &ValueState, input: Input) -> Result<Vec<Output>, Error> {
    let found = state.get(&Keys::Current)?;
    let sums = found.columns.first().ok_or_else(|| error("the state has no column"))?;
    // A key without a row has a zero.
    let mut sums: Vec<i64> = int64s(&sums.data).collect();
    let [keys, values] = input.batch.columns.as_slice() else {
        return Err(error("there are two columns"));
    };
    let mut emitted = Vec::new();
    for (key, value) in u32s(&input.row_keys).zip(int64s(&values.data)) {
        let sum = usize::try_from(key).ok().and_then(|key| sums.get_mut(key));
        let sum = sum.ok_or_else(|| error("there is no such key"))?;
        *sum = sum.wrapping_add(value);
        emitted.push(*sum);
    }
    state.put(&Keys::Current, &[column(&sums)])?;
    let columns = vec![keys.clone(), column(&emitted)];
    let batch = Batch { rows: input.batch.rows, columns, row_kinds: None };
    Ok(vec![Output { port: 0, batch, timestamps: input.timestamps }])
}

fn error(message: &str) -> Error {
    Error { kind: ErrorKind::Other, message: message.to_owned() }
}

fn int64s(buffer: &[u8]) -> impl Iterator<Item = i64> {
    buffer.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes))
}

fn u32s(buffer: &[u8]) -> impl Iterator<Item = u32> {
    buffer.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

fn column(values: &[i64]) -> Column {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Column { data, offsets: None, validity: None }
}

//! What an operator says it is.

mod check;

pub(crate) use check::check;

use arrow_schema::{Fields, Schema, SchemaRef};
use howdah_state::{Column, StateDescriptor, StateKind};
use std::sync::Arc;

/// What an operator says it is; the answer of `describe`, checked.
///
/// Names are unique, key fields exist and may be keys, every input has keys of the same
/// types, the fields of a state fit its kind and can be columns of a table beside the key, and
/// the component has the handlers of what is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSpec {
    /// The streams that it reads; at least one.
    pub inputs: Vec<InputSpec>,
    /// The streams that it writes.
    pub outputs: Vec<OutputSpec>,
    /// The states that it keeps.
    pub states: Vec<StateSpec>,
    /// The families of timers that it sets.
    pub timers: Vec<TimerSpec>,
}

impl OperatorSpec {
    /// The key columns of the state tables: those of the first input. Other inputs may give
    /// them other names.
    pub fn key_columns(&self) -> Vec<Column> {
        self.inputs.first().map(InputSpec::key_columns).unwrap_or_default()
    }

    /// The tables that the operator needs: one for each state, then one for each family of
    /// timers, in the order in which `Component::instantiate` takes them. Names of states and
    /// timers are distinct, and so are those of the tables.
    pub fn tables(&self, pipeline: &str, operator: &str) -> Vec<StateDescriptor> {
        let table = |name: &str, kind: StateKind| StateDescriptor {
            pipeline: pipeline.to_owned(),
            operator: operator.to_owned(),
            state: name.to_owned(),
            kind,
            key: self.key_columns(),
            ..StateDescriptor::default()
        };
        let states = self.states.iter().map(|state| StateDescriptor {
            value: state.fields.clone(),
            ttl_ms: state.ttl_ms,
            ..table(&state.name, state.kind.clone())
        });
        let timers = self.timers.iter().map(|timers| table(&timers.name, StateKind::Timers));
        states.chain(timers).collect()
    }
}

/// A stream that the operator reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    /// Unique among the inputs.
    pub name: String,
    /// The columns that it wants, and no others.
    pub fields: Vec<Column>,
    /// Names of fields by which rows are grouped.
    pub key: Vec<String>,
    /// Whether it understands rows that are not inserts.
    pub changelog: bool,
}

impl InputSpec {
    /// The Arrow schema of its batches.
    pub fn schema(&self) -> SchemaRef {
        schema(&self.fields)
    }

    /// The key fields as columns, in key order.
    pub fn key_columns(&self) -> Vec<Column> {
        let field = |name: &String| self.fields.iter().find(|field| field.name == *name).cloned();
        self.key.iter().filter_map(field).collect()
    }
}

/// A stream that the operator writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSpec {
    /// Unique among the outputs.
    pub name: String,
    /// Its columns.
    pub fields: Vec<Column>,
    /// Whether its rows carry row kinds.
    pub changelog: bool,
}

impl OutputSpec {
    /// The Arrow schema of its batches.
    pub fn schema(&self) -> SchemaRef {
        schema(&self.fields)
    }
}

/// A keyed state of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSpec {
    /// Unique among states and timers; the last part of the table's name.
    pub name: String,
    /// Its shape; none of timers.
    pub kind: StateKind,
    /// Value columns.
    pub fields: Vec<Column>,
    /// How long a row lives after it was last written, in milliseconds; `None`: until it is
    /// deleted.
    pub ttl_ms: Option<u64>,
    /// Raised by the author when the meaning of the fields changes.
    pub schema_version: u32,
}

/// A family of timers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerSpec {
    /// Unique among states and timers; the last part of the table's name.
    pub name: String,
    /// Which time it waits for.
    pub domain: TimeDomain,
}

/// Which time a timer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeDomain {
    /// The watermark.
    EventTime,
    /// The clock.
    ProcessingTime,
}

fn schema(fields: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(Column::to_arrow).collect::<Fields>()))
}

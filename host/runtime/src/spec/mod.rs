//! What an operator says it is.

mod check;

pub(crate) use check::check;

use arrow_schema::{Fields, Schema, SchemaRef};
use howdah_state::Column;
use std::sync::Arc;

/// What an operator says it is; the answer of `describe`, checked.
///
/// Names are unique, key fields exist and may be keys, every input has keys of the same
/// types, and the fields of a state can be columns of a table beside the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSpec {
    /// The streams that it reads; at least one.
    pub inputs: Vec<InputSpec>,
    /// The streams that it writes.
    pub outputs: Vec<OutputSpec>,
    /// The states that it keeps.
    pub states: Vec<StateSpec>,
}

impl OperatorSpec {
    /// The key columns of the state tables: those of the first input. Other inputs may give
    /// them other names.
    pub fn key_columns(&self) -> Vec<Column> {
        self.inputs.first().map(InputSpec::key_columns).unwrap_or_default()
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
    /// Unique among the states; the last part of the table's name.
    pub name: String,
    /// Value columns.
    pub fields: Vec<Column>,
    /// Raised by the author when the meaning of the fields changes.
    pub schema_version: u32,
}

fn schema(fields: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(Column::to_arrow).collect::<Fields>()))
}

use arrow_schema::SchemaRef;
use howdah_state::Column;

/// What an operator says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSpec {
    pub inputs: Vec<InputSpec>,
    pub outputs: Vec<OutputSpec>,
    pub states: Vec<StateSpec>,
}

/// A stream that the operator reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSpec {
    pub name: String,
    pub fields: Vec<Column>,
    /// Names of fields.
    pub key: Vec<String>,
    pub changelog: bool,
}

impl InputSpec {
    pub fn schema(&self) -> SchemaRef {
        todo!()
    }
    /// The key fields as columns, in key order.
    pub fn key_columns(&self) -> Vec<Column> {
        todo!()
    }
}

/// A stream that the operator writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSpec {
    pub name: String,
    pub fields: Vec<Column>,
    pub changelog: bool,
}

impl OutputSpec {
    pub fn schema(&self) -> SchemaRef {
        todo!()
    }
}

/// A keyed state of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSpec {
    pub name: String,
    /// Value columns.
    pub fields: Vec<Column>,
    pub schema_version: u32,
}

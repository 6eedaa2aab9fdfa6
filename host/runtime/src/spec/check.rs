//! Checks what `describe` returned before anything is built on it.

use super::{InputSpec, OperatorSpec, OutputSpec, StateSpec};
use crate::HOST_VERSION;
use crate::bindings::operator as wit;
use crate::bindings::types::{Field, ValueType};
use howdah_state::{Column, ColumnType};
use std::collections::HashSet;

const INPUTS_LIMIT: usize = 16;
const OUTPUTS_LIMIT: usize = 64;
const STATES_LIMIT: usize = 64;
const FIELDS_LIMIT: usize = 1024;
const NAME_LIMIT_BYTES: usize = 64;
/// Column names may come from other systems' files, which allow more.
const FIELD_NAME_LIMIT_BYTES: usize = 255;

/// The column of a state table that holds the key group.
const KEY_GROUP_COLUMN: &str = "kg";

type Check<T> = Result<T, String>;

/// The spec, if this host can run it; else what is wrong, naming input, output, state and field.
pub(crate) fn check(spec: wit::Spec) -> Check<OperatorSpec> {
    let wit::Spec { inputs, outputs, states, timers } = spec;
    if let Some(timer) = timers.first() {
        return Err(format!(
            "timer `{}`: this host ({HOST_VERSION}) has no timers yet",
            shown(&timer.name)
        ));
    }
    if inputs.is_empty() {
        return Err("it has no input, but needs at least one".to_owned());
    }
    at_most(inputs.len(), INPUTS_LIMIT, "inputs")?;
    at_most(outputs.len(), OUTPUTS_LIMIT, "outputs")?;
    at_most(states.len(), STATES_LIMIT, "states")?;
    let inputs = inputs.into_iter().map(input).collect::<Check<Vec<_>>>()?;
    let outputs = outputs.into_iter().map(output).collect::<Check<Vec<_>>>()?;
    let states = states.into_iter().map(state).collect::<Check<Vec<_>>>()?;
    distinct("inputs", inputs.iter().map(|input| input.name.as_str()))?;
    distinct("outputs", outputs.iter().map(|output| output.name.as_str()))?;
    // Table names become directory names, which some file systems fold.
    distinct_without_case("states", states.iter().map(|state| state.name.as_str()))?;
    let spec = OperatorSpec { inputs, outputs, states };
    same_key_types(&spec.inputs)?;
    table_columns(&spec)?;
    Ok(spec)
}

fn input(spec: wit::InputSpec) -> Check<InputSpec> {
    let of = format!("input `{}`", shown(&spec.name));
    identifier(&of, &spec.name)?;
    let fields = fields(&of, spec.fields)?;
    if spec.key.is_empty() {
        return Err(format!("{of} has no key: name at least one of its fields as key"));
    }
    distinct(&format!("key fields of {of}"), spec.key.iter().map(String::as_str))?;
    for name in &spec.key {
        let Some(field) = fields.iter().find(|field| field.name == *name) else {
            return Err(format!("{of}: the key field `{}` is not among its fields", shown(name)));
        };
        if field.nullable {
            return Err(format!("{of}: the key field `{name}` is nullable, which no key may be"));
        }
        if !field.column_type.is_key_type() {
            let column_type = field.column_type;
            return Err(format!(
                "{of}: the key field `{name}` is {column_type}, which no key may be"
            ));
        }
    }
    Ok(InputSpec { name: spec.name, fields, key: spec.key, changelog: spec.changelog })
}

fn output(spec: wit::OutputSpec) -> Check<OutputSpec> {
    let of = format!("output `{}`", shown(&spec.name));
    identifier(&of, &spec.name)?;
    let fields = fields(&of, spec.fields)?;
    Ok(OutputSpec { name: spec.name, fields, changelog: spec.changelog })
}

fn state(spec: wit::StateSpec) -> Check<StateSpec> {
    let of = format!("state `{}`", shown(&spec.name));
    identifier(&of, &spec.name)?;
    let missing = match spec.kind {
        wit::StateKind::Value => None,
        wit::StateKind::List => Some("list state"),
        wit::StateKind::Map(_) => Some("map state"),
        wit::StateKind::Reducing(_) => Some("reducing state"),
    };
    if let Some(missing) = missing {
        return Err(format!("{of}: this host ({HOST_VERSION}) has no {missing} yet"));
    }
    if spec.ttl.is_some() {
        return Err(format!("{of}: this host ({HOST_VERSION}) has no time to live yet"));
    }
    let fields = fields(&of, spec.fields)?;
    Ok(StateSpec { name: spec.name, fields, schema_version: spec.schema_version })
}

fn fields(of: &str, fields: Vec<Field>) -> Check<Vec<Column>> {
    if fields.is_empty() {
        return Err(format!("{of} has no fields, but needs at least one"));
    }
    at_most(fields.len(), FIELDS_LIMIT, &format!("fields of {of}"))?;
    let columns = fields.into_iter().map(|f| column(of, f)).collect::<Check<Vec<_>>>()?;
    distinct(&format!("fields of {of}"), columns.iter().map(|column| column.name.as_str()))?;
    Ok(columns)
}

fn column(of: &str, field: Field) -> Check<Column> {
    let Field { name, type_, nullable } = field;
    if name.is_empty() {
        return Err(format!("{of} has a field without a name"));
    }
    if name.len() > FIELD_NAME_LIMIT_BYTES || name.chars().any(char::is_control) {
        return Err(format!(
            "{of}: the field name `{}` is longer than {FIELD_NAME_LIMIT_BYTES} bytes or has \
             control characters",
            shown(&name)
        ));
    }
    let column_type = match type_ {
        ValueType::Boolean => ColumnType::Boolean,
        ValueType::Int32 => ColumnType::Int32,
        ValueType::Int64 => ColumnType::Int64,
        ValueType::Float32 => ColumnType::Float32,
        ValueType::Float64 => ColumnType::Float64,
        ValueType::Date => ColumnType::Date,
        ValueType::TimestampMillis => ColumnType::TimestampMillis,
        ValueType::Utf8 => ColumnType::Utf8,
        ValueType::Binary => ColumnType::Binary,
        ValueType::Decimal128(decimal) => {
            let (precision, scale) = (decimal.precision, decimal.scale);
            if !(1..=38).contains(&precision) || scale > precision {
                return Err(format!(
                    "{of}: field `{name}` is decimal128({precision},{scale}); the precision is 1 \
                     to 38 and the scale at most the precision"
                ));
            }
            ColumnType::Decimal128 { precision, scale }
        }
    };
    Ok(Column { name, column_type, nullable })
}

/// All inputs look up the same states, so their keys must have the same types.
fn same_key_types(inputs: &[InputSpec]) -> Check<()> {
    let types = |input: &InputSpec| -> Vec<ColumnType> {
        input.key_columns().iter().map(|column| column.column_type).collect()
    };
    let Some((first, others)) = inputs.split_first() else { return Ok(()) };
    let expected = types(first);
    match others.iter().find(|input| types(input) != expected) {
        None => Ok(()),
        Some(other) => Err(format!(
            "the keys of input `{}` ({}) and input `{}` ({}) have different types",
            first.name,
            list(&expected),
            other.name,
            list(&types(other))
        )),
    }
}

fn list(types: &[ColumnType]) -> String {
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The columns of a state's table: key group, key, value. Engines that read it may fold case,
/// and keep names that begin with `_` to themselves.
fn table_columns(spec: &OperatorSpec) -> Check<()> {
    let key = spec.key_columns();
    for state in &spec.states {
        let of = format!("state `{}`", state.name);
        for (what, column) in key
            .iter()
            .map(|column| ("key field", column))
            .chain(state.fields.iter().map(|column| ("field", column)))
        {
            let name = &column.name;
            if name.eq_ignore_ascii_case(KEY_GROUP_COLUMN) {
                return Err(format!(
                    "{of}: the {what} `{name}` clashes with the table's own column \
                     `{KEY_GROUP_COLUMN}`: rename it"
                ));
            }
            if name.starts_with('_') {
                return Err(format!(
                    "{of}: the {what} `{name}` begins with `_`, which is reserved in tables: \
                     rename it"
                ));
            }
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                || name.len() > NAME_LIMIT_BYTES
            {
                return Err(format!(
                    "{of}: the {what} `{}` is no column name for a table: use letters, digits \
                     and `_`, at most {NAME_LIMIT_BYTES}",
                    shown(name)
                ));
            }
        }
        let columns = key.iter().chain(&state.fields).map(|column| column.name.as_str());
        distinct_without_case(&format!("key fields and fields of {of}"), columns)?;
    }
    Ok(())
}

fn identifier(of: &str, name: &str) -> Check<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=NAME_LIMIT_BYTES).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(format!("{of}: a name has 1 to {NAME_LIMIT_BYTES} letters, digits, `_` and `-`"))
}

fn distinct<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Check<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("two {what} are called `{}`", shown(name)));
        }
    }
    Ok(())
}

fn distinct_without_case<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Check<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(format!("two {what} are called `{name}` (upper and lower case alike)"));
        }
    }
    Ok(())
}

fn at_most(count: usize, limit: usize, what: &str) -> Check<()> {
    if count <= limit {
        return Ok(());
    }
    Err(format!("there are {count} {what}, more than {limit}"))
}

/// A name that came from outside, fit for a message.
fn shown(name: &str) -> String {
    name.escape_debug().take(FIELD_NAME_LIMIT_BYTES).collect()
}

#[cfg(test)]
mod tests;

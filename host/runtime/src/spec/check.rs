//! Checks what `describe` returned before anything is built on it.

use super::{InputSpec, OperatorSpec, OutputSpec, StateSpec, TimeDomain, TimerSpec};
use crate::bindings::operator as wit;
use crate::bindings::types::{Field, ValueType};
use crate::exports::Handlers;
use crate::text::is_name_printable;
use howdah_state::{Column, ColumnType, Reducer, StateKind};
use std::collections::{HashMap, HashSet};

const INPUTS_LIMIT: usize = 16;
const OUTPUTS_LIMIT: usize = 64;
const STATES_LIMIT: usize = 64;
const TIMERS_LIMIT: usize = 16;
const FIELDS_LIMIT: usize = 1024;
const NAME_LIMIT_BYTES: usize = 64;
/// Column names may come from other systems' files, which allow more.
const FIELD_NAME_LIMIT_BYTES: usize = 255;

/// The column of a state table that holds the key group.
const KEY_GROUP_COLUMN: &str = "kg";
/// Columns that the tables of some kinds have besides: the place in a list, when a timer is due,
/// and when a row with a time to live ends.
const POSITION_COLUMN: &str = "position";
const TIME_COLUMN: &str = "time";
const EXPIRES_COLUMN: &str = "expires_at";

type Check<T> = Result<T, String>;

/// The spec of a component with these handlers, if this host can run it; else what is wrong,
/// naming input, output, state, timers and field.
pub(crate) fn check(spec: wit::Spec, handlers: Handlers) -> Check<OperatorSpec> {
    let wit::Spec { inputs, outputs, states, timers } = spec;
    if inputs.is_empty() {
        return Err("it has no input, but needs at least one".to_owned());
    }
    at_most(inputs.len(), INPUTS_LIMIT, "inputs")?;
    at_most(outputs.len(), OUTPUTS_LIMIT, "outputs")?;
    at_most(states.len(), STATES_LIMIT, "states")?;
    at_most(timers.len(), TIMERS_LIMIT, "timers")?;
    let inputs = inputs.into_iter().map(input).collect::<Check<Vec<_>>>()?;
    let outputs = outputs.into_iter().map(output).collect::<Check<Vec<_>>>()?;
    let states = states.into_iter().map(state).collect::<Check<Vec<_>>>()?;
    let timers = timers.into_iter().map(timer).collect::<Check<Vec<_>>>()?;
    distinct("inputs", inputs.iter().map(|input| input.name.as_str()))?;
    distinct("outputs", outputs.iter().map(|output| output.name.as_str()))?;
    // Table names become directory names, which some file systems fold. Timers are tables too.
    distinct_without_case("states", states.iter().map(|state| state.name.as_str()))?;
    distinct_without_case("timers", timers.iter().map(|timers| timers.name.as_str()))?;
    let tables = states.iter().map(|state| &state.name).chain(timers.iter().map(|t| &t.name));
    distinct_without_case("states or timers", tables.map(String::as_str))?;
    if let (Some(timers), false) = (timers.first(), handlers.timers) {
        return Err(format!(
            "timers `{}`: the component does not export howdah:operator/timer-handler, which is \
             called when they are due: build it for world howdah:operator/timed-operator",
            timers.name
        ));
    }
    let spec = OperatorSpec { inputs, outputs, states, timers };
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
        can_be_key(&format!("{of}: the key field `{name}`"), field)?;
    }
    Ok(InputSpec { name: spec.name, fields, key: spec.key, changelog: spec.changelog })
}

fn can_be_key(what: &str, field: &Column) -> Check<()> {
    let Column { column_type, nullable, .. } = field;
    if *nullable {
        return Err(format!("{what} is nullable, which no key may be"));
    }
    if !column_type.is_key_type() {
        return Err(format!("{what} is {column_type}, which no key may be"));
    }
    Ok(())
}

fn output(spec: wit::OutputSpec) -> Check<OutputSpec> {
    let of = format!("output `{}`", shown(&spec.name));
    identifier(&of, &spec.name)?;
    let fields = fields(&of, spec.fields)?;
    Ok(OutputSpec { name: spec.name, fields, changelog: spec.changelog })
}

fn state(spec: wit::StateSpec) -> Check<StateSpec> {
    let of = format!("state `{}`", shown(&spec.name));
    table_name(&of, &spec.name)?;
    let wit::StateSpec { name, kind, fields: declared, schema_version, ttl } = spec;
    let fields = match (&kind, declared.is_empty()) {
        // A map whose entries have no fields is a set of map keys.
        (wit::StateKind::Map(_), true) => Vec::new(),
        _ => fields(&of, declared)?,
    };
    let kind = match kind {
        wit::StateKind::Value => StateKind::Value,
        wit::StateKind::List => StateKind::List,
        wit::StateKind::Map(map_key) => StateKind::Map { map_key: self::map_key(&of, map_key)? },
        wit::StateKind::Reducing(reducers) => {
            let reducers: Vec<Reducer> = reducers.into_iter().map(reducer).collect();
            can_fold(&of, &reducers, &fields)?;
            StateKind::Reducing { reducers }
        }
    };
    let ttl_ms = ttl.map(|ttl| ttl_ms(&of, &ttl)).transpose()?;
    Ok(StateSpec { name, kind, fields, ttl_ms, schema_version })
}

fn map_key(of: &str, map_key: Vec<Field>) -> Check<Vec<Column>> {
    let of = format!("map key of {of}");
    let columns = fields(&of, map_key)?;
    for column in &columns {
        can_be_key(&format!("{of}: the field `{}`", column.name), column)?;
    }
    Ok(columns)
}

fn reducer(reducer: wit::Reducer) -> Reducer {
    match reducer {
        wit::Reducer::Sum => Reducer::Sum,
        wit::Reducer::Min => Reducer::Min,
        wit::Reducer::Max => Reducer::Max,
        wit::Reducer::Count => Reducer::Count,
        wit::Reducer::First => Reducer::First,
        wit::Reducer::Last => Reducer::Last,
    }
}

fn can_fold(of: &str, reducers: &[Reducer], fields: &[Column]) -> Check<()> {
    let (given, needed) = (reducers.len(), fields.len());
    if given != needed {
        return Err(format!(
            "{of} has {given} reducers for {needed} fields, but needs one for each"
        ));
    }
    match reducers.iter().zip(fields).find(|(reducer, field)| !reducer.can_fold(field.column_type))
    {
        None => Ok(()),
        Some((Reducer::Count, Column { name, column_type, .. })) => {
            Err(format!("{of}: the field `{name}` is {column_type}, but a count is int64"))
        }
        Some((reducer, Column { name, column_type, .. })) => {
            Err(format!("{of}: the field `{name}` is {column_type}, which has no {reducer}"))
        }
    }
}

fn ttl_ms(of: &str, ttl: &wit::Ttl) -> Check<u64> {
    if ttl.millis == 0 {
        return Err(format!("{of}: the time to live is 0 ms, but must be at least 1"));
    }
    match ttl.update {
        wit::TtlUpdate::OnWrite => Ok(ttl.millis),
        wit::TtlUpdate::OnReadAndWrite => Err(format!(
            "{of}: this host has no time to live that counts from the last read; use `on-write`"
        )),
    }
}

fn timer(spec: wit::TimerSpec) -> Check<TimerSpec> {
    table_name(&format!("timers `{}`", shown(&spec.name)), &spec.name)?;
    let domain = match spec.domain {
        wit::TimeDomain::EventTime => TimeDomain::EventTime,
        wit::TimeDomain::ProcessingTime => TimeDomain::ProcessingTime,
    };
    Ok(TimerSpec { name: spec.name, domain })
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
    if name.len() > FIELD_NAME_LIMIT_BYTES || !is_name_printable(&name) {
        return Err(format!(
            "{of}: the field name `{}` is longer than {FIELD_NAME_LIMIT_BYTES} bytes or has \
             control characters or such that turn the direction of text",
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

/// The columns of the tables: key group, key, what the kind of state adds, value. Engines that
/// read them may fold case, and keep names that begin with `_` to themselves.
fn table_columns(spec: &OperatorSpec) -> Check<()> {
    let key = spec.key_columns();
    for state in &spec.states {
        let of = format!("state `{}`", state.name);
        let (map_key, own): (&[Column], &[&str]) = match &state.kind {
            StateKind::Map { map_key } => (map_key, &[KEY_GROUP_COLUMN]),
            StateKind::List => (&[], &[KEY_GROUP_COLUMN, POSITION_COLUMN]),
            _ => (&[], &[KEY_GROUP_COLUMN]),
        };
        let expires: &[&str] = if state.ttl_ms.is_some() { &[EXPIRES_COLUMN] } else { &[] };
        let columns = columns(&key, map_key, &state.fields);
        column_names(&of, &columns, &[own, expires].concat())?;
    }
    for timers in &spec.timers {
        let of = format!("timers `{}`", timers.name);
        column_names(&of, &columns(&key, &[], &[]), &[KEY_GROUP_COLUMN, TIME_COLUMN])?;
    }
    Ok(())
}

/// The names of columns, each with what it is.
fn columns<'a>(
    key: &'a [Column],
    map_key: &'a [Column],
    fields: &'a [Column],
) -> Vec<(&'static str, &'a str)> {
    let named = |what, columns: &'a [Column]| {
        columns.iter().map(move |column| (what, column.name.as_str()))
    };
    let keys = named("key field", key).chain(named("map key field", map_key));
    keys.chain(named("field", fields)).collect()
}

/// `own` are the columns that the table has besides.
fn column_names(of: &str, columns: &[(&str, &str)], own: &[&str]) -> Check<()> {
    for (what, name) in columns {
        if let Some(own) = own.iter().find(|own| name.eq_ignore_ascii_case(own)) {
            return Err(format!(
                "{of}: the {what} `{name}` clashes with the table's own column `{own}`: rename it"
            ));
        }
        if name.starts_with('_') {
            return Err(format!(
                "{of}: the {what} `{name}` begins with `_`, which is reserved in tables: rename it"
            ));
        }
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            || name.len() > NAME_LIMIT_BYTES
        {
            return Err(format!(
                "{of}: the {what} `{}` is no column name for a table: use letters, digits and \
                 `_`, at most {NAME_LIMIT_BYTES}",
                shown(name)
            ));
        }
    }
    let mut seen = HashMap::new();
    for (what, name) in columns {
        if let Some(before) = seen.insert(name.to_ascii_lowercase(), *what) {
            return Err(format!(
                "{of}: its {what} `{name}` is called like a {before} (upper and lower case alike), \
                 and both are columns of its table: rename it"
            ));
        }
    }
    Ok(())
}

/// The name of a state or of timers: a part of a table's name, in which `__` joins the parts.
fn table_name(of: &str, name: &str) -> Check<()> {
    identifier(of, name)?;
    if name.contains("__") || name.starts_with('_') || name.ends_with('_') {
        return Err(format!(
            "{of}: the name becomes part of a table's name, so `_` may be neither doubled nor at \
             an end"
        ));
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

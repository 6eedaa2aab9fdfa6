//! Which columns of a producer the fields of an operator's input take.

use super::Link;
use crate::config::{PipelineConfig, enumerate};
use crate::error::{Error, suggestion, suggestion_or_list};
use crate::source::{Wanted, widens};
use howdah_runtime::InputSpec;
use howdah_state::Column;

/// For each field of the input the column that it takes, as the pipeline file says, else that of
/// its name. `node_line` is the line of the operator.
pub(crate) fn wanted(
    config: &PipelineConfig,
    link: &Link,
    input: &InputSpec,
    node_line: u32,
) -> Result<Vec<Wanted>, Vec<Error>> {
    let named = |field: &Column| Wanted {
        field: field.clone(),
        column: field.name.clone(),
        line: None,
        node_line,
    };
    let mut wanted: Vec<Wanted> = input.fields.iter().map(named).collect();
    let mut errors = Vec::new();
    for (field, column) in &link.columns {
        match wanted.iter_mut().find(|wanted| wanted.field.name == field.value) {
            Some(wanted) => {
                wanted.column.clone_from(&column.value);
                wanted.line = Some(column.line);
            }
            None => {
                let known = || input.fields.iter().map(|field| field.name.as_str());
                let close = suggestion_or_list(&field.value, known, "it has");
                let name = &field.value;
                let message = format!("the operator's input has no field `{name}`{close}");
                errors.push(config.error(field.line, message));
            }
        }
    }
    errors.extend(name_key(config, link, input, &mut wanted));
    if errors.is_empty() { Ok(wanted) } else { Err(errors) }
}

/// Takes the columns of `key` for the key fields, by position.
fn name_key(
    config: &PipelineConfig,
    link: &Link,
    input: &InputSpec,
    wanted: &mut [Wanted],
) -> Vec<Error> {
    let Some(first) = link.key.first() else { return Vec::new() };
    let known: Vec<&str> = input.key.iter().map(String::as_str).collect();
    let known = enumerate(&known, "and");
    if link.key.len() != input.key.len() {
        let message = format!(
            "`key` names {} columns, but the operator's key has {}: {known}",
            link.key.len(),
            input.key.len(),
        );
        return vec![config.error(first.line, message)];
    }
    let mut errors = Vec::new();
    for (field, column) in input.key.iter().zip(&link.key) {
        if *field != column.value && input.key.contains(&column.value) {
            let message = format!(
                "`key` gives the column `{}` to the key field `{field}`; the operator's key is \
                 {known}, in this order",
                column.value,
            );
            errors.push(config.error(column.line, message));
            continue;
        }
        let Some(place) = wanted.iter_mut().find(|wanted| wanted.field.name == *field) else {
            continue;
        };
        if place.line.is_some() && place.column != column.value {
            let message = format!(
                "`key` takes the key field `{field}` from `{}`, `columns` from `{}`; leave one of \
                 them out",
                column.value, place.column
            );
            errors.push(config.error(column.line, message));
            continue;
        }
        place.column.clone_from(&column.value);
        place.line = Some(column.line);
    }
    errors
}

/// For each field the index of the column that it takes, of the columns of an operator's output,
/// which is called `output`.
pub(crate) fn project(
    config: &PipelineConfig,
    wanted: &[Wanted],
    columns: &[Column],
    output: &str,
) -> Result<Vec<usize>, Vec<Error>> {
    let mut indices = Vec::with_capacity(wanted.len());
    let mut errors = Vec::new();
    for wanted in wanted {
        let line = wanted.line.unwrap_or(wanted.node_line);
        let found = columns.iter().position(|column| column.name == wanted.column);
        match found.and_then(|index| Some((index, columns.get(index)?))) {
            None => errors.push(config.error(line, missing(wanted, columns, output))),
            Some((index, column)) => {
                indices.push(index);
                errors.extend(mismatch(wanted, column, output).map(|it| config.error(line, it)));
            }
        }
    }
    if errors.is_empty() { Ok(indices) } else { Err(errors) }
}

fn missing(wanted: &Wanted, columns: &[Column], output: &str) -> String {
    let known = || columns.iter().map(|column| column.name.as_str());
    if wanted.line.is_some() {
        let close = suggestion_or_list(&wanted.column, known, "it has");
        return format!("{output} has no column `{}`{close}", wanted.column);
    }
    format!(
        "the operator wants a column `{0}`, which {output} lacks; name the column that it is to \
         take: columns = {{ {0} = \"...\" }}{1}",
        wanted.field.name,
        suggestion(&wanted.field.name, known())
    )
}

/// Why a field cannot take a column.
fn mismatch(wanted: &Wanted, column: &Column, output: &str) -> Option<String> {
    let (name, field) = (&column.name, &wanted.field);
    if !widens(column.column_type, field.column_type) {
        return Some(format!(
            "column `{name}` of {output} is {}, but the operator's field `{}` is {}, which cannot \
             take it without loss",
            column.column_type, field.name, field.column_type
        ));
    }
    (column.nullable && !field.nullable).then(|| {
        format!(
            "column `{name}` of {output} may be null, but the operator's field `{}` may not",
            field.name
        )
    })
}

//! The columns of a file and those of a state.

use crate::error::{Error, ErrorKind, Result};
use crate::source::{cast_exactly, read_type, widens};
use arrow_array::{Array as _, ArrayRef, RecordBatch, new_null_array};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{Schema, SchemaRef};
use howdah_state::{Column, StateDescriptor};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// How a column of a file goes with one of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnFit {
    /// Its name.
    pub column: String,
    /// Its type in the file; `None`: the file does not have it.
    pub found: Option<String>,
    /// Its type in the state; `None`: the state does not have it, and it is passed over.
    pub wanted: Option<String>,
    /// Why it cannot be; `None`: it can.
    pub problem: Option<String>,
}

/// The columns that a state takes of a file.
pub(super) struct Columns {
    wanted: Vec<Column>,
    schema: SchemaRef,
    pub(super) fits: Vec<ColumnFit>,
}

impl Columns {
    /// Refuses a file that lacks what the state needs, with every column that is wrong.
    pub(super) fn of(
        descriptor: &StateDescriptor,
        found: &Schema,
        state: &str,
        path: &Path,
    ) -> Result<Self> {
        let wanted = descriptor.loader_columns();
        let mut fits: Vec<ColumnFit> = wanted.iter().map(|column| fit(column, found)).collect();
        let known = |name: &str| wanted.iter().any(|column| column.name == name);
        let others = found.fields().iter().filter(|field| !known(field.name()));
        fits.extend(others.map(|field| ColumnFit {
            column: field.name().clone(),
            found: Some(field.data_type().to_string()),
            wanted: None,
            problem: None,
        }));
        let shown = |fit: &ColumnFit| Some(format!("column {fit}: {}", fit.problem.as_deref()?));
        let problems: Vec<String> = fits.iter().filter_map(shown).collect();
        if !problems.is_empty() {
            let message = format!(
                "{} does not fit the state `{state}`:\n  {}",
                path.display(),
                problems.join("\n  ")
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let fields: Vec<_> = wanted.iter().map(Column::to_arrow).collect();
        Ok(Self { wanted, schema: Arc::new(Schema::new(fields)), fits })
    }

    /// Rows as the state has them. `before` rows of the file came before.
    pub(super) fn convert(
        &self,
        batch: &RecordBatch,
        path: &Path,
        before: u64,
    ) -> Result<RecordBatch> {
        let columns = self.wanted.iter().map(|column| {
            let given = batch.column_by_name(&column.name);
            convert(column, given, batch.num_rows()).map_err(|(row, problem)| {
                let row = before + u64::try_from(row).unwrap_or(0) + 1;
                let name = &column.name;
                Error::input(format!("{}, row {row}, column `{name}`: {problem}", path.display()))
            })
        });
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<_>>()?)?)
    }
}

fn fit(column: &Column, found: &Schema) -> ColumnFit {
    let field = found.field_with_name(&column.name).ok();
    let wanted = column.column_type;
    let problem = match field.map(|field| read_type(field.data_type())) {
        None if column.nullable => None,
        None => Some("add it: the state needs a value".to_owned()),
        Some(Some(read)) if widens(read, wanted) => None,
        Some(_) => Some(format!("make it {wanted}")),
    };
    let nullable = if column.nullable { ", nullable" } else { "" };
    ColumnFit {
        column: column.name.clone(),
        found: field.map(|field| field.data_type().to_string()),
        wanted: Some(format!("{wanted}{nullable}")),
        problem,
    }
}

impl std::fmt::Display for ColumnFit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let found = self.found.as_deref().unwrap_or("not there");
        let wanted = self.wanted.as_deref().unwrap_or("nothing");
        write!(f, "`{}`: {found} in the file, {wanted} in the state", self.column)
    }
}

/// On failure the row, from 0, and what is wrong with it.
fn convert(
    column: &Column,
    given: Option<&ArrayRef>,
    rows: usize,
) -> std::result::Result<ArrayRef, (usize, String)> {
    let wanted = column.column_type.to_arrow();
    let Some(given) = given else { return Ok(new_null_array(&wanted, rows)) };
    let converted = cast_exactly(given, &wanted).map_err(|error| (0, error.to_string()))?;
    let lost = |row: &usize| converted.is_null(*row) && (given.is_valid(*row) || !column.nullable);
    match (0..rows).find(lost) {
        None => Ok(converted),
        Some(row) if given.is_null(row) => Err((row, "there is no value".to_owned())),
        Some(row) => {
            let shown = array_value_to_string(given, row).unwrap_or_default();
            Err((row, format!("`{shown}` is no {}", column.column_type)))
        }
    }
}

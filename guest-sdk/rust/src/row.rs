use crate::columns::{Column, ColumnBuilder, ValueType};
use crate::{Error, Result, wit};

/// A column of a [`Row`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field {
    /// Unique in its row.
    pub name: &'static str,
    /// What its values are.
    pub value_type: ValueType,
    /// Whether a row may lack a value.
    pub nullable: bool,
}

/// A struct whose fields are columns. Derive it: `#[derive(Row)]`.
///
/// A field's name is the column's; `#[column(name = "...")]` on the field sets another.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a row",
    note = "derive it: #[derive(Row)] on a struct with named fields"
)]
pub trait Row: Sized {
    /// The columns, in the order of the struct's fields.
    const FIELDS: &'static [Field];

    /// Reads one row of columns that fit [`FIELDS`](Self::FIELDS).
    fn read(columns: &[Column], row: usize) -> Result<Self>;

    /// Adds this row to the builders, one for each of [`FIELDS`](Self::FIELDS).
    fn write(&self, columns: &mut [ColumnBuilder]);

    /// Whether this row equals, bit for bit, that row of the columns.
    fn matches(&self, columns: &[Column], row: usize) -> bool;
}

/// A struct whose fields are what rows are grouped by. Derive it: `#[derive(Key)]`.
///
/// Each field is a field of the operator's input, with the same name and type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    note = "derive it: #[derive(Key)] on a struct with named fields"
)]
pub trait Key: Row {}

/// Builders for the columns of `R`.
pub(crate) fn builders<R: Row>(capacity: usize) -> Vec<ColumnBuilder> {
    builders_of(R::FIELDS, capacity)
}

/// Builders for the columns of these fields.
pub(crate) fn builders_of(fields: &[Field], capacity: usize) -> Vec<ColumnBuilder> {
    fields.iter().map(|field| ColumnBuilder::new(field.value_type, capacity)).collect()
}

pub(crate) fn finish(builders: Vec<ColumnBuilder>) -> Vec<Column> {
    builders.into_iter().map(ColumnBuilder::finish).collect()
}

/// The rows as columns.
pub(crate) fn encode<'a, R: Row + 'a>(rows: impl ExactSizeIterator<Item = &'a R>) -> Vec<Column> {
    let mut columns = builders::<R>(rows.len());
    rows.for_each(|row| row.write(&mut columns));
    finish(columns)
}

/// Checks that the columns hold `rows` rows of `R`.
pub(crate) fn check<R: Row>(columns: &[Column], rows: usize) -> Result<()> {
    check_fields(R::FIELDS, columns, |field, column| {
        column.check(field.value_type, field.nullable, rows)
    })
}

/// The same as [`check`], but any row may lack any value.
pub(crate) fn check_lengths<R: Row>(columns: &[Column], rows: usize) -> Result<()> {
    check_fields(R::FIELDS, columns, |field, column| column.check_lengths(field.value_type, rows))
}

pub(crate) fn check_fields(
    fields: &[Field],
    columns: &[Column],
    check: impl Fn(&Field, &Column) -> Result<()>,
) -> Result<()> {
    if columns.len() != fields.len() {
        return Err(wrong_column_count(fields.len(), columns.len()));
    }
    fields.iter().zip(columns).try_for_each(|(field, column)| {
        check(field, column).map_err(|error| error.context(format!("column `{}`", field.name)))
    })
}

/// The fields of `R` as the boundary has them.
pub(crate) fn fields<R: Row>() -> Vec<wit::Field> {
    wit_fields(R::FIELDS)
}

/// Fields as the boundary has them.
pub(crate) fn wit_fields(fields: &[Field]) -> Vec<wit::Field> {
    fields
        .iter()
        .map(|field| wit::Field {
            name: field.name.to_owned(),
            type_: field.value_type,
            nullable: field.nullable,
        })
        .collect()
}

/// For the derive macro.
#[cold]
pub fn wrong_column_count(wanted: usize, got: usize) -> Error {
    Error::invalid_argument(format!("{got} columns, not {wanted}"))
}

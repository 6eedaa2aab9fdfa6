//! Rows of any schema, cell by cell: what the states of a test hold.

use crate::columns::{Column, ColumnBuilder, ValueType};
use crate::{Result, wit};

/// The values of a row as they lie in columns; a boolean is one byte, 0 or 1.
pub(super) type Cells = Vec<Option<Vec<u8>>>;

/// The first `count` rows of columns that have passed a check.
pub(super) fn rows(columns: &[Column], fields: &[wit::Field], count: usize) -> Result<Vec<Cells>> {
    (0..count)
        .map(|row| {
            let cells = fields.iter().zip(columns);
            cells.map(|(field, column)| cell(column, field.type_, row)).collect()
        })
        .collect()
}

/// Columns with these rows. A `None` is a key without a row: it takes its slot as nulls.
pub(super) fn columns<'a>(
    fields: &[wit::Field],
    rows: impl ExactSizeIterator<Item = Option<&'a Cells>>,
) -> Result<Vec<Column>> {
    let mut builders: Vec<_> =
        fields.iter().map(|field| ColumnBuilder::new(field.type_, rows.len())).collect();
    for row in rows {
        for (index, (builder, field)) in builders.iter_mut().zip(fields).enumerate() {
            let cell = row.and_then(|cells| cells.get(index)?.as_deref());
            push(builder, field.type_, cell);
        }
    }
    Ok(builders.into_iter().map(ColumnBuilder::finish).collect())
}

fn cell(column: &Column, value_type: ValueType, row: usize) -> Result<Option<Vec<u8>>> {
    if column.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match value_type {
        ValueType::Boolean => vec![u8::from(column.boolean(row)?)],
        ValueType::Int32 | ValueType::Float32 | ValueType::Date => column.fixed::<4>(row)?.to_vec(),
        ValueType::Int64 | ValueType::Float64 | ValueType::TimestampMillis => {
            column.fixed::<8>(row)?.to_vec()
        }
        ValueType::Decimal128(_) => column.fixed::<16>(row)?.to_vec(),
        ValueType::Utf8 | ValueType::Binary => column.bytes(row)?.to_vec(),
    }))
}

/// `cell` came out of [`cell()`], so it has the width of the type.
fn push(builder: &mut ColumnBuilder, value_type: ValueType, cell: Option<&[u8]>) {
    fn fixed<const N: usize>(cell: &[u8]) -> [u8; N] {
        cell.first_chunk().copied().unwrap_or([0; N])
    }
    let Some(cell) = cell else { return builder.push_null() };
    match value_type {
        ValueType::Boolean => builder.push_boolean(cell == [1]),
        ValueType::Int32 | ValueType::Float32 | ValueType::Date => {
            builder.push_fixed(fixed::<4>(cell));
        }
        ValueType::Int64 | ValueType::Float64 | ValueType::TimestampMillis => {
            builder.push_fixed(fixed::<8>(cell));
        }
        ValueType::Decimal128(_) => builder.push_fixed(fixed::<16>(cell)),
        ValueType::Utf8 | ValueType::Binary => builder.push_bytes(cell),
    }
}

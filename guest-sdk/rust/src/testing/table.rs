//! Rows of any schema, cell by cell: what the states of a test hold.

use crate::columns::{Column, ColumnBuilder, ValueType};
use crate::{Result, wit};

/// A value of a row. Values of one type are in the order of the WIT: numbers and times by size,
/// floats by IEEE 754's total order, text and bytes byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Cell {
    Null,
    Boolean(bool),
    /// Numbers that are no floats, and times.
    Integer(i128),
    /// A float, so that its bits are in order.
    Float(i64),
    Bytes(Vec<u8>),
}

/// The values of a row.
pub(super) type Cells = Vec<Cell>;

impl Cell {
    pub(super) fn float64(value: f64) -> Self {
        let bits = value.to_bits().cast_signed();
        Self::Float(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
    }

    pub(super) fn float32(value: f32) -> Self {
        let bits = value.to_bits().cast_signed();
        Self::Float(i64::from(bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()))
    }

    /// The inverse of [`Self::float64`].
    pub(super) fn to_float64(ordered: i64) -> f64 {
        let bits = ordered ^ ((ordered >> 63).cast_unsigned() >> 1).cast_signed();
        f64::from_bits(bits.cast_unsigned())
    }

    /// The inverse of [`Self::float32`].
    pub(super) fn to_float32(ordered: i64) -> f32 {
        let ordered = i32::try_from(ordered).unwrap_or_default();
        let bits = ordered ^ ((ordered >> 31).cast_unsigned() >> 1).cast_signed();
        f32::from_bits(bits.cast_unsigned())
    }
}

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
    rows: impl IntoIterator<Item = Option<&'a Cells>>,
) -> Vec<Column> {
    let mut builders: Vec<_> =
        fields.iter().map(|field| ColumnBuilder::new(field.type_, 0)).collect();
    for row in rows {
        for (index, (builder, field)) in builders.iter_mut().zip(fields).enumerate() {
            let cell = row.and_then(|cells| cells.get(index)).unwrap_or(&Cell::Null);
            push(builder, field.type_, cell);
        }
    }
    builders.into_iter().map(ColumnBuilder::finish).collect()
}

fn cell(column: &Column, value_type: ValueType, row: usize) -> Result<Cell> {
    if column.is_null(row) {
        return Ok(Cell::Null);
    }
    let int32 = || column.fixed(row).map(i32::from_le_bytes);
    let int64 = || column.fixed(row).map(i64::from_le_bytes);
    Ok(match value_type {
        ValueType::Boolean => Cell::Boolean(column.boolean(row)?),
        ValueType::Int32 | ValueType::Date => Cell::Integer(int32()?.into()),
        ValueType::Int64 | ValueType::TimestampMillis => Cell::Integer(int64()?.into()),
        ValueType::Float32 => Cell::float32(f32::from_bits(int32()?.cast_unsigned())),
        ValueType::Float64 => Cell::float64(f64::from_bits(int64()?.cast_unsigned())),
        ValueType::Decimal128(_) => Cell::Integer(i128::from_le_bytes(column.fixed(row)?)),
        ValueType::Utf8 | ValueType::Binary => Cell::Bytes(column.bytes(row)?.to_vec()),
    })
}

/// `cell` came out of [`cell()`], so it fits the type.
fn push(builder: &mut ColumnBuilder, value_type: ValueType, cell: &Cell) {
    let int32 = |value: &i128| i32::try_from(*value).unwrap_or_default();
    let int64 = |value: &i128| i64::try_from(*value).unwrap_or_default();
    match (value_type, cell) {
        (_, Cell::Null) => builder.push_null(),
        (_, Cell::Boolean(value)) => builder.push_boolean(*value),
        (_, Cell::Bytes(bytes)) => builder.push_bytes(bytes),
        (ValueType::Float32, Cell::Float(ordered)) => {
            builder.push_fixed(Cell::to_float32(*ordered).to_le_bytes());
        }
        (_, Cell::Float(ordered)) => builder.push_fixed(Cell::to_float64(*ordered).to_le_bytes()),
        (ValueType::Int32 | ValueType::Date, Cell::Integer(value)) => {
            builder.push_fixed(int32(value).to_le_bytes());
        }
        (ValueType::Decimal128(_), Cell::Integer(value)) => {
            builder.push_fixed(value.to_le_bytes());
        }
        (_, Cell::Integer(value)) => builder.push_fixed(int64(value).to_le_bytes()),
    }
}

//! Buffers of an operator to Arrow arrays, with every check.

use super::{bitmap_bytes, bits_past_end};
use crate::bindings::types::ColumnResult;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMillisecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, PrimitiveArray, StringArray,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use howdah_state::{Column, ColumnType};
use std::fmt::Display;
use std::sync::Arc;

/// What is wrong with a buffer; names column and row.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct BufferError(pub(crate) String);

type Result<T> = std::result::Result<T, BufferError>;

fn wrong<T>(field: &Column, what: impl Display) -> Result<T> {
    Err(BufferError(format!("column `{}` ({}): {what}", field.name, field.column_type)))
}

/// The buffers of a column, as an operator handed them over or lends them.
#[derive(Debug)]
pub(crate) struct ColumnBuffers {
    pub(crate) data: Buffer,
    pub(crate) offsets: Option<Buffer>,
    pub(crate) validity: Option<Buffer>,
}

impl From<ColumnResult> for ColumnBuffers {
    fn from(column: ColumnResult) -> Self {
        let ColumnResult { data, offsets, validity } = column;
        Self {
            data: Buffer::from_vec(data),
            offsets: offsets.map(Buffer::from_vec),
            validity: validity.map(Buffer::from_vec),
        }
    }
}

/// One array for each field. All have `rows` values.
pub(crate) fn columns<C: Into<ColumnBuffers>>(
    fields: &[Column],
    rows: usize,
    columns: Vec<C>,
) -> Result<Vec<ArrayRef>> {
    if columns.len() != fields.len() {
        return Err(BufferError(format!(
            "there are {} columns where the schema has {}",
            columns.len(),
            fields.len()
        )));
    }
    fields.iter().zip(columns).map(|(field, given)| column(field, rows, given.into())).collect()
}

fn column(field: &Column, rows: usize, column: ColumnBuffers) -> Result<ArrayRef> {
    let ColumnBuffers { data, offsets, validity } = column;
    let nulls = nulls(field, rows, validity)?;
    if matches!(field.column_type, ColumnType::Utf8 | ColumnType::Binary) {
        return bytes(field, rows, data, offsets, nulls);
    }
    if offsets.is_some() {
        return wrong(field, "it has offsets, which only utf8 and binary columns have");
    }
    match field.column_type {
        ColumnType::Boolean => {
            let values = bits(field, "data", rows, data)?;
            Ok(Arc::new(BooleanArray::new(values, nulls)))
        }
        ColumnType::Int32 => fixed::<Int32Type>(field, rows, data, nulls),
        ColumnType::Int64 => fixed::<Int64Type>(field, rows, data, nulls),
        ColumnType::Float32 => fixed::<Float32Type>(field, rows, data, nulls),
        ColumnType::Float64 => fixed::<Float64Type>(field, rows, data, nulls),
        ColumnType::Date => fixed::<Date32Type>(field, rows, data, nulls),
        ColumnType::TimestampMillis => fixed::<TimestampMillisecondType>(field, rows, data, nulls),
        ColumnType::Decimal128 { precision, .. } => decimal(field, rows, data, nulls, precision),
        ColumnType::Utf8 | ColumnType::Binary => wrong(field, "it has no fixed width"),
    }
}

/// The nulls of a column; none if every row has a value.
fn nulls(field: &Column, rows: usize, validity: Option<Buffer>) -> Result<Option<NullBuffer>> {
    let Some(validity) = validity else { return Ok(None) };
    let nulls = NullBuffer::new(bits(field, "validity", rows, validity)?);
    if nulls.null_count() == 0 {
        return Ok(None);
    }
    if !field.nullable {
        let row = nulls.iter().position(|valid| !valid).unwrap_or_default();
        return wrong(field, format_args!("row {row} is null, but the field is not nullable"));
    }
    Ok(Some(nulls))
}

/// A bitmap of exactly `rows` bits.
fn bits(field: &Column, what: &str, rows: usize, bytes: Buffer) -> Result<BooleanBuffer> {
    let expected = bitmap_bytes(rows);
    if bytes.len() != expected {
        let given = bytes.len();
        return wrong(
            field,
            format_args!("its {what} has {given} bytes where {rows} rows take {expected}"),
        );
    }
    if bytes.last().is_some_and(|last| last & bits_past_end(rows) != 0) {
        return wrong(field, format_args!("its {what} has a 1 bit past the last of {rows} rows"));
    }
    Ok(BooleanBuffer::new(bytes, 0, rows))
}

fn check_width(field: &Column, rows: usize, width: usize, data: &[u8]) -> Result<()> {
    let (given, expected) = (data.len(), rows.saturating_mul(width));
    if given == expected {
        return Ok(());
    }
    wrong(field, format_args!("its data has {given} bytes where {rows} rows take {expected}"))
}

fn fixed<T: ArrowPrimitiveType>(
    field: &Column,
    rows: usize,
    data: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    check_width(field, rows, size_of::<T::Native>(), &data)?;
    Ok(Arc::new(PrimitiveArray::<T>::new(values(data, rows), nulls)))
}

fn decimal(
    field: &Column,
    rows: usize,
    data: Buffer,
    nulls: Option<NullBuffer>,
    precision: u8,
) -> Result<ArrayRef> {
    check_width(field, rows, size_of::<i128>(), &data)?;
    let array = Decimal128Array::new(values(data, rows), nulls);
    let bound = 10_u128.saturating_pow(u32::from(precision));
    let past = |row: &usize| {
        array.is_valid(*row) && array.values().get(*row).is_some_and(|v| v.unsigned_abs() >= bound)
    };
    if let Some(row) = (0..rows).find(past) {
        return wrong(field, format_args!("row {row} has more than {precision} digits"));
    }
    Ok(Arc::new(array.with_data_type(field.column_type.to_arrow())))
}

fn bytes(
    field: &Column,
    rows: usize,
    data: Buffer,
    offsets: Option<Buffer>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let Some(offsets) = offsets else { return wrong(field, "it lacks its offsets") };
    let offsets = check_offsets(field, rows, offsets, data.len())?;
    if field.column_type == ColumnType::Binary {
        return match BinaryArray::try_new(offsets, data, nulls) {
            Ok(array) => Ok(Arc::new(array)),
            Err(error) => wrong(field, error),
        };
    }
    match StringArray::try_new(offsets.clone(), data.clone(), nulls) {
        Ok(array) => Ok(Arc::new(array)),
        // Arrow says where in the data; people want the row.
        Err(error) => match offsets.windows(2).position(|range| !is_utf8(&data, range)) {
            Some(row) => wrong(field, format_args!("row {row} is not valid UTF-8")),
            None => wrong(field, error),
        },
    }
}

fn is_utf8(data: &[u8], range: &[i32]) -> bool {
    let &[start, end] = range else { return false };
    data.get(start.as_usize()..end.as_usize())
        .is_some_and(|value| std::str::from_utf8(value).is_ok())
}

/// `rows + 1` offsets that start at 0, never descend and end at `data_len`.
fn check_offsets(
    field: &Column,
    rows: usize,
    bytes: Buffer,
    data_len: usize,
) -> Result<OffsetBuffer<i32>> {
    let (given, expected) = (bytes.len(), rows.saturating_add(1).saturating_mul(4));
    if given != expected {
        return wrong(
            field,
            format_args!("its offsets have {given} bytes where {rows} rows take {expected}"),
        );
    }
    if i32::try_from(data_len).is_err() {
        return wrong(field, format_args!("its data has {data_len} bytes, more than 2 GiB"));
    }
    let offsets: ScalarBuffer<i32> = values(bytes, rows.saturating_add(1));
    match offsets.first() {
        Some(0) => {}
        first => {
            let first = first.copied().unwrap_or_default();
            return wrong(field, format_args!("its first offset is {first}, not 0"));
        }
    }
    if !ascend(&offsets) {
        let row = offsets.windows(2).position(|pair| pair.first() > pair.last());
        let row = row.unwrap_or_default();
        return wrong(field, format_args!("row {row} has an end offset before its start"));
    }
    let last = offsets.last().copied().unwrap_or_default();
    if usize::try_from(last) != Ok(data_len) {
        return wrong(
            field,
            format_args!("its last offset is {last}, but its data has {data_len} bytes"),
        );
    }
    Ok(OffsetBuffer::new(offsets))
}

/// Whether no offset is less than the one before. Looks at all of them without a branch, so that
/// the compiler takes several at a time.
fn ascend(offsets: &[i32]) -> bool {
    let ends = offsets.get(1..).unwrap_or_default();
    offsets.iter().zip(ends).fold(true, |ascend, (start, end)| ascend & (start <= end))
}

/// The bytes as values, without a copy if their address is aligned (an allocator's always is).
/// The caller has checked the length.
fn values<T: ArrowNativeType>(mut buffer: Buffer, count: usize) -> ScalarBuffer<T> {
    if buffer.as_ptr().align_offset(align_of::<T>()) != 0 {
        buffer = Buffer::from_slice_ref(buffer.as_slice());
    }
    ScalarBuffer::new(buffer, 0, count)
}

/// The event times of `rows` rows.
pub(crate) fn timestamps(rows: usize, bytes: Vec<u8>) -> Result<Vec<i64>> {
    i64s("timestamps", rows, bytes).map(|times| times.to_vec())
}

/// Packed 64-bit numbers, one for each row; `what` they are in the plural.
pub(crate) fn i64s(what: &str, rows: usize, bytes: Vec<u8>) -> Result<ScalarBuffer<i64>> {
    let (given, expected) = (bytes.len(), rows.saturating_mul(8));
    if given != expected {
        return Err(BufferError(format!(
            "the {what} have {given} bytes where {rows} rows take {expected}"
        )));
    }
    Ok(values(Buffer::from_vec(bytes), rows))
}

/// The row kinds of `rows` rows: one byte each, 0 to 3.
pub(crate) fn row_kinds(rows: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let given = bytes.len();
    if given != rows {
        return Err(BufferError(format!("there are {given} row kinds for {rows} rows")));
    }
    match bytes.iter().enumerate().find(|(_, kind)| **kind > 3) {
        Some((row, kind)) => {
            Err(BufferError(format!("row {row} has row kind {kind}; there are 0, 1, 2 and 3")))
        }
        None => Ok(bytes),
    }
}

/// Packed 32-bit numbers.
pub(crate) fn u32s(bytes: Vec<u8>) -> Result<ScalarBuffer<u32>> {
    if bytes.len().is_multiple_of(4) {
        let count = bytes.len() / 4;
        Ok(values(Buffer::from_vec(bytes), count))
    } else {
        Err(BufferError(format!("{} bytes are no whole number of 4-byte values", bytes.len())))
    }
}

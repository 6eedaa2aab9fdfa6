//! Builds a column from the texts and scalars of rows; a row can be taken back.

use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMillisecondType,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int32Array, Int64Array, StringArray, TimestampMillisecondArray,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_cast::parse::{Parser, parse_decimal};
use arrow_schema::ArrowError;
use howdah_state::{Column, ColumnType};
use std::sync::Arc;

/// A value of a row, as the format of the file has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// None.
    Null,
    /// A field of a text format; any type can be read from it.
    Field(&'a [u8]),
    /// JSON true or false.
    Boolean(bool),
    /// A JSON number that is whole.
    Integer(i64),
    /// Another JSON number.
    Float(f64),
    /// A JSON string.
    Text(&'a str),
    /// A JSON list or object, which no column holds.
    Nested,
}

/// A value of one row that is compared with others.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Float32(f32),
    Float64(f64),
    Decimal128(i128),
    Bytes(Vec<u8>),
}

/// Why a value is not one of the column's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueError {
    /// The column needs a value.
    Missing,
    /// The value, cut short, is none of the type; the reason.
    Wrong(String),
}

/// A column that grows row by row.
#[derive(Debug)]
pub(super) struct ColumnBuilder {
    column: Column,
    values: Values,
    validity: NullBufferBuilder,
}

#[derive(Debug)]
enum Values {
    Boolean(BooleanBufferBuilder),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal128(Vec<i128>),
    /// Text or bytes: `ends` has one offset more than there are rows.
    Bytes {
        ends: Vec<i32>,
        data: Vec<u8>,
    },
}

/// The longest decimal text that is parsed: 38 digits, sign, point and some zeros.
const DECIMAL_LIMIT_BYTES: usize = 64;
/// How much of a wrong value a message shows.
const SHOWN_LIMIT_CHARS: usize = 40;

impl ColumnBuilder {
    pub(super) fn new(column: Column, capacity: usize) -> Self {
        let values = match column.column_type {
            ColumnType::Boolean => Values::Boolean(BooleanBufferBuilder::new(capacity)),
            ColumnType::Int32 | ColumnType::Date => Values::Int32(Vec::with_capacity(capacity)),
            ColumnType::Int64 | ColumnType::TimestampMillis => {
                Values::Int64(Vec::with_capacity(capacity))
            }
            ColumnType::Float32 => Values::Float32(Vec::with_capacity(capacity)),
            ColumnType::Float64 => Values::Float64(Vec::with_capacity(capacity)),
            ColumnType::Decimal128 { .. } => Values::Decimal128(Vec::with_capacity(capacity)),
            ColumnType::Utf8 | ColumnType::Binary => {
                let mut ends = Vec::with_capacity(capacity + 1);
                ends.push(0);
                Values::Bytes { ends, data: Vec::new() }
            }
        };
        Self { column, values, validity: NullBufferBuilder::new(capacity) }
    }

    pub(super) fn column(&self) -> &Column {
        &self.column
    }

    /// Rows so far.
    pub(super) fn len(&self) -> usize {
        self.validity.len()
    }

    /// Bytes of its texts, or bytes; 0 of a column of fixed width.
    #[inline]
    pub(super) fn text_bytes(&self) -> usize {
        match &self.values {
            Values::Bytes { data, .. } => data.len(),
            _ => 0,
        }
    }

    /// Appends the value of a row. After an error the builder is as before.
    pub(super) fn append(&mut self, value: Value<'_>) -> Result<(), ValueError> {
        let appended = match value {
            Value::Null => return self.append_null(),
            Value::Field(field) => self.append_field(field),
            value => self.append_json(value),
        };
        match appended {
            Ok(()) => {
                self.validity.append_non_null();
                Ok(())
            }
            Err(Refused) => Err(ValueError::Wrong(format!(
                "{} is no {}",
                shown(value),
                describe(self.column.column_type)
            ))),
        }
    }

    /// Forgets all rows after the first `rows`.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows);
        match &mut self.values {
            Values::Boolean(values) => values.truncate(rows),
            Values::Int32(values) => values.truncate(rows),
            Values::Int64(values) => values.truncate(rows),
            Values::Float32(values) => values.truncate(rows),
            Values::Float64(values) => values.truncate(rows),
            Values::Decimal128(values) => values.truncate(rows),
            Values::Bytes { ends, data } => {
                ends.truncate(rows + 1);
                data.truncate(ends.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0)));
            }
        }
    }

    /// Whether the last row has exactly this value.
    pub(super) fn last_is(&self, scalar: &Scalar) -> bool {
        let rows = self.len();
        if rows == 0 || !self.validity.is_valid(rows - 1) {
            return false;
        }
        match (&self.values, scalar) {
            (Values::Boolean(values), Scalar::Boolean(wanted)) => {
                values.get_bit(rows - 1) == *wanted
            }
            (Values::Int32(values), Scalar::Int32(wanted)) => values.last() == Some(wanted),
            (Values::Int64(values), Scalar::Int64(wanted)) => values.last() == Some(wanted),
            (Values::Float32(values), Scalar::Float32(wanted)) => values.last() == Some(wanted),
            (Values::Float64(values), Scalar::Float64(wanted)) => values.last() == Some(wanted),
            (Values::Decimal128(values), Scalar::Decimal128(wanted)) => {
                values.last() == Some(wanted)
            }
            (Values::Bytes { ends, data }, Scalar::Bytes(wanted)) => {
                let start = ends.get(rows - 1).map_or(0, |end| usize::try_from(*end).unwrap_or(0));
                data.get(start..) == Some(wanted.as_slice())
            }
            _ => false,
        }
    }

    /// The value of the last row; `None` for a null or before the first row.
    pub(super) fn last(&self) -> Option<Scalar> {
        let last = self.len().checked_sub(1)?;
        if !self.validity.is_valid(last) {
            return None;
        }
        Some(match &self.values {
            Values::Boolean(values) => Scalar::Boolean(values.get_bit(last)),
            Values::Int32(values) => Scalar::Int32(*values.last()?),
            Values::Int64(values) => Scalar::Int64(*values.last()?),
            Values::Float32(values) => Scalar::Float32(*values.last()?),
            Values::Float64(values) => Scalar::Float64(*values.last()?),
            Values::Decimal128(values) => Scalar::Decimal128(*values.last()?),
            Values::Bytes { ends, data } => {
                let start = usize::try_from(*ends.get(last)?).ok()?;
                Scalar::Bytes(data.get(start..)?.to_vec())
            }
        })
    }

    /// The column, and an empty builder again.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.validity.finish();
        Ok(match &mut self.values {
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int32(values) => {
                let values = std::mem::take(values).into();
                match self.column.column_type {
                    ColumnType::Date => Arc::new(Date32Array::try_new(values, nulls)?),
                    _ => Arc::new(Int32Array::try_new(values, nulls)?),
                }
            }
            Values::Int64(values) => {
                let values = std::mem::take(values).into();
                match self.column.column_type {
                    ColumnType::TimestampMillis => {
                        Arc::new(TimestampMillisecondArray::try_new(values, nulls)?)
                    }
                    _ => Arc::new(Int64Array::try_new(values, nulls)?),
                }
            }
            Values::Float32(values) => {
                Arc::new(Float32Array::try_new(std::mem::take(values).into(), nulls)?)
            }
            Values::Float64(values) => {
                Arc::new(Float64Array::try_new(std::mem::take(values).into(), nulls)?)
            }
            Values::Decimal128(values) => Arc::new(
                Decimal128Array::try_new(std::mem::take(values).into(), nulls)?
                    .with_data_type(self.column.column_type.to_arrow()),
            ),
            Values::Bytes { ends, data } => {
                let ends = std::mem::replace(ends, vec![0]);
                let data = std::mem::take(data);
                bytes_array(self.column.column_type, ends, data, nulls)?
            }
        })
    }

    fn append_null(&mut self) -> Result<(), ValueError> {
        if !self.column.nullable {
            return Err(ValueError::Missing);
        }
        match &mut self.values {
            Values::Boolean(values) => values.append(false),
            Values::Int32(values) => values.push(0),
            Values::Int64(values) => values.push(0),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Decimal128(values) => values.push(0),
            Values::Bytes { ends, .. } => ends.push(ends.last().copied().unwrap_or(0)),
        }
        self.validity.append_null();
        Ok(())
    }

    fn append_field(&mut self, field: &[u8]) -> Result<(), Refused> {
        let column_type = self.column.column_type;
        if let (ColumnType::Binary, Values::Bytes { ends, data }) = (column_type, &mut self.values)
        {
            return push_hex(ends, data, field);
        }
        let text = std::str::from_utf8(field).map_err(|_| Refused)?;
        match &mut self.values {
            Values::Boolean(values) => values.append(parse_boolean(text)?),
            Values::Int32(values) => values.push(match column_type {
                ColumnType::Date => parse_date(text)?,
                _ => Int32Type::parse(text).ok_or(Refused)?,
            }),
            Values::Int64(values) => values.push(match column_type {
                ColumnType::TimestampMillis => parse_timestamp_millis(text)?,
                _ => Int64Type::parse(text).ok_or(Refused)?,
            }),
            Values::Float32(values) => values.push(Float32Type::parse(text).ok_or(Refused)?),
            Values::Float64(values) => values.push(Float64Type::parse(text).ok_or(Refused)?),
            Values::Decimal128(values) => values.push(parse_decimal_exactly(text, column_type)?),
            Values::Bytes { ends, data } => push_bytes(ends, data, field)?,
        }
        Ok(())
    }

    fn append_json(&mut self, value: Value<'_>) -> Result<(), Refused> {
        let column_type = self.column.column_type;
        match (&mut self.values, value) {
            (Values::Boolean(values), Value::Boolean(boolean)) => values.append(boolean),
            (Values::Int32(values), Value::Integer(integer))
                if column_type == ColumnType::Int32 =>
            {
                values.push(i32::try_from(integer).map_err(|_| Refused)?);
            }
            (Values::Int64(values), Value::Integer(integer)) => values.push(integer),
            (Values::Float32(values), value) => values.push(narrow(json_float(value)?)?),
            (Values::Float64(values), value) => values.push(json_float(value)?),
            (Values::Decimal128(values), value) => {
                let text = match value {
                    Value::Integer(integer) => integer.to_string(),
                    Value::Float(float) => float.to_string(),
                    Value::Text(text) => text.to_owned(),
                    _ => return Err(Refused),
                };
                values.push(parse_decimal_exactly(&text, column_type)?);
            }
            // Numbers as texts would be guesses; dates, timestamps, text and bytes are texts.
            (Values::Int32(_), Value::Text(text)) if column_type == ColumnType::Date => {
                return self.append_field(text.as_bytes());
            }
            (Values::Int64(_), Value::Text(text)) if column_type == ColumnType::TimestampMillis => {
                return self.append_field(text.as_bytes());
            }
            (Values::Bytes { .. }, Value::Text(text)) => {
                return self.append_field(text.as_bytes());
            }
            _ => return Err(Refused),
        }
        Ok(())
    }
}

/// The value is none of the column's type.
struct Refused;

fn bytes_array(
    column_type: ColumnType,
    ends: Vec<i32>,
    data: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let offsets = OffsetBuffer::new(ends.into());
    let data = Buffer::from_vec(data);
    Ok(match column_type {
        ColumnType::Binary => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
        _ => Arc::new(StringArray::try_new(offsets, data, nulls)?),
    })
}

fn push_bytes(ends: &mut Vec<i32>, data: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Refused> {
    let end = i32::try_from(data.len() + bytes.len()).map_err(|_| Refused)?;
    data.extend_from_slice(bytes);
    ends.push(end);
    Ok(())
}

/// Bytes are written as hexadecimal digits, as the CSV and NDJSON sinks write them.
fn push_hex(ends: &mut Vec<i32>, data: &mut Vec<u8>, field: &[u8]) -> Result<(), Refused> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = field.chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(high)? << 4) | digit(low)?),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = pairs.collect();
    push_bytes(ends, data, &bytes.ok_or(Refused)?)
}

fn parse_boolean(text: &str) -> Result<bool, Refused> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        text if text.eq_ignore_ascii_case("true") => Ok(true),
        text if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(Refused),
    }
}

fn parse_date(text: &str) -> Result<i32, Refused> {
    // `YYYY-MM-DD` and nothing else: no time that would be cut off, no number of days.
    if text.len() != 10 || text.as_bytes().get(4) != Some(&b'-') {
        return Err(Refused);
    }
    Date32Type::parse(text).ok_or(Refused)
}

/// Milliseconds since the epoch as a number, or a date and time; digits below a millisecond
/// are cut off.
fn parse_timestamp_millis(text: &str) -> Result<i64, Refused> {
    if let Some(millis) = Int64Type::parse(text) {
        return Ok(millis);
    }
    if !text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        return Err(Refused);
    }
    TimestampMillisecondType::parse(text).ok_or(Refused)
}

/// A decimal that loses no digit.
fn parse_decimal_exactly(text: &str, column_type: ColumnType) -> Result<i128, Refused> {
    let ColumnType::Decimal128 { precision, scale } = column_type else { return Err(Refused) };
    let plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+');
    if text.len() > DECIMAL_LIMIT_BYTES || !text.bytes().all(plain) {
        return Err(Refused);
    }
    let text = match text.split_once('.') {
        Some((_, fraction)) => {
            let kept = fraction.trim_end_matches('0');
            if kept.len() > usize::from(scale) {
                return Err(Refused);
            }
            text.get(..text.len() - (fraction.len() - kept.len())).unwrap_or(text)
        }
        None => text,
    };
    let scale = i8::try_from(scale).map_err(|_| Refused)?;
    parse_decimal::<Decimal128Type>(text, precision, scale).map_err(|_| Refused)
}

fn json_float(value: Value<'_>) -> Result<f64, Refused> {
    match value {
        Value::Float(float) => Ok(float),
        Value::Integer(integer) => {
            #[expect(clippy::cast_precision_loss, reason = "checked on the next line")]
            let float = integer as f64;
            // `i64::MAX as f64` is 2^63, which is no `i64`: compare as wider integers.
            #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^64")]
            let back = float as i128;
            if back == i128::from(integer) { Ok(float) } else { Err(Refused) }
        }
        _ => Err(Refused),
    }
}

fn narrow(float: f64) -> Result<f32, Refused> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what a float32 is")]
    let narrow = float as f32;
    if narrow.is_infinite() && float.is_finite() { Err(Refused) } else { Ok(narrow) }
}

/// The value for a message, cut short.
fn shown(value: Value<'_>) -> String {
    let text = match value {
        Value::Null => "null".into(),
        Value::Field(field) => String::from_utf8_lossy(field),
        Value::Boolean(boolean) => boolean.to_string().into(),
        Value::Integer(integer) => integer.to_string().into(),
        Value::Float(float) => float.to_string().into(),
        Value::Text(text) => text.into(),
        Value::Nested => return "a list or object".to_owned(),
    };
    let mut shown: String = text.chars().take(SHOWN_LIMIT_CHARS).flat_map(printable).collect();
    if text.chars().nth(SHOWN_LIMIT_CHARS).is_some() {
        shown.push_str("...");
    }
    format!("`{shown}`")
}

fn printable(character: char) -> impl Iterator<Item = char> {
    let escaped = character.is_control().then(|| character.escape_default());
    let plain = (!character.is_control()).then_some(character);
    escaped.into_iter().flatten().chain(plain)
}

/// A type and, where it is not plain, how its values are written.
fn describe(column_type: ColumnType) -> String {
    match column_type {
        ColumnType::TimestampMillis => {
            "timestamp (YYYY-MM-DD HH:MM:SS.mmm, or milliseconds since the epoch)".to_owned()
        }
        ColumnType::Date => "date (YYYY-MM-DD)".to_owned(),
        ColumnType::Utf8 => "UTF-8 text".to_owned(),
        ColumnType::Binary => "bytes in hexadecimal digits".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    fn built(column_type: ColumnType, fields: &[&str]) -> ArrayRef {
        let mut builder = ColumnBuilder::new(Column::required("x", column_type), 4);
        for field in fields {
            builder.append(Value::Field(field.as_bytes())).expect(field);
        }
        builder.finish().expect("an array")
    }

    fn refused(column_type: ColumnType, field: &str) -> String {
        let mut builder = ColumnBuilder::new(Column::required("x", column_type), 4);
        match builder.append(Value::Field(field.as_bytes())) {
            Err(ValueError::Wrong(message)) => message,
            other => panic!("{field}: {other:?}"),
        }
    }

    #[test]
    fn a_timestamp_is_read_from_every_spelling() {
        let spellings = [
            "2023-11-14 22:13:20",
            "2023-11-14T22:13:20.000Z",
            "2023-11-14T23:13:20+01:00",
            "1700000000000",
        ];
        let array = built(ColumnType::TimestampMillis, &spellings);
        let values = array.as_primitive::<TimestampMillisecondType>().values();
        assert_eq!(values.as_ref(), [1_700_000_000_000; 4]);
    }

    #[test]
    fn a_wrong_value_is_shown_with_the_type() {
        assert_eq!(refused(ColumnType::Int64, "12x"), "`12x` is no int64");
        assert_eq!(refused(ColumnType::Int32, "2147483648"), "`2147483648` is no int32");
        assert_eq!(
            refused(ColumnType::TimestampMillis, "yesterday"),
            "`yesterday` is no timestamp (YYYY-MM-DD HH:MM:SS.mmm, or milliseconds since the epoch)"
        );
        let long = "9".repeat(100);
        assert_eq!(
            refused(ColumnType::Int64, &long),
            format!("`{}...` is no int64", "9".repeat(40))
        );
    }

    #[test]
    fn a_decimal_keeps_every_digit_or_is_refused() {
        let column_type = ColumnType::Decimal128 { precision: 5, scale: 2 };
        let array = built(column_type, &["1.5", "-123.45", "7", "1.500"]);
        let values = array.as_primitive::<Decimal128Type>().values();
        assert_eq!(values.as_ref(), [150, -12_345, 700, 150]);
        assert_eq!(refused(column_type, "1.234"), "`1.234` is no decimal128(5,2)");
        assert_eq!(refused(column_type, "12345"), "`12345` is no decimal128(5,2)");
        refused(column_type, &"1".repeat(300));
    }

    #[test]
    fn bytes_are_read_from_hexadecimal_digits() {
        let array = built(ColumnType::Binary, &["00ff", ""]);
        assert_eq!(array.as_binary::<i32>().value(0), [0, 255]);
        assert_eq!(array.as_binary::<i32>().value(1), [0_u8; 0]);
        refused(ColumnType::Binary, "0f0");
    }

    #[test]
    fn a_column_that_is_not_nullable_refuses_null() {
        let mut builder = ColumnBuilder::new(Column::required("x", ColumnType::Int64), 4);
        assert_eq!(builder.append(Value::Null), Err(ValueError::Missing));
        assert_eq!(builder.len(), 0);
    }

    #[test]
    fn truncating_takes_back_rows_of_every_type() {
        let types = [
            (ColumnType::Boolean, "1"),
            (ColumnType::Int32, "1"),
            (ColumnType::Int64, "1"),
            (ColumnType::Float32, "1"),
            (ColumnType::Float64, "1"),
            (ColumnType::Decimal128 { precision: 3, scale: 0 }, "1"),
            (ColumnType::Date, "2024-01-01"),
            (ColumnType::TimestampMillis, "1"),
            (ColumnType::Utf8, "one"),
            (ColumnType::Binary, "01"),
        ];
        for (column_type, field) in types {
            let mut builder = ColumnBuilder::new(Column::nullable("x", column_type), 4);
            builder.append(Value::Field(field.as_bytes())).expect("a value");
            builder.append(Value::Null).expect("a null");
            builder.append(Value::Field(field.as_bytes())).expect("a value");
            builder.truncate(1);
            let array = builder.finish().expect("an array");
            assert_eq!((array.len(), array.null_count()), (1, 0), "{column_type}");
            assert_eq!(array.data_type(), &column_type.to_arrow());
        }
    }

    #[test]
    fn a_json_integer_that_a_float_cannot_hold_is_refused() {
        let mut builder = ColumnBuilder::new(Column::required("x", ColumnType::Float64), 4);
        assert!(builder.append(Value::Integer(1 << 53)).is_ok());
        assert!(builder.append(Value::Integer((1 << 53) + 1)).is_err());
        assert!(builder.append(Value::Integer(i64::MAX)).is_err());
    }
}

//! Rows that go into the operator, as columns.

use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMillisecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, PrimitiveArray, RecordBatch,
    StringArray, cast::AsArray as _,
};
use arrow_schema::{DataType, SchemaRef};
use std::fmt::Write as _;
use std::sync::Arc;

/// A row of the input `commands`, or what the operator answers to one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Command {
    pub(super) key: String,
    pub(super) command: String,
    pub(super) map_key: Option<i64>,
    pub(super) number: Option<i64>,
    pub(super) text: Option<String>,
    /// 0 +I, 1 -U, 2 +U, 3 -D.
    pub(super) kind: u8,
    /// Its event time.
    pub(super) time: i64,
}

/// The names of the row kinds.
pub(super) const KINDS: [&str; 4] = ["+I", "-U", "+U", "-D"];

impl Command {
    pub(super) fn new(key: &str, command: &str) -> Self {
        Self { key: key.to_owned(), command: command.to_owned(), ..Self::default() }
    }

    pub(super) fn number(self, number: i64) -> Self {
        Self { number: Some(number), ..self }
    }

    pub(super) fn map_key(self, map_key: i64) -> Self {
        Self { map_key: Some(map_key), ..self }
    }

    pub(super) fn text(self, text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..self }
    }
}

pub(super) fn commands_batch(schema: SchemaRef, rows: &[Command]) -> RecordBatch {
    let numbers = |of: fn(&Command) -> Option<i64>| {
        Arc::new(rows.iter().map(of).collect::<PrimitiveArray<Int64Type>>()) as ArrayRef
    };
    let columns = vec![
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.key))) as ArrayRef,
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.command))),
        numbers(|row| row.map_key),
        numbers(|row| row.number),
        Arc::new(rows.iter().map(|row| row.text.as_deref()).collect::<StringArray>()),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Rows of `commands` or `results`.
pub(super) fn commands_of(batch: &RecordBatch, kinds: &[u8], times: &[i64]) -> Vec<Command> {
    let text = |column: usize, row: usize| {
        let column = batch.column(column).as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    let number = |column: usize, row: usize| {
        let column = batch.column(column).as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let row = |(row, (kind, time)): (usize, (&u8, &i64))| Command {
        key: text(0, row).unwrap(),
        command: text(1, row).unwrap(),
        map_key: number(2, row),
        number: number(3, row),
        text: text(4, row),
        kind: *kind,
        time: *time,
    };
    kinds.iter().zip(times).enumerate().map(row).collect()
}

/// A row of the input `values`, without its key.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    pub(super) boolean: Option<bool>,
    pub(super) int32: Option<i32>,
    pub(super) int64: Option<i64>,
    pub(super) float32: Option<f32>,
    pub(super) float64: Option<f64>,
    pub(super) decimal: Option<i128>,
    pub(super) date: Option<i32>,
    pub(super) timestamp: Option<i64>,
    pub(super) utf8: Option<String>,
    pub(super) binary: Option<Vec<u8>>,
}

/// The columns of rows of `values` or `echoes`.
pub(super) fn values_batch<'a>(
    schema: SchemaRef,
    rows: impl Iterator<Item = (&'a String, &'a Values)> + Clone,
) -> RecordBatch {
    macro_rules! column {
        ($array:ty, $field:ident) => {
            Arc::new(rows.clone().map(|(_, row)| row.$field).collect::<$array>()) as ArrayRef
        };
    }
    let decimals = rows.clone().map(|(_, row)| row.decimal).collect::<Decimal128Array>();
    let columns = vec![
        Arc::new(StringArray::from_iter_values(rows.clone().map(|(key, _)| key))) as ArrayRef,
        column!(BooleanArray, boolean),
        column!(PrimitiveArray<Int32Type>, int32),
        column!(PrimitiveArray<Int64Type>, int64),
        column!(PrimitiveArray<Float32Type>, float32),
        column!(PrimitiveArray<Float64Type>, float64),
        Arc::new(decimals.with_precision_and_scale(38, 10).unwrap()),
        column!(PrimitiveArray<Date32Type>, date),
        column!(PrimitiveArray<TimestampMillisecondType>, timestamp),
        Arc::new(rows.clone().map(|(_, row)| row.utf8.as_deref()).collect::<StringArray>()),
        Arc::new(rows.map(|(_, row)| row.binary.as_deref()).collect::<BinaryArray>()),
    ];
    RecordBatch::try_new(schema, columns).unwrap()
}

/// A value as text, such that what differs in a bit has another text.
#[expect(clippy::panic, reason = "a test may panic")]
pub(super) fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return "null".to_owned();
    }
    macro_rules! primitive {
        ($type:ty) => {
            column.as_primitive::<$type>().value(row)
        };
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int32 => primitive!(Int32Type).to_string(),
        DataType::Int64 => primitive!(Int64Type).to_string(),
        DataType::Float32 => format!("{:08x}", primitive!(Float32Type).to_bits()),
        DataType::Float64 => format!("{:016x}", primitive!(Float64Type).to_bits()),
        DataType::Decimal128(..) => primitive!(arrow_array::types::Decimal128Type).to_string(),
        DataType::Date32 => primitive!(Date32Type).to_string(),
        DataType::Timestamp(..) => primitive!(TimestampMillisecondType).to_string(),
        DataType::Utf8 => format!("{:?}", column.as_string::<i32>().value(row)),
        DataType::Binary => {
            column.as_binary::<i32>().value(row).iter().fold("x".to_owned(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            })
        }
        other => panic!("a column of {other}"),
    }
}

/// Rows as text, with their columns' names.
pub(super) fn texts(batch: &RecordBatch, without: &[&str]) -> Vec<String> {
    let schema = batch.schema();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .filter(|(field, _)| !without.contains(&field.name().as_str()))
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            let cells = columns
                .iter()
                .map(|(field, column)| format!("{}={}", field.name(), cell(column, row)));
            cells.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

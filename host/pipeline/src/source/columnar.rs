//! Rows that come in typed columns: picked, cast and filtered as the plan says.

use super::SourceBatch;
use super::column_builder::{Scalar, ValueError};
use super::plan::Plan;
use super::reject::Rejects;
use super::rows::describe;
use crate::error::{Error, Result};
use crate::lines::Lines;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMillisecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, SchemaRef};
use howdah_state::{Column, ColumnType};
use std::sync::Arc;

/// Kinds of rows, as the contract with operators numbers them.
const INSERT: u8 = 0;
const UPDATE_BEFORE: u8 = 1;
const UPDATE_AFTER: u8 = 2;
const DELETE: u8 = 3;

/// The type that a column is read as. Where values may not fit (timestamps finer
/// than a millisecond, large unsigned numbers), each is checked.
pub(crate) fn read_type(data_type: &DataType) -> Option<ColumnType> {
    Some(match data_type {
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => ColumnType::Int32,
        DataType::UInt32 | DataType::UInt64 => ColumnType::Int64,
        DataType::Float16 => ColumnType::Float32,
        DataType::Timestamp(_, _) => ColumnType::TimestampMillis,
        DataType::Date64 => ColumnType::Date,
        DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Utf8,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            ColumnType::Binary
        }
        DataType::Dictionary(_, values) => read_type(values)?,
        other => ColumnType::from_arrow(other)?,
    })
}

/// Makes batches of the plan.
#[derive(Debug)]
pub(super) struct Columnar {
    plan: Arc<Plan>,
    rejects: Rejects,
}

impl Columnar {
    pub(super) fn new(plan: Arc<Plan>, rejects: Rejects) -> Self {
        Self { plan, rejects }
    }

    /// The batch of the plan from rows as the source has them; `first` is the number of the first of them, from 1.
    pub(super) fn take(&mut self, batch: &RecordBatch, first: u64) -> Result<SourceBatch> {
        self.take_changes(batch, None, first)
    }

    /// The same of rows with kinds.
    pub(super) fn take_changes(
        &mut self,
        batch: &RecordBatch,
        kinds: Option<&[u8]>,
        first: u64,
    ) -> Result<SourceBatch> {
        let columns = self.plan.columns();
        let mut read = Vec::with_capacity(columns.len());
        let mut kept = vec![true; batch.num_rows()];
        let mut filter = self.plan.filter().iter();
        for column in columns {
            let values = self.column(batch, column)?;
            if let Some(wanted) = filter.next() {
                retain_equal(&mut kept, &values, wanted);
            }
            read.push(values);
        }
        let filtered = kept.iter().filter(|kept| !**kept).count();
        self.set_aside(batch, first, &read, &mut kept)?;
        let whole_updates = self.plan.filter().is_empty();
        let row_kinds = kinds.map(|kinds| kinds_of_kept(kinds, &kept, whole_updates));
        let numbers = (first..).zip(&kept);
        let lines: Vec<u64> =
            numbers.filter(|(_, kept)| **kept).map(|(number, _)| number).collect();
        if lines.len() < kept.len() {
            let mask = BooleanArray::from(kept);
            for column in &mut read {
                *column = arrow_select::filter::filter(column, &mask)?;
            }
        }
        let (rows, event_times) = self.plan.project(&read, lines.len())?;
        let filtered = u64::try_from(filtered).unwrap_or(u64::MAX);
        let lines = Lines::new(self.rejects.origin(), lines);
        let rejected = self.rejects.take();
        Ok(SourceBatch { rows, row_kinds, event_times, lines, filtered, rejected })
    }

    /// A column as the type that it is read as; a value that does not fit is null.
    fn column(&self, batch: &RecordBatch, column: &Column) -> Result<ArrayRef> {
        let values = batch.column_by_name(&column.name).ok_or_else(|| {
            Error::input(format!("{} has no column `{}`", self.rejects.origin(), column.name))
        })?;
        let wanted = column.column_type.to_arrow();
        if *values.data_type() == wanted {
            return Ok(Arc::clone(values));
        }
        cast_exactly(values, &wanted)
    }

    /// Takes out rows that lack a value which is needed, or have one that does not fit.
    fn set_aside(
        &mut self,
        batch: &RecordBatch,
        first: u64,
        read: &[ArrayRef],
        kept: &mut [bool],
    ) -> Result<()> {
        for (column, values) in self.plan.columns().iter().zip(read) {
            let given = batch.column_by_name(&column.name);
            for (row, kept) in kept.iter_mut().enumerate() {
                if !*kept || values.is_valid(row) {
                    continue;
                }
                let fits = given.is_none_or(|given| given.is_null(row));
                if fits && column.nullable {
                    continue;
                }
                *kept = false;
                let error = match given.filter(|_| !fits) {
                    None => ValueError::Missing,
                    Some(given) => ValueError::Wrong(format!(
                        "`{}` is no {}",
                        show(given, row),
                        column.column_type
                    )),
                };
                let number = first + u64::try_from(row).unwrap_or_default();
                let raw = show_row(batch, row);
                self.rejects.add(number, raw.as_bytes(), describe(&column.name, error))?;
            }
        }
        Ok(())
    }
}

/// The kinds of the rows that are kept. Where a filter may keep one half of an update, halves are rows
/// of their own: one is deleted, one inserted.
fn kinds_of_kept(kinds: &[u8], kept: &[bool], whole_updates: bool) -> Vec<u8> {
    let kinds = kinds.iter().zip(kept).filter(|(_, kept)| **kept).map(|(kind, _)| *kind);
    let half = |kind| match kind {
        UPDATE_BEFORE => DELETE,
        UPDATE_AFTER => INSERT,
        other => other,
    };
    if whole_updates { kinds.collect() } else { kinds.map(half).collect() }
}

/// Casts; a value that would change is null.
pub(crate) fn cast_exactly(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, format_options: FormatOptions::default() };
    let cast = cast_with_options(values, wanted, &options)?;
    let DataType::Timestamp(unit, _) = values.data_type() else { return Ok(cast) };
    // Only timestamps get coarser: what does not come back was cut off. The time zone is no
    // part of the instant.
    let finer = DataType::Timestamp(*unit, None);
    let back = cast_with_options(&cast, &finer, &options)?;
    let ticks = |times| cast_with_options(times, &DataType::Int64, &options);
    let (given, back) = (ticks(values)?, ticks(&back)?);
    let (given, back) = (given.as_primitive::<Int64Type>(), back.as_primitive::<Int64Type>());
    let changed =
        BooleanBuffer::collect_bool(values.len(), |row| given.value(row) != back.value(row));
    if changed.count_set_bits() == 0 {
        return Ok(cast);
    }
    Ok(arrow_select::nullif::nullif(&cast, &BooleanArray::new(changed, None))?)
}

/// Clears `kept` where the value is another.
fn retain_equal(kept: &mut [bool], values: &ArrayRef, wanted: &Scalar) {
    match (values.data_type(), wanted) {
        (DataType::Boolean, Scalar::Boolean(wanted)) => {
            let values = values.as_boolean();
            retain(kept, values, |row| values.value(row) == *wanted);
        }
        (DataType::Int32, Scalar::Int32(wanted)) => {
            retain_primitive::<Int32Type>(kept, values, *wanted);
        }
        (DataType::Date32, Scalar::Int32(wanted)) => {
            retain_primitive::<Date32Type>(kept, values, *wanted);
        }
        (DataType::Int64, Scalar::Int64(wanted)) => {
            retain_primitive::<Int64Type>(kept, values, *wanted);
        }
        (DataType::Timestamp(_, _), Scalar::Int64(wanted)) => {
            retain_primitive::<TimestampMillisecondType>(kept, values, *wanted);
        }
        (DataType::Float32, Scalar::Float32(wanted)) => {
            retain_primitive::<Float32Type>(kept, values, *wanted);
        }
        (DataType::Float64, Scalar::Float64(wanted)) => {
            retain_primitive::<Float64Type>(kept, values, *wanted);
        }
        (DataType::Decimal128(_, _), Scalar::Decimal128(wanted)) => {
            retain_primitive::<Decimal128Type>(kept, values, *wanted);
        }
        (DataType::Utf8, Scalar::Bytes(wanted)) => {
            let values = values.as_string::<i32>();
            retain(kept, values, |row| values.value(row).as_bytes() == wanted);
        }
        (DataType::Binary, Scalar::Bytes(wanted)) => {
            let values = values.as_binary::<i32>();
            retain(kept, values, |row| values.value(row) == wanted);
        }
        _ => kept.fill(false),
    }
}

fn retain_primitive<T: ArrowPrimitiveType>(kept: &mut [bool], values: &ArrayRef, wanted: T::Native)
where
    T::Native: PartialEq,
{
    let values = values.as_primitive::<T>();
    retain(kept, values, |row| values.value(row) == wanted);
}

fn retain(kept: &mut [bool], values: &dyn Array, equal: impl Fn(usize) -> bool) {
    for (row, kept) in kept.iter_mut().enumerate() {
        *kept = *kept && values.is_valid(row) && equal(row);
    }
}

/// A value as text, for messages.
fn show(values: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(values, &options);
    formatter.map_or_else(|_| "?".to_owned(), |formatter| formatter.value(row).to_string())
}

/// The columns of a row that are read, as text, for the dead-letter file.
fn show_row(batch: &RecordBatch, row: usize) -> String {
    let schema: SchemaRef = batch.schema();
    let column = |(field, values): (&Arc<arrow_schema::Field>, &ArrayRef)| {
        format!("{}={}", field.name(), show(values, row))
    };
    let columns: Vec<String> = schema.fields().iter().zip(batch.columns()).map(column).collect();
    columns.join(", ")
}

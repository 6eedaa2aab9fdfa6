//! How values are folded into one.

use crate::{Column, ColumnType, Reducer};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMillisecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int64Array, PrimitiveArray, UInt64Array};
use arrow_buffer::BooleanBuffer;
use std::cmp::Ordering;
use std::sync::Arc;

/// The values of a column after rows were added: `current` has one for each key that is
/// `present`; row `i` of `added` belongs to key `row_keys[i]`.
pub(crate) fn fold(
    reducer: Reducer,
    column: &Column,
    (current, present): (&ArrayRef, &BooleanBuffer),
    (added, row_keys): (&ArrayRef, &[u32]),
) -> Result<ArrayRef, String> {
    if reducer == Reducer::Count {
        return count(current, present, added, row_keys);
    }
    if added.data_type() != &column.column_type.to_arrow() {
        return Err(format!("it is {}, got {}", column.column_type, added.data_type()));
    }
    match reducer {
        Reducer::Sum => sum(column.column_type, (current, present), (added, row_keys)),
        _ => choose(reducer, (current, present), (added, row_keys)),
    }
}

/// The values of the keys so far; nothing for one without a row or with a null.
fn start<T: ArrowPrimitiveType>(
    current: &PrimitiveArray<T>,
    present: &BooleanBuffer,
) -> Vec<Option<T::Native>> {
    current.iter().zip(present).map(|(value, present)| value.filter(|_| present)).collect()
}

fn count(
    current: &ArrayRef,
    present: &BooleanBuffer,
    added: &ArrayRef,
    row_keys: &[u32],
) -> Result<ArrayRef, String> {
    let current = current.as_primitive_opt::<Int64Type>().ok_or("a count needs an int64 column")?;
    let mut counts: Vec<i64> =
        start(current, present).into_iter().map(Option::unwrap_or_default).collect();
    for (row, key) in row_keys.iter().enumerate() {
        if added.is_valid(row)
            && let Some(count) = counts.get_mut(*key as usize)
        {
            *count = count.checked_add(1).ok_or("the count is too large")?;
        }
    }
    Ok(Arc::new(Int64Array::from(counts)))
}

fn sum(
    column_type: ColumnType,
    (current, present): (&ArrayRef, &BooleanBuffer),
    (added, row_keys): (&ArrayRef, &[u32]),
) -> Result<ArrayRef, String> {
    macro_rules! sum {
        ($type:ty, $add:expr) => {{
            let mut sums = start(current.as_primitive::<$type>(), present);
            for (value, key) in added.as_primitive::<$type>().iter().zip(row_keys) {
                if let (Some(value), Some(sum)) = (value, sums.get_mut(*key as usize)) {
                    *sum = match *sum {
                        Some(sum) => Some($add(sum, value).ok_or("the sum is too large")?),
                        None => Some(value),
                    };
                }
            }
            let sums: PrimitiveArray<$type> = sums.into_iter().collect();
            Arc::new(sums.with_data_type(column_type.to_arrow()))
        }};
    }
    Ok(match column_type {
        ColumnType::Int32 => sum!(Int32Type, i32::checked_add),
        ColumnType::Int64 => sum!(Int64Type, i64::checked_add),
        ColumnType::Float32 => sum!(Float32Type, |a: f32, b: f32| Some(a + b)),
        ColumnType::Float64 => sum!(Float64Type, |a: f64, b: f64| Some(a + b)),
        ColumnType::Decimal128 { .. } => sum!(Decimal128Type, i128::checked_add),
        other => return Err(format!("there is no sum of {other} values")),
    })
}

/// Min, max, first and last: each key ends up with one of the values there are.
fn choose(
    reducer: Reducer,
    (current, present): (&ArrayRef, &BooleanBuffer),
    (added, row_keys): (&ArrayRef, &[u32]),
) -> Result<ArrayRef, String> {
    let both = arrow_select::concat::concat(&[current.as_ref(), added.as_ref()])
        .map_err(|error| error.to_string())?;
    let compare = comparison(&both)?;
    let mut chosen: Vec<Option<u64>> = (0_u64..)
        .zip(present)
        .enumerate()
        .map(|(at, (index, present))| (present && current.is_valid(at)).then_some(index))
        .collect();
    let first_added = chosen.len();
    for (row, key) in row_keys.iter().enumerate() {
        let candidate = first_added + row;
        let Some(chosen) = chosen.get_mut(*key as usize) else { continue };
        if both.is_null(candidate) {
            continue;
        }
        let replaces = match (*chosen, reducer) {
            (None, _) | (_, Reducer::Last) => true,
            (Some(old), Reducer::Min) => compare(candidate, narrow(old)) == Ordering::Less,
            (Some(old), Reducer::Max) => compare(candidate, narrow(old)) == Ordering::Greater,
            (Some(_), _) => false,
        };
        if replaces {
            *chosen = Some(candidate as u64);
        }
    }
    let chosen = UInt64Array::from(chosen);
    arrow_select::take::take(&both, &chosen, None).map_err(|error| error.to_string())
}

/// Indices of arrays in memory fit.
fn narrow(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The order of two values of an array; floats by IEEE 754's total order.
fn comparison(array: &ArrayRef) -> Result<Box<dyn Fn(usize, usize) -> Ordering + '_>, String> {
    macro_rules! primitive {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |a, b| values.value(a).cmp(&values.value(b)))
        }};
    }
    macro_rules! float {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            Box::new(move |a, b| values.value(a).total_cmp(&values.value(b)))
        }};
    }
    Ok(match ColumnType::from_arrow(array.data_type()) {
        Some(ColumnType::Boolean) => {
            let values = array.as_boolean();
            Box::new(move |a, b| values.value(a).cmp(&values.value(b)))
        }
        Some(ColumnType::Int32) => primitive!(Int32Type),
        Some(ColumnType::Int64) => primitive!(Int64Type),
        Some(ColumnType::Date) => primitive!(Date32Type),
        Some(ColumnType::TimestampMillis) => primitive!(TimestampMillisecondType),
        Some(ColumnType::Decimal128 { .. }) => primitive!(Decimal128Type),
        Some(ColumnType::Float32) => float!(Float32Type),
        Some(ColumnType::Float64) => float!(Float64Type),
        Some(ColumnType::Utf8) => {
            let values = array.as_string::<i32>();
            Box::new(move |a, b| values.value(a).cmp(values.value(b)))
        }
        Some(ColumnType::Binary) => {
            let values = array.as_binary::<i32>();
            Box::new(move |a, b| values.value(a).cmp(values.value(b)))
        }
        None => return Err(format!("{} has no order", array.data_type())),
    })
}

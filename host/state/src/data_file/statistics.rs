//! Minimum and maximum of key columns, as Paimon keeps them beside a data file.

use crate::Column;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMillisecondType,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType};
use paimon::spec::{BinaryRow, DataType, Datum};

/// The range of one key column over all rows seen.
#[derive(Debug)]
pub(super) struct ColumnRange {
    range: Range,
}

#[derive(Debug)]
enum Range {
    Boolean(Option<(bool, bool)>),
    Int(Option<(i32, i32)>),
    Long(Option<(i64, i64)>),
    Decimal {
        range: Option<(i128, i128)>,
        precision: u8,
        scale: u8,
    },
    Date(Option<(i32, i32)>),
    Timestamp(Option<(i64, i64)>),
    Text(Option<(String, String)>),
    /// Stock Java readers compare bytes as signed numbers and would lose rows: no range.
    None,
}

impl ColumnRange {
    pub(super) fn new(column: &Column) -> Self {
        use crate::ColumnType as T;
        let range = match column.column_type {
            T::Boolean => Range::Boolean(None),
            T::Int32 => Range::Int(None),
            T::Int64 => Range::Long(None),
            T::Decimal128 { precision, scale } => Range::Decimal { range: None, precision, scale },
            T::Date => Range::Date(None),
            T::TimestampMillis => Range::Timestamp(None),
            T::Utf8 => Range::Text(None),
            T::Binary | T::Float32 | T::Float64 => Range::None,
        };
        Self { range }
    }

    pub(super) fn update(&mut self, array: &ArrayRef) {
        match &mut self.range {
            Range::Boolean(range) => widen(range, array.as_boolean().iter().flatten()),
            Range::Int(range) => widen_primitive::<Int32Type>(range, array),
            Range::Long(range) => widen_primitive::<Int64Type>(range, array),
            Range::Decimal { range, .. } => widen_primitive::<Decimal128Type>(range, array),
            Range::Date(range) => widen_primitive::<Date32Type>(range, array),
            Range::Timestamp(range) => widen_primitive::<TimestampMillisecondType>(range, array),
            Range::Text(range) => {
                let texts = array.as_string::<i32>();
                let (least, greatest) =
                    (texts.iter().flatten().min(), texts.iter().flatten().max());
                let both = [least, greatest].into_iter().flatten().map(str::to_owned);
                widen(range, both);
            }
            Range::None => {}
        }
    }

    /// Minimum and maximum, or `None` when there is no range to tell.
    pub(super) fn bounds(&self) -> (Option<Datum>, Option<Datum>) {
        fn both<T: Clone>(
            range: &Option<(T, T)>,
            datum: impl Fn(T) -> Datum,
        ) -> (Option<Datum>, Option<Datum>) {
            match range {
                Some((least, greatest)) => {
                    (Some(datum(least.clone())), Some(datum(greatest.clone())))
                }
                None => (None, None),
            }
        }
        match &self.range {
            Range::Boolean(range) => both(range, Datum::Bool),
            Range::Int(range) => both(range, Datum::Int),
            Range::Long(range) => both(range, Datum::Long),
            Range::Decimal { range, precision, scale } => both(range, |unscaled| Datum::Decimal {
                unscaled,
                precision: u32::from(*precision),
                scale: u32::from(*scale),
            }),
            Range::Date(range) => both(range, Datum::Date),
            Range::Timestamp(range) => both(range, |millis| Datum::Timestamp { millis, nanos: 0 }),
            Range::Text(range) => both(range, Datum::String),
            Range::None => (None, None),
        }
    }
}

fn widen<T: PartialOrd + Clone>(range: &mut Option<(T, T)>, values: impl Iterator<Item = T>) {
    for value in values {
        match range {
            None => *range = Some((value.clone(), value)),
            Some((least, _)) if value < *least => *least = value,
            Some((_, greatest)) if value > *greatest => *greatest = value,
            Some(_) => {}
        }
    }
}

fn widen_primitive<T: ArrowPrimitiveType>(
    range: &mut Option<(T::Native, T::Native)>,
    array: &ArrayRef,
) where
    T::Native: PartialOrd,
{
    widen(range, array.as_primitive::<T>().values().iter().copied());
}

/// A row in Paimon's binary form.
pub(super) fn binary_row(values: &[Option<Datum>], types: &[DataType]) -> Vec<u8> {
    let pairs: Vec<_> = values.iter().map(Option::as_ref).zip(types).collect();
    BinaryRow::from_datums(&pairs).to_serialized_bytes()
}

/// The value of one row of a key column.
pub(super) fn datum(column: &Column, array: &ArrayRef, row: usize) -> Option<Datum> {
    use crate::ColumnType as T;
    Some(match column.column_type {
        T::Boolean => Datum::Bool(array.as_boolean().value(row)),
        T::Int32 => Datum::Int(array.as_primitive::<Int32Type>().value(row)),
        T::Int64 => Datum::Long(array.as_primitive::<Int64Type>().value(row)),
        T::Decimal128 { precision, scale } => Datum::Decimal {
            unscaled: array.as_primitive::<Decimal128Type>().value(row),
            precision: u32::from(precision),
            scale: u32::from(scale),
        },
        T::Date => Datum::Date(array.as_primitive::<Date32Type>().value(row)),
        T::TimestampMillis => Datum::Timestamp {
            millis: array.as_primitive::<TimestampMillisecondType>().value(row),
            nanos: 0,
        },
        T::Utf8 => Datum::String(array.as_string::<i32>().value(row).to_owned()),
        T::Binary => Datum::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        T::Float32 | T::Float64 => return None,
    })
}

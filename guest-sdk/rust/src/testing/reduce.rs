//! How the host of a test folds rows.

use super::table::Cell;
use crate::columns::ValueType;
use crate::reduce::Reducer;
use crate::{Error, Result, wit};

/// What a reducing state holds for a field after a value was added.
pub(super) fn fold(
    reducer: Reducer,
    field: &wit::Field,
    current: Option<&Cell>,
    added: &Cell,
) -> Result<Cell> {
    let old = current.filter(|cell| **cell != Cell::Null);
    if reducer == Reducer::Count {
        let one = i128::from(*added != Cell::Null);
        let Some(Cell::Integer(count)) = old else { return Ok(Cell::Integer(one)) };
        return in_range(field, count + one);
    }
    let (old, added) = match (old, added) {
        (Some(old), Cell::Null) => return Ok(old.clone()),
        (None, added) => return Ok(added.clone()),
        (Some(old), added) => (old, added),
    };
    Ok(match reducer {
        Reducer::Sum => return sum(field, old, added),
        Reducer::Min => old.min(added).clone(),
        Reducer::Max => old.max(added).clone(),
        Reducer::First => old.clone(),
        Reducer::Last | Reducer::Count => added.clone(),
    })
}

fn sum(field: &wit::Field, old: &Cell, added: &Cell) -> Result<Cell> {
    match (old, added) {
        (Cell::Integer(a), Cell::Integer(b)) => in_range(field, a + b),
        (Cell::Float(a), Cell::Float(b)) if field.type_ == ValueType::Float32 => {
            Ok(Cell::float32(Cell::to_float32(*a) + Cell::to_float32(*b)))
        }
        (Cell::Float(a), Cell::Float(b)) => {
            Ok(Cell::float64(Cell::to_float64(*a) + Cell::to_float64(*b)))
        }
        _ => Err(Error::invalid_argument(format!("column `{}` has no sum", field.name))),
    }
}

fn in_range(field: &wit::Field, value: i128) -> Result<Cell> {
    let fits = match field.type_ {
        ValueType::Int32 => i32::try_from(value).is_ok(),
        ValueType::Decimal128(decimal) => {
            value.unsigned_abs() < 10_u128.pow(decimal.precision.into())
        }
        _ => i64::try_from(value).is_ok(),
    };
    if fits {
        return Ok(Cell::Integer(value));
    }
    Err(Error::invalid_argument(format!("column `{}`: the sum is too large", field.name)))
}

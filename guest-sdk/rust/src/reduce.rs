//! How rows are folded into one, by the host and in the SDK alike.

use std::cmp::Ordering;

use crate::{Date, Decimal, Error, Primitive, Result, Timestamp};

#[doc(inline)]
pub use crate::bindings::exports::howdah::operator::operator::Reducer;

/// A row of which each field says how it is folded: `#[derive(Reduce)]`, with one of
/// `#[reduce(sum)]`, `min`, `max`, `count`, `first` and `last` on each field.
///
/// An `Option` without a value is passed over. A sum or count that does not fit its column
/// is an error. Floats are compared by IEEE 754's total order, and their sums depend on the order
/// of what is added. A `count` is an `i64`; in a row that is added, it should be 1.
///
/// ```
/// use howdah_sdk::prelude::*;
///
/// #[derive(Row, Reduce, Clone, Debug, PartialEq)]
/// struct Prices {
///     #[reduce(count)]
///     bids: i64,
///     #[reduce(max)]
///     highest: i64,
/// }
///
/// # fn main() -> Result<()> {
/// let mut prices = Prices { bids: 1, highest: 30 };
/// prices.fold(&Prices { bids: 1, highest: 20 })?;
/// assert_eq!(prices, Prices { bids: 2, highest: 30 });
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how its fields are folded",
    note = "derive it: #[derive(Row, Reduce)], with #[reduce(sum)] or its like on each field"
)]
pub trait Reduce: Sized {
    /// What the host does with each field.
    const REDUCERS: &'static [Reducer];

    /// What is stored when this is the first row that is added.
    #[must_use]
    fn first(&self) -> Self;

    /// Folds a row in. A count grows by one, whatever its value in `added`.
    ///
    /// # Errors
    /// A sum or a count does not fit its column; the message names the field.
    fn fold(&mut self, added: &Self) -> Result<()>;

    /// Folds in what other rows were folded into. Counts are added.
    ///
    /// # Errors
    /// The same as for [`fold`](Self::fold).
    fn merge(&mut self, other: &Self) -> Result<()>;
}

/// A type of a field with `#[reduce(sum)]`: a number, or an `Option` of one.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` cannot be added up",
    note = "a sum is an i32, i64, f32, f64, Decimal<P, S>, or an Option of one of these"
)]
pub trait Sum: Sized {
    /// The sum of both; `None` if it does not fit.
    fn plus(&self, other: &Self) -> Option<Self>;
}

/// A type of a field with `#[reduce(min)]` or `#[reduce(max)]`: any column type, or an `Option`
/// of one.
pub trait Compare: Sized {
    /// Whether `other` replaces this as what is smallest (`Less`) or largest (`Greater`).
    fn gives_way(&self, other: &Self, to: Ordering) -> bool;
}

/// A type of a field with `#[reduce(count)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the type of a count",
    note = "a count is an i64 or an Option<i64>"
)]
pub trait Count: Sized {
    /// How many values this is, if it is one that is added: one or none.
    fn one(&self) -> Self;
    /// The sum of both; `None` if it does not fit.
    fn counted(&self, other: &Self) -> Option<Self>;
}

/// A type of a field with `#[reduce(first)]` or `#[reduce(last)]`: any column type, or an
/// `Option` of one.
pub trait Keep: Sized {
    /// Whether there is a value.
    fn is_value(&self) -> bool;
}

macro_rules! ordered {
    ($($type:ty, |$a:ident, $b:ident| $compare:expr;)*) => {$(
        impl Compare for $type {
            #[inline]
            fn gives_way(&self, other: &Self, to: Ordering) -> bool {
                let ($a, $b) = (other, self);
                $compare == to
            }
        }
    )*};
}

ordered! {
    bool, |a, b| a.cmp(b);
    i32, |a, b| a.cmp(b);
    i64, |a, b| a.cmp(b);
    f32, |a, b| a.total_cmp(b);
    f64, |a, b| a.total_cmp(b);
    Date, |a, b| a.cmp(b);
    Timestamp, |a, b| a.cmp(b);
    String, |a, b| a.cmp(b);
    Vec<u8>, |a, b| a.cmp(b);
}

impl<const P: u8, const S: u8> Compare for Decimal<P, S> {
    fn gives_way(&self, other: &Self, to: Ordering) -> bool {
        other.cmp(self) == to
    }
}

impl<T: Compare> Compare for Option<T> {
    fn gives_way(&self, other: &Self, to: Ordering) -> bool {
        match (self, other) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(value), Some(other)) => value.gives_way(other, to),
        }
    }
}

macro_rules! summed {
    ($($type:ty, |$a:ident, $b:ident| $sum:expr;)*) => {$(
        impl Sum for $type {
            #[inline]
            fn plus(&self, other: &Self) -> Option<Self> {
                let ($a, $b) = (*self, *other);
                $sum
            }
        }
    )*};
}

summed! {
    i32, |a, b| a.checked_add(b);
    i64, |a, b| a.checked_add(b);
    f32, |a, b| Some(a + b);
    f64, |a, b| Some(a + b);
}

impl<const P: u8, const S: u8> Sum for Decimal<P, S> {
    fn plus(&self, other: &Self) -> Option<Self> {
        Self::from_unscaled(self.unscaled().checked_add(other.unscaled())?)
    }
}

impl<T: Sum + Clone> Sum for Option<T> {
    fn plus(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (Some(a), Some(b)) => Some(a.plus(b)?),
            (Some(one), None) | (None, Some(one)) => Some(one.clone()),
            (None, None) => None,
        })
    }
}

impl Count for i64 {
    fn one(&self) -> Self {
        1
    }

    fn counted(&self, other: &Self) -> Option<Self> {
        self.checked_add(*other)
    }
}

impl Count for Option<i64> {
    fn one(&self) -> Self {
        Some(i64::from(self.is_some()))
    }

    fn counted(&self, other: &Self) -> Option<Self> {
        Some(Some(self.unwrap_or(0).checked_add(other.unwrap_or(0))?))
    }
}

impl<T: Primitive> Keep for T {
    fn is_value(&self) -> bool {
        true
    }
}

impl<T: Primitive> Keep for Option<T> {
    fn is_value(&self) -> bool {
        self.is_some()
    }
}

/// What `#[derive(Reduce)]` calls for each field. No part of the API.
#[doc(hidden)]
pub mod fields {
    use super::{Compare, Count, Error, Keep, Ordering, Result, Sum};

    #[cold]
    fn too_large(what: &str, field: &str) -> Error {
        Error::new(format!("the {what} in field `{field}` does not fit its column"))
    }

    pub fn sum<T: Sum>(value: &mut T, added: &T, field: &str) -> Result<()> {
        *value = value.plus(added).ok_or_else(|| too_large("sum", field))?;
        Ok(())
    }

    pub fn count<T: Count>(value: &mut T, added: &T, field: &str) -> Result<()> {
        *value = value.counted(added).ok_or_else(|| too_large("count", field))?;
        Ok(())
    }

    pub fn min<T: Compare + Clone>(value: &mut T, added: &T, _: &str) -> Result<()> {
        if value.gives_way(added, Ordering::Less) {
            value.clone_from(added);
        }
        Ok(())
    }

    pub fn max<T: Compare + Clone>(value: &mut T, added: &T, _: &str) -> Result<()> {
        if value.gives_way(added, Ordering::Greater) {
            value.clone_from(added);
        }
        Ok(())
    }

    pub fn first<T: Keep + Clone>(value: &mut T, added: &T, _: &str) -> Result<()> {
        if !value.is_value() {
            value.clone_from(added);
        }
        Ok(())
    }

    pub fn last<T: Keep + Clone>(value: &mut T, added: &T, _: &str) -> Result<()> {
        if added.is_value() {
            value.clone_from(added);
        }
        Ok(())
    }
}

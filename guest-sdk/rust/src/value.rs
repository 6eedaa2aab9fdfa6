//! The Rust types that a column may have.

use std::fmt;

use crate::columns::{Column, ColumnBuilder, DecimalType, ValueType};
use crate::{Error, Result};

/// A type of a column that always has a value. [`Value`] follows from it, for the type and
/// for its `Option`.
///
/// Implement it for a type of your own that is stored as one of the column types, for
/// example an enum that is stored as an `int32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a column type",
    label = "not a column type",
    note = "columns are bool, i32, i64, f32, f64, Decimal<P, S>, Date, Timestamp, String, \
            Vec<u8>, or an Option of one of these"
)]
pub trait Primitive: Sized {
    /// The type of the column.
    const TYPE: ValueType;

    /// The value of a row. Fails if the column is of another type or the value is not valid.
    fn read(column: &Column, row: usize) -> Result<Self>;

    /// Adds the value to a column.
    fn write(&self, column: &mut ColumnBuilder);

    /// Whether the value is the one of that row, which is not null.
    fn matches(&self, column: &Column, row: usize) -> bool;
}

/// A type of a field of a [`Row`](crate::Row): a [`Primitive`], or an `Option` of one for a
/// column whose rows may lack a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a column type",
    label = "not a column type",
    note = "columns are bool, i32, i64, f32, f64, Decimal<P, S>, Date, Timestamp, String, \
            Vec<u8>, or an Option of one of these"
)]
pub trait Value: Sized {
    /// The type of the column.
    const TYPE: ValueType;
    /// Whether a row may lack a value.
    const NULLABLE: bool;

    /// The value of a row.
    fn read(column: &Column, row: usize) -> Result<Self>;

    /// Adds the value to a column.
    fn write(&self, column: &mut ColumnBuilder);

    /// Whether the value is the one of that row.
    fn matches(&self, column: &Column, row: usize) -> bool;
}

/// A type of a field of a [`Key`](crate::Key). Floats are not: `NaN` and `-0.0` have no one
/// meaning as a key. Neither is an `Option`: a key has all its parts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    label = "not a key type",
    note = "key fields are bool, i32, i64, Decimal<P, S>, Date, Timestamp, String or Vec<u8>"
)]
pub trait KeyValue: Value {}

impl<T: Primitive> Value for T {
    const TYPE: ValueType = <T as Primitive>::TYPE;
    const NULLABLE: bool = false;

    #[inline]
    fn read(column: &Column, row: usize) -> Result<Self> {
        <T as Primitive>::read(column, row)
    }

    #[inline]
    fn write(&self, column: &mut ColumnBuilder) {
        Primitive::write(self, column);
    }

    #[inline]
    fn matches(&self, column: &Column, row: usize) -> bool {
        Primitive::matches(self, column, row)
    }
}

impl<T: Primitive> Value for Option<T> {
    const TYPE: ValueType = <T as Primitive>::TYPE;
    const NULLABLE: bool = true;

    #[inline]
    fn read(column: &Column, row: usize) -> Result<Self> {
        if column.is_null(row) { Ok(None) } else { <T as Primitive>::read(column, row).map(Some) }
    }

    #[inline]
    fn write(&self, column: &mut ColumnBuilder) {
        match self {
            Some(value) => Primitive::write(value, column),
            None => column.push_null(),
        }
    }

    #[inline]
    fn matches(&self, column: &Column, row: usize) -> bool {
        match self {
            Some(value) => !column.is_null(row) && Primitive::matches(value, column, row),
            None => column.is_null(row),
        }
    }
}

/// A type whose values are `$from_le(<bytes>)`.
macro_rules! fixed_width {
    ($($rust:ty, $column:expr, |$bytes:ident| $read:expr, |$value:ident| $write:expr;)*) => {$(
        impl Primitive for $rust {
            const TYPE: ValueType = $column;

            #[inline]
            fn read(column: &Column, row: usize) -> Result<Self> {
                let $bytes = column.fixed(row)?;
                Ok($read)
            }

            #[inline]
            fn write(&self, column: &mut ColumnBuilder) {
                let $value = self;
                column.push_fixed($write);
            }

            #[inline]
            fn matches(&self, column: &Column, row: usize) -> bool {
                let $value = self;
                column.fixed(row).is_ok_and(|bytes| bytes == $write)
            }
        }
    )*};
}

fixed_width! {
    i32, ValueType::Int32, |bytes| Self::from_le_bytes(bytes), |value| value.to_le_bytes();
    i64, ValueType::Int64, |bytes| Self::from_le_bytes(bytes), |value| value.to_le_bytes();
    f32, ValueType::Float32, |bytes| Self::from_le_bytes(bytes), |value| value.to_le_bytes();
    f64, ValueType::Float64, |bytes| Self::from_le_bytes(bytes), |value| value.to_le_bytes();
    Date, ValueType::Date, |bytes| Self(i32::from_le_bytes(bytes)), |value| value.0.to_le_bytes();
    Timestamp, ValueType::TimestampMillis, |bytes| Self(i64::from_le_bytes(bytes)),
        |value| value.0.to_le_bytes();
}

impl KeyValue for bool {}
impl KeyValue for i32 {}
impl KeyValue for i64 {}
impl KeyValue for Date {}
impl KeyValue for Timestamp {}
impl KeyValue for String {}
impl KeyValue for Vec<u8> {}
impl<const P: u8, const S: u8> KeyValue for Decimal<P, S> {}

impl Primitive for bool {
    const TYPE: ValueType = ValueType::Boolean;

    #[inline]
    fn read(column: &Column, row: usize) -> Result<Self> {
        column.boolean(row)
    }

    #[inline]
    fn write(&self, column: &mut ColumnBuilder) {
        column.push_boolean(*self);
    }

    #[inline]
    fn matches(&self, column: &Column, row: usize) -> bool {
        column.boolean(row).is_ok_and(|value| value == *self)
    }
}

impl Primitive for String {
    const TYPE: ValueType = ValueType::Utf8;

    fn read(column: &Column, row: usize) -> Result<Self> {
        match std::str::from_utf8(column.bytes(row)?) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => {
                Err(Error::invalid_argument(format!("the text of row {row} is no UTF-8: {error}")))
            }
        }
    }

    fn write(&self, column: &mut ColumnBuilder) {
        column.push_bytes(self.as_bytes());
    }

    fn matches(&self, column: &Column, row: usize) -> bool {
        column.bytes(row).is_ok_and(|bytes| bytes == self.as_bytes())
    }
}

impl Primitive for Vec<u8> {
    const TYPE: ValueType = ValueType::Binary;

    fn read(column: &Column, row: usize) -> Result<Self> {
        column.bytes(row).map(<[u8]>::to_vec)
    }

    fn write(&self, column: &mut ColumnBuilder) {
        column.push_bytes(self);
    }

    fn matches(&self, column: &Column, row: usize) -> bool {
        column.bytes(row).is_ok_and(|bytes| bytes == self.as_slice())
    }
}

/// A day, without a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date(i32);

impl Date {
    /// The day that is so many days after 1970-01-01; negative before it.
    pub const fn from_days(days: i32) -> Self {
        Self(days)
    }

    /// Days since 1970-01-01.
    pub const fn days(self) -> i32 {
        self.0
    }
}

/// A moment, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Earlier than any row's event time: the watermark before the first row.
    pub const MIN: Self = Self(i64::MIN);
    /// Later than any row's event time: the watermark at the end of all inputs.
    pub const MAX: Self = Self(i64::MAX);

    /// The moment that is so many milliseconds after 1970-01-01 00:00 UTC; negative before it.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 00:00 UTC.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// The moment that is so many milliseconds later; negative for an earlier one. It stays
    /// between [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// A decimal number with `P` digits, `S` of them after the point.
///
/// `P` is 1 to 38 and `S` at most `P`; anything else does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Decimal<const P: u8, const S: u8>(i128);

impl<const P: u8, const S: u8> Decimal<P, S> {
    const DIGITS: DecimalType = {
        assert!(P >= 1 && P <= 38, "a decimal has 1 to 38 digits");
        assert!(S <= P, "a decimal has at most all of its digits after the point");
        DecimalType { precision: P, scale: S }
    };
    /// The first number that has too many digits.
    const LIMIT: i128 = 10_i128.pow(Self::DIGITS.precision as u32);

    /// The number `unscaled / 10^S`; `None` if it has more than `P` digits.
    pub const fn from_unscaled(unscaled: i128) -> Option<Self> {
        if -Self::LIMIT < unscaled && unscaled < Self::LIMIT { Some(Self(unscaled)) } else { None }
    }

    /// The number times `10^S`.
    pub const fn unscaled(self) -> i128 {
        self.0
    }
}

impl<const P: u8, const S: u8> fmt::Display for Decimal<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10_u128.pow(u32::from(Self::DIGITS.scale));
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", magnitude / scale)?;
        if S == 0 {
            return Ok(());
        }
        write!(f, ".{:0width$}", magnitude % scale, width = usize::from(S))
    }
}

impl<const P: u8, const S: u8> Primitive for Decimal<P, S> {
    const TYPE: ValueType = ValueType::Decimal128(Self::DIGITS);

    fn read(column: &Column, row: usize) -> Result<Self> {
        let unscaled = i128::from_le_bytes(column.fixed(row)?);
        Self::from_unscaled(unscaled).ok_or_else(|| {
            Error::invalid_argument(format!("{unscaled} has more than the {P} digits of a decimal"))
        })
    }

    #[inline]
    fn write(&self, column: &mut ColumnBuilder) {
        column.push_fixed(self.0.to_le_bytes());
    }

    #[inline]
    fn matches(&self, column: &Column, row: usize) -> bool {
        column.fixed(row).is_ok_and(|bytes| bytes == self.0.to_le_bytes())
    }
}

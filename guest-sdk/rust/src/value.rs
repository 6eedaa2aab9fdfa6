//! The Rust types that a column may have.

use std::fmt;

use crate::columns::{self, Column, ColumnBuilder, DecimalType, ValueType};
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
        columns::text(column, row).map(str::to_owned)
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

    /// Year, month and day of the month, from 1 on, in the Gregorian calendar.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a year has as few digits as an i32 of days"
    )]
    pub const fn year_month_day(self) -> (i32, i32, i32) {
        // Years begin in March here, so that the leap day is the last day of one.
        let days = self.0 as i64 + 719_468; // since 0000-03-01
        let era = days.div_euclid(146_097); // 400 years
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
        (year as i32, month as i32, day as i32)
    }
}

/// As `2023-11-14`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.year_month_day();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// A time of a day, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TimeOfDay(i64);

impl TimeOfDay {
    /// From 0 to 23.
    pub const fn hour(self) -> i64 {
        self.0 / 3_600_000
    }

    /// Of the hour, from 0 to 59.
    pub const fn minute(self) -> i64 {
        self.0 / 60_000 % 60
    }

    /// Of the minute, from 0 to 59.
    pub const fn second(self) -> i64 {
        self.0 / 1_000 % 60
    }

    /// Since midnight.
    pub const fn millis(self) -> i64 {
        self.0
    }
}

/// As `22:13:20.000`; a precision cuts it, as with any text: `{:.5}` is `22:13`.
impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second) = (self.hour(), self.minute(), self.second());
        f.pad(&format!("{hour:02}:{minute:02}:{second:02}.{:03}", self.0 % 1_000))
    }
}

const MILLIS_PER_DAY: i64 = 86_400_000;

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

    /// The day that it is in, in UTC.
    #[expect(clippy::cast_possible_truncation, reason = "it was brought into the range before")]
    pub const fn date(self) -> Date {
        let days = self.0.div_euclid(MILLIS_PER_DAY);
        Date(if days < i32::MIN as i64 {
            i32::MIN
        } else if days > i32::MAX as i64 {
            i32::MAX
        } else {
            days as i32
        })
    }

    /// The time of the day that it is at, in UTC.
    pub const fn time_of_day(self) -> TimeOfDay {
        TimeOfDay(self.0.rem_euclid(MILLIS_PER_DAY))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_day_is_written_as_year_month_and_day() {
        let days = [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_675, "2023-11-14"),
            (-25_509, "1900-02-28"),
            (-25_508, "1900-03-01"),
            (-719_528, "0000-01-01"),
            (2_932_896, "9999-12-31"),
        ];
        for (days, text) in days {
            assert_eq!(Date::from_days(days).to_string(), text);
        }
    }

    #[test]
    fn a_moment_has_a_day_and_a_time() {
        let moment = Timestamp::from_millis(1_700_000_000_007);
        assert_eq!(moment.date().to_string(), "2023-11-14");
        assert_eq!(moment.time_of_day().to_string(), "22:13:20.007");
        assert_eq!(format!("{:.5}", moment.time_of_day()), "22:13");
        let before = Timestamp::from_millis(-1);
        assert_eq!(before.date().to_string(), "1969-12-31");
        assert_eq!(before.time_of_day().to_string(), "23:59:59.999");
        assert_eq!(Timestamp::MAX.date(), Date::from_days(i32::MAX));
    }

    proptest! {
        /// The days of a month follow each other, and so do months and years.
        #[test]
        fn the_next_day_is_one_later(days in -3_000_000..3_000_000) {
            let (year, month, day) = Date::from_days(days).year_month_day();
            let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + i32::from(is_leap_year),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let next = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
            prop_assert_eq!(Date::from_days(days + 1).year_month_day(), next);
        }
    }
}

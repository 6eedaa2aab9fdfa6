//! Column types: the values that keys and states may have.

use arrow_schema::{DataType, Field, TimeUnit};
use std::fmt;
use std::str::FromStr;

/// The type of a column of a key, a state or a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// 32-bit IEEE 754 float. Not for keys.
    Float32,
    /// 64-bit IEEE 754 float. Not for keys.
    Float64,
    /// Decimal with at most 38 digits.
    Decimal128 {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// Days since the Unix epoch.
    Date,
    /// Milliseconds since the Unix epoch, without a time zone.
    TimestampMillis,
    /// UTF-8 text.
    Utf8,
    /// Bytes.
    Binary,
}

impl ColumnType {
    /// The Arrow type of a column of this type.
    pub fn to_arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal128 { precision, scale } => {
                DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX))
            }
            Self::Date => DataType::Date32,
            Self::TimestampMillis => DataType::Timestamp(TimeUnit::Millisecond, None),
            Self::Utf8 => DataType::Utf8,
            Self::Binary => DataType::Binary,
        }
    }

    /// The column type with this Arrow type, if there is one.
    pub fn from_arrow(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal128(precision, scale) => {
                Self::Decimal128 { precision: *precision, scale: u8::try_from(*scale).ok()? }
            }
            DataType::Date32 => Self::Date,
            DataType::Timestamp(TimeUnit::Millisecond, None) => Self::TimestampMillis,
            DataType::Utf8 => Self::Utf8,
            DataType::Binary => Self::Binary,
            _ => return None,
        })
    }

    /// Whether a key column may have this type. Floats may not: `NaN` and `-0.0` have no
    /// one meaning as a key.
    pub fn is_key_type(self) -> bool {
        !matches!(self, Self::Float32 | Self::Float64)
    }

    /// Bytes a value takes in a packed buffer; `None` for booleans (one bit) and for text
    /// and bytes (any length).
    pub fn width_bytes(self) -> Option<usize> {
        match self {
            Self::Int32 | Self::Float32 | Self::Date => Some(4),
            Self::Int64 | Self::Float64 | Self::TimestampMillis => Some(8),
            Self::Decimal128 { .. } => Some(16),
            Self::Boolean | Self::Utf8 | Self::Binary => None,
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Decimal128 { precision, scale } => {
                return write!(f, "decimal128({precision},{scale})");
            }
            Self::Date => "date",
            Self::TimestampMillis => "timestamp-millis",
            Self::Utf8 => "utf8",
            Self::Binary => "binary",
        })
    }
}

/// The text is no column type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no column type; there are boolean, int32, int64, float32, float64, \
     decimal128(precision,scale), date, timestamp-millis, utf8 and binary"
)]
pub struct UnknownColumnType(pub String);

impl FromStr for ColumnType {
    type Err = UnknownColumnType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownColumnType(text.to_owned());
        Ok(match text.trim() {
            "boolean" => Self::Boolean,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float32" => Self::Float32,
            "float64" => Self::Float64,
            "date" => Self::Date,
            "timestamp-millis" => Self::TimestampMillis,
            "utf8" => Self::Utf8,
            "binary" => Self::Binary,
            other => {
                let digits = other
                    .strip_prefix("decimal128(")
                    .and_then(|rest| rest.strip_suffix(')'))
                    .and_then(|rest| rest.split_once(','))
                    .ok_or_else(unknown)?;
                let precision = digits.0.trim().parse().map_err(|_| unknown())?;
                let scale = digits.1.trim().parse().map_err(|_| unknown())?;
                if !(1..=38).contains(&precision) || scale > precision {
                    return Err(unknown());
                }
                Self::Decimal128 { precision, scale }
            }
        })
    }
}

/// A named, typed column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Unique in its schema.
    pub name: String,
    /// What its values are.
    pub column_type: ColumnType,
    /// Whether a row may lack a value.
    pub nullable: bool,
}

impl Column {
    /// A column whose rows all have a value.
    pub fn required(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self { name: name.into(), column_type, nullable: false }
    }

    /// A column whose rows may lack a value.
    pub fn nullable(name: impl Into<String>, column_type: ColumnType) -> Self {
        Self { name: name.into(), column_type, nullable: true }
    }

    /// The Arrow field of this column.
    pub fn to_arrow(&self) -> Field {
        Field::new(&self.name, self.column_type.to_arrow(), self.nullable)
    }
}

//! What the rows of a key are to the operator: one value, a list, a map, a fold, timers.
//!
//! On disk they are all the same: rows sorted by their row key, which is the key of the
//! operator and what tells the rows of one key apart.

use crate::schema::{POSITION_COLUMN, TIME_COLUMN};
use crate::{Column, ColumnType};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The shape of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateKind {
    /// At most one row for each key.
    Value,
    /// Any number of rows for each key, in the order they were appended. The column `position`
    /// keeps the order.
    List,
    /// Rows for each key under map keys with these columns.
    Map {
        /// Columns of the map key; the same rules as for a key.
        map_key: Vec<Column>,
    },
    /// At most one row for each key, folded by the store.
    Reducing {
        /// How each value column is folded.
        reducers: Vec<Reducer>,
    },
    /// Points in time for each key, each at most once. The column `time` comes before the key,
    /// so that those which are due lie together.
    Timers,
}

impl StateKind {
    /// The word for it in a table's options.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::List => "list",
            Self::Map { .. } => "map",
            Self::Reducing { .. } => "reducing",
            Self::Timers => "timers",
        }
    }

    /// The columns of a row key, and which of them are the key.
    pub(crate) fn row_key(&self, key: &[Column]) -> (Vec<Column>, Range<usize>) {
        let mut columns = key.to_vec();
        match self {
            Self::Value | Self::Reducing { .. } => {}
            Self::List => columns.push(Column::required(POSITION_COLUMN, ColumnType::Int64)),
            Self::Map { map_key } => columns.extend(map_key.iter().cloned()),
            Self::Timers => {
                columns.insert(0, Column::required(TIME_COLUMN, ColumnType::TimestampMillis));
                return (columns, 1..1 + key.len());
            }
        }
        (columns, 0..key.len())
    }

    /// Kind, key and value of a table with these columns after `kg`; `None` when they do not
    /// fit the kind.
    pub(crate) fn of_columns(
        name: &str,
        columns: &[Column],
        key_columns: usize,
        map_key_columns: usize,
        reducers: &str,
    ) -> Option<(Self, Vec<Column>, Vec<Column>)> {
        let (before, columns) = match name {
            "timers" => columns.split_at_checked(1)?,
            _ => (&[] as &[Column], columns),
        };
        let (key, rest) = columns.split_at_checked(key_columns)?;
        let (between, value) = match name {
            "list" => rest.split_at_checked(1)?,
            "map" => rest.split_at_checked(map_key_columns)?,
            _ => (&[] as &[Column], rest),
        };
        let kind = match name {
            "" | "value" => Self::Value,
            "list" => Self::List,
            "map" => Self::Map { map_key: between.to_vec() },
            "timers" => Self::Timers,
            "reducing" => {
                let reducers: Result<Vec<_>, _> = reducers.split(',').map(str::parse).collect();
                Self::Reducing { reducers: reducers.ok()? }
            }
            _ => return None,
        };
        let (row_key, _) = kind.row_key(key);
        let stored = before.iter().chain(key).chain(between);
        stored.eq(&row_key).then(|| (kind, key.to_vec(), value.to_vec()))
    }
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Reducing { reducers } => {
                let names: Vec<_> = reducers.iter().map(ToString::to_string).collect();
                write!(f, "({})", names.join(", "))
            }
            _ => Ok(()),
        }
    }
}

/// How the store folds what an operator adds into a value column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reducer {
    /// Adds numbers; fails on overflow.
    Sum,
    /// Keeps the least.
    Min,
    /// Keeps the greatest.
    Max,
    /// Counts values, whatever they are; the column is an int64.
    Count,
    /// Keeps the first.
    First,
    /// Keeps the last.
    Last,
}

impl Reducer {
    /// Whether values of this type can be folded so. What is counted may be of any type; the
    /// count is an int64.
    pub fn can_fold(self, column_type: ColumnType) -> bool {
        use ColumnType as T;
        match self {
            Self::Sum => matches!(
                column_type,
                T::Int32 | T::Int64 | T::Float32 | T::Float64 | T::Decimal128 { .. }
            ),
            Self::Count => column_type == T::Int64,
            Self::Min | Self::Max | Self::First | Self::Last => true,
        }
    }
}

impl fmt::Display for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Count => "count",
            Self::First => "first",
            Self::Last => "last",
        })
    }
}

/// The text is no reducer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no reducer; there are sum, min, max, count, first and last")]
pub struct UnknownReducer(pub String);

impl FromStr for Reducer {
    type Err = UnknownReducer;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.trim() {
            "sum" => Self::Sum,
            "min" => Self::Min,
            "max" => Self::Max,
            "count" => Self::Count,
            "first" => Self::First,
            "last" => Self::Last,
            other => return Err(UnknownReducer(other.to_owned())),
        })
    }
}

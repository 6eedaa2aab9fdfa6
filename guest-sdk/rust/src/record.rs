use std::marker::PhantomData;

use crate::columns::Column;
use crate::{Error, Key, Result, Timestamp};

/// What a row of a changelog means. Rows of a stream that is none are inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum RowKind {
    /// A new row (+I).
    #[default]
    Insert = 0,
    /// What a row was before an update (-U).
    UpdateBefore = 1,
    /// What a row is after an update (+U).
    UpdateAfter = 2,
    /// A row that is gone (-D).
    Delete = 3,
}

impl RowKind {
    pub(crate) fn from_byte(byte: u8) -> Result<Self> {
        Ok(match byte {
            0 => Self::Insert,
            1 => Self::UpdateBefore,
            2 => Self::UpdateAfter,
            3 => Self::Delete,
            _ => return Err(Error::invalid_argument(format!("{byte} is no row kind"))),
        })
    }
}

/// What is known about the row that is being processed, beside its fields: its key, which
/// the state calls want, and its times.
#[derive(Debug)]
pub struct Record<'a, K> {
    pub(crate) keys: &'a [Column],
    pub(crate) key_index: usize,
    pub(crate) kind: RowKind,
    pub(crate) timestamp: Timestamp,
    pub(crate) watermark: Timestamp,
    pub(crate) key: PhantomData<fn() -> K>,
}

impl<K: Key> Record<'_, K> {
    /// The key, read anew each time. The row has the same fields; a state takes the record
    /// itself.
    pub fn key(&self) -> Result<K> {
        K::read(self.keys, self.key_index)
    }

    /// What the row means if the input is a changelog.
    pub fn kind(&self) -> RowKind {
        self.kind
    }

    /// The event time of the row.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// No row with an event time at or before it is expected any more.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }
}

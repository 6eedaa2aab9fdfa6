use std::marker::PhantomData;
use std::ops::Deref;

use crate::columns::{Column, chunk};
use crate::{Error, Key, Result, Timers, Timestamp};

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

    /// `true` for +I and +U: the row is part of the table that the changelog describes. A sum
    /// over a changelog adds these rows and subtracts the others.
    pub fn adds(self) -> bool {
        matches!(self, Self::Insert | Self::UpdateAfter)
    }
}

/// What a call of the host's is about: keys, and the rows or timers that belong to them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// The distinct keys, as columns.
    pub(crate) keys: &'a [Column],
    pub(crate) key_count: u32,
    /// For each row, the index of its key; `None`: row `i` has key `i`.
    pub(crate) row_keys: Option<&'a [u8]>,
    /// For each row, its time.
    pub(crate) times: &'a [u8],
    pub(crate) watermark: Timestamp,
}

impl Call<'_> {
    /// Key and time of a row; `None` past the last one, and for a key that there is not.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> Option<(u32, Timestamp)> {
        let key = match self.row_keys {
            None => u32::try_from(row).ok()?,
            Some(row_keys) => u32::from_le_bytes(chunk(row_keys, row)?),
        };
        let time = Timestamp::from_millis(i64::from_le_bytes(chunk(self.times, row)?));
        (key < self.key_count).then_some((key, time))
    }

    /// Keys and times of all rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, Timestamp)> {
        (0..).map_while(|row| self.row(row))
    }
}

/// The key whose record or timer is being handled: what the calls of a state want. A
/// [`Record`] and a [`Timer`] are one too.
#[derive(Debug)]
pub struct CurrentKey<'a, K> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) index: u32,
    pub(crate) key: PhantomData<fn() -> K>,
}

impl<K> Clone for CurrentKey<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for CurrentKey<'_, K> {}

impl<K: Key> CurrentKey<'_, K> {
    /// The key itself, read anew each time.
    pub fn key(&self) -> Result<K> {
        K::read(self.call.keys, self.index as usize)
    }

    /// No row with an event time at or before it is expected any more, of any input.
    pub fn watermark(&self) -> Timestamp {
        self.call.watermark
    }

    /// The time of the host's clock, read once when the call began.
    pub fn now(&self) -> Timestamp {
        crate::now()
    }
}

/// The distinct keys of a batch, in the order in which they come first.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a, K> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) key: PhantomData<fn() -> K>,
}

impl<'a, K: Key> Keys<'a, K> {
    /// Each of them, as the calls of a state want it.
    pub fn iter(&self) -> impl Iterator<Item = CurrentKey<'a, K>> + use<'a, K> {
        let call = self.call;
        (0..call.key_count).map(move |index| CurrentKey { call, index, key: PhantomData })
    }
}

/// What is known about the row that is being processed, beside its fields: its key, which
/// the state calls want, and its times.
#[derive(Debug)]
pub struct Record<'a, K> {
    pub(crate) current: CurrentKey<'a, K>,
    pub(crate) kind: RowKind,
    pub(crate) timestamp: Timestamp,
}

impl<K> Record<'_, K> {
    /// What the row means if the input is a changelog.
    pub fn kind(&self) -> RowKind {
        self.kind
    }

    /// The event time of the row.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }
}

impl<'a, K> Deref for Record<'a, K> {
    type Target = CurrentKey<'a, K>;

    fn deref(&self) -> &Self::Target {
        &self.current
    }
}

/// A timer that is due: its key, which the state calls want, and its time. It is set no longer.
#[derive(Debug)]
pub struct Timer<'a, K> {
    pub(crate) current: CurrentKey<'a, K>,
    pub(crate) family: u32,
    pub(crate) time: Timestamp,
}

impl<K: Key> Timer<'_, K> {
    /// The time for which it was set; for a timer of event time, at or before the watermark.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Whether it was set with these `timers`.
    pub fn is(&self, timers: &Timers<K>) -> bool {
        self.family == timers.family()
    }
}

impl<'a, K> Deref for Timer<'a, K> {
    type Target = CurrentKey<'a, K>;

    fn deref(&self) -> &Self::Target {
        &self.current
    }
}

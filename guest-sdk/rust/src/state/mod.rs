//! The kinds of keyed state, each over one handle of the host's.
//!
//! All work the same way: within a call, reads load what the call's keys have, and are cached;
//! writes go into the cache, where later records see them; when the call ends, what changed is
//! written, one call to the host for each state and verb.

mod list;
mod map;
mod reducing;
mod timers;
mod value;

pub use list::ListState;
pub use map::MapState;
pub use reducing::ReducingState;
pub use timers::Timers;
pub use value::{StateRows, TakenRows, ValueState};

use crate::columns::{self, Column};
use crate::{Error, Key, Result, Row, row, wit};

/// What takes part in the calls of the host: states, timers and metrics.
pub(crate) trait DuringCall {
    /// A call with so many keys begins.
    fn begin(&self, _keys: u32) {}

    /// The operator is done: write what changed.
    fn commit(&self) -> Result<()>;

    /// The call is over, one way or the other: forget it.
    fn end(&self);
}

/// How a state reaches the host.
struct Link<H> {
    name: String,
    /// `None` while the operator describes itself.
    handle: Option<H>,
    /// How many keys the running call has; `None` between calls and in calls without keys.
    keys: Option<u32>,
}

impl<H> Link<H> {
    fn new(name: &str, handle: Option<H>) -> Self {
        Self { name: name.to_owned(), handle, keys: None }
    }

    /// What the host answers, with the name of the state in its errors.
    fn call<T>(&self, call: impl FnOnce(&H) -> Result<T, wit::Error>) -> Result<T> {
        match &self.handle {
            Some(handle) => call(handle).map_err(|error| self.named(error.into())),
            None => Err(self.named(Error::new("not available before the operator runs"))),
        }
    }

    /// The same with keys of the operator's choice.
    fn call_between<T>(&self, call: impl FnOnce(&H) -> Result<T, wit::Error>) -> Result<T> {
        match self.keys {
            None => self.call(call),
            Some(_) => Err(self.named(Error::new(
                "in `process` and `on_timer`, give the record or the timer instead of keys",
            ))),
        }
    }

    fn named(&self, error: Error) -> Error {
        error.context(format!("`{}`", self.name))
    }

    /// The keys of the running call with these ascending indices, each at most once; all of them
    /// need no list.
    fn selected(&self, indices: &[u32]) -> wit::Keys {
        if self.keys.is_some_and(|keys| keys as usize == indices.len()) {
            wit::Keys::Current
        } else {
            wit::Keys::Selected(u32_buffer(indices))
        }
    }

    /// Keys to read together with this one, `is_wanted` of them: those beside it, so that a call
    /// that reads all keys needs few calls to the host, and one that reads a single key does not
    /// load thousands of others.
    fn beside(&self, key: u32, is_wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let first = key / READ_KEYS * READ_KEYS;
        let end = self.keys.unwrap_or(0).min(first.saturating_add(READ_KEYS));
        (first..end).filter(|key| is_wanted(*key)).collect()
    }
}

/// How many keys' lists or maps are read whole at a time.
const READ_KEYS: u32 = 1024;

/// About how many rows are read at a time.
const READ_ROWS: u32 = 65_536;

/// How many rows of each key to read, when so many keys are read together.
fn rows_of_each(keys: usize) -> u32 {
    READ_ROWS / u32::try_from(keys).unwrap_or(u32::MAX).clamp(1, READ_KEYS)
}

/// A vector with more room than that is let go after the call that needed it.
const KEPT_CAPACITY: usize = 1024;

/// Empties a vector for the next call.
fn recycle<T>(vector: &mut Vec<T>) {
    if vector.capacity() > KEPT_CAPACITY {
        *vector = Vec::new();
    } else {
        vector.clear();
    }
}

fn u32_buffer(values: &[u32]) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(values.len().saturating_mul(4));
    values.iter().for_each(|value| buffer.extend_from_slice(&value.to_le_bytes()));
    buffer
}

/// Keys of the operator's choice.
fn explicit<'a, K: Key + 'a>(keys: impl ExactSizeIterator<Item = &'a K>) -> Result<wit::Keys> {
    let rows = u32::try_from(keys.len()).map_err(|_| Error::new("too many keys for one call"))?;
    Ok(wit::Keys::Explicit(wit::KeyColumns { rows, columns: row::encode(keys) }))
}

/// For rows that each have a key of their own: row `i` belongs to key `i`.
fn each_its_own(rows: usize) -> Vec<u8> {
    (0_u32..).take(rows).flat_map(u32::to_le_bytes).collect()
}

/// Rows that the host gave for a list of keys or entries.
pub(crate) struct Loaded {
    rows: wit::Rows,
}

impl Loaded {
    fn new<V: Row>(rows: wit::Rows, count: usize) -> Result<Self> {
        if rows.present.as_ref().is_some_and(|present| present.len() != count.div_ceil(8)) {
            return Err(Error::invalid_argument("`present` has the wrong length"));
        }
        // Slots of keys without a row hold anything, so nulls are not checked here.
        row::check_lengths::<V>(&rows.columns, count)?;
        Ok(Self { rows })
    }

    /// Rows that are all there, and checked.
    fn all(columns: Vec<Column>) -> Self {
        Self { rows: wit::Rows { present: None, columns } }
    }

    fn columns(&self) -> &[Column] {
        &self.rows.columns
    }

    fn into_columns(self) -> Vec<Column> {
        self.rows.columns
    }

    /// Whether each of so many keys has a row.
    fn has_all(&self, keys: usize) -> bool {
        self.rows.present.as_ref().is_none_or(|present| columns::all_set(present, keys))
    }

    fn has(&self, key: usize) -> bool {
        self.rows.present.as_ref().is_none_or(|present| columns::bit(present, key))
    }

    fn read<V: Row>(&self, key: usize) -> Result<Option<V>> {
        if self.has(key) { V::read(&self.rows.columns, key).map(Some) } else { Ok(None) }
    }

    fn read_all<V: Row>(&self, count: usize) -> Result<Vec<Option<V>>> {
        (0..count).map(|key| self.read(key)).collect()
    }

    fn holds<V: Row>(&self, key: usize, row: &V) -> bool {
        self.has(key) && row.matches(&self.rows.columns, key)
    }
}

/// Checks rows that each belong to one of `keys` keys, in the order of the keys, and gives the
/// index of each row's key.
fn check_grouped<V: Row>(
    rows: u32,
    key_of: &[u8],
    columns: &[Column],
    keys: usize,
) -> Result<Vec<u32>> {
    row::check::<V>(columns, rows as usize)?;
    let (values, rest) = key_of.as_chunks();
    let key_of: Vec<u32> = values.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let fits = key_of.len() == rows as usize
        && rest.is_empty()
        && key_of.is_sorted()
        && key_of.last().is_none_or(|last| (*last as usize) < keys);
    if fits { Ok(key_of) } else { Err(Error::invalid_argument("`key-of` does not fit the keys")) }
}

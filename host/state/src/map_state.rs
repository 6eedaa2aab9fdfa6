//! Map state: rows of each key under map keys.

use crate::rows::{FoundRows, SubtaskRows};
use crate::{AnswerLimit, EncodedKeys, Error, KeyBatch, KeyEncoder, Result, Rows, StateKind};
use arrow_array::{Array as _, ArrayRef};
use arrow_buffer::BooleanBuffer;

/// Entries that are removed at a time.
const CLEAR_ROWS: usize = 4096;

/// Entries of several keys, key after key, each in the order of its map keys.
#[derive(Debug, Clone)]
pub struct MapEntries {
    /// For each entry, the index of its key.
    pub key_of: Vec<u32>,
    /// Columns of the map key, one row for each entry.
    pub map_key: Vec<ArrayRef>,
    /// Value columns, one row for each entry.
    pub columns: Vec<ArrayRef>,
    /// For each key, whether it may have more entries than the limit let through.
    pub more: BooleanBuffer,
}

/// Rows of each key under map keys, of one subtask. Used by one thread at a time.
///
/// Each entry is a row of the table: at a barrier only entries that changed are written, and one
/// that changed and was changed back is not.
///
/// Entries of several maps are named by three things side by side: the keys whose maps they are
/// in, for each entry the index of its key, and for each entry its map key. The items `pen` and
/// `ink` in the basket of customer 7, and `pen` in that of customer 8:
///
/// ```text
/// keys     7, 8
/// key_of   0,   0,   1
/// map_key  pen, ink, pen
/// columns  2,   1,   5
/// ```
#[derive(Debug)]
pub struct MapState {
    rows: SubtaskRows,
    map_key: KeyEncoder,
}

impl MapState {
    pub(crate) fn new(rows: SubtaskRows) -> Result<Self> {
        let columns = match &rows.links.schema.kind {
            StateKind::Map { map_key } => map_key.clone(),
            _ => Vec::new(),
        };
        Ok(Self { rows, map_key: KeyEncoder::new(&columns)? })
    }

    /// The rows of entries: entry `i` is under row `i` of `map_key` in the map of key
    /// `key_of[i]`. Costs one probe of the disk at most.
    ///
    /// # Errors
    /// As [`crate::ValueState::get`]; `InvalidArgument` also for map keys that are not the
    /// state's, or an index past the last key.
    pub fn get(&mut self, keys: &KeyBatch, key_of: &[u32], map_key: &[ArrayRef]) -> Result<Rows> {
        let row_keys = self.row_keys(keys, key_of, map_key)?;
        self.rows.get(&row_keys)
    }

    /// Writes entries, named as in [`MapState::get`]; with one given twice, the last row counts.
    ///
    /// # Errors
    /// As [`MapState::get`] and [`crate::ValueState::put`].
    pub fn put(
        &mut self,
        keys: &KeyBatch,
        key_of: &[u32],
        map_key: &[ArrayRef],
        columns: &[ArrayRef],
    ) -> Result<()> {
        let row_keys = self.row_keys(keys, key_of, map_key)?;
        self.rows.put(&row_keys, columns)
    }

    /// Removes entries, named as in [`MapState::get`]; one that is not there is fine.
    ///
    /// # Errors
    /// As [`MapState::get`].
    pub fn delete(&mut self, keys: &KeyBatch, key_of: &[u32], map_key: &[ArrayRef]) -> Result<()> {
        let row_keys = self.row_keys(keys, key_of, map_key)?;
        self.rows.delete(&row_keys)
    }

    /// All entries of these keys, but at most `limit_rows` of each.
    ///
    /// # Errors
    /// As [`MapState::get`].
    pub fn entries(&mut self, keys: &KeyBatch, limit_rows: usize) -> Result<MapEntries> {
        self.range(keys, None, None, limit_rows)
    }

    /// The entries of these keys whose map key is at least `from` and less than `to` (one row
    /// each), but at most `limit_rows` of each key.
    ///
    /// # Errors
    /// As [`MapState::get`]; `InvalidArgument` when a bound has not exactly one row.
    pub fn range(
        &mut self,
        keys: &KeyBatch,
        from: Option<&[ArrayRef]>,
        to: Option<&[ArrayRef]>,
        limit_rows: usize,
    ) -> Result<MapEntries> {
        self.rows.check_keys(keys)?;
        let from = from.map(|bound| self.bound(bound)).transpose()?;
        let to = to.map(|bound| self.bound(bound)).transpose()?;
        let bounds = (from.as_deref().unwrap_or_default(), to.as_deref());
        let FoundRows { key_of, rows, more } =
            self.rows.ranges(keys.encoded(), bounds, limit_rows)?;
        let row_key = self.rows.row_key_columns(&rows)?;
        let map_key = row_key.into_iter().skip(keys.columns().len()).collect();
        let columns = self.rows.answer(&rows)?;
        let entries = MapEntries { key_of, map_key, columns, more };
        self.rows.freeze_when_full()?;
        Ok(entries)
    }

    /// Removes all entries of these keys.
    ///
    /// # Errors
    /// As [`MapState::get`].
    pub fn clear(&mut self, keys: &KeyBatch) -> Result<()> {
        self.rows.check_keys(keys)?;
        self.rows.clear(keys.encoded(), CLEAR_ROWS)
    }

    /// Begins a transaction; as [`crate::ValueState::begin`].
    ///
    /// # Errors
    /// `Internal` when one is under way already.
    pub fn begin(&mut self) -> Result<()> {
        self.rows.begin()
    }

    /// Ends a transaction: what was written stays.
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub fn commit(&mut self) -> Result<()> {
        self.rows.commit()
    }

    /// Ends a transaction: all is as it was when it began. Without one it does nothing.
    pub fn roll_back(&mut self) {
        self.rows.roll_back();
    }

    /// Limits the answers to later calls: one that would be larger is `LimitExceeded`.
    pub fn limit_answers(&mut self, limit: AnswerLimit) {
        self.rows.limit = limit;
    }

    /// The barrier of this checkpoint has been reached; as [`crate::ValueState::freeze`].
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        self.rows.freeze(Some(checkpoint))
    }

    /// Which subtask this is.
    pub fn subtask(&self) -> u32 {
        self.rows.subtask
    }

    fn row_keys(
        &self,
        keys: &KeyBatch,
        key_of: &[u32],
        map_key: &[ArrayRef],
    ) -> Result<EncodedKeys> {
        self.rows.check_keys(keys)?;
        let map_keys = self.map_key.encode(map_key)?;
        EncodedKeys::join((keys.encoded(), key_of), &map_keys, false)
    }

    fn bound(&self, bound: &[ArrayRef]) -> Result<Vec<u8>> {
        if let Some(column) = bound.iter().find(|column| column.len() != 1) {
            return Err(Error::invalid(format!(
                "a bound of a range of map keys has {} rows; it needs one",
                column.len()
            )));
        }
        Ok(self.map_key.encode(bound)?.key(0).to_vec())
    }
}

//! List state: any number of rows for each key, in the order they were appended.

use crate::rows::{FoundRows, SubtaskRows};
use crate::schema::POSITION_COLUMN;
use crate::{AnswerLimit, Column, ColumnType, EncodedKeys, Error, KeyBatch, KeyEncoder, Result};
use arrow_array::{ArrayRef, Int64Array};
use arrow_buffer::BooleanBuffer;
use std::sync::Arc;

/// Elements that are removed at a time.
const CLEAR_ROWS: usize = 4096;

/// Elements of several lists, key after key, each in the order they were appended.
#[derive(Debug, Clone)]
pub struct ListElements {
    /// For each element, the index of its key.
    pub key_of: Vec<u32>,
    /// Value columns, one row for each element.
    pub columns: Vec<ArrayRef>,
    /// For each key, whether it may have more elements than the limit let through.
    pub more: BooleanBuffer,
}

/// A list for each key, of one subtask. Used by one thread at a time.
///
/// Each element is a row of the table, so appending reads nothing.
#[derive(Debug)]
pub struct ListState {
    rows: SubtaskRows,
    next_position: i64,
}

impl ListState {
    pub(crate) fn new(rows: SubtaskRows) -> Self {
        let next_position = rows.links.next_position;
        Self { rows, next_position }
    }

    /// Appends elements: element `i` goes to the list of key `key_of[i]`. Reads nothing.
    ///
    /// # Errors
    /// As [`crate::ValueState::put`]; `InvalidArgument` also for an index past the last key.
    pub fn append(&mut self, keys: &KeyBatch, key_of: &[u32], columns: &[ArrayRef]) -> Result<()> {
        self.rows.check_keys(keys)?;
        let elements = i64::try_from(key_of.len()).unwrap_or(i64::MAX);
        let end = self.next_position.checked_add(elements).ok_or_else(|| {
            Error::invalid(format!(
                "state {} has no position left for new elements; start afresh",
                self.rows.links.table
            ))
        })?;
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(self.next_position..end));
        let positions = position_encoder()?.encode(&[column])?;
        let row_keys = EncodedKeys::join((keys.encoded(), key_of), &positions, false)?;
        self.rows.append(&row_keys, columns)?;
        self.next_position = end;
        Ok(())
    }

    /// The elements of these keys, but at most `limit_rows` of each.
    ///
    /// # Errors
    /// As [`crate::ValueState::get`].
    pub fn get(&mut self, keys: &KeyBatch, limit_rows: usize) -> Result<ListElements> {
        self.rows.check_keys(keys)?;
        let FoundRows { key_of, rows, more } =
            self.rows.ranges(keys.encoded(), (&[], None), limit_rows)?;
        let columns = self.rows.answer(&rows)?;
        self.rows.freeze_when_full()?;
        Ok(ListElements { key_of, columns, more })
    }

    /// Removes all elements of these keys.
    ///
    /// # Errors
    /// As [`ListState::get`].
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
}

fn position_encoder() -> Result<KeyEncoder> {
    KeyEncoder::new(&[Column::required(POSITION_COLUMN, ColumnType::Int64)])
}

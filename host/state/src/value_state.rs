//! Value state: at most one row for each key.

use crate::rows::SubtaskRows;
use crate::{AnswerLimit, KeyBatch, Result, Rows};
use arrow_array::ArrayRef;

/// At most one row for each key, of one subtask. Used by one thread at a time.
#[derive(Debug)]
pub struct ValueState {
    rows: SubtaskRows,
}

impl ValueState {
    pub(crate) fn new(rows: SubtaskRows) -> Self {
        Self { rows }
    }

    /// The rows of these keys. Costs one probe of the disk at most, and none when the write
    /// buffer knows all keys.
    ///
    /// # Errors
    /// `InvalidArgument` for a key of another subtask; `Corrupt` or `Storage` when files cannot
    /// be read; `Closed` after the background part has failed.
    pub fn get(&mut self, keys: &KeyBatch) -> Result<Rows> {
        self.rows.check_keys(keys)?;
        self.rows.get(keys.encoded())
    }

    /// Begins to look for keys that will be asked for next: a thread in the background probes
    /// for them while the caller is at work. [`ValueState::get`] then counts one probe, as
    /// without this. Only the last call is remembered, and what it finds only as long as nothing
    /// is published meanwhile.
    ///
    /// # Errors
    /// As [`ValueState::get`].
    pub fn read_ahead(&mut self, keys: &KeyBatch) -> Result<()> {
        self.rows.check_keys(keys)?;
        self.rows.read_ahead(keys.encoded())
    }

    /// Writes one row for each key: `columns` are the value columns, row `i` for key `i`. With a
    /// key given twice, the last row counts. Waits while too much is on its way to disk, see
    /// [`StoreOptions`](crate::StoreOptions).
    ///
    /// # Errors
    /// `InvalidArgument` for a key of another subtask, or columns that are not the state's;
    /// `Closed` after the background part has failed.
    pub fn put(&mut self, keys: &KeyBatch, columns: &[ArrayRef]) -> Result<()> {
        self.rows.check_keys(keys)?;
        self.rows.put(keys.encoded(), columns)
    }

    /// Removes the rows of these keys; a key without one is fine.
    ///
    /// # Errors
    /// As [`ValueState::put`].
    pub fn delete(&mut self, keys: &KeyBatch) -> Result<()> {
        self.rows.check_keys(keys)?;
        self.rows.delete(keys.encoded())
    }

    /// Begins a transaction: until [`ValueState::commit`] or [`ValueState::roll_back`], all that is
    /// written can be undone. Meanwhile the write buffer is not flushed when it is full, but
    /// grows by up to 64 MiB; what is more is `LimitExceeded`. Not across a barrier.
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

    /// The barrier of this checkpoint has been reached: what was written so far belongs to it.
    /// Hands the write buffer over and returns; no I/O. The checkpoint is published when all
    /// subtasks of the table have come to its barrier, see
    /// [`StateStore::wait_published`](crate::StateStore::wait_published); a table stops when they
    /// come to barriers in different order.
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

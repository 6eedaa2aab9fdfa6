//! Value state: at most one row for each key.

use crate::{KeyBatch, Result};
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;

/// What a state holds for a list of keys: row `i` belongs to key `i`.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Whether the key has a row.
    pub present: BooleanBuffer,
    /// The value columns; a key without a row has a slot all the same (null, or zero / empty in a column that isn't nullable).
    pub columns: Vec<ArrayRef>,
}

/// The state of one subtask. `Send`; used by one thread at a time.
pub struct ValueState {}

impl ValueState {
    /// The rows of these keys. At most one probe of the disk.
    pub fn get(&mut self, keys: &KeyBatch) -> Result<Rows> {
        todo!()
    }
    /// Writes one row for each key; with a key given twice, the last counts.
    pub fn put(&mut self, keys: &KeyBatch, columns: &[ArrayRef]) -> Result<()> {
        todo!()
    }
    /// Removes the rows of these keys.
    pub fn delete(&mut self, keys: &KeyBatch) -> Result<()> {
        todo!()
    }
    /// The barrier of this checkpoint has been reached: what was written so far belongs to it. No I/O.
    pub fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        todo!()
    }
}

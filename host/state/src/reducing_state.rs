//! Reducing state: at most one row for each key, into which the store folds what is added.

use crate::reducer::fold;
use crate::rows::SubtaskRows;
use crate::{AnswerLimit, Error, KeyBatch, Reducer, Result, Rows, StateKind};
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;

/// At most one row for each key, folded by the store. Used by one thread at a time.
///
/// Each value column has its [`Reducer`]. A null adds nothing; a nullable column is null until
/// something is added to it.
#[derive(Debug)]
pub struct ReducingState {
    rows: SubtaskRows,
    reducers: Vec<Reducer>,
}

impl ReducingState {
    pub(crate) fn new(rows: SubtaskRows) -> Self {
        let reducers = match &rows.links.schema.kind {
            StateKind::Reducing { reducers } => reducers.clone(),
            _ => Vec::new(),
        };
        Self { rows, reducers }
    }

    /// The rows of these keys. Costs one probe of the disk at most.
    ///
    /// # Errors
    /// As [`crate::ValueState::get`].
    pub fn get(&mut self, keys: &KeyBatch) -> Result<Rows> {
        self.rows.check_keys(keys)?;
        self.rows.get(keys.encoded())
    }

    /// Folds one row into the row of each key, in order; a key may be given more than once.
    /// What is counted may be of any type. Costs one probe of the disk at most. When one row
    /// cannot be added, none is.
    ///
    /// # Errors
    /// `InvalidArgument` for a key of another subtask, columns that are not the state's, or a
    /// sum that its column cannot hold.
    pub fn add(&mut self, keys: &KeyBatch, columns: &[ArrayRef]) -> Result<()> {
        self.rows.check_keys(keys)?;
        self.rows.check_columns(keys.len(), columns)?;
        let (distinct, row_keys) = KeyBatch::distinct(keys.columns(), keys.encoded())?;
        let rows = self.rows.make_resident(distinct.encoded())?;
        let live = self.rows.live_among(&rows);
        let present: BooleanBuffer = live.iter().map(Option::is_some).collect();
        let current = self.rows.gather(&live)?;
        let value = self.rows.links.schema.value.clone();
        let folded = self
            .reducers
            .iter()
            .zip(value.iter())
            .zip(current.iter().zip(columns))
            .map(|((reducer, column), (current, added))| {
                fold(*reducer, column, (current, &present), (added, &row_keys)).map_err(|why| {
                    let table = &self.rows.links.table;
                    Error::invalid(format!("state {table}, column `{}`: {why}", column.name))
                })
            })
            .collect::<Result<Vec<_>>>()?;
        self.rows.put(distinct.encoded(), &folded)
    }

    /// Removes the rows of these keys; a key without one is fine.
    ///
    /// # Errors
    /// As [`crate::ValueState::put`].
    pub fn clear(&mut self, keys: &KeyBatch) -> Result<()> {
        self.rows.check_keys(keys)?;
        self.rows.delete(keys.encoded())
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

//! What it takes to undo what was done to a write buffer since a transaction began.

use crate::Result;
use crate::value_column::ValueColumn;
use crate::write_buffer::Status;
use std::collections::HashSet;

/// Rows as they were when the transaction began; those that came later are not in it.
#[derive(Debug)]
pub(crate) struct Undo {
    /// How many rows there were: those from here on are new.
    pub(super) rows: u32,
    /// Rows that were changed, with what they were. Their values are in `values`, in this order.
    pub(super) changed: Vec<(u32, Status)>,
    pub(super) values: Vec<ValueColumn>,
    noted: HashSet<u32>,
}

impl Undo {
    /// A transaction begins; `values` are the columns of the buffer, which has so many rows.
    pub(crate) fn new(rows: u32, values: &[ValueColumn]) -> Self {
        let values = values.iter().map(ValueColumn::empty_like).collect();
        Self { rows, changed: Vec::new(), values, noted: HashSet::new() }
    }

    /// Notes what a row was before it is changed, the first time.
    pub(crate) fn note(&mut self, row: u32, status: Status, values: &[ValueColumn]) -> Result<()> {
        if row >= self.rows || !self.noted.insert(row) {
            return Ok(());
        }
        for (column, value) in self.values.iter_mut().zip(values) {
            column.push_from(value, row as usize)?;
        }
        self.changed.push((row, status));
        Ok(())
    }

    /// Bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(ValueColumn::memory_bytes).sum();
        values + self.changed.len() * 16
    }
}

//! Fills a table with rows that come from elsewhere, as its files have them.

use crate::ordered::show_first;
use crate::rows::SubtaskRows;
use crate::schema::{POSITION_COLUMN, TableSchema};
use crate::{Column, EncodedKeys, Error, KeyBatch, Result, StateDescriptor, StateKind, StateTable};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use std::sync::Arc;

/// Writes whole rows to a table of any kind, each to the subtask that owns its key group. Takes the
/// handles of all subtasks; see [`StateTable::loader`].
#[derive(Debug)]
pub struct TableLoader {
    schema: TableSchema,
    subtasks: Vec<SubtaskRows>,
    /// Of the next element of any list.
    next_position: i64,
}

impl TableLoader {
    pub(crate) fn new(schema: TableSchema, subtasks: Vec<SubtaskRows>) -> Self {
        let next_position = subtasks.first().map_or(0, |rows| rows.links.next_position);
        Self { schema, subtasks, next_position }
    }

    /// Writes rows that have exactly these [columns](StateDescriptor::loader_columns). A time to live
    /// begins now.
    ///
    /// # Errors
    /// `InvalidArgument` for other columns, a null in a key, or a key that the table has a row of
    /// already, which is named: then some of the rows may be written, and the table is of no use.
    pub fn load(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = self.row_key(rows)?;
        let (key, value) = columns
            .split_at_checked(self.schema.key().len())
            .ok_or_else(|| Error::invalid("rows without all columns of the key"))?;
        let keys = KeyBatch::new(&self.schema.encoder, key.to_vec())?;
        self.refuse_twice(&keys)?;
        let split = self.schema.key_groups.split(keys.encoded());
        for (subtask, rows) in self.subtasks.iter_mut().zip(split) {
            if rows.is_empty() {
                continue;
            }
            let own = keys.select(&rows)?;
            refuse_known(subtask, self.schema.key(), &own)?;
            let indices = arrow_array::UInt32Array::from(rows);
            let take = |column: &ArrayRef| arrow_select::take::take(column, &indices, None);
            let value = value.iter().map(take).collect::<Result<Vec<_>, _>>();
            let value =
                value.map_err(|error| Error::invalid(format!("cannot take rows: {error}")))?;
            subtask.put(own.encoded(), &value)?;
        }
        Ok(())
    }

    /// The barrier of this checkpoint: what was loaded belongs to it.
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        self.subtasks.iter_mut().try_for_each(|subtask| subtask.freeze(Some(checkpoint)))
    }

    /// Columns of the row key, then of the value.
    fn row_key(&mut self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut columns = rows.columns().to_vec();
        if !matches!(self.schema.kind, StateKind::List) {
            return Ok(columns);
        }
        let elements = i64::try_from(rows.num_rows()).unwrap_or(i64::MAX);
        let end = self.next_position.checked_add(elements);
        let end = end.ok_or_else(|| Error::invalid("there is no position left for elements"))?;
        let positions = Int64Array::from_iter_values(self.next_position..end);
        let at = self.schema.key().iter().position(|column| column.name == POSITION_COLUMN);
        let at = at.filter(|at| *at <= columns.len());
        let at = at.ok_or_else(|| Error::invalid("rows without all columns of the key"))?;
        columns.insert(at, Arc::new(positions));
        self.next_position = end;
        Ok(columns)
    }

    /// Refuses a key that is among these more than once.
    fn refuse_twice(&self, keys: &KeyBatch) -> Result<()> {
        let encoded: &EncodedKeys = keys.encoded();
        let mut known = std::collections::HashSet::with_capacity(encoded.len());
        match (0..encoded.len()).find(|row| !known.insert(encoded.key(*row))) {
            None => Ok(()),
            Some(row) => Err(twice(self.schema.key(), keys, row)),
        }
    }
}

/// Refuses a key that the table has a row of.
fn refuse_known(subtask: &mut SubtaskRows, columns: &[Column], keys: &KeyBatch) -> Result<()> {
    let found = subtask.make_resident(keys.encoded())?;
    match subtask.live_among(&found).iter().position(Option::is_some) {
        None => Ok(()),
        Some(row) => Err(twice(columns, keys, row)),
    }
}

fn twice(columns: &[Column], keys: &KeyBatch, row: usize) -> Error {
    let key: Vec<ArrayRef> = keys.columns().iter().map(|column| column.slice(row, 1)).collect();
    match show_first(columns, &key) {
        Ok(key) => Error::invalid(format!("there is more than one row with the key {key}")),
        Err(error) => error,
    }
}

impl StateDescriptor {
    /// The columns of rows that a [`TableLoader`] takes: those of the key, then those of the value.
    /// A map has its map key after the key, timers their `time` before it. Elements of a list have no
    /// position: they are appended in the order in which they come.
    pub fn loader_columns(&self) -> Vec<Column> {
        let key = match self.kind {
            StateKind::List => self.key.clone(),
            _ => self.kind.row_key(&self.key).0,
        };
        key.into_iter().chain(self.value.iter().cloned()).collect()
    }
}

impl StateTable {
    /// Takes the handles of all subtasks, to fill the table with rows that come from elsewhere.
    ///
    /// # Errors
    /// `InvalidArgument` when one of them is taken.
    pub fn loader(&self) -> Result<TableLoader> {
        let subtasks = (0..self.key_groups().parallelism()).map(|subtask| self.rows_of(subtask));
        Ok(TableLoader::new(self.shape().clone(), subtasks.collect::<Result<_>>()?))
    }
}

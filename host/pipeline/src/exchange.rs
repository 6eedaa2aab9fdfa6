//! The keyed exchange: splits a batch by the subtask that owns the key of each row.

use crate::error::{Error, Result};
use crate::lines::Lines;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use howdah_state::{Column, EncodedKeys, KeyEncoder, KeyGroups};
use std::sync::Arc;
use std::time::Instant;

/// Rows on their way to a subtask.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// The columns of the operator's input; at least one row.
    pub(crate) batch: RecordBatch,
    /// The key of each row.
    pub(crate) keys: EncodedKeys,
    /// The event time of each row.
    pub(crate) event_times: Vec<i64>,
    /// The kind of each row, where they are of a changelog.
    pub(crate) row_kinds: Option<Vec<u8>>,
    /// Where they are in a source, if they come from one.
    pub(crate) lines: Lines,
    /// The watermark before these rows, which the one who gets them knows.
    pub(crate) watermark: i64,
    /// When a source began to read what they come of; `None`: they come of no rows.
    pub(crate) read_at: Option<Instant>,
}

impl Rows {
    /// The rows before this one, and those from it on.
    pub(crate) fn split(&self, middle: usize) -> (Self, Self) {
        let count = self.batch.num_rows();
        let middle = middle.min(count);
        let part = |rows: std::ops::Range<usize>| {
            // A batch has no more rows than fit: their keys have 32-bit offsets.
            let indices: Vec<u32> =
                rows.clone().filter_map(|row| u32::try_from(row).ok()).collect();
            Self {
                batch: self.batch.slice(rows.start, rows.len()),
                keys: self.keys.take(&indices),
                event_times: self.event_times.get(rows.clone()).unwrap_or_default().to_vec(),
                row_kinds: self
                    .row_kinds
                    .as_ref()
                    .map(|kinds| kinds.get(rows).unwrap_or_default().to_vec()),
                lines: self.lines.take(&indices),
                watermark: self.watermark,
                read_at: self.read_at,
            }
        };
        (part(0..middle), part(middle..count))
    }
}

/// What travels to a subtask.
#[derive(Debug)]
pub(crate) enum Message {
    /// The next rows.
    Rows(Rows),
    /// The watermark has risen: no later row has an event time at or before it.
    Watermark(i64),
    /// No rows come for a while: the watermark is not to be waited for. Rows or a watermark end
    /// that.
    Idle,
    /// All rows before belong to the checkpoint, none after.
    Barrier {
        /// Which one.
        checkpoint: u64,
        /// Whether nothing follows.
        last: bool,
    },
    /// There are no more rows, until there are; the last barrier follows.
    End,
}

/// Splits batches by the subtask that owns the key of each row.
#[derive(Debug)]
pub(crate) struct Exchange {
    groups: KeyGroups,
    encoder: KeyEncoder,
    /// Indices of the key columns in a batch, in key order.
    key: Vec<usize>,
    /// Scratch: for each subtask, its rows in the batch.
    rows_of: Vec<Vec<u32>>,
}

impl Exchange {
    /// Splits batches of these fields, by those that are the key.
    pub(crate) fn new(fields: &[Column], key: Vec<usize>, groups: KeyGroups) -> Result<Self> {
        let columns: Vec<Column> = key.iter().filter_map(|at| fields.get(*at).cloned()).collect();
        let encoder = KeyEncoder::new(&columns)?;
        let subtasks = usize::try_from(groups.parallelism()).unwrap_or(usize::MAX);
        Ok(Self { groups, encoder, key, rows_of: vec![Vec::new(); subtasks] })
    }

    /// The rows of each subtask, by its number; `None`: it gets none.
    pub(crate) fn split(
        &mut self,
        batch: &RecordBatch,
        event_times: &[i64],
        row_kinds: Option<&[u8]>,
        lines: &Lines,
    ) -> Result<Vec<Option<Rows>>> {
        let keys = self.encoder.encode(&key_columns(batch, &self.key)?)?;
        if let [_] = self.rows_of.as_slice() {
            let rows = Rows {
                batch: batch.clone(),
                keys,
                event_times: event_times.into(),
                row_kinds: row_kinds.map(<[u8]>::to_vec),
                lines: lines.clone(),
                watermark: i64::MIN,
                read_at: None,
            };
            return Ok(vec![(batch.num_rows() > 0).then_some(rows)]);
        }
        for rows in &mut self.rows_of {
            rows.clear();
        }
        for (row, hash) in (0_u32..).zip(keys.hashes()) {
            let subtask = usize::try_from(self.groups.subtask_of(*hash)).unwrap_or(usize::MAX);
            let rows = self.rows_of.get_mut(subtask).ok_or_else(|| {
                Error::internal(format!("a key belongs to subtask {subtask}, which there is not"))
            })?;
            rows.push(row);
        }
        let take = |rows: &Vec<u32>| {
            if rows.is_empty() {
                return Ok(None);
            }
            Ok(Some(Rows {
                keys: keys.take(rows),
                event_times: take_values(event_times, rows),
                row_kinds: row_kinds.map(|kinds| take_values(kinds, rows)),
                lines: lines.take(rows),
                batch: take_rows(batch, rows)?,
                watermark: i64::MIN,
                read_at: None,
            }))
        };
        self.rows_of.iter().map(take).collect()
    }
}

/// The key columns of a batch, in key order.
pub(crate) fn key_columns(batch: &RecordBatch, key: &[usize]) -> Result<Vec<ArrayRef>> {
    let column = |index: &usize| {
        let column = batch.columns().get(*index);
        column.map(Arc::clone).ok_or_else(|| Error::internal("a batch lacks a key column"))
    };
    key.iter().map(column).collect()
}

/// The values of these rows, which there are.
fn take_values<T: Copy + Default>(values: &[T], rows: &[u32]) -> Vec<T> {
    // Not `filter_map`: a list whose length is known grows once.
    let value = |row: &u32| values.get(*row as usize).copied().unwrap_or_default();
    rows.iter().map(value).collect()
}

fn take_rows(batch: &RecordBatch, rows: &[u32]) -> Result<RecordBatch> {
    let indices = UInt32Array::from(rows.to_vec());
    Ok(arrow_select::take::take_record_batch(batch, &indices)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use howdah_state::ColumnType;

    fn exchange(parallelism: u32) -> Exchange {
        let fields = [
            Column::required("value", ColumnType::Int64),
            Column::required("key", ColumnType::Int64),
        ];
        let groups = KeyGroups::new(128, parallelism).expect("key groups");
        Exchange::new(&fields, vec![1], groups).expect("an exchange")
    }

    fn batch(rows: i64) -> RecordBatch {
        let columns: [(_, ArrayRef); 2] = [
            ("value", Arc::new(Int64Array::from_iter_values(0..rows))),
            ("key", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row % 37)))),
        ];
        RecordBatch::try_from_iter(columns).expect("a batch")
    }

    #[test]
    fn every_row_goes_to_the_one_subtask_that_owns_its_key() {
        let times: Vec<i64> = (100..1_100).collect();
        let lines = Lines::of("rows.csv", 2..1_002);
        let split = exchange(3).split(&batch(1_000), &times, Some(&[2; 1_000]), &lines);
        let split = split.expect("split");
        let mut owner = std::collections::BTreeMap::new();
        let mut seen = Vec::new();
        for (subtask, rows) in split.into_iter().enumerate() {
            let rows = rows.expect("37 keys reach three subtasks");
            assert_eq!(rows.keys.len(), rows.batch.num_rows());
            assert_eq!(rows.row_kinds, Some(vec![2; rows.batch.num_rows()]));
            let values = rows.batch.column(0).as_primitive::<Int64Type>().values();
            let keys = rows.batch.column(1).as_primitive::<Int64Type>().values();
            let line = |value: &i64| u64::try_from(value + 2).expect("a line");
            assert_eq!(rows.lines, Lines::of("rows.csv", values.iter().map(line)));
            assert!(values.is_sorted(), "the order of the source is kept");
            for ((value, key), time) in values.iter().zip(keys).zip(&rows.event_times) {
                assert_eq!((*key, *time), (value % 37, value + 100));
                assert_eq!(*owner.entry(*key).or_insert(subtask), subtask);
                seen.push(*value);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_single_subtask_gets_the_batch_as_it_is() {
        let batch = batch(10);
        let split = exchange(1).split(&batch, &[0; 10], None, &Lines::default()).expect("split");
        let rows = split.into_iter().flatten().next().expect("rows");
        assert_eq!(rows.batch, batch);
    }

    #[test]
    fn a_subtask_without_rows_gets_nothing() {
        let split =
            exchange(3).split(&batch(1), &[0], None, &Lines::of("rows.csv", [2])).expect("split");
        assert_eq!(split.iter().flatten().count(), 1);
        let split = exchange(1).split(&batch(0), &[], None, &Lines::default()).expect("split");
        assert_eq!(split.iter().flatten().count(), 0);
    }
}

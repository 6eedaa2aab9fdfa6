//! The keyed exchange: splits a batch by the subtask that owns the key of each row.

use crate::error::{Error, Result};
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use howdah_runtime::InputSpec;
use howdah_state::{EncodedKeys, KeyEncoder, KeyGroups};
use std::sync::Arc;

/// Rows on their way to a subtask.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// The columns of the operator's input; at least one row.
    pub(crate) batch: RecordBatch,
    /// The key of each row.
    pub(crate) keys: EncodedKeys,
    /// The event time of each row.
    pub(crate) event_times: Vec<i64>,
    /// The watermark before these rows.
    pub(crate) watermark: i64,
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
                event_times: self.event_times.get(rows).unwrap_or_default().to_vec(),
                watermark: self.watermark,
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
    /// The watermark has risen: no later row has an event time at or before it. Only for
    /// operators that go by it.
    Watermark(i64),
    /// All rows before belong to the checkpoint, none after.
    Barrier {
        /// Which one.
        checkpoint: u64,
        /// Whether nothing follows.
        last: bool,
    },
    /// There are no more rows; the last barrier follows.
    End,
}

/// Splits batches.
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
    pub(crate) fn new(input: &InputSpec, key: Vec<usize>, groups: KeyGroups) -> Result<Self> {
        let encoder = KeyEncoder::new(&input.key_columns())?;
        let subtasks = usize::try_from(groups.parallelism()).unwrap_or(usize::MAX);
        Ok(Self { groups, encoder, key, rows_of: vec![Vec::new(); subtasks] })
    }

    /// The rows of each subtask, by its number; `None`: it gets none.
    pub(crate) fn split(
        &mut self,
        batch: &RecordBatch,
        event_times: &[i64],
        watermark: i64,
    ) -> Result<Vec<Option<Rows>>> {
        let keys = self.encoder.encode(&key_columns(batch, &self.key)?)?;
        if let [_] = self.rows_of.as_slice() {
            let rows =
                Rows { batch: batch.clone(), keys, event_times: event_times.into(), watermark };
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
                event_times: rows.iter().filter_map(|row| event_time(event_times, *row)).collect(),
                batch: take_rows(batch, rows)?,
                watermark,
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

fn event_time(event_times: &[i64], row: u32) -> Option<i64> {
    event_times.get(usize::try_from(row).ok()?).copied()
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
    use howdah_state::{Column, ColumnType};

    fn exchange(parallelism: u32) -> Exchange {
        let input = InputSpec {
            name: "rows".into(),
            fields: vec![
                Column::required("value", ColumnType::Int64),
                Column::required("key", ColumnType::Int64),
            ],
            key: vec!["key".into()],
            changelog: false,
        };
        let groups = KeyGroups::new(128, parallelism).expect("key groups");
        Exchange::new(&input, vec![1], groups).expect("an exchange")
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
        let split = exchange(3).split(&batch(1_000), &times, 5).expect("split");
        let mut owner = std::collections::BTreeMap::new();
        let mut seen = Vec::new();
        for (subtask, rows) in split.into_iter().enumerate() {
            let rows = rows.expect("37 keys reach three subtasks");
            assert_eq!(rows.keys.len(), rows.batch.num_rows());
            let values = rows.batch.column(0).as_primitive::<Int64Type>().values();
            let keys = rows.batch.column(1).as_primitive::<Int64Type>().values();
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
        let split = exchange(1).split(&batch, &[0; 10], i64::MIN).expect("split");
        let rows = split.into_iter().flatten().next().expect("rows");
        assert_eq!(rows.batch, batch);
    }

    #[test]
    fn a_subtask_without_rows_gets_nothing() {
        let split = exchange(3).split(&batch(1), &[0], 0).expect("split");
        assert_eq!(split.iter().flatten().count(), 1);
        let split = exchange(1).split(&batch(0), &[], 0).expect("split");
        assert_eq!(split.iter().flatten().count(), 0);
    }
}

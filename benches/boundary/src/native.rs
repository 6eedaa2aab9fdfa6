//! The operators without a boundary: what a component is held against.

use crate::contestant::{Call, Operator};
use anyhow::{Context as _, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, TimestampMillisecondArray,
};
use arrow_buffer::{MutableBuffer, ScalarBuffer};
use howdah_runtime::OperatorSpec;
use howdah_state::{KeyBatch, Rows, ValueState};
use std::sync::Arc;

/// What they all have.
pub(crate) struct Base {
    state: ValueState,
    spec: OperatorSpec,
}

impl Base {
    fn new(spec: &OperatorSpec, state: ValueState) -> Result<Self> {
        spec.outputs.first().context("there is an output")?;
        Ok(Self { state, spec: spec.clone() })
    }

    fn output(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(self.spec.outputs[0].schema(), columns)?)
    }

    /// Writes the rows of those keys that changed.
    fn put(&mut self, keys: &KeyBatch, changed: &[u32], columns: &[ArrayRef]) -> Result<()> {
        match changed.len() {
            0 => {}
            all if all == keys.len() => self.state.put(keys, columns)?,
            _ => self.state.put(&keys.select(changed)?, columns)?,
        }
        Ok(())
    }
}

/// `operators/echo`.
pub(crate) struct Echo(Base);

impl Echo {
    pub(crate) fn new(spec: &OperatorSpec, state: ValueState) -> Result<Self> {
        Base::new(spec, state).map(Self)
    }
}

impl Operator for Echo {
    fn process(&mut self, call: Call<'_>) -> Result<(RecordBatch, Vec<i64>)> {
        let Call { batch, timestamps, keys, row_keys } = call;
        let Rows { present, columns } = self.0.state.get(&keys)?;
        let one_row_a_key =
            row_keys.len() == keys.len() && (0..).zip(row_keys).all(|(row, key)| row == *key);
        let values: ArrayRef = if one_row_a_key && present.count_set_bits() == keys.len() {
            let stored = columns[0].as_binary::<i32>().clone();
            drop(columns);
            let values: ArrayRef = Arc::new(counted(stored)?);
            self.0.state.put(&keys, std::slice::from_ref(&values))?;
            values
        } else {
            let (kept, emitted) = one_by_one(batch, row_keys, &Rows { present, columns })?;
            self.0.state.put(&keys, &[kept])?;
            emitted
        };
        let batch = self.0.output(vec![Arc::clone(batch.column(0)), values])?;
        Ok((batch, timestamps.to_vec()))
    }

    fn barrier(&mut self, checkpoint: u64) -> Result<()> {
        Ok(self.0.state.freeze(checkpoint)?)
    }
}

/// Each counter one higher, where the bytes lie.
fn counted(values: BinaryArray) -> Result<BinaryArray> {
    let (offsets, bytes, nulls) = values.into_parts();
    let mut bytes =
        bytes.into_mutable().unwrap_or_else(|shared| MutableBuffer::from(shared.to_vec()));
    for start in &offsets[..offsets.len() - 1] {
        count(&mut bytes.as_slice_mut()[*start as usize..]);
    }
    Ok(BinaryArray::try_new(offsets, bytes.into(), nulls)?)
}

fn count(value: &mut [u8]) {
    if let Some(counter) = value.first_chunk_mut::<8>() {
        *counter = u64::from_le_bytes(*counter).wrapping_add(1).to_le_bytes();
    }
}

/// The same for batches with new keys, or several rows of a key.
fn one_by_one(batch: &RecordBatch, row_keys: &[u32], rows: &Rows) -> Result<(ArrayRef, ArrayRef)> {
    let stored = rows.columns[0].as_binary::<i32>();
    let given = batch.column(1).as_binary::<i32>();
    let mut values: Vec<Option<Vec<u8>>> = (0..stored.len())
        .map(|key| rows.present.value(key).then(|| stored.value(key).to_vec()))
        .collect();
    let mut emitted = Vec::with_capacity(row_keys.len());
    for (row, key) in row_keys.iter().enumerate() {
        let value = &mut values[*key as usize];
        match value {
            Some(value) => count(value),
            None => *value = Some(given.value(row).to_vec()),
        }
        emitted.push(value.clone().context("it was just set")?);
    }
    let kept = values.iter().map(|value| value.as_deref().unwrap_or_default());
    Ok((
        Arc::new(BinaryArray::from_iter_values(kept)),
        Arc::new(BinaryArray::from_iter_values(emitted)),
    ))
}

/// `operators/last-bid`.
pub(crate) struct LastBid(Base);

impl LastBid {
    pub(crate) fn new(spec: &OperatorSpec, state: ValueState) -> Result<Self> {
        Base::new(spec, state).map(Self)
    }
}

impl Operator for LastBid {
    fn process(&mut self, call: Call<'_>) -> Result<(RecordBatch, Vec<i64>)> {
        let Call { batch, timestamps, keys, row_keys } = call;
        let Rows { present, columns } = self.0.state.get(&keys)?;
        let mut last: Vec<Option<[i64; 3]>> = {
            let [prices, times, seqs] =
                [int64s(&columns[0]), times(&columns[1]), int64s(&columns[2])];
            let row = |key| present.value(key).then(|| [prices[key], times[key], seqs[key]]);
            (0..keys.len()).map(row).collect()
        };
        let [auctions, bidders, prices] = [0, 1, 2].map(|column| int64s(batch.column(column)));
        let [date_times, seqs] = [times(batch.column(3)), int64s(batch.column(4))];
        let mut is_changed = vec![false; keys.len()];
        let mut out: [Vec<i64>; 5] = Default::default();
        let mut out_times = Vec::new();
        for (row, key) in row_keys.iter().map(|key| *key as usize).enumerate() {
            let [price, date_time, seq] = [prices[row], date_times[row], seqs[row]];
            if last[key].is_none_or(|[_, time, number]| (date_time, seq) > (time, number)) {
                last[key] = Some([price, date_time, seq]);
                is_changed[key] = true;
                let bid = [auctions[row], bidders[row], price, date_time, seq];
                out.iter_mut().zip(bid).for_each(|(column, value)| column.push(value));
                out_times.push(timestamps[row]);
            }
        }
        let changed: Vec<u32> =
            (0..).zip(&is_changed).filter(|(_, is)| **is).map(|(key, _)| key).collect();
        let field = |at: usize| -> Vec<i64> {
            changed.iter().filter_map(|key| last[*key as usize]).map(|row| row[at]).collect()
        };
        let columns = [column(field(0)), time_column(field(1)), column(field(2))];
        self.0.put(&keys, &changed, &columns)?;
        let [auctions, bidders, prices, date_times, seqs] = out;
        let batch = self.0.output(vec![
            column(auctions),
            column(bidders),
            column(prices),
            time_column(date_times),
            column(seqs),
        ])?;
        Ok((batch, out_times))
    }

    fn barrier(&mut self, checkpoint: u64) -> Result<()> {
        Ok(self.0.state.freeze(checkpoint)?)
    }
}

/// `operators/auction-stats`.
pub(crate) struct AuctionStats(Base);

impl AuctionStats {
    pub(crate) fn new(spec: &OperatorSpec, state: ValueState) -> Result<Self> {
        Base::new(spec, state).map(Self)
    }
}

impl Operator for AuctionStats {
    fn process(&mut self, call: Call<'_>) -> Result<(RecordBatch, Vec<i64>)> {
        let Call { batch, timestamps, keys, row_keys } = call;
        let Rows { present, columns } = self.0.state.get(&keys)?;
        let mut totals: Vec<Option<[i64; 4]>> = {
            let [bids, least, most, sums] = [0, 1, 2, 3].map(|column| int64s(&columns[column]));
            let row =
                |key| present.value(key).then(|| [bids[key], least[key], most[key], sums[key]]);
            (0..keys.len()).map(row).collect()
        };
        let prices = int64s(batch.column(1));
        let mut out: [Vec<i64>; 4] = std::array::from_fn(|_| Vec::with_capacity(row_keys.len()));
        for (price, key) in prices.iter().zip(row_keys) {
            let total = &mut totals[*key as usize];
            let now = match *total {
                None => [1, *price, *price, *price],
                Some([bids, least, most, sum]) => {
                    let sum = sum.checked_add(*price).context("a sum is more than an int64")?;
                    [bids + 1, least.min(*price), most.max(*price), sum]
                }
            };
            *total = Some(now);
            out.iter_mut().zip(now).for_each(|(column, value)| column.push(value));
        }
        let field = |at: usize| column(totals.iter().flatten().map(|row| row[at]).collect());
        self.0.state.put(&keys, &[field(0), field(1), field(2), field(3)])?;
        let mut columns = vec![Arc::clone(batch.column(0))];
        columns.extend(out.map(column));
        Ok((self.0.output(columns)?, timestamps.to_vec()))
    }

    fn barrier(&mut self, checkpoint: u64) -> Result<()> {
        Ok(self.0.state.freeze(checkpoint)?)
    }
}

fn int64s(array: &ArrayRef) -> &ScalarBuffer<i64> {
    array.as_primitive::<Int64Type>().values()
}

fn times(array: &ArrayRef) -> &ScalarBuffer<i64> {
    array.as_primitive::<TimestampMillisecondType>().values()
}

fn column(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn time_column(values: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(values))
}

//! Batches, the same for every contestant.

use crate::contestant::{Call, Contestant};
use anyhow::{Context as _, Result, ensure};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use howdah_bench_figures::{Cost, Stopwatch};
use howdah_runtime::OperatorSpec;
use howdah_state::{KeyBatch, KeyEncoder};
use nexmark::EventGenerator;
use nexmark::config::NexmarkConfig;
use nexmark::event::Event;
use std::sync::Arc;

/// Bytes of a value of the echo case.
const VALUE_BYTES: usize = 64;

/// Rows, with the times and keys that the exchange adds.
pub(crate) struct Batch {
    pub(crate) rows: RecordBatch,
    pub(crate) timestamps: Vec<i64>,
    key_columns: Vec<ArrayRef>,
    encoder: Arc<KeyEncoder>,
}

impl Batch {
    fn new(spec: &OperatorSpec, columns: Vec<ArrayRef>, timestamps: Vec<i64>) -> Result<Self> {
        let input = spec.inputs.first().context("there is an input")?;
        let rows = RecordBatch::try_new(input.schema(), columns)?;
        let key_column = |name: &String| rows.column_by_name(name).cloned().context("a key column");
        let key_columns = input.key.iter().map(key_column).collect::<Result<_>>()?;
        let encoder = Arc::new(KeyEncoder::new(&spec.key_columns())?);
        Ok(Self { rows, timestamps, key_columns, encoder })
    }

    /// The distinct keys, and which each row has: what the keyed exchange does.
    pub(crate) fn keys(&self) -> Result<(KeyBatch, Vec<u32>)> {
        let encoded = self.encoder.encode(&self.key_columns)?;
        Ok(KeyBatch::distinct(&self.key_columns, &encoded)?)
    }
}

/// Batches of the echo case: `count` of `rows` rows, no key twice.
pub(crate) fn echo(spec: &OperatorSpec, rows: usize, count: usize) -> Result<Vec<Batch>> {
    let batch = |number: usize| {
        let keys = (number * rows..(number + 1) * rows).map(|key| key as i64);
        let values = keys.clone().map(|key| {
            let mut value = [0; VALUE_BYTES];
            for (at, byte) in value.iter_mut().enumerate().skip(8) {
                *byte = (key as usize * 31 + at) as u8;
            }
            value
        });
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(keys.clone())),
            Arc::new(BinaryArray::from_iter_values(values)),
        ];
        Batch::new(spec, columns, keys.collect())
    };
    (0..count).map(batch).collect()
}

/// The bids among so many events of the Nexmark benchmark, with the columns that the operator
/// reads.
pub(crate) fn bids(spec: &OperatorSpec, events: usize, rows: usize) -> Result<Vec<Batch>> {
    const BASE_TIME_MS: u64 = 1_700_000_000_000;
    let config = NexmarkConfig { base_time: BASE_TIME_MS, ..NexmarkConfig::default() };
    let mut bids = Vec::new();
    for (seq, event) in EventGenerator::new(config).take(events).enumerate() {
        if let Event::Bid(bid) = event {
            bids.push([bid.auction, bid.bidder, bid.price, bid.date_time as usize, seq]);
        }
    }
    let fields = &spec.inputs.first().context("there is an input")?.fields;
    let batch = |bids: &[[usize; 5]]| {
        let values = |at: usize| bids.iter().map(move |bid| bid[at] as i64);
        let column = |name: &str| -> Result<ArrayRef> {
            let names = ["auction", "bidder", "price", "date_time", "seq"];
            let at = names.iter().position(|known| *known == name).context("a column of bids")?;
            Ok(if name == "date_time" {
                Arc::new(TimestampMillisecondArray::from_iter_values(values(at)))
            } else {
                Arc::new(Int64Array::from_iter_values(values(at)))
            })
        };
        let columns = fields.iter().map(|field| column(&field.name)).collect::<Result<_>>()?;
        Batch::new(spec, columns, values(3).collect())
    };
    bids.chunks(rows).map(batch).collect()
}

/// What came out of a contestant.
pub(crate) type Emitted = Vec<(RecordBatch, Vec<i64>)>;

/// Hands over batches whose keys are known already. Gives what it cost, and what came out of the
/// last batch.
pub(crate) fn echo_round(
    contestant: &mut Contestant,
    batches: &[Batch],
    passes: usize,
) -> Result<(Cost, Emitted)> {
    let keys = batches.iter().map(Batch::keys).collect::<Result<Vec<_>>>()?;
    let mut calls = Vec::new();
    for _ in 0..passes {
        calls.extend(batches.iter().zip(&keys).map(|(batch, (keys, row_keys))| Call {
            batch: &batch.rows,
            timestamps: &batch.timestamps,
            keys: keys.clone(),
            row_keys,
        }));
    }
    let mut emitted = None;
    let stopwatch = Stopwatch::start();
    for call in calls {
        emitted = Some(contestant.operator.process(call).with_context(|| contestant.name)?);
    }
    Ok((stopwatch.cost(), emitted.into_iter().collect()))
}

/// Fails unless all contestants emitted the same.
pub(crate) fn check_same(of: &[(&'static str, Emitted)]) -> Result<()> {
    let Some(((first, expected), others)) = of.split_first() else { return Ok(()) };
    ensure!(!expected.is_empty(), "{first} emitted nothing");
    for (name, emitted) in others {
        ensure!(emitted == expected, "{name} emitted something else than {first}");
    }
    Ok(())
}

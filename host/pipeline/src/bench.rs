//! The keyed exchange by itself, between sources that have read everything before and operators that
//! drop what they get. For `benches/exchange` alone.

use crate::clock;
use crate::error::{Error, Result};
use crate::exchange::Exchange;
use crate::gate::{Arrival, Gate, Nothing, Start};
use crate::launch::SUBTASK_QUEUE;
use crate::lines::{Lines, Origin};
use crate::meter::Meter;
use crate::nexmark::NexmarkEvents;
use crate::outlet::{Outlet, Outlets, Target};
use crate::progress::Counters;
use crate::reader::BATCH_ROWS;
use crate::subtask::PortPending;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use crossbeam_channel::{bounded, unbounded};
use howdah_runtime::Output;
use howdah_state::{Column, ColumnType, KeyGroups};
use std::sync::Arc;

/// Batches that are sent over and over: as much as a cache does not hold.
const BATCHES: usize = 32;

const KEY_GROUPS: u32 = 1_024;

/// `event_type` of a bid.
const BID: i32 = 2;

/// Bids of the Nexmark benchmark as the operator `last-bid` takes them, with its key.
#[derive(Debug, Clone)]
pub struct Bids {
    fields: Vec<Column>,
    key: Vec<usize>,
    batches: Arc<Vec<(Output, Lines)>>,
}

impl Bids {
    /// Generates them.
    ///
    /// # Errors
    /// None that is known.
    pub fn generate() -> Result<Self> {
        let fields = vec![
            Column::required("auction", ColumnType::Int64),
            Column::required("bidder", ColumnType::Int64),
            Column::required("price", ColumnType::Int64),
            Column::required("date_time", ColumnType::TimestampMillis),
            Column::required("seq", ColumnType::Int64),
        ];
        let mut events = NexmarkEvents::from(0);
        let origin = Arc::new(Origin::of_lines("events.csv"));
        let mut batches = Vec::new();
        for _ in 0..BATCHES {
            let batch = bids(&events.batch(BATCH_ROWS)?, &fields)?;
            let rows = batch.num_rows();
            let lines = Lines::new(&origin, (1..).take(rows).collect());
            let timestamps = vec![0; rows];
            batches.push((Output { port: 0, batch, timestamps, row_kinds: None }, lines));
        }
        Ok(Self { fields, key: vec![1, 0], batches: Arc::new(batches) })
    }

    /// Sends so many batches from each of the producers, each in a thread, to so many subtasks. Gives
    /// the number of rows that arrived.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn exchange(&self, producers: usize, subtasks: u32, batches: usize) -> Result<usize> {
        let groups = KeyGroups::new(KEY_GROUPS, subtasks)?;
        let (arrived, arrivals) = unbounded();
        // Disconnected when all rows have arrived.
        let (over, is_over) = bounded::<()>(0);
        let mut inlets: Vec<Vec<_>> = (0..subtasks).map(|_| Vec::new()).collect();
        let mut threads = Vec::new();
        for _ in 0..producers {
            let mut senders = Vec::new();
            for inlets in &mut inlets {
                let (sender, receiver) = bounded(SUBTASK_QUEUE);
                senders.push(sender);
                inlets.push((Start { port: 0, watermark: i64::MIN, ended: false }, receiver));
            }
            let exchange = Exchange::new(&self.fields, self.key.clone(), groups.clone())?;
            let mut outlets = self.outlets(Target::Operator { exchange, subtasks: senders });
            let (bids, is_over) = (Arc::clone(&self.batches), is_over.clone());
            threads.push(clock::spawn("producer", move || {
                // The end of a channel before that is a failure, which the subtasks tell of.
                if send(&bids, &mut outlets, batches).is_ok() {
                    let _ = is_over.recv();
                }
            })?);
        }
        for inlets in inlets {
            let (gate, arrived) = (Gate::new(inlets, i64::MIN), arrived.clone());
            threads.push(clock::spawn("subtask", move || {
                let _ = arrived.send(gather(gate));
            })?);
        }
        drop(arrived);
        let rows: Result<usize> = arrivals.iter().sum();
        drop(over);
        for thread in threads {
            thread.join().map_err(|_| Error::internal("a thread of the exchange panicked"))?;
        }
        rows
    }

    fn outlets(&self, to: Target) -> Outlets {
        let counters = Arc::new(Counters::new(1));
        let outlet = Outlet {
            output: 0,
            columns: (0..self.fields.len()).collect(),
            schema: schema(&self.fields),
            to,
        };
        let meter = Meter::new("exchange", counters.tally("source", 0));
        Outlets { outlets: vec![outlet], read_at: Some(clock::now()), counters, meter }
    }
}

/// The bids of a batch of events, as these columns.
fn bids(events: &RecordBatch, fields: &[Column]) -> Result<RecordBatch> {
    let kinds = column(events, "event_type")?.as_primitive::<Int32Type>();
    let is_bid: BooleanArray = kinds.iter().map(|kind| Some(kind == Some(BID))).collect();
    let bids = filter_record_batch(events, &is_bid)?;
    let columns = fields.iter().map(|field| column(&bids, &field.name).map(Arc::clone));
    Ok(RecordBatch::try_new(schema(fields), columns.collect::<Result<_>>()?)?)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    let column = batch.column_by_name(name);
    column.ok_or_else(|| Error::internal(format!("events have no column `{name}`")))
}

fn schema(fields: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(Column::to_arrow).collect::<Vec<_>>()))
}

/// As a source sends what it has read.
fn send(bids: &[(Output, Lines)], outlets: &mut Outlets, batches: usize) -> Result<()> {
    for (rows, lines) in bids.iter().cycle().take(batches) {
        if outlets.rows(rows, lines)?.is_break() {
            return Ok(());
        }
    }
    // Whether anybody is left to hear of it shows there.
    let _ = outlets.end();
    Ok(())
}

/// As a subtask gathers rows for its operator. Gives their number.
fn gather(mut gate: Gate) -> Result<usize> {
    let mut pending = PortPending::default();
    let mut count = 0;
    let mut drop_rows = |pending: &mut PortPending| -> Result<()> {
        count += pending.take()?.map_or(0, |rows| rows.batch.num_rows());
        Ok(())
    };
    loop {
        match gate.try_receive()? {
            Ok(Arrival::Rows { rows, .. }) => {
                if pending.is_full(&rows, BATCH_ROWS) {
                    drop_rows(&mut pending)?;
                }
                pending.push(rows);
            }
            Ok(Arrival::End) => break,
            Ok(_) => {}
            Err(Nothing::Yet) => {
                drop_rows(&mut pending)?;
                gate.wait(None);
            }
            Err(Nothing::Ever) => return Err(Error::internal("a producer has failed")),
        }
    }
    drop_rows(&mut pending)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_that_is_sent_arrives() {
        let bids = Bids::generate().expect("bids");
        let sent: usize = bids.batches.iter().take(3).map(|(rows, _)| rows.batch.num_rows()).sum();
        assert!(sent > 2 * BATCH_ROWS, "most events are bids");
        assert_eq!(bids.exchange(2, 3, 3).expect("exchanged"), 2 * sent);
    }
}

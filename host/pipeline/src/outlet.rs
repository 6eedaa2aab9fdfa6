//! Where the rows of a source, or of a subtask, go.

use crate::error::{Error, Result};
use crate::exchange::{Exchange, Message, Rows};
use crate::lines::Lines;
use crate::meter::Meter;
use crate::progress::Counters;
use crate::sink::SinkMessage;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use crossbeam_channel::{Sender, TrySendError};
use howdah_runtime::Output;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// The way of the rows of one output to one consumer.
#[derive(Debug)]
pub(crate) struct Outlet {
    /// Of which output.
    pub(crate) output: u32,
    /// For each field of the consumer the column that it takes.
    pub(crate) columns: Vec<usize>,
    /// The fields of the consumer.
    pub(crate) schema: SchemaRef,
    pub(crate) to: Target,
}

/// The other end.
#[derive(Debug)]
pub(crate) enum Target {
    /// The subtasks of an operator.
    Operator { exchange: Exchange, subtasks: Vec<Sender<Message>> },
    /// A sink, which knows the producers by number.
    Sink { producer: u32, channel: Sender<SinkMessage> },
}

/// The ways of all rows of a producer. Receivers are gone only when the pipeline fails, which is
/// the `Break` of all that is sent.
#[derive(Debug)]
pub(crate) struct Outlets {
    pub(crate) outlets: Vec<Outlet>,
    /// When a source began to read what the rows that are sent come of; `None`: they come of no rows.
    pub(crate) read_at: Option<Instant>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) meter: Meter,
}

impl Outlets {
    /// Rows of an output, and of a source where each is.
    pub(crate) fn rows(&mut self, rows: &Output, lines: &Lines) -> Result<ControlFlow<()>> {
        if rows.batch.num_rows() == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        self.meter.rows_out(rows.batch.num_rows());
        for outlet in self.outlets.iter_mut().filter(|outlet| outlet.output == rows.port) {
            let origin = (lines, self.read_at);
            if outlet.rows((rows, origin), &self.counters, &mut self.meter)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The watermark has risen. Sinks do not need it.
    pub(crate) fn watermark(&mut self, watermark: i64) -> ControlFlow<()> {
        self.meter.watermark(watermark);
        self.tell(|| Message::Watermark(watermark))
    }

    /// No rows come for a while.
    pub(crate) fn idle(&mut self) -> ControlFlow<()> {
        self.tell(|| Message::Idle)
    }

    /// There are no more rows.
    pub(crate) fn end(&mut self) -> ControlFlow<()> {
        self.tell(|| Message::End)
    }

    /// What was sent before belongs to the checkpoint.
    pub(crate) fn barrier(&mut self, checkpoint: u64, last: bool) -> ControlFlow<()> {
        for outlet in &self.outlets {
            let Target::Sink { producer, channel } = &outlet.to else { continue };
            let barrier = SinkMessage::Barrier { subtask: *producer, checkpoint };
            if send(channel, barrier, &mut self.meter).is_break() {
                return ControlFlow::Break(());
            }
        }
        self.tell(|| Message::Barrier { checkpoint, last })
    }

    /// Tells all subtasks of all operators, also those that got no rows.
    fn tell(&mut self, message: impl Fn() -> Message) -> ControlFlow<()> {
        for outlet in &self.outlets {
            let Target::Operator { subtasks, .. } = &outlet.to else { continue };
            for subtask in subtasks {
                if send(subtask, message(), &mut self.meter).is_break() {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Outlet {
    fn rows(
        &mut self,
        (rows, (lines, read_at)): (&Output, (&Lines, Option<Instant>)),
        counters: &Counters,
        meter: &mut Meter,
    ) -> Result<ControlFlow<()>> {
        let batch = project(&rows.batch, &self.columns, &self.schema)?;
        match &mut self.to {
            Target::Operator { exchange, subtasks } => {
                let kinds = rows.row_kinds.as_deref();
                let split = exchange.split(&batch, &rows.timestamps, kinds, lines)?;
                for (subtask, rows) in subtasks.iter().zip(split) {
                    let Some(rows) = rows else { continue };
                    let rows = Message::Rows(Rows { read_at, ..rows });
                    if send(subtask, rows, meter).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Target::Sink { producer, channel } => {
                counters.rows_out.add(batch.num_rows());
                let output = Output { port: 0, batch, ..rows.clone() };
                let rows = SinkMessage::Rows { subtask: *producer, outputs: vec![output], read_at };
                return Ok(send(channel, rows, meter));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Sends, and counts the time that it takes until there is room.
fn send<T>(channel: &Sender<T>, message: T, meter: &mut Meter) -> ControlFlow<()> {
    match channel.try_send(message) {
        Ok(()) => ControlFlow::Continue(()),
        Err(TrySendError::Disconnected(_)) => ControlFlow::Break(()),
        Err(TrySendError::Full(message)) => match meter.blocked(|| channel.send(message)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        },
    }
}

/// These columns of a batch, as the types that are wanted.
fn project(batch: &RecordBatch, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
    let mut projected = Vec::with_capacity(columns.len());
    for (field, index) in schema.fields().iter().zip(columns) {
        let column = batch.columns().get(*index);
        let column = column.ok_or_else(|| Error::internal("a batch lacks a column"))?;
        projected.push(if column.data_type() == field.data_type() {
            ArrayRef::clone(column)
        } else {
            arrow_cast::cast(column, field.data_type())?
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(SchemaRef::clone(schema), projected, &options)?)
}

//! One subtask: gathers rows into batches, calls its operator, and lets barriers through.

use crate::clock;
use crate::coordinator::Report;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Rows, key_columns};
use crate::failure::Failure;
use crate::gate::{Arrival, Gate, Nothing};
use crate::isolation::{FailedRows, isolate};
use crate::lines::Lines;
use crate::outlet::Outlets;
use crate::progress::Counters;
use crate::trace::CheckpointSpan;
use arrow_array::RecordBatch;
use crossbeam_channel::Sender;
use howdah_runtime::{Input, Instance, Output};
use howdah_state::KeyBatch;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A subtask and its channels.
pub(crate) struct Subtask {
    /// Of which operator.
    pub(crate) operator: usize,
    pub(crate) instance: Instance,
    /// For each input the indices of the key columns, in key order.
    pub(crate) keys: Vec<Vec<usize>>,
    pub(crate) gate: Gate,
    pub(crate) outlets: Outlets,
    pub(crate) reports: Sender<Report>,
    pub(crate) counters: Arc<Counters>,
    /// The checkpoint that the operator knows to be complete; 0: none.
    pub(crate) completed: u64,
    /// Where rows and timers go that the operator fails on; `None`: its failure is the
    /// pipeline's.
    pub(crate) failed_rows: Option<FailedRows>,
    /// Whether timers fire one at a time, to find the one that the operator fails on.
    pub(crate) timers_singled: bool,
    /// Whether the operator goes by the watermark: what it sets off must be in its place between
    /// the rows.
    pub(crate) heeds_watermark: bool,
    /// Whether those who take the rows know that it is idle.
    pub(crate) idle: bool,
    /// Rows that are gathered for one call of the operator.
    pub(crate) batch_rows: usize,
    /// How long rows wait for more, at most.
    pub(crate) batch_wait: Duration,
    pub(crate) checkpoint_span: CheckpointSpan,
    pub(crate) failure: Arc<Failure>,
}

/// What waits for more rows, or behind them.
#[derive(Debug, Default)]
struct Pending {
    /// For each input.
    ports: Vec<PortPending>,
    /// The watermark that is to be passed on behind the rows that wait.
    watermark: Option<i64>,
    /// Since when the first of them waits.
    since: Option<Instant>,
}

/// Rows of an input that wait for more.
#[derive(Debug, Default)]
pub(crate) struct PortPending {
    rows: Vec<Rows>,
    count: usize,
    bytes: usize,
}

/// Rows of as many bytes are not put together with others, however few they are: they are copied
/// into the memory of the operator, which has a limit.
const GATHERED_LIMIT_BYTES: usize = 8 << 20;

/// Wait of a subtask for messages, at most, when something else can happen meanwhile: a timer
/// comes due, or a checkpoint is complete.
const WAIT_LIMIT: Duration = Duration::from_millis(100);

impl Subtask {
    /// Runs until the last barrier, a failure, or the end of those it talks to.
    pub(crate) fn run(mut self) -> Result<()> {
        let ports = self.keys.iter().map(|_| PortPending::default()).collect();
        let mut pending = Pending { ports, watermark: None, since: None };
        while !self.failure.is_raised() {
            self.tell_of_checkpoint()?;
            let flow = match self.receive(&pending)? {
                Ok(Arrival::Rows { port, rows }) => {
                    if self.wake(rows.watermark).is_break() {
                        break;
                    }
                    self.gather(&mut pending, port, rows)?
                }
                Ok(Arrival::Watermark(watermark)) => self.watermark(&mut pending, watermark)?,
                Ok(Arrival::Idle(watermark)) => self.idle(&mut pending, watermark)?,
                Ok(Arrival::Barrier { checkpoint, last }) => {
                    self.barrier(&mut pending, checkpoint, last)?
                }
                Ok(Arrival::End) => self.end(&mut pending)?,
                Err(Nothing::Yet) => self.flush(&mut pending)?,
                // A producer ends without a last barrier only when the pipeline fails.
                Err(Nothing::Ever) => ControlFlow::Break(()),
            };
            if flow.is_break() {
                break;
            }
        }
        self.counters.watermark_regressions.add_u64(self.gate.regressions());
        Ok(())
    }

    /// What arrives next. Waits for it, but not longer than rows may wait to be processed, nor past
    /// the time at which something else is to be done.
    fn receive(&mut self, pending: &Pending) -> Result<Result<Arrival, Nothing>> {
        let found = self.gate.try_receive()?;
        let left = pending.wait_left(self.batch_wait);
        if !matches!(found, Err(Nothing::Yet)) || left.is_some_and(|left| left.is_zero()) {
            return Ok(found);
        }
        let timer = self.instance.next_timer_in_ms()?.map(Duration::from_millis);
        let other = match timer {
            Some(timer) => Some(timer.min(WAIT_LIMIT)),
            None => self.instance.handlers().checkpoint.then_some(WAIT_LIMIT),
        };
        let wait = [left, other].into_iter().flatten().min();
        let Self { gate, outlets, .. } = self;
        outlets.meter.idle(|| gate.receive(wait))
    }

    /// Tells the operator of the newest complete checkpoint. All that are complete have passed
    /// it: they need its barrier.
    fn tell_of_checkpoint(&mut self) -> Result<()> {
        let checkpoint = self.counters.checkpoint.get();
        if checkpoint > self.completed {
            self.completed = checkpoint;
            let told = self.instance.on_checkpoint_complete(checkpoint);
            let Some(failed_rows) = &mut self.failed_rows else { return Ok(told?) };
            if let Err(error) = undone(&mut self.instance, told.map_err(Error::from))? {
                self.counters.rows_isolated.add(1);
                failed_rows.add_call("on-checkpoint-complete", "checkpoint", checkpoint, error)?;
            }
        }
        Ok(())
    }

    /// What came before the watermark is processed before anything that it sets off, and before it
    /// is passed on.
    fn watermark(&mut self, pending: &mut Pending, watermark: i64) -> Result<ControlFlow<()>> {
        self.idle = false;
        pending.watermark = Some(watermark);
        if self.heeds_watermark || pending.is_empty() {
            return self.flush(pending);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Those who take the rows do not wait for them, either.
    fn idle(&mut self, pending: &mut Pending, watermark: i64) -> Result<ControlFlow<()>> {
        pending.watermark = Some(watermark);
        if self.flush(pending)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.idle = true;
        Ok(self.outlets.idle())
    }

    /// Rows have come: those who take what comes of them wait for the watermark again.
    fn wake(&mut self, watermark: i64) -> ControlFlow<()> {
        if std::mem::take(&mut self.idle) {
            self.outlets.watermark(watermark)
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Lets timers fire, and tells the operator of the watermark when none is left.
    fn run_due(&mut self) -> Result<ControlFlow<()>> {
        while let Some(outputs) = self.run_next_due()? {
            if self.emit(&outputs)?.is_break() || self.failure.is_raised() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Lets the next timers fire. Where failures are isolated, one that the operator fails on is
    /// set aside.
    fn run_next_due(&mut self) -> Result<Option<Vec<Output>>> {
        let Some(failed_rows) = &mut self.failed_rows else {
            return self.instance.run_due().map_err(|error| could_be_isolated(error, "timers"));
        };
        let due = self.instance.run_due().map_err(Error::from);
        let error = match undone(&mut self.instance, due)? {
            Ok(outputs) => {
                if outputs.is_none() && std::mem::take(&mut self.timers_singled) {
                    self.instance.limit_timers(None)?;
                }
                return Ok(outputs);
            }
            Err(error) => error,
        };
        if let Some(watermark) = self.instance.discard_watermark() {
            self.counters.rows_isolated.add(1);
            failed_rows.add_call("on-watermark", "watermark", watermark, error)?;
            return Ok(Some(Vec::new()));
        }
        if !std::mem::replace(&mut self.timers_singled, true) {
            // It was one of many: one at a time, it is found.
            self.instance.limit_timers(Some(1))?;
            return Ok(Some(Vec::new()));
        }
        self.timers_singled = false;
        // Nothing but a timer can be set aside.
        let Some(timers) = self.instance.discard_due()? else { return Err(error) };
        self.counters.rows_isolated.add(timers.times.len());
        failed_rows.add_timers(&timers, error)?;
        self.instance.limit_timers(None)?;
        Ok(Some(Vec::new()))
    }

    fn gather(&mut self, pending: &mut Pending, port: u32, rows: Rows) -> Result<ControlFlow<()>> {
        let batch_rows = self.batch_rows;
        let flow = if pending.port(port).is_some_and(|port| port.is_full(&rows, batch_rows)) {
            self.flush(pending)?
        } else {
            ControlFlow::Continue(())
        };
        if !self.batch_wait.is_zero() {
            pending.since.get_or_insert_with(clock::now);
        }
        let Some(pending) = pending.port(port) else {
            return Err(Error::internal(format!("rows of the input {port}, which there is not")));
        };
        pending.push(rows);
        Ok(flow)
    }

    /// Hands what was gathered to the operator, does what is due then, and passes the watermark on.
    fn flush(&mut self, pending: &mut Pending) -> Result<ControlFlow<()>> {
        pending.since = None;
        for (port, rows) in (0..).zip(&mut pending.ports) {
            let Some(rows) = rows.take()? else { continue };
            if self.process(port, rows)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let watermark = pending.watermark.take();
        if let Some(watermark) = watermark {
            self.instance.raise_watermark(watermark);
        }
        if self.run_due()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(watermark.map_or(ControlFlow::Continue(()), |it| self.outlets.watermark(it)))
    }

    fn process(&mut self, port: u32, rows: Rows) -> Result<ControlFlow<()>> {
        self.counters.batches.add(1);
        self.outlets.meter.rows_in(rows.batch.num_rows());
        let read_at = rows.read_at;
        let Self { instance, keys, failed_rows, counters, .. } = self;
        let key = usize::try_from(port).ok().and_then(|port| keys.get(port));
        let key = key.map(Vec::as_slice).unwrap_or_default();
        instance.raise_watermark(rows.watermark);
        let outputs = match failed_rows {
            None => {
                let outputs = with_input(port, &rows, key, |input| instance.process(input))?;
                outputs
                    .map_err(|error| could_be_isolated(with_lines(error, &rows.lines), "rows"))?
            }
            Some(failed_rows) => isolate(
                rows,
                |rows| {
                    let outputs = with_input(port, rows, key, |input| instance.process(input))?;
                    undone(instance, outputs.map_err(Error::from))
                },
                |row, error| {
                    counters.rows_isolated.add(1);
                    failed_rows.add_row(row, error)
                },
            )?,
        };
        self.outlets.read_at = read_at;
        let flow = self.emit(&outputs);
        self.outlets.read_at = None;
        flow
    }

    fn barrier(
        &mut self,
        pending: &mut Pending,
        checkpoint: u64,
        last: bool,
    ) -> Result<ControlFlow<()>> {
        let (operator, subtask) = self.outlets.meter.names();
        let span = self.checkpoint_span.barrier(checkpoint, operator, subtask);
        let _entered = span.entered();
        if self.flush(pending)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let outputs = self.instance.on_barrier(checkpoint);
        let outputs = outputs.map_err(|error| self.not_isolated(error))?;
        if self.emit(&outputs)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.instance.freeze(checkpoint)?;
        if let Some(failed_rows) = &mut self.failed_rows {
            failed_rows.seal(checkpoint)?;
        }
        let passed = self.outlets.barrier(checkpoint, last);
        let (operator, watermark) = (self.operator, self.gate.watermark());
        let reported = self.reports.send(Report::Frozen { checkpoint, operator, watermark });
        Ok(if last || passed.is_break() || reported.is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// There are no more rows, so every time has come.
    fn end(&mut self, pending: &mut Pending) -> Result<ControlFlow<()>> {
        // What rows that wait are late for comes before the end of time.
        if self.flush(pending)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.instance.raise_watermark(i64::MAX);
        if self.run_due()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let outputs = self.instance.close();
        let outputs = outputs.map_err(|error| self.not_isolated(error))?;
        if self.emit(&outputs)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(self.outlets.end())
    }

    /// What an operator flushes at a barrier or at the end is of rows that count as processed: to go
    /// on without it would lose them without a word, so its failure there is the pipeline's.
    fn not_isolated(&self, error: howdah_runtime::Error) -> Error {
        let error = Error::from(error);
        if self.failed_rows.is_none() || error.kind() != ErrorKind::Operator {
            return error;
        }
        error.with_hint(
            "policy = \"isolate\" does not hold here: what on-barrier and close flush is of rows that \
             were processed, which would be lost",
        )
    }

    fn emit(&mut self, outputs: &[Output]) -> Result<ControlFlow<()>> {
        for output in outputs {
            if self.outlets.rows(output, &Lines::default())?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Says which lines of a source the operator failed on.
fn with_lines(error: howdah_runtime::Error, lines: &Lines) -> Error {
    let error = Error::from(error);
    match lines.describe().filter(|_| error.kind() == ErrorKind::Operator) {
        Some(lines) => error.with_hint(format!("it was given {lines}")),
        None => error,
    }
}

/// Says how a pipeline gets past what its operator fails on.
fn could_be_isolated(error: impl Into<Error>, what: &str) -> Error {
    let error = error.into();
    if error.kind() != ErrorKind::Operator {
        return error;
    }
    error.with_hint(format!(
        "with policy = \"isolate\" in [operator.failure], {what} that it fails on are set aside, and \
         the others proceed"
    ))
}

/// When it is the operator that failed, that is the inner error, and a fresh instance of it goes on
/// from before the call.
fn undone<T>(instance: &mut Instance, result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::Operator => {
            instance.restart()?;
            Ok(Err(error))
        }
        other => other.map(Ok),
    }
}

/// Calls with rows as the operator takes them.
fn with_input<R>(
    port: u32,
    rows: &Rows,
    key: &[usize],
    call: impl FnOnce(Input<'_>) -> R,
) -> Result<R> {
    let columns = key_columns(&rows.batch, key)?;
    let (keys, row_keys) = KeyBatch::distinct(&columns, &rows.keys)?;
    Ok(call(Input {
        port,
        batch: &rows.batch,
        row_kinds: rows.row_kinds.as_deref(),
        timestamps: &rows.event_times,
        keys,
        row_keys: &row_keys,
    }))
}

impl Pending {
    /// How long the rows may still wait; `None`: there are none.
    fn wait_left(&self, limit: Duration) -> Option<Duration> {
        let left = |since: Instant| limit.saturating_sub(clock::now() - since);
        (!self.is_empty()).then(|| self.since.map(left).unwrap_or_default())
    }

    fn is_empty(&self) -> bool {
        self.ports.iter().all(|port| port.rows.is_empty())
    }

    fn port(&mut self, port: u32) -> Option<&mut PortPending> {
        self.ports.get_mut(usize::try_from(port).ok()?)
    }
}

impl PortPending {
    /// Whether these rows are too many for the batch of those that wait.
    pub(crate) fn is_full(&self, rows: &Rows, batch_rows: usize) -> bool {
        let bytes = rows.batch.get_array_memory_size();
        self.count > 0
            && (self.count + rows.batch.num_rows() > batch_rows
                || self.bytes.saturating_add(bytes) > GATHERED_LIMIT_BYTES)
    }

    pub(crate) fn push(&mut self, rows: Rows) {
        self.count += rows.batch.num_rows();
        self.bytes = self.bytes.saturating_add(rows.batch.get_array_memory_size());
        self.rows.push(rows);
    }

    /// All that waits, as one batch.
    pub(crate) fn take(&mut self) -> Result<Option<Rows>> {
        (self.count, self.bytes) = (0, 0);
        if self.rows.len() < 2 {
            return Ok(self.rows.pop());
        }
        let parts = std::mem::take(&mut self.rows);
        let Some(first) = parts.first() else { return Ok(None) };
        let schema = first.batch.schema();
        let batches: Vec<&RecordBatch> = parts.iter().map(|rows| &rows.batch).collect();
        let batch = arrow_select::concat::concat_batches(&schema, batches)?;
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Ok(None) };
        // The lowest watermark holds for all of them: none of their rows counts as late. None seems
        // quicker than the first of them, either.
        let mut whole = Rows { batch, ..first };
        for rows in parts {
            whole.read_at = whole.read_at.into_iter().chain(rows.read_at).min();
            whole.keys.append(&rows.keys).map_err(Error::from)?;
            whole.event_times.extend_from_slice(&rows.event_times);
            whole.lines.append(rows.lines);
            append_kinds(&mut whole, rows.row_kinds.as_deref(), rows.batch.num_rows());
        }
        Ok(Some(whole))
    }
}

/// The kind of rows that say none.
const INSERT: u8 = 0;

/// Appends the kinds of so many rows; those of one origin may have kinds while those of another are
/// all inserts. The batch has the rows already.
fn append_kinds(whole: &mut Rows, kinds: Option<&[u8]>, count: usize) {
    let before = whole.event_times.len().saturating_sub(count);
    match (&mut whole.row_kinds, kinds) {
        (None, None) => {}
        (Some(whole), Some(kinds)) => whole.extend_from_slice(kinds),
        (Some(whole), None) => whole.resize(before + count, INSERT),
        (none, Some(kinds)) => {
            let mut all = vec![INSERT; before];
            all.extend_from_slice(kinds);
            *none = Some(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};
    use howdah_state::{Column, ColumnType, KeyGroups};

    fn rows(values: &[i64], watermark: i64) -> Rows {
        let fields = [Column::required("key", ColumnType::Int64)];
        let groups = KeyGroups::new(128, 1).expect("key groups");
        let mut exchange = Exchange::new(&fields, vec![0], groups).expect("an exchange");
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let batch = RecordBatch::try_from_iter([("key", column)]).expect("a batch");
        let mut split = exchange
            .split(
                &batch,
                values,
                Some(&vec![2; values.len()]),
                &Lines::of("rows.csv", vec![7; values.len()]),
            )
            .expect("split");
        Rows { watermark, ..split.remove(0).expect("rows") }
    }

    #[test]
    fn gathered_rows_are_as_old_as_the_oldest_of_them() {
        let now = clock::now();
        let read = |at: Option<Duration>| Rows { read_at: at.map(|at| now + at), ..rows(&[1], 0) };
        let [soon, late] = [1, 2].map(Duration::from_secs);
        for (first, second, oldest) in [
            (Some(late), Some(soon), Some(soon)),
            (Some(soon), Some(late), Some(soon)),
            (None, Some(late), Some(late)),
            (None, None, None),
        ] {
            let mut pending =
                PortPending { rows: vec![read(first), read(second)], count: 2, bytes: 0 };
            let whole = pending.take().expect("one batch").expect("rows");
            assert_eq!(whole.read_at, oldest.map(|at| now + at));
        }
    }

    #[test]
    fn gathered_rows_become_one_batch_with_the_lowest_watermark() {
        let mut pending =
            PortPending { rows: vec![rows(&[1, 2], 10), rows(&[2], 20)], count: 3, bytes: 0 };
        let whole = pending.take().expect("one batch").expect("rows");
        let keys = whole.batch.column(0).as_primitive::<Int64Type>().values();
        assert_eq!(keys.as_ref(), [1, 2, 2]);
        assert_eq!((whole.keys.len(), whole.watermark), (3, 10));
        assert_eq!(whole.event_times, [1, 2, 2]);
        assert_eq!(whole.lines.describe().as_deref(), Some("3 rows, from line 7 to 7 of rows.csv"));
        assert_eq!(whole.row_kinds, Some(vec![2; 3]));
        assert!(pending.take().expect("nothing").is_none());
    }

    #[test]
    fn rows_without_kinds_are_inserts_beside_those_with_kinds() {
        let plain = |values: &[i64]| Rows { row_kinds: None, ..rows(values, 0) };
        for (parts, expected) in [
            (vec![plain(&[1, 2]), rows(&[3], 0)], Some(vec![0, 0, 2])),
            (vec![rows(&[3], 0), plain(&[1, 2])], Some(vec![2, 0, 0])),
            (vec![plain(&[1]), plain(&[2])], None),
        ] {
            let mut pending = PortPending { rows: parts, count: 3, bytes: 0 };
            let whole = pending.take().expect("one batch").expect("rows");
            assert_eq!(whole.row_kinds, expected);
        }
    }
}

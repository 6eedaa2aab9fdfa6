//! An operator at work: one subtask, on one thread.

use crate::bindings::operator as wit;
use crate::bindings::timer_handler::Due;
use crate::bindings::types::{BatchParam, BatchResult, ColumnParam, KeyColumnsParam};
use crate::buffers::{self, BufferError, Encoded};
use crate::component::Component;
use crate::exports::Handlers;
use crate::guest::{Guest, state_error};
use crate::host::{
    BudgetExceeded, CallScope, DueTimers, Subject, TIMERS_PER_CALL, Task, column_bytes,
};
use crate::limits::Limits;
use crate::metrics::InstanceMetrics;
use crate::spec::{OperatorSpec, OutputSpec, TimeDomain};
use crate::{Error, ErrorKind, Result};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::ToByteSlice;
use arrow_schema::SchemaRef;
use howdah_state::{Clock, KeyBatch, StateTable};
use std::fmt;
use std::sync::Arc;

/// Batches that one call may emit.
const OUTPUTS_LIMIT: usize = 1024;

/// Calls of `on-timers` in a row that may set timers which are due at once.
const SET_AGAIN_LIMIT: u32 = 20_000;

/// Where an instance finds itself; passed to the operator's `open`.
#[derive(Debug, Clone)]
pub struct Context {
    /// Name of the pipeline.
    pub pipeline: String,
    /// Name of the operator in the pipeline.
    pub operator: String,
    /// Which of the parallel subtasks this is, from 0.
    pub subtask: u32,
    /// How many subtasks there are.
    pub parallelism: u32,
    /// Key groups of the pipeline, over all subtasks.
    pub key_groups: u32,
    /// A JSON object.
    pub config: String,
    /// The checkpoint that the state comes from; `None` on a fresh start.
    pub restored_from: Option<u64>,
    /// The watermark of that checkpoint, in milliseconds since the Unix epoch; `i64::MIN` if
    /// there is none.
    pub watermark: i64,
    /// The clock that the operator and its processing-time timers go by.
    pub clock: Clock,
}

/// One subtask's operator, with its state. Used by one thread at a time; after an error it is
/// of no more use, and has given back its memory.
pub struct Instance {
    guest: Guest,
    component: Component,
    limits: Limits,
    /// Whether a call that fails leaves states and timers as they were before.
    is_transactional: bool,
    /// Whether each is a changelog, and its schema.
    inputs: Vec<(bool, SchemaRef)>,
    outputs: Vec<(OutputSpec, SchemaRef)>,
    handlers: Handlers,
    context: Arc<Context>,
    watermark: i64,
    /// The watermark that the operator was told last.
    announced: i64,
    /// Whether the last of what was due was the watermark, not timers.
    was_watermark: bool,
    watermark_regressions: u64,
    /// Calls of `on-timers` in a row that set timers which are due at once.
    set_again: u32,
    rows_in: u64,
    rows_out: u64,
}

/// Rows for an operator.
#[derive(Debug, Clone)]
pub struct Input<'a> {
    /// Index into `OperatorSpec::inputs`.
    pub port: u32,
    /// Has the input's fields in its order (`InputSpec::schema`).
    pub batch: &'a RecordBatch,
    /// 0 +I, 1 -U, 2 +U, 3 -D; `None`: all inserts.
    pub row_kinds: Option<&'a [u8]>,
    /// Event time of each row.
    pub timestamps: &'a [i64],
    /// The distinct keys of the rows, in the order in which rows first have them.
    pub keys: KeyBatch,
    /// For each row, which of `keys` it has.
    pub row_keys: &'a [u32],
}

/// Timers that were due and that the operator never heard of.
#[derive(Debug, Clone)]
pub struct DiscardedTimers {
    /// The name of their family.
    pub family: String,
    /// The key of each; no key comes twice.
    pub keys: KeyBatch,
    /// When each was due, in milliseconds since the Unix epoch.
    pub times: Vec<i64>,
}

/// Rows that an operator emitted on one output.
#[derive(Debug, Clone)]
pub struct Output {
    /// Index into `OperatorSpec::outputs`.
    pub port: u32,
    /// Has the schema of the output (`OutputSpec::schema`).
    pub batch: RecordBatch,
    /// Event time of each row.
    pub timestamps: Vec<i64>,
    /// 0 +I, 1 -U, 2 +U, 3 -D; `None`: all inserts.
    pub row_kinds: Option<Vec<u8>>,
}

impl Instance {
    pub(crate) fn open(
        component: &Component,
        spec: &OperatorSpec,
        context: Context,
        limits: &Limits,
        tables: &[StateTable],
    ) -> Result<Self> {
        let context = Arc::new(context);
        let subject = Subject::Subtask(Arc::clone(&context));
        let task = task(&subject, spec, &context, limits, tables)?;
        let mut guest = Guest::new(component, subject, limits, Some(task))?;
        call_open(&mut guest, &context)?;
        Ok(Self {
            guest,
            component: component.clone(),
            limits: limits.clone(),
            is_transactional: false,
            inputs: spec.inputs.iter().map(|input| (input.changelog, input.schema())).collect(),
            outputs: spec.outputs.iter().map(|o| (o.clone(), o.schema())).collect(),
            handlers: component.handlers(),
            watermark: context.watermark,
            announced: context.watermark,
            was_watermark: false,
            context,
            watermark_regressions: 0,
            set_again: 0,
            rows_in: 0,
            rows_out: 0,
        })
    }

    /// The next rows of an input. A batch without rows does not reach the operator.
    ///
    /// Timers that are due from then on fire with [`Self::run_due`].
    ///
    /// # Errors
    /// [`ErrorKind::Operator`], [`ErrorKind::Trap`], [`ErrorKind::Limit`] and
    /// [`ErrorKind::Buffer`] are the operator's doing, [`ErrorKind::State`] is the state
    /// store's; after each of them the instance is of no more use. [`ErrorKind::Host`] says
    /// that the arguments do not fit the operator's spec; it was not called.
    pub fn process(&mut self, input: Input<'_>) -> Result<Vec<Output>> {
        let rows = self.check_input(&input)?;
        if rows == 0 {
            return Ok(Vec::new());
        }
        let Input { port, batch, row_kinds, timestamps, keys, row_keys } = input;
        let keys = Arc::new(keys);
        let columns = Encoded::all(batch.columns())?;
        let columns: Vec<ColumnParam<'_>> = columns.iter().map(Encoded::as_param).collect();
        let key_columns = Encoded::all(keys.columns())?;
        let key_columns: Vec<ColumnParam<'_>> = key_columns.iter().map(Encoded::as_param).collect();
        let input = wit::Input {
            port,
            batch: BatchParam { rows, columns: &columns, row_kinds },
            timestamps: timestamps.to_byte_slice(),
            watermark: self.watermark,
            keys: key_columns_of(&keys, &key_columns),
            row_keys: row_keys.to_byte_slice(),
        };
        let scope = CallScope::Keys(Arc::clone(&keys));
        self.begin()?;
        let outputs = self
            .guest
            .call("process", scope, |exports, store| exports.operator.call_process(store, input))?;
        let outputs = self.take_outputs("process", outputs)?;
        self.commit()?;
        self.rows_in += u64::from(rows);
        Ok(outputs)
    }

    /// The watermark of all inputs: no row with an event time at or before it is expected any
    /// more. It never goes back: a lower one than before is counted and changes nothing. What is
    /// due then happens in [`Self::run_due`].
    pub fn raise_watermark(&mut self, watermark: i64) {
        if watermark < self.watermark {
            self.watermark_regressions += 1;
        } else {
            self.watermark = watermark;
        }
    }

    /// Does the next of what is due, and returns what that emitted; `None`: nothing is due. Call
    /// it until then, before rows or a barrier come after a watermark.
    ///
    /// First timers fire: those of event time at or before the watermark, then those of
    /// processing time at or before the clock's, in the order of their times; a key at most once
    /// in each call of the operator, so that what the first call does is known to the second.
    /// When none is left, the operator hears of the watermark, if it has risen.
    ///
    /// # Errors
    /// As for [`Self::process`].
    pub fn run_due(&mut self) -> Result<Option<Vec<Output>>> {
        self.begin()?;
        let due = self.take_due()?;
        let has_risen = self.announced < self.watermark;
        self.was_watermark = due.is_none() && has_risen && self.handlers.watermark;
        let outputs = match due {
            Some(due) => Some(self.on_timers(due)?),
            None if self.was_watermark => Some(self.on_watermark()?),
            None => None,
        };
        self.commit()?;
        Ok(outputs)
    }

    /// Milliseconds until the next timer of processing time is due, by the clock; `None`: none is
    /// set.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if timers cannot be read.
    pub fn next_timer_in_ms(&mut self) -> Result<Option<u64>> {
        let Some(task) = self.guest.host()?.task.as_mut() else { return Ok(None) };
        if task.timers.is_empty() {
            return Ok(None);
        }
        let now_ms = task.clock.now_ms();
        let next = task.next_ms(TimeDomain::ProcessingTime);
        let next = next.map_err(|error| self.timers_failed(error))?;
        Ok(next.map(|next| u64::try_from(next.saturating_sub(now_ms)).unwrap_or(0)))
    }

    fn take_due(&mut self) -> Result<Option<DueTimers>> {
        let watermark = self.watermark;
        let Some(task) = self.guest.host()?.task.as_mut() else { return Ok(None) };
        if task.timers.is_empty() {
            return Ok(None);
        }
        let due = task.take_due(watermark);
        due.map_err(|error| self.timers_failed(error))
    }

    fn timers_failed(&mut self, error: howdah_state::Error) -> Error {
        let error = state_error(self.guest.subject(), "its timers", error);
        self.guest.fail(error)
    }

    fn on_timers(&mut self, due: DueTimers) -> Result<Vec<Output>> {
        let DueTimers { timer, keys, times } = due;
        let keys = Arc::new(keys);
        let key_columns = Encoded::all(keys.columns())?;
        let key_columns: Vec<ColumnParam<'_>> = key_columns.iter().map(Encoded::as_param).collect();
        let due = Due {
            timer,
            keys: key_columns_of(&keys, &key_columns),
            times: times.to_byte_slice(),
            watermark: self.watermark,
        };
        let scope = CallScope::Timers(Arc::clone(&keys), self.watermark);
        let outputs = self.guest.call("on-timers", scope, |exports, store| {
            match &exports.timers {
                Some(handler) => handler.call_on_timers(store, due),
                // `describe` declared no timers then.
                None => Ok(Ok(Vec::new())),
            }
        })?;
        let outputs = self.take_outputs("on-timers", outputs)?;
        self.check_for_end()?;
        Ok(outputs)
    }

    /// Whether there is hope that one day no timer is due: at the end of the input, one that
    /// sets the next would go on for ever.
    fn check_for_end(&mut self) -> Result<()> {
        let host = self.guest.host()?;
        let Some(family) = host.call.set_again else {
            self.set_again = 0;
            return Ok(());
        };
        self.set_again += 1;
        if self.set_again < SET_AGAIN_LIMIT {
            return Ok(());
        }
        let family = host.task.as_ref().and_then(|task| task.timers.get(family));
        let family = family.map(|family| family.name.clone()).unwrap_or_default();
        let what = format!(
            "{} set timers `{family}` that were due already in {SET_AGAIN_LIMIT} calls of on-timers \
             in a row: at the end of the input the watermark is the greatest timestamp, and all \
             times have come",
            self.guest.subject()
        );
        Err(self.guest.fail(Error::new(ErrorKind::Limit, what)))
    }

    fn on_watermark(&mut self) -> Result<Vec<Output>> {
        let watermark = self.watermark;
        let outputs = self.guest.call("on-watermark", CallScope::Named, |exports, store| {
            match &exports.watermark {
                Some(handler) => handler.call_on_watermark(store, watermark),
                None => Ok(Ok(Vec::new())),
            }
        })?;
        let outputs = self.take_outputs("on-watermark", outputs)?;
        self.announced = watermark;
        Ok(outputs)
    }

    /// Which of the handlers the operator has.
    pub fn handlers(&self) -> Handlers {
        self.handlers
    }

    /// A checkpoint whose barrier passed the operator is complete. It hears of it if it has a
    /// handler for that.
    ///
    /// # Errors
    /// As for [`Self::process`].
    pub fn on_checkpoint_complete(&mut self, checkpoint: u64) -> Result<()> {
        if !self.handlers.checkpoint {
            return Ok(());
        }
        const FUNCTION: &str = "on-checkpoint-complete";
        self.begin()?;
        self.guest.call(
            FUNCTION,
            CallScope::ReadOnly(FUNCTION),
            |exports, store| match &exports.checkpoint {
                Some(handler) => handler.call_on_checkpoint_complete(store, checkpoint),
                None => Ok(Ok(())),
            },
        )?;
        self.commit()
    }

    /// The barrier of this checkpoint has reached the operator. Does not freeze the states:
    /// call `freeze` next.
    ///
    /// # Errors
    /// As for [`Self::process`].
    pub fn on_barrier(&mut self, checkpoint: u64) -> Result<Vec<Output>> {
        self.begin()?;
        let outputs = self.guest.call("on-barrier", CallScope::Named, |exports, store| {
            exports.operator.call_on_barrier(store, checkpoint)
        })?;
        let outputs = self.take_outputs("on-barrier", outputs)?;
        self.commit()?;
        Ok(outputs)
    }

    /// Freezes states and timers at this checkpoint's barrier.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if a state cannot go on.
    pub fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        let task = self.guest.host()?.task.as_mut();
        let frozen = task.map_or(Ok(()), |task| task.freeze(checkpoint));
        frozen.map_err(|error| {
            let error = state_error(self.guest.subject(), "the barrier", error);
            self.guest.fail(error)
        })
    }

    /// The input has ended.
    ///
    /// # Errors
    /// As for [`Self::process`].
    pub fn close(&mut self) -> Result<Vec<Output>> {
        self.begin()?;
        let outputs = self
            .guest
            .call("close", CallScope::Named, |exports, store| exports.operator.call_close(store))?;
        let outputs = self.take_outputs("close", outputs)?;
        self.commit()?;
        Ok(outputs)
    }

    /// From now on a call that fails is undone: states and timers are as they were before it, and
    /// [`Self::restart`] goes on from there. Each call then remembers what it changes, and the
    /// write buffer of a state may grow by 64 MiB past its limit during a call; a call that
    /// needs more than that fails.
    pub fn keep_state_on_failure(&mut self) {
        self.is_transactional = true;
        self.guest.keep_remains();
    }

    /// Goes on with a new instance of the component after a call failed: with the same states
    /// and timers, without what that call wrote to them. Calls `open`. Rows that the call had
    /// are for the caller to hand over again, or not; timers that it had are due again.
    ///
    /// # Errors
    /// [`ErrorKind::Host`] unless a call has failed, with [`Self::keep_state_on_failure`] before
    /// it; and as [`Component::instantiate`].
    pub fn restart(&mut self) -> Result<()> {
        let Some(remains) = self.guest.take_remains() else {
            let what = format!("{} has nothing to go on with", self.guest.subject());
            return Err(Error::new(ErrorKind::Host, what));
        };
        let subject = self.guest.subject().clone();
        self.guest = Guest::after(&self.component, subject, &self.limits, remains)?;
        self.guest.keep_remains();
        self.set_again = 0;
        call_open(&mut self.guest, &self.context)
    }

    /// How many timers are handed over in one call, at most; to find one that makes the operator
    /// fail. `None`: as many as are good for speed.
    ///
    /// # Errors
    /// [`ErrorKind::Operator`] and others after a failure: [`Self::restart`] first.
    pub fn limit_timers(&mut self, limit: Option<usize>) -> Result<()> {
        if let Some(task) = self.guest.host()?.task.as_mut() {
            task.timers_per_call = limit.unwrap_or(TIMERS_PER_CALL).max(1);
        }
        Ok(())
    }

    /// Takes the timers that [`Self::run_due`] would hand over next, and does not: the operator
    /// will never hear of them. `None`: none is due.
    ///
    /// # Errors
    /// [`ErrorKind::State`] if timers cannot be read.
    pub fn discard_due(&mut self) -> Result<Option<DiscardedTimers>> {
        let Some(due) = self.take_due()? else { return Ok(None) };
        let task = self.guest.host()?.task.as_ref();
        let index = usize::try_from(due.timer).unwrap_or(usize::MAX);
        let family = task.and_then(|task| task.timers.get(index));
        Ok(Some(DiscardedTimers {
            family: family.map(|family| family.name.clone()).unwrap_or_default(),
            keys: due.keys,
            times: due.times.to_vec(),
        }))
    }

    /// Lets the watermark pass that [`Self::run_due`] failed on: the operator hears of the next one,
    /// which stands for this one too. `None`: that did not fail on a watermark.
    pub fn discard_watermark(&mut self) -> Option<i64> {
        let discarded = std::mem::take(&mut self.was_watermark).then_some(self.watermark);
        self.announced = discarded.unwrap_or(self.announced);
        discarded
    }

    /// With transactions: what is written from here on can be rolled back.
    fn begin(&mut self) -> Result<()> {
        self.in_transaction("the beginning of a call", Task::begin)
    }

    fn commit(&mut self) -> Result<()> {
        self.in_transaction("the end of a call", Task::commit)
    }

    fn in_transaction(
        &mut self,
        when: &str,
        step: fn(&mut Task) -> howdah_state::Result<()>,
    ) -> Result<()> {
        if !self.is_transactional {
            return Ok(());
        }
        let task = self.guest.host()?.task.as_mut();
        task.map_or(Ok(()), step).map_err(|error| {
            let error = state_error(self.guest.subject(), when, error);
            self.guest.fail(error)
        })
    }

    /// What it did so far.
    pub fn metrics(&self) -> InstanceMetrics {
        InstanceMetrics {
            rows_in_total: self.rows_in,
            rows_out_total: self.rows_out,
            watermark_regressions_total: self.watermark_regressions,
            ..self.guest.metrics()
        }
    }

    /// What the caller passes must fit the spec. Returns the number of rows.
    fn check_input<'a>(&'a self, input: &'a Input<'_>) -> Result<u32> {
        let Input { port, batch, row_kinds, timestamps, keys, row_keys } = input;
        let subject = self.guest.subject();
        let wrong = |what: String| Err(Error::new(ErrorKind::Host, format!("{subject}: {what}")));
        let spec = usize::try_from(*port).ok().and_then(|port| self.inputs.get(port));
        let Some((changelog, schema)) = spec else {
            return wrong(format!("it has no input {port}"));
        };
        let given = batch.schema_ref();
        let types = |schema: &'a SchemaRef| schema.fields().iter().map(|field| field.data_type());
        if !Arc::ptr_eq(schema, given) && !types(schema).eq(types(given)) {
            return wrong(format!(
                "input {port} has other columns than the batch: {schema} is not {given}"
            ));
        }
        let rows = batch.num_rows();
        if timestamps.len() != rows || row_keys.len() != rows {
            return wrong(format!(
                "a batch of {rows} rows came with {} timestamps and {} key indices",
                timestamps.len(),
                row_keys.len()
            ));
        }
        if row_kinds.is_some_and(|kinds| kinds.len() != rows || kinds.iter().any(|kind| *kind > 3))
        {
            return wrong(format!("a batch of {rows} rows came with row kinds that are none"));
        }
        if row_kinds.is_some_and(|kinds| !changelog && kinds.iter().any(|kind| *kind != 0)) {
            return wrong(format!("input {port} takes inserts only, but has other row kinds"));
        }
        if !are_in_order(row_keys, keys.len()) {
            return wrong(format!(
                "{rows} rows do not have {} keys in the order in which rows first have them",
                keys.len()
            ));
        }
        u32::try_from(rows).or_else(|_| wrong(format!("a batch has {rows} rows, too many")))
    }

    fn take_outputs(&mut self, function: &str, outputs: Vec<wit::Output>) -> Result<Vec<Output>> {
        self.decode_outputs(outputs).map_err(|(kind, what)| {
            let subject = self.guest.subject();
            let error = Error::new(kind, format!("{subject} returned from {function}: {what}"));
            self.guest.fail(error)
        })
    }

    fn decode_outputs(
        &mut self,
        outputs: Vec<wit::Output>,
    ) -> Result<Vec<Output>, (ErrorKind, String)> {
        let host = self.guest.host().map_err(|error| (error.kind(), error.to_string()))?;
        let limits = &host.limits;
        if outputs.len() > OUTPUTS_LIMIT {
            let count = outputs.len();
            let what = format!("{count} batches in one call, more than {OUTPUTS_LIMIT}");
            return Err((ErrorKind::Limit, what));
        }
        let rows = outputs.iter().map(|output| u64::from(output.batch.rows)).sum::<u64>();
        if usize::try_from(rows).is_ok_and(|rows| rows > limits.batch_rows) {
            let limit = limits.batch_rows;
            let what = format!("{rows} rows in one call, more than {limit} (limits.batch-rows)");
            return Err((ErrorKind::Limit, what));
        }
        let bytes = outputs.iter().map(output_bytes).fold(0, usize::saturating_add);
        if host.call.take_bytes(bytes).is_err() {
            let what = format!("it {}", BudgetExceeded::describe(limits));
            return Err((ErrorKind::Limit, what));
        }
        self.rows_out += rows;
        outputs
            .into_iter()
            .map(|output| decode_output(&self.outputs, output))
            .collect::<Result<Vec<_>, String>>()
            .map_err(|what| (ErrorKind::Buffer, what))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("subject", self.guest.subject()).finish_non_exhaustive()
    }
}

fn call_open(guest: &mut Guest, context: &Context) -> Result<()> {
    let parameter = wit::Context {
        pipeline: &context.pipeline,
        operator: &context.operator,
        subtask: context.subtask,
        parallelism: context.parallelism,
        config: &context.config,
        restored_from: context.restored_from,
    };
    guest.call("open", CallScope::Named, |exports, store| {
        exports.operator.call_open(store, parameter)
    })
}

/// The keys, states and timers of the subtask.
fn task(
    subject: &Subject,
    spec: &OperatorSpec,
    context: &Context,
    limits: &Limits,
    tables: &[StateTable],
) -> Result<Task> {
    let declared = spec.states.len() + spec.timers.len();
    if tables.len() != declared {
        let given = tables.len();
        let what = format!("{subject} declares {declared} states and timers and was given {given}");
        return Err(Error::new(ErrorKind::Host, what));
    }
    Task::new(spec, context, limits, tables)
        .map_err(|error| Error::with_source(ErrorKind::Host, format!("{subject}: {error}"), error))
}

/// Whether the keys are numbered in the order in which rows first have them, and each has a row.
fn are_in_order(row_keys: &[u32], keys: usize) -> bool {
    if row_keys.len() == keys {
        // Several rows at a time: this is what batches of distinct keys are like.
        return row_keys.iter().zip(0..).fold(true, |ordered, (key, row)| ordered & (*key == row));
    }
    let mut next = 0;
    let mut ordered = true;
    for key in row_keys {
        ordered &= *key <= next;
        next = next.max(key.saturating_add(1));
    }
    ordered && usize::try_from(next).is_ok_and(|next| next == keys)
}

/// Keys as a parameter; `columns` are their columns.
fn key_columns_of<'a>(keys: &KeyBatch, columns: &'a [ColumnParam<'a>]) -> KeyColumnsParam<'a> {
    // No more keys than rows or timers.
    KeyColumnsParam { rows: u32::try_from(keys.len()).unwrap_or(u32::MAX), columns }
}

fn output_bytes(output: &wit::Output) -> usize {
    let BatchResult { columns, row_kinds, rows: _ } = &output.batch;
    column_bytes(columns)
        .saturating_add(row_kinds.as_ref().map_or(0, Vec::len))
        .saturating_add(output.timestamps.len())
}

fn decode_output(specs: &[(OutputSpec, SchemaRef)], output: wit::Output) -> Result<Output, String> {
    let port = output.port;
    let spec = usize::try_from(port).ok().and_then(|port| specs.get(port));
    let Some((spec, schema)) = spec else {
        return Err(format!("rows for output {port}, but describe declared {}", specs.len()));
    };
    let BatchResult { rows, columns, row_kinds } = output.batch;
    let rows = usize::try_from(rows).map_err(|error| error.to_string())?;
    let decode = || -> Result<_, BufferError> {
        let columns = buffers::columns(&spec.fields, rows, columns)?;
        let timestamps = buffers::timestamps(rows, output.timestamps)?;
        let row_kinds = row_kinds.map(|kinds| buffers::row_kinds(rows, kinds)).transpose()?;
        Ok((columns, timestamps, row_kinds))
    };
    let (columns, timestamps, row_kinds) =
        decode().map_err(|BufferError(what)| format!("output `{}`: {what}", spec.name))?;
    let changes = row_kinds.as_ref().and_then(|kinds| kinds.iter().position(|kind| *kind != 0));
    if let (false, Some(row)) = (spec.changelog, changes) {
        return Err(format!(
            "output `{}`: row {row} is no insert, but describe declares no changelog",
            spec.name
        ));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| format!("output `{}`: {error}", spec.name))?;
    Ok(Output { port, batch, timestamps, row_kinds })
}

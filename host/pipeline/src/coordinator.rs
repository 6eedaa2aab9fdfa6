//! Injects barriers and completes checkpoints.
//!
//! One checkpoint is in flight at a time. It is complete when every source has said where it
//! was, every sink has closed the files of all that write to it, and every state table has
//! published its snapshot; then its document is written, and what it stands for becomes visible.
//!
//! One that takes too long has failed. Its barrier goes on all the same, and what it would have made
//! visible belongs to the next one: a checkpoint stands for all that came before it.

use crate::checkpoint::{
    Checkpoint, Checkpoints, DeadLetterPosition, OperatorCheckpoint, Shape, SinkCheckpoint,
    SinkHandle, SourceCheckpoint, SourcePosition, StatePosition,
};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::failure::Failure;
use crate::handle::Event;
use crate::progress::Counters;
use crate::sink::Sink;
use crate::source;
use crate::summary::CheckpointSummary;
use crate::trace::{self, CheckpointSpan};
use crossbeam_channel::{Receiver, Sender, after, never, select};
use howdah_state::{StateEvent, StateTable};
use metrics::{counter, histogram};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tracing::Span;

/// Counts checkpoints that were given up.
const FAILED: &str = "howdah_pipeline_checkpoints_failed_total";

/// Checkpoints whose durations are remembered for the median.
const DURATIONS_LIMIT: usize = 10_000;

/// What a source is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Send a barrier; after the last one, end.
    Barrier {
        /// Of which checkpoint.
        checkpoint: u64,
        /// Whether nothing follows.
        last: bool,
    },
    /// A checkpoint is complete.
    Completed {
        /// Where the source was at its barrier.
        position: SourcePosition,
    },
    /// Read no more, as if the input were at its end.
    Drain,
}

/// What the coordinator is told.
#[derive(Debug)]
pub(crate) enum Report {
    /// A source has sent a barrier.
    Source {
        /// Of which checkpoint.
        checkpoint: u64,
        /// Which reader of all sources.
        reader: usize,
        /// Where it was.
        state: SourceState,
    },
    /// A reader is at the end of its source; it waits for the last barrier.
    SourceEnded,
    /// A subtask has let a barrier through.
    Frozen {
        /// Of which checkpoint.
        checkpoint: u64,
        /// Of which operator.
        operator: usize,
        /// Where it was; `i64::MIN`: it has none yet.
        watermark: i64,
    },
    /// A sink has prepared a producer's output at a barrier.
    Staged {
        /// Of which checkpoint.
        checkpoint: u64,
        /// Which sink.
        sink: usize,
        /// Of which producer.
        subtask: u32,
        /// The output; `None`: there were no rows.
        handle: Option<SinkHandle>,
    },
    /// Somebody wants the pipeline to stop.
    Stop,
    /// Somebody wants it to end as if its input did.
    Drain,
    /// Somebody wants a checkpoint that has all that was read until now.
    Checkpoint {
        /// Gets it once it is complete.
        done: Sender<HeldCheckpoint>,
    },
}

/// A completed checkpoint whose document and state stay while this is alive, as long as the pipeline
/// runs.
#[derive(Debug, Clone)]
pub struct HeldCheckpoint {
    /// What it consists of.
    pub checkpoint: Checkpoint,
    _hold: Arc<()>,
}

/// Where a source was at a barrier.
#[derive(Debug, Clone)]
pub(crate) struct SourceState {
    pub(crate) position: SourcePosition,
    pub(crate) watermark: Option<i64>,
    pub(crate) closed: bool,
    pub(crate) dead_letters: Option<DeadLetterPosition>,
}

impl SourceState {
    /// Where all readers of a source were, as one. Its watermark is theirs, of those that are not at
    /// their end, unless all are.
    fn merged(readers: Vec<Self>, name: &str) -> Result<SourceCheckpoint> {
        let closed = readers.iter().all(|reader| reader.closed);
        let open = readers.iter().filter(|reader| closed || !reader.closed);
        let watermark = open.map(|reader| reader.watermark).min().flatten();
        let positions: Vec<_> = readers.iter().map(|reader| reader.position.clone()).collect();
        Ok(SourceCheckpoint {
            name: name.to_owned(),
            position: source::merge(&positions)?,
            closed,
            watermark,
            dead_letters: readers.into_iter().find_map(|reader| reader.dead_letters),
        })
    }
}

/// A table of an operator.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Which operator.
    pub(crate) operator: usize,
    /// The name that the operator declared.
    pub(crate) state: String,
    pub(crate) table: StateTable,
}

/// What the coordinator works with.
pub(crate) struct Links {
    /// One for each reader.
    pub(crate) commands: Vec<Sender<Command>>,
    pub(crate) reports: Receiver<Report>,
    pub(crate) state_events: Receiver<StateEvent>,
    pub(crate) events: Sender<Event>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) checkpoint_span: CheckpointSpan,
    pub(crate) failure: Arc<Failure>,
}

/// What does not change during a run.
pub(crate) struct Settings {
    pub(crate) interval: Duration,
    /// From the end of one checkpoint to the barrier of the next, at least.
    pub(crate) least_pause: Duration,
    /// How long a checkpoint may take.
    pub(crate) timeout: Duration,
    /// How many may take longer one after the other.
    pub(crate) tolerated_failures: u32,
    /// How many completed checkpoints are kept.
    pub(crate) retained: usize,
    pub(crate) shape: Shape,
    /// For each operator what a document says of it, but for its states.
    pub(crate) operators: Vec<OperatorCheckpoint>,
    /// Subtasks of all operators.
    pub(crate) subtasks: usize,
    /// For each reader its source.
    pub(crate) readers: Vec<usize>,
    /// For each sink how many write to it.
    pub(crate) producers: Vec<usize>,
}

/// A completed checkpoint that is kept.
#[derive(Debug)]
pub(crate) struct Retained {
    /// Its number.
    pub(crate) id: u64,
    /// Tables and their snapshots.
    pub(crate) snapshots: Vec<(String, i64)>,
}

impl Retained {
    pub(crate) fn of(checkpoint: &Checkpoint) -> Self {
        let snapshots = checkpoint.states().map(|state| (state.table.clone(), state.snapshot));
        Self { id: checkpoint.id, snapshots: snapshots.collect() }
    }
}

/// Drives the checkpoints of a run.
pub(crate) struct Coordinator {
    links: Links,
    settings: Settings,
    tables: Vec<Table>,
    checkpoints: Checkpoints,
    /// One for each sink.
    sinks: Vec<Box<dyn Sink>>,
    /// Oldest first.
    retained: VecDeque<Retained>,
    next_id: u64,
    in_flight: Option<InFlight>,
    /// Who waits for the next checkpoint that begins.
    requested: Vec<Sender<HeldCheckpoint>>,
    /// Checkpoints that somebody holds.
    held: Vec<(u64, Weak<()>)>,
    /// Those that have failed since the last one was complete, oldest first. Reports of them come
    /// before those of the one in flight.
    failed: Vec<InFlight>,
    /// When the next barrier is due.
    due: Instant,
    /// No barrier but the last follows.
    ending: bool,
    /// The sources were told to read no more.
    draining: bool,
    /// Readers that are at the end of their source.
    readers_ended: usize,
    durations_ms: VecDeque<u64>,
    summary: CheckpointSummary,
}

/// What is known of the checkpoint in flight.
struct InFlight {
    id: u64,
    last: bool,
    begun: Instant,
    span: Span,
    /// Who waits for it.
    requested: Vec<Sender<HeldCheckpoint>>,
    /// One for each reader.
    readers: Vec<Option<SourceState>>,
    frozen: usize,
    /// For each operator the highest of its subtasks: none of them goes back, also when they are more
    /// or fewer.
    watermarks: Vec<i64>,
    /// For each sink what is prepared, with who writes it, and how many had nothing.
    staged: Vec<(Vec<(u32, SinkHandle)>, usize)>,
    /// Each with the number of its operator.
    states: Vec<(usize, StatePosition)>,
}

impl InFlight {
    fn age(&self) -> Duration {
        clock::now() - self.begun
    }
}

/// How the coordinator's run ended.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The last checkpoint of the run is complete.
    pub(crate) completed: bool,
    /// All sources were at their ends.
    pub(crate) source_ended: bool,
    pub(crate) checkpoints: CheckpointSummary,
}

impl Coordinator {
    /// `retained` are the checkpoints on disk, oldest first; `next_id` is the number of the
    /// first new one.
    pub(crate) fn new(
        links: Links,
        settings: Settings,
        tables: Vec<Table>,
        (checkpoints, sinks): (Checkpoints, Vec<Box<dyn Sink>>),
        retained: Vec<Retained>,
        next_id: u64,
    ) -> Self {
        let last = retained.last().map(|retained| retained.id);
        // What has not happened yet is counted, too.
        counter!(FAILED, "pipeline" => settings.shape.pipeline.clone()).increment(0);
        Self {
            due: clock::now() + settings.interval,
            links,
            settings,
            tables,
            checkpoints,
            sinks,
            retained: retained.into(),
            next_id,
            in_flight: None,
            requested: Vec::new(),
            held: Vec::new(),
            failed: Vec::new(),
            ending: false,
            draining: false,
            readers_ended: 0,
            durations_ms: VecDeque::new(),
            summary: CheckpointSummary { last, ..CheckpointSummary::default() },
        }
    }

    /// Runs until the last checkpoint is complete or the pipeline fails.
    pub(crate) fn run(mut self) -> Outcome {
        let ended = self.coordinate();
        let completed = matches!(ended, Ok(true));
        if let Err(error) = ended {
            // Before subtasks fail at their tables, which is not why.
            self.links.failure.raise(error);
        }
        if !completed {
            // A subtask may wait for a flush that will never come.
            self.tables.iter().for_each(|table| table.table.abort());
        }
        if let Some(flight) = &self.in_flight {
            self.summary.failed += 1;
            trace::fail(&flight.span, "the pipeline ended before it was complete");
        }
        let durations = self.durations_ms.make_contiguous();
        durations.sort_unstable();
        let middle = durations.get(durations.len() / 2);
        self.summary.duration_median_ms = middle.copied().unwrap_or_default();
        let source_ended = self.readers_ended == self.links.commands.len();
        Outcome { completed, source_ended, checkpoints: self.summary }
    }

    /// Whether the last checkpoint is complete.
    fn coordinate(&mut self) -> Result<bool> {
        loop {
            let due = self.ending || !self.requested.is_empty() || clock::now() >= self.due;
            if self.in_flight.is_none() && due {
                self.begin();
            }
            let timer = match &self.in_flight {
                // Nothing comes after the last one that could stand for it.
                Some(flight) if flight.last => never(),
                Some(flight) => after(self.settings.timeout.saturating_sub(flight.age())),
                None => after(self.due.saturating_duration_since(clock::now())),
            };
            select! {
                recv(self.links.failure.signal()) -> _ => return Ok(false),
                recv(self.links.reports) -> report => match report {
                    Ok(report) => self.take(report)?,
                    Err(_) => return Ok(false),
                },
                recv(self.links.state_events) -> event => match event {
                    Ok(event) => self.take_state(event)?,
                    Err(_) => return Err(Error::internal("the state store is gone")),
                },
                recv(timer) -> _ => self.give_up()?,
            }
            if self.in_flight.as_ref().is_some_and(|flight| self.is_complete(flight)) {
                let Some(flight) = self.in_flight.take() else { continue };
                let (last, span) = (flight.last, flight.span.clone());
                self.complete(flight)
                    .inspect_err(|error| trace::fail(&span, &error.to_string()))?;
                if last {
                    return Ok(true);
                }
            }
        }
    }

    /// Goes on without the checkpoint in flight if it takes too long, as often as is tolerated.
    fn give_up(&mut self) -> Result<()> {
        let timeout = self.settings.timeout;
        let late = |flight: &mut InFlight| !flight.last && flight.age() >= timeout;
        let Some(mut flight) = self.in_flight.take_if(late) else { return Ok(()) };
        self.requested.append(&mut flight.requested);
        self.summary.failed += 1;
        counter!(FAILED, "pipeline" => self.pipeline()).increment(1);
        let (id, missing) = (flight.id, self.missing(&flight));
        self.links.checkpoint_span.end();
        trace::fail(&std::mem::replace(&mut flight.span, Span::none()), &missing);
        self.failed.push(flight);
        let failed = u32::try_from(self.failed.len()).unwrap_or(u32::MAX);
        let (timeout, tolerated) = (timeout.as_millis(), self.settings.tolerated_failures);
        let message = format!("checkpoint {id} was not complete after {timeout} ms: {missing}");
        if failed > tolerated {
            let hint = format!(
                "that is {failed} in a row, and tolerated-failures in [checkpoint] is {tolerated}; \
                 see what is slow, or raise timeout-ms"
            );
            return Err(Error::new(ErrorKind::Operator, message).with_hint(hint));
        }
        tracing::warn!("{message}; the next one has what it would have had");
        self.due = self.due.max(clock::now() + self.settings.least_pause);
        Ok(())
    }

    /// For the labels of figures.
    fn pipeline(&self) -> String {
        self.settings.shape.pipeline.clone()
    }

    /// What a checkpoint waits for, in words.
    fn missing(&self, flight: &InFlight) -> String {
        let sources = flight.readers.iter().filter(|reader| reader.is_none()).count();
        let subtasks = self.settings.subtasks.saturating_sub(flight.frozen);
        let tables = self.tables.len().saturating_sub(flight.states.len());
        let staged = flight.staged.iter().map(|(files, without)| files.len() + without);
        let producers: usize = self.settings.producers.iter().sum();
        let files = producers.saturating_sub(staged.sum());
        format!(
            "it waits for {sources} sources, {subtasks} subtasks, {tables} state tables and {files} \
             files of sinks"
        )
    }

    /// Tells all sources to send a barrier.
    fn begin(&mut self) {
        let begun = clock::now();
        self.due = begun + self.settings.interval;
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight = Some(InFlight {
            id,
            last: self.ending,
            begun,
            span: self.links.checkpoint_span.begin(id, self.ending),
            requested: std::mem::take(&mut self.requested),
            readers: self.links.commands.iter().map(|_| None).collect(),
            frozen: 0,
            watermarks: vec![i64::MIN; self.settings.operators.len()],
            staged: self.settings.producers.iter().map(|_| (Vec::new(), 0)).collect(),
            states: Vec::new(),
        });
        for commands in &self.links.commands {
            // A source is gone only when the pipeline fails, which the next `select` sees.
            let _ = commands.send(Command::Barrier { checkpoint: id, last: self.ending });
        }
    }

    fn take(&mut self, report: Report) -> Result<()> {
        match report {
            Report::Stop => self.ending = true,
            Report::Drain if self.draining => {}
            Report::Drain => {
                self.draining = true;
                for commands in &self.links.commands {
                    // A source is gone only when the pipeline fails.
                    let _ = commands.send(Command::Drain);
                }
            }
            Report::Checkpoint { done } => self.requested.push(done),
            Report::SourceEnded => {
                self.readers_ended += 1;
                if self.readers_ended == self.links.commands.len() {
                    self.ending = true;
                    self.tell(Event::SourceEnded);
                }
            }
            Report::Source { checkpoint, reader, state } => {
                let unknown = || Error::internal(format!("a report of reader {reader}"));
                let known = self.flight(checkpoint)?.readers.get_mut(reader);
                *known.ok_or_else(unknown)? = Some(state);
            }
            Report::Frozen { checkpoint, operator, watermark } => {
                let flight = self.flight(checkpoint)?;
                flight.frozen += 1;
                let unknown = || Error::internal(format!("a report of operator {operator}"));
                let highest = flight.watermarks.get_mut(operator).ok_or_else(unknown)?;
                *highest = watermark.max(*highest);
            }
            Report::Staged { checkpoint, sink, subtask, handle } => {
                let unknown = || Error::internal(format!("a report of sink {sink}"));
                let (handles, without) =
                    self.flight(checkpoint)?.staged.get_mut(sink).ok_or_else(unknown)?;
                match handle {
                    Some(handle) => handles.push((subtask, handle)),
                    None => *without += 1,
                }
            }
        }
        Ok(())
    }

    fn take_state(&mut self, event: StateEvent) -> Result<()> {
        match event {
            StateEvent::Failed { error, .. } => Err(error.into()),
            StateEvent::Published { table, checkpoint, snapshot, .. } => {
                let found = self.tables.iter().find(|known| known.table.name() == table);
                let found = found.map(|known| (known.operator, known.state.clone()));
                let (operator, state) = found.ok_or_else(|| {
                    Error::internal(format!("a snapshot of the unknown table {table}"))
                })?;
                let position = StatePosition { state, table, snapshot };
                self.flight(checkpoint)?.states.push((operator, position));
                Ok(())
            }
        }
    }

    /// The checkpoint in flight, or one that has failed, which must be this one.
    fn flight(&mut self, checkpoint: u64) -> Result<&mut InFlight> {
        let mut flights = self.failed.iter_mut().chain(&mut self.in_flight);
        let flight = flights.find(|flight| flight.id == checkpoint);
        flight.ok_or_else(|| {
            Error::internal(format!("a report of checkpoint {checkpoint}, which is not in flight"))
        })
    }

    fn is_complete(&self, flight: &InFlight) -> bool {
        let mut staged = flight.staged.iter().zip(&self.settings.producers);
        flight.readers.iter().all(Option::is_some)
            && flight.frozen == self.settings.subtasks
            && staged.all(|((handles, without), producers)| handles.len() + without == *producers)
            && flight.states.len() == self.tables.len()
    }

    /// Writes the document, which completes the checkpoint; then makes its output visible and
    /// lets go of old checkpoints.
    fn complete(&mut self, mut flight: InFlight) -> Result<()> {
        self.links.checkpoint_span.end();
        let _entered = tracing::debug_span!(parent: &flight.span, "commit").entered();
        let begun = flight.begun;
        let requested = std::mem::take(&mut flight.requested);
        for failed in self.failed.drain(..).rev() {
            for ((handles, _), (mut earlier, _)) in flight.staged.iter_mut().zip(failed.staged) {
                earlier.append(handles);
                *handles = earlier;
            }
        }
        let readers = flight.readers.iter().flatten();
        let positions: Vec<SourcePosition> = readers.map(|state| state.position.clone()).collect();
        let checkpoint = self.document(flight)?;
        for (sink, output) in self.sinks.iter_mut().zip(&checkpoint.sinks) {
            sink.seal(&output.handles)?;
        }
        let document_bytes = self.checkpoints.write(&checkpoint)?;
        for (sink, output) in self.sinks.iter_mut().zip(&checkpoint.sinks) {
            sink.commit(checkpoint.id, &output.handles)?;
        }
        let duration_ms = clock::whole_ms(clock::now() - begun);
        let handles = checkpoint.sinks.iter().flat_map(|sink| &sink.handles);
        let sink_bytes: u64 = handles.map(|handle| handle.bytes).sum();
        histogram!("howdah_pipeline_checkpoint_duration_seconds", "pipeline" => self.pipeline())
            .record((clock::now() - begun).as_secs_f64());
        self.summary.completed += 1;
        self.summary.last = Some(checkpoint.id);
        self.summary.bytes += document_bytes + sink_bytes;
        self.remember(duration_ms);
        self.links.counters.checkpoint.set(checkpoint.id);
        if !requested.is_empty() {
            self.hand_out(&checkpoint, &requested);
        }
        self.retain(Retained::of(&checkpoint))?;
        self.due = self.due.max(clock::now() + self.settings.least_pause);
        self.tell(Event::CheckpointCompleted {
            checkpoint: checkpoint.id,
            duration_ms,
            rows_read: checkpoint.rows(),
        });
        for (commands, position) in self.links.commands.iter().zip(positions) {
            // A source is gone only when the pipeline fails.
            let _ = commands.send(Command::Completed { position });
        }
        Ok(())
    }

    /// Gives a checkpoint to those who wait for it; it is kept as long as one of them has it.
    fn hand_out(&mut self, checkpoint: &Checkpoint, requested: &[Sender<HeldCheckpoint>]) {
        let hold = Arc::new(());
        self.held.push((checkpoint.id, Arc::downgrade(&hold)));
        for done in requested {
            let held = HeldCheckpoint { checkpoint: checkpoint.clone(), _hold: Arc::clone(&hold) };
            // Whoever has lost patience does not hold it.
            let _ = done.send(held);
        }
    }

    /// What is known of a checkpoint that is complete.
    fn document(&self, flight: InFlight) -> Result<Checkpoint> {
        let shape = self.settings.shape.clone();
        let readers: Vec<_> = self.settings.readers.iter().zip(flight.readers).collect();
        let sources = shape.sources.iter().enumerate().map(|(number, source)| {
            let own = readers.iter().filter(|(source, _)| **source == number);
            SourceState::merged(own.filter_map(|(_, state)| state.clone()).collect(), &source.name)
        });
        let sources = sources.collect::<Result<_>>()?;
        let mut operators = self.settings.operators.clone();
        for (operator, state) in flight.states {
            if let Some(operator) = operators.get_mut(operator) {
                operator.states.push(state);
            }
        }
        for (operator, watermark) in operators.iter_mut().zip(flight.watermarks) {
            operator.watermark = Some(watermark).filter(|watermark| *watermark != i64::MIN);
            operator.states.sort_unstable_by(|a, b| a.state.cmp(&b.state));
        }
        let sinks = shape.sinks.iter().zip(&self.sinks).zip(flight.staged);
        let sinks = sinks.map(|((shape, sink), (mut handles, _))| {
            // Those of one subtask stay in the order of their checkpoints.
            handles.sort_by_key(|(subtask, _)| *subtask);
            SinkCheckpoint {
                name: shape.name.clone(),
                connector: sink.connector().to_owned(),
                handles: handles.into_iter().map(|(_, handle)| handle).collect(),
            }
        });
        let sinks = sinks.collect();
        let (id, time_ms) = (flight.id, clock::epoch_ms());
        Ok(Checkpoint { id, time_ms, shape, sources, operators, sinks })
    }

    /// Keeps this checkpoint and as many before it as are wanted, and those that are pinned or held.
    /// Documents go before what they refer to.
    fn retain(&mut self, newest: Retained) -> Result<()> {
        self.retained.push_back(newest);
        self.held.retain(|(_, hold)| hold.strong_count() > 0);
        let held: Vec<u64> = self.held.iter().map(|(id, _)| *id).collect();
        let surplus = self.retained.len().saturating_sub(self.settings.retained);
        let surplus = self.retained.iter().take(surplus).map(|retained| retained.id);
        let surplus: Vec<u64> = surplus.filter(|id| !held.contains(id)).collect();
        let gone = self.checkpoints.remove_unpinned(&surplus)?;
        self.retained.retain(|retained| !gone.contains(&retained.id));
        for Table { table, .. } in &self.tables {
            let snapshot = |retained: &Retained| {
                let mut snapshots = retained.snapshots.iter();
                let (_, snapshot) = snapshots.find(|(name, _)| name == table.name())?;
                Some((retained.id, *snapshot))
            };
            let kept: Vec<(u64, i64)> = self.retained.iter().filter_map(snapshot).collect();
            table.retain(&kept)?;
        }
        Ok(())
    }

    /// Keeps the newest durations for the median, and the longest of all.
    fn remember(&mut self, duration_ms: u64) {
        self.summary.duration_max_ms = self.summary.duration_max_ms.max(duration_ms);
        if self.durations_ms.len() == DURATIONS_LIMIT {
            self.durations_ms.pop_front();
        }
        self.durations_ms.push_back(duration_ms);
    }

    fn tell(&self, event: Event) {
        // Nobody has to listen.
        let _ = self.links.events.try_send(event);
    }
}

#[cfg(test)]
mod tests;

//! Injects barriers and completes checkpoints.
//!
//! One checkpoint is in flight at a time. It is complete when the source has said where it
//! was, the sink has closed every subtask's file, and every state table has published its
//! snapshot; then its document is written, and what it stands for becomes visible.

use crate::checkpoint::{
    Checkpoint, Checkpoints, DeadLetterPosition, Shape, SinkFile, SourcePosition, SourceStart,
    StatePosition,
};
use crate::clock;
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::handle::Event;
use crate::progress::Counters;
use crate::sink::Committer;
use crate::summary::CheckpointSummary;
use crossbeam_channel::{Receiver, Sender, after, never, select};
use howdah_state::{StateEvent, StateTable};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Checkpoints whose durations are remembered for the median.
const DURATIONS_LIMIT: usize = 10_000;

/// What the source is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Send a barrier; after the last one, end.
    Barrier {
        /// Of which checkpoint.
        checkpoint: u64,
        /// Whether nothing follows.
        last: bool,
    },
}

/// What the coordinator is told.
#[derive(Debug)]
pub(crate) enum Report {
    /// The source has sent a barrier.
    Source {
        /// Of which checkpoint.
        checkpoint: u64,
        /// Where it was.
        state: SourceState,
    },
    /// The source is at its end; it waits for the last barrier.
    SourceEnded,
    /// A subtask has let a barrier through.
    Frozen {
        /// Of which checkpoint.
        checkpoint: u64,
    },
    /// The sink has closed a subtask's file at a barrier.
    Staged {
        /// Of which checkpoint.
        checkpoint: u64,
        /// The file; `None`: there were no rows.
        file: Option<SinkFile>,
    },
    /// Somebody wants the pipeline to stop.
    Stop,
}

/// Where the source was at a barrier.
#[derive(Debug, Clone)]
pub(crate) struct SourceState {
    pub(crate) position: SourcePosition,
    pub(crate) start: SourceStart,
    pub(crate) watermark: Option<i64>,
    pub(crate) closed: bool,
    pub(crate) dead_letters: Option<DeadLetterPosition>,
}

/// A table of the operator.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The name that the operator declared.
    pub(crate) state: String,
    pub(crate) table: StateTable,
}

/// What the coordinator works with.
pub(crate) struct Links {
    pub(crate) commands: Sender<Command>,
    pub(crate) reports: Receiver<Report>,
    pub(crate) state_events: Receiver<StateEvent>,
    pub(crate) events: Sender<Event>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) failure: Arc<Failure>,
}

/// What does not change during a run.
pub(crate) struct Settings {
    pub(crate) interval: Duration,
    /// How many completed checkpoints are kept.
    pub(crate) retained: usize,
    pub(crate) parallelism: usize,
    pub(crate) shape: Shape,
    /// SHA-256 of the component.
    pub(crate) component: String,
    /// CRC-32 of the operator's configuration.
    pub(crate) config_crc32: u32,
}

/// A completed checkpoint that is kept: its number and the snapshots of its states.
pub(crate) type Retained = (u64, Vec<StatePosition>);

/// Drives the checkpoints of a run.
pub(crate) struct Coordinator {
    links: Links,
    settings: Settings,
    tables: Vec<Table>,
    checkpoints: Checkpoints,
    committer: Committer,
    /// Oldest first.
    retained: VecDeque<Retained>,
    next_id: u64,
    in_flight: Option<InFlight>,
    /// When the next barrier is due.
    due: Instant,
    /// No barrier but the last follows.
    ending: bool,
    source_ended: bool,
    durations_ms: VecDeque<u64>,
    summary: CheckpointSummary,
}

/// What is known of the checkpoint in flight.
struct InFlight {
    id: u64,
    last: bool,
    begun: Instant,
    source: Option<SourceState>,
    frozen: usize,
    staged: usize,
    files: Vec<SinkFile>,
    states: Vec<StatePosition>,
}

/// How the coordinator's run ended.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The last checkpoint of the run is complete.
    pub(crate) completed: bool,
    /// The source was at its end.
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
        (checkpoints, committer): (Checkpoints, Committer),
        retained: Vec<Retained>,
        next_id: u64,
    ) -> Self {
        let last = retained.last().map(|(id, _)| *id);
        Self {
            due: clock::now() + settings.interval,
            links,
            settings,
            tables,
            checkpoints,
            committer,
            retained: retained.into(),
            next_id,
            in_flight: None,
            ending: false,
            source_ended: false,
            durations_ms: VecDeque::new(),
            summary: CheckpointSummary { last, ..CheckpointSummary::default() },
        }
    }

    /// Runs until the last checkpoint is complete or the pipeline fails.
    pub(crate) fn run(mut self) -> (Outcome, Result<()>) {
        let result = self.coordinate();
        let completed = matches!(result, Ok(true));
        if !completed {
            // A subtask may wait for a flush that will never come.
            self.tables.iter().for_each(|table| table.table.abort());
        }
        self.summary.failed = u64::from(self.in_flight.is_some());
        let durations = self.durations_ms.make_contiguous();
        durations.sort_unstable();
        let middle = durations.get(durations.len() / 2);
        self.summary.duration_median_ms = middle.copied().unwrap_or_default();
        let outcome =
            Outcome { completed, source_ended: self.source_ended, checkpoints: self.summary };
        (outcome, result.map(|_| ()))
    }

    /// Whether the last checkpoint is complete.
    fn coordinate(&mut self) -> Result<bool> {
        loop {
            if self.in_flight.is_none() && (self.ending || clock::now() >= self.due) {
                self.begin();
            }
            let timer = if self.in_flight.is_some() {
                never()
            } else {
                after(self.due.saturating_duration_since(clock::now()))
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
                recv(timer) -> _ => {}
            }
            if self.in_flight.as_ref().is_some_and(|flight| self.is_complete(flight)) {
                let Some(flight) = self.in_flight.take() else { continue };
                let last = flight.last;
                self.complete(flight)?;
                if last {
                    return Ok(true);
                }
            }
        }
    }

    /// Tells the source to send a barrier.
    fn begin(&mut self) {
        let begun = clock::now();
        self.due = begun + self.settings.interval;
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight = Some(InFlight {
            id,
            last: self.ending,
            begun,
            source: None,
            frozen: 0,
            staged: 0,
            files: Vec::new(),
            states: Vec::new(),
        });
        // The source is gone only when the pipeline fails, which the next `select` sees.
        let _ = self.links.commands.send(Command::Barrier { checkpoint: id, last: self.ending });
    }

    fn take(&mut self, report: Report) -> Result<()> {
        match report {
            Report::Stop => self.ending = true,
            Report::SourceEnded => {
                self.ending = true;
                self.source_ended = true;
                self.tell(Event::SourceEnded);
            }
            Report::Source { checkpoint, state } => {
                self.flight(checkpoint)?.source = Some(state);
            }
            Report::Frozen { checkpoint } => self.flight(checkpoint)?.frozen += 1,
            Report::Staged { checkpoint, file } => {
                let flight = self.flight(checkpoint)?;
                flight.staged += 1;
                flight.files.extend(file);
            }
        }
        Ok(())
    }

    fn take_state(&mut self, event: StateEvent) -> Result<()> {
        match event {
            StateEvent::Failed { error, .. } => Err(error.into()),
            StateEvent::Published { table, checkpoint, snapshot, .. } => {
                let found = self.tables.iter().find(|known| known.table.name() == table);
                let state = found.map(|known| known.state.clone()).ok_or_else(|| {
                    Error::internal(format!("a snapshot of the unknown table {table}"))
                })?;
                self.flight(checkpoint)?.states.push(StatePosition { state, table, snapshot });
                Ok(())
            }
        }
    }

    /// The checkpoint in flight, which must be this one.
    fn flight(&mut self, checkpoint: u64) -> Result<&mut InFlight> {
        let flight = self.in_flight.as_mut().filter(|flight| flight.id == checkpoint);
        flight.ok_or_else(|| {
            Error::internal(format!("a report of checkpoint {checkpoint}, which is not in flight"))
        })
    }

    fn is_complete(&self, flight: &InFlight) -> bool {
        flight.source.is_some()
            && flight.frozen == self.settings.parallelism
            && flight.staged == self.settings.parallelism
            && flight.states.len() == self.tables.len()
    }

    /// Writes the document, which completes the checkpoint; then makes its output visible and
    /// lets go of old checkpoints.
    fn complete(&mut self, mut flight: InFlight) -> Result<()> {
        let Some(source) = flight.source else { return Ok(()) };
        flight.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        flight.states.sort_unstable_by(|a, b| a.state.cmp(&b.state));
        self.committer.seal(&flight.files)?;
        let checkpoint = Checkpoint {
            id: flight.id,
            time_ms: clock::epoch_ms(),
            shape: self.settings.shape.clone(),
            component: self.settings.component.clone(),
            config_crc32: Some(self.settings.config_crc32),
            source: source.position,
            source_start: source.start,
            closed: source.closed,
            watermark: source.watermark,
            states: flight.states,
            sink: flight.files,
            dead_letters: source.dead_letters,
        };
        let document_bytes = self.checkpoints.write(&checkpoint)?;
        self.committer.commit(&checkpoint.sink)?;
        let duration_ms = clock::whole_ms(clock::now() - flight.begun);
        let sink_bytes: u64 = checkpoint.sink.iter().map(|file| file.bytes).sum();
        self.summary.completed += 1;
        self.summary.last = Some(checkpoint.id);
        self.summary.bytes += document_bytes + sink_bytes;
        self.remember(duration_ms);
        self.links.counters.checkpoint.set(checkpoint.id);
        self.retain((checkpoint.id, checkpoint.states))?;
        self.tell(Event::CheckpointCompleted {
            checkpoint: checkpoint.id,
            duration_ms,
            rows_read: checkpoint.source.rows,
        });
        Ok(())
    }

    /// Keeps this checkpoint and as many before it as are wanted. Documents go before what
    /// they refer to.
    fn retain(&mut self, newest: Retained) -> Result<()> {
        self.retained.push_back(newest);
        let surplus = self.retained.len().saturating_sub(self.settings.retained);
        let gone: Vec<u64> = self.retained.drain(..surplus).map(|(id, _)| id).collect();
        self.checkpoints.remove(&gone)?;
        for Table { state, table } in &self.tables {
            let snapshot = |(id, states): &Retained| {
                let position = states.iter().find(|position| position.state == *state)?;
                Some((*id, position.snapshot))
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

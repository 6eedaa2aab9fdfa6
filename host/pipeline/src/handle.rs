//! The handle of a running pipeline.

use crate::clock;
use crate::coordinator::{HeldCheckpoint, Outcome, Report, Table};
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::lock::Lock;
use crate::progress::Counters;
use crate::summary::{Activity, Progress, StateSummary, Summary};
use crossbeam_channel::{Receiver, Sender, bounded};
use howdah_state::{StateEvent, StateStore};
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Something that happened in a running pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The threads run.
    Started {
        /// The checkpoint it goes on from; `None`: from the beginning.
        checkpoint: Option<u64>,
    },
    /// A checkpoint is complete, and its output visible.
    CheckpointCompleted {
        /// Its number.
        checkpoint: u64,
        /// From the order to insert the barrier until its output was visible.
        duration_ms: u64,
        /// Rows read from the source up to it, over all runs.
        rows_read: u64,
    },
    /// The source has read its last row; the last checkpoint follows.
    SourceEnded,
}

/// A running pipeline. Dropping it stops the pipeline at the last completed checkpoint and
/// waits for its threads.
pub struct Handle {
    pub(crate) name: String,
    pub(crate) restored_from: Option<u64>,
    pub(crate) started: Instant,
    pub(crate) events: Receiver<Event>,
    pub(crate) reports: Sender<Report>,
    /// What the coordinator came to; sent once, at its end.
    pub(crate) outcome: Receiver<Outcome>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) failure: Arc<Failure>,
    pub(crate) tables: Vec<Table>,
    /// Closed after all threads have ended.
    pub(crate) store: Option<StateStore>,
    /// Released last.
    pub(crate) _lock: Lock,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Handle {
    /// Where it is.
    pub fn progress(&self) -> Progress {
        self.counters.progress()
    }

    /// What its threads have done: sources, then operators in the order of the rows.
    pub fn activities(&self) -> Vec<Activity> {
        self.counters.activities()
    }

    /// Its states, as they are now.
    pub fn states(&self) -> Vec<StateSummary> {
        let states = self.tables.iter().map(|Table { state, table, .. }| StateSummary {
            state: state.clone(),
            table: table.name().to_owned(),
            metrics: table.metrics(),
        });
        states.collect()
    }

    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        clock::now() - self.started
    }

    /// Reports where it is through the `metrics` facade: call it now and then. What subtasks and state
    /// tables report comes by itself.
    pub fn report(&self) {
        self.counters.report(&self.name);
    }

    /// What happens. Disconnected once the pipeline is over: then call [`Handle::wait`]. An
    /// event that nobody receives in time is dropped.
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Stops at a checkpoint that is made now. Returns at once; wait for the end.
    pub fn stop(&self) {
        self.stopper().stop();
    }

    /// Ends as if the input were at its end, at a checkpoint that has all that was read: timers fire,
    /// windows close. Returns at once; wait for the end.
    pub fn drain(&self) {
        // A pipeline that is over has ended.
        let _ = self.reports.send(Report::Drain);
    }

    /// Makes a checkpoint now, or as soon as the one under way is complete. The receiver gets it once
    /// it is complete; it is disconnected when the pipeline ends before.
    pub fn checkpoint(&self) -> Receiver<HeldCheckpoint> {
        let (done, receiver) = bounded(1);
        // The receiver is disconnected if nobody listens.
        let _ = self.reports.send(Report::Checkpoint { done });
        receiver
    }

    /// Something that can stop the pipeline from elsewhere, as from a signal handler.
    pub fn stopper(&self) -> Stopper {
        Stopper { reports: self.reports.clone() }
    }

    /// Waits for the end. The first error of any thread is the result; state and output are
    /// then at the last completed checkpoint.
    pub fn wait(mut self) -> Result<Summary> {
        self.join();
        let elapsed = self.elapsed();
        let outcome = self.outcome.try_recv().unwrap_or_default();
        let states = self.states();
        self.end()?;
        if !outcome.completed {
            return Err(Error::internal("the pipeline ended without its last checkpoint"));
        }
        let counters = &self.counters;
        let seconds = elapsed.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rows_per_second = counters.rows_read.get() as f64 / seconds;
        Ok(Summary {
            pipeline: self.name.clone(),
            finished: outcome.source_ended,
            restored_from: self.restored_from,
            rows_in: counters.rows_in.get(),
            rows_out: counters.rows_out.get(),
            rows_filtered: counters.rows_filtered.get(),
            rows_skipped: counters.rows_skipped.get(),
            rows_dead_lettered: counters.rows_dead_lettered.get(),
            rows_isolated: counters.rows_isolated.get(),
            elapsed_ms: clock::whole_ms(elapsed),
            rows_per_second,
            batches: counters.batches.get(),
            probes: states.iter().map(|state| state.metrics.probes_total).sum(),
            keys: states.iter().map(|state| state.metrics.keys_read_total).sum(),
            latency: counters.latencies.summary(),
            checkpoints: outcome.checkpoints,
            states,
        })
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A panic has been recorded by the thread's guard.
            let _ = thread.join();
        }
    }

    /// Closes the state store; the first error of the run.
    ///
    /// When the store fails, a subtask may find it closed before the coordinator hears why:
    /// the store's own report is the better one.
    fn end(&mut self) -> Result<()> {
        let mut failure = self.failure.take();
        let Some(store) = self.store.take() else { return failure.map_or(Ok(()), Err) };
        for event in store.events().try_iter() {
            if let StateEvent::Failed { error, .. } = event {
                failure = Some(error.into());
                break;
            }
        }
        let closed = store.close();
        match failure {
            Some(failure) => Err(failure),
            None => closed.map_err(Error::from),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.failure.abort();
        self.join();
        // Nobody is there to hear of an error.
        let _ = self.end();
    }
}

/// Stops a pipeline at a checkpoint. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stopper {
    reports: Sender<Report>,
}

impl Stopper {
    /// See [`Handle::stop`].
    pub fn stop(&self) {
        // A pipeline that is over has stopped.
        let _ = self.reports.send(Report::Stop);
    }
}

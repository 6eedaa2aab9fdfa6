//! The background part of a table: one thread that owns its committer.
//!
//! It flushes frozen buffers, publishes merges, moves tags and removes what has expired, one
//! after the other, so that nothing about the table on disk needs a lock.

use crate::committer::Committer;
use crate::data_file::FileId;
use crate::flush::{Frozen, flush};
use crate::merge::{MergeTask, Merged, Unpublished};
use crate::metrics::Instruments;
use crate::pin::Pin;
use crate::pool::PoolQueue;
use crate::view::{Counters, SharedView};
use crate::write_buffer::WriteBuffer;
use crate::{Error, ErrorKind, Result, StateEvent, StoreOptions};
use crossbeam_channel::{Receiver, Sender};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often what has expired is looked for when nothing else happens.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a bucket is left alone after a merge that could not be written.
const MERGE_RETRY: Duration = Duration::from_secs(10);

/// Merges of one bucket at a time: a large one, and one of the runs that came after its inputs.
const MERGES_PER_BUCKET: usize = 2;

/// Before each new attempt at a write that failed: a disk may be full, or file
/// handles used up, for a moment only.
const RETRY_PAUSES_MS: [u64; 3] = [5, 25, 100];

/// What a worker is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// A subtask has frozen its buffer: at a barrier, or (`None`) because it was full.
    Frozen {
        subtask: u32,
        checkpoint: Option<u64>,
        buffer: Arc<WriteBuffer>,
        /// That of whoever froze it.
        span: tracing::Span,
    },
    /// These checkpoints, with their snapshots, are to be kept.
    Retain(Vec<(u64, i64)>),
    /// A merge has ended.
    Merged { bucket: u32, newest: FileId, result: Result<Merged> },
    /// No command follows.
    Close,
}

/// A frozen buffer that waits for its turn.
#[derive(Debug)]
struct Waiting {
    /// How many barriers the subtask had passed before.
    epoch: u64,
    checkpoint: Option<u64>,
    buffer: Arc<WriteBuffer>,
    span: tracing::Span,
    since: Instant,
}

/// The background part of one table.
pub(crate) struct Worker {
    name: Arc<str>,
    committer: Committer,
    view: Arc<SharedView>,
    options: StoreOptions,
    commands: Receiver<Command>,
    /// To itself: merges report through it.
    to_self: Sender<Command>,
    events: Sender<StateEvent>,
    pool: PoolQueue,
    cancelled: Arc<AtomicBool>,
    /// For each subtask, oldest first.
    waiting: Vec<VecDeque<Waiting>>,
    /// For each subtask, how many barriers it has passed.
    epochs: Vec<u64>,
    /// How many barriers are published.
    published: u64,
    /// For each bucket.
    merging: Vec<Merging>,
    /// Commands that came while a flush waited for a merge.
    put_off: VecDeque<Command>,
}

/// The merges of a bucket. While a large one is under way, another may merge the runs that came
/// after its inputs, so that their number stays bounded.
#[derive(Debug, Default)]
struct Merging {
    /// The newest input of each merge under way.
    newest: Vec<FileId>,
    /// The last one failed: none begins before.
    not_before: Option<Instant>,
}

/// What a worker shares with the rest of the store.
pub(crate) struct WorkerLinks {
    pub(crate) view: Arc<SharedView>,
    pub(crate) options: StoreOptions,
    pub(crate) commands: (Sender<Command>, Receiver<Command>),
    pub(crate) events: Sender<StateEvent>,
    pub(crate) pool: PoolQueue,
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Worker {
    pub(crate) fn new(committer: Committer, links: WorkerLinks) -> Self {
        let subtasks = committer.schema.key_groups.parallelism() as usize;
        Self {
            name: committer.table.name.as_str().into(),
            committer,
            view: links.view,
            options: links.options,
            commands: links.commands.1,
            to_self: links.commands.0,
            events: links.events,
            pool: links.pool,
            cancelled: links.cancelled,
            waiting: (0..subtasks).map(|_| VecDeque::new()).collect(),
            epochs: vec![0; subtasks],
            published: 0,
            merging: (0..subtasks).map(|_| Merging::default()).collect(),
            put_off: VecDeque::new(),
        }
    }

    /// Works until it is told to close or an error stops the table.
    pub(crate) fn run(mut self) {
        let result = self.work();
        // A store that is closed while a flush waits has nothing to report.
        let closed = self.cancelled.load(Ordering::Relaxed);
        if let Err(error) = result
            && !(closed && error.kind() == ErrorKind::Closed)
        {
            let table = self.committer.table.name.clone();
            tracing::error!(table, %error, "state table stopped");
            self.view.fail(&error.to_string());
            // The receiver may be gone: then nobody wants to know.
            let _ = self.events.send(StateEvent::Failed { table, error });
        }
        // Whoever still waits for a buffer to be flushed waits in vain.
        self.view.fail(&format!("state table {} is closed", self.committer.table.name));
    }

    fn work(&mut self) -> Result<()> {
        loop {
            let next = match self.put_off.pop_front() {
                Some(command) => Ok(command),
                None => self.commands.recv_timeout(IDLE_INTERVAL),
            };
            match next {
                Ok(Command::Frozen { subtask, checkpoint, buffer, span }) => {
                    let since = crate::seam::now();
                    self.enqueue(subtask, |epoch| Waiting {
                        epoch,
                        checkpoint,
                        buffer,
                        span,
                        since,
                    })?;
                }
                Ok(Command::Retain(checkpoints)) => self.retain(&checkpoints),
                Ok(Command::Merged { bucket, newest, result }) => {
                    self.publish_merge(bucket, newest, result)?;
                }
                Ok(Command::Close) => return Ok(()),
                Err(crossbeam_channel::RecvTimeoutError::Timeout) => {}
                Err(crossbeam_channel::RecvTimeoutError::Disconnected) => return Ok(()),
            }
            while self.flush_next()? {}
            self.start_merges();
            self.expire();
            self.view.instruments.report(&self.view, self.committer.on_disk());
        }
    }

    /// Keeps these checkpoints. What fails is tried again when the next ones are named; until
    /// then more is kept than need be.
    fn retain(&mut self, checkpoints: &[(u64, i64)]) {
        if let Err(error) = self.committer.retain(checkpoints) {
            let table = &self.committer.table.name;
            tracing::warn!(table, %error, "the tags of checkpoints could not be changed");
        }
    }

    fn enqueue(&mut self, subtask: u32, waiting: impl FnOnce(u64) -> Waiting) -> Result<()> {
        let (Some(queue), Some(epoch)) =
            (self.waiting.get_mut(subtask as usize), self.epochs.get_mut(subtask as usize))
        else {
            return Err(Error::internal(format!(
                "table {}: there is no subtask {subtask}",
                self.committer.table.name
            )));
        };
        let waiting = waiting(*epoch);
        *epoch += u64::from(waiting.checkpoint.is_some());
        queue.push_back(waiting);
        Ok(())
    }

    /// Flushes what may be flushed now; false when nothing may.
    ///
    /// A checkpoint's snapshot holds exactly what its barrier saw: nothing written after the
    /// barrier is flushed before every subtask has reached it.
    fn flush_next(&mut self) -> Result<bool> {
        let published = self.published;
        let mut early = Vec::new();
        for (subtask, queue) in (0_u32..).zip(&mut self.waiting) {
            let next =
                queue.pop_front_if(|next| next.epoch == published && next.checkpoint.is_none());
            early.extend(next.map(|next| (subtask, next.buffer)));
        }
        if !early.is_empty() {
            self.flush(0, &early)?;
            return Ok(true);
        }
        let at_barrier = self.waiting.iter().all(|queue| {
            queue.front().is_some_and(|next| next.epoch == published && next.checkpoint.is_some())
        });
        if !at_barrier {
            return Ok(false);
        }
        self.flush_checkpoint()?;
        Ok(true)
    }

    fn flush_checkpoint(&mut self) -> Result<()> {
        let fronts: Vec<Waiting> =
            self.waiting.iter_mut().filter_map(VecDeque::pop_front).collect();
        let checkpoints: Vec<u64> = fronts.iter().filter_map(|front| front.checkpoint).collect();
        let checkpoint = checkpoints.first().copied().unwrap_or(0);
        if checkpoints.iter().any(|other| *other != checkpoint) {
            return Err(Error::invalid(format!(
                "table {}: subtasks are at different checkpoints {checkpoints:?}; freeze all of them \
                 at one checkpoint before the next",
                self.committer.table.name
            )));
        }
        let last = fronts.iter().max_by_key(|front| front.since);
        let (since, parent) = last.map_or_else(
            || (crate::seam::now(), tracing::Span::none()),
            |last| (last.since, last.span.clone()),
        );
        let buffers: Vec<_> =
            (0_u32..).zip(fronts).map(|(subtask, front)| (subtask, front.buffer)).collect();
        let table = self.name.clone();
        let span = tracing::debug_span!(parent: &parent, "checkpoint", %table, checkpoint);
        let _entered = span.entered();
        let snapshot = self.flush(checkpoint, &buffers)?;
        self.published += 1;
        self.persist(|worker| worker.committer.tag(checkpoint, snapshot))?;
        self.view.instruments.checkpoint_seconds.record(since.elapsed());
        let _ = self.events.send(StateEvent::Published {
            table: self.committer.table.name.clone(),
            checkpoint,
            snapshot,
            duration: since.elapsed(),
        });
        Ok(())
    }

    fn flush(&mut self, checkpoint: u64, buffers: &[(u32, Arc<WriteBuffer>)]) -> Result<i64> {
        self.make_levels(buffers)?;
        let frozen: Vec<Frozen> = buffers
            .iter()
            .map(|(subtask, buffer)| Frozen { subtask: *subtask, buffer: buffer.clone() })
            .collect();
        let table = self.name.clone();
        let span = tracing::debug_span!("flush", %table, buckets = buffers.len()).entered();
        let since = crate::seam::now();
        let before = self.committer.pin().clone();
        let (snapshot, locations) =
            self.persist(|worker| flush(&mut worker.committer, &worker.pool, checkpoint, &frozen))?;
        Counters::add(&self.view.counters.commits, usize::from(snapshot != before.snapshot));
        self.note_flush(&before, since.elapsed());
        drop(span);
        let published = frozen
            .into_iter()
            .zip(locations)
            .map(|(frozen, locations)| (frozen.subtask, frozen.buffer, locations))
            .collect();
        self.view.publish(self.committer.pin().clone(), published);
        Ok(snapshot)
    }

    /// Reports what a flush added to this pin.
    fn note_flush(&self, before: &Pin, duration: Duration) {
        let (mut rows, mut bytes) = (0, 0);
        for of_bucket in &self.committer.pin().buckets {
            // A flush adds one run, the newest.
            if let Some(newest) = of_bucket.first()
                && before.bucket(newest.file.bucket).first().map(|run| run.file.id)
                    != Some(newest.file.id)
            {
                rows += u64::from(newest.file.rows());
                bytes += newest.file.bytes();
            }
        }
        let instruments = &self.view.instruments;
        instruments.flush_seconds.record(duration);
        instruments.flushed_rows.increment(rows);
        instruments.flushed_bytes.increment(bytes);
        let duration_ms = duration.as_millis();
        tracing::debug!(rows, bytes, duration_ms, "flushed");
    }

    /// Writes something, with a few attempts while the file system fails.
    fn persist<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        for pause_ms in RETRY_PAUSES_MS {
            match attempt(self) {
                Err(error) if error.kind() == ErrorKind::Storage => {
                    let table = &self.committer.table.name;
                    tracing::warn!(table, %error, "a write failed and is tried again");
                    self.pause(Duration::from_millis(pause_ms))?;
                }
                other => return other,
            }
        }
        attempt(self)
    }

    /// Waits; publishes merges that end meanwhile. Failures on purpose do not pass with time.
    fn pause(&mut self, pause: Duration) -> Result<()> {
        let pause = if self.options.faults.is_some() { Duration::ZERO } else { pause };
        let until = crate::seam::now() + pause;
        while let Ok(command) = self.commands.recv_deadline(until) {
            match command {
                Command::Merged { bucket, newest, result } => {
                    self.publish_merge(bucket, newest, result)?;
                }
                other => self.put_off.push_back(other),
            }
        }
        Ok(())
    }

    /// Waits for merges while a bucket has no level left for another sorted run.
    fn make_levels(&mut self, buffers: &[(u32, Arc<WriteBuffer>)]) -> Result<()> {
        let full = |worker: &Self| {
            buffers.iter().any(|(bucket, _)| worker.committer.next_level(*bucket).is_none())
        };
        while full(self) {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Closed, "the state store is closed"));
            }
            self.start_merges();
            match self.commands.recv_timeout(IDLE_INTERVAL) {
                Ok(Command::Merged { bucket, newest, result }) => {
                    self.publish_merge(bucket, newest, result)?;
                }
                Ok(other) => self.put_off.push_back(other),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Hands merges that are due to the pool, those of the buckets with most runs first.
    fn start_merges(&mut self) {
        let under_way: usize = self.merging.iter().map(|merging| merging.newest.len()).sum();
        let mut room = self.pool.merges_limit().saturating_sub(under_way);
        let trigger_runs = self.options.merge_trigger_runs;
        let now_ms = self.options.clock.now_ms();
        let mut due: Vec<MergeTask> = Vec::new();
        for (bucket, merging) in (0_u32..).zip(&self.merging) {
            let failed = merging.not_before.is_some_and(|time| crate::seam::now() < time);
            if failed || merging.newest.len() >= MERGES_PER_BUCKET {
                continue;
            }
            let task =
                MergeTask::choose(&self.committer, bucket, &merging.newest, trigger_runs, now_ms);
            due.extend(task);
        }
        due.sort_by_key(|task| Reverse(self.committer.pin().bucket(task.bucket).len()));
        for task in due {
            if room == 0 {
                return;
            }
            room -= 1;
            self.submit(task);
        }
    }

    fn submit(&mut self, task: MergeTask) {
        let Some(newest) = task.inputs.first().map(|input| input.file.id) else { return };
        if let Some(merging) = self.merging.get_mut(task.bucket as usize) {
            merging.newest.push(newest);
            merging.not_before = None;
        }
        let files = self.committer.files.clone();
        let table = self.committer.table.clone();
        let schema = self.committer.schema.clone();
        let cancelled = self.cancelled.clone();
        let report = self.to_self.clone();
        let bucket = task.bucket;
        let name = self.name.clone();
        let view = self.view.clone();
        let job = move || {
            let _span = tracing::debug_span!("merge", table = table.name, bucket).entered();
            let since = crate::seam::now();
            let work = || task.run(&files, &table, &schema, &cancelled);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                .unwrap_or_else(|_| Err(Error::internal("a merge of sorted runs panicked")));
            note_merge(&view.instruments, &result, since.elapsed());
            let _ = report.send(Command::Merged { bucket, newest, result });
        };
        self.pool.submit(&name, Box::new(job));
    }

    fn publish_merge(&mut self, bucket: u32, newest: FileId, result: Result<Merged>) -> Result<()> {
        let not_before = match result.and_then(|merged| self.commit_merge(merged)) {
            Ok(()) => None,
            Err(error) if error.kind() == ErrorKind::Closed => None,
            // The table can do without for a while, but not when writes wait for this.
            Err(error) if error.kind() == ErrorKind::Storage && !self.needs_merge(bucket) => {
                tracing::warn!(table = self.committer.table.name, %error, "a merge failed");
                Some(crate::seam::now() + MERGE_RETRY)
            }
            Err(error) => return Err(error),
        };
        if let Some(merging) = self.merging.get_mut(bucket as usize) {
            merging.newest.retain(|id| *id != newest);
            merging.not_before = not_before;
        }
        Ok(())
    }

    /// Whether writes to a bucket wait for a merge.
    fn needs_merge(&self, bucket: u32) -> bool {
        self.committer.pin().bucket(bucket).len() >= self.options.stop_runs()
    }

    fn commit_merge(&mut self, merged: Merged) -> Result<()> {
        // It may have come too late.
        let Some(change) = merged.into_change(self.committer.pin()) else { return Ok(()) };
        let since = crate::seam::now();
        self.committer.commit(&change)?;
        self.view.instruments.commit_seconds.record(since.elapsed());
        Counters::add(&self.view.counters.merges, 1);
        self.view.publish(self.committer.pin().clone(), Vec::new());
        Ok(())
    }

    /// Removes what has expired. A failure is no reason to stop: it is tried again later.
    fn expire(&mut self) {
        let since = crate::seam::now();
        let Committer { retention, files, table, .. } = &mut self.committer;
        let now_ms = crate::seam::steady_ms();
        let retained_ms = self.options.snapshot_retained_ms;
        match retention.expire(files, table, now_ms, retained_ms) {
            Ok(0) => {}
            Ok(snapshots) => {
                self.view.instruments.expired_snapshots.increment(snapshots as u64);
                let duration_ms = since.elapsed().as_millis();
                tracing::debug!(table = table.name, snapshots, duration_ms, "snapshots expired");
            }
            Err(error) => tracing::warn!(table = table.name, %error, "snapshots were not expired"),
        }
    }
}

/// Reports a merge that has ended.
fn note_merge(instruments: &Instruments, result: &Result<Merged>, duration: Duration) {
    instruments.merge_seconds.record(duration);
    let Ok(merged) = result else { return };
    let rows = merged.output.as_ref().map_or(0, Unpublished::rows);
    let bytes = merged.output.as_ref().map_or(0, Unpublished::bytes);
    instruments.merged_rows.increment(rows);
    instruments.merged_bytes.increment(bytes);
    let (runs, duration_ms) = (merged.task.inputs.len(), duration.as_millis());
    tracing::debug!(runs, rows, bytes, duration_ms, "merged");
}

//! The background threads that the tables of a store share.
//!
//! Merges wait in one queue for each table, and tables take turns, so that a table with many
//! merges does not keep another from its one. A flush never waits for a merge: its own thread
//! does the work, and those of the pool only help when they are idle.

use crate::store::spawn;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Offers that wait; more than that would not be taken in time anyway.
const OFFERS_LIMIT: usize = 256;

/// Work for one thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads that end when it is dropped, after the jobs they are at.
#[derive(Debug)]
pub(crate) struct Pool {
    queue: PoolQueue,
    threads: Vec<JoinHandle<()>>,
}

/// Where jobs wait. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct PoolQueue {
    shared: Arc<Shared>,
    threads: usize,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Offers to help a flush; they go first and end at once when there is nothing left to do.
    helpers: VecDeque<Job>,
    /// Tables with merges that wait, in the order of their turns.
    tables: VecDeque<(Arc<str>, VecDeque<Job>)>,
    closed: bool,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let merges: usize = self.tables.iter().map(|(_, jobs)| jobs.len()).sum();
        write!(f, "{} helpers and {merges} merges wait", self.helpers.len())
    }
}

impl Waiting {
    fn next(&mut self) -> Option<Job> {
        if let Some(helper) = self.helpers.pop_front() {
            return Some(helper);
        }
        let (table, mut jobs) = self.tables.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.tables.push_back((table, jobs));
        }
        job
    }
}

impl Pool {
    /// Starts this many threads.
    ///
    /// # Errors
    /// `Storage` when the system gives no more threads.
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let queue = PoolQueue { shared: Arc::default(), threads };
        let mut pool = Self { queue: queue.clone(), threads: Vec::new() };
        for _ in 0..threads {
            let queue = queue.clone();
            pool.threads.push(spawn("howdah-state-pool", move || queue.work())?);
        }
        Ok(pool)
    }

    pub(crate) fn queue(&self) -> PoolQueue {
        self.queue.clone()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        waiting.closed = true;
        waiting.helpers.clear();
        waiting.tables.clear();
        drop(waiting);
        self.queue.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A job that panicked has reported it itself.
            let _ = thread.join();
        }
    }
}

impl PoolQueue {
    /// No code panics while it holds the lock, so a poisoned one still guards whole data.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges of one table that may wait or run at once, so that queues stay short.
    pub(crate) fn merges_limit(&self) -> usize {
        self.threads * 2
    }

    /// Adds a merge of a table.
    pub(crate) fn submit(&self, table: &Arc<str>, job: Job) {
        let mut waiting = self.lock();
        if waiting.closed {
            return;
        }
        match waiting.tables.iter_mut().find(|(of, _)| of == table) {
            Some((_, jobs)) => jobs.push_back(job),
            None => waiting.tables.push_back((table.clone(), VecDeque::from([job]))),
        }
        drop(waiting);
        self.shared.changed.notify_one();
    }

    /// Adds a job that somebody does without the pool, if no thread is idle in time.
    pub(crate) fn offer(&self, job: Job) {
        let mut waiting = self.lock();
        if !waiting.closed && waiting.helpers.len() < OFFERS_LIMIT {
            waiting.helpers.push_back(job);
            drop(waiting);
            self.shared.changed.notify_one();
        }
    }

    /// Does `work` for each number below `count`, on this thread and on idle ones of the pool;
    /// answers in the order of the numbers.
    pub(crate) fn for_each<T: Send + 'static>(
        &self,
        count: usize,
        work: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
    ) -> Vec<Result<T>> {
        let batch = Arc::new(Batch::new(count, work));
        for _ in 1..count.min(self.threads + 1) {
            let batch = batch.clone();
            self.lock().helpers.push_back(Box::new(move || batch.work()));
            self.shared.changed.notify_one();
        }
        batch.work();
        batch.wait()
    }

    /// Works until the pool is dropped.
    fn work(&self) {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.next() {
                drop(waiting);
                // Whoever waits for the job has its own way to notice; the thread goes on.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a background job of the state store panicked");
                }
                waiting = self.lock();
            } else if waiting.closed {
                return;
            } else {
                waiting = self.shared.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Work that several threads share.
struct Batch<T, W> {
    work: W,
    count: usize,
    next: AtomicUsize,
    results: Mutex<Vec<Option<Result<T>>>>,
    finished: Condvar,
}

impl<T, W: Fn(usize) -> Result<T>> Batch<T, W> {
    fn new(count: usize, work: W) -> Self {
        Self {
            work,
            count,
            next: AtomicUsize::new(0),
            results: Mutex::new((0..count).map(|_| None).collect()),
            finished: Condvar::new(),
        }
    }

    fn work(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return;
            }
            let result = catch_unwind(AssertUnwindSafe(|| (self.work)(number)))
                .unwrap_or_else(|_| Err(Error::internal("a part of a flush panicked")));
            let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = results.get_mut(number) {
                *slot = Some(result);
            }
            drop(results);
            self.finished.notify_all();
        }
    }

    fn wait(&self) -> Vec<Result<T>> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = self
            .finished
            .wait_while(results, |results| results.iter().any(Option::is_none))
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *results).into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn tables_take_turns() {
        let pool = Pool::start(1).unwrap();
        let queue = pool.queue();
        let (order, seen) = unbounded();
        let (go, gate) = unbounded::<()>();
        queue.submit(&"gate".into(), Box::new(move || gate.recv().unwrap_or_default()));
        for (table, number) in [("busy", 1), ("busy", 2), ("busy", 3), ("quiet", 1)] {
            let order = order.clone();
            queue.submit(&table.into(), Box::new(move || order.send((table, number)).unwrap()));
        }
        go.send(()).unwrap();
        let seen: Vec<_> = seen.iter().take(4).collect();
        assert_eq!(seen, [("busy", 1), ("quiet", 1), ("busy", 2), ("busy", 3)]);
    }

    #[test]
    fn flush_ends_while_every_thread_is_merging() {
        let pool = Pool::start(1).unwrap();
        let queue = pool.queue();
        let (go, gate) = unbounded::<()>();
        queue.submit(&"merging".into(), Box::new(move || gate.recv().unwrap_or_default()));
        let squares: Vec<_> = queue
            .for_each(5, |number| Ok(number * number))
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(squares, [0, 1, 4, 9, 16]);
        go.send(()).unwrap();
    }

    #[test]
    fn part_that_panics_is_an_error_and_the_others_end() {
        let pool = Pool::start(2).unwrap();
        let results = pool.queue().for_each(3, |number| {
            assert_ne!(number, 1);
            Ok(number)
        });
        assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }
}

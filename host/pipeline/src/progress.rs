//! Counters that the threads of a pipeline share.

use crate::summary::Progress;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What the threads have done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sources: Vec<SourceCounters>,
    pub(crate) rows_read: Counter,
    pub(crate) rows_in: Counter,
    pub(crate) rows_out: Counter,
    pub(crate) rows_filtered: Counter,
    pub(crate) rows_skipped: Counter,
    pub(crate) rows_dead_lettered: Counter,
    pub(crate) rows_isolated: Counter,
    pub(crate) batches: Counter,
    /// Watermarks that went back, which changed nothing.
    pub(crate) watermark_regressions: Counter,
    /// The number of the last completed checkpoint; 0: none.
    pub(crate) checkpoint: Counter,
}

/// Where a source is.
#[derive(Debug, Default)]
pub(crate) struct SourceCounters {
    pub(crate) bytes_read: Counter,
    pub(crate) bytes_total: Counter,
    watermark: Watermark,
}

/// A number that is read while others change it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: usize) {
        self.add_u64(u64::try_from(more).unwrap_or(u64::MAX));
    }

    pub(crate) fn add_u64(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// `i64::MIN`: none.
#[derive(Debug)]
struct Watermark(AtomicI64);

impl Default for Watermark {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl SourceCounters {
    pub(crate) fn set_watermark(&self, watermark: Option<i64>) {
        self.watermark.0.store(watermark.unwrap_or(i64::MIN), Ordering::Relaxed);
    }
}

impl Counters {
    /// For a pipeline with so many sources.
    pub(crate) fn new(sources: usize) -> Self {
        let sources = (0..sources).map(|_| SourceCounters::default());
        Self { sources: sources.collect(), ..Self::default() }
    }

    /// Those of a source.
    pub(crate) fn source(&self, number: usize, count: impl FnOnce(&SourceCounters)) {
        self.sources.get(number).map(count).unwrap_or_default();
    }

    pub(crate) fn progress(&self) -> Progress {
        let sum = |of: fn(&SourceCounters) -> &Counter| {
            self.sources.iter().map(|source| of(source).get()).sum()
        };
        let watermarks = self.sources.iter().map(|it| it.watermark.0.load(Ordering::Relaxed));
        let checkpoint = self.checkpoint.get();
        Progress {
            bytes_read: sum(|source| &source.bytes_read),
            bytes_total: sum(|source| &source.bytes_total),
            rows_in: self.rows_in.get(),
            rows_out: self.rows_out.get(),
            rows_filtered: self.rows_filtered.get(),
            rows_skipped: self.rows_skipped.get(),
            rows_dead_lettered: self.rows_dead_lettered.get(),
            watermark: watermarks.min().filter(|watermark| *watermark != i64::MIN),
            checkpoint: (checkpoint > 0).then_some(checkpoint),
        }
    }
}

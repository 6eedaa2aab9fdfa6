//! Counters that the threads of a pipeline share.

use crate::summary::Progress;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What the threads have done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_read: Counter,
    pub(crate) bytes_total: Counter,
    pub(crate) rows_read: Counter,
    pub(crate) rows_in: Counter,
    pub(crate) rows_out: Counter,
    pub(crate) rows_filtered: Counter,
    pub(crate) rows_skipped: Counter,
    pub(crate) rows_dead_lettered: Counter,
    pub(crate) rows_isolated: Counter,
    pub(crate) batches: Counter,
    /// The number of the last completed checkpoint; 0: none.
    pub(crate) checkpoint: Counter,
    watermark: Watermark,
}

/// A number that is read while others change it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
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

impl Counters {
    pub(crate) fn set_watermark(&self, watermark: Option<i64>) {
        self.watermark.0.store(watermark.unwrap_or(i64::MIN), Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> Progress {
        let watermark = self.watermark.0.load(Ordering::Relaxed);
        let checkpoint = self.checkpoint.get();
        Progress {
            bytes_read: self.bytes_read.get(),
            bytes_total: self.bytes_total.get(),
            rows_in: self.rows_in.get(),
            rows_out: self.rows_out.get(),
            rows_filtered: self.rows_filtered.get(),
            rows_skipped: self.rows_skipped.get(),
            rows_dead_lettered: self.rows_dead_lettered.get(),
            watermark: (watermark != i64::MIN).then_some(watermark),
            checkpoint: (checkpoint > 0).then_some(checkpoint),
        }
    }
}

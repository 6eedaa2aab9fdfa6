//! Counters that the threads of a pipeline share.

use crate::latency::Latencies;
use crate::meter::Tally;
use crate::summary::{Activity, Progress};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

/// What the threads have done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sources: Vec<SourceCounters>,
    /// One for each thread of a source or operator.
    tallies: Mutex<Vec<Arc<Tally>>>,
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
    /// How long rows took to sinks.
    pub(crate) latencies: Latencies,
}

const SOURCE_BYTES: &str = "howdah_pipeline_source_bytes";
const SOURCE_BYTES_READ: &str = "howdah_pipeline_source_read_bytes";
const LAST_CHECKPOINT: &str = "howdah_pipeline_last_checkpoint";
const WATERMARK: &str = "howdah_pipeline_watermark_seconds";

/// A counter that is reported: its name, what it counts, and where it is.
type Counted = (&'static str, &'static str, fn(&Counters) -> &Counter);

const COUNTED: [Counted; 9] = [
    ("howdah_pipeline_rows_read_total", "Rows read from sources", |it| &it.rows_read),
    ("howdah_pipeline_rows_in_total", "Rows handed to operators", |it| &it.rows_in),
    ("howdah_pipeline_rows_out_total", "Rows that went to sinks", |it| &it.rows_out),
    ("howdah_pipeline_rows_filtered_total", "Rows that filters kept out", |it| &it.rows_filtered),
    ("howdah_pipeline_rows_skipped_total", "Malformed rows left out", |it| &it.rows_skipped),
    ("howdah_pipeline_rows_dead_lettered_total", "Malformed rows in dead-letter files", |it| {
        &it.rows_dead_lettered
    }),
    ("howdah_pipeline_rows_isolated_total", "Rows set aside that operators failed on", |it| {
        &it.rows_isolated
    }),
    ("howdah_pipeline_batches_total", "Batches that operators processed", |it| &it.batches),
    (
        "howdah_pipeline_watermark_regressions_total",
        "Watermarks that went back, which changed nothing",
        |it| &it.watermark_regressions,
    ),
];

fn describe() {
    for (name, what, _) in COUNTED {
        describe_counter!(name, Unit::Count, what);
    }
    describe_gauge!(SOURCE_BYTES, Unit::Bytes, "Bytes that sources have");
    describe_gauge!(SOURCE_BYTES_READ, Unit::Bytes, "Bytes read of them, over all runs");
    describe_gauge!(LAST_CHECKPOINT, Unit::Count, "Number of the last completed checkpoint");
    describe_gauge!(
        WATERMARK,
        Unit::Seconds,
        "The lowest watermark of sources that are not idle, since the Unix epoch"
    );
}

/// Where a source is.
#[derive(Debug, Default)]
pub(crate) struct SourceCounters {
    pub(crate) bytes_read: Counter,
    pub(crate) bytes_total: Counter,
    watermark: Watermark,
    idle: AtomicBool,
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

    /// Whether its watermark holds nobody back.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
    }
}

impl Counters {
    /// For a pipeline with so many sources.
    pub(crate) fn new(sources: usize) -> Self {
        let sources = (0..sources).map(|_| SourceCounters::default());
        Self { sources: sources.collect(), ..Self::default() }
    }

    /// What a thread is to count with.
    pub(crate) fn tally(&self, node: &str, subtask: usize) -> Arc<Tally> {
        let tally = Arc::new(Tally::new(node, subtask));
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.push(Arc::clone(&tally));
        tally
    }

    /// What the threads have done, sources first.
    pub(crate) fn activities(&self) -> Vec<Activity> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.iter().map(|tally| tally.activity()).collect()
    }

    /// Those of a source.
    pub(crate) fn source(&self, number: usize, count: impl FnOnce(&SourceCounters)) {
        self.sources.get(number).map(count).unwrap_or_default();
    }

    /// Through the `metrics` facade, with the label `pipeline`; counted in this run.
    pub(crate) fn report(&self, pipeline: &str) {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(describe);
        let pipeline = || pipeline.to_owned();
        for (name, _, of) in COUNTED {
            counter!(name, "pipeline" => pipeline()).absolute(of(self).get());
        }
        let progress = self.progress();
        let gauges = [
            (SOURCE_BYTES, Some(progress.bytes_total)),
            (SOURCE_BYTES_READ, Some(progress.bytes_read)),
            (LAST_CHECKPOINT, progress.checkpoint),
        ];
        #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
        for (name, value) in gauges {
            if let Some(value) = value {
                gauge!(name, "pipeline" => pipeline()).set(value as f64);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
        if let Some(watermark_ms) = progress.watermark {
            gauge!(WATERMARK, "pipeline" => pipeline()).set(watermark_ms as f64 / 1_000.0);
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        let sum = |of: fn(&SourceCounters) -> &Counter| {
            self.sources.iter().map(|source| of(source).get()).sum()
        };
        let watermarks = |idle: bool| {
            let sources = self.sources.iter();
            let sources = sources.filter(move |it| it.idle.load(Ordering::Relaxed) == idle);
            sources.map(|source| source.watermark.0.load(Ordering::Relaxed))
        };
        // As those who take their rows combine them: without idle ones, unless all are.
        let watermark = watermarks(false).min().or_else(|| watermarks(true).max());
        let checkpoint = self.checkpoint.get();
        Progress {
            bytes_read: sum(|source| &source.bytes_read),
            bytes_total: sum(|source| &source.bytes_total),
            rows_in: self.rows_in.get(),
            rows_out: self.rows_out.get(),
            rows_filtered: self.rows_filtered.get(),
            rows_skipped: self.rows_skipped.get(),
            rows_dead_lettered: self.rows_dead_lettered.get(),
            watermark: watermark.filter(|watermark| *watermark != i64::MIN),
            checkpoint: (checkpoint > 0).then_some(checkpoint),
        }
    }
}

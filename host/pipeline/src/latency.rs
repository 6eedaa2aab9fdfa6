//! How long rows take from a source to a sink.
//!
//! A source notes when it begins to read a batch. That goes with the rows, through exchanges and
//! operators, and what an operator makes of a batch is as old as the batch. What it makes of no batch
//! (when timers fire, at a barrier, at the end) has no such time, and is not counted.

use crate::clock;
use crate::progress::{Counter, Counters};
use crate::summary::LatencySummary;
use metrics::{Histogram, Unit, describe_histogram, histogram};
use std::sync::{Arc, Once};
use std::time::Instant;

/// Each power of two is split into so many parts.
const PARTS: usize = 1 << PARTS_BITS;
const PARTS_BITS: usize = 4;
/// Times below [`PARTS`] have a bucket each, and each higher power of two that an `u64` has as many.
const BUCKETS: usize = PARTS * (64 - PARTS_BITS + 1);

const LATENCY: &str = "howdah_pipeline_latency_seconds";

/// Rows by the microseconds that they took.
#[derive(Debug)]
pub(crate) struct Latencies {
    rows: Box<[Counter]>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { rows: (0..BUCKETS).map(|_| Counter::default()).collect() }
    }
}

impl Latencies {
    fn add(&self, microseconds: u64, rows: usize) {
        if let Some(counter) = self.rows.get(bucket(microseconds)) {
            counter.add(rows);
        }
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        let counts: Vec<u64> = self.rows.iter().map(Counter::get).collect();
        let rows: u64 = counts.iter().sum();
        // The most that so many rows took.
        let of_first = |share: u64| {
            let mut left = share;
            let reached = counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            reached.filter(|_| rows > 0).map_or(0, most)
        };
        LatencySummary {
            rows,
            median_us: of_first(rows.div_ceil(2)),
            p99_us: of_first(rows - rows / 100),
            max_us: of_first(rows),
        }
    }
}

/// The bucket of a time.
fn bucket(microseconds: u64) -> usize {
    let Some(power) = microseconds.checked_ilog2().map(|power| power as usize) else { return 0 };
    if power < PARTS_BITS {
        return usize::try_from(microseconds).unwrap_or_default();
    }
    let shift = power - PARTS_BITS;
    // From PARTS up to twice as much.
    let part = usize::try_from(microseconds >> shift).unwrap_or_default();
    shift * PARTS + part
}

/// The greatest time of a bucket.
fn most(bucket: usize) -> u64 {
    let Some(shift) = (bucket / PARTS).checked_sub(1) else { return bucket as u64 };
    let part = (bucket % PARTS + PARTS) as u64;
    (part << shift) + ((1 << shift) - 1)
}

/// What the thread of a sink counts with.
pub(crate) struct LatencyMeter {
    counters: Arc<Counters>,
    histogram: Histogram,
}

impl LatencyMeter {
    pub(crate) fn new(pipeline: &str, counters: Arc<Counters>) -> Self {
        static DESCRIBED: Once = Once::new();
        DESCRIBED.call_once(|| {
            let what = "From when a source begins to read a batch to when a sink writes its rows";
            describe_histogram!(LATENCY, Unit::Seconds, what);
        });
        Self { counters, histogram: histogram!(LATENCY, "pipeline" => pipeline.to_owned()) }
    }

    /// Rows have been written.
    pub(crate) fn arrived(&self, rows: usize, read_at: Option<Instant>) {
        let Some(read_at) = read_at else { return };
        let taken = clock::now() - read_at;
        self.counters.latencies.add(u64::try_from(taken.as_micros()).unwrap_or(u64::MAX), rows);
        // Counted once for the batch: a histogram takes rows one by one.
        self.histogram.record(taken.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_is_less_than_a_sixteenth_wide() {
        let mut expected = 0;
        for bucket_number in 0..BUCKETS {
            let greatest = most(bucket_number);
            assert_eq!(bucket(expected), bucket_number, "{expected}");
            assert_eq!(bucket(greatest), bucket_number, "{greatest}");
            assert!(greatest - expected <= expected / 16, "{expected} to {greatest}");
            expected = greatest.wrapping_add(1);
        }
        assert_eq!(expected, 0, "the last bucket ends with the last number");
    }

    #[test]
    fn a_share_of_the_rows_took_at_most_what_is_told() {
        let latencies = Latencies::default();
        assert_eq!(latencies.summary(), LatencySummary::default());
        latencies.add(3, 980);
        latencies.add(7, 10);
        latencies.add(15, 10);
        let expected = LatencySummary { rows: 1_000, median_us: 3, p99_us: 7, max_us: 15 };
        assert_eq!(latencies.summary(), expected);
    }

    #[test]
    fn rows_that_no_source_read_are_not_counted() {
        let counters = Arc::new(Counters::new(1));
        let meter = LatencyMeter::new("q18", Arc::clone(&counters));
        meter.arrived(5, None);
        assert_eq!(counters.latencies.summary().rows, 0);
        meter.arrived(5, Some(clock::now() - Duration::from_millis(7)));
        let LatencySummary { rows, median_us, .. } = counters.latencies.summary();
        assert_eq!(rows, 5);
        assert!(median_us >= 7_000);
    }
}

//! How a thread spends its time: at work, waiting for something to do, or waiting for those who take
//! what it sends; and what goes through it meanwhile.
//!
//! Reported through the `metrics` facade, with the labels `pipeline`, `operator` (or the
//! name of a source) and `subtask`. The shares
//! of a subtask are the rates of the three counters: one that is busy all the time holds up those
//! before it, which are blocked, and starves those behind it, which are idle. The same is in the
//! [`Activity`] of a handle.

use crate::clock;
use crate::progress;
use crate::summary::Activity;
use metrics::{Counter, Unit, counter, describe_counter};
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// What a thread has done so far, read while it goes on.
#[derive(Debug)]
pub(crate) struct Tally {
    node: String,
    subtask: usize,
    busy_us: progress::Counter,
    idle_us: progress::Counter,
    blocked_us: progress::Counter,
    rows_in: progress::Counter,
    rows_out: progress::Counter,
    /// `i64::MIN`: none yet.
    watermark: AtomicI64,
}

impl Tally {
    pub(crate) fn new(node: &str, subtask: usize) -> Self {
        Self {
            node: node.to_owned(),
            subtask,
            busy_us: progress::Counter::default(),
            idle_us: progress::Counter::default(),
            blocked_us: progress::Counter::default(),
            rows_in: progress::Counter::default(),
            rows_out: progress::Counter::default(),
            watermark: AtomicI64::new(i64::MIN),
        }
    }

    pub(crate) fn activity(&self) -> Activity {
        let watermark = self.watermark.load(Ordering::Relaxed);
        Activity {
            node: self.node.clone(),
            subtask: self.subtask,
            busy_us: self.busy_us.get(),
            idle_us: self.idle_us.get(),
            blocked_us: self.blocked_us.get(),
            rows_in: self.rows_in.get(),
            rows_out: self.rows_out.get(),
            watermark: (watermark != i64::MIN).then_some(watermark),
        }
    }
}

/// The times of one thread.
pub(crate) struct Meter {
    /// When it last began to work.
    since: Instant,
    tally: Arc<Tally>,
    busy: Counter,
    idle: Counter,
    blocked: Counter,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}

impl Meter {
    /// Of a subtask of a source or operator.
    pub(crate) fn new(pipeline: &str, tally: Arc<Tally>) -> Self {
        describe();
        let labels = [
            ("pipeline", pipeline.to_owned()),
            ("operator", tally.node.clone()),
            ("subtask", tally.subtask.to_string()),
        ];
        Self {
            since: clock::now(),
            tally,
            busy: counter!("howdah_pipeline_busy_microseconds_total", &labels),
            idle: counter!("howdah_pipeline_idle_microseconds_total", &labels),
            blocked: counter!("howdah_pipeline_blocked_microseconds_total", &labels),
        }
    }

    /// Which source or operator it is, and which subtask of it.
    pub(crate) fn names(&self) -> (&str, usize) {
        (&self.tally.node, self.tally.subtask)
    }

    /// Waits for something to do.
    pub(crate) fn idle<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        let (result, waited_us) = self.wait(wait);
        self.idle.increment(waited_us);
        self.tally.idle_us.add_u64(waited_us);
        result
    }

    /// Waits for those who take what it sends.
    pub(crate) fn blocked<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        let (result, waited_us) = self.wait(wait);
        self.blocked.increment(waited_us);
        self.tally.blocked_us.add_u64(waited_us);
        result
    }

    fn wait<R>(&mut self, wait: impl FnOnce() -> R) -> (R, u64) {
        let begun = clock::now();
        let worked_us = whole_microseconds(begun - self.since);
        self.busy.increment(worked_us);
        self.tally.busy_us.add_u64(worked_us);
        let result = wait();
        self.since = clock::now();
        (result, whole_microseconds(self.since - begun))
    }

    /// Rows have come in.
    pub(crate) fn rows_in(&self, rows: usize) {
        self.tally.rows_in.add(rows);
    }

    /// Rows have gone out.
    pub(crate) fn rows_out(&self, rows: usize) {
        self.tally.rows_out.add(rows);
    }

    /// The watermark behind which nothing is to come out.
    pub(crate) fn watermark(&self, watermark: i64) {
        self.tally.watermark.store(watermark, Ordering::Relaxed);
    }
}

fn whole_microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Says what the counters are, once.
fn describe() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        let counters = [
            ("howdah_pipeline_busy_microseconds_total", "at work"),
            ("howdah_pipeline_idle_microseconds_total", "without anything to do"),
            ("howdah_pipeline_blocked_microseconds_total", "behind those who take the rows"),
        ];
        for (name, what) in counters {
            describe_counter!(name, Unit::Microseconds, format!("Time of a subtask {what}"));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString};
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;

    /// Counters by their names and labels.
    #[derive(Default)]
    struct Counted(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Recorder for Counted {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
            let name = format!("{} {}", key.name(), labels.join(" "));
            let mut counters = self.0.lock().expect("whole");
            Counter::from_arc(Arc::clone(counters.entry(name).or_default()))
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn each_wait_is_counted_with_the_work_before_it() {
        let counted = Counted::default();
        let tally = Arc::new(Tally::new("last-bid", 1));
        metrics::with_local_recorder(&counted, || {
            let mut meter = Meter::new("q18", Arc::clone(&tally));
            meter.since -= Duration::from_millis(7);
            assert_eq!(meter.idle(|| 5), 5);
            meter.blocked(|| ());
        });
        let counters = counted.0.lock().expect("whole");
        let names: Vec<&str> = counters.keys().map(String::as_str).collect();
        let expected = ["blocked", "busy", "idle"]
            .map(|what| format!("howdah_pipeline_{what}_microseconds_total q18 last-bid 1"));
        assert_eq!(names, expected);
        let busy_us = counters[&expected[1]].load(Ordering::Relaxed);
        assert!(busy_us >= 7_000);
        assert_eq!(tally.activity().busy_us, busy_us);
    }

    #[test]
    fn what_goes_through_a_thread_is_part_of_its_activity() {
        let tally = Arc::new(Tally::new("last-bid", 1));
        let meter = Meter::new("q18", Arc::clone(&tally));
        assert_eq!(tally.activity().watermark, None);
        meter.rows_in(3);
        meter.rows_out(2);
        meter.watermark(-7);
        let Activity { node, subtask, rows_in, rows_out, watermark, .. } = tally.activity();
        assert_eq!((node.as_str(), subtask, rows_in, rows_out), ("last-bid", 1, 3, 2));
        assert_eq!(watermark, Some(-7));
    }
}

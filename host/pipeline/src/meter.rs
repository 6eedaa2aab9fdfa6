//! How a thread spends its time: at work, waiting for something to do, or waiting for those who take
//! what it sends.
//!
//! Reported through the `metrics` facade, with the labels `pipeline`, `operator` (or the
//! name of a source) and `subtask`. The shares
//! of a subtask are the rates of the three counters: one that is busy all the time holds up those
//! before it, which are blocked, and starves those behind it, which are idle.

use crate::clock;
use metrics::{Counter, Unit, counter, describe_counter};
use std::fmt;
use std::sync::Once;
use std::time::{Duration, Instant};

/// The times of one thread.
pub(crate) struct Meter {
    /// When it last began to work.
    since: Instant,
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
    pub(crate) fn new(pipeline: &str, node: &str, subtask: usize) -> Self {
        describe();
        let labels = [
            ("pipeline", pipeline.to_owned()),
            ("operator", node.to_owned()),
            ("subtask", subtask.to_string()),
        ];
        Self {
            since: clock::now(),
            busy: counter!("howdah_pipeline_busy_microseconds_total", &labels),
            idle: counter!("howdah_pipeline_idle_microseconds_total", &labels),
            blocked: counter!("howdah_pipeline_blocked_microseconds_total", &labels),
        }
    }

    /// Waits for something to do.
    pub(crate) fn idle<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        let idle = self.idle.clone();
        self.wait(&idle, wait)
    }

    /// Waits for those who take what it sends.
    pub(crate) fn blocked<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        let blocked = self.blocked.clone();
        self.wait(&blocked, wait)
    }

    fn wait<R>(&mut self, counter: &Counter, wait: impl FnOnce() -> R) -> R {
        let begun = clock::now();
        self.busy.increment(whole_microseconds(begun - self.since));
        let result = wait();
        self.since = clock::now();
        counter.increment(whole_microseconds(self.since - begun));
        result
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
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

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
        metrics::with_local_recorder(&counted, || {
            let mut meter = Meter::new("q18", "last-bid", 1);
            meter.since -= Duration::from_millis(7);
            assert_eq!(meter.idle(|| 5), 5);
            meter.blocked(|| ());
        });
        let counters = counted.0.lock().expect("whole");
        let names: Vec<&str> = counters.keys().map(String::as_str).collect();
        let expected = ["blocked", "busy", "idle"]
            .map(|what| format!("howdah_pipeline_{what}_microseconds_total q18 last-bid 1"));
        assert_eq!(names, expected);
        assert!(counters[&expected[1]].load(Ordering::Relaxed) >= 7_000);
    }
}

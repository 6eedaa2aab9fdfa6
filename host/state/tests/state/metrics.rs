//! What a table reports through the `metrics` facade.

use crate::effort::scratch;
use crate::fixture::{Fixture, TABLE, eager, rows};
use howdah_state::*;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Keeps the last value, or for histograms the number of values, by name and table.
#[derive(Debug, Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<(String, String), f64>>>);

#[derive(Debug)]
struct Slot {
    all: Recorded,
    key: (String, String),
}

impl Recorded {
    fn slot(&self, key: &Key) -> Arc<Slot> {
        let table = key.labels().find(|label| label.key() == "table").unwrap();
        let key = (key.name().to_owned(), table.value().to_owned());
        Arc::new(Slot { all: self.clone(), key })
    }

    fn get(&self, name: &str) -> f64 {
        let all = self.0.lock().unwrap();
        all.get(&(name.to_owned(), TABLE.to_owned())).copied().unwrap_or(0.0)
    }
}

impl Slot {
    fn change(&self, change: impl FnOnce(f64) -> f64) {
        let mut all = self.all.0.lock().unwrap();
        let value = all.entry(self.key.clone()).or_default();
        *value = change(*value);
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
impl CounterFn for Slot {
    fn increment(&self, value: u64) {
        self.change(|old| old + value as f64);
    }
    fn absolute(&self, value: u64) {
        self.change(|_| value as f64);
    }
}

impl GaugeFn for Slot {
    fn increment(&self, value: f64) {
        self.change(|old| old + value);
    }
    fn decrement(&self, value: f64) {
        self.change(|old| old - value);
    }
    fn set(&self, value: f64) {
        self.change(|_| value);
    }
}

impl HistogramFn for Slot {
    fn record(&self, _: f64) {
        self.change(|old| old + 1.0);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.slot(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.slot(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.slot(key))
    }
}

#[test]
fn table_reports_what_it_did_under_its_name() {
    let directory = scratch();
    let recorded = Recorded::default();
    let mut fixture = metrics::with_local_recorder(&recorded, || {
        Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap()
    });
    for checkpoint in 1..=20 {
        fixture.get(&[checkpoint]).unwrap();
        fixture.put(&rows(&[(checkpoint, 1, "a"), (0, checkpoint, "b")])).unwrap();
        let snapshot = fixture.checkpoint(checkpoint as u64);
        fixture.table.retain(&[(checkpoint as u64, snapshot)]).unwrap();
    }
    fixture.store.close().unwrap();
    assert_eq!(recorded.get("howdah_state_commits_total"), 20.0);
    assert_eq!(recorded.get("howdah_state_checkpoint_duration_seconds"), 20.0);
    assert_eq!(recorded.get("howdah_state_flushed_rows_total"), 40.0);
    assert_eq!(recorded.get("howdah_state_keys_written_total"), 40.0);
    assert!(recorded.get("howdah_state_probe_duration_seconds") > 0.0);
    assert!(recorded.get("howdah_state_merges_total") > 0.0);
    assert!(recorded.get("howdah_state_expired_snapshots_total") > 0.0);
    assert!(recorded.get("howdah_state_files") > 0.0);
    assert!(recorded.get("howdah_state_snapshots") > 0.0);
}

/// So that what the documentation lists is what there is.
#[test]
fn every_figure_is_documented() {
    let mut names: Vec<&str> =
        include_str!("../../src/metrics.rs").split('"').filter(|text| is_name(text)).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.len() > 20, "{names:?}");
    let documentation = include_str!("../../src/lib.rs");
    let missing: Vec<_> =
        names.iter().filter(|name| !documentation.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn is_name(text: &str) -> bool {
    text.starts_with("howdah_state_") && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

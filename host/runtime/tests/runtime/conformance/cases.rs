//! What random commands do not come to: failures, what is logged and measured, and much of something.

use super::job::{Job, Step};
use super::model::Model;
use super::rows::Command;
use super::{OPERATORS, check};
use howdah_runtime::ErrorKind;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::fmt;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

fn commands(rows: Vec<Command>) -> Step {
    Step::Commands(rows)
}

#[test]
fn an_error_of_the_operator_arrives_as_it_is() {
    for (language, component) in OPERATORS.iter() {
        let mut job = Job::new(&[component]);
        let fail = Command::new("a", "fail").text("cannot take 7");
        let error = job.step(&commands(vec![fail])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Operator, "{language}");
        assert!(error.to_string().contains("cannot take 7"), "{language}: {error}");
    }
}

#[test]
fn a_crash_arrives_with_its_message_and_where_it_was() {
    for (language, component) in OPERATORS.iter() {
        let mut job = Job::new(&[component]);
        let crash = Command::new("a", "crash").text("out of hay");
        let error = job.step(&commands(vec![crash])).unwrap_err();
        // Interpreters catch what is thrown; what aborts is a trap.
        let (kind, words) = match *language {
            "rust" => (
                ErrorKind::Trap,
                ["panic at operators/conformance/src/lib.rs", "in conformance::crash < "],
            ),
            "c" => (ErrorKind::Trap, ["; it said: ", "; in "]),
            "js" => (ErrorKind::Operator, ["RangeError: ", "conformance.js"]),
            _ => (ErrorKind::Operator, ["ValueError: ", "conformance.py"]),
        };
        assert_eq!(error.kind(), kind, "{language}: {error}");
        let text = error.to_string();
        for words in words.into_iter().chain(["out of hay"]) {
            assert!(text.contains(words), "{language}: no `{words}` in: {error}");
        }
        // The instance is gone, the job is not.
        job.start();
        job.step(&commands(vec![Command::new("a", "now")])).unwrap();
    }
}

#[test]
fn a_sum_that_does_not_fit_fails_the_batch() {
    let add = |number| commands(vec![Command::new("a", "reducing.add").number(number)]);
    let get = || commands(vec![Command::new("a", "reducing.get")]);
    check(&[
        add(i64::MAX - 1),
        add(1),
        get(),
        Step::Barrier,
        add(1),
        get(),
        add(i64::MIN),
        add(i64::MIN),
        get(),
    ])
    .unwrap();
}

#[test]
fn a_batch_of_many_keys_costs_one_look_up_and_one_write_for_each_state() {
    let keys = 2_000;
    let each = |name: &str| {
        let rows = (0..keys).map(|key| Command::new(&format!("key {key}"), name).number(key));
        commands(rows.collect())
    };
    let all = [
        ("value.put", 1),
        ("value.get", 1),
        ("list.append", 1),
        ("list.get", 2),
        ("map.put", 1),
        ("map.entries", 2),
        ("reducing.add", 1),
        ("reducing.get", 1),
        ("event.set", 1),
        ("event.delete", 1),
        ("value.delete", 1),
        ("list.clear", 1),
        ("map.clear", 1),
        ("reducing.clear", 1),
    ];
    check(&all.map(|(name, _)| each(name))).unwrap();
    for (language, component) in OPERATORS.iter() {
        let mut job = Job::new(&[component]);
        for (name, most) in all {
            let before = job.run().metrics().state_calls_total;
            job.step(&each(name)).unwrap();
            let calls = job.run().metrics().state_calls_total - before;
            // In C, entries of maps are read key by key.
            if (*language, name) != ("c", "map.entries") {
                assert!((1..=most).contains(&calls), "{language}, {name}: {calls} calls");
            }
        }
    }
}

#[test]
fn long_lists_and_large_maps_are_whole() {
    let appends = (0..6_000).map(|n| Command::new("a", "list.append").number(n));
    let puts = (0..6_000).map(|n| Command::new("a", "map.put").map_key(5_999 - n).number(n));
    let later = |name: &str| Command::new("a", "later").text(name);
    let range = Command::new("a", "map.range").map_key(100).number(5_900);
    check(&[
        commands(appends.chain(puts).collect()),
        Step::Barrier,
        Step::Crash,
        commands(vec![Command::new("a", "list.get"), Command::new("a", "map.entries")]),
        commands(vec![range.clone(), range.text("5000")]),
        commands(vec![later("list.get"), later("map.entries")]),
        Step::Close,
    ])
    .unwrap();
}

#[test]
fn entries_that_the_batch_removed_or_wrote_take_no_place_in_a_limited_range() {
    let at = |name: &str, map_key| Command::new("a", name).map_key(map_key).number(map_key);
    let range = |limit: &str| Command { number: None, ..at("map.range", 0).text(limit) };
    let (puts, deletes) =
        ((0..12).map(|n| at("map.put", 2 * n)), [2, 4].map(|n| at("map.delete", n)));
    let changes = deletes.into_iter().chain([at("map.put", 7), at("map.delete", 9)]);
    let reads = [range("0"), range("1"), range("4"), range("100")];
    check(&[
        commands(puts.collect()),
        Step::Barrier,
        commands(changes.chain(reads.clone()).collect()),
        commands(reads.to_vec()),
        commands([vec![Command::new("a", "map.clear"), at("map.put", 3)], reads.to_vec()].concat()),
        Step::Barrier,
    ])
    .unwrap();
}

#[test]
fn a_batch_that_fails_at_its_end_leaves_nothing() {
    let put = Command::new("a", "value.put").number(1).text("new");
    let get = || commands(vec![Command::new("a", "value.get")]);
    check(&[commands(vec![put, Command::new("a", "dance")]), get(), Step::Barrier, get()]).unwrap();
}

#[test]
fn after_a_failure_another_instance_goes_on_with_the_state_from_before() {
    let write = |number: i64| {
        let names = ["value.put", "list.append", "map.put", "reducing.add", "event.set"];
        names.map(|name| Command::new("a", name).number(number).map_key(number)).to_vec()
    };
    let removals = ["value.delete", "list.clear", "map.clear", "reducing.clear"];
    let removals = removals.map(|name| Command::new("a", name));
    let reads = ["value.get", "list.get", "map.entries", "reducing.get"];
    let reads = commands(reads.map(|name| Command::new("a", name)).to_vec());
    for (language, component) in OPERATORS.iter() {
        let mut job = Job::new(&[component]);
        let mut model = Model::new(job.spec().inputs[1].schema());
        job.run().keep_state_on_failure();
        for (round, failure) in (1..).zip(["fail", "crash", "dance", "crash"]) {
            let good = commands(write(round));
            job.step(&good).unwrap();
            model.step(&good).unwrap();
            let mut bad = [write(-round), removals.to_vec(), write(100)].concat();
            bad.push(Command::new("a", failure).text("as told"));
            job.step(&commands(bad)).unwrap_err();
            job.run().restart().unwrap();
            assert_eq!(job.step(&reads).unwrap(), model.step(&reads).unwrap(), "{language}");
        }
        let watermark = Step::Watermark(1_000);
        assert_eq!(job.step(&watermark).unwrap(), model.step(&watermark).unwrap(), "{language}");
    }
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<String>>>);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Logs {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "howdah::operator"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), message.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn what_is_logged_reaches_the_host_with_its_level() {
    let rows = (0..5).map(|level| Command::new("a", "log").number(level).text("grüß dich"));
    let step = commands(rows.collect());
    for (language, component) in OPERATORS.iter() {
        let logs = Logs::default();
        tracing::subscriber::with_default(logs.clone(), || {
            let mut job = Job::new(&[component]);
            // A test on another thread, which nobody listens to, may have been the first to log from
            // the same place, and `tracing` keeps in mind that nobody does.
            job.step(&step).unwrap();
            tracing::callsite::rebuild_interest_cache();
            logs.0.lock().unwrap().clear();
            job.step(&step).unwrap();
            job.step(&Step::Barrier).unwrap();
        });
        let expected =
            ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"].map(|level| format!("{level} grüß dich"));
        let complete = "INFO checkpoint 1 is complete".to_owned();
        let expected: Vec<String> = expected.into_iter().chain([complete]).collect();
        assert_eq!(*logs.0.lock().unwrap(), expected, "{language}");
    }
}

/// Keeps what is measured.
#[derive(Clone, Default)]
struct Figures(Arc<Mutex<Vec<String>>>);

struct Figure {
    name: String,
    to: Figures,
}

impl Figure {
    fn note(&self, what: &str, value: f64) {
        self.to.0.lock().unwrap().push(format!("{} {what} {value}", self.name));
    }
}

impl CounterFn for Figure {
    #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
    fn increment(&self, value: u64) {
        self.note("grows by", value as f64);
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Figure {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}
    fn set(&self, value: f64) {
        self.note("is", value);
    }
}

impl HistogramFn for Figure {
    fn record(&self, value: f64) {
        self.note("takes", value);
    }
}

impl Figures {
    fn figure(&self, key: &Key) -> Arc<Figure> {
        Arc::new(Figure { name: key.name().to_owned(), to: self.clone() })
    }
}

impl Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.figure(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.figure(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.figure(key))
    }
}

#[test]
fn what_is_measured_reaches_the_host() {
    let measure = |name: &str, number| Command::new("a", name).number(number);
    for (language, component) in OPERATORS.iter() {
        let figures = Figures::default();
        metrics::with_local_recorder(&figures, || {
            let mut job = Job::new(&[component]);
            let rows = vec![measure("counter", 3), measure("gauge", -7), measure("histogram", 11)];
            job.step(&commands(rows)).unwrap();
        });
        let mut seen = figures.0.lock().unwrap().clone();
        seen.retain(|figure| figure.starts_with("howdah_operator_"));
        // Some SDKs tell of counters at the end of the call, so the order is open.
        seen.sort();
        let expected = [
            "howdah_operator_commands_total grows by 3",
            "howdah_operator_level_bytes is -7",
            "howdah_operator_wait_ms takes 11",
        ];
        assert_eq!(seen, expected, "{language}");
    }
}

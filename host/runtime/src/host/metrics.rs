//! The imported interface `metrics`: figures of operators, passed on to crate `metrics`.

use super::{HostState, Subject};
use crate::bindings::metrics::Host;
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, with_recorder};
use std::collections::HashMap;

/// What begins the name of each, so that no operator can pass its figures off as the host's.
const PREFIX: &str = "howdah_operator_";
/// Names of an instance that are passed on.
const NAMES_LIMIT: usize = 64;
const NAME_LIMIT_BYTES: usize = 64;
const METADATA: Metadata<'static> = Metadata::new("howdah::operator", Level::INFO, None);

/// The figures of one instance.
#[derive(Default)]
pub(crate) struct Figures {
    labels: Vec<Label>,
    by_name: HashMap<String, Figure>,
}

enum Figure {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl Figures {
    /// Those of `describe` go nowhere: it is pure.
    pub(super) fn new(subject: &Subject) -> Self {
        let labels = match subject {
            Subject::Component(_) => Vec::new(),
            Subject::Subtask(context) => vec![
                Label::new("pipeline", context.pipeline.clone()),
                Label::new("operator", context.operator.clone()),
                Label::new("subtask", context.subtask.to_string()),
            ],
        };
        Self { labels, by_name: HashMap::new() }
    }

    /// The figure of this name, which is made with its first value; `None` if there is none and
    /// can be none.
    fn get(&mut self, name: &str, make: impl FnOnce(&Key) -> Figure) -> Option<&Figure> {
        if !self.by_name.contains_key(name) {
            if self.labels.is_empty() || self.by_name.len() == NAMES_LIMIT || !is_name(name) {
                return None;
            }
            let key = Key::from_parts(format!("{PREFIX}{name}"), self.labels.clone());
            self.by_name.insert(name.to_owned(), make(&key));
        }
        self.by_name.get(name)
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= NAME_LIMIT_BYTES
        && name.bytes().all(allowed)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
}

impl HostState {
    /// Takes note of a figure that was dropped: its name is none, there are too many, or it is
    /// of another kind than before.
    fn drop_figure(&mut self) {
        self.metrics.figures_dropped_total += 1;
    }
}

impl Host for HostState {
    fn counter_add(&mut self, name: String, amount: u64) {
        let make = |key: &Key| {
            Figure::Counter(with_recorder(|recorder| recorder.register_counter(key, &METADATA)))
        };
        match self.figures.get(&name, make) {
            Some(Figure::Counter(counter)) => counter.increment(amount),
            _ => self.drop_figure(),
        }
    }

    fn gauge_set(&mut self, name: String, value: f64) {
        let make = |key: &Key| {
            Figure::Gauge(with_recorder(|recorder| recorder.register_gauge(key, &METADATA)))
        };
        match self.figures.get(&name, make) {
            Some(Figure::Gauge(gauge)) => gauge.set(value),
            _ => self.drop_figure(),
        }
    }

    fn histogram_record(&mut self, name: String, value: f64) {
        let make = |key: &Key| {
            Figure::Histogram(with_recorder(|recorder| recorder.register_histogram(key, &METADATA)))
        };
        match self.figures.get(&name, make) {
            Some(Figure::Histogram(histogram)) => histogram.record(value),
            _ => self.drop_figure(),
        }
    }
}

//! Metrics of the operator's own: the host adds pipeline, operator and subtask.
//!
//! An operator declares them in [`open`](crate::Operator::open) and keeps them in its fields. A
//! name has lower-case letters, digits and `_`, at most 64, and ends in its unit: `_total`, `_ms`,
//! `_bytes`. Counters and gauges cross to the host once for each call that changed them, and not
//! at all when the call fails.
//!
//! ```
//! use howdah_sdk::prelude::*;
//! # #[derive(Row)] struct Click { user: i64 }
//! # #[derive(Key)] struct User { user: i64 }
//!
//! struct Clicks { clicks: Counter }
//!
//! #[operator]
//! impl Clicks {
//!     fn open(open: &mut Open<User>) -> Result<Self> {
//!         Ok(Self { clicks: open.counter("clicks_total")? })
//!     }
//!
//!     fn process(&mut self, _: Click, _: &Record<User>, _: &mut Emitter<Click>) -> Result<()> {
//!         self.clicks.add(1);
//!         Ok(())
//!     }
//! }
//! # fn main() -> Result<()> {
//! # let mut host = howdah_sdk::testing::TestHost::<Clicks>::new()?;
//! # host.process([Click { user: 1 }, Click { user: 2 }])?;
//! # assert_eq!(host.counter("clicks_total"), 2);
//! # Ok(())
//! # }
//! ```

use std::cell::Cell;
use std::rc::Rc;

use crate::state::DuringCall;
use crate::{Error, Result, host};

/// What the host is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Metric {
    Counter(u64),
    Gauge(f64),
    Histogram(f64),
}

/// A number that only grows.
#[derive(Debug, Clone)]
pub struct Counter(Rc<Pending<u64>>);

impl Counter {
    /// Adds to it.
    pub fn add(&self, amount: u64) {
        self.0.value.set(self.0.value.get().saturating_add(amount));
    }
}

/// A number that goes up and down.
#[derive(Debug, Clone)]
pub struct Gauge(Rc<Pending<Option<f64>>>);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.value.set(Some(value));
    }
}

/// How numbers are spread. Each value is a call to the host.
#[derive(Debug, Clone)]
pub struct Histogram {
    name: Rc<str>,
}

impl Histogram {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into() }
    }

    /// Takes a value in.
    pub fn record(&self, value: f64) {
        if let Some(host) = host::running() {
            host.record(&self.name, Metric::Histogram(value));
        }
    }
}

/// What the running call did to a metric.
#[derive(Debug)]
pub(crate) struct Pending<T: Copy> {
    name: String,
    value: Cell<T>,
}

impl Counter {
    pub(crate) fn new(name: &str) -> (Self, Rc<dyn DuringCall>) {
        let pending = Rc::new(Pending { name: name.to_owned(), value: Cell::new(0) });
        (Self(Rc::clone(&pending)), pending)
    }
}

impl Gauge {
    pub(crate) fn new(name: &str) -> (Self, Rc<dyn DuringCall>) {
        let pending = Rc::new(Pending { name: name.to_owned(), value: Cell::new(None) });
        (Self(Rc::clone(&pending)), pending)
    }
}

impl DuringCall for Pending<u64> {
    fn commit(&self) -> Result<()> {
        let amount = self.value.take();
        if amount > 0
            && let Some(host) = host::running()
        {
            host.record(&self.name, Metric::Counter(amount));
        }
        Ok(())
    }

    fn end(&self) {
        self.value.set(0);
    }
}

impl DuringCall for Pending<Option<f64>> {
    fn commit(&self) -> Result<()> {
        if let (Some(value), Some(host)) = (self.value.take(), host::running()) {
            host.record(&self.name, Metric::Gauge(value));
        }
        Ok(())
    }

    fn end(&self) {
        self.value.set(None);
    }
}

/// Checks a name by the rules of the host, which drops what has another.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let ends_in_unit = ["_total", "_ms", "_bytes"].iter().any(|unit| name.ends_with(unit));
    if name.len() <= 64 && name.bytes().all(is_allowed) && ends_in_unit {
        return Ok(());
    }
    Err(Error::new(format!(
        "metric `{name}`: a name has lower-case letters, digits and `_`, at most 64, and ends in \
         `_total`, `_ms` or `_bytes`"
    )))
}

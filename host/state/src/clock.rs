//! The clock that times to live go by.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Milliseconds since the Unix epoch, from the system or from a test. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until it is set; begins at `now_ms`.
    pub fn manual(now_ms: i64) -> (Self, ManualClock) {
        let time = Arc::new(AtomicI64::new(now_ms));
        (Self(Source::Manual(time.clone())), ManualClock(time))
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            Source::System => i64::try_from(crate::seam::wall_clock_ms()).unwrap_or(i64::MAX),
            Source::Manual(time) => time.load(Ordering::Acquire),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({} ms)", self.now_ms())
    }
}

/// Sets a clock made with [`Clock::manual`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Sets the time, in milliseconds since the Unix epoch.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Release);
    }
}

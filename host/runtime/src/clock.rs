//! The only place that reads a clock.

use std::time::Instant;

/// The monotonic clock, for deadlines and counters; no answer of an operator depends on it.
#[expect(clippy::disallowed_methods, reason = "this is the seam that all others call")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

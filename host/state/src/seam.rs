//! The one place where time, names and threads come in from outside.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A steady clock, for durations.
#[expect(clippy::disallowed_methods, reason = "the seam through which all others take it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds on the steady clock since the process first asked, for grace periods: the
/// wall clock may jump.
pub(crate) fn steady_ms() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, for what is written down.
#[expect(clippy::disallowed_methods, reason = "the seam through which all others take it")]
pub(crate) fn wall_clock_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// A part of a file name that no other file has.
#[expect(clippy::disallowed_methods, reason = "the seam through which all others take it")]
pub(crate) fn unique_name() -> String {
    uuid::Uuid::new_v4().to_string()
}

//! The only place that reads the clock and names threads.

use crate::error::{Error, Result};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time that only goes forward.
#[expect(clippy::disallowed_methods, reason = "this is the crate's clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "this is the crate's clock")]
pub(crate) fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    whole_ms(since)
}

/// A duration in whole milliseconds.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Starts a named thread.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|error| Error::internal(format!("cannot start the thread {name}: {error}")))
}

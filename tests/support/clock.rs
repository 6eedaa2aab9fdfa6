//! The one place where tests wait.

#![expect(clippy::disallowed_methods, reason = "tests watch another process from outside")]

use std::time::{Duration, Instant};

/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// After this long a test has failed, however slow the machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Looks until there is something; fails the test when nothing comes.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Lets the other process get on for a while; what it does meanwhile must not matter.
pub(crate) fn let_run(time: Duration) {
    std::thread::sleep(time);
}

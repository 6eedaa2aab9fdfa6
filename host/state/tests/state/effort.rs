//! How much is tested: `HOWDAH_TEST_FULL=1`, which `cargo xtask test --full` sets, asks for every
//! call, place and round instead of a sample of them.

use std::cell::Cell;
use std::io::Write as _;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often a long loop says how far it has come.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(20);

pub(crate) fn is_full() -> bool {
    std::env::var_os("HOWDAH_TEST_FULL").is_some()
}

/// A directory for one test; it goes with the value.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Goes through something long; in a full run it says now and then how far it has come.
pub(crate) fn each<T>(all: Vec<T>) -> impl Iterator<Item = T> {
    let (total, mut told) = (all.len(), now());
    all.into_iter().enumerate().map(move |(done, one)| {
        if is_full() && told.elapsed() > PROGRESS_INTERVAL {
            told = now();
            say(&format!("{done} of {total}"));
        }
        one
    })
}

/// Counts the cases of a model test; in a full run it says now and then how many there were.
pub(crate) fn count_case() {
    thread_local! {
        static DONE: Cell<(u64, Instant)> = Cell::new((0, now()));
    }
    let (done, told) = DONE.get();
    let tell = is_full() && told.elapsed() > PROGRESS_INTERVAL;
    DONE.set((done + 1, if tell { now() } else { told }));
    if tell {
        say(&format!("{done} cases"));
    }
}

/// Past the harness, which keeps what is printed until a test fails.
fn say(text: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "{}: {text}", thread.name().unwrap_or_default());
}

#[expect(clippy::disallowed_methods, reason = "for progress only, no test depends on it")]
fn now() -> Instant {
    Instant::now()
}

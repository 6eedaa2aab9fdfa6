//! Nexmark events as files, made once for all tests.

use crate::support::job::{howdah, scratch};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Held while a file is made.
static MAKING: Mutex<()> = Mutex::new(());

/// A CSV file of so many events.
pub(crate) fn events(count: u32) -> PathBuf {
    events_as(count, "csv")
}

/// A file of so many events, in a format of `howdah nexmark`.
pub(crate) fn events_as(count: u32, format: &str) -> PathBuf {
    let path = scratch().join(format!("events-{}-{count}.{format}", env!("CARGO_PKG_VERSION")));
    let _making = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !path.exists() {
        let status = howdah()
            .args(["nexmark", "--events", &count.to_string(), "--format", format, "--out"])
            .arg(&path)
            .status()
            .unwrap();
        assert!(status.success());
    }
    path
}

/// A copy of a file of events with some lines changed; line 1 is the header.
pub(crate) fn with_lines(source: &Path, target: &Path, change: impl Fn(usize, &str) -> String) {
    let text = std::fs::read_to_string(source).unwrap();
    let lines = (1..).zip(text.lines()).map(|(number, line)| change(number, line) + "\n");
    std::fs::write(target, lines.collect::<String>()).unwrap();
}

//! Progress on standard error: a bar on a terminal, a plain line now and then elsewhere.

use crate::environment;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two plain lines.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// What a bar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bytes of a file.
    Bytes,
    /// Things of this name, in the plural.
    Count(&'static str),
}

impl Unit {
    fn template(self, total: u64) -> String {
        match self {
            // Of nothing there is no percentage.
            _ if total == 0 => "{msg}".to_owned(),
            Self::Bytes => "{bar:30} {percent:>3}% of {total_bytes}  {msg}".to_owned(),
            Self::Count(name) => {
                format!("{{bar:30}} {{human_pos}} of {{human_len}} {name}  {{msg}}")
            }
        }
    }

    fn line(self, done: u64, total: u64) -> String {
        match self {
            _ if total == 0 => "nothing to read".to_owned(),
            Self::Bytes => format!("{} of {}", HumanBytes(done), HumanBytes(total)),
            Self::Count(name) => format!("{} of {} {name}", HumanCount(done), HumanCount(total)),
        }
    }
}

/// How far a piece of work has got.
pub(crate) enum Bar {
    /// On a terminal.
    Drawn(ProgressBar, Unit),
    /// In a log.
    Lines(Lines),
}

impl Bar {
    /// Starts at zero.
    pub(crate) fn new(total: u64, unit: Unit) -> Self {
        if !std::io::stderr().is_terminal() {
            let now = environment::now();
            let (done, printed) = (Cell::new(0), Cell::new(now));
            return Self::Lines(Lines {
                total: Cell::new(total),
                unit,
                done,
                started: now,
                printed,
            });
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let drawn = Self::Drawn(bar, unit);
        drawn.set_style(total);
        drawn
    }

    /// The bar, or no bar for nothing.
    fn set_style(&self, total: u64) {
        if let Self::Drawn(bar, unit) = self
            && let Ok(style) = ProgressStyle::with_template(&unit.template(total))
        {
            bar.set_style(style);
        }
    }

    /// So much is done now of so much, and what else there is to say.
    pub(crate) fn set(&self, done: u64, total: u64, message: &str) {
        match self {
            Self::Drawn(bar, _) => {
                if bar.length() != Some(total) {
                    self.set_style(total);
                }
                bar.set_length(total);
                bar.set_position(done);
                bar.set_message(message.to_owned());
            }
            Self::Lines(lines) => {
                lines.total.set(total);
                lines.set(done, message);
            }
        }
    }

    /// So much more is done.
    pub(crate) fn advance(&self, more: u64) {
        match self {
            Self::Drawn(bar, _) => bar.inc(more),
            Self::Lines(lines) => lines.set(lines.done.get() + more, ""),
        }
    }

    /// Says something that stays on the screen.
    pub(crate) fn note(&self, line: &str) {
        let print = || {
            // Nobody to tell is no reason to stop.
            let _ = writeln!(std::io::stderr(), "{line}");
        };
        match self {
            Self::Drawn(bar, _) => bar.suspend(print),
            Self::Lines(_) => print(),
        }
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(&self) {
        if let Self::Drawn(bar, _) = self {
            bar.finish_and_clear();
        }
    }
}

/// Plain lines, at most one in [`LINE_INTERVAL`].
pub(crate) struct Lines {
    total: Cell<u64>,
    unit: Unit,
    done: Cell<u64>,
    started: Instant,
    printed: Cell<Instant>,
}

impl Lines {
    fn set(&self, done: u64, message: &str) {
        self.done.set(done);
        let now = environment::now();
        if now.duration_since(self.printed.get()) < LINE_INTERVAL {
            return;
        }
        self.printed.set(now);
        let seconds = now.duration_since(self.started).as_secs();
        let done = self.unit.line(done, self.total.get());
        let separator = if message.is_empty() { "" } else { ", " };
        // Nobody to tell is no reason to stop.
        let _ = writeln!(std::io::stderr(), "{seconds} s: {done}{separator}{message}");
    }
}

/// The progress of a transfer of state, which several threads tell.
pub(crate) struct SharedBar {
    bar: Mutex<Bar>,
    what: &'static str,
}

impl SharedBar {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { bar: Mutex::new(Bar::new(0, Unit::Bytes)), what }
    }

    /// So much is done now.
    pub(crate) fn set(&self, progress: howdah_state::Progress) {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.set(progress.bytes_done, progress.bytes_total, self.what);
    }

    pub(crate) fn finish(&self) {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_there_is_no_percentage() {
        assert!(Unit::Bytes.template(1).contains("{percent"));
        assert!(!Unit::Bytes.template(0).contains("{percent"));
        assert_eq!(Unit::Bytes.line(0, 0), "nothing to read");
        assert_eq!(Unit::Bytes.line(0, 2048), "0 B of 2.00 KiB");
    }
}

//! Progress on standard error: a bar on a terminal, a plain line now and then elsewhere.

use crate::environment;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::io::{IsTerminal, Write};
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
    fn template(self) -> String {
        match self {
            Self::Bytes => "{bar:30} {percent:>3}% of {total_bytes}  {msg}".to_owned(),
            Self::Count(name) => {
                format!("{{bar:30}} {{human_pos}} of {{human_len}} {name}  {{msg}}")
            }
        }
    }

    fn line(self, done: u64, total: u64) -> String {
        match self {
            Self::Bytes => format!("{} of {}", HumanBytes(done), HumanBytes(total)),
            Self::Count(name) => format!("{} of {} {name}", HumanCount(done), HumanCount(total)),
        }
    }
}

/// How far a piece of work has got.
pub(crate) enum Bar {
    /// On a terminal.
    Drawn(ProgressBar),
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
        if let Ok(style) = ProgressStyle::with_template(&unit.template()) {
            bar.set_style(style);
        }
        Self::Drawn(bar)
    }

    /// So much is done now of so much, and what else there is to say.
    pub(crate) fn set(&self, done: u64, total: u64, message: &str) {
        match self {
            Self::Drawn(bar) => {
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
            Self::Drawn(bar) => bar.inc(more),
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
            Self::Drawn(bar) => bar.suspend(print),
            Self::Lines(_) => print(),
        }
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(&self) {
        if let Self::Drawn(bar) = self {
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

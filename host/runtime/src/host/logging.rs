//! The imported interface `logging`: messages of operators, passed on to `tracing`.

use super::{HostState, Subject};
use crate::bindings::logging::{Host, Level};
use crate::instance::Context;
use crate::text::printable;
use std::borrow::Cow;

/// Longer messages are cut off.
const MESSAGE_LIMIT_BYTES: usize = 8 << 10;
/// Messages of one call that are passed on.
const MESSAGES_PER_CALL_LIMIT: u32 = 1000;
/// Whose messages these are, for filters.
const TARGET: &str = "howdah::operator";

impl Host for HostState {
    fn log(&mut self, level: Level, mut message: String) {
        message.truncate(message.floor_char_boundary(MESSAGE_LIMIT_BYTES));
        if self.call.messages_logged >= MESSAGES_PER_CALL_LIMIT {
            self.call.messages_dropped += 1;
        } else {
            self.call.messages_logged += 1;
            emit(&self.subject, level, &message);
        }
        if level == Level::Error {
            self.call.last_error = Some(message);
        }
    }

    fn enabled(&mut self, level: Level) -> bool {
        if matches!(self.subject, Subject::Component(_)) {
            return level == Level::Error;
        }
        match level {
            Level::Trace => tracing::enabled!(target: TARGET, tracing::Level::TRACE),
            Level::Debug => tracing::enabled!(target: TARGET, tracing::Level::DEBUG),
            Level::Info => tracing::enabled!(target: TARGET, tracing::Level::INFO),
            Level::Warn => tracing::enabled!(target: TARGET, tracing::Level::WARN),
            // Kept as the reason of a trap, whatever is printed.
            Level::Error => true,
        }
    }
}

impl HostState {
    pub(super) fn report_dropped_messages(&self) {
        let dropped = self.call.messages_dropped;
        if dropped > 0 {
            let message = format!(
                "dropped {dropped} messages past the first {MESSAGES_PER_CALL_LIMIT} of one call"
            );
            emit(&self.subject, Level::Warn, &message);
        }
    }
}

/// `describe` is pure, so what it logs goes nowhere.
fn emit(subject: &Subject, level: Level, message: &str) {
    let Subject::Subtask(context) = subject else { return };
    let message = entry(message);
    let Context { pipeline, operator, subtask, .. } = &**context;
    macro_rules! event {
        ($level:ident) => {
            tracing::event!(
                target: TARGET, tracing::Level::$level, pipeline, operator, subtask, "{message}"
            )
        };
    }
    match level {
        Level::Trace => event!(TRACE),
        Level::Debug => event!(DEBUG),
        Level::Info => event!(INFO),
        Level::Warn => event!(WARN),
        Level::Error => event!(ERROR),
    }
}

/// A message as one entry of the log: its other lines are indented, so that none looks like an entry.
fn entry(message: &str) -> Cow<'_, str> {
    let shown = printable(message);
    if shown.contains('\n') { Cow::Owned(shown.replace('\n', "\n    ")) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::host::CallScope;

    fn host() -> HostState {
        HostState::new(Subject::Component("test".to_owned()), &Limits::default(), None)
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut host = host();
        let mut kept = |message: String| {
            host.log(Level::Error, message);
            host.call.last_error.take().unwrap().len()
        };
        assert_eq!(kept("ä".repeat(MESSAGE_LIMIT_BYTES)), MESSAGE_LIMIT_BYTES);
        let shifted = format!("a{}", "ä".repeat(MESSAGE_LIMIT_BYTES));
        assert_eq!(kept(shifted), MESSAGE_LIMIT_BYTES - 1);
    }

    #[test]
    fn no_line_of_a_message_looks_like_an_entry_of_the_log() {
        assert_eq!(
            entry("done\nERROR all is lost\x1b[2J"),
            "done\n    ERROR all is lost\\u{1b}[2J"
        );
        assert_eq!(entry("done"), "done");
    }

    #[test]
    fn messages_past_the_limit_of_a_call_are_dropped_and_counted() {
        let mut host = host();
        for _ in 0..MESSAGES_PER_CALL_LIMIT + 5 {
            host.log(Level::Info, "again".to_owned());
        }
        host.end_call();
        assert_eq!(host.metrics.log_messages_dropped_total, 5);
        host.begin_call(CallScope::Named);
        host.log(Level::Info, "fresh".to_owned());
        host.end_call();
        assert_eq!(host.metrics.log_messages_dropped_total, 5);
    }

    #[test]
    fn the_last_error_is_kept_even_past_the_limit() {
        let mut host = host();
        for _ in 0..MESSAGES_PER_CALL_LIMIT {
            host.log(Level::Warn, "noise".to_owned());
        }
        host.log(Level::Error, "the reason".to_owned());
        assert_eq!(host.end_call().last_error.as_deref(), Some("the reason"));
    }
}

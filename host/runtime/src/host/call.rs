//! One call into the operator: its deadline, its budget, and what went wrong during it.

use super::HostState;
use crate::clock;
use crate::epoch;
use crate::limits::{Limits, Refused, display_bytes};
use howdah_state::KeyBatch;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmtime::UpdateDeadline;

/// A state call that takes longer waits for the disk or for a flush. What it waits past this
/// is not held against the operator; below it, it is, or an operator could go on for ever
/// in state calls.
const STALL: Duration = Duration::from_millis(100);

/// What is kept of what a call prints to its standard error.
const LAST_WORDS_LIMIT_BYTES: usize = 2 << 10;

/// The running call; begins anew with each.
pub(crate) struct Call {
    started: Instant,
    timeout: Duration,
    /// Time spent in state calls.
    state_time: Duration,
    /// The part of it that does not count towards the deadline.
    stalled: Duration,
    /// Bytes that may still be copied out of guest memory.
    budget_bytes: usize,
    /// The time of the call, in milliseconds since the Unix epoch.
    pub(super) now_ms: i64,
    /// The keys that `current` stands for; only in `process` and `on-timers`.
    pub(super) keys: Option<Arc<KeyBatch>>,
    /// The function, if it may not change state.
    pub(super) read_only: Option<&'static str>,
    /// In `on-timers`, the watermark: timers that are set at or before it are due at once.
    pub(super) watermark: Option<i64>,
    /// The family of a timer that was set in `on-timers` and is due at once.
    pub(crate) set_again: Option<usize>,
    /// The first failure of the state store.
    pub(super) state_error: Option<howdah_state::Error>,
    /// The last message that the operator logged as an error: the reason of a panic.
    pub(super) last_error: Option<String>,
    /// The end of what the operator printed to its standard error, if it has one.
    last_words: String,
    pub(super) messages_logged: u32,
    pub(super) messages_dropped: u64,
}

/// What a call may do.
#[derive(Debug, Clone, Default)]
pub(crate) enum CallScope {
    /// Change the state of keys that the operator names.
    #[default]
    Named,
    /// The same, and `current` stands for these keys.
    Keys(Arc<KeyBatch>),
    /// The same, for timers of these keys that are due at this watermark.
    Timers(Arc<KeyBatch>, i64),
    /// Read only; with the name of the function.
    ReadOnly(&'static str),
}

/// What is known when a call has ended, besides its answer.
pub(crate) struct Ended {
    pub(crate) state_error: Option<howdah_state::Error>,
    /// The limit that the guest was refused more than first.
    pub(crate) refused: Option<Refused>,
    pub(crate) last_error: Option<String>,
}

impl Call {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            started: clock::now(),
            timeout: Duration::from_millis(limits.call_timeout_ms),
            state_time: Duration::ZERO,
            stalled: Duration::ZERO,
            budget_bytes: limits.batch_bytes,
            now_ms: i64::MIN,
            keys: None,
            read_only: None,
            watermark: None,
            set_again: None,
            state_error: None,
            last_error: None,
            last_words: String::new(),
            messages_logged: 0,
            messages_dropped: 0,
        }
    }

    /// Counts bytes that are copied out of guest memory.
    pub(crate) fn take_bytes(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.budget_bytes = self.budget_bytes.checked_sub(bytes).ok_or(BudgetExceeded)?;
        Ok(())
    }

    /// The time of the call, in milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Remembers a line that may be the reason of a trap.
    pub(crate) fn add_last_words(&mut self, line: &str) {
        if !self.last_words.is_empty() {
            self.last_words.push_str(" / ");
        }
        self.last_words.push_str(line);
        let past = self.last_words.len().saturating_sub(LAST_WORDS_LIMIT_BYTES);
        self.last_words.drain(..self.last_words.ceil_char_boundary(past));
    }

    fn elapsed(&self) -> Duration {
        clock::now().duration_since(self.started)
    }
}

/// The call made the host copy more than `Limits::batch_bytes`.
#[derive(Debug)]
pub(crate) struct BudgetExceeded;

impl BudgetExceeded {
    /// As the end of a sentence.
    pub(crate) fn describe(limits: &Limits) -> String {
        format!(
            "handed over more than {} in one call (limits.batch-bytes)",
            display_bytes(limits.batch_bytes)
        )
    }
}

impl HostState {
    /// A call begins. Returns the ticks until its deadline.
    pub(crate) fn begin_call(&mut self, scope: CallScope) -> u64 {
        let now_ms = self.task.as_ref().map_or(0, |task| task.clock.now_ms());
        // A clock that is set back does not go back for the operator.
        let now_ms = now_ms.max(self.call.now_ms);
        self.call = Call { now_ms, ..Call::new(&self.limits) };
        match scope {
            CallScope::Named => {}
            CallScope::Keys(keys) => self.call.keys = Some(keys),
            CallScope::Timers(keys, watermark) => {
                self.call.keys = Some(keys);
                self.call.watermark = Some(watermark);
            }
            CallScope::ReadOnly(function) => self.call.read_only = Some(function),
        }
        self.growth.take_refused();
        epoch::ticks(self.call.timeout)
    }

    /// The epoch has reached the deadline of the call: stop it, unless it waited for the state
    /// store part of the time.
    pub(crate) fn deadline_reached(&self) -> UpdateDeadline {
        let spent = self.call.elapsed().saturating_sub(self.call.stalled);
        match self.call.timeout.checked_sub(spent) {
            None | Some(Duration::ZERO) => UpdateDeadline::Interrupt,
            Some(left) => UpdateDeadline::Continue(epoch::ticks(left)),
        }
    }

    /// The call has ended, well or not.
    pub(crate) fn end_call(&mut self) -> Ended {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.print_rest();
        self.metrics.calls_total += 1;
        self.metrics.guest_nanos_total +=
            nanos(self.call.elapsed().saturating_sub(self.call.state_time));
        self.metrics.state_nanos_total += nanos(self.call.state_time);
        self.metrics.log_messages_dropped_total += self.call.messages_dropped;
        self.metrics.memory_bytes = u64::try_from(self.growth.used_bytes()).unwrap_or(u64::MAX);
        self.report_dropped_messages();
        self.call.keys = None;
        let last_words = std::mem::take(&mut self.call.last_words);
        let last_words = (!last_words.is_empty()).then_some(last_words);
        Ended {
            state_error: self.call.state_error.take(),
            refused: self.growth.take_refused(),
            last_error: self.call.last_error.take().or(last_words),
        }
    }

    /// Runs a state call and takes its time.
    pub(super) fn state_call<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> R {
        let started = clock::now();
        let result = call(self);
        self.state_call_ended(started);
        result
    }

    /// A state call that began then has ended.
    pub(super) fn state_call_ended(&mut self, started: Instant) {
        let time = clock::now().duration_since(started);
        self.call.state_time += time;
        self.call.stalled += time.saturating_sub(STALL);
        self.metrics.state_calls_total += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Subject;

    fn host(call_timeout_ms: u64) -> HostState {
        let limits = Limits { call_timeout_ms, batch_bytes: 10, ..Limits::default() };
        HostState::new(Subject::Component("test".to_owned()), &limits, None)
    }

    #[test]
    fn a_call_past_its_deadline_is_stopped() {
        assert!(matches!(host(0).deadline_reached(), UpdateDeadline::Interrupt));
    }

    #[test]
    fn waiting_for_the_state_store_moves_the_deadline() {
        let mut host = host(1);
        host.call.stalled = Duration::from_secs(3600);
        assert!(matches!(host.deadline_reached(), UpdateDeadline::Continue(2)));
        host.begin_call(CallScope::Named);
        assert_eq!(host.call.stalled, Duration::ZERO);
    }

    #[test]
    fn short_state_calls_do_not_move_the_deadline() {
        let mut host = host(1);
        host.state_call(|_| ());
        assert_eq!(host.call.stalled, Duration::ZERO);
        assert_eq!(host.metrics.state_calls_total, 1);
    }

    #[test]
    fn the_budget_is_for_one_call() {
        let mut host = host(1);
        assert!(host.call.take_bytes(4).is_ok());
        assert!(host.call.take_bytes(7).is_err());
        assert!(host.call.take_bytes(6).is_ok());
        host.begin_call(CallScope::Named);
        assert!(host.call.take_bytes(10).is_ok());
    }
}

//! Whether a pipeline that failed is started again, and after how long.

use crate::clock;
use crate::error::{Error, ErrorKind};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What to do when the operator fails, or what a connector talks to cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Restarts in one window; after as many, the next failure of the operator stops the pipeline.
    /// 0: the first failure does. An outage is waited for, however often it takes.
    pub limit: u32,
    /// The window, in milliseconds.
    pub window_ms: u64,
    /// The wait before the first restart, in milliseconds; it doubles with every other one in
    /// the window.
    pub backoff_ms: u64,
    /// The longest wait, in milliseconds.
    pub backoff_limit_ms: u64,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self { limit: 3, window_ms: 600_000, backoff_ms: 500, backoff_limit_ms: 60_000 }
    }
}

/// The restarts of a pipeline: asked after each failure, it says how long to wait, or what the
/// pipeline has failed with.
///
/// ```no_run
/// use howdah_pipeline::{Components, Pipeline, PipelineConfig, Restarts, StartFrom, StartOptions, Summary};
/// # fn run(config: PipelineConfig, engine: &howdah_runtime::Engine) -> howdah_pipeline::Result<Summary> {
/// let mut restarts = Restarts::new(config.restart());
/// let components = Components::load(&config, engine)?;
/// loop {
///     let pipeline = Pipeline::prepare_with(config.clone(), components.clone())?;
///     match pipeline.start(StartOptions::default())?.wait() {
///         Ok(summary) => return Ok(summary),
///         // A program waits here, for as long as it says.
///         Err(error) => restarts.after(error).map(drop)?,
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Restarts {
    policy: RestartPolicy,
    /// When the pipeline was restarted in this window; oldest first.
    times: VecDeque<Instant>,
    /// The same because of outages.
    outages: VecDeque<Instant>,
    /// What it failed with first in this window.
    cause: Option<Error>,
}

impl Restarts {
    /// None so far.
    pub fn new(policy: RestartPolicy) -> Self {
        Self { policy, times: VecDeque::new(), outages: VecDeque::new(), cause: None }
    }

    /// The pipeline has failed with `error`. How long to wait until it is started again, from its
    /// last completed checkpoint.
    ///
    /// # Errors
    /// What it failed with first in this window, when it is not started again: there were too
    /// many restarts, or the failure is none that another start could mend. Failures of the operator
    /// are, and outages of what a connector talks to; what a file lacks, or a disk, is lacking the
    /// next time too, and whoever writes in our place goes on to.
    pub fn after(&mut self, error: Error) -> Result<Duration, Error> {
        self.after_at(error, clock::now())
    }

    /// How often it was started again in this window.
    pub fn count(&self) -> usize {
        self.times.len() + self.outages.len()
    }

    fn after_at(&mut self, error: Error, now: Instant) -> Result<Duration, Error> {
        self.forget(now);
        match error.kind() {
            _ if self.policy.limit == 0 => Err(error),
            ErrorKind::Operator => self.failed(error, now),
            ErrorKind::Unreachable => {
                let wait = self.backoff(self.outages.len());
                self.outages.push_back(now);
                Ok(wait)
            }
            _ => Err(error),
        }
    }

    /// Forgets restarts that were before the window.
    fn forget(&mut self, now: Instant) {
        let window = Duration::from_millis(self.policy.window_ms);
        for times in [&mut self.times, &mut self.outages] {
            while times.front().is_some_and(|time| now.duration_since(*time) > window) {
                times.pop_front();
            }
        }
        if self.times.is_empty() {
            self.cause = None;
        }
    }

    fn failed(&mut self, error: Error, now: Instant) -> Result<Duration, Error> {
        let limit = usize::try_from(self.policy.limit).unwrap_or(usize::MAX);
        let restarts = self.times.len();
        if restarts >= limit {
            let hint = format!(
                "it was started again {restarts} times (restarts in [operator.failure]) and failed \
                 each time"
            );
            return Err(self.cause.take().unwrap_or(error).with_hint(hint));
        }
        self.cause.get_or_insert(error);
        self.times.push_back(now);
        Ok(self.backoff(restarts))
    }

    /// The wait after so many restarts.
    fn backoff(&self, restarts: usize) -> Duration {
        let doubled = u32::try_from(restarts).ok().and_then(|n| 1_u64.checked_shl(n));
        let wait_ms = self.policy.backoff_ms.saturating_mul(doubled.unwrap_or(u64::MAX));
        Duration::from_millis(wait_ms.min(self.policy.backoff_limit_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RestartPolicy =
        RestartPolicy { limit: 3, window_ms: 10_000, backoff_ms: 100, backoff_limit_ms: 300 };

    fn trap(number: u32) -> Error {
        Error::new(ErrorKind::Operator, format!("trap {number}"))
    }

    fn waits_ms(result: Result<Duration, Error>) -> u128 {
        result.expect("a restart").as_millis()
    }

    #[test]
    fn waits_double_up_to_a_limit_and_the_first_cause_is_the_last_word() {
        let (mut restarts, now) = (Restarts::new(POLICY), clock::now());
        let mut after = |number| restarts.after_at(trap(number), now);
        assert_eq!(waits_ms(after(1)), 100);
        assert_eq!(waits_ms(after(2)), 200);
        assert_eq!(waits_ms(after(3)), 300);
        let error = after(4).expect_err("too many").to_string();
        assert!(error.starts_with("trap 1; it was started again 3 times"), "{error}");
    }

    #[test]
    fn an_outage_is_waited_for_however_often_and_is_no_failure_of_the_operator() {
        let (mut restarts, now) = (Restarts::new(POLICY), clock::now());
        let outage = || Error::new(ErrorKind::Unreachable, "no broker");
        let waits: Vec<_> = (0..9).map(|_| waits_ms(restarts.after_at(outage(), now))).collect();
        assert_eq!(waits[..4], [100, 200, 300, 300]);
        assert_eq!(waits_ms(restarts.after_at(trap(1), now)), 100);
        assert_eq!(restarts.count(), 10);
    }

    #[test]
    fn a_restart_counts_within_its_window_only() {
        let (mut restarts, now) = (Restarts::new(POLICY), clock::now());
        let at = |ms| now + Duration::from_millis(ms);
        for ms in [0, 20_000, 40_000, 60_000, 80_000] {
            assert_eq!(waits_ms(restarts.after_at(trap(7), at(ms))), 100);
        }
        assert_eq!(waits_ms(restarts.after_at(trap(8), at(80_001))), 200);
    }

    #[test]
    fn other_failures_are_no_reason_to_start_again() {
        use ErrorKind::{Corrupt, External, Input, Locked, Storage};
        for kind in [Input, Storage, Corrupt, Locked, External] {
            let error = Restarts::new(POLICY).after(Error::new(kind, "no")).expect_err("final");
            assert_eq!(error.to_string(), "no");
        }
    }

    #[test]
    fn without_restarts_the_first_failure_is_the_end() {
        let error = Restarts::new(RestartPolicy { limit: 0, ..POLICY }).after(trap(1));
        assert_eq!(error.expect_err("final").to_string(), "trap 1");
    }
}

//! Watermarks by bounded disorder, and when they are not to be waited for.

use std::time::{Duration, Instant};

/// Follows the highest event time.
#[derive(Debug, Clone)]
pub(crate) struct Watermark {
    delay_ms: i64,
    value: Option<i64>,
}

impl Watermark {
    /// A watermark that lags `delay_ms` behind, at least at `value`, where a checkpoint left
    /// it.
    pub(crate) fn new(delay_ms: u64, value: Option<i64>) -> Self {
        Self { delay_ms: i64::try_from(delay_ms).unwrap_or(i64::MAX), value }
    }

    /// Takes notice of event times. A later event may still have the highest time less the
    /// delay; all times below that are done. It never goes back.
    /// `limit`: the source knows that rows as early as that may still come, as from a partition that
    /// is behind.
    pub(crate) fn observe(&mut self, event_times: &[i64], limit: Option<i64>) {
        let Some(highest) = event_times.iter().max() else { return };
        let highest = limit.map_or(*highest, |limit| limit.min(*highest));
        let reached = highest.saturating_sub(self.delay_ms).saturating_sub(1);
        self.value = Some(self.value.map_or(reached, |value| value.max(reached)));
    }

    /// No row with an event time at or before it is expected any more.
    pub(crate) fn value(&self) -> Option<i64> {
        self.value
    }
}

/// Notices that nothing has come for long.
#[derive(Debug, Clone)]
pub(crate) struct Idleness {
    /// How long that is; `None`: whatever it is, it is not long.
    after: Option<Duration>,
    /// Since when nothing comes.
    since: Option<Instant>,
    idle: bool,
}

impl Idleness {
    /// After so much time without anything; 0: never.
    pub(crate) fn new(after_ms: u64) -> Self {
        let after = (after_ms > 0).then(|| Duration::from_millis(after_ms));
        Self { after, since: None, idle: false }
    }

    /// Something came. Whether that ends the idleness.
    pub(crate) fn something(&mut self) -> bool {
        self.since = None;
        std::mem::take(&mut self.idle)
    }

    /// Nothing came until now. Whether that begins the idleness.
    pub(crate) fn nothing(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let long = self.after.is_some_and(|after| now.saturating_duration_since(since) >= after);
        long && !std::mem::replace(&mut self.idle, true)
    }

    /// Nobody is to wait from now on. Whether that begins the idleness.
    pub(crate) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.idle, true)
    }

    /// How long to wait for something, which is no longer than until the idleness begins.
    pub(crate) fn wait(&self, now: Instant, wait: Duration) -> Duration {
        match (self.after, self.since) {
            (Some(after), Some(since)) if !self.idle => {
                wait.min(after.saturating_sub(now.saturating_duration_since(since)))
            }
            _ => wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_idle_once_after_the_time_without_anything_and_until_something_comes() {
        let start = crate::clock::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut idleness = Idleness::new(10);
        assert!(!idleness.nothing(at(0)));
        assert_eq!(idleness.wait(at(4), Duration::from_millis(100)), Duration::from_millis(6));
        assert!(!idleness.nothing(at(9)));
        assert!(!idleness.something(), "it was not idle yet");
        assert!(!idleness.nothing(at(12)) && !idleness.nothing(at(21)));
        assert!(idleness.nothing(at(22)));
        assert!(!idleness.nothing(at(99)), "it was told");
        assert_eq!(idleness.wait(at(99), Duration::from_millis(100)), Duration::from_millis(100));
        assert!(idleness.something() && !idleness.something());
    }

    #[test]
    fn without_a_time_it_is_never_idle() {
        let (start, mut idleness) = (crate::clock::now(), Idleness::new(0));
        assert!(!idleness.nothing(start));
        assert!(!idleness.nothing(start + Duration::from_secs(3_600)));
    }

    #[test]
    fn it_lags_behind_the_highest_event_time() {
        let mut watermark = Watermark::new(100, None);
        assert_eq!(watermark.value(), None);
        watermark.observe(&[1_000, 2_000, 1_500], None);
        assert_eq!(watermark.value(), Some(1_899));
    }

    #[test]
    fn it_stays_behind_rows_that_may_still_come() {
        let mut watermark = Watermark::new(100, None);
        watermark.observe(&[2_000], Some(500));
        assert_eq!(watermark.value(), Some(399));
        watermark.observe(&[2_000], Some(i64::MIN));
        assert_eq!(watermark.value(), Some(399));
    }

    #[test]
    fn it_never_goes_back() {
        let mut watermark = Watermark::new(0, Some(5_000));
        watermark.observe(&[10], None);
        assert_eq!(watermark.value(), Some(5_000));
        watermark.observe(&[i64::MIN], None);
        assert_eq!(watermark.value(), Some(5_000));
    }
}

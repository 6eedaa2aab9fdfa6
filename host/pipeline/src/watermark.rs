//! Watermarks by bounded disorder.

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
    pub(crate) fn observe(&mut self, event_times: &[i64]) {
        let Some(highest) = event_times.iter().max() else { return };
        let reached = highest.saturating_sub(self.delay_ms).saturating_sub(1);
        self.value = Some(self.value.map_or(reached, |value| value.max(reached)));
    }

    /// No row with an event time at or before it is expected any more.
    pub(crate) fn value(&self) -> Option<i64> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lags_behind_the_highest_event_time() {
        let mut watermark = Watermark::new(100, None);
        assert_eq!(watermark.value(), None);
        watermark.observe(&[1_000, 2_000, 1_500]);
        assert_eq!(watermark.value(), Some(1_899));
    }

    #[test]
    fn it_never_goes_back() {
        let mut watermark = Watermark::new(0, Some(5_000));
        watermark.observe(&[10]);
        assert_eq!(watermark.value(), Some(5_000));
        watermark.observe(&[i64::MIN]);
        assert_eq!(watermark.value(), Some(5_000));
    }
}

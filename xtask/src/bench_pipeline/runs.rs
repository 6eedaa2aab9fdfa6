//! Runs of contestants, and what they come to.

use crate::measure::Measured;
use howdah_bench_figures::median;
use serde::Deserialize;

/// Numbers of events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) few: u64,
    pub(super) many: u64,
}

/// A run of howdah or of a peer.
pub(super) struct Run {
    pub(super) measured: Measured,
    /// What howdah says of it.
    pub(super) summary: Summary,
}

/// What we need of the summary of `howdah run --output json`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Summary {
    pub(super) rows_per_second: f64,
    pub(super) checkpoints: Checkpoints,
    pub(super) latency: Latency,
    pub(super) states: Vec<State>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Checkpoints {
    pub(super) completed: f64,
    pub(super) duration_median_ms: f64,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Latency {
    pub(super) median_us: f64,
    pub(super) p99_us: f64,
    pub(super) max_us: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct State {
    pub(super) rows: f64,
}

/// The runs of a contestant.
#[derive(Default)]
pub(super) struct Runs(pub(super) Vec<Run>);

impl Runs {
    pub(super) fn median(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        median(&self.0.iter().map(figure).collect::<Vec<_>>())
    }
}

/// The runs of a contestant over few and over many events.
pub(super) struct Slope {
    pub(super) few: Runs,
    pub(super) many: Runs,
    pub(super) sizes: Sizes,
}

impl Slope {
    /// What each event takes that the others have more.
    pub(super) fn each(&self, figure: impl Fn(&Run) -> f64) -> f64 {
        let events = self.sizes.many - self.sizes.few;
        (self.many.median(&figure) - self.few.median(&figure)) / events as f64
    }

    pub(super) fn rows_per_second(&self) -> f64 {
        1.0 / self.each(|run| run.measured.wall_s)
    }

    pub(super) fn cpu_ns(&self) -> f64 {
        self.each(|run| run.measured.cpu_s) * 1e9
    }

    pub(super) fn peak_mib(&self) -> f64 {
        self.many.median(|run| run.measured.peak_mib)
    }
}

//! Clocks and the arithmetic of samples.
#![expect(
    clippy::disallowed_methods,
    reason = "measuring needs the clock, and waits between looks"
)]

use std::time::{Duration, Instant};

/// Time taken by a piece of work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// CPU time of the whole process, background threads included.
    pub(crate) cpu_s: f64,
    pub(crate) wall_s: f64,
}

impl Cost {
    /// The mean for each of `count` pieces.
    pub(crate) fn each(self, count: usize) -> Self {
        let count = count as f64;
        Self { cpu_s: self.cpu_s / count, wall_s: self.wall_s / count }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.cpu_s += other.cpu_s;
        self.wall_s += other.wall_s;
    }
}

/// Runs on from the moment it is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Instant,
    cpu_s: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { cpu_s: cpu_s(), started: Instant::now() }
    }

    pub(crate) fn cost(&self) -> Cost {
        let wall_s = self.started.elapsed().as_secs_f64();
        Cost { cpu_s: cpu_s() - self.cpu_s, wall_s }
    }
}

/// CPU seconds of this process, user and system.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own. The clock exists on every Linux.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "the CPU clock of the process cannot be read");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Waits until background threads have nothing more to do, for 60 s at most.
pub(crate) fn wait_until_idle() {
    const LOOK_INTERVAL: Duration = Duration::from_millis(50);
    let mut quiet = 0;
    for _ in 0..1200 {
        let before = cpu_s();
        std::thread::sleep(LOOK_INTERVAL);
        quiet = if cpu_s() - before < 0.002 { quiet + 1 } else { 0 };
        if quiet == 3 {
            return;
        }
    }
}

/// The middle one; the mean of the two middle ones of an even number.
pub(crate) fn median(samples: &[f64]) -> f64 {
    (percentile(samples, 0.5 - 1e-9) + percentile(samples, 0.5 + 1e-9)) / 2.0
}

/// The smallest sample that at least this share of all is not above.
pub(crate) fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

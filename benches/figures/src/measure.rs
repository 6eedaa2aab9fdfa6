//! Clocks and the arithmetic of samples.
#![expect(
    clippy::disallowed_methods,
    reason = "measuring needs the clock, and waits between looks"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of samples are small and positive"
)]

use std::time::{Duration, Instant};

/// Time taken by a piece of work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// CPU time of the whole process, background threads included.
    pub cpu_s: f64,
    /// CPU time of the thread that looks at the clock.
    pub thread_cpu_s: f64,
    /// Time that passed.
    pub wall_s: f64,
}

impl Cost {
    /// The mean for each of `count` pieces.
    #[must_use]
    pub fn each(self, count: usize) -> Self {
        let count = count as f64;
        Self {
            cpu_s: self.cpu_s / count,
            thread_cpu_s: self.thread_cpu_s / count,
            wall_s: self.wall_s / count,
        }
    }
}

/// Runs on from the moment it is made.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started: Instant,
    cpu_s: f64,
    thread_cpu_s: f64,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self { cpu_s: cpu_s(), thread_cpu_s: thread_cpu_s(), started: Instant::now() }
    }

    /// What was taken since the start.
    pub fn cost(&self) -> Cost {
        let wall_s = self.started.elapsed().as_secs_f64();
        let thread_cpu_s = thread_cpu_s() - self.thread_cpu_s;
        Cost { cpu_s: cpu_s() - self.cpu_s, thread_cpu_s, wall_s }
    }
}

/// CPU seconds of this process, user and system.
fn cpu_s() -> f64 {
    clock_s(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU seconds of this thread, user and system.
fn thread_cpu_s() -> f64 {
    clock_s(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_s(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "a CPU clock cannot be read; every Linux has them");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU seconds, user and system, of all children that have ended and been waited for, and of theirs.
pub fn children_cpu_s() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a struct of our own, of which all zeroes are a value.
    let usage = unsafe {
        let result = libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        assert_eq!(result, 0, "the time of children cannot be read; every Linux has it");
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Waits until background threads have nothing more to do, for 60 s at most.
pub fn wait_until_idle() {
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
pub fn median(samples: &[f64]) -> f64 {
    (percentile(samples, 0.5 - 1e-9) + percentile(samples, 0.5 + 1e-9)) / 2.0
}

/// The smallest sample that at least this share of all is not above.
pub fn percentile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}

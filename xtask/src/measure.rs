//! Runs a program and measures it from outside: wall time, CPU time, peak memory.

#![expect(
    clippy::disallowed_methods,
    reason = "measuring needs the clock, and waits between looks"
)]

use anyhow::{Context, Result, bail};
use howdah_bench_figures::children_cpu_s;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks at a running program.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What a run of a program took.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Seconds from start to end.
    pub(crate) wall_s: f64,
    /// Seconds of CPU time, user and system, of all its threads.
    pub(crate) cpu_s: f64,
    /// The most physical memory that it had at once, in MiB.
    pub(crate) peak_mib: f64,
    /// What it printed on standard output.
    pub(crate) stdout: String,
}

/// How long something takes that succeeds.
pub(crate) fn seconds(what: impl FnOnce() -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    what()?;
    Ok(started.elapsed().as_secs_f64())
}

/// Runs the command to its end. Reads Linux's `/proc`.
pub(crate) fn run(command: &mut Command, stdout: &Path) -> Result<Measured> {
    // A file, since a pipe that nobody empties would hold the program up.
    let file = std::fs::File::create(stdout)
        .with_context(|| format!("cannot write {}", stdout.display()))?;
    let cpu_before = children_cpu_s();
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    let mut peak_mib = 0_f64;
    let status = loop {
        // The high-water mark only rises: the last look before the end is what counts.
        peak_mib = peak_mib.max(high_water_mib(child.id()).unwrap_or_default());
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_INTERVAL);
    };
    let wall_s = started.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{} ended with {status}", command.get_program().to_string_lossy());
    }
    let cpu_s = children_cpu_s() - cpu_before;
    Ok(Measured { wall_s, cpu_s, peak_mib, stdout: std::fs::read_to_string(stdout)? })
}

/// The high-water mark of a process's physical memory, while it runs.
fn high_water_mib(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_measured_with_what_it_prints() {
        let file = std::env::temp_dir().join(format!("xtask-measure-{}", std::process::id()));
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done";
        let measured = run(Command::new("sh").args(["-c", busy]), &file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(measured.stdout, "done\n");
        assert!(measured.peak_mib > 0.1 && measured.wall_s > 0.0, "{measured:?}");
    }
}

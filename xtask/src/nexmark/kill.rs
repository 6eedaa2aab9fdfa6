//! `kill -9` at moments that are drawn from a seed.

#![expect(clippy::disallowed_methods, reason = "a pipeline is watched from outside")]

use super::pipeline::Pipeline;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// Checkpoints of a pipeline that is to be killed: so often that several are complete before.
const CHECKPOINT_INTERVAL_MS: u32 = 40;

/// A run that has ended before it was killed proves nothing, and is begun again; not for ever. Each
/// attempt kills sooner than the one before.
const ATTEMPTS: u32 = 20;

/// Where files appear at moments that matter: of state, of checkpoints, of output (staged and committed).
const PLACES: [&str; 3] = ["state/warehouse", "state/checkpoints", "output"];

/// Of several files that appear, which one is waited for.
const FILES: u64 = 6;

/// After a file has appeared, what began with it goes on for a while.
const MICROSECONDS_AFTER_FILE: u64 = 8_000;

/// The signal.
const KILL: i32 = 9;

/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// The kills of a pipeline.
pub(super) struct Kills<'a> {
    pub(super) count: u32,
    /// What the moments are drawn from: a seed, the query, the parallelism.
    pub(super) seed: (u64, &'a str, u32),
    /// What a run takes that is not killed.
    pub(super) seconds: f64,
}

/// When a run is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// So long after its start.
    After(Duration),
    /// When so many files have appeared below a directory, and a while after that.
    Files { below: &'static str, count: u64, pause: Duration },
}

impl Kills<'_> {
    /// Runs the pipeline from its beginning to its end, killed and started again so often.
    pub(super) fn run(&self, pipeline: &mut Pipeline) -> Result<()> {
        for attempt in 0..ATTEMPTS {
            pipeline.start_over(Some(CHECKPOINT_INTERVAL_MS))?;
            if self.kill_each_time(pipeline, attempt)? {
                return pipeline.run_to_end();
            }
        }
        bail!("it always ends before it is killed {} times: give it more --events", self.count)
    }

    /// Whether all kills came before the end.
    fn kill_each_time(&self, pipeline: &Pipeline, attempt: u32) -> Result<bool> {
        for kill in 0..self.count {
            if !run_and_kill(pipeline, self.moment(attempt, kill))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn moment(&self, attempt: u32, kill: u32) -> Moment {
        let draw = |what: &str, end: u64| {
            let mut hasher = DefaultHasher::new();
            (self.seed, attempt, kill, what).hash(&mut hasher);
            hasher.finish() % end
        };
        // Not every pipeline has files everywhere, or in time: later attempts do without.
        let places = if attempt < ATTEMPTS / 2 { PLACES.as_slice() } else { &[] };
        let place = usize::try_from(draw("place", places.len() as u64 + 1)).unwrap_or_default();
        match places.get(place) {
            Some(below) => Moment::Files {
                below,
                count: 1 + draw("files", (FILES / (1 + u64::from(attempt))).max(1)),
                pause: Duration::from_micros(draw("pause", MICROSECONDS_AFTER_FILE)),
            },
            None => {
                // All kills together come in the time that one run takes.
                let end = self.seconds / f64::from(self.count) / f64::from(1 + attempt);
                let permille = u32::try_from(draw("share", 1_000)).unwrap_or_default();
                Moment::After(Duration::from_secs_f64(end * f64::from(permille) / 1e3))
            }
        }
    }
}

/// Starts the pipeline and kills it at the moment. `false`: it came to its end before.
fn run_and_kill(pipeline: &Pipeline, moment: Moment) -> Result<bool> {
    let started = Instant::now();
    let mut files = match moment {
        Moment::After(_) => Files::default(),
        Moment::Files { below, .. } => Files::below(&pipeline.directory().join(below)),
    };
    let mut running = pipeline.start()?;
    match moment {
        Moment::After(time) => wait_until(&mut running, || started.elapsed() >= time)?,
        Moment::Files { count, pause, .. } => {
            wait_until(&mut running, || files.appeared() >= count)?;
            std::thread::sleep(pause);
        }
    }
    running.kill().context("cannot kill howdah")?;
    let status = running.wait().context("cannot wait for howdah")?;
    match (status.signal(), status.success()) {
        (Some(KILL), _) => Ok(true),
        (_, true) => Ok(false),
        _ => pipeline.failed(status),
    }
}

/// Looks until it is so, or the process has ended.
fn wait_until(running: &mut Child, mut is_so: impl FnMut() -> bool) -> Result<()> {
    while !is_so() && running.try_wait().context("cannot look at howdah")?.is_none() {
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// The files below a directory. Some go away while we look.
#[derive(Debug, Default)]
struct Files {
    directory: PathBuf,
    seen: BTreeSet<PathBuf>,
    appeared: u64,
}

impl Files {
    /// Those that are there already do not appear.
    fn below(directory: &Path) -> Self {
        let mut files = Self { directory: directory.to_owned(), ..Self::default() };
        files.appeared();
        files.appeared = 0;
        files
    }

    /// How many have appeared since.
    fn appeared(&mut self) -> u64 {
        let mut directories = vec![self.directory.clone()];
        while let Some(directory) = directories.pop() {
            let Ok(entries) = std::fs::read_dir(directory) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    directories.push(path);
                } else if self.seen.insert(path) {
                    self.appeared += 1;
                }
            }
        }
        self.appeared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kills(seed: u64) -> Kills<'static> {
        Kills { count: 2, seed: (seed, "q5", 3), seconds: 10.0 }
    }

    #[test]
    fn the_same_seed_draws_the_same_moments() {
        let moments = |seed| (0..32).map(|kill| kills(seed).moment(0, kill)).collect::<Vec<_>>();
        assert_eq!(moments(7), moments(7));
        assert_ne!(moments(7), moments(8));
    }

    #[test]
    fn only_files_that_were_not_there_appear() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(directory.path().join(name), "").unwrap();
        write("old");
        let mut files = Files::below(directory.path());
        assert_eq!(files.appeared(), 0);
        std::fs::create_dir(directory.path().join("below")).unwrap();
        write("below/new");
        assert_eq!(files.appeared(), 1);
        std::fs::remove_file(directory.path().join("below/new")).unwrap();
        write("newer");
        assert_eq!(files.appeared(), 2);
    }
}

//! `kill -9` at any moment, then a restart: output and state end as if nothing had happened.

use crate::support::rows::{Row, output, sorted};
use crate::support::{Job, Random, clock, input, is_full, oracle, wait_for};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EVENTS: u32 = 50_000;

/// So that a run takes two seconds at least, and can be caught.
const ROWS_PER_SECOND: u32 = 25_000;

/// Rounds, each of a job from its beginning to its end, killed at least once.
const ROUNDS: u64 = 25;

/// Kills in one round at most.
const KILLS: u64 = 3;

fn job(parallelism: u64) -> Job {
    Job::last_bid(&input::events(EVENTS))
        .set("", "parallelism", parallelism)
        .set("checkpoint", "interval-ms", 40)
        .set("source", "rate-limit-rows-per-second", ROWS_PER_SECOND)
}

/// What is watched for before the kill.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// Nothing: a while after the start.
    AnyTime,
    /// A new file somewhere below this directory, whose path contains this.
    NewFile { below: &'static str, named: &'static str },
}

/// Processing; the flush of state (a data file, then a snapshot); the checkpoint (its document);
/// the sink's commit (a staged file, a part file).
pub(crate) const MOMENTS: [Moment; 6] = [
    Moment::AnyTime,
    Moment::NewFile { below: "state/warehouse", named: ".parquet" },
    Moment::NewFile { below: "state/warehouse", named: "snapshot-" },
    Moment::NewFile { below: "state/checkpoints", named: "" },
    Moment::NewFile { below: "output", named: "" },
    Moment::AnyTime,
];

/// All files below a directory. Some go away while we look.
fn files_below(directory: &Path, files: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.insert(path);
        }
    }
}

/// Starts the job and kills it at the moment. `false`: it came to its end before.
pub(crate) fn run_and_kill(job: &Job, moment: Moment, random: &mut Random) -> bool {
    let matching = |below: &str, named: &str| {
        let mut files = BTreeSet::new();
        files_below(&job.directory().join(below), &mut files);
        files.retain(|path| path.to_string_lossy().contains(named));
        files
    };
    let mut running = job.start();
    match moment {
        Moment::AnyTime => clock::let_run(Duration::from_millis(random.below(1_200))),
        Moment::NewFile { below, named } => {
            // Not always the first one.
            for _ in 0..=random.below(3) {
                let before = matching(below, named);
                wait_for("a new file or the end", || {
                    let is_new = matching(below, named).difference(&before).next().is_some();
                    (is_new || !running.is_running()).then_some(())
                });
            }
            clock::let_run(Duration::from_micros(random.below(8_000)));
        }
    }
    let was_running = running.is_running();
    let finished = running.kill();
    assert!(
        finished.code.is_none() || finished.code == Some(0),
        "it failed by itself: {}",
        finished.stderr
    );
    was_running && finished.code.is_none()
}

/// Output as a multiset, and state.
fn outcome(job: &Job) -> (Vec<Row>, Vec<Row>) {
    (sorted(output(job)), job.state_rows(None))
}

#[test]
fn killed_at_random_moments_a_job_ends_with_the_same_output_and_state() {
    let events = input::events(EVENTS);
    let undisturbed = job(2);
    undisturbed.run_to_end();
    let expected = outcome(&undisturbed);
    let answer = oracle::answer(&undisturbed, &events, "last-bid", None);
    let shape = &undisturbed.output_shape;
    oracle::assert_rows(&expected.1, &undisturbed.state_shape, shape.columns, &answer);

    for seed in 0..if is_full() { 4 } else { 1 } {
        for round in 0..ROUNDS {
            let job = killed_at_least_once(seed, round);
            let job = job.set("source", "rate-limit-rows-per-second", 0);
            job.run_to_end();
            let got = outcome(&job);
            assert_eq!(got.0.len(), expected.0.len(), "rows put out, seed {seed} round {round}");
            assert!(got.0 == expected.0, "the output differs, seed {seed} round {round}");
            assert!(got.1 == expected.1, "the state differs, seed {seed} round {round}");
            if round % 8 == 0 {
                oracle::check_state(&job, &answer, None);
            }
        }
    }
}

/// A job of this round, killed and started again some times.
fn killed_at_least_once(seed: u64, round: u64) -> Job {
    let mut random = Random::new(seed * 1_000 + round);
    let moment = |kill: u64| MOMENTS[usize::try_from(round + kill).unwrap() % MOMENTS.len()];
    for _ in 0..10 {
        // What comes out does not depend on the parallelism.
        let job = job(1 + round % 3);
        if !run_and_kill(&job, moment(0), &mut random) {
            // It had come to its end: nothing would be tested.
            continue;
        }
        for kill in 1..=random.below(KILLS) {
            run_and_kill(&job, moment(kill), &mut random);
        }
        return job;
    }
    panic!("always too late, seed {seed} round {round}");
}

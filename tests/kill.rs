//! `kill -9` at any moment, then a restart: output and state end as if nothing had happened.

use crate::support::rows::{Row, output, sorted};
use crate::support::{Job, Random, clock, input, is_full, oracle, wait_for};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EVENTS: u32 = 50_000;

/// So that a run takes a second at least, and can be caught.
const ROWS_PER_SECOND: u32 = 50_000;

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
enum Moment {
    /// Nothing: a while after the start.
    AnyTime,
    /// A new file somewhere below this directory, whose path contains this.
    NewFile { below: &'static str, named: &'static str },
}

/// Processing; the flush of state (a data file, then a snapshot); the checkpoint (its document);
/// the sink's commit (a staged file, a part file).
const MOMENTS: [Moment; 6] = [
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
fn run_and_kill(job: &Job, moment: Moment, random: &mut Random) -> bool {
    let matching = |below: &str, named: &str| {
        let mut files = BTreeSet::new();
        files_below(&job.directory().join(below), &mut files);
        files.retain(|path| path.to_string_lossy().contains(named));
        files
    };
    let mut running = job.start();
    match moment {
        Moment::AnyTime => clock::let_run(Duration::from_millis(random.below(600))),
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
            let mut random = Random::new(seed * 1_000 + round);
            // What comes out does not depend on it.
            let job = job(1 + round % 3);
            let first = usize::try_from(round).unwrap();
            for kill in 0..=usize::try_from(random.below(KILLS)).unwrap() {
                let moment = MOMENTS[(first + kill) % MOMENTS.len()];
                let was_killed = run_and_kill(&job, moment, &mut random);
                // Later ones may come too late; without the first nothing would be tested.
                assert!(was_killed || kill > 0, "too late, seed {seed} round {round}: {moment:?}");
            }
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

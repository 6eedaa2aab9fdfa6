//! A pipeline that no longer has an operator goes on from a checkpoint with that operator's state only
//! when it is told so by name; the state stays in the checkpoint.

use crate::support::rows::{output, sorted};
use crate::support::{Job, input};

/// A job of two operators with a sink each, at its end.
fn finished() -> Job {
    let job = Job::auction_winners(&input::events(20_000));
    job.run_to_end();
    job
}

fn without_sellers(mut job: Job) -> Job {
    for (section, keys) in [
        ("operator.sellers", &["component", "input", "key", "parallelism"][..]),
        ("sink.sellers", &["input", "type", "path", "format"]),
    ] {
        for key in keys {
            job = job.without(section, key);
        }
    }
    job
}

const REFUSED: [&str; 3] = [
    "operator `sellers` is gone",
    "to go on without the state of what is gone, which stays in the checkpoint",
    "--allow-dropped-state sellers",
];

#[test]
fn an_operator_that_is_gone_is_refused_until_it_is_named() {
    let job = finished();
    let winners = sorted(output(&job));
    let last = job.checkpoints().pop().unwrap().id;
    let at = last.to_string();
    let sellers = job.state("scan", &["stats", "--at", &at, "--output", "csv"]);
    let job = without_sellers(job);
    job.run(&[]).failed(1, &REFUSED);
    job.run(&["--allow-dropped-state", "seller"]).failed(1, &REFUSED);
    let summary = job.run(&["--allow-dropped-state", "sellers"]).summary();
    assert_eq!((&summary["restored_from"], &summary["finished"]), (&last.into(), &true.into()));
    assert_eq!(sorted(output(&job)), winners);
    // It is needed no more, and what was dropped is where it was.
    job.run_to_end();
    assert_eq!(job.state("scan", &["stats", "--at", &at, "--output", "csv"]), sellers);
}

#[test]
fn a_savepoint_with_a_state_that_is_gone_is_taken_when_it_is_named() {
    let job = finished();
    job.command(&["savepoint"], &["backup"]).success();
    let job = without_sellers(job);
    let backup = job.directory().join("backup");
    let from = ["--from", backup.to_str().unwrap(), "--fresh", "--yes"];
    job.run(&from).failed(1, &REFUSED);
    job.run(&[&from[..], &["--allow-dropped-state", "sellers"]].concat()).summary();
}

#[test]
fn a_checkpoint_of_another_pipeline_is_refused() {
    let job = finished().set("", "name", "'other'");
    let said = ["is of another pipeline: of `job`", "that of `other`", "another state-directory"];
    job.run(&[]).failed(1, &said);
}

//! `howdah state` needs the state alone, and says by its exit code what it found.

use crate::support::{Finished, Job, input, job};

/// A job that has run to its end.
fn finished_job() -> Job {
    let job = Job::last_bid(&input::events(20_000));
    job.run_to_end();
    job
}

fn state(job: &Job, arguments: &[&str]) -> Finished {
    let (verb, rest) = arguments.split_first().unwrap();
    let mut command = job::howdah();
    Finished::of(command.args(["state", verb]).arg(job.file()).args(rest).output().unwrap())
}

#[test]
fn a_key_without_a_row_is_said_and_is_no_failure() {
    let job = finished_job();
    let finished = state(&job, &["get", "last", "bidder=-5", "auction=1"]);
    finished.failed(3, &["no row of last has this key"]);
}

#[test]
fn what_is_not_there_is_a_wrong_argument() {
    let job = finished_job();
    state(&job, &["scan", "lost"]).failed(2, &["there is no table `lost`"]);
    state(&job, &["scan", "last", "--at", "4000"]).failed(2, &["4000"]);
    state(&job, &["get", "last", "bidder=x", "auction=1"]).failed(2, &["bidder"]);
}

#[test]
fn state_is_shown_when_component_and_source_are_gone() {
    let job = finished_job().set("operator", "component", job::quoted("gone.wasm")).set(
        "source",
        "path",
        job::quoted("gone.csv"),
    );
    for arguments in [&["ls"][..], &["scan", "last", "--limit", "1"]] {
        assert!(!state(&job, arguments).success().stdout.is_empty());
    }
    assert!(!job.command(&["checkpoint", "ls"], &[]).success().stdout.is_empty());
    job.run(&[]).failed(2, &["gone.csv", "does not exist"]);
}

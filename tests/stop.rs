//! Ctrl-C and SIGTERM stop a run at a checkpoint; the next run goes on from there.

use crate::support::rows::{output, sorted};
use crate::support::{Job, input};

const EVENTS: u32 = 50_000;

/// Stops a run by a signal and runs it again.
fn check(signal: &str) {
    let events = input::events(EVENTS);
    let undisturbed = Job::last_bid(&events);
    undisturbed.run_to_end();

    let job = Job::last_bid(&events).set("source", "rate-limit-rows-per-second", 5_000);
    let mut running = job.start();
    let checkpoint = job.wait_for_checkpoint(&mut running, 2);
    let summary = running.signal(signal).summary();
    assert_eq!(summary["finished"], false, "{summary}");
    let last = summary["checkpoints"]["last"].as_u64().unwrap();
    assert!(last >= checkpoint.id, "{summary}");

    let job = job.set("source", "rate-limit-rows-per-second", 0);
    let summary = job.run_to_end();
    assert_eq!(summary["restored_from"], last);
    assert_eq!(sorted(output(&job)), sorted(output(&undisturbed)));
    assert_eq!(job.state_rows(None), undisturbed.state_rows(None));
}

#[test]
fn stopped_by_ctrl_c_and_started_again_a_job_ends_as_if_it_had_not_been_stopped() {
    check("INT");
}

#[test]
fn stopped_by_sigterm_and_started_again_a_job_ends_as_if_it_had_not_been_stopped() {
    check("TERM");
}

#[test]
fn a_finished_job_that_is_run_again_has_nothing_to_do() {
    let job = Job::last_bid(&input::events(EVENTS));
    job.run_to_end();
    let before = sorted(output(&job));
    let summary = job.run_to_end();
    assert_eq!(summary["rows_in"], 0, "{summary}");
    assert_eq!(sorted(output(&job)), before);
}

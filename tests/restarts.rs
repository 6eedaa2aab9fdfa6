//! A pipeline whose operator fails is started again, from its last checkpoint, so often and no more.

use crate::support::{Job, input, job};
use std::fs::read_to_string;

/// An operator that does so many batches of each run, and then panics.
fn failing(events: u32, after_batches: u32) -> Job {
    Job::hostile(&input::events(events))
        .set("operator.config", "mode", job::quoted("panic"))
        .set("operator.config", "after_batches", after_batches)
        .set("operator.failure", "restart-backoff-ms", 1)
}

#[test]
fn an_operator_that_always_fails_is_given_up_with_its_first_cause() {
    let job = failing(50_000, 0).set("operator.failure", "restarts", 2);
    let finished = job.run(&[]);
    let stdout = finished.stdout.clone();
    finished.failed(1, &["told to panic", "started again 2 times", "[operator.failure]"]);
    assert_eq!(stdout.matches("\"event\":\"restarting\"").count(), 2, "{stdout}");
}

#[test]
fn an_operator_that_is_not_to_be_started_again_is_not() {
    let job = failing(50_000, 0).set("operator.failure", "restarts", 0);
    let finished = job.run(&[]);
    assert!(!finished.stdout.contains("restarting"), "{}", finished.stdout);
    finished.failed(1, &["told to panic"]);
}

#[test]
fn a_restart_goes_on_with_the_component_that_the_run_began_with() {
    let job = failing(20_000, 3)
        .set("operator", "component", job::quoted("op.wasm"))
        .set("source", "rate-limit-rows-per-second", 20_000)
        .set("checkpoint", "interval-ms", 20)
        .set("operator.failure", "restarts", 1_000)
        .set("operator.failure", "restart-backoff-limit-ms", 1);
    let component = job.directory().join("op.wasm");
    std::fs::copy(howdah_operator_artifacts::HOSTILE, &component).unwrap();
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 1);
    // Somebody builds another one, and it is half written.
    std::fs::write(&component, &std::fs::read(&component).unwrap()[..50_000]).unwrap();
    let finished = running.wait();
    assert!(finished.stdout.contains("restarting"), "{}", finished.stdout);
    assert_eq!(finished.summary()["finished"], true);
    job.run(&["--fresh", "--yes"]).failed(1, &["op.wasm is cut off"]);
}

#[test]
fn each_restart_goes_on_from_the_last_checkpoint() {
    // Each run gets through some batches, of a few hundred rows, and a checkpoint.
    let job = failing(20_000, 3)
        .set("source", "rate-limit-rows-per-second", 20_000)
        .set("checkpoint", "interval-ms", 20)
        .set("operator.failure", "restarts", 1_000)
        .set("operator.failure", "restart-backoff-limit-ms", 1);
    let finished = job.run(&[]);
    let stdout = finished.stdout.clone();
    let summary = finished.summary();
    assert!(stdout.contains("restarting"), "{stdout}");
    assert_eq!(summary["finished"], true, "{summary}");
    let parts = std::fs::read_dir(job.output_directory()).unwrap().map(|part| part.unwrap());
    let parts = parts.filter(|part| part.file_name().to_string_lossy().starts_with("part-"));
    let lines = |part: std::fs::DirEntry| read_to_string(part.path()).unwrap().lines().count();
    assert_eq!(parts.map(lines).sum::<usize>(), 18_400);
}

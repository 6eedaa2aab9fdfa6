//! One process at a time has a state directory.

use crate::support::{Job, input};

#[test]
fn a_second_run_is_refused_and_names_the_first() {
    let job =
        Job::last_bid(&input::events(50_000)).set("source", "rate-limit-rows-per-second", 2_000);
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 1);
    let process = running.process().to_string();
    job.run(&[]).failed(1, &[&process]);
    assert!(running.is_running(), "the second run ended the first");
    running.terminate().success();
}

#[test]
fn the_lock_of_a_killed_run_holds_nobody_up() {
    let job =
        Job::last_bid(&input::events(50_000)).set("source", "rate-limit-rows-per-second", 5_000);
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 1);
    running.kill();
    job.set("source", "rate-limit-rows-per-second", 0).run_to_end();
}

//! The state of a running pipeline can be read as of a completed checkpoint: by pypaimon and by
//! `howdah state`. It is what the answer is over the rows up to the checkpoint's source position.

use crate::support::{Job, input, oracle};

const EVENTS: u32 = 400_000;

/// A job that takes long enough to look at, however slow the machine: 200 seconds, of which tests
/// wait for a few. It keeps all its checkpoints meanwhile.
fn slow(job: Job) -> Job {
    job.set("source", "rate-limit-rows-per-second", 2_000)
        .set("checkpoint", "interval-ms", 300)
        .set("checkpoint", "retained", 1_000)
}

fn check(job: &Job, query: &str) {
    let events = input::events(EVENTS);
    let mut running = job.start();
    for wanted in [3, 8] {
        let checkpoint = job.wait_for_checkpoint(&mut running, wanted);
        assert!((1..u64::from(EVENTS)).contains(&checkpoint.source_rows), "{checkpoint:?}");
        let answer = oracle::answer(job, &events, query, Some(checkpoint.source_rows));
        oracle::check_state(job, &answer, Some(checkpoint.id));
        let rows = job.state_rows(Some(checkpoint.id));
        oracle::assert_rows(&rows, &job.state_shape, job.output_shape.columns, &answer);
        assert!(running.is_running(), "it ended before it was read");
    }
    running.terminate().success();
}

#[test]
fn last_bid_is_read_while_it_runs() {
    check(&slow(Job::last_bid(&input::events(EVENTS))), "last-bid");
}

#[test]
fn auction_stats_are_read_while_they_run() {
    let job = Job::auction_stats(&input::events(EVENTS)).set("", "parallelism", 3);
    check(&slow(job), "auction-stats");
}

#[test]
fn a_key_is_looked_up_while_the_pipeline_runs() {
    let job = slow(Job::last_bid(&input::events(EVENTS)));
    let mut running = job.start();
    let checkpoint = job.wait_for_checkpoint(&mut running, 3);
    let rows = job.state_rows(Some(checkpoint.id));
    let row = &rows[rows.len() / 2];
    let shape = &job.state_shape;
    let key = shape.project(row, shape.key);
    let at = checkpoint.id.to_string();
    let arguments: Vec<String> =
        shape.key.iter().zip(&key).map(|(column, value)| format!("{column}={value}")).collect();
    let mut words = vec![job.state];
    words.extend(arguments.iter().map(String::as_str));
    words.extend(["--at", &at, "--output", "json"]);
    let printed: serde_json::Value = serde_json::from_str(job.state("get", &words).trim()).unwrap();
    for column in ["bidder", "auction", "price", "seq"] {
        let value = shape.project(row, &[column]);
        assert_eq!(printed[column].to_string(), value[0], "{column}");
    }
    assert!(running.is_running(), "it ended before it was read");
    running.terminate().success();
}

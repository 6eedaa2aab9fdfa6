//! Nexmark q18 and the figures of each auction are right, in the output and in the state, at any
//! parallelism, from every input format and in every output format.

use crate::support::rows::{last_of_each_key, output};
use crate::support::{Job, input, job, oracle};
use serde_json::Value;

const EVENTS: u32 = 100_000;
const BIDS: u64 = 92_000;

/// What other engines answered over the same events; of the lines sorted by all columns.
const LAST_BID_SHA256: &str = "bd67662ae1012c8160e36fa82a891e268aae5c9be639599002f5c141475c8eda";
const AUCTION_HIGHEST_SHA256: &str =
    "1f7f854f1549be56b2d678805fb32a228f40dcad4bb2c8e9be150c1b328e0a6c";

/// Runs a job and compares output and state with the answer.
fn check(job: &Job, query: &str, sha256: Option<&str>) -> Value {
    let events = input::events(EVENTS);
    let answer = oracle::answer(job, &events, query, None);
    if let Some(sha256) = sha256 {
        assert_eq!(answer.sha256, sha256, "the oracle itself");
    }
    let summary = job.run_to_end();
    assert_eq!(summary["rows_in"], BIDS);
    assert_eq!(summary["rows_filtered"], u64::from(EVENTS) - BIDS);

    let rows = output(job);
    assert_eq!(summary["rows_out"].as_u64().unwrap(), rows.len() as u64);
    let shape = &job.output_shape;
    oracle::assert_rows(&last_of_each_key(&rows, shape), shape, shape.columns, &answer);
    oracle::assert_rows(&job.state_rows(None), &job.state_shape, shape.columns, &answer);
    oracle::check_state(job, &answer, None);
    assert_probes(&summary);
    summary
}

/// A batch costs each state at most one look-up, and a look-up at most one probe of the disk.
fn assert_probes(summary: &Value) {
    let batches = summary["batches"].as_u64().unwrap();
    assert!(batches > 0);
    for state in summary["states"].as_array().unwrap() {
        let gets = state["gets_total"].as_u64().unwrap();
        let probes = state["probes_total"].as_u64().unwrap();
        assert!(gets <= batches, "{gets} look-ups in {batches} batches");
        assert!(probes <= gets, "{probes} probes in {gets} look-ups");
    }
}

fn last_bid(parallelism: u32) -> Job {
    Job::last_bid(&input::events(EVENTS)).set("", "parallelism", parallelism)
}

fn auction_stats(parallelism: u32) -> Job {
    Job::auction_stats(&input::events(EVENTS)).set("", "parallelism", parallelism)
}

#[test]
fn last_bid_is_right_at_parallelism_1() {
    check(&last_bid(1), "last-bid", Some(LAST_BID_SHA256));
}

#[test]
fn last_bid_is_right_at_parallelism_2_into_csv() {
    let job = last_bid(2).set("sink", "format", job::quoted("csv"));
    check(&job, "last-bid", Some(LAST_BID_SHA256));
}

#[test]
fn last_bid_is_right_at_parallelism_3_into_parquet() {
    let job = last_bid(3).set("sink", "format", job::quoted("parquet"));
    check(&job, "last-bid", Some(LAST_BID_SHA256));
}

#[test]
fn auction_stats_are_right_at_parallelism_1() {
    let job = auction_stats(1);
    let highest = oracle::answer(&job, &input::events(EVENTS), "auction-highest", None);
    assert_eq!(highest.sha256, AUCTION_HIGHEST_SHA256, "the oracle itself");
    check(&job, "auction-stats", None);
    let columns = ["auction", "max_price", "bids"];
    oracle::assert_rows(&job.state_rows(None), &job.state_shape, &columns, &highest);
}

#[test]
fn auction_stats_are_right_at_parallelism_2_from_ndjson() {
    let events = input::events_as(EVENTS, "ndjson");
    let job = Job::auction_stats(&events).set("", "parallelism", 2);
    check(&job, "auction-stats", None);
}

#[test]
fn auction_stats_are_right_at_parallelism_3_from_parquet() {
    let events = input::events_as(EVENTS, "parquet");
    let job = Job::auction_stats(&events).set("", "parallelism", 3);
    check(&job, "auction-stats", None);
}

#[test]
fn a_batch_and_state_cost_at_most_one_probe_when_state_is_on_disk() {
    // Checkpoints so close that most keys have left the write buffer.
    let job = last_bid(2).set("checkpoint", "interval-ms", 20);
    let summary = job.run_to_end();
    assert_probes(&summary);
    assert!(summary["probes"].as_u64().unwrap() > 0, "{summary}");
}

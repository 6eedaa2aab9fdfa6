//! `kill -9` of a job that writes a Paimon table: pypaimon reads exactly the rows of a job that was not
//! disturbed.

use crate::kill::{Moment, run_and_kill};
use crate::support::rows::{Row, output, sorted};
use crate::support::{Job, Random, input, is_full, job::quoted, oracle};

const EVENTS: u32 = 20_000;

/// So that a run takes a second at least, and can be caught.
const ROWS_PER_SECOND: u32 = 15_000;

/// Jobs, each killed at least once.
const ROUNDS: usize = 6;

/// A data file, a commit, the document of a checkpoint.
const MOMENTS: [Moment; 6] = [
    Moment::NewFile { below: "tables", named: ".parquet" },
    Moment::NewFile { below: "tables", named: "snapshot-" },
    Moment::AnyTime,
    Moment::NewFile { below: "state/checkpoints", named: "" },
    Moment::NewFile { below: "tables", named: "manifest" },
    Moment::AnyTime,
];

/// A job that writes the table `db.bids` in `tables`.
fn job(primary_key: &str) -> Job {
    let job = Job::last_bid(&input::events(EVENTS))
        .set("checkpoint", "interval-ms", 40)
        .set("source", "rate-limit-rows-per-second", ROWS_PER_SECOND)
        .set("sink", "type", quoted("paimon"))
        .set("sink", "path", quoted("tables"))
        .set("sink", "table", quoted("db.bids"))
        .without("sink", "format");
    match primary_key {
        "" => job,
        key => job.set("sink", "primary-key", key).set("sink", "buckets", 2),
    }
}

/// The rows of the table after some kills.
fn rows_after_kills(primary_key: &str, round: usize, random: &mut Random) -> Vec<Row> {
    let moment = |kill: usize| MOMENTS[(round + kill) % MOMENTS.len()];
    for _ in 0..10 {
        let job = job(primary_key);
        if !run_and_kill(&job, moment(0), random) {
            continue;
        }
        for kill in 1..=usize::try_from(random.below(3)).unwrap() {
            run_and_kill(&job, moment(kill), random);
        }
        let job = job.set("source", "rate-limit-rows-per-second", 0);
        job.run_to_end();
        let tables = job.directory().join("tables");
        return oracle::table_rows(&tables, "db.bids", job.output_shape.columns);
    }
    panic!("always too late, round {round}");
}

/// All rounds of a kind of table.
fn check(primary_key: &str, expected: &[Row]) {
    for round in 0..if is_full() { 5 * ROUNDS } else { ROUNDS } {
        let mut random = Random::new(u64::try_from(round).unwrap());
        let rows = rows_after_kills(primary_key, round, &mut random);
        assert_eq!(rows.len(), expected.len(), "rows, round {round}");
        assert!(rows == expected, "the rows differ, round {round}");
    }
}

#[test]
fn a_table_of_appended_rows_ends_with_exactly_those_after_kills() {
    let undisturbed = Job::last_bid(&input::events(EVENTS));
    undisturbed.run_to_end();
    check("", &sorted(output(&undisturbed)));
}

#[test]
fn a_table_with_a_primary_key_ends_with_exactly_the_last_rows_after_kills() {
    let events = input::events(EVENTS);
    // Its directory has the answer.
    let job = Job::last_bid(&events);
    let answer = oracle::answer(&job, &events, "last-bid", None);
    check("['bidder', 'auction']", &answer.rows());
}

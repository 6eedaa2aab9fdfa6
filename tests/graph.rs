//! A pipeline with two sources, a join, an operator behind it and two sinks: DuckDB has the same
//! answer, also after `kill -9` at any moment.

use crate::kill::{MOMENTS, run_and_kill};
use crate::support::rows::{Row, output, sorted};
use crate::support::{Job, Random, input, is_full, oracle};
use std::collections::BTreeMap;

const EVENTS: u32 = 50_000;

/// So that a run takes two seconds at least, and can be caught.
const ROWS_PER_SECOND: u32 = 25_000;

/// Jobs that are killed.
const ROUNDS: usize = 8;

fn job(parallelism: u64, rows_per_second: u32) -> Job {
    let job = Job::auction_winners(&input::events(EVENTS)).set("", "parallelism", parallelism).set(
        "checkpoint",
        "interval-ms",
        40,
    );
    limited(job, rows_per_second)
}

fn limited(job: Job, rows_per_second: u32) -> Job {
    job.set("source.auctions", "rate-limit-rows-per-second", rows_per_second).set(
        "source.bids",
        "rate-limit-rows-per-second",
        rows_per_second,
    )
}

/// For each seller: auctions that were won, lowest, highest and sum of the prices.
fn sellers(winners: &[Row]) -> Vec<Row> {
    let mut sellers: BTreeMap<i64, [i64; 4]> = BTreeMap::new();
    for row in winners {
        let [seller, price] = [&row[1], &row[3]].map(|value| value.parse::<i64>().unwrap());
        let [count, least, most, sum] = sellers.entry(seller).or_insert([0, i64::MAX, 0, 0]);
        (*count, *sum) = (*count + 1, *sum + price);
        (*least, *most) = (price.min(*least), price.max(*most));
    }
    let row = |(seller, figures): (&i64, &[i64; 4])| {
        std::iter::once(seller).chain(figures).map(ToString::to_string).collect()
    };
    sorted(sellers.iter().map(row).collect())
}

/// What is stored of the sellers, without key groups.
fn stored_sellers(job: &Job) -> Vec<Row> {
    let text = job.state("scan", &["stats", "--output", "csv"]);
    let row = |line: &str| line.split(',').skip(1).map(str::to_owned).collect();
    sorted(text.lines().skip(1).map(row).collect())
}

fn check(job: &Job, expected: &[Row]) {
    assert_eq!(sorted(output(job)), expected);
    assert_eq!(stored_sellers(job), sellers(expected));
}

#[test]
fn killed_at_random_moments_a_join_ends_with_the_answer() {
    let events = input::events(EVENTS);
    let undisturbed = job(2, 0);
    let summary = undisturbed.run_to_end();
    let expected = oracle::answer(&undisturbed, &events, "auction-winners", None).rows();
    assert!(expected.len() > 500, "{}", expected.len());
    assert_eq!(summary["states"].as_array().unwrap().len(), 4, "{summary}");
    check(&undisturbed, &expected);

    let mut killed = 0;
    for round in 0..ROUNDS * if is_full() { 4 } else { 1 } {
        let mut random = Random::new(u64::try_from(round).unwrap());
        let job = job(1 + random.below(3), ROWS_PER_SECOND);
        for kill in 0..=random.below(2) {
            let moment = MOMENTS[(round + usize::try_from(kill).unwrap()) % MOMENTS.len()];
            killed += u32::from(run_and_kill(&job, moment, &mut random));
        }
        let job = limited(job, 0);
        job.run_to_end();
        check(&job, &expected);
    }
    assert!(killed > 0, "always too late");
}

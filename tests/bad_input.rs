//! What cannot be read stops the run with file, line and column named, and leaves state and output
//! at the last checkpoint; or it is skipped, or set aside.

use crate::support::rows::{last_of_each_key, output};
use crate::support::{Job, input, job, oracle};
use std::path::PathBuf;

const EVENTS: u32 = 20_000;

/// The line of the input that is made bad; line 1 is the header.
const BAD_LINE: usize = 15_001;

/// The 0-based field of `price`, in a bid.
const PRICE: usize = 19;

/// A copy of the events in which some lines are changed.
fn changed(job: &Job, change: impl Fn(usize, &str) -> String) -> PathBuf {
    let path = job.directory().join("events.csv");
    input::with_lines(&input::events(EVENTS), &path, change);
    path
}

/// A job over a copy of the events that lies beside its pipeline file.
fn stats() -> Job {
    Job::auction_stats(&input::events(EVENTS)).set("source", "path", job::quoted("events.csv"))
}

fn with_price(line: &str, price: &str) -> String {
    let mut fields: Vec<&str> = line.split(',').collect();
    fields[PRICE] = price;
    fields.join(",")
}

/// The bad line gets this price, which is none.
fn with_bad_price(number: usize, line: &str) -> String {
    if number == BAD_LINE { with_price(line, "1O0") } else { line.to_owned() }
}

#[test]
fn a_malformed_row_stops_the_run_at_the_last_checkpoint_and_once_mended_it_goes_on() {
    // Slow, so that there are checkpoints before the bad row.
    let job = stats().set("source", "rate-limit-rows-per-second", 5_000);
    changed(&job, with_bad_price);
    let place = format!("events.csv:{BAD_LINE}: column `price`: `1O0`");
    let failed = job.run(&[]).failed(1, &[&place, "on-error", "as of checkpoint"]);

    let checkpoints = job.checkpoints();
    let last = checkpoints.last().unwrap();
    assert!(failed.stderr.contains(&format!("as of checkpoint {}", last.id)), "{}", failed.stderr);
    assert!(last.source_rows < BAD_LINE as u64, "{last:?}");
    let original = input::events(EVENTS);
    let answer = oracle::answer(&job, &original, "auction-stats", Some(last.source_rows));
    let (shape, columns) = (job.output_shape, job.output_shape.columns);
    oracle::assert_rows(&last_of_each_key(&output(&job), &shape), &shape, columns, &answer);
    oracle::assert_rows(&job.state_rows(Some(last.id)), &job.state_shape, columns, &answer);

    // Mended, it goes on from there.
    changed(&job, |_, line| line.to_owned());
    let job = job.set("source", "rate-limit-rows-per-second", 0);
    let summary = job.run_to_end();
    assert_eq!(summary["restored_from"], last.id);
    let answer = oracle::answer(&job, &original, "auction-stats", None);
    oracle::assert_rows(&last_of_each_key(&output(&job), &shape), &shape, columns, &answer);
    oracle::assert_rows(&job.state_rows(None), &job.state_shape, columns, &answer);
}

/// Runs over events with a change; the run must fail and say all this.
fn refused(change: impl Fn(usize, &str) -> String, said: &[&str]) {
    let job = stats();
    changed(&job, change);
    job.run(&[]).failed(1, said);
}

#[test]
fn a_row_with_too_few_fields_is_named() {
    let place = format!("events.csv:{BAD_LINE}: ");
    refused(
        |number, line| if number == BAD_LINE { "2,14999".to_owned() } else { line.to_owned() },
        &[&place, "2 fields", "23"],
    );
}

#[test]
fn a_row_without_a_value_that_is_needed_is_named() {
    let place = format!("events.csv:{BAD_LINE}: column `price`");
    refused(
        |number, line| if number == BAD_LINE { with_price(line, "") } else { line.to_owned() },
        &[&place],
    );
}

#[test]
fn a_missing_column_is_named_with_those_that_there_are() {
    let job = stats();
    changed(
        &job,
        |number, line| {
            if number == 1 { line.replace("price", "prize") } else { line.to_owned() }
        },
    );
    let finished = job.run(&[]);
    assert!(matches!(finished.code, Some(1 | 2)), "{finished:?}");
    for words in ["`price`", "prize", "events.csv"] {
        assert!(finished.stderr.contains(words), "`{words}` is not in: {}", finished.stderr);
    }
}

#[test]
fn an_empty_file_is_refused() {
    let job = stats();
    std::fs::write(job.directory().join("events.csv"), "").unwrap();
    job.run(&[]).failed(1, &["events.csv:1: ", "empty"]);
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let job = stats();
    let finished = job.run(&[]);
    assert!(matches!(finished.code, Some(1 | 2)), "{finished:?}");
    assert!(finished.stderr.contains("events.csv"), "{}", finished.stderr);
}

#[test]
fn a_file_that_is_cut_off_is_named_with_the_line() {
    let job = stats();
    let text = std::fs::read_to_string(input::events(EVENTS)).unwrap();
    std::fs::write(job.directory().join("events.csv"), &text[..text.len() - 100]).unwrap();
    let lines = text.lines().count();
    job.run(&[]).failed(1, &[&format!("events.csv:{lines}: "), "cut off"]);
}

#[test]
fn a_cut_off_ndjson_file_is_named_with_the_line() {
    let job = stats().set("source", "path", job::quoted("events.ndjson"));
    let text = std::fs::read_to_string(input::events_as(EVENTS, "ndjson")).unwrap();
    std::fs::write(job.directory().join("events.ndjson"), &text[..text.len() - 100]).unwrap();
    let lines = text.lines().count();
    job.run(&[]).failed(1, &[&format!("events.ndjson:{lines}: "), "cut off"]);
}

#[test]
fn a_cut_off_parquet_file_is_refused() {
    let job = stats().set("source", "path", job::quoted("events.parquet"));
    let bytes = std::fs::read(input::events_as(EVENTS, "parquet")).unwrap();
    std::fs::write(job.directory().join("events.parquet"), &bytes[..bytes.len() - 100]).unwrap();
    job.run(&[]).failed(1, &["events.parquet"]);
}

#[test]
fn on_error_skip_counts_malformed_rows() {
    let job = stats().set("source", "on-error", job::quoted("skip"));
    changed(&job, with_bad_price);
    let summary = job.run_to_end();
    assert_eq!(summary["rows_skipped"], 1, "{summary}");
    assert_eq!(summary["rows_in"], 18_400 - 1, "{summary}");
}

#[test]
fn on_error_dead_letter_writes_malformed_rows_to_a_file() {
    let job = stats().set("source", "on-error", job::quoted("dead-letter")).set(
        "source",
        "dead-letter",
        job::quoted("bad.ndjson"),
    );
    changed(&job, with_bad_price);
    let summary = job.run_to_end();
    assert_eq!(summary["rows_dead_lettered"], 1, "{summary}");
    let letters = std::fs::read_to_string(job.directory().join("bad.ndjson")).unwrap();
    assert_eq!(letters.lines().count(), 1, "{letters}");
    for words in ["1O0", "price", &BAD_LINE.to_string()] {
        assert!(letters.contains(words), "`{words}` is not in {letters}");
    }
}

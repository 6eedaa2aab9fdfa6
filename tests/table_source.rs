//! A job follows the table that another one writes, and is killed while it does: every row comes once.

use crate::kill::{Moment, run_and_kill};
use crate::support::rows::{Row, output, sorted};
use crate::support::{Job, Random, input, is_full, job::quoted, oracle, wait_for};
use serde_json::{Value, json};
use std::path::Path;

const EVENTS: u32 = 20_000;

const MOMENTS: [Moment; 4] = [
    Moment::AnyTime,
    Moment::NewFile { below: "state/checkpoints", named: "" },
    Moment::NewFile { below: "output", named: "" },
    Moment::AnyTime,
];

/// Writes the table `db.bids` for some seconds.
fn writer() -> Job {
    Job::last_bid(&input::events(EVENTS))
        .set("checkpoint", "interval-ms", 60)
        .set("source", "rate-limit-rows-per-second", 6_000)
        .set("sink", "type", quoted("paimon"))
        .set("sink", "path", quoted("tables"))
        .set("sink", "table", quoted("db.bids"))
        .without("sink", "format")
}

/// Follows it, and writes the rows as they are.
fn reader(writer: &Job) -> Job {
    let tables = writer.directory().join("tables");
    let job = following(&tables).set("source", "table", quoted("db.bids"));
    job.argument("--allow-dir").argument(&tables.to_string_lossy())
}

/// Follows a table in a warehouse.
fn following(warehouse: &Path) -> Job {
    Job::last_bid(warehouse)
        .without("source.filter", "event_type")
        .without("operator", "name")
        .without("operator", "component")
        .set("checkpoint", "interval-ms", 40)
        .set("source", "connector", quoted("paimon"))
        .set("source", "follow", true)
}

#[test]
fn a_table_that_is_written_is_followed_exactly_through_kills() {
    for seed in 0..if is_full() { 6 } else { 1 } {
        let mut random = Random::new(seed);
        let writer = writer();
        let mut writing = writer.start();
        writer.wait_for_checkpoint(&mut writing, 2);
        let reader = reader(&writer);
        for kill in 0..4 {
            run_and_kill(&reader, MOMENTS[kill % MOMENTS.len()], &mut random);
        }
        writing.wait().summary();
        let tables = writer.directory().join("tables");
        let expected: Vec<Row> =
            oracle::table_rows(&tables, "db.bids", writer.output_shape.columns);
        let last = reader.checkpoints().pop().map_or(0, |checkpoint| checkpoint.id);
        let mut reading = reader.start();
        // From then on output is not taken back.
        reader.wait_for_checkpoint(&mut reading, last + 1);
        wait_for("all rows", || (output(&reader).len() >= expected.len()).then_some(()));
        reading.terminate().success();
        let found = sorted(output(&reader));
        assert_eq!(found.len(), expected.len(), "seed {seed}");
        assert!(found == expected, "the rows differ, seed {seed}");
    }
}

/// The lines of the output files, sorted.
fn lines(job: &Job) -> Vec<String> {
    let Ok(parts) = std::fs::read_dir(job.output_directory()) else { return Vec::new() };
    let parts = parts.map(|part| part.unwrap().path());
    let parts = parts.filter(|part| part.extension().is_some_and(|it| it == "ndjson"));
    let text: String = parts.map(|part| std::fs::read_to_string(part).unwrap()).collect();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Follows a table while pypaimon writes to it: some batches before, some meanwhile.
fn follow_pypaimon(key: &[&str], before: &Value, meanwhile: &[(Value, &[&str])]) {
    let job = following(Path::new("tables")).set("source", "table", quoted("db.rows"));
    let tables = job.directory().join("tables");
    oracle::write_table(&tables, "db.rows", key, before);
    let running = job.start();
    for (batches, expected) in meanwhile {
        if !batches.is_null() {
            oracle::write_table(&tables, "db.rows", key, batches);
        }
        wait_for("rows", || (lines(&job) == *expected).then_some(()));
    }
    running.terminate().success();
    assert_eq!(lines(&job), meanwhile.last().unwrap().1, "nothing more came");
}

#[test]
fn rows_that_pypaimon_appends_are_followed() {
    let first = r#"{"id":1,"name":"a"}"#;
    let all = [first, r#"{"id":2,"name":null}"#, r#"{"id":3,"name":"c"}"#];
    follow_pypaimon(
        &[],
        &json!([[[1, "a"]]]),
        &[(Value::Null, &[first]), (json!([[[2, null]], [[3, "c"]]]), &all)],
    );
}

#[test]
fn changes_that_pypaimon_makes_are_followed_as_a_changelog() {
    let inserted = [r#"{"id":1,"name":"a","op":"+I"}"#, r#"{"id":2,"name":"b","op":"+I"}"#];
    let changed = [
        inserted[0],
        r#"{"id":1,"name":"a","op":"-U"}"#,
        r#"{"id":1,"name":"z","op":"+U"}"#,
        inserted[1],
        r#"{"id":3,"name":"c","op":"+I"}"#,
    ];
    follow_pypaimon(
        &["id"],
        &json!([[[1, "x"], [2, "b"]], [[1, "a"]]]),
        &[(Value::Null, &inserted), (json!([[[1, "z"], [3, "c"]]]), &changed)],
    );
}

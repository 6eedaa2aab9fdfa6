//! A pipeline goes on with another operator when its state fits, and says that it is another one.

use crate::support::{Finished, Job, input, job, wait_for};
use std::path::Path;

const EVENTS: u32 = 20_000;

/// An operator that keeps these fields, by the number of the event.
fn columns(fields: &str) -> String {
    format!(
        r#"{{"columns": {{"fields": [["seq", "int64", false], {fields}], "key": ["seq"],
            "through": "value", "keys": "current"}}}}"#
    )
}

/// A pipeline of it that has run to its end.
fn finished_job() -> Job {
    let job = job();
    job.run_to_end();
    job
}

/// A pipeline of it.
fn job() -> Job {
    let component = job::quoted(howdah_operator_artifacts::SCRIPTED);
    Job::last_bid(&input::events(EVENTS))
        .set("operator", "component", component)
        .set(
            "operator.config.columns",
            "fields",
            r#"[["seq", "int64", false], ["price", "int64", false]]"#,
        )
        .set("operator.config.columns", "key", "['seq']")
        .set("operator.config.columns", "through", job::quoted("value"))
        .set("operator.config.columns", "keys", job::quoted("current"))
}

/// How many bids there are after so many rows of the source.
fn bids_after(rows: u64) -> usize {
    let events = std::fs::read_to_string(input::events(EVENTS)).unwrap();
    let mut lines = events.lines();
    let header = lines.next().unwrap();
    let kind = header.split(',').position(|name| name == "event_type").unwrap();
    let is_bid = |line: &&str| line.split(',').nth(kind) == Some("2");
    lines.skip(usize::try_from(rows).unwrap()).filter(is_bid).count()
}

/// The number of rows of a state.
fn rows_of(job: &Job, state: &str) -> usize {
    job.state("scan", &[state, "--output", "csv"]).lines().count() - 1
}

/// The number of rows that came out.
fn rows_out(job: &Job) -> usize {
    let files = std::fs::read_dir(job.output_directory()).unwrap();
    let files = files.map(|file| file.unwrap());
    let parts = files.filter(|file| file.file_name().to_string_lossy().starts_with("part-"));
    parts.map(|part| std::fs::read_to_string(part.path()).unwrap().lines().count()).sum()
}

/// Checks the operator with these fields against the state of the job.
fn check(job: &Job, fields: &str) -> Finished {
    let mut command = job::howdah();
    command.arg("check").arg(Path::new(howdah_operator_artifacts::SCRIPTED));
    command.arg("--against").arg(job.state_directory()).args(["--config", &columns(fields)]);
    Finished::of(command.output().unwrap())
}

#[test]
fn a_state_may_get_nullable_columns_and_wider_numbers_and_nothing_else() {
    let job = finished_job();
    let price = r#"["price", "int64", false]"#;
    let same = check(&job, price).success().stdout;
    assert!(same.contains("as stored"), "{same}");
    let more = check(&job, &format!(r#"{price}, ["bidder", "int64", true]"#)).success().stdout;
    assert!(more.contains("stored nothing, asked for `bidder` int64, nullable"), "{more}");

    let required = check(&job, &format!(r#"{price}, ["bidder", "int64", false]"#));
    required.failed(1, &["`bidder` int64", "make it nullable"]);
    let other = check(&job, r#"["price", "utf8", false]"#);
    other.failed(1, &["stored `price` int64, asked for `price` utf8", "keep the type"]);
    let renamed = check(&job, r#"["cost", "int64", false]"#);
    renamed.failed(1, &["stored `price` int64, asked for `cost` int64", "keep names"]);
}

#[test]
fn another_component_with_the_same_states_goes_on_and_the_log_says_so() {
    let job = Job::last_bid(&input::events(20_000));
    job.run_to_end();
    // The same operator with another digest: a custom section more.
    let component = job.directory().join("other.wasm");
    let mut bytes = std::fs::read(howdah_operator_artifacts::LAST_BID).unwrap();
    bytes.extend(b"\0\x03\x01a!");
    std::fs::write(&component, bytes).unwrap();
    let job = job.set("operator", "component", job::quoted("other.wasm"));
    let finished = job.run(&[]).success();
    let said = "the component of operator `last-bid` has changed since checkpoint";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    // From the next checkpoint on it is the known one.
    let finished = job.run(&[]).success();
    assert!(!finished.stderr.contains("has changed"), "{}", finished.stderr);
}

#[test]
fn another_configuration_goes_on_and_the_log_says_so() {
    let job =
        Job::hostile(&input::events(20_000)).set("operator.config", "mode", job::quoted("none"));
    job.run_to_end();
    let job = job.set("operator.config", "after_batches", 1_000);
    let finished = job.run(&[]).success();
    let said = "the configuration of operator `hostile` has changed since checkpoint";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
}

#[test]
fn a_new_state_begins_empty_at_the_checkpoint_whenever_it_is_killed() {
    let slow = |job: Job| job.set("source", "rate-limit-rows-per-second", 10_000);
    let first = slow(job()).set("checkpoint", "retained", 1_000);
    let mut running = first.start();
    first.wait_for_checkpoint(&mut running, 3);
    running.kill();
    let checkpoint = first.checkpoints().pop().unwrap();

    // Killed before the first checkpoint that has the state.
    let more = first.set("operator.config.columns", "also", true);
    let more = more.set("checkpoint", "interval-ms", 3_600_000);
    let table = more.state_directory().join("warehouse/default.db/job__last-bid__also/snapshot");
    let mut running = more.start();
    wait_for("the table of the new state", || {
        assert!(running.is_running(), "it ended");
        table.exists().then_some(())
    });
    running.kill();

    let said = "has a state `also` that it did not have at checkpoint";
    let more = more.set("checkpoint", "interval-ms", 20);
    let mut running = more.start();
    let next = more.wait_for_checkpoint(&mut running, checkpoint.id + 1);
    let killed = running.kill();
    assert!(killed.stderr.contains(said), "{}", killed.stderr);
    assert!(next.source_rows >= checkpoint.source_rows);

    let more = more.set("source", "rate-limit-rows-per-second", 0);
    let finished = more.run(&[]).success();
    assert!(!finished.stderr.contains(said), "it has been there: {}", finished.stderr);
    let all = (bids_after(0), bids_after(checkpoint.source_rows), bids_after(0));
    let counts = |job: &Job| (rows_of(job, "rows"), rows_of(job, "also"), rows_out(job));
    assert_eq!(counts(&more), all);

    // What it held is no part of the checkpoint before it was there.
    let earlier = checkpoint.id.to_string();
    let finished = more.run(&["--checkpoint", &earlier, "--yes"]).success();
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    assert_eq!(counts(&more), all);
}

#[test]
fn a_state_that_comes_back_does_not_take_the_place_of_the_one_that_a_checkpoint_has() {
    let also = |job: Job, there: bool| job.set("operator.config.columns", "also", there);
    let first = also(job(), true).set("checkpoint", "retained", 1_000);
    first.run_to_end();
    let last = first.checkpoints().pop().unwrap().id.to_string();
    let kept = |job: &Job| job.state("scan", &["also", "--at", &last, "--output", "csv"]);
    let before = kept(&first);

    let without = also(first, false);
    without.run(&["--allow-dropped-state", "last-bid.also"]).summary();
    let again = also(without, true);
    let way_out = format!("run with --checkpoint {last}");
    again.run(&[]).failed(1, &["`also` of operator `last-bid` would begin empty", &way_out]);
    assert_eq!(kept(&again), before);
    again.run(&["--checkpoint", &last, "--yes"]).summary();
    assert_eq!(kept(&again), before);
}

#[test]
fn check_says_which_states_begin_empty_and_which_are_missing() {
    let job = finished_job().set("operator.config.columns", "also", true);
    let file = job.file();
    let against = file.to_str().unwrap();
    let check = |arguments: &[&str]| {
        let mut command = job::howdah();
        command.arg("check").arg(howdah_operator_artifacts::SCRIPTED).args(["--against", against]);
        Finished::of(command.args(arguments).output().unwrap())
    };
    let text = check(&[]).success().stdout;
    assert!(text.contains("rows: as stored"), "{text}");
    assert!(text.contains("also: new, begins empty"), "{text}");
    let json = check(&["--output", "json"]).success().stdout;
    assert!(json.contains("\"fits\":true"), "{json}");

    job.run_to_end();
    let job = job.set("operator.config.columns", "also", false);
    job.file();
    let said = ["state `also` was (key: seq int64; value: price int64; version 1) and is gone"];
    check(&[]).failed(1, &said);
    job.run(&[]).failed(1, &said);
}

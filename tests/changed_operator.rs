//! A pipeline goes on with another operator when its state fits, and says that it is another one.

use crate::support::{Finished, Job, input, job};
use std::path::Path;

/// An operator that keeps these fields, by the number of the event.
fn columns(fields: &str) -> String {
    format!(
        r#"{{"columns": {{"fields": [["seq", "int64", false], {fields}], "key": ["seq"],
            "through": "value", "keys": "current"}}}}"#
    )
}

/// A pipeline of it that has run to its end.
fn finished_job() -> Job {
    let component = job::quoted(howdah_operator_artifacts::SCRIPTED);
    let job = Job::last_bid(&input::events(20_000))
        .set("operator", "component", component)
        .set(
            "operator.config.columns",
            "fields",
            r#"[["seq", "int64", false], ["price", "int64", false]]"#,
        )
        .set("operator.config.columns", "key", "['seq']")
        .set("operator.config.columns", "through", job::quoted("value"))
        .set("operator.config.columns", "keys", job::quoted("current"));
    job.run_to_end();
    job
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

//! `howdah check` says what an operator is, and refuses one that would not run.

use crate::support::{Finished, Job, input, job};
use serde_json::Value;
use std::path::Path;

fn check(component: &Path, arguments: &[&str]) -> Finished {
    let mut command = job::howdah();
    Finished::of(command.arg("check").arg(component).args(arguments).output().unwrap())
}

/// A component from WebAssembly text, in a directory.
fn component(directory: &Path, text: &str) -> std::path::PathBuf {
    let path = directory.join("made.wasm");
    std::fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path
}

#[test]
fn it_says_what_an_operator_reads_writes_and_keeps() {
    let last_bid = Path::new(howdah_operator_artifacts::LAST_BID);
    let text = check(last_bid, &[]).success().stdout;
    for words in ["keyed by bidder, auction", "last: value for each bidder int64", "price int64"] {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
    let json = check(last_bid, &["--output", "json"]).success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["runs"], true);
    let state = &json["spec"]["states"][0];
    assert_eq!((&state["name"], &state["kind"]), (&Value::from("last"), &Value::from("value")));
    assert_eq!(state["fields"][0]["type"], "int64");
    assert_eq!(json["spec"]["inputs"][0]["key"], serde_json::json!(["bidder", "auction"]));
}

#[test]
fn a_component_of_another_shape_is_refused_function_by_function() {
    let directory = tempfile::tempdir().unwrap();
    let component = component(
        directory.path(),
        r#"(component
            (import "wasi:cli/environment@0.2.0" (instance))
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $close (canon lift (core func $i "f")))
            (instance $operator (export "close" (func $close)))
            (export "howdah:operator/operator@0.1.0" (instance $operator)))"#,
    );
    let said = [
        "imports wasi:cli/environment@0.2.0",
        "lacks function `process`",
        "process: func(input: input) -> result<list<output>, error>",
        "has function `close`",
        "close: func()",
        "close: func() -> result<list<output>, error>",
        "build it with the SDK",
    ];
    check(&component, &[]).failed(1, &said);
    let json = check(&component, &["--output", "json"]).failed(1, &[]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["runs"], false);
    assert_eq!(json["component"]["differences"].as_array().unwrap().len(), 6);
}

#[test]
fn what_check_says_of_another_shape_run_says_too() {
    let directory = tempfile::tempdir().unwrap();
    let component = component(
        directory.path(),
        r#"(component
            (import "acme:queue/push@1.0.0" (instance))
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $close (canon lift (core func $i "f")))
            (instance $operator (export "close" (func $close)))
            (export "howdah:operator/operator@0.1.0" (instance $operator)))"#,
    );
    let differences = |finished: Finished| -> String {
        let (_, listed) = finished.stderr.split_once("howdah:operator@").unwrap();
        listed.lines().skip(1).map(|line| format!("{line}\n")).collect()
    };
    let checked = differences(check(&component, &[]).failed(1, &["lacks function `process`"]));
    assert!(checked.lines().count() > 6, "{checked}");
    let job = Job::last_bid(&input::events(20_000)).set(
        "operator",
        "component",
        job::quoted(&component.display().to_string()),
    );
    let said = differences(job.run(&[]).failed(1, &["pipeline.toml:"]));
    assert!(said.starts_with(&checked), "{said} is not {checked}");
}

#[test]
fn a_component_that_is_cut_off_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.wasm");
    let whole = std::fs::read(howdah_operator_artifacts::LAST_BID).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    check(&path, &[]).failed(1, &["cut.wasm is cut off", "build or copy it again"]);
}

#[test]
fn a_configuration_that_the_operator_refuses_is_refused() {
    let hostile = Path::new(howdah_operator_artifacts::HOSTILE);
    check(hostile, &["--config", r#"{"mode": "none"}"#]).success();
    check(hostile, &["--config", r#"{"mode": "no such mode"}"#]).failed(1, &["no such mode"]);
    check(hostile, &["--config", "[1]"]).failed(2, &["--config", "JSON object"]);
}

#[test]
fn a_component_that_is_not_there_is_to_be_built() {
    let directory = tempfile::tempdir().unwrap();
    let said = ["nowhere.wasm is not there", "`howdah build`"];
    check(&directory.path().join("nowhere.wasm"), &[]).failed(2, &said);
}

#[test]
fn a_project_is_to_be_built_first() {
    let directory = tempfile::tempdir().unwrap();
    check(directory.path(), &[]).failed(2, &["is a directory", "howdah build"]);
}

/// A job over a few events that has run to its end.
fn finished_job() -> Job {
    let job = Job::last_bid(&input::events(20_000));
    job.run_to_end();
    job
}

/// What is in a directory, with the time of its last change.
fn snapshot(directory: &Path) -> Vec<(std::path::PathBuf, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        found.push((entry.path(), entry.metadata().unwrap().modified().unwrap()));
        if entry.path().is_dir() {
            found.extend(snapshot(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_operator_of_a_pipeline_fits_it_and_its_state_and_nothing_is_changed() {
    let job = finished_job();
    let (pipeline, state) = (job.file(), job.state_directory());
    let before = snapshot(&state);
    let component = Path::new(howdah_operator_artifacts::LAST_BID);
    for against in [&pipeline, &state] {
        let against = against.to_str().unwrap();
        let text = check(component, &["--against", against]).success().stdout;
        assert!(text.contains("last: as stored"), "{text}");
        let json = check(component, &["--against", against, "--output", "json"]).success().stdout;
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["fits"], true);
    }
    assert_eq!(snapshot(&state), before, "something was changed");
}

#[test]
fn a_running_pipeline_goes_on_while_its_operator_is_checked() {
    let job =
        Job::last_bid(&input::events(20_000)).set("source", "rate-limit-rows-per-second", 4_000);
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 1);
    let component = Path::new(howdah_operator_artifacts::LAST_BID);
    check(component, &["--against", job.file().to_str().unwrap()]).success();
    assert_eq!(running.terminate().code, Some(0));
}

#[test]
fn another_operator_is_refused_with_the_states_that_do_not_go_on() {
    let job = finished_job();
    let other = Path::new(howdah_operator_artifacts::AUCTION_STATS);
    let said = ["`last`", "not declared", "price int64"];
    let state = job.state_directory();
    let checked = check(other, &["--against", state.to_str().unwrap()]).failed(1, &said);
    assert!(checked.stdout.contains("stats: new, begins empty"), "{}", checked.stdout);
    let said = ["does not fit", "state `last` was", "gone"];
    check(other, &["--against", job.file().to_str().unwrap()]).failed(1, &said);
}

#[test]
fn a_pipeline_whose_component_is_gone_can_be_checked_with_another() {
    let job = finished_job().set("operator", "component", job::quoted("no-such.wasm"));
    let component = Path::new(howdah_operator_artifacts::LAST_BID);
    check(component, &["--against", job.file().to_str().unwrap()]).success();
    // Its state can be looked at, too.
    assert!(!job.state("scan", &["last", "--limit", "1"]).is_empty());
}

#[test]
fn a_source_without_the_columns_of_the_operator_is_named() {
    let job = Job::last_bid(&input::events(20_000)).set("operator", "key", "['biddr', 'auction']");
    let component = Path::new(howdah_operator_artifacts::LAST_BID);
    let said = ["pipeline.toml:", "`biddr`", "`bidder`"];
    check(component, &["--against", job.file().to_str().unwrap()]).failed(1, &said);
    assert!(!job.state_directory().exists(), "something was made");
}

#[test]
fn a_directory_that_holds_no_state_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let component = Path::new(howdah_operator_artifacts::LAST_BID);
    let against = directory.path().to_str().unwrap();
    check(component, &["--against", against]).failed(2, &["is no state directory"]);
}

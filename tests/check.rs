//! `howdah check` says what an operator is, and refuses one that would not run.

use crate::support::{Finished, job};
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
fn a_project_is_to_be_built_first() {
    let directory = tempfile::tempdir().unwrap();
    check(directory.path(), &[]).failed(2, &["is a directory", "howdah build"]);
}

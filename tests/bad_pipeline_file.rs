//! A pipeline file that cannot work is refused before anything starts, with the line and a
//! suggestion.

use crate::support::{Job, input, job};

fn good() -> Job {
    Job::last_bid(&input::events(20_000))
}

/// The 1-based line of the pipeline file that starts with this.
fn line_of(job: &Job, start: &str) -> usize {
    let text = std::fs::read_to_string(job.file()).unwrap();
    text.lines().position(|line| line.starts_with(start)).unwrap() + 1
}

/// The run is refused with the line that starts like this, and nothing was started.
fn refused(job: &Job, line_start: &str, said: &[&str]) {
    let place = format!("pipeline.toml:{}: ", line_of(job, line_start));
    job.run(&[]).failed(2, &[&place]).failed(2, said);
    assert!(!job.output_directory().exists(), "something was started");
    assert!(!job.state_directory().join("warehouse").exists(), "something was started");
}

#[test]
fn an_unknown_key() {
    refused(
        &good().set("checkpoint", "intervall-ms", 100),
        "intervall-ms",
        &["`intervall-ms`", "did you mean `interval-ms`?"],
    );
}

#[test]
fn a_component_that_is_not_there() {
    refused(
        &good().set("operator", "component", job::quoted("no-such.wasm")),
        "component",
        &["no-such.wasm", "does not exist"],
    );
}

#[test]
fn a_component_that_is_none() {
    let job = good().set("operator", "component", job::quoted("text.wasm"));
    std::fs::write(job.directory().join("text.wasm"), "not a component").unwrap();
    let finished = job.run(&[]);
    assert!(matches!(finished.code, Some(1 | 2)), "{finished:?}");
    assert!(finished.stderr.contains("text.wasm"), "{}", finished.stderr);
}

#[test]
fn a_key_column_that_does_not_exist() {
    refused(
        &good().set("operator", "key", "['biddr', 'auction']"),
        "key",
        &["`biddr`", "`bidder`"],
    );
}

#[test]
fn a_value_of_the_wrong_type() {
    refused(&good().set("", "parallelism", "'two'"), "parallelism", &["`parallelism`", "whole"]);
}

#[test]
fn a_path_with_a_nul() {
    refused(
        &good().set("", "state-directory", r#""sta\u0000te""#),
        "state-directory",
        &["`state-directory` has a NUL"],
    );
}

#[test]
fn what_would_speak_to_a_terminal_is_written_out() {
    let job = good().set("", r#""\u001b[2J\u202e""#, 1);
    let finished = job.run(&[]).failed(2, &[r"unknown key `\u{1b}[2J\u{202e}`"]);
    assert!(!finished.stderr.contains('\u{1b}'), "{}", finished.stderr);
}

#[test]
fn text_that_is_no_toml() {
    let job = good().set("", "parallelism", "2 2");
    refused(&job, "parallelism", &[]);
}

#[test]
fn standard_output_takes_rows_or_json_but_not_both() {
    let mut job = good().set("sink", "type", job::quoted("stdout"));
    job = job.without("sink", "path");
    job.run(&[]).failed(2, &["--output json"]);
}

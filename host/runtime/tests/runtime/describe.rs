//! `describe`: what an operator says it is, before anything runs.

use crate::support::{ENGINE, hostile, mode};
use howdah_operator_artifacts::LAST_BID;
use howdah_runtime::{ErrorKind, Limits};
use howdah_state::{Column, ColumnType};
use std::path::Path;

fn refused(name: &str, limits: &Limits) -> (ErrorKind, String) {
    let error = hostile().describe(&mode(name), limits).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn inputs_outputs_and_states_are_told() {
    let spec = hostile().describe("{}", &Limits::default()).unwrap();
    assert_eq!(spec.inputs[0].key, ["auction"]);
    assert_eq!(spec.key_columns(), [Column::required("auction", ColumnType::Int64)]);
    assert_eq!(spec.outputs[0].fields[2], Column::nullable("note", ColumnType::Utf8));
    assert_eq!(spec.states[0].name, "counts");
}

#[test]
fn an_operator_written_with_the_sdk_is_told_by_its_types() {
    let component = ENGINE.load(Path::new(LAST_BID)).unwrap();
    let spec = component.describe("{}", &Limits::default()).unwrap();
    assert_eq!(spec.inputs[0].key, ["bidder", "auction"]);
    let int64 = |name| Column::required(name, ColumnType::Int64);
    assert_eq!(spec.key_columns(), [int64("bidder"), int64("auction")]);
    assert_eq!(spec.states.len(), 1);
}

#[test]
fn the_same_configuration_gives_the_same_answer() {
    let describe = || hostile().describe("{}", &Limits::default()).unwrap();
    assert_eq!(describe(), describe());
}

#[test]
fn a_loop_is_stopped() {
    let limits = Limits { call_timeout_ms: 30, ..Limits::default() };
    let (kind, message) = refused("describe-loop", &limits);
    assert_eq!(kind, ErrorKind::Limit);
    assert!(message.starts_with("component "), "{message}");
    assert!(
        message.ends_with("did not return from describe within 30 ms (limits.call-timeout-ms)"),
        "{message}"
    );
}

#[test]
fn a_refused_configuration_says_why() {
    let (kind, message) = refused("describe-error", &Limits::default());
    assert_eq!(kind, ErrorKind::Operator);
    assert!(message.ends_with("failed in describe: this operator describes nothing"), "{message}");
}

#[test]
fn a_configuration_that_is_no_json_is_refused_by_the_operator() {
    let error = hostile().describe("nonsense", &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Operator);
}

#[test]
fn a_log_message_goes_nowhere_and_does_no_harm() {
    hostile().describe(&mode("describe-calls-import"), &Limits::default()).unwrap();
}

#[test]
fn a_spec_that_cannot_run_is_refused() {
    let (kind, message) = refused("describe-float-key", &Limits::default());
    assert_eq!(kind, ErrorKind::Component);
    assert!(
        message.ends_with(
            "describes an operator that cannot run: input `input`: the key field `auction` is \
             float64, which no key may be"
        ),
        "{message}"
    );
}

#[test]
fn an_operator_that_does_not_fit_its_memory_limit_is_refused() {
    let limits = Limits { memory_bytes: 64 << 10, ..Limits::default() };
    let (kind, message) = refused("none", &limits);
    assert_eq!(kind, ErrorKind::Limit);
    assert!(
        message.ends_with(
            "went past its memory limit of 64 KiB in instantiation (limits.memory-bytes)"
        ),
        "{message}"
    );
}

#[test]
fn more_memory_than_the_process_gives_is_refused() {
    let limits = Limits { memory_bytes: 512 << 20, ..Limits::default() };
    let (kind, message) = refused("none", &limits);
    assert_eq!(kind, ErrorKind::Limit);
    assert!(
        message.ends_with(
            "asks for 512 MiB of memory (limits.memory-bytes), but this process gives an \
             operator at most 256 MiB"
        ),
        "{message}"
    );
}

#[test]
fn memory_is_limited() {
    let limits = Limits { memory_bytes: 8 << 20, ..Limits::default() };
    let (kind, message) = refused("describe-allocate", &limits);
    assert_eq!(kind, ErrorKind::Limit);
    let expected = "went past its memory limit of 8 MiB in describe (limits.memory-bytes)";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn an_answer_that_is_too_large_is_refused() {
    for mode in ["describe-long-name", "describe-many-fields"] {
        let (kind, message) = refused(mode, &Limits::default());
        assert_eq!(kind, ErrorKind::Limit);
        let expected = "returned more than 8 MiB from describe: describe fewer and shorter names";
        assert!(message.ends_with(expected), "{message}");
    }
}

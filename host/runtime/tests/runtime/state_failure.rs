//! A state store that fails is not the operator's fault, and the caller learns of it.

use crate::support::{Start, hostile};
use howdah_runtime::{Error, ErrorKind};
use std::error::Error as _;

#[track_caller]
fn assert_state_failed(error: &Error, message: &str) {
    assert_eq!(error.kind(), ErrorKind::State, "{error}");
    assert!(error.to_string().starts_with(message), "{error}");
    let source = error.source().unwrap().downcast_ref::<howdah_state::Error>().unwrap();
    assert_eq!(source.kind(), howdah_state::ErrorKind::Closed);
}

#[test]
fn in_a_state_call() {
    let start = Start { write_buffer_limit_bytes: 1, ..Start::mode("none") };
    let mut running = start.open(&hostile()).unwrap();
    running.close_store();
    let error = running.process(&[1]).unwrap_err();
    assert_state_failed(&error, "the state of operator counter (subtask 0) failed in process: ");
}

#[test]
fn at_the_barrier() {
    let mut running = Start::mode("none").open(&hostile()).unwrap();
    running.close_store();
    let error = running.instance.freeze(1).unwrap_err();
    let message = "the state of operator counter (subtask 0) failed in the barrier: ";
    assert_state_failed(&error, message);
    assert_eq!(running.process(&[1]).unwrap_err().kind(), ErrorKind::State);
}

//! After a call that failed, another instance goes on with the state from before that call.

use crate::support::{Running, Start, hostile, numbers};
use howdah_runtime::{ErrorKind, Limits};

/// An operator that behaves for one batch, and then does not.
fn open(mode: &str) -> Running {
    let config = serde_json::json!({ "mode": mode, "after_batches": 1 }).to_string();
    let mut running = Start { config, ..Start::mode(mode) }.open(&hostile()).unwrap();
    running.instance.keep_state_on_failure();
    running
}

/// The counts that a batch of these auctions comes to.
fn counts(running: &mut Running, auctions: &[i64]) -> Vec<i64> {
    numbers(&running.process(auctions).unwrap()[0], 1)
}

#[test]
fn what_a_failed_call_wrote_is_undone() {
    for mode in ["panic-after-put", "panic", "error", "short-data", "recurse"] {
        let mut running = open(mode);
        assert_eq!(counts(&mut running, &[1, 2, 1]), [1, 1, 2]);
        running.process(&[1, 3]).unwrap_err();
        running.instance.restart().unwrap();
        assert_eq!(counts(&mut running, &[1, 3]), [3, 1], "{mode}");
    }
}

#[test]
fn an_instance_may_fail_again_and_again() {
    let mut running = open("panic-after-put");
    for round in 1..5 {
        assert_eq!(counts(&mut running, &[7]), [round]);
        running.process(&[7, 8]).unwrap_err();
        running.instance.restart().unwrap();
    }
    let metrics = running.instance.metrics();
    assert_eq!((metrics.rows_in_total, metrics.rows_out_total), (4, 4));
}

#[test]
fn a_barrier_after_a_failure_has_the_state_from_before() {
    let mut running = open("panic-after-put");
    counts(&mut running, &[1]);
    running.process(&[1]).unwrap_err();
    running.instance.restart().unwrap();
    running.instance.on_barrier(1).unwrap();
    running.instance.freeze(1).unwrap();
    assert_eq!(counts(&mut running, &[1]), [2]);
}

#[test]
fn a_small_write_buffer_is_no_obstacle() {
    let config = r#"{"mode": "panic-after-put", "after_batches": 1}"#.to_owned();
    let start = Start { config, write_buffer_limit_bytes: 1, ..Start::mode("none") };
    let mut running = start.open(&hostile()).unwrap();
    running.instance.keep_state_on_failure();
    let auctions: Vec<i64> = (0..1000).collect();
    assert!(counts(&mut running, &auctions).iter().all(|count| *count == 1));
    running.process(&auctions).unwrap_err();
    running.instance.restart().unwrap();
    assert!(counts(&mut running, &auctions).iter().all(|count| *count == 2));
}

#[test]
fn timers_that_failed_are_due_again_until_they_are_discarded() {
    let mut running = Start::mode("timers-panic").open(&hostile()).unwrap();
    running.instance.keep_state_on_failure();
    running.process(&[3, 4]).unwrap();
    running.instance.raise_watermark(5);
    for _ in 0..2 {
        assert_eq!(running.instance.run_due().unwrap_err().kind(), ErrorKind::Trap);
        running.instance.restart().unwrap();
    }
    running.instance.limit_timers(Some(1)).unwrap();
    let discarded = running.instance.discard_due().unwrap().unwrap();
    assert_eq!((discarded.family.as_str(), discarded.times), ("alarms", vec![5]));
    assert_eq!(discarded.keys.len(), 1);
    assert!(running.instance.discard_due().unwrap().is_none());
    assert!(running.instance.run_due().unwrap().is_some(), "the watermark");
    assert!(running.instance.run_due().unwrap().is_none());
}

#[test]
fn without_being_asked_nothing_is_kept() {
    let mut running = Start::mode("panic").open(&hostile()).unwrap();
    running.process(&[1]).unwrap_err();
    let error = running.instance.restart().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Host);
    assert_eq!(error.to_string(), "operator counter (subtask 0) has nothing to go on with");
}

#[test]
fn an_instance_that_has_not_failed_goes_on_as_it_is() {
    let mut running = open("panic");
    assert_eq!(running.instance.restart().unwrap_err().kind(), ErrorKind::Host);
    assert_eq!(counts(&mut running, &[1]), [1]);
}

#[test]
fn a_limit_of_a_call_is_a_failure_like_others() {
    let config = r#"{"mode": "loop", "after_batches": 1}"#.to_owned();
    let limits = Limits { call_timeout_ms: 30, ..Limits::default() };
    let mut running = Start { config, limits, ..Start::mode("none") }.open(&hostile()).unwrap();
    running.instance.keep_state_on_failure();
    counts(&mut running, &[1]);
    assert_eq!(running.process(&[1]).unwrap_err().kind(), ErrorKind::Limit);
    running.instance.restart().unwrap();
    assert_eq!(counts(&mut running, &[1]), [2]);
}

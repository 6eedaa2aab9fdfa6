//! Calls of list, map and reducing state and of timers that are not what they should be.

use crate::support::{Running, Start, hostile};
use howdah_runtime::{Error, ErrorKind, Limits};

const WHO: &str = "operator counter (subtask 0) ";

fn open(mode: &str) -> Running {
    Start::mode(mode).open(&hostile()).unwrap()
}

#[track_caller]
fn assert_fails(error: &Error, kind: ErrorKind, message: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.starts_with(&format!("{WHO}{message}")), "{text}");
}

/// `process` of three auctions fails with this message.
#[track_caller]
fn fails(mode: &str, message: &str) {
    let error = open(mode).process(&[1, 2, 3]).unwrap_err();
    assert_fails(&error, ErrorKind::Operator, &format!("failed in process: {message}"));
}

#[test]
fn a_state_of_another_kind() {
    fails("list-as-map", "describe declared `notes` as list state, not as map state");
}

#[test]
fn a_list_of_a_key_past_the_last() {
    fails("list-append-key-past-last", "key-of: row 1 names key 3 of 3 keys");
}

#[test]
fn key_indices_that_lack_a_byte() {
    fails("list-append-short-key-of", "key-of: 7 bytes are no whole number of 4-byte values");
}

#[test]
fn a_list_row_that_is_no_text() {
    fails(
        "list-append-invalid-utf8",
        "state `notes`: column `note` (utf8): row 1 is not valid UTF-8",
    );
}

#[test]
fn a_list_row_without_its_column() {
    fails("list-append-no-column", "state `notes`: there are 0 columns where the schema has 1");
}

#[test]
fn too_few_map_keys() {
    fails(
        "map-put-short-map-keys",
        "map keys of state `tags`: column `tag` (int64): its data has 8 bytes where 2 rows take 16",
    );
}

#[test]
fn a_map_key_that_is_null() {
    fails("map-put-null-map-key", "map keys of state `tags`: column `tag` (int64): row 1 is null");
}

#[test]
fn a_map_of_a_key_past_the_last() {
    fails("map-get-key-past-last", "key-of: row 0 names key 3 of 3 keys");
}

#[test]
fn a_range_of_two_beginnings() {
    fails(
        "map-range-two-rows",
        "range of map keys of state `tags`: column `tag` (int64): its data has 16 bytes where 1 \
         rows take 8",
    );
}

#[test]
fn a_range_of_another_type() {
    fails(
        "map-range-wrong-type",
        "range of map keys of state `tags`: column `tag` (int64): it has offsets",
    );
}

#[test]
fn a_sum_that_is_too_large() {
    fails(
        "reducing-overflow",
        "state pipeline__counter__totals, column `total`: the sum is too large",
    );
}

#[test]
fn a_null_where_a_number_is_added() {
    fails("reducing-null", "state `totals`: column `total` (int64): row 1 is null");
}

#[test]
fn timers_that_were_not_declared() {
    fails("timers-undeclared", "describe declared no timers `undeclared`, only: alarms");
}

#[test]
fn a_timer_without_a_time() {
    fails("timers-short-times", "timers `alarms`: the times have 8 bytes where 2 rows take 16");
}

#[test]
fn a_timer_of_another_subtasks_key() {
    let start = Start { parallelism: 4, ..Start::mode("timers-foreign-key") };
    let error = start.open(&hostile()).unwrap().process(&[1]).unwrap_err();
    assert_fails(&error, ErrorKind::Operator, "failed in process: explicit keys: the key of row ");
    open("timers-foreign-key").process(&[1]).unwrap();
}

/// 100 rows at most in one answer.
fn limited(mode: &str) -> Error {
    let limits = Limits { batch_rows: 100, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode(mode) }.open(&hostile()).unwrap();
    running.process(&[1, 2, 3]).unwrap_err()
}

#[test]
fn an_answer_past_the_limit_says_what_to_do() {
    let error = limited("list-get-too-much");
    assert_fails(
        &error,
        ErrorKind::Limit,
        "failed in process: the answer of state pipeline__counter__notes has more than 100 rows; \
         ask for fewer keys, or limit the rows or the range (limits.batch-rows, \
         limits.batch-bytes)",
    );
}

#[test]
fn keys_that_are_named_past_the_limit() {
    let error = limited("list-key-too-often");
    assert_fails(
        &error,
        ErrorKind::Limit,
        "failed in process: key-of: 1000 rows name keys of 8000 bytes, more than 100 \
         (limits.batch-rows) or 64 MiB (limits.batch-bytes)",
    );
}

#[test]
fn a_panic_in_on_timers() {
    let mut running = open("timers-panic");
    running.process(&[1]).unwrap();
    running.instance.raise_watermark(5);
    let error = running.instance.run_due().unwrap_err();
    assert_fails(&error, ErrorKind::Trap, "trapped in on-timers: ");
    assert!(running.instance.run_due().is_err(), "it is of no more use");
}

#[test]
fn rows_of_on_timers_that_are_malformed() {
    let mut running = open("timers-malformed");
    running.process(&[1]).unwrap();
    running.instance.raise_watermark(4);
    assert!(running.instance.run_due().unwrap().is_some(), "the watermark");
    assert!(running.instance.run_due().unwrap().is_none());
    running.instance.raise_watermark(5);
    let error = running.instance.run_due().unwrap_err();
    assert_fails(
        &error,
        ErrorKind::Buffer,
        "returned from on-timers: output `output`: column `auction` (int64): its data has 3 bytes",
    );
}

#[test]
fn there_are_no_current_keys_at_a_watermark() {
    let mut running = open("watermark-uses-current");
    running.instance.raise_watermark(5);
    let error = running.instance.run_due().unwrap_err();
    assert_fails(
        &error,
        ErrorKind::Operator,
        "failed in on-watermark: there are current keys in process and on-timers only",
    );
}

#[test]
fn nothing_is_changed_when_a_checkpoint_is_complete() {
    let mut running = open("checkpoint-sets-timers");
    let error = running.instance.on_checkpoint_complete(1).unwrap_err();
    assert_fails(
        &error,
        ErrorKind::Operator,
        "failed in on-checkpoint-complete: state and timers cannot be changed in \
         on-checkpoint-complete",
    );
}

#[test]
fn a_flood_of_metrics_is_dropped_and_counted() {
    let mut running = open("metric-flood");
    running.process(&[1]).unwrap();
    // 64 names are kept of 1000; four others are none or of another kind.
    assert_eq!(running.instance.metrics().figures_dropped_total, 1000 - 64 + 4);
}

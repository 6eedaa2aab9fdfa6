//! An operator that misbehaves harms itself only, and is told what it did.

use crate::support::{ENGINE, Running, Start, hostile};
use howdah_operator_artifacts::{HOSTILE, LAST_BID};
use howdah_runtime::{Engine, EngineOptions, Error, ErrorKind, Inspection, Limits};
use std::path::Path;

const WHO: &str = "operator counter (subtask 0) ";

fn open(mode: &str) -> Running {
    Start::mode(mode).open(&hostile()).unwrap()
}

#[track_caller]
fn fails(mode: &str, kind: ErrorKind, message: &str) {
    assert_fails(&mut open(mode), kind, message);
}

/// The message begins with the operator, subtask and `message`.
#[track_caller]
fn assert_fails(running: &mut Running, kind: ErrorKind, message: &str) -> Error {
    let error = running.process(&[1, 2, 3]).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.starts_with(&format!("{WHO}{message}")), "{text}");
    error
}

#[test]
fn a_loop_is_stopped() {
    let limits = Limits { call_timeout_ms: 30, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode("loop") }.open(&hostile()).unwrap();
    let message = "did not return from process within 30 ms (limits.call-timeout-ms)";
    assert_fails(&mut running, ErrorKind::Limit, message);
}

#[test]
fn memory_is_limited() {
    let limits = Limits { memory_bytes: 8 << 20, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode("allocate") }.open(&hostile()).unwrap();
    let message = "went past its memory limit of 8 MiB in process (limits.memory-bytes)";
    assert_fails(&mut running, ErrorKind::Limit, message);
}

#[test]
fn a_panic_is_told_with_its_message_and_place() {
    let mut running = open("panic");
    let error = assert_fails(&mut running, ErrorKind::Trap, "trapped in process: ").to_string();
    assert!(error.contains("this operator was told to panic"), "{error}");
    assert!(error.contains("unreachable"), "{error}");
    assert!(error.contains("hostile::"), "a backtrace with demangled names: {error}");
}

#[test]
fn a_stack_overflow_is_a_trap() {
    let mut running = open("recurse");
    let error = assert_fails(&mut running, ErrorKind::Trap, "trapped in process: ").to_string();
    assert!(error.contains("stack"), "{error}");
    assert!(error.ends_with("in hostile::process::recurse"), "{error}");
}

#[test]
fn an_error_is_passed_on() {
    fails("error", ErrorKind::Operator, "failed in process: this operator was told to fail");
}

#[test]
fn what_an_error_says_cannot_speak_to_a_terminal_or_for_the_host() {
    let mut running = open("error-unprintable");
    let error = assert_fails(&mut running, ErrorKind::Operator, "failed in process: ");
    let text = error.to_string();
    assert!(text.ends_with("\\u{1b}[2J\\u{0}\\u{202e}all\\r\nis well\n\\u{2028}"), "{text:?}");
}

#[test]
fn batches_without_rows_are_fine() {
    let outputs = open("empty-outputs").process(&[1, 2, 3]).unwrap();
    assert_eq!(outputs.iter().map(|it| it.batch.num_rows()).collect::<Vec<_>>(), [0, 0, 0]);
}

#[test]
fn ten_million_rows_of_one_call_meet_each_limit_in_turn() {
    let options = EngineOptions {
        memory_limit_bytes: 512 << 20,
        instances_limit: 4,
        ..EngineOptions::default()
    };
    let component = Engine::new(options).unwrap().load(Path::new(HOSTILE)).unwrap();
    let mut limits = Limits::default();
    let start = |limits: &Limits| {
        let start = Start { limits: limits.clone(), ..Start::mode("ten-million-rows") };
        start.open(&component).unwrap()
    };
    let refused = |limits: &Limits, what: &str| {
        assert_fails(&mut start(limits), ErrorKind::Limit, what);
    };
    refused(&limits, "went past its memory limit of 64 MiB in process (limits.memory-bytes)");
    limits.memory_bytes = 512 << 20;
    refused(&limits, "handed over more than 64 MiB in one call, in process (limits.batch-bytes)");
    limits.batch_bytes = 1 << 30;
    refused(
        &limits,
        "returned from process: 10000000 rows in one call, more than 1048576 (limits.batch-rows)",
    );
    limits.batch_rows = 10_000_000;
    let outputs = start(&limits).process(&[1, 2, 3]).unwrap();
    assert_eq!(outputs[0].batch.num_rows(), 10_000_000);
}

#[test]
fn short_data() {
    fails(
        "short-data",
        ErrorKind::Buffer,
        "returned from process: output `output`: column `auction` (int64): its data has 23 bytes \
         where 3 rows take 24",
    );
}

#[test]
fn descending_offsets() {
    fails(
        "offsets-descending",
        ErrorKind::Buffer,
        "returned from process: output `output`: column `note` (utf8): row 1 has an end offset \
         before its start",
    );
}

#[test]
fn offsets_past_the_end() {
    fails(
        "offsets-past-end",
        ErrorKind::Buffer,
        "returned from process: output `output`: column `note` (utf8): its last offset is 9",
    );
}

#[test]
fn invalid_utf8() {
    fails(
        "invalid-utf8",
        ErrorKind::Buffer,
        "returned from process: output `output`: column `note` (utf8): row 0 is not valid UTF-8",
    );
}

#[test]
fn a_short_validity() {
    fails(
        "validity-too-short",
        ErrorKind::Buffer,
        "returned from process: output `output`: column `note` (utf8): its validity has 0 bytes",
    );
}

#[test]
fn a_null_where_none_may_be() {
    fails(
        "null-not-nullable",
        ErrorKind::Buffer,
        "returned from process: output `output`: column `auction` (int64): row 1 is null",
    );
}

#[test]
fn bits_past_the_end() {
    fails(
        "bits-past-end",
        ErrorKind::Buffer,
        "returned from process: output `output`: column `even` (boolean): its data has a 1 bit \
         past the last of 3 rows",
    );
}

#[test]
fn a_missing_column() {
    fails(
        "wrong-column-count",
        ErrorKind::Buffer,
        "returned from process: output `output`: there are 3 columns where the schema has 4",
    );
}

#[test]
fn more_rows_than_the_limit() {
    fails(
        "huge-rows",
        ErrorKind::Limit,
        "returned from process: 4294967295 rows in one call, more than 1048576 (limits.batch-rows)",
    );
}

#[test]
fn more_rows_than_there_are_even_without_a_limit() {
    let limits = Limits { batch_rows: usize::MAX, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode("huge-rows") }.open(&hostile()).unwrap();
    let message = "returned from process: output `output`: column `auction` (int64): its data";
    assert_fails(&mut running, ErrorKind::Buffer, message);
}

#[test]
fn more_bytes_than_the_limit() {
    let limits = Limits { batch_bytes: 100, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode("none") }.open(&hostile()).unwrap();
    let message = "returned from process: it handed over more than 100 bytes in one call \
                   (limits.batch-bytes)";
    assert_fails(&mut running, ErrorKind::Limit, message);
}

#[test]
fn far_more_bytes_than_the_limit_are_not_even_copied() {
    let limits = Limits { batch_bytes: 100, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode("none") }.open(&hostile()).unwrap();
    let error = running.process(&[7; 100_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(
        error.to_string(),
        format!(
            "{WHO}handed over more than 100 bytes in one call, in process (limits.batch-bytes)"
        )
    );
}

#[test]
fn more_bytes_than_the_limit_in_a_state_call() {
    let limits = Limits { batch_bytes: 23, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode("none") }.open(&hostile()).unwrap();
    let message = "failed in process: the operator handed over more than 23 bytes in one call \
                   (limits.batch-bytes)";
    assert_fails(&mut running, ErrorKind::Limit, message);
}

#[test]
fn an_output_that_was_not_declared() {
    fails(
        "undeclared-port",
        ErrorKind::Buffer,
        "returned from process: rows for output 7, but describe declared 1",
    );
}

#[test]
fn too_few_timestamps() {
    fails(
        "timestamps-too-short",
        ErrorKind::Buffer,
        "returned from process: output `output`: the timestamps have 16 bytes where 3 rows take 24",
    );
}

#[test]
fn an_invalid_row_kind() {
    fails(
        "row-kinds-invalid",
        ErrorKind::Buffer,
        "returned from process: output `output`: row 1 has row kind 9",
    );
}

#[test]
fn row_kinds_without_a_changelog() {
    fails(
        "row-kinds-undeclared",
        ErrorKind::Buffer,
        "returned from process: output `output`: row 1 is no insert, but describe declares no \
         changelog",
    );
}

#[test]
fn a_state_that_was_not_declared() {
    fails(
        "state-undeclared",
        ErrorKind::Operator,
        "failed in process: describe declared no state `undeclared`, only: counts",
    );
}

#[test]
fn a_put_with_a_column_too_many() {
    fails(
        "state-put-wrong-columns",
        ErrorKind::Operator,
        "failed in process: state `counts`: there are 2 columns where the schema has 1",
    );
}

#[test]
fn a_put_with_short_data() {
    fails(
        "state-put-short-data",
        ErrorKind::Operator,
        "failed in process: state `counts`: column `bids` (int64): its data has 3 bytes where 3 \
         rows take 24",
    );
}

#[test]
fn an_argument_error_that_the_operator_ignores_does_no_harm() {
    let mut running = open("state-drop-error");
    assert!(running.process(&[1]).unwrap().is_empty());
    assert!(running.process(&[1]).unwrap().is_empty());
}

#[test]
fn a_selected_key_out_of_range() {
    fails("state-selected-out-of-range", ErrorKind::Operator, "failed in process: selected keys: ");
}

#[test]
fn an_explicit_key_of_another_subtask() {
    let start = Start { parallelism: 4, subtask: 0, ..Start::mode("state-explicit-foreign-key") };
    let mut running = start.open(&hostile()).unwrap();
    let error = assert_fails(
        &mut running,
        ErrorKind::Operator,
        "failed in process: explicit keys: the key of row ",
    );
    assert!(error.to_string().ends_with(" belongs to another subtask"), "{error}");
}

#[test]
fn explicit_keys_of_its_own_are_fine() {
    open("state-explicit-foreign-key").process(&[1]).unwrap();
}

#[test]
fn malformed_explicit_keys() {
    fails(
        "state-explicit-malformed",
        ErrorKind::Operator,
        "failed in process: explicit keys: column `auction` (int64): its data has 3 bytes where 2 \
         rows take 16",
    );
}

#[test]
fn after_an_error_every_call_says_so() {
    let mut running = open("error");
    running.process(&[1]).unwrap_err();
    let stopped = format!("{WHO}has stopped after an earlier error: {WHO}failed in process: ");
    let mut errors = vec![
        running.process(&[1]).unwrap_err(),
        running.instance.on_barrier(1).unwrap_err(),
        running.instance.freeze(1).unwrap_err(),
    ];
    errors.push(running.instance.close().unwrap_err());
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Operator);
        assert!(error.to_string().starts_with(&stopped), "{error}");
    }
}

#[test]
fn a_malformed_batch_stops_the_instance_too() {
    let mut running = open("short-data");
    running.process(&[1]).unwrap_err();
    assert_eq!(running.instance.on_barrier(1).unwrap_err().kind(), ErrorKind::Buffer);
    assert_eq!(running.instance.metrics().memory_bytes, 0);
}

#[test]
fn another_instance_of_the_same_component_goes_on() {
    let mut bad = open("panic");
    let mut good = open("none");
    good.process(&[1]).unwrap();
    bad.process(&[1]).unwrap_err();
    drop(bad);
    assert_eq!(crate::support::numbers(&good.process(&[1]).unwrap()[0], 1), [2]);
}

#[test]
fn fuel_is_limited_where_it_is_counted() {
    let limits = Limits { call_fuel: Some(50_000_000), ..Limits::default() };
    let component = ENGINE.load_with_limits(Path::new(HOSTILE), &limits).unwrap();
    let mut running = Start { limits, ..Start::mode("loop") }.open(&component).unwrap();
    let message = "used more than 50000000 units of fuel in process (limits.call-fuel)";
    assert_fails(&mut running, ErrorKind::Limit, message);
}

#[test]
fn fuel_is_for_one_call_and_is_counted() {
    let limits = Limits { call_fuel: Some(10_000_000), ..Limits::default() };
    let component = ENGINE.load_with_limits(Path::new(HOSTILE), &limits).unwrap();
    let mut running = Start { limits, ..Start::mode("none") }.open(&component).unwrap();
    let mut before = running.instance.metrics().fuel_total;
    assert!(before > 0, "instantiation and open use some");
    for _ in 0..3 {
        running.process(&[1; 100]).unwrap();
        let used = running.instance.metrics().fuel_total - before;
        assert!((1_000..10_000_000).contains(&used), "{used}");
        before += used;
    }
}

#[test]
fn fuel_cannot_be_limited_where_it_is_not_counted() {
    let limits = Limits { call_fuel: Some(1), ..Limits::default() };
    let error = hostile().describe("{}", &limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Host);
    assert!(error.to_string().contains("was loaded without counting fuel"), "{error}");
}

#[test]
fn tables_are_limited() {
    let limits = Limits { table_elements: 3, ..Limits::default() };
    let error = hostile().describe("{}", &limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let message = "went past its limit of 3 elements of a table in instantiation \
                   (limits.table-elements)";
    assert!(error.to_string().ends_with(message), "{error}");
}

/// A good operator with one module more, which runs this when it is instantiated.
fn with_start(module: &str) -> Vec<u8> {
    let mut component = std::fs::read(LAST_BID).unwrap();
    let modules = Inspection::of("last-bid", &component).unwrap().modules.len();
    // Sections of a component: a core module, and an instance of it that is given nothing.
    let module = wat::parse_str(module).unwrap();
    let instance = [1, 0, u8::try_from(modules).unwrap(), 0];
    for (section, content) in [(1, module.as_slice()), (2, instance.as_slice())] {
        let mut length = content.len();
        component.push(section);
        while length > 0x7f {
            component.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        component.push(u8::try_from(length).unwrap());
        component.extend_from_slice(content);
    }
    component
}

#[test]
fn growing_a_table_is_limited() {
    for (grows_by, table_elements) in [(1, 1_000), (1_000, Limits::default().table_elements)] {
        let module = format!(
            "(module (table 1 funcref) (func $start (loop $again
               (table.grow (ref.null func) (i32.const {grows_by}))
               (if (i32.eq (i32.const -1)) (then unreachable)) (br $again)))
             (start $start))"
        );
        let component = ENGINE.load_bytes("grows", &with_start(&module)).unwrap();
        let limits = Limits { table_elements, ..Limits::default() };
        let error = component.describe("{}", &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        let message = format!(
            "went past its limit of {table_elements} elements of a table in instantiation \
             (limits.table-elements)"
        );
        assert!(error.to_string().ends_with(&message), "{error}");
    }
}

#[test]
fn a_guest_that_goes_on_growing_a_table_is_stopped() {
    let module = "(module (table 1 funcref) (func $start (loop $again
        (drop (table.grow (ref.null func) (i32.const 1000))) (br $again)))
        (start $start))";
    let component = ENGINE.load_bytes("grows", &with_start(module)).unwrap();
    let limits = Limits { call_timeout_ms: 100, ..Limits::default() };
    let error = component.describe("{}", &limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("limits.call-timeout-ms"), "{error}");
}

#[test]
fn tables_of_references_to_the_host_are_not_there() {
    let module = "(module (table 1 externref) (func $start (loop $again
        (drop (table.grow (ref.null extern) (i32.const 1000))) (br $again)))
        (start $start))";
    let error = ENGINE.load_bytes("grows", &with_start(module)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Component);
    assert!(error.to_string().contains("is no component that this host can compile"), "{error}");
}

#[test]
fn handles_are_limited() {
    let limits = Limits { handles: 17, ..Limits::default() };
    let mut running = Start { limits, ..Start::mode("leak-handles") }.open(&hostile()).unwrap();
    let message = "failed in process: the operator holds 17 handles and may hold no more \
                   (limits.handles)";
    assert_fails(&mut running, ErrorKind::Limit, message);
}

#[test]
fn a_forged_handle_is_a_trap() {
    fails("forged-handle", ErrorKind::Trap, "trapped in process: unknown handle index 7777");
}

#[test]
fn messages_past_the_limit_of_a_call_are_dropped() {
    let mut running = open("log-flood");
    assert_eq!(running.process(&[1]).unwrap().len(), 1);
    assert_eq!(running.instance.metrics().log_messages_dropped_total, 99_000);
}

#[test]
fn a_huge_message_does_no_harm() {
    let mut running = open("log-large");
    assert_eq!(running.process(&[1]).unwrap().len(), 1);
}

#[test]
fn the_same_memory_handed_over_again_and_again_counts_each_time() {
    let message = "handed over more than 64 MiB in one call, in process (limits.batch-bytes)";
    fails("aliased-output", ErrorKind::Limit, message);
}

//! Timers and watermarks in a pipeline.

use crate::common::{Bench, wait_for_checkpoint};
use howdah_operator_artifacts::SCRIPTED;
use howdah_pipeline::{Event, Handle, StartFrom, StartOptions};
use howdah_state::Clock;
use std::fmt::Write as _;
use std::time::Duration;

/// Families of the operator's timers.
const BY_WATERMARK: i64 = 0;
const BY_CLOCK: i64 = 2;
/// Stands for the family in the row of a watermark.
const WATERMARK: i64 = -1;

/// Rows at `at`: each sets a timer of `key`.
fn commands(rows: &[(i64, i64, i64, i64)]) -> String {
    let mut text = "at,key,family,time,set\n".to_owned();
    for (at, key, family, time) in rows {
        writeln!(text, "{at},{key},{family},{time},1").expect("text");
    }
    text
}

/// A pipeline whose operator sets the timers that these rows say.
fn bench(rows: &[(i64, i64, i64, i64)]) -> Bench {
    let mut bench = Bench::new();
    bench.source = "path = \"commands.csv\"\nevent-time = \"at\"\nwatermark-delay-ms = 0\n".into();
    bench.operator = format!(
        "name = \"timers\"\ncomponent = \"{SCRIPTED}\"\n[operator.config]\ntimers = {{}}\n"
    );
    bench.write("commands.csv", commands(rows));
    bench
}

/// Key, family and time of what came out, sorted by time.
fn events(bench: &Bench) -> Vec<(i64, i64, i64)> {
    let mut events = Vec::new();
    for name in bench.parts() {
        let mut reader = csv::Reader::from_path(bench.path("out").join(name)).expect("a file");
        for record in reader.records() {
            let record = record.expect("a record");
            let number = |index: usize| record[index].parse().expect("a number");
            events.push((number(0), number(1), number(2)));
        }
    }
    events.sort_unstable_by_key(|(key, family, time)| (*time, *family, *key));
    events
}

fn timers(bench: &Bench) -> Vec<(i64, i64, i64)> {
    events(bench).into_iter().filter(|(_, family, _)| *family != WATERMARK).collect()
}

#[test]
fn every_timer_fires_once_up_to_the_end_of_the_input() {
    let rows: Vec<_> =
        (0..1_000).map(|row| (row, row % 37, BY_WATERMARK, row * 7 % 2_000)).collect();
    let bench = bench(&rows);
    bench.run().expect("a run");
    let mut expected: Vec<_> =
        rows.iter().map(|(_, key, family, time)| (*key, *family, *time)).collect();
    expected.sort_unstable_by_key(|(key, family, time)| (*time, *family, *key));
    expected.dedup();
    assert_eq!(timers(&bench), expected);
    // Each subtask hears of the end of time.
    let ends = events(&bench).into_iter().filter(|(_, _, time)| *time == i64::MAX).count();
    assert_eq!(ends, 2);
}

#[test]
fn what_timers_emit_came_of_no_batch_and_has_no_latency() {
    let rows: Vec<_> = (0..100).map(|row| (row, row, BY_WATERMARK, row + 50)).collect();
    let bench = bench(&rows);
    let summary = bench.run().expect("a run");
    assert!(summary.rows_out >= 100);
    assert_eq!(summary.latency.rows, 0);
}

#[test]
fn a_stop_is_no_end_and_timers_outlive_it() {
    let far = 1_000_000;
    let rows: Vec<_> = (0..2_000).map(|row| (row, row, BY_WATERMARK, far + row)).collect();
    let mut bench = bench(&rows);
    let fast = bench.source.clone();
    bench.source.push_str("rate-limit-rows-per-second = 1000\n");
    let handle = bench.start(StartFrom::Latest).expect("started");
    wait_for_checkpoint(&handle);
    handle.stop();
    let summary = handle.wait().expect("stopped");
    assert!(!summary.finished);
    assert_eq!(timers(&bench), []);
    bench.source = fast;
    let summary = bench.run().expect("a run");
    assert!(summary.restored_from.is_some());
    let expected: Vec<_> = (0..2_000).map(|row| (row, BY_WATERMARK, far + row)).collect();
    assert_eq!(timers(&bench), expected);
}

#[test]
fn a_timer_of_processing_time_fires_by_the_clock() {
    let mut bench = bench(&[(1, 7, BY_CLOCK, 5_000), (2, 7, BY_CLOCK, i64::MAX)]);
    bench.source.push_str("rate-limit-rows-per-second = 1\n");
    let (clock, manual) = Clock::manual(4_999);
    let options = StartOptions { clock, ..StartOptions::default() };
    let handle = bench.prepare().expect("prepared").start(options).expect("started");
    wait_for_checkpoint(&handle);
    let fired = rows_out(&handle);
    manual.set(5_000);
    while rows_out(&handle) == fired {
        wait_for_event(&handle);
    }
    handle.stop();
    handle.wait().expect("stopped");
    assert_eq!(timers(&bench), [(7, BY_CLOCK, 5_000)]);
}

fn rows_out(handle: &Handle) -> u64 {
    handle.progress().rows_out
}

fn wait_for_event(handle: &Handle) -> Event {
    handle.events().recv_timeout(Duration::from_secs(60)).expect("an event")
}

#[test]
fn new_timers_begin_empty_beside_those_that_are_stored() {
    let far = 1_000_000;
    let row = |row: i64, family| (row, row, family, far + row);
    let before: Vec<_> = (0..500).map(|at| row(at, BY_WATERMARK)).collect();
    let mut bench = bench(&before);
    let all = bench.operator.clone();
    bench.operator = all.replace("{}", "{ families = 1 }");
    // No end of time: nothing fires yet.
    bench.source.push_str("rate-limit-rows-per-second = 500\n");
    let handle = bench.start(StartFrom::Latest).expect("started");
    wait_for_checkpoint(&handle);
    drop(handle);
    bench.operator = all;
    bench.source = bench.source.replace("= 500", "= 0");
    let after = (500..1_000).map(|at| row(at, at % 2));
    let rows: Vec<_> = before.into_iter().chain(after).collect();
    bench.write("commands.csv", commands(&rows));
    bench.run().expect("a run");
    let fired = rows.iter().map(|(_, key, family, time)| (*key, *family, *time));
    assert_eq!(timers(&bench), fired.collect::<Vec<_>>());

    bench.operator = bench.operator.replace("{}", "{ families = 1 }");
    let error = bench.run().expect_err("timers are gone");
    let said = "state `second` was (timers; key: key int64) and is gone";
    assert!(error.to_string().contains(said), "{error}");
}

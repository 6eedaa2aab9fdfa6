//! Rows that make the operator fail are set aside; the others come out as if those had not been.

use crate::common::{Bench, Bid, bids, csv};
use howdah_operator_artifacts::HOSTILE;
use howdah_pipeline::{ErrorKind, StartFrom};

/// An operator that counts the bids on each auction, but panics on auctions divisible by seven
/// after it has written its state.
fn bench(mode: &str, failure: &str, bids: &[Bid]) -> Bench {
    let mut bench = Bench::new();
    bench.root = bench.root.replace("q18", "hostile");
    bench.operator = format!(
        "name = \"hostile\"\ncomponent = \"{HOSTILE}\"\nconfig = {{ mode = \"{mode}\" }}\n\
         failure = {{ {failure} }}\n"
    );
    bench.write("events.csv", csv(bids));
    bench
}

fn good(bids: &[Bid]) -> Vec<Bid> {
    bids.iter().copied().filter(|bid| bid.auction % 7 != 0).collect()
}

/// The lines of all visible output files, sorted, without headers.
fn lines(bench: &Bench) -> Vec<String> {
    let text = |part: String| std::fs::read_to_string(bench.path("out").join(part)).expect("text");
    let mut lines: Vec<String> = bench
        .parts()
        .into_iter()
        .flat_map(|part| text(part).lines().skip(1).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort_unstable();
    lines
}

/// The lines of all files of rows that were set aside.
fn failed_rows(bench: &Bench) -> Vec<serde_json::Value> {
    let Ok(files) = std::fs::read_dir(bench.path("state/failed-rows")) else { return Vec::new() };
    let text = |file: std::fs::DirEntry| std::fs::read_to_string(file.path()).expect("text");
    let texts: Vec<String> = files.map(|file| text(file.expect("an entry"))).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn rows_that_fail_are_set_aside_and_the_others_proceed() {
    let all = bids(1_000);
    let isolating = bench("panic-on-sevens", "policy = \"isolate\"", &all);
    let summary = isolating.run().expect("a summary");
    let bad = all.len() - good(&all).len();
    assert_eq!(summary.rows_isolated, bad as u64);

    let without_them = bench("none", "", &good(&all));
    without_them.run().expect("a summary");
    assert_eq!(lines(&isolating), lines(&without_them));

    let source = csv(&all);
    let failed = failed_rows(&isolating);
    assert_eq!(failed.len(), bad);
    for line in failed {
        assert_eq!(line["row"]["auction"].as_i64().expect("a number") % 7, 0, "{line}");
        let number = line["line"].as_u64().and_then(|line| usize::try_from(line).ok());
        let number = number.expect("a line");
        let auction = format!("2,{},", line["row"]["auction"]);
        let text = source.lines().nth(number - 1).expect("a line");
        assert!(text.starts_with(&auction), "line {number} is {text}, not that of {line}");
        assert!(line["error"].as_str().expect("text").contains("told to panic"), "{line}");
    }
}

#[test]
fn more_rows_than_the_limit_stop_the_pipeline_and_are_not_kept() {
    let isolating =
        bench("panic-on-sevens", "policy = \"isolate\", isolated-rows = 3", &bids(1_000));
    let error = isolating.run().expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::Operator);
    let message = error.to_string();
    assert!(message.contains("told to panic"), "{message}");
    assert!(message.contains("more than 3 rows make it fail (isolated-rows"), "{message}");
}

#[test]
fn rows_set_aside_after_the_last_checkpoint_are_set_aside_again_and_once() {
    let all = bids(3_000);
    let mut isolating = bench("panic-on-sevens", "policy = \"isolate\"", &all);
    isolating.source.push_str("rate-limit-rows-per-second = 4000\n");
    let handle = isolating.start(StartFrom::Latest).expect("started");
    crate::common::wait_for_checkpoint(&handle);
    // Broken off in the middle of whatever it does.
    drop(handle);
    isolating.source = isolating.source.replace("rate-limit-rows-per-second = 4000\n", "");
    isolating.run().expect("a summary");
    let without_them = bench("none", "", &good(&all));
    without_them.run().expect("a summary");
    assert_eq!(lines(&isolating), lines(&without_them));
    assert_eq!(failed_rows(&isolating).len(), all.len() - good(&all).len());
}

#[test]
fn a_limit_without_the_policy_is_refused() {
    let error = bench("none", "isolated-rows = 3", &bids(1)).run().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("needs policy = \"isolate\""), "{error}");
}

#[test]
fn timers_that_fail_are_set_aside_too() {
    let isolating = bench("timers-panic", "policy = \"isolate\"", &bids(1_000));
    let summary = isolating.run().expect("a summary");
    assert!(summary.finished);
    let failed = failed_rows(&isolating);
    assert!(!failed.is_empty());
    assert_eq!(failed.len() as u64, summary.rows_isolated);
    for line in failed {
        assert_eq!((&line["timer"], &line["time"]), (&"alarms".into(), &5.into()), "{line}");
        assert!(line["key"]["auction"].is_i64(), "{line}");
        assert!(line["error"].as_str().expect("text").contains("told to panic"), "{line}");
    }
}

#[test]
fn watermarks_that_fail_are_set_aside_and_rows_and_timers_proceed() {
    let all = bids(1_000);
    let mut isolating = bench("watermark-panic", "policy = \"isolate\"", &all);
    isolating.root = isolating.root.replace("parallelism = 2", "parallelism = 1");
    let summary = isolating.run().expect("a summary");
    assert!(summary.finished);
    let failed = failed_rows(&isolating);
    assert_eq!(failed.len() as u64, summary.rows_isolated);
    for line in &failed {
        assert_eq!(line["call"], "on-watermark", "{line}");
        assert!(line["error"].as_str().expect("text").contains("told to panic"), "{line}");
    }
    // Each once, up to the end of all times.
    let mut watermarks: Vec<i64> =
        failed.iter().map(|line| line["watermark"].as_i64().expect("a number")).collect();
    watermarks.sort_unstable();
    assert!(watermarks.is_sorted_by(|a, b| a < b), "{watermarks:?}");
    assert_eq!(watermarks.last(), Some(&i64::MAX));

    let without_failures = bench("none", "", &all);
    without_failures.run().expect("a summary");
    assert_eq!(lines(&isolating), lines(&without_failures));
}

#[test]
fn too_many_watermarks_that_fail_stop_the_pipeline() {
    let isolating = bench("watermark-panic", "policy = \"isolate\", isolated-rows = 0", &bids(10));
    let message = isolating.run().expect_err("too many").to_string();
    assert!(message.contains("in on-watermark"), "{message}");
    assert!(message.contains("isolated-rows"), "{message}");
}

#[test]
fn news_of_checkpoints_that_fail_are_set_aside_and_nothing_else() {
    let all = bids(3_000);
    let mut isolating = bench("checkpoint-panic", "policy = \"isolate\"", &all);
    isolating.source.push_str("rate-limit-rows-per-second = 4000\n");
    let summary = isolating.run().expect("a summary");
    let failed = failed_rows(&isolating);
    assert!(!failed.is_empty());
    assert_eq!(failed.len() as u64, summary.rows_isolated);
    for line in failed {
        assert_eq!(line["call"], "on-checkpoint-complete", "{line}");
        assert!(line["checkpoint"].as_u64().is_some_and(|checkpoint| checkpoint > 0), "{line}");
    }
    let without_failures = bench("none", "", &all);
    without_failures.run().expect("a summary");
    assert_eq!(lines(&isolating), lines(&without_failures));
}

#[test]
fn a_failure_of_on_barrier_or_close_is_that_of_the_pipeline() {
    for (mode, function) in [("barrier-panic", "on-barrier"), ("close-panic", "close")] {
        let isolating = bench(mode, "policy = \"isolate\"", &bids(100));
        let error = isolating.run().expect_err("not isolated");
        assert_eq!(error.kind(), ErrorKind::Operator);
        let message = error.to_string();
        assert!(message.contains(&format!("trapped in {function}")), "{message}");
        assert!(message.contains("policy = \"isolate\" does not hold here"), "{message}");
        assert_eq!(failed_rows(&isolating), Vec::<serde_json::Value>::new());
    }
}

#[test]
fn without_isolation_the_failure_says_which_rows_and_what_would_go_on() {
    let mut failing = bench("panic-on-sevens", "restarts = 0", &bids(100));
    failing.root = failing.root.replace("parallelism = 2", "parallelism = 1");
    let error = failing.run().expect_err("failed");
    let shown = failing.shown(&error);
    assert!(shown.contains("it was given 100 rows, from line 2 to 121 of events.csv"), "{shown}");
    assert!(shown.contains("policy = \"isolate\" in [operator.failure]"), "{shown}");

    let failing = bench("timers-panic", "restarts = 0", &bids(100));
    let message = failing.run().expect_err("failed").to_string();
    assert!(message.contains("in [operator.failure], timers that it fails on"), "{message}");
}

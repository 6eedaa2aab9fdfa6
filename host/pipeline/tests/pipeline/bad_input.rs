//! Malformed rows, and pipelines that do not fit.

use crate::common::{Bench, Bid, bids, csv, last_bids, wait_for_checkpoint};
use howdah_pipeline::{ErrorKind, StartFrom};

/// Events of which one, on line `line`, is malformed.
fn broken(bids: &[Bid], line: usize) -> String {
    let mut lines: Vec<String> = csv(bids).lines().map(str::to_owned).collect();
    lines[line - 1] = "2,x,1,1,1700000000000,1".into();
    lines.join("\n") + "\n"
}

#[test]
fn a_malformed_row_stops_the_run_and_mending_it_lets_it_go_on() {
    let (bench, bids) = (Bench::new(), bids(12_000));
    bench.write("events.csv", csv(&bids[..6_000]));
    bench.run().expect("a summary");
    bench.write("events.csv", broken(&bids, 13_000));
    let error = bench.run().expect_err("malformed");
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(
        bench.shown(&error),
        "events.csv:13000: column `auction`: `x` is no int64; mend the row, or set on-error = \
         \"skip\" or \"dead-letter\" in [source]"
    );
    bench.write("events.csv", csv(&bids));
    let summary = bench.run().expect("a summary");
    assert!(summary.restored_from.is_some());
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn skipped_rows_are_counted() {
    let (mut bench, bids) = (Bench::new(), bids(1_000));
    bench.source.push_str("on-error = \"skip\"\n");
    bench.write("events.csv", broken(&bids, 2));
    let summary = bench.run().expect("a summary");
    assert_eq!((summary.rows_in, summary.rows_skipped), (999, 1));
    assert_eq!(bench.output(), last_bids(&bids[1..]));
}

#[test]
fn dead_letters_are_not_repeated_by_a_restart() {
    let (mut bench, bids) = (Bench::new(), bids(12_000));
    bench.source.push_str("on-error = \"dead-letter\"\nrate-limit-rows-per-second = 1_000\n");
    let mut events = csv(&bids);
    for _ in 0..3 {
        events.push_str("2,y,1,1,1700000000000,1\n");
    }
    let events = events.replacen("2,0,0,0,", "2,x,0,0,", 1);
    bench.write("events.csv", events);
    for _ in 0..2 {
        let handle = bench.start(StartFrom::Latest).expect("started");
        wait_for_checkpoint(&handle);
        drop(handle);
    }
    bench.source = bench.source.replace("1_000", "0");
    bench.run().expect("a summary");
    let letters = std::fs::read_to_string(bench.path("state/dead-letter.ndjson")).expect("text");
    let lines: Vec<&str> = letters.lines().collect();
    assert_eq!(lines.len(), 4, "{letters}");
    let source = bench.path("events.csv").display().to_string();
    assert_eq!(
        lines[0],
        format!(
            "{{\"source\":\"{source}\",\"line\":2,\"error\":\"column `auction`: `x` is no \
             int64\",\"row\":\"2,x,0,0,1700000000000,0\"}}"
        )
    );
    assert_eq!(bench.output(), last_bids(&bids[1..]));
}

#[test]
fn a_key_column_that_does_not_exist_is_refused_before_anything_starts() {
    let (mut bench, bids) = (Bench::new(), bids(10));
    bench.operator.push_str("key = [\"bider\", \"auction\"]\n");
    bench.write("events.csv", csv(&bids));
    let error = bench.prepare().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(
        bench.shown(&error),
        "pipeline.toml:17: events.csv has no column `bider`; did you mean `bidder`?"
    );
    assert!(!bench.path("state").exists());
}

#[test]
fn a_file_that_is_no_component_is_refused_with_its_line() {
    let (mut bench, bids) = (Bench::new(), bids(10));
    bench.operator = "name = \"o\"\ncomponent = \"o.wasm\"\n".into();
    bench.write("o.wasm", "not wasm");
    bench.write("events.csv", csv(&bids));
    let error = bench.prepare().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Operator);
    assert!(bench.shown(&error).starts_with("pipeline.toml:16: "), "{error}");
}

#[test]
fn output_without_its_checkpoints_is_not_overwritten() {
    let (bench, bids) = (Bench::new(), bids(1_000));
    bench.write("events.csv", csv(&bids));
    bench.run().expect("a summary");
    std::fs::remove_dir_all(bench.path("state")).expect("removed");
    let error = bench.run().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert_eq!(bench.output(), last_bids(&bids));
    bench.start(StartFrom::Fresh).expect("started").wait().expect("a summary");
    assert_eq!(bench.output(), last_bids(&bids));
}

/// A pipeline with one malformed row, run once with dead letters in this file.
fn with_dead_letters(file: &str) -> (Bench, Vec<Bid>) {
    let (mut bench, bids) = (Bench::new(), bids(1_000));
    bench.source.push_str(&format!("on-error = \"dead-letter\"\ndead-letter = \"{file}\"\n"));
    bench.write("events.csv", broken(&bids, 2));
    bench.run().expect("a summary");
    (bench, bids)
}

#[test]
fn dead_letters_stay_while_rows_are_skipped() {
    let (mut bench, bids) = with_dead_letters("bad.ndjson");
    let letters = || std::fs::read_to_string(bench.path("bad.ndjson")).expect("text");
    let (first, dead_letters) = (letters(), bench.source.clone());
    let lines = |file: String| file.lines().count();
    assert_eq!(lines(first.clone()), 1);
    let skipping = dead_letters.replace("dead-letter = \"bad.ndjson\"\n", "");
    let mut events = broken(&bids, 2) + "2,y,1,1,1700000000000,1\n";
    bench.source = skipping.replace("\"dead-letter\"", "\"skip\"");
    bench.write("events.csv", &events);
    assert_eq!(bench.run().expect("a summary").rows_skipped, 1);
    events.push_str("2,z,1,1,1700000000000,1\n");
    bench.source = dead_letters;
    bench.write("events.csv", &events);
    assert_eq!(bench.run().expect("a summary").rows_dead_lettered, 1);
    let all = std::fs::read_to_string(bench.path("bad.ndjson")).expect("text");
    assert!(all.starts_with(&first), "{all}");
    assert_eq!(lines(all), 2);
}

#[test]
fn a_dead_letter_file_that_is_not_the_pipelines_is_refused_and_left_alone() {
    let (mut bench, _) = with_dead_letters("bad.ndjson");
    for name in ["mine.txt", "state/mine.txt", "events.csv", "out/part-1-0.csv"] {
        let before = bench.source.clone();
        bench.source = before.replace("bad.ndjson", name);
        if name.ends_with("mine.txt") {
            bench.write(name, "precious");
        }
        let content = std::fs::read(bench.path(name)).ok();
        let error = bench.run().expect_err("refused");
        let shown = bench.shown(&error);
        assert!(shown.contains("the dead-letter file "), "{shown}");
        assert_eq!(std::fs::read(bench.path(name)).ok(), content, "{name}");
        bench.source = before;
    }
    bench.run().expect("the old one still works");
}

#[test]
fn dead_letters_may_go_on_in_a_new_file() {
    let (mut bench, bids) = with_dead_letters("bad.ndjson");
    let first = std::fs::read(bench.path("bad.ndjson")).expect("letters");
    bench.source = bench.source.replace("bad.ndjson", "worse.ndjson");
    bench.write("events.csv", broken(&bids, 2) + "2,y,1,1,1700000000000,1\n");
    bench.run().expect("a summary");
    assert_eq!(std::fs::read(bench.path("bad.ndjson")).expect("letters"), first);
    let second = std::fs::read_to_string(bench.path("worse.ndjson")).expect("letters");
    assert_eq!(second.lines().count(), 1, "{second}");
}

#[test]
fn more_memory_than_the_process_gives_is_refused_with_the_limit() {
    let (mut bench, bids) = (Bench::new(), bids(10));
    bench.operator.push_str("limits = { memory-bytes = 4_000_000_000 }\n");
    bench.write("events.csv", csv(&bids));
    let error = bench.prepare().expect_err("refused");
    assert!(bench.shown(&error).contains("at most 256 MiB"), "{error}");
    assert!(!bench.path("state").exists());
}

#[test]
fn output_in_the_state_is_refused_before_anything_starts() {
    let (mut bench, bids) = (Bench::new(), bids(10));
    bench.sink = bench.sink.replace("\"out\"", "\"state/warehouse\"");
    bench.write("events.csv", csv(&bids));
    assert_eq!(bench.prepare().expect_err("refused").kind(), ErrorKind::Config);
    assert!(!bench.path("state").exists());
}

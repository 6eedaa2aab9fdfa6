//! A pipeline from its beginning to its end.

use crate::common::{Bench, bids, csv, last_bids};
use howdah_operator_artifacts::SCRIPTED;
use howdah_pipeline::{Event, StartFrom};
use std::collections::BTreeSet;
use std::fmt::Write as _;

#[test]
fn a_pipeline_runs_a_file_to_its_end() {
    let (bench, bids) = (Bench::new(), bids(20_000));
    bench.write("events.csv", csv(&bids));
    let summary = bench.run().expect("a summary");
    assert!(summary.finished);
    assert_eq!((summary.rows_in, summary.rows_filtered), (20_000, 4_000));
    let expected = last_bids(&bids);
    assert_eq!(summary.rows_out, expected.len() as u64);
    assert_eq!(bench.output(), expected);
    let latency = summary.latency.clone();
    assert_eq!(latency.rows, summary.rows_out);
    assert!(0 < latency.median_us && latency.median_us <= latency.max_us, "{latency:?}");
    let keys: BTreeSet<_> = bids.iter().map(|bid| (bid.bidder, bid.auction)).collect();
    assert_eq!(summary.states[0].metrics.rows, keys.len() as u64);
    assert_eq!(summary.states[0].table, "q18__last-bid__last");
    assert!(summary.probes <= summary.batches, "{summary:?}");
    assert_eq!(summary.checkpoints.last, bench.checkpoints().last().copied());
}

#[test]
fn every_format_and_parallelism_gives_the_same_result() {
    let bids = bids(3_000);
    let mut ndjson = String::new();
    for bid in &bids {
        let line = serde_json::json!({
            "event_type": 2, "auction": bid.auction, "bidder": bid.bidder, "price": bid.price,
            "date_time": bid.date_time, "seq": bid.seq,
        });
        writeln!(ndjson, "{line}").expect("text");
    }
    for parallelism in [1, 3] {
        for (name, content) in [("events.csv", csv(&bids)), ("events.ndjson", ndjson.clone())] {
            let mut bench = Bench::new();
            bench.root = bench.root.replace("= 2", &format!("= {parallelism}"));
            bench.source = bench.source.replace("events.csv", name);
            bench.write(name, content);
            bench.run().expect("a summary");
            assert_eq!(bench.output(), last_bids(&bids), "{name}, parallelism {parallelism}");
        }
    }
}

#[test]
fn rows_of_a_mebibyte_are_gathered_by_their_bytes() {
    const ROWS: usize = 64;
    let mut bench = Bench::new();
    let long = "k".repeat(1 << 20);
    let line = |row: usize| format!("{{\"row\":{row},\"text\":\"{long}{row}\"}}\n");
    bench.write("rows.ndjson", (0..ROWS).map(line).collect::<String>());
    bench.source = "path = \"rows.ndjson\"\n".into();
    // It has the default limit of memory, as much as the file.
    bench.operator = format!(
        "name = \"o\"\ncomponent = \"{SCRIPTED}\"\nbatch = {{ wait-ms = 50 }}\n\
         config = {{ columns = {{ fields = [[\"row\", \"int64\", false], [\"text\", \"utf8\", false]], \
         key = [\"row\"], through = \"value\", keys = \"current\" }} }}\n"
    );
    let summary = bench.run().expect("a summary");
    assert_eq!((summary.rows_in, summary.rows_out), (ROWS as u64, ROWS as u64));
    assert_eq!(summary.states[0].metrics.rows, ROWS as u64);
}

#[test]
fn running_again_without_new_rows_changes_nothing() {
    let (bench, bids) = (Bench::new(), bids(1_000));
    bench.write("events.csv", csv(&bids));
    bench.run().expect("a summary");
    let parts = bench.parts();
    let summary = bench.run().expect("a summary");
    assert!(summary.finished);
    assert_eq!((summary.rows_in, summary.rows_out), (0, 0));
    assert!(summary.restored_from.is_some());
    assert_eq!(bench.parts(), parts);
}

#[test]
fn rows_that_are_appended_are_read_by_the_next_run() {
    let (bench, bids) = (Bench::new(), bids(2_000));
    bench.write("events.csv", csv(&bids[..1_500]));
    bench.run().expect("a summary");
    bench.write("events.csv", csv(&bids));
    let summary = bench.run().expect("a summary");
    assert_eq!(summary.rows_in, 500);
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn events_tell_of_the_start_the_checkpoints_and_the_end_of_the_source() {
    let (bench, bids) = (Bench::new(), bids(1_000));
    bench.write("events.csv", csv(&bids));
    let handle = bench.start(StartFrom::Latest).expect("started");
    let events: Vec<Event> = handle.events().iter().collect();
    assert_eq!(events.first(), Some(&Event::Started { checkpoint: None }));
    assert!(events.contains(&Event::SourceEnded));
    let Some(Event::CheckpointCompleted { rows_read, .. }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(*rows_read, 1_200);
    let progress = handle.progress();
    assert_eq!(progress.bytes_read, progress.bytes_total);
    assert_eq!(progress.watermark, Some(bids[999].date_time - 1));
    assert_eq!(handle.wait().expect("a summary").rows_in, 1_000);
}

#[test]
fn only_the_wanted_number_of_checkpoints_is_kept() {
    let (mut bench, bids) = (Bench::new(), bids(2_000));
    bench.checkpoint.push_str("retained = 2\n");
    for rows in [500, 1_000, 1_500, 2_000] {
        bench.write("events.csv", csv(&bids[..rows]));
        bench.run().expect("a summary");
    }
    let checkpoints = bench.checkpoints();
    let [before, last] = checkpoints.as_slice() else { panic!("{checkpoints:?}") };
    assert_eq!(before + 1, *last);
    assert!(*last >= 4);
    assert_eq!(bench.output(), last_bids(&bids));
}

//! An operator that misbehaves stops its own pipeline and no other.

use crate::common::{Bench, Bid, bids, csv, last_bids};
use howdah_operator_artifacts::HOSTILE;
use howdah_pipeline::{Error, ErrorKind, StartFrom};

/// A pipeline whose operator misbehaves after some batches, or from the first on.
fn hostile(mode: &str, bids: &[Bid]) -> Bench {
    let mut bench = Bench::new();
    bench.root = bench.root.replace("q18", "hostile");
    bench.operator = format!(
        "name = \"hostile\"\ncomponent = \"{HOSTILE}\"\nconfig = {{ mode = \"{mode}\" }}\n\
         limits = {{ call-timeout-ms = 300 }}\n"
    );
    bench.write("events.csv", csv(bids));
    bench
}

/// What a hostile pipeline fails with, while another one runs to its end.
fn failure(mode: &str) -> Error {
    let bids = bids(5_000);
    let honest = Bench::new();
    honest.write("events.csv", csv(&bids));
    let running = honest.start(StartFrom::Latest).expect("started");
    let error = hostile(mode, &bids).run().expect_err("hostile");
    running.wait().expect("a summary");
    assert_eq!(honest.output(), last_bids(&bids), "{mode}");
    assert_eq!(error.kind(), ErrorKind::Operator, "{mode}: {error}");
    error
}

#[test]
fn an_operator_that_panics_stops_itself_alone() {
    assert!(failure("panic").to_string().contains("hostile"));
}

#[test]
fn an_operator_that_never_returns_stops_itself_alone() {
    assert!(failure("loop").to_string().contains("hostile"));
}

#[test]
fn an_operator_that_takes_all_memory_stops_itself_alone() {
    assert!(failure("allocate").to_string().contains("hostile"));
}

#[test]
fn an_operator_that_returns_a_malformed_buffer_stops_itself_alone() {
    assert!(failure("short-data").to_string().contains("hostile"));
}

#[test]
fn an_operator_that_returns_an_error_stops_itself_alone() {
    assert!(failure("error").to_string().contains("hostile"));
}

#[test]
fn an_operator_that_emits_batches_without_rows_emits_nothing() {
    for format in ["csv", "ndjson", "parquet"] {
        let mut bench = hostile("empty-outputs", &bids(1_000));
        bench.sink = bench.sink.replace("csv", format);
        let summary = bench.run().expect("a summary");
        assert_eq!((summary.rows_in, summary.rows_out), (1_000, 0), "{format}");
        let parts = std::fs::read_dir(bench.path("out")).expect("a directory");
        let names = parts.map(|part| part.expect("an entry").file_name());
        assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("part-")));
    }
}

#[test]
fn a_failed_pipeline_leaves_output_and_state_at_its_last_checkpoint() {
    let bids = bids(1_000);
    let mut bench = hostile("panic", &bids);
    bench.run().expect_err("hostile");
    assert_eq!(bench.parts(), [""; 0]);
    assert_eq!(bench.checkpoints(), [0; 0]);
    bench.operator = bench.operator.replace("panic", "none");
    let summary = bench.run().expect("a summary");
    assert_eq!((summary.rows_in, summary.rows_out), (1_000, 1_000));
}

#[test]
fn a_full_queue_does_not_keep_a_failing_pipeline_alive() {
    // Far more rows than fit into the queues before a subtask that fails.
    let error = hostile("panic", &bids(300_000)).run().expect_err("hostile");
    assert_eq!(error.kind(), ErrorKind::Operator);
}

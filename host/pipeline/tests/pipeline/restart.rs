//! A pipeline that is stopped, broken off or moved back goes on as if nothing had been.

use crate::common::{Bench, Bid, bids, csv, last_bids, wait_for_checkpoint};
use howdah_pipeline::{ErrorKind, StartFrom};

/// A pipeline that takes a quarter of a minute, so that something can happen to it meanwhile.
fn slow() -> (Bench, Vec<Bid>) {
    let (mut bench, bids) = (Bench::new(), bids(12_000));
    bench.source.push_str("rate-limit-rows-per-second = 1_000\n");
    bench.write("events.csv", csv(&bids));
    (bench, bids)
}

fn fast(bench: &mut Bench) {
    bench.source = bench.source.replace("1_000", "0");
}

#[test]
fn a_stopped_pipeline_goes_on_where_it_was() {
    let (mut bench, bids) = slow();
    let handle = bench.start(StartFrom::Latest).expect("started");
    wait_for_checkpoint(&handle);
    handle.stop();
    let first = handle.wait().expect("a summary");
    assert!(!first.finished);
    fast(&mut bench);
    let second = bench.run().expect("a summary");
    assert!(second.finished);
    assert_eq!(second.restored_from, first.checkpoints.last);
    assert_eq!(first.rows_in + second.rows_in, 12_000, "no row twice, none lost");
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn a_pipeline_that_was_broken_off_goes_on_from_its_last_checkpoint() {
    let (mut bench, bids) = slow();
    for _ in 0..3 {
        let handle = bench.start(StartFrom::Latest).expect("started");
        wait_for_checkpoint(&handle);
        drop(handle);
    }
    fast(&mut bench);
    bench.run().expect("a summary");
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn a_pipeline_can_go_back_to_an_earlier_checkpoint() {
    let (mut bench, bids) = (Bench::new(), bids(3_000));
    bench.checkpoint.push_str("retained = 100\n");
    bench.write("events.csv", csv(&bids[..1_000]));
    bench.run().expect("a summary");
    bench.write("events.csv", csv(&bids));
    bench.run().expect("a summary");
    let checkpoints = bench.checkpoints();
    let (first, last) = (checkpoints[0], checkpoints[checkpoints.len() - 1]);
    assert!(first < last);
    let handle = bench.start(StartFrom::Checkpoint(first)).expect("started");
    let summary = handle.wait().expect("a summary");
    assert_eq!(summary.restored_from, Some(first));
    assert!(summary.checkpoints.last > Some(last), "numbers go on");
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn a_fresh_start_begins_at_the_beginning() {
    let (mut bench, bids) = slow();
    fast(&mut bench);
    bench.run().expect("a summary");
    let summary = bench.start(StartFrom::Fresh).expect("started").wait().expect("a summary");
    assert_eq!((summary.rows_in, summary.restored_from), (12_000, None));
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn a_damaged_checkpoint_is_refused_and_the_one_before_works() {
    let (mut bench, bids) = slow();
    fast(&mut bench);
    bench.checkpoint = "interval-ms = 1\nsync = false\nretained = 3\n".into();
    bench.run().expect("a summary");
    // A run that finds nothing to read still completes a checkpoint.
    bench.run().expect("a summary");
    let checkpoints = bench.checkpoints();
    let [.., before, last] = checkpoints.as_slice() else { panic!("{checkpoints:?}") };
    let name = format!("state/checkpoints/checkpoint-{last}.json");
    let mut bytes = std::fs::read(bench.path(&name)).expect("a document");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    bench.write(&name, bytes);
    let error = bench.run().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(
        bench.shown(&error),
        format!(
            "the checkpoint document {name} is damaged: its checksum does not match; start from \
             the one before with --checkpoint {before}, or from the beginning with --fresh"
        )
    );
    let handle = bench.start(StartFrom::Checkpoint(*before)).expect("started");
    handle.wait().expect("a summary");
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn a_pipeline_goes_on_with_any_other_parallelism() {
    let (mut bench, bids) = slow();
    let handle = bench.start(StartFrom::Latest).expect("started");
    wait_for_checkpoint(&handle);
    handle.stop();
    handle.wait().expect("a summary");
    let mut before = 2;
    for parallelism in [4, 1, 3] {
        bench.root = bench.root.replace(&format!("= {before}"), &format!("= {parallelism}"));
        before = parallelism;
        let handle = bench.start(StartFrom::Latest).expect("started");
        wait_for_checkpoint(&handle);
        handle.stop();
        handle.wait().expect("a summary");
    }
    fast(&mut bench);
    bench.run().expect("a summary");
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn a_changed_filter_key_or_output_format_is_refused() {
    let (mut bench, bids) = (Bench::new(), bids(1_000));
    bench.write("events.csv", csv(&bids));
    bench.run().expect("a summary");
    let (source, operator, sink) =
        (bench.source.clone(), bench.operator.clone(), bench.sink.clone());
    let refused = |bench: &Bench, what: &str| {
        let error = bench.run().expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains(what), "{error}");
    };
    bench.source = source.replace("event_type = 2", "event_type = 1");
    refused(&bench, "the source's filter was (event_type = 2) and is (event_type = 1)");
    bench.source = source.replace("event-time = \"date_time\"\n", "");
    refused(&bench, "the source's event-time was date_time and is none");
    bench.source = source;
    bench.operator.push_str("key = [\"bidder\", \"seq\"]\n");
    refused(&bench, "auction = seq");
    bench.operator = operator;
    bench.sink = sink.replace("format = \"csv\"", "format = \"ndjson\"");
    refused(&bench, "the sink's format was csv and is ndjson");
    bench.sink = sink;
    bench.run().expect("as before");
    assert_eq!(bench.output(), last_bids(&bids));
}

#[test]
fn another_source_file_of_the_same_name_is_refused() {
    let (bench, mut bids) = (Bench::new(), bids(1_000));
    bench.write("events.csv", csv(&bids));
    bench.run().expect("a summary");
    let output = bench.output();
    bids[3].price += 1;
    bids.push(bids[3]);
    bench.write("events.csv", csv(&bids));
    let error = bench.run().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert_eq!(
        bench.shown(&error),
        "the source events.csv is another file than at the checkpoint: its first 4096 bytes \
         differ; bring the old file back, or start afresh with --fresh"
    );
    assert_eq!(bench.output(), output, "nothing was touched");
}

#[test]
fn a_second_run_on_the_same_state_is_refused() {
    let (bench, _) = slow();
    let handle = bench.start(StartFrom::Latest).expect("started");
    let error = bench.prepare().expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(
        error.to_string(),
        format!(
            "{} is in use by process {} (pipeline `q18`); stop it, or wait until it ends",
            bench.path("state").display(),
            std::process::id()
        )
    );
    drop(handle);
    bench.prepare().expect("free again");
}

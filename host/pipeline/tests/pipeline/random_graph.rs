//! Graphs that a seed makes up, broken off at checkpoints and gone on with, have the result of a
//! model. `HOWDAH_TEST_FULL=1` tries 200 seeds.

use crate::common::{Bench, Bid, bids};
use howdah_operator_artifacts::{AUCTION_STATS, LAST_BID};
use howdah_pipeline::{Event, Handle, StartOptions};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    /// From 0 to one less than this.
    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("an index")
    }
}

/// What comes out of a node, of each key in this order.
type Rows = Vec<Bid>;

/// A graph, and what a model says of it.
struct Graph {
    nodes: String,
    /// Files of sources.
    files: Vec<(String, Rows)>,
    /// For each sink of bids what is in it.
    bids: Vec<(String, Rows)>,
    /// For each sink of figures what they are of.
    figures: Vec<(String, Rows)>,
}

/// The bids that become the last of their bidder and auction.
fn last(bids: &[Bid]) -> Rows {
    let mut last: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    let mut becomes_last = |bid: &&Bid| {
        let at = (bid.date_time, bid.seq);
        let known = last.get(&(bid.bidder, bid.auction));
        let is_last = known.is_none_or(|known| at > *known);
        if is_last {
            last.insert((bid.bidder, bid.auction), at);
        }
        is_last
    };
    bids.iter().filter(|bid| becomes_last(bid)).copied().collect()
}

/// One or two sources, of which each following operator takes rows, or of one before it.
fn graph(random: &mut Random) -> Graph {
    let mut graph = Graph { nodes: String::new(), files: vec![], bids: vec![], figures: vec![] };
    let mut producers: Vec<(String, Rows)> = Vec::new();
    for source in 0..=random.below(2) {
        // Out of order, so that some bids are not the last.
        let mut rows = bids(i64::try_from(500 + random.below(2_500)).expect("a count"));
        rows.retain(|bid| random.below(10) > 0 || bid.seq == 0);
        for row in 1..rows.len() {
            if random.below(3) == 0 {
                rows.swap(row - 1, row);
            }
        }
        let name = format!("source-{source}");
        graph.files.push((format!("{name}.csv"), rows.clone()));
        producers.push((name, rows));
    }
    let sources = producers.len();
    for operator in 0..1 + random.index(5).max(sources) {
        // Each source is taken by one at least.
        let from = if operator < sources { operator } else { random.index(producers.len()) };
        let (input, rows) = producers[from].clone();
        let (name, sink) = (format!("operator-{operator}"), format!("sink-{operator}"));
        let is_last_bid = random.below(2) == 0;
        let component = if is_last_bid { LAST_BID } else { AUCTION_STATS };
        let (parallelism, batch, wait) =
            (1 + random.below(3), 1 + random.below(2_000), random.below(3));
        let to = if random.below(4) == 0 { "null" } else { "files" };
        let path = if to == "files" { format!("path = \"{sink}\"\n") } else { String::new() };
        write!(
            graph.nodes,
            "[operator.{name}]\ncomponent = \"{component}\"\ninput = \"{input}\"\n\
             parallelism = {parallelism}\nbatch = {{ rows = {batch}, wait-ms = {wait} }}\n\
             [sink.{sink}]\ntype = \"{to}\"\n{path}input = \"{name}\"\n"
        )
        .expect("text");
        let emitted = if is_last_bid { last(&rows) } else { rows };
        if is_last_bid {
            producers.push((name, emitted.clone()));
        }
        let sinks = if is_last_bid { &mut graph.bids } else { &mut graph.figures };
        if to == "files" {
            sinks.push((sink, emitted));
        }
    }
    graph
}

impl Graph {
    /// The pipeline file, with sources of this rate.
    fn file(&self, checkpoint: &str, rate_limit: u64) -> String {
        let mut text = format!(
            "name = \"random\"\nstate-directory = \"state\"\n[checkpoint]\nsync = false\n{checkpoint}"
        );
        for (file, _) in &self.files {
            let name = file.trim_end_matches(".csv");
            write!(
                text,
                "[source.{name}]\npath = \"{file}\"\nevent-time = \"date_time\"\n\
                 rate-limit-rows-per-second = {rate_limit}\n"
            )
            .expect("text");
        }
        text + &self.nodes
    }

    fn write_files(&self, bench: &Bench) {
        for (file, rows) in &self.files {
            let mut text = "auction,bidder,price,date_time,seq\n".to_owned();
            for Bid { auction, bidder, price, date_time, seq } in rows {
                writeln!(text, "{auction},{bidder},{price},{date_time},{seq}").expect("text");
            }
            bench.write(file, text);
        }
    }

    fn check(&self, bench: &Bench, seed: u64) {
        for (sink, rows) in &self.bids {
            let mut expected = rows.clone();
            expected.sort_unstable();
            assert_eq!(bench.bids(sink), expected, "{sink} of seed {seed}");
        }
        for (sink, rows) in &self.figures {
            let emitted = bench.numbers(sink);
            assert_eq!(emitted.len(), rows.len(), "{sink} of seed {seed}");
            let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
            let mut sums: BTreeMap<(i64, i64), i64> = BTreeMap::new();
            for row in &emitted {
                // Each row of an auction counts one more.
                *counts.entry(row[0]).or_default() += 1;
                sums.insert((row[0], row[1]), row[4]);
            }
            let mut expected: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
            for bid in rows {
                let (count, sum) = expected.entry(bid.auction).or_default();
                (*count, *sum) = (*count + 1, *sum + bid.price);
            }
            for (auction, (count, sum)) in expected {
                assert_eq!(counts.get(&auction), Some(&count), "{sink} of seed {seed}");
                assert_eq!(sums.get(&(auction, count)), Some(&sum), "{sink} of seed {seed}");
            }
        }
    }
}

#[test]
fn a_graph_that_is_broken_off_has_the_result_of_the_model() {
    let seeds = if std::env::var_os("HOWDAH_TEST_FULL").is_some_and(|value| value == "1") {
        200
    } else {
        6
    };
    for seed in 0..seeds {
        let mut random = Random(seed);
        let (bench, graph) = (Bench::new(), graph(&mut random));
        graph.write_files(&bench);
        let late = "timeout-ms = 2\ntolerated-failures = 1000\n";
        let checkpoint = format!(
            "interval-ms = {}\n{}",
            1 + random.below(20),
            if random.below(2) == 0 { late } else { "" }
        );
        for _ in 0..random.below(4) {
            let text = graph.file(&checkpoint, 2_000 + random.below(10_000));
            let pipeline = bench.prepare_file(&text).expect("a pipeline");
            let handle = pipeline.start(StartOptions::default()).expect("started");
            wait_for_checkpoint_or_end(&handle);
            drop(handle);
        }
        let pipeline = bench.prepare_file(&graph.file(&checkpoint, 0)).expect("a pipeline");
        let summary = pipeline.start(StartOptions::default()).expect("started").wait();
        assert!(summary.expect("a summary").finished);
        graph.check(&bench, seed);
    }
}

/// Of late checkpoints none may be complete before the last.
fn wait_for_checkpoint_or_end(handle: &Handle) {
    loop {
        match handle.events().recv_timeout(Duration::from_secs(60)).expect("an event") {
            Event::CheckpointCompleted { rows_read: 1.., .. } | Event::SourceEnded => break,
            Event::CheckpointCompleted { .. } | Event::Started { .. } => {}
        }
    }
}

//! Graphs that a seed makes up, killed and broken off, gone on with, with other parallelisms and
//! components each time, have the output of a model and the state of a run that nothing disturbed.
//! `HOWDAH_TEST_FULL=1` tries 200 seeds.

use crate::common::{Bench, Bid, bids};
use crate::graph::{check_winning_bids, write_winners};
use howdah_operator_artifacts::{AUCTION_STATS, AUCTION_WINNERS, LAST_BID};
use howdah_pipeline::{Event, Handle, Pipeline, PipelineConfig, StartOptions};
use howdah_runtime::{Engine, EngineOptions};
use howdah_state::{At, StateDiff, StateReader, list_tables};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
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

    /// Whether something happens that does so once in this many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// What comes out of a node.
type Rows = Vec<Bid>;

/// What an operator or a sink may take.
#[derive(Clone)]
struct Producer {
    name: String,
    rows: Rows,
    /// Whether those of each key come in this order.
    ordered: bool,
}

struct Source {
    name: String,
    rows: Rows,
    /// How many files it is: several are read by any number of subtasks.
    files: usize,
}

struct Operator {
    name: String,
    component: &'static str,
    /// Its lines but for the parallelism.
    lines: String,
}

/// What is to be in a sink.
enum Expected {
    /// These bids.
    Bids(Rows),
    /// Of these bids the last of each bidder and auction, and some that came before it.
    Last(Rows),
    /// For each auction figures that go up to those of all these bids.
    Figures(Rows),
    /// The winning bids of the auctions.
    Winners,
}

/// A graph, and what a model says of it.
#[derive(Default)]
struct Graph {
    sources: Vec<Source>,
    operators: Vec<Operator>,
    /// Lines of sinks.
    sinks: String,
    expected: Vec<(String, Expected)>,
    winners: bool,
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

/// One to three sources, of which each following operator takes rows, or of those before it.
fn graph(random: &mut Random) -> Graph {
    let mut graph = Graph::default();
    let mut producers: Vec<Producer> = Vec::new();
    for number in 0..=random.below(3) {
        let source = source(random, number);
        let ordered = source.files == 1;
        producers.push(Producer { name: source.name.clone(), rows: source.rows.clone(), ordered });
        graph.sources.push(source);
    }
    let sources = producers.len();
    for operator in 0..1 + random.index(5).max(sources) {
        // Each source is taken by one at least.
        let first = if operator < sources { operator } else { random.index(producers.len()) };
        let mut from = BTreeSet::from([first]);
        while random.once_in(3) {
            from.insert(random.index(producers.len()));
        }
        let name = format!("operator-{operator}");
        let taken = from.iter().map(|at| producers[*at].clone()).collect();
        producers.extend(graph.add_operator(random, name, taken));
    }
    if random.once_in(2) {
        let from: Vec<Producer> = producers.iter().filter(|_| random.once_in(2)).cloned().collect();
        if !from.is_empty() {
            let rows = from.iter().flat_map(|producer| producer.rows.clone()).collect();
            graph.add_sink("copy", &names(&from), Expected::Bids(rows));
        }
    }
    graph.winners = random.once_in(3);
    if graph.winners {
        let lines = "[operator.winners.inputs]\nauctions = { from = \"auctions\", key = [\"auction\"] }\n\
                     bids = \"bids\"\n";
        graph.operators.push(Operator {
            name: "winners".into(),
            component: AUCTION_WINNERS,
            lines: lines.into(),
        });
        graph.add_sink("winners", "[\"winners\"]", Expected::Winners);
    }
    graph
}

fn source(random: &mut Random, number: u64) -> Source {
    // Out of order, so that some bids are not the last; those of two sources are never the same.
    let mut rows = bids(i64::try_from(500 + random.below(2_500)).expect("a count"));
    rows.retain(|bid| !random.once_in(10) || bid.seq == 0);
    for bid in &mut rows {
        bid.seq = bid.seq * 3 + i64::try_from(number).expect("small");
    }
    for row in 1..rows.len() {
        if random.once_in(3) {
            rows.swap(row - 1, row);
        }
    }
    let files = if random.once_in(3) { 1 + random.index(7) } else { 1 };
    Source { name: format!("source-{number}"), rows, files }
}

fn names(producers: &[Producer]) -> String {
    let names: Vec<String> = producers.iter().map(|it| format!("\"{}\"", it.name)).collect();
    format!("[{}]", names.join(", "))
}

impl Graph {
    /// An operator on these, and its sink. What others may take of it.
    fn add_operator(
        &mut self,
        random: &mut Random,
        name: String,
        from: Vec<Producer>,
    ) -> Option<Producer> {
        let is_last_bid = random.once_in(2);
        let (rows, wait) = (1 + random.below(2_000), random.below(3));
        let lines =
            format!("input = {}\nbatch = {{ rows = {rows}, wait-ms = {wait} }}\n", names(&from));
        let component = if is_last_bid { LAST_BID } else { AUCTION_STATS };
        self.operators.push(Operator { name: name.clone(), component, lines });
        // Which bids are the last of those so far depends on which come first.
        let ordered = matches!(from.as_slice(), [Producer { ordered: true, .. }]);
        let rows: Rows = from.into_iter().flat_map(|producer| producer.rows).collect();
        let (emitted, expected) = match (is_last_bid, ordered) {
            (true, true) => (Some(last(&rows)), Expected::Bids(last(&rows))),
            (true, false) => (None, Expected::Last(rows)),
            (false, _) => (None, Expected::Figures(rows)),
        };
        let (sink, input) = (format!("of-{name}"), format!("[\"{name}\"]"));
        if random.once_in(4) {
            write!(self.sinks, "[sink.{sink}]\ntype = \"null\"\ninput = {input}\n").expect("text");
        } else {
            self.add_sink(&sink, &input, expected);
        }
        emitted.map(|rows| Producer { name, rows, ordered: true })
    }

    fn add_sink(&mut self, sink: &str, input: &str, expected: Expected) {
        write!(self.sinks, "[sink.{sink}]\ntype = \"files\"\npath = \"{sink}\"\ninput = {input}\n")
            .expect("text");
        self.expected.push((sink.to_owned(), expected));
    }

    /// The pipeline file of a run, with sources of this rate. Parallelism, and which of two copies of
    /// an operator's component it is, are others in each.
    fn file(&self, random: &mut Random, checkpoint: &str, rate_limit: u64) -> String {
        let mut text = format!(
            "name = \"random\"\nstate-directory = \"state\"\n[checkpoint]\nsync = false\n{checkpoint}"
        );
        for Source { name, files, .. } in &self.sources {
            let path = match files {
                1 => format!("path = \"{name}.csv\"\n"),
                _ => format!("path = \"{name}/*.csv\"\nparallelism = {}\n", 1 + random.below(3)),
            };
            write!(
                text,
                "[source.{name}]\n{path}event-time = \"date_time\"\n\
                 schema = {{ date_time = \"timestamp-millis\" }}\n\
                 rate-limit-rows-per-second = {rate_limit}\n"
            )
            .expect("text");
        }
        if self.winners {
            for (name, time, factor) in [("auctions", "opens", 1), ("bids", "date_time", 20)] {
                let rate_limit = rate_limit * factor / 10;
                write!(
                    text,
                    "[source.{name}]\npath = \"{name}.csv\"\nevent-time = \"{time}\"\n\
                     rate-limit-rows-per-second = {rate_limit}\n"
                )
                .expect("text");
            }
        }
        for Operator { name, component, lines } in &self.operators {
            let (parallelism, swapped) = (1 + random.below(3), random.once_in(2));
            let component = if swapped { copy_name(component) } else { (*component).to_owned() };
            write!(
                text,
                "[operator.{name}]\ncomponent = \"{component}\"\nparallelism = {parallelism}\n{lines}"
            )
            .expect("text");
        }
        text + &self.sinks
    }

    fn write_files(&self, bench: &Bench) {
        const HEADER: &str = "auction,bidder,price,date_time,seq\n";
        for Source { name, rows, files } in &self.sources {
            let mut texts = vec![HEADER.to_owned(); *files];
            for (row, bid) in rows.iter().enumerate() {
                let Bid { auction, bidder, price, date_time, seq } = bid;
                let text = &mut texts[row * files / rows.len()];
                writeln!(text, "{auction},{bidder},{price},{date_time},{seq}").expect("text");
            }
            match texts.as_slice() {
                [text] => bench.write(&format!("{name}.csv"), text),
                texts => {
                    std::fs::create_dir(bench.path(name)).expect("made");
                    for (part, text) in texts.iter().enumerate() {
                        bench.write(&format!("{name}/{part}.csv"), text);
                    }
                }
            }
        }
        write_winners(bench);
        for component in [LAST_BID, AUCTION_STATS, AUCTION_WINNERS] {
            let mut bytes = std::fs::read(component).expect("a component");
            // A custom section without a name: another file that does the same.
            bytes.extend([0, 1, 0]);
            bench.write(&copy_name(component), bytes);
        }
    }

    fn run_to_end(&self, random: &mut Random, bench: &Bench, checkpoint: &str) {
        let pipeline = bench.prepare_file(&self.file(random, checkpoint, 0)).expect("a pipeline");
        let summary = pipeline.start(StartOptions::default()).expect("started").wait();
        assert!(summary.expect("a summary").finished);
    }

    fn check(&self, bench: &Bench, seed: u64) {
        for (sink, expected) in &self.expected {
            let what = format!("{sink} of seed {seed}");
            match expected {
                Expected::Bids(rows) => {
                    let mut expected = rows.clone();
                    expected.sort_unstable();
                    assert_eq!(bench.bids(sink), expected, "{what}");
                }
                Expected::Last(rows) => check_last(&bench.bids(sink), rows, &what),
                Expected::Figures(rows) => check_figures(&bench.numbers(sink), rows, &what),
                Expected::Winners => drop(check_winning_bids(bench, sink)),
            }
        }
    }
}

/// The name of a component's copy.
fn copy_name(component: &str) -> String {
    format!("copy-of-{}", component.rsplit('/').next().expect("a name"))
}

/// Every bid at most once, and the last ones are there.
fn check_last(emitted: &[Bid], rows: &[Bid], what: &str) {
    let (rows, unique): (BTreeSet<Bid>, BTreeSet<Bid>) =
        (rows.iter().copied().collect(), emitted.iter().copied().collect());
    assert_eq!(unique.len(), emitted.len(), "{what}");
    assert!(unique.is_subset(&rows), "{what}");
    let newest = |bids: &BTreeSet<Bid>| {
        let mut newest: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
        for bid in bids {
            let known = newest.entry((bid.bidder, bid.auction)).or_default();
            *known = (*known).max((bid.date_time, bid.seq));
        }
        newest
    };
    assert_eq!(newest(&unique), newest(&rows), "{what}");
}

fn check_figures(emitted: &[Vec<i64>], rows: &[Bid], what: &str) {
    assert_eq!(emitted.len(), rows.len(), "{what}");
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    let mut sums: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for row in emitted {
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
        assert_eq!(counts.get(&auction), Some(&count), "{what}");
        assert_eq!(sums.get(&(auction, count)), Some(&sum), "{what}");
    }
}

#[test]
fn a_graph_that_is_killed_and_broken_off_has_the_result_of_the_model() {
    let is_full = std::env::var_os("HOWDAH_TEST_FULL").is_some_and(|value| value == "1");
    let compiled = tempfile::tempdir().expect("a directory");
    let mut kills = 0;
    for seed in 0..if is_full { 200 } else { 6 } {
        let mut random = Random(seed);
        let (bench, graph) = (Bench::new(), graph(&mut random));
        graph.write_files(&bench);
        let checkpoint = checkpoint(&mut random);
        for _ in 0..random.below(5) {
            let rate_limit = 2_000 + random.below(10_000);
            let text = graph.file(&mut random, &checkpoint, rate_limit);
            if random.once_in(2) {
                kills += u32::from(kill_a_run(&mut random, &bench, &text, compiled.path()));
            } else {
                let pipeline = bench.prepare_file(&text).expect("a pipeline");
                break_off(&mut random, pipeline.start(StartOptions::default()).expect("started"));
            }
        }
        graph.run_to_end(&mut random, &bench, &checkpoint);
        graph.check(&bench, seed);
        let undisturbed = Bench::new();
        graph.write_files(&undisturbed);
        graph.run_to_end(&mut random, &undisturbed, "interval-ms = 500\n");
        check_states(&bench, &undisturbed, seed);
    }
    assert!(kills > 0, "every run had come to its end before it was killed");
}

/// When to checkpoint. Half of the graphs have checkpoints that are late nearly always, not so often that
/// a slow machine gets to the most that may be.
fn checkpoint(random: &mut Random) -> String {
    if random.once_in(2) {
        let interval_ms = 20 + random.below(20);
        format!("interval-ms = {interval_ms}\ntimeout-ms = 2\ntolerated-failures = 1000\n")
    } else {
        format!("interval-ms = {}\n", 1 + random.below(20))
    }
}

/// The pipeline file of [`run`].
const FILE: &str = "HOWDAH_TEST_PIPELINE";
/// Where its compiled components are.
const COMPILED: &str = "HOWDAH_TEST_COMPILED";

/// A run in a process of its own, which says when a checkpoint is complete.
#[test]
#[ignore = "a_graph_that_is_killed_and_broken_off_has_the_result_of_the_model runs it, and kills it"]
fn run() {
    let path = |name| PathBuf::from(std::env::var_os(name).expect("a path"));
    let options =
        EngineOptions { cache_directory: Some(path(COMPILED)), ..EngineOptions::default() };
    let engine = Engine::new(options).expect("an engine");
    let config = PipelineConfig::load(&path(FILE)).expect("a configuration");
    let pipeline = Pipeline::prepare(config, &engine).expect("a pipeline");
    println!("prepared");
    let handle = pipeline.start(StartOptions::default()).expect("started");
    for event in handle.events().iter() {
        if matches!(event, Event::CheckpointCompleted { .. }) {
            println!("checkpoint");
        }
    }
    handle.wait().expect("a summary");
}

/// Kills [`run`] while it restores, processes or commits. `false`: it came to its end before.
fn kill_a_run(random: &mut Random, bench: &Bench, text: &str, compiled: &Path) -> bool {
    bench.write("pipeline.toml", text);
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["random_graph::run", "--exact", "--ignored", "--nocapture"])
        .env(FILE, bench.path("pipeline.toml"))
        .env(COMPILED, compiled)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines = lines(&mut child);
    let next = |line: &str, limit: Duration| loop {
        match lines.recv_timeout(limit) {
            Ok(read) if read == line => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    // Of late checkpoints none may be complete before the last.
    if next("prepared", Duration::from_secs(60)) {
        for _ in 0..random.below(4) {
            next("checkpoint", Duration::from_secs(1));
        }
        next("nothing", Duration::from_micros(random.below(30_000)));
    }
    child.kill().expect("killed or at its end");
    let finished = child.wait_with_output().expect("its end");
    let failed = String::from_utf8_lossy(&finished.stderr);
    assert!(finished.status.code().is_none_or(|code| code == 0), "it failed by itself: {failed}");
    finished.status.code().is_none()
}

/// What it prints, line by line.
fn lines(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let read = move || {
        for line in output.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("lines".into()).spawn(read).expect("a thread");
    receiver
}

/// The same tables, with the same rows.
fn check_states(bench: &Bench, undisturbed: &Bench, seed: u64) {
    let warehouse = |bench: &Bench| bench.path("state/warehouse");
    let tables = |bench: &Bench| {
        let tables = list_tables(&warehouse(bench), "default").expect("tables").into_iter();
        tables.filter(|table| table.snapshot.is_some()).map(|it| it.name).collect::<BTreeSet<_>>()
    };
    let (known, expected) = (tables(bench), tables(undisturbed));
    // Of bids after the end of their auction those stay that come behind its timer: which they are
    // depends on how two sources meet.
    for name in known.union(&expected).filter(|name| !name.ends_with("__winners__bids")) {
        // One without a snapshot has no rows.
        let open = |bench: &Bench, tables: &BTreeSet<String>| {
            let open = || StateReader::open(&warehouse(bench), "default", name).expect("a table");
            tables.contains(name).then(open)
        };
        let (found, wanted) = (open(bench, &known), open(undisturbed, &expected));
        let wanted = wanted.as_ref().map(|reader| (reader, &At::Latest));
        let found = found.as_ref().map(|reader| (reader, &At::Latest));
        let diff = StateDiff::between(wanted, found).expect("tables of one kind");
        let differing: Vec<_> = diff.map(|rows| rows.expect("rows").key).collect();
        assert!(differing.is_empty(), "rows of {name} differ, of seed {seed}: {differing:?}");
    }
}

/// Ends a run: at once, after some rows, after a checkpoint, or at one.
fn break_off(random: &mut Random, handle: Handle) {
    match random.below(4) {
        0 => {}
        1 => {
            let rows = random.below(2_000);
            while handle.progress().rows_in < rows && !is_at_the_end(&handle) {
                std::thread::yield_now();
            }
        }
        2 => wait_for_checkpoint_or_end(&handle),
        _ => {
            wait_for_checkpoint_or_end(&handle);
            handle.stop();
            handle.wait().expect("stopped");
            return;
        }
    }
    drop(handle);
}

fn is_at_the_end(handle: &Handle) -> bool {
    handle.events().try_iter().any(|event| event == Event::SourceEnded)
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

//! A pipeline in a temporary directory.

use howdah_operator_artifacts::LAST_BID;
use howdah_pipeline::{
    Error, Event, Handle, Pipeline, PipelineConfig, StartFrom, StartOptions, Summary,
};
use howdah_runtime::{Engine, EngineOptions};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// One engine for all tests: compiled operators are shared.
pub(crate) fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(EngineOptions::default()).expect("an engine"))
}

/// A bid as the operators read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bid {
    pub(crate) auction: i64,
    pub(crate) bidder: i64,
    pub(crate) price: i64,
    pub(crate) date_time: i64,
    pub(crate) seq: i64,
}

/// Bids on a few auctions by a few bidders, in the order of time.
pub(crate) fn bids(count: i64) -> Vec<Bid> {
    let bid = |seq: i64| Bid {
        auction: seq * 7 % 53,
        bidder: seq * 11 % 31,
        price: seq * 13 % 997,
        date_time: 1_700_000_000_000 + seq / 3,
        seq,
    };
    (0..count).map(bid).collect()
}

/// A CSV file with other events between the bids, which lack the columns of bids.
pub(crate) fn csv(bids: &[Bid]) -> String {
    let mut text = "event_type,auction,bidder,price,date_time,seq\n".to_owned();
    for bid in bids {
        let Bid { auction, bidder, price, date_time, seq } = bid;
        writeln!(text, "2,{auction},{bidder},{price},{date_time},{seq}").expect("text");
        if seq % 5 == 0 {
            writeln!(text, "1,,,,{date_time},").expect("text");
        }
    }
    text
}

/// What the operator `last-bid` emits for bids in this order.
pub(crate) fn last_bids(bids: &[Bid]) -> Vec<Bid> {
    let mut last: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
    let mut emitted = Vec::new();
    for bid in bids {
        let known = last.get(&(bid.bidder, bid.auction));
        if known.is_none_or(|known| (bid.date_time, bid.seq) > *known) {
            last.insert((bid.bidder, bid.auction), (bid.date_time, bid.seq));
            emitted.push(*bid);
        }
    }
    emitted.sort_unstable();
    emitted
}

/// A directory with a pipeline file, its input and its output.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
    /// Lines before the first table.
    pub(crate) root: String,
    pub(crate) checkpoint: String,
    pub(crate) source: String,
    pub(crate) operator: String,
    pub(crate) sink: String,
}

impl Bench {
    /// The operator `last-bid` on `events.csv`, with two subtasks.
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            root: "name = \"q18\"\nparallelism = 2\nstate-directory = \"state\"\n".into(),
            checkpoint: "interval-ms = 20\nsync = false\n".into(),
            source:
                "path = \"events.csv\"\nevent-time = \"date_time\"\nfilter = { event_type = 2 }\n"
                    .into(),
            operator: format!("name = \"last-bid\"\ncomponent = \"{LAST_BID}\"\n"),
            sink: "type = \"files\"\npath = \"out\"\nformat = \"csv\"\n".into(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("written");
    }

    pub(crate) fn prepare(&self) -> Result<Pipeline, Error> {
        let Self { root, checkpoint, source, operator, sink, .. } = self;
        let text = format!(
            "{root}\n[checkpoint]\n{checkpoint}\n[source]\n{source}\n[operator]\n{operator}\n\
             [sink]\n{sink}"
        );
        self.prepare_file(&text)
    }

    /// A pipeline of this text.
    pub(crate) fn prepare_file(&self, text: &str) -> Result<Pipeline, Error> {
        self.write("pipeline.toml", text);
        Pipeline::prepare(PipelineConfig::load(&self.path("pipeline.toml"))?, engine())
    }

    pub(crate) fn start(&self, from: StartFrom) -> Result<Handle, Error> {
        self.prepare()?.start(StartOptions { from, ..StartOptions::default() })
    }

    /// Runs to the end.
    pub(crate) fn run(&self) -> Result<Summary, Error> {
        self.start(StartFrom::Latest)?.wait()
    }

    /// A message without the directory.
    pub(crate) fn shown(&self, error: &Error) -> String {
        error.to_string().replace(&format!("{}/", self.directory.path().display()), "")
    }

    /// The rows of all visible output files, sorted.
    pub(crate) fn output(&self) -> Vec<Bid> {
        self.bids("out")
    }

    /// The same of a sink that writes to this directory.
    pub(crate) fn bids(&self, directory: &str) -> Vec<Bid> {
        let mut bids = Vec::new();
        let names = names(&self.path(directory));
        for name in names.iter().filter(|name| name.starts_with("part-")) {
            let path = self.path(directory).join(name);
            let mut reader = csv::Reader::from_path(path).expect("a file");
            for record in reader.records() {
                bids.push(bid(&record.expect("a record")));
            }
        }
        bids.sort_unstable();
        bids
    }

    /// The rows of all visible files of a sink whose columns are numbers, sorted.
    pub(crate) fn numbers(&self, directory: &str) -> Vec<Vec<i64>> {
        let mut rows = Vec::new();
        let names = names(&self.path(directory));
        for name in names.iter().filter(|name| name.starts_with("part-")) {
            let path = self.path(directory).join(name);
            let mut reader = csv::Reader::from_path(path).expect("a file");
            for record in reader.records() {
                let record = record.expect("a record");
                rows.push(record.iter().map(|field| field.parse().expect("a number")).collect());
            }
        }
        rows.sort_unstable();
        rows
    }

    /// The names of all visible output files.
    pub(crate) fn parts(&self) -> Vec<String> {
        names(&self.path("out")).into_iter().filter(|name| name.starts_with("part-")).collect()
    }

    /// The numbers of the completed checkpoints on disk.
    pub(crate) fn checkpoints(&self) -> Vec<u64> {
        let entries = howdah_pipeline::Checkpoints::list(&self.path("state")).expect("a list");
        entries.into_iter().map(|entry| entry.id).collect()
    }
}

fn bid(record: &csv::StringRecord) -> Bid {
    let number = |index: usize| record[index].parse().expect("a number");
    let time = arrow_cast::parse::string_to_timestamp_nanos(&record[3]).expect("a timestamp");
    Bid {
        auction: number(0),
        bidder: number(1),
        price: number(2),
        date_time: time / 1_000_000,
        seq: number(4),
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("a name")).collect();
    names.sort_unstable();
    names
}

/// Waits for a completed checkpoint that has rows in it.
pub(crate) fn wait_for_checkpoint(handle: &Handle) -> u64 {
    loop {
        let event = handle.events().recv_timeout(Duration::from_secs(60)).expect("an event");
        if let Event::CheckpointCompleted { checkpoint, rows_read: 1.., .. } = event {
            return checkpoint;
        }
    }
}

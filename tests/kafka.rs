//! From Kafka to Kafka, with a broker of its own for each test. `cargo xtask test --kafka` runs them;
//! without the flag they are skipped.

use crate::kill::{Moment, run_and_kill};
use crate::support::job::{Finished, quoted};
use crate::support::oracle::script_with;
use crate::support::rows::{Row, TextFormat, output, read_text, sorted};
use crate::support::{Job, Random, input, wait_for};
use serde_json::Value;
use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const EVENTS: u32 = 20_000;
/// So that a run takes a second at least, and can be caught.
const ROWS_PER_SECOND: u32 = 15_000;
/// How often a pipeline is killed in all.
const KILLS: u32 = 20;
const INPUT: &str = "events";

/// What is watched for before a kill: the flush of state, a checkpoint, a file that is staged and is
/// sent next.
const MOMENTS: [Moment; 6] = [
    Moment::AnyTime,
    Moment::NewFile { below: "state/warehouse", named: ".parquet" },
    Moment::NewFile { below: "state/warehouse", named: "snapshot-" },
    Moment::NewFile { below: "state/checkpoints", named: "" },
    Moment::NewFile { below: "state", named: "/staged/" },
    Moment::AnyTime,
];

/// A broker. Dropping it ends it.
struct Broker {
    python: PathBuf,
    process: Child,
    address: String,
    /// Of its data.
    _directory: TempDir,
}

impl Broker {
    /// `None`: there is none on this machine.
    #[expect(clippy::print_stderr, reason = "who runs the tests is to know what was left out")]
    fn start() -> Option<Self> {
        let Some(python) = std::env::var_os("HOWDAH_KAFKA_PYTHON") else {
            eprintln!("skipped: `cargo xtask test --kafka` has a broker");
            return None;
        };
        let find = "import importlib.resources as r; print(r.files('noida_db') / 'noida-db')";
        let found = Command::new(&python).args(["-c", find]).output().unwrap();
        let binary = String::from_utf8(found.stdout).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(binary.trim());
        command.arg("start").arg("--data-dir").arg(directory.path());
        command.args(["--host", "127.0.0.1", "--only", "kafka"]);
        command.args(["--kafka-port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let address = format!("127.0.0.1:{port}");
        wait_for("the broker", || TcpStream::connect(&address).ok());
        Some(Self { python: python.into(), process, address, _directory: directory })
    }

    fn script(&self, verb: &str, topic: &str, arguments: &[&str]) -> String {
        let mut command = script_with(&self.python, "kafka_topic.py");
        command.args([verb, &self.address, topic]).args(arguments);
        let finished = Finished::of(command.output().unwrap());
        finished.success().stdout
    }

    fn create(&self, topic: &str, partitions: u32) {
        self.script("create", topic, &[&partitions.to_string()]);
    }

    /// Sends events, all bids on an auction to one partition.
    fn send_events(&self, count: u32) {
        let events = input::events_as(count, "ndjson");
        self.script("send", INPUT, &[&events.to_string_lossy(), "auction"]);
    }

    /// Sends events in one transaction, whose mark is behind them.
    fn send_transaction(&self, count: u32) {
        let events = input::events_as(count, "ndjson");
        self.script("send", INPUT, &[&events.to_string_lossy(), "auction", "events"]);
    }

    /// What is committed.
    fn messages(&self, topic: &str) -> Vec<Value> {
        let text = self.script("read", topic, &[]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The rows of a topic, sorted.
    fn rows(&self, topic: &str, job: &Job) -> Vec<Row> {
        let mut text = String::new();
        for message in self.messages(topic) {
            writeln!(text, "{}", message["value"]).unwrap();
        }
        sorted(read_text(text.as_bytes(), TextFormat::Ndjson, &job.output_shape))
    }

    /// The job over the events in Kafka, and to a topic.
    fn job(&self, topic: &str) -> Job {
        let kafka = |job: Job, section: &str, topic: &str| {
            job.set(section, "brokers", quoted(&self.address))
                .set(section, "topic", quoted(topic))
                .set(&format!("{section}.properties"), "'receive.message.max.bytes'", 1_000_000_000)
        };
        let job = Job::last_bid(Path::new("unused"))
            .without("source", "path")
            .without("sink", "path")
            .without("sink", "format")
            .set("", "name", quoted(topic))
            .set("source", "connector", quoted("kafka"))
            .set("sink", "type", quoted("kafka"));
        kafka(kafka(job, "source", INPUT), "sink", topic)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The same from a file to files.
fn expected() -> Vec<Row> {
    let job = Job::last_bid(&input::events(EVENTS));
    job.run_to_end();
    sorted(output(&job))
}

#[test]
fn rows_go_from_topic_to_topic_exactly_once_under_kills() {
    let Some(broker) = Broker::start() else { return };
    let expected = expected();
    broker.create(INPUT, 3);
    broker.send_events(EVENTS);
    let mut random = Random::new(0);
    let (mut kills, mut round) = (0, 0);
    while kills < KILLS {
        let topic = format!("last-bids-{round}");
        broker.create(&topic, 2);
        let job = broker
            .job(&topic)
            .set("", "parallelism", 1 + round % 3)
            .set("checkpoint", "interval-ms", 40)
            .set("source", "bounded", true)
            .set("source", "parallelism", 1 + (round + 1) % 3)
            .set("source", "rate-limit-rows-per-second", ROWS_PER_SECOND);
        for kill in 0..3 {
            let moment = MOMENTS[usize::try_from(round + kill).unwrap() % MOMENTS.len()];
            kills += u32::from(run_and_kill(&job, moment, &mut random));
        }
        // Another number of subtasks goes on with the partitions.
        job.set("source", "rate-limit-rows-per-second", 0)
            .set("source", "parallelism", 3 - round % 3)
            .run_to_end();
        let got = broker.rows(&topic, &broker.job(&topic));
        assert_eq!(got.len(), expected.len(), "rows, round {round}");
        assert!(got == expected, "the output differs, round {round}");
        round += 1;
    }
}

#[test]
fn a_second_copy_of_a_pipeline_fences_the_first() {
    let Some(broker) = Broker::start() else { return };
    broker.create(INPUT, 1);
    broker.create("out", 1);
    broker.send_events(2_000);
    let first = broker.job("out");
    let mut running = first.start();
    first.wait_for_checkpoint(&mut running, 2);
    let second = broker.job("out").set("sink", "key", "['auction']");
    let mut other = second.start();
    second.wait_for_checkpoint(&mut other, 2);
    // Newer bids: those that are known already put nothing out.
    broker.send_events(4_000);
    let said = "another run of this pipeline writes to the topic";
    running.wait().failed(1, &[said]);
    other.terminate().success();
}

#[test]
fn messages_have_the_key_that_the_sink_states() {
    let Some(broker) = Broker::start() else { return };
    broker.create(INPUT, 2);
    broker.create("keyed", 2);
    broker.send_events(2_000);
    broker
        .job("keyed")
        .set("source", "bounded", true)
        .set("sink", "key", "['auction']")
        .run_to_end();
    let messages = broker.messages("keyed");
    assert!(!messages.is_empty());
    for message in messages {
        assert_eq!(message["key"].as_str().unwrap(), message["value"]["auction"].to_string());
    }
}

#[test]
fn rows_are_there_at_least_once_without_transactions() {
    let Some(broker) = Broker::start() else { return };
    let expected = expected();
    broker.create(INPUT, 3);
    broker.create("often", 2);
    broker.send_events(EVENTS);
    let job = broker
        .job("often")
        .set("checkpoint", "interval-ms", 40)
        .set("source", "bounded", true)
        .set("sink", "delivery", quoted("at-least-once"))
        .set("source", "rate-limit-rows-per-second", ROWS_PER_SECOND);
    let killed = run_and_kill(&job, MOMENTS[3], &mut Random::new(1));
    assert!(killed, "it ended before it was killed");
    let job = job.set("source", "rate-limit-rows-per-second", 0);
    job.run_to_end();
    let mut got = broker.rows("often", &job);
    assert!(got.len() >= expected.len());
    got.dedup();
    assert!(got == expected, "a row is missing or was never sent");
}

#[test]
fn the_position_passes_the_mark_of_a_transaction() {
    let Some(broker) = Broker::start() else { return };
    broker.create(INPUT, 1);
    broker.create("marked", 1);
    broker.send_transaction(2_000);
    let ends: Value = serde_json::from_str(&broker.script("ends", INPUT, &[])).unwrap();
    let position = format!("\"next\":{{\"0\":{}}}", ends["0"]);
    let job = broker.job("marked");
    let mut running = job.start();
    let documents = job.state_directory().join("checkpoints");
    wait_for("a checkpoint at the end", || {
        assert!(running.is_running(), "it goes on");
        let entries = std::fs::read_dir(&documents).ok()?;
        let texts = entries.flatten().filter_map(|entry| std::fs::read(entry.path()).ok());
        let texts = texts.map(|text| String::from_utf8_lossy(&text).replace([' ', '\n'], ""));
        texts.into_iter().find(|text| text.contains(&position)).map(drop)
    });
    running.terminate().success();
}

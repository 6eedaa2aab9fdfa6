//! A pipeline in a directory of its own, run by the binary.

use crate::support::clock::wait_for;
use crate::support::rows::{Row, Shape, TextFormat, read_text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The binary, with a cache of compiled operators that all tests share.
pub(crate) fn howdah() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_howdah"));
    command.env("HOWDAH_CACHE_DIR", scratch().join("compiled")).stdin(Stdio::null());
    // Events that all tests share.
    command.env("HOWDAH_ALLOW_DIRS", scratch());
    command
}

/// A directory for files that outlive a test run.
pub(crate) fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// A pipeline: its file, and the directory that its paths are relative to.
pub(crate) struct Job {
    directory: TempDir,
    /// By section and key, in TOML. The section of the keys before all tables is "".
    settings: BTreeMap<(String, String), String>,
    /// Of `howdah run`.
    arguments: Vec<String>,
    /// The rows that its operator emits.
    pub(crate) output_shape: Shape,
    /// The rows of its state table.
    pub(crate) state_shape: Shape,
    /// The end of the name of its state table.
    pub(crate) state: &'static str,
}

impl Job {
    /// Nexmark q18.
    pub(crate) fn last_bid(input: &Path) -> Self {
        let (output_shape, state_shape) = (Shape::LAST_BID, Shape::LAST_BID_STATE);
        Self::new("last-bid", howdah_operator_artifacts::LAST_BID, input).shaped(
            output_shape,
            state_shape,
            "last",
        )
    }

    /// Count, lowest, highest and sum of the bids on each auction.
    pub(crate) fn auction_stats(input: &Path) -> Self {
        let (output_shape, state_shape) = (Shape::AUCTION_STATS, Shape::AUCTION_STATS_STATE);
        Self::new("auction-stats", howdah_operator_artifacts::AUCTION_STATS, input).shaped(
            output_shape,
            state_shape,
            "stats",
        )
    }

    /// Nexmark q9: auctions and bids from a source each, joined to the winning bids; and what comes
    /// of them for each seller.
    pub(crate) fn auction_winners(input: &Path) -> Self {
        let mut job = Self::new("", "", input).shaped(Shape::AUCTION_WINNERS, Shape::EMPTY, "");
        job.settings.retain(|(section, _), _| section.is_empty() || section == "checkpoint");
        for (source, event_type) in [("auctions", 1), ("bids", 2)] {
            let section = format!("source.{source}");
            job = job
                .set(&section, "path", quoted(&input.to_string_lossy()))
                .set(&section, "event-time", quoted("date_time"))
                .set(&section, "watermark-delay-ms", 4_000)
                .set(&section, "filter", format!("{{ event_type = {event_type} }}"));
        }
        let winners = quoted(howdah_operator_artifacts::AUCTION_WINNERS);
        let stats = quoted(howdah_operator_artifacts::AUCTION_STATS);
        job.set("operator.winners", "component", winners)
            .set("operator.winners.inputs", "auctions", "{ from = 'auctions', key = ['a_id'] }")
            .set("operator.winners.inputs", "bids", quoted("bids"))
            .set("operator.sellers", "component", stats)
            .set("operator.sellers", "input", quoted("winners"))
            .set("operator.sellers", "key", "['seller']")
            .set("operator.sellers", "parallelism", 1)
            .set("sink.winners", "input", quoted("winners"))
            .set("sink.winners", "type", quoted("files"))
            .set("sink.winners", "path", quoted("output"))
            .set("sink.winners", "format", quoted("ndjson"))
            .set("sink.sellers", "input", quoted("sellers"))
            .set("sink.sellers", "type", quoted("files"))
            .set("sink.sellers", "path", quoted("sellers"))
            .set("sink.sellers", "format", quoted("parquet"))
    }

    /// An operator that misbehaves as its configuration says.
    pub(crate) fn hostile(input: &Path) -> Self {
        Self::new("hostile", howdah_operator_artifacts::HOSTILE, input)
    }

    /// An operator that uses WASI as its rows say.
    pub(crate) fn with_wasi(input: &Path) -> Self {
        Self::new("with-wasi", howdah_operator_artifacts::WITH_WASI, input)
            .without("source.filter", "event_type")
    }

    fn new(operator: &str, component: &str, input: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let job = Self {
            directory,
            settings: BTreeMap::new(),
            arguments: Vec::new(),
            output_shape: Shape::EMPTY,
            state_shape: Shape::EMPTY,
            state: "",
        };
        job.set("", "name", quoted("job"))
            .set("", "parallelism", 2)
            .set("", "state-directory", quoted("state"))
            .set("checkpoint", "interval-ms", 100)
            .set("source", "path", quoted(&input.to_string_lossy()))
            .set("source.filter", "event_type", 2)
            .set("operator", "name", quoted(operator))
            .set("operator", "component", quoted(component))
            .set("sink", "type", quoted("files"))
            .set("sink", "path", quoted("output"))
            .set("sink", "format", quoted("ndjson"))
    }

    fn shaped(mut self, output: Shape, state: Shape, name: &'static str) -> Self {
        (self.output_shape, self.state_shape, self.state) = (output, state, name);
        self
    }

    /// Sets a key of the pipeline file to a value in TOML.
    pub(crate) fn set(mut self, section: &str, key: &str, value: impl std::fmt::Display) -> Self {
        self.settings.insert((section.to_owned(), key.to_owned()), value.to_string());
        self
    }

    /// Leaves a key of the pipeline file out.
    pub(crate) fn without(mut self, section: &str, key: &str) -> Self {
        self.settings.remove(&(section.to_owned(), key.to_owned()));
        self
    }

    /// Adds an argument to each run.
    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// The directory of the pipeline file.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where its state, checkpoints and lock are.
    pub(crate) fn state_directory(&self) -> PathBuf {
        self.directory().join("state")
    }

    /// Where its output files appear.
    pub(crate) fn output_directory(&self) -> PathBuf {
        self.directory().join("output")
    }

    /// Writes the pipeline file and says where it is.
    pub(crate) fn file(&self) -> PathBuf {
        let mut text = String::new();
        let mut current = "";
        for ((section, key), value) in &self.settings {
            if section != current {
                writeln!(text, "\n[{section}]").unwrap();
                current = section;
            }
            writeln!(text, "{key} = {value}").unwrap();
        }
        let path = self.directory().join("pipeline.toml");
        // A running job may be reading it: written only when there is something new.
        if std::fs::read_to_string(&path).is_ok_and(|written| written == text) {
            return path;
        }
        std::fs::write(&path, text).unwrap();
        path
    }

    /// `howdah run` of this job.
    pub(crate) fn run_command(&self, arguments: &[&str]) -> Command {
        let mut command = howdah();
        command.arg("run").arg(self.file()).args(["--output", "json"]);
        command.args(&self.arguments).args(arguments);
        command
    }

    /// Runs it to its end, whatever that is.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.run_command(arguments).output().unwrap())
    }

    /// Runs it to the end of its input, and gives the summary.
    pub(crate) fn run_to_end(&self) -> Value {
        let summary = self.run(&[]).summary();
        assert_eq!(summary["finished"], true, "{summary}");
        summary
    }

    /// Starts it.
    pub(crate) fn start(&self) -> Running {
        Running::start(self.run_command(&[]))
    }

    /// Starts a command on this job's pipeline file.
    pub(crate) fn start_command(&self, verb: &str, arguments: &[&str]) -> Running {
        let mut command = howdah();
        command.arg(verb).arg(self.file()).args(arguments).current_dir(self.directory());
        Running::start(command)
    }

    /// `howdah state ...` of this job: what it prints.
    pub(crate) fn state(&self, verb: &str, arguments: &[&str]) -> String {
        self.command(&["state", verb], arguments).success().stdout
    }

    /// A command on this job's pipeline file, with arguments behind it.
    pub(crate) fn command(&self, verbs: &[&str], arguments: &[&str]) -> Finished {
        let mut command = howdah();
        command.args(verbs).arg(self.file()).args(arguments).current_dir(self.directory());
        Finished::of(command.output().unwrap())
    }

    /// The rows of the state table, sorted; as of a checkpoint, or the newest.
    pub(crate) fn state_rows(&self, checkpoint: Option<u64>) -> Vec<Row> {
        let at = checkpoint.map(|checkpoint| checkpoint.to_string());
        let mut arguments = vec![self.state, "--output", "csv"];
        if let Some(at) = &at {
            arguments.extend(["--at", at]);
        }
        let text = self.state("scan", &arguments);
        let mut rows = read_text(text.as_bytes(), TextFormat::Csv, &self.state_shape);
        rows.sort();
        rows
    }

    /// The completed checkpoints that can be read now, oldest first. None before the first.
    pub(crate) fn checkpoints(&self) -> Vec<Checkpoint> {
        let listed = self.command(&["checkpoint", "ls"], &["--output", "json"]);
        listed
            .success()
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter_map(|line: Value| {
                Some(Checkpoint {
                    id: line["checkpoint"].as_u64()?,
                    source_rows: line["source_rows"].as_u64()?,
                })
            })
            .collect()
    }

    /// Waits until the running job has completed the checkpoint with this number, or a later one.
    pub(crate) fn wait_for_checkpoint(&self, running: &mut Running, id: u64) -> Checkpoint {
        wait_for("a checkpoint", || {
            let newest = self.checkpoints().pop().filter(|newest| newest.id >= id);
            if newest.is_none() && !running.is_running() {
                panic!("it ended before checkpoint {id}: {:?}", running.take_output());
            }
            newest
        })
    }
}

/// A completed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) id: u64,
    /// Rows that the source had read.
    pub(crate) source_rows: u64,
}

/// A text in TOML.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{text}'")
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Fails the test unless the command succeeded.
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// The summary of a run that succeeded: the last line.
    pub(crate) fn summary(self) -> Value {
        let stdout = self.success().stdout;
        let summary: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
        assert_eq!(summary["event"], "summary", "{stdout}");
        summary
    }

    /// Fails the test unless the command failed with this code, and said all of this.
    pub(crate) fn failed(self, code: i32, said: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        for words in said {
            assert!(self.stderr.contains(words), "`{words}` is not in: {}", self.stderr);
        }
        self
    }
}

/// A run that goes on; dropping it kills it.
pub(crate) struct Running {
    child: Option<Child>,
    stdout: File,
    stderr: File,
}

impl Running {
    fn start(mut command: Command) -> Self {
        // Not pipes: a job that tells more than one holds would wait for somebody to read it.
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
        Self { child: Some(command.spawn().unwrap()), stdout, stderr }
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }

    pub(crate) fn process(&mut self) -> u32 {
        self.child().id()
    }

    /// Whether it goes on.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child().try_wait().unwrap().is_none()
    }

    /// `kill -9`. It may have ended before.
    pub(crate) fn kill(mut self) -> Finished {
        self.child().kill().unwrap();
        self.wait()
    }

    /// Asks it to stop.
    pub(crate) fn terminate(self) -> Finished {
        self.signal("TERM")
    }

    /// Sends it a signal and waits for its end.
    pub(crate) fn signal(mut self, name: &str) -> Finished {
        let process = self.process().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
        self.wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Finished {
        self.take_output()
    }

    fn take_output(&mut self) -> Finished {
        let status = self.child.take().unwrap().wait().unwrap();
        Finished::of(Output { status, stdout: whole(&self.stdout), stderr: whole(&self.stderr) })
    }
}

/// All that was written to a file.
fn whole(mut file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

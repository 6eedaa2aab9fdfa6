//! The pipeline file.
//!
//! [`keys`] says what it may have; the page `docs/src/reference.md` and a JSON Schema are made of that.
//! In the short form there is one source, one operator and one sink, in `[source]`, `[operator]` and
//! `[sink]`; where there are more, each has a name, `[source.NAME]`, and operators and sinks say what
//! they take.
//!
//! All that is wrong with a file is reported at once.

mod kafka;
mod keys;
mod operator;
mod reference;
mod section;
mod sink;
mod source;

use crate::error::{Error, Result};
use crate::grants::Directories;
use crate::graph::{self, Link};
use crate::isolation;
use crate::pipeline;
use crate::restart::RestartPolicy;
use crate::source as connectors;
use howdah_runtime::{Limits, WasiGrant};
use howdah_state::{ColumnType, KeyGroups};
pub use kafka::{Delivery, KafkaConfig, KafkaFormat, KafkaStart, SinkTopicConfig, TopicConfig};
pub use reference::{pipeline_file_reference, pipeline_file_schema};
pub(crate) use section::enumerate;
use section::{Document, Problems, Section};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A value and the line of the pipeline file that it is on, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// The line.
    pub line: u32,
}

/// A pipeline, as its file describes it. Paths are resolved against the file's directory.
#[derive(Debug, Clone)]
pub struct PipelineConfig {
    /// The pipeline file.
    pub file: PathBuf,
    /// Names tables and directories: letters, digits, `_` and `-`.
    pub name: String,
    /// Where state, checkpoints and the lock are.
    pub state_directory: PathBuf,
    /// Names the database of the state tables.
    pub tenant: String,
    /// How many key groups there are; fixed for the life of the state.
    pub key_groups: u32,
    /// When and how to checkpoint.
    pub checkpoint: CheckpointConfig,
    /// What to read; at least one.
    pub sources: Vec<SourceConfig>,
    /// What to run, each after those whose output it takes.
    pub operators: Vec<OperatorConfig>,
    /// Where to write; at least one.
    pub sinks: Vec<SinkConfig>,
    /// Where its files may be. [`PipelineConfig::load`] grants the directory of the pipeline file, the
    /// state directory and the current one.
    pub directories: Directories,
    /// What each operator and sink takes.
    pub(crate) links: Vec<Link>,
}

/// When and how to checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Time between barriers.
    pub interval_ms: u64,
    /// Completed checkpoints that are kept.
    pub retained: usize,
    /// Whether files and directories are synced to the disk before a checkpoint counts.
    pub sync: bool,
    /// How long a snapshot of a state table outlives its checkpoint, for readers.
    pub snapshot_retained_ms: u64,
    /// The least time from the end of one checkpoint to the barrier of the next.
    pub least_pause_ms: u64,
    /// How long a checkpoint may take. One that takes longer has failed: the next one has what it
    /// would have had.
    pub timeout_ms: u64,
    /// How many may fail one after the other before the pipeline does.
    pub tolerated_failures: u32,
}

/// How rows are gathered for a call of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchConfig {
    /// As many, at most, unless more came in one piece.
    pub rows: usize,
    /// How long the first may wait for others; 0: they are taken as they come.
    pub wait_ms: u64,
}

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    const CHOICES: &[(&str, Self)] =
        &[("csv", Self::Csv), ("ndjson", Self::Ndjson), ("parquet", Self::Parquet)];

    /// As the pipeline file writes it; the extension of files, too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
        }
    }

    /// What the extension of a file says.
    fn from_extension(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "ndjson" | "jsonl" | "json" => Some(Self::Ndjson),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// What to do about a malformed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnError {
    /// Stop with an error.
    Fail,
    /// Count it and go on.
    Skip,
    /// Write it to this file, with the reason, and go on.
    DeadLetter(Located<PathBuf>),
}

/// Whether the last row of a text file must end with a line break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalNewline {
    /// Without it the file counts as cut off.
    Required,
    /// The last row is whole without it.
    Optional,
}

/// A kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceConnector {
    /// A file, or those of a directory.
    File,
    /// A Paimon table.
    Paimon,
    /// Rows that are sent to a port.
    Http,
    /// Events of the Nexmark benchmark, generated in the process.
    Nexmark {
        /// How many; `None`: it goes on for ever.
        events: Option<u64>,
    },
    /// A topic of Kafka.
    Kafka,
}

impl SourceConnector {
    /// As the pipeline file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Paimon => "paimon",
            Self::Http => "http",
            Self::Nexmark { .. } => "nexmark",
            Self::Kafka => "kafka",
        }
    }
}

/// What to read.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// Its name in the pipeline; `source` in the short form.
    pub name: String,
    /// What kind of source.
    pub connector: SourceConnector,
    /// How many subtasks read it: events of a generator, or files of a directory, are spread over them.
    pub parallelism: u32,
    /// The file, a directory, or a path whose last part is a pattern with `*` and `?`; the warehouse
    /// of a table. Of a source
    /// that reads no files the name of its connector.
    pub path: Located<PathBuf>,
    /// The port of an HTTP source.
    pub http: Option<HttpConfig>,
    /// The table in the warehouse that the path is.
    pub table: Option<TableName>,
    /// Whether new files and lines are waited for, where there are several files; or new snapshots of
    /// a table.
    pub follow: bool,
    /// The path as the pipeline file writes it, of a table that of the table.
    pub stated_path: String,
    /// Its format.
    pub format: Format,
    /// The topic, where it is one.
    pub topic: Option<TopicConfig>,
    /// The column with the event time; `None`: event times are 0 and there is no watermark.
    pub event_time: Option<Located<String>>,
    /// How far event times may lag behind the highest one seen.
    pub watermark_delay_ms: u64,
    /// After how long without rows operators do not wait for its watermark, until its next row; 0:
    /// they always do.
    pub idle_after_ms: u64,
    /// What to do about a malformed row.
    pub on_error: OnError,
    /// Whether the last row must end with a line break.
    pub final_newline: FinalNewline,
    /// Keep only rows whose columns equal these: column and value.
    pub filter: Vec<(Located<String>, FilterValue)>,
    /// Rows read in a second at most; 0: no limit.
    pub rate_limit_rows_per_second: u64,
    /// Types that the file states for columns.
    pub schema: Vec<(Located<String>, ColumnType)>,
}

/// What a column of a kept row equals.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterValue {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A float.
    Float(f64),
    /// Text; also a date, a timestamp or a decimal.
    Text(String),
}

/// As the pipeline file could write it.
impl fmt::Display for FilterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(boolean) => write!(f, "{boolean}"),
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Float(float) => write!(f, "{float:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct OperatorConfig {
    /// Its name in the pipeline: letters, digits, `_` and `-`.
    pub name: String,
    /// How many subtasks it has.
    pub parallelism: u32,
    /// The component file.
    pub component: Located<PathBuf>,
    /// Handed to the operator; a JSON object.
    pub config: String,
    /// How rows are gathered for a call.
    pub batch: BatchConfig,
    /// What an instance may use.
    pub limits: Limits,
    /// What it gets of WASI, where the host permits that; `None`: nothing.
    pub wasi: Option<WasiGrant>,
    /// Whether it is started again after a failure, for whoever runs the pipeline: see
    /// [`Restarts`](crate::Restarts).
    pub restart: RestartPolicy,
    /// Rows that the operator fails on are set aside, so many of a run at most; `None`: its
    /// failure is the pipeline's.
    pub isolated_rows: Option<u64>,
}

/// A kind of sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkType {
    /// Files in a directory, which appear when their checkpoint is complete.
    Files,
    /// A Paimon table.
    Paimon,
    /// Standard output.
    Stdout,
    /// Nowhere; rows are counted.
    Null,
    /// A topic of Kafka.
    Kafka,
}

impl SinkType {
    const CHOICES: &[(&str, Self)] = &[
        ("files", Self::Files),
        ("paimon", Self::Paimon),
        ("stdout", Self::Stdout),
        ("null", Self::Null),
        ("kafka", Self::Kafka),
    ];

    /// As the pipeline file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Paimon => "paimon",
            Self::Stdout => "stdout",
            Self::Null => "null",
            Self::Kafka => "kafka",
        }
    }
}

/// Where to write.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// Its name in the pipeline; `sink` in the short form.
    pub name: String,
    /// The line of its table.
    pub line: u32,
    /// What kind of sink.
    pub sink_type: SinkType,
    /// The directory of a files sink, the warehouse of a table.
    pub path: Option<Located<PathBuf>>,
    /// The directory as the pipeline file writes it; of a table that of the table.
    pub stated_path: Option<String>,
    /// The table of a Paimon sink.
    pub table: Option<TableConfig>,
    /// The topic of a Kafka sink.
    pub topic: Option<SinkTopicConfig>,
    /// The format of files and of standard output.
    pub format: Format,
}

/// A port of the loopback address that rows are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// The port.
    pub port: u16,
    /// When rows are acknowledged.
    pub acknowledge: Acknowledge,
    /// The longest body.
    pub body_bytes: usize,
    /// The most rows of a body.
    pub body_rows: usize,
    /// The most requests at a time.
    pub connections: usize,
    /// The most bytes that wait for the pipeline.
    pub pending_bytes: usize,
}

/// When rows that are sent are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// When a checkpoint is complete that has them.
    Checkpoint,
    /// At once; they are lost if the pipeline ends before a checkpoint has them.
    Received,
}

/// The name of a Paimon table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The database.
    pub database: String,
    /// The name in it.
    pub table: String,
}

impl TableName {
    /// The directory of the table in a warehouse.
    pub fn within(&self, warehouse: &Path) -> PathBuf {
        warehouse.join(format!("{}.db", self.database)).join(&self.table)
    }
}

/// A table that rows are written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableConfig {
    /// Which one.
    pub name: TableName,
    /// Columns of the primary key; empty: rows are appended.
    pub primary_key: Vec<String>,
    /// Buckets of a table with a primary key that is made.
    pub buckets: u32,
}

/// The longest time that a setting may name: a year.
const TIME_LIMIT_MS: u64 = 366 * 24 * 3_600_000;
/// The most subtasks.
const PARALLELISM_LIMIT: u64 = 256;
/// The most bytes that a limit may allow: what 32-bit memories can hold.
const BYTES_LIMIT: u64 = 1 << 32;
/// The most memory that compiling a component may take.
const COMPILE_BYTES_LIMIT: u64 = 1 << 40;
/// The most elements of a table that the engine has room for.
const TABLE_ELEMENTS_LIMIT: u64 = 1 << 16;
/// The most handles that an instance may hold.
const HANDLES_LIMIT: u64 = 1 << 20;
/// The most fuel of a call; a number in TOML has 63 bits.
const FUEL_LIMIT: u64 = i64::MAX.unsigned_abs();
/// The most rows that may be set aside: they are held in memory until the next checkpoint.
const ISOLATED_ROWS_LIMIT: u64 = 100_000;
/// The greatest seed; a number in TOML has 63 bits.
const SEED_LIMIT: u64 = i64::MAX.unsigned_abs();
/// The most bytes that an operator may write to files.
const WRITTEN_BYTES_LIMIT: u64 = 1 << 40;
/// The most directories that an operator gets.
const DIRECTORIES_LIMIT: usize = 16;
/// The most restarts in a window.
const RESTARTS_LIMIT: u64 = 1_000_000;
/// The most checkpoints that may fail one after the other.
const TOLERATED_FAILURES_LIMIT: u64 = 1_000;
/// The most rows that are gathered for a call of an operator.
const BATCH_ROWS_LIMIT: u64 = 1 << 20;
/// How long rows may wait for others to be processed with, at most.
const BATCH_WAIT_LIMIT_MS: u64 = 60_000;
/// The longest pipeline file.
const FILE_LIMIT_BYTES: u64 = 1 << 20;
/// The shortest time that a snapshot outlives its checkpoint. A snapshot is removed file by
/// file, and a reader in between may take a missing index for one without deleted rows.
const SNAPSHOT_RETAINED_LEAST_MS: u64 = 5_000;

impl PipelineConfig {
    /// Reads and checks a pipeline file, and looks for the files that it names. What is wrong is
    /// named with its line.
    pub fn load(path: &Path) -> Result<Self> {
        let config = Self::load_alone(path)?;
        config.find_files()?;
        Ok(config)
    }

    /// The same without a look for the files that it names: enough to find the state of the
    /// pipeline, or to check another component.
    pub fn load_alone(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        // A pipe would be waited for, a device never ends.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            let message = "a pipeline file must be a regular file";
            return Err(Error::config(path, 1, message));
        }
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        file.take(FILE_LIMIT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if u64::try_from(text.len()).is_ok_and(|length| length <= FILE_LIMIT_BYTES) {
            return Self::parse_alone(path, &text);
        }
        Err(Error::config(path, 1, "the file is longer than 1 MiB, too long for a pipeline file"))
    }

    /// What [`PipelineConfig::load`] does, for a text in memory; `path` is what errors name and
    /// what paths are relative to.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let config = Self::parse_alone(path, text)?;
        config.find_files()?;
        Ok(config)
    }

    fn parse_alone(path: &Path, text: &str) -> Result<Self> {
        let problems = Problems::default();
        let document = Document { file: path, text, problems: &problems };
        let table = document.parse()?;
        let root = Section::root(document, table.get_ref(), keys::FILE);
        let config = Self::of(&root, path);
        problems.check(path)?;
        config
            .ok_or_else(|| Error::internal("a pipeline file lacks something, but nothing is wrong"))
    }

    /// `None`: something is wrong.
    fn of(root: &Section<'_>, path: &Path) -> Option<Self> {
        let directory = path.parent().unwrap_or(Path::new(""));
        let name = root.required_text("name").and_then(|name| root.name("name", name));
        let name = name.map(|name| name.value);
        let state_directory = match root.text("state-directory") {
            Some(stated) => directory.join(stated.value),
            None => directory.join(".howdah").join(name.as_deref().unwrap_or_default()),
        };
        let tenant = root.text("tenant").and_then(|tenant| root.name("tenant", tenant));
        let key_groups = root.integer("key-groups");
        let key_groups = key_groups.map_or(KeyGroups::DEFAULT_COUNT, to_u32);
        let parallelism = parallelism(root, key_groups, 1);
        let checkpoint = checkpoint(root);
        let sources = nodes(root, "source");
        let operators = nodes(root, "operator");
        let sinks = nodes(root, "sink");
        let stated = graph::Stated {
            sources: sources.iter().map(Node::stated_source).collect(),
            operators: operators.iter().map(operator::stated).collect(),
            sinks: sinks.iter().map(sink::stated).collect(),
        };
        let source = |node: &Node<'_>| source::source(node, directory, &state_directory);
        let sources: Vec<_> = sources.iter().map(source).collect();
        let operator = |node: &Node<'_>| {
            let parallelism = self::parallelism(&node.section, key_groups, parallelism);
            operator::operator(node, directory, parallelism)
        };
        let operators: Vec<_> = operators.iter().map(operator).collect();
        let sinks: Vec<_> = sinks.iter().map(|node| sink::sink(node, directory)).collect();
        refuse_second_stdout(root, &sinks);
        let connected = stated.connect(&mut |line, problem| root.problem(line, problem));
        let operators: Option<Vec<_>> = operators.into_iter().collect();
        let mut operators: Vec<_> = operators?.into_iter().zip(&connected.order).collect();
        operators.sort_by_key(|(_, place)| **place);
        Some(Self {
            file: path.to_owned(),
            name: name?,
            tenant: tenant.map_or_else(|| "default".to_owned(), |tenant| tenant.value),
            key_groups,
            checkpoint,
            sources: sources.into_iter().collect::<Option<_>>()?,
            operators: operators.into_iter().map(|(operator, _)| operator).collect(),
            sinks: sinks.into_iter().collect::<Option<_>>()?,
            links: connected.links,
            directories: Directories::of_pipeline(path, &state_directory),
            state_directory,
        })
    }

    /// Refuses files that are not there.
    fn find_files(&self) -> Result<()> {
        let sources = self.sources.iter().filter_map(|source| self.missing_source(source));
        let operators = self.operators.iter().filter_map(|operator| {
            let component = &operator.component;
            let problem = problem(&component.value)?;
            let shown = component.value.display();
            let message =
                format!("the component {shown} {problem}; build the operator, or mend the path");
            Some(self.error(component.line, message))
        });
        Error::all(sources.chain(operators).collect())
    }

    /// Refuses source files that are not there.
    pub(crate) fn find_sources(&self) -> Result<()> {
        Error::all(self.sources.iter().filter_map(|source| self.missing_source(source)).collect())
    }

    fn missing_source(&self, source: &SourceConfig) -> Option<Error> {
        let path = &source.path;
        let may_be_many = connectors::has_many(&path.value);
        let is_one = source.connector == SourceConnector::File && !may_be_many;
        let problem = problem(&path.value).filter(|_| is_one)?;
        Some(self.error(path.line, format!("{} {problem}", path.value.display())))
    }

    /// The warehouse directory of the state tables, in the state directory.
    pub fn warehouse(&self) -> PathBuf {
        self.state_directory.join(pipeline::WAREHOUSE)
    }

    /// Where rows are set aside that operators fail on.
    pub fn failed_rows_directory(&self) -> PathBuf {
        self.state_directory.join(isolation::DIRECTORY)
    }

    /// Whether the pipeline is started again after a failure of an operator: as the one of them says
    /// that allows the fewest restarts.
    pub fn restart(&self) -> RestartPolicy {
        let policies = self.operators.iter().map(|operator| operator.restart);
        policies.min_by_key(|policy| policy.limit).unwrap_or_default()
    }

    /// An error on a line of the pipeline file.
    pub(crate) fn error(&self, line: u32, message: impl fmt::Display) -> Error {
        Error::config(&self.file, line, message)
    }
}

impl SourceConfig {
    /// The file or directory; of a table that of the table.
    pub(crate) fn place(&self) -> PathBuf {
        let path = &self.path.value;
        self.table.as_ref().map_or_else(|| path.clone(), |table| table.within(path))
    }

    /// Whether it comes to its end by itself.
    pub(crate) fn is_bounded(&self) -> bool {
        match self.connector {
            SourceConnector::File | SourceConnector::Paimon => !self.follow,
            SourceConnector::Nexmark { events } => events.is_some(),
            SourceConnector::Http => false,
            SourceConnector::Kafka => self.topic.as_ref().is_some_and(|topic| topic.bounded),
        }
    }

    /// The dead-letter file, if malformed rows go to one.
    pub fn dead_letter_file(&self) -> Option<&Path> {
        self.dead_letters().map(|path| path.value.as_path())
    }

    /// The same with the line that names it.
    pub(crate) fn dead_letters(&self) -> Option<&Located<PathBuf>> {
        match &self.on_error {
            OnError::DeadLetter(path) => Some(path),
            OnError::Fail | OnError::Skip => None,
        }
    }
}

impl SinkConfig {
    /// The directory that the sink writes to; of a table that of the table.
    pub(crate) fn place(&self) -> Option<Located<PathBuf>> {
        let Located { value: path, line } = self.path.as_ref()?;
        let table = self.table.as_ref();
        let value = table.map_or_else(|| path.clone(), |table| table.name.within(path));
        Some(Located { value, line: *line })
    }
}

/// Why a path is no file.
fn problem(path: &Path) -> Option<&'static str> {
    match (path.is_file(), path.exists()) {
        (true, _) => None,
        (false, true) => Some("is no file"),
        (false, false) => Some("does not exist"),
    }
}

/// A source, an operator or a sink.
struct Node<'a> {
    section: Section<'a>,
    /// `None`: it is the only one, in the short form.
    name: Option<Located<String>>,
}

impl Node<'_> {
    fn name_or(&self, default: &str) -> String {
        self.name.as_ref().map_or_else(|| default.to_owned(), |name| name.value.clone())
    }

    fn stated_source(&self) -> Located<String> {
        Located { value: self.name_or("source"), line: self.section.line() }
    }
}

/// The tables `[kind.NAME]`, or the table `[kind]`: that is one with keys of its own, which are no
/// names.
fn nodes<'a>(root: &Section<'a>, kind: &str) -> Vec<Node<'a>> {
    let all = root.open_section(kind);
    let entries = all.entries();
    // Rows can go from a source to a sink as they are.
    if !root.has(kind) && kind != "operator" {
        root.problem(1, format!("there is no [{kind}] table"));
    }
    if !all.is_there() {
        return Vec::new();
    }
    let is_own = |(key, value): &(Located<String>, &toml::Spanned<toml::de::DeValue<'_>>)| {
        all.is_own(&key.value) || !value.get_ref().is_table()
    };
    if entries.is_empty() || entries.iter().any(is_own) {
        all.refuse_unknown();
        return vec![Node { section: all.only(), name: None }];
    }
    let named = entries.into_iter().filter_map(|(name, _)| {
        let section = all.section(&name.value);
        let what = format!("the name of [{kind}.{}]", name.value);
        section.is_name(&what, &name).then_some(Node { section, name: Some(name) })
    });
    named.collect()
}

/// Rows of several sinks would be mixed.
fn refuse_second_stdout(root: &Section<'_>, sinks: &[Option<SinkConfig>]) {
    let mut stdout = sinks.iter().flatten().filter(|sink| sink.sink_type == SinkType::Stdout);
    let Some(first) = stdout.next() else { return };
    for sink in stdout {
        let message = format!(
            "sink `{}` writes to standard output, as `{}` does; one can",
            sink.name, first.name
        );
        root.problem(sink.line, message);
    }
}

fn parallelism(section: &Section<'_>, key_groups: u32, default: u32) -> u32 {
    // Each subtask owns one key group at least.
    let limit = u64::from(key_groups);
    section.integer_up_to("parallelism", limit, "").map_or(default, to_u32)
}

fn checkpoint(root: &Section<'_>) -> CheckpointConfig {
    let section = root.section("checkpoint");
    let retained = section.integer("retained").unwrap_or(3);
    let snapshot_retained_ms = section.integer_up_to(
        "snapshot-retained-ms",
        u64::MAX,
        "; with less, a reader may see a snapshot that is half removed",
    );
    CheckpointConfig {
        interval_ms: section.integer("interval-ms").unwrap_or(500),
        retained: usize::try_from(retained).unwrap_or(usize::MAX),
        sync: section.boolean("sync").unwrap_or(true),
        snapshot_retained_ms: snapshot_retained_ms.unwrap_or(60_000),
        least_pause_ms: section.integer("least-pause-ms").unwrap_or(0),
        timeout_ms: section.integer("timeout-ms").unwrap_or(600_000),
        tolerated_failures: section.integer("tolerated-failures").map_or(0, to_u32),
    }
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

//! The pipeline file.
//!
//! ```toml
//! name = "q18"
//! parallelism = 2                 # 1 unless stated
//! state-directory = "state"       # .howdah/<name> beside the pipeline file unless stated
//! tenant = "default"
//! key-groups = 1024
//!
//! [checkpoint]
//! interval-ms = 500
//! retained = 3
//! sync = true                     # fsync files and directories
//! snapshot-retained-ms = 60000    # 5000 at least
//!
//! [source]
//! path = "events.csv"
//! format = "csv"                  # csv, ndjson or parquet; unless stated, what the extension says
//! event-time = "date_time"
//! watermark-delay-ms = 4000
//! on-error = "fail"               # fail, skip or dead-letter
//! dead-letter = "bad.ndjson"      # only with on-error = "dead-letter"
//! final-newline = "required"      # or optional
//! filter = { event_type = 2 }     # keep rows whose columns equal these
//! rate-limit-rows-per-second = 0  # 0: no limit
//! [source.schema]                 # column = "type", where the operator's or a guess won't do
//! seq = "int64"
//!
//! [operator]
//! name = "last-bid"
//! component = "last-bid.wasm"
//! key = ["bidder", "auction"]     # source columns for the key fields, by position
//! columns = { price = "p" }       # operator field = source column
//! [operator.config]               # handed to the operator as JSON
//! [operator.limits]               # memory-bytes, table-elements, handles, call-timeout-ms,
//!                                 # call-fuel, batch-bytes, batch-rows, compile-timeout-ms,
//!                                 # compile-memory-bytes
//! [operator.wasi]                 # random-seed, written-bytes; with `--allow-wasi` alone
//! [operator.wasi.directories]     # "/name" = "path", or { path = "path", access = "read-write" }
//! [operator.failure]              # policy, isolated-rows, restarts, restart-window-ms,
//!                                 # restart-backoff-ms, restart-backoff-limit-ms
//!
//! [sink]
//! type = "files"                  # files, stdout or null
//! path = "out"                    # its own: files in it called part-<number>-<number>.<format>
//!                                 # are the pipeline's, which removes those that no checkpoint has
//! format = "csv"                  # csv, ndjson or parquet
//! ```

mod section;

use crate::error::{Error, Result};
use crate::pipeline;
use crate::restart::RestartPolicy;
use howdah_runtime::{Access, DirectoryGrant, Limits, WasiGrant};
use howdah_state::{ColumnType, KeyGroups};
pub(crate) use section::enumerate;
use section::{Document, Section};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;
use toml::de::DeValue;

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
    /// How many subtasks the operator has.
    pub parallelism: u32,
    /// Where state, checkpoints and the lock are.
    pub state_directory: PathBuf,
    /// Names the database of the state tables.
    pub tenant: String,
    /// How many key groups there are; fixed for the life of the state.
    pub key_groups: u32,
    /// When and how to checkpoint.
    pub checkpoint: CheckpointConfig,
    /// What to read.
    pub source: SourceConfig,
    /// What to run.
    pub operator: OperatorConfig,
    /// Where to write.
    pub sink: SinkConfig,
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

/// What to read.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The file.
    pub path: Located<PathBuf>,
    /// The path as the pipeline file writes it.
    pub stated_path: String,
    /// Its format.
    pub format: Format,
    /// The column with the event time; `None`: event times are 0 and there is no watermark.
    pub event_time: Option<Located<String>>,
    /// How far event times may lag behind the highest one seen.
    pub watermark_delay_ms: u64,
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
    /// The component file.
    pub component: Located<PathBuf>,
    /// Source columns for the operator's key fields, by position; empty: by name.
    pub key: Vec<Located<String>>,
    /// Operator field and the source column that it takes.
    pub columns: Vec<(Located<String>, Located<String>)>,
    /// Handed to the operator; a JSON object.
    pub config: String,
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
    /// Standard output.
    Stdout,
    /// Nowhere; rows are counted.
    Null,
}

impl SinkType {
    const CHOICES: &[(&str, Self)] =
        &[("files", Self::Files), ("stdout", Self::Stdout), ("null", Self::Null)];

    /// As the pipeline file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Stdout => "stdout",
            Self::Null => "null",
        }
    }
}

/// Where to write.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// What kind of sink.
    pub sink_type: SinkType,
    /// The directory of a files sink.
    pub path: Option<Located<PathBuf>>,
    /// The directory as the pipeline file writes it.
    pub stated_path: Option<String>,
    /// The format of files and of standard output.
    pub format: Format,
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
        let document = Document { file: path, text };
        let table = document.parse()?;
        let known = [
            "name",
            "parallelism",
            "state-directory",
            "tenant",
            "key-groups",
            "checkpoint",
            "source",
            "operator",
            "sink",
        ];
        let root = Section::root(document, table.get_ref(), &known)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let name = root.name("name", root.required_text("name")?)?.value;
        let state_directory = match root.text("state-directory")? {
            Some(stated) => directory.join(stated.value),
            None => directory.join(".howdah").join(&name),
        };
        let tenant = match root.text("tenant")? {
            Some(stated) => root.name("tenant", stated)?.value,
            None => "default".to_owned(),
        };
        let key_groups = root.integer("key-groups", 1..=u64::from(KeyGroups::COUNT_LIMIT))?;
        let key_groups = key_groups.map_or(KeyGroups::DEFAULT_COUNT, to_u32);
        // Each subtask owns one key group at least.
        let parallelism_limit = PARALLELISM_LIMIT.min(u64::from(key_groups));
        let parallelism = root.integer("parallelism", 1..=parallelism_limit)?;
        Ok(Self {
            file: path.to_owned(),
            name,
            parallelism: to_u32(parallelism.unwrap_or(1)),
            tenant,
            key_groups,
            checkpoint: checkpoint(&root)?,
            source: source(&root, directory, &state_directory)?,
            operator: operator(&root, directory)?,
            sink: sink(&root, directory)?,
            state_directory,
        })
    }

    /// Refuses files that are not there.
    fn find_files(&self) -> Result<()> {
        self.find_source()?;
        let component = &self.operator.component;
        match problem(&component.value) {
            None => Ok(()),
            Some(problem) => {
                let shown = component.value.display();
                let message = format!(
                    "the component {shown} {problem}; build the operator, or mend the path"
                );
                Err(self.error(component.line, message))
            }
        }
    }

    /// Refuses a source file that is not there.
    pub(crate) fn find_source(&self) -> Result<()> {
        let path = &self.source.path;
        match problem(&path.value) {
            None => Ok(()),
            Some(problem) => {
                Err(self.error(path.line, format!("{} {problem}", path.value.display())))
            }
        }
    }

    /// The warehouse directory of the state tables, in the state directory.
    pub fn warehouse(&self) -> PathBuf {
        self.state_directory.join(pipeline::WAREHOUSE)
    }

    /// The dead-letter file, if malformed rows go to one.
    pub fn dead_letter_file(&self) -> Option<&Path> {
        self.dead_letters().map(|path| path.value.as_path())
    }

    /// The same with the line that names it.
    pub(crate) fn dead_letters(&self) -> Option<&Located<PathBuf>> {
        match &self.source.on_error {
            OnError::DeadLetter(path) => Some(path),
            OnError::Fail | OnError::Skip => None,
        }
    }

    /// An error on a line of the pipeline file.
    pub(crate) fn error(&self, line: u32, message: impl fmt::Display) -> Error {
        Error::config(&self.file, line, message)
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

fn checkpoint(root: &Section<'_>) -> Result<CheckpointConfig> {
    let known = ["interval-ms", "retained", "sync", "snapshot-retained-ms"];
    let section = root.section("checkpoint", &known)?;
    let retained = section.integer("retained", 1..=1_000)?.unwrap_or(3);
    let snapshot_retained = "snapshot-retained-ms";
    let snapshot_retained_ms = section.integer(snapshot_retained, 0..=TIME_LIMIT_MS)?;
    section.integer(snapshot_retained, SNAPSHOT_RETAINED_LEAST_MS..=TIME_LIMIT_MS).map_err(
        |error| error.with_hint("with less, a reader may see a snapshot that is half removed"),
    )?;
    Ok(CheckpointConfig {
        interval_ms: section.integer("interval-ms", 1..=TIME_LIMIT_MS)?.unwrap_or(500),
        retained: usize::try_from(retained).unwrap_or(usize::MAX),
        sync: section.boolean("sync")?.unwrap_or(true),
        snapshot_retained_ms: snapshot_retained_ms.unwrap_or(60_000),
    })
}

fn source(root: &Section<'_>, directory: &Path, state_directory: &Path) -> Result<SourceConfig> {
    let known = [
        "path",
        "format",
        "event-time",
        "watermark-delay-ms",
        "on-error",
        "dead-letter",
        "final-newline",
        "filter",
        "rate-limit-rows-per-second",
        "schema",
    ];
    let section = root.section("source", &known)?.required()?;
    let stated = section.required_text("path")?;
    let path = Located { value: directory.join(&stated.value), line: stated.line };
    let format = match section.choice("format", Format::CHOICES)? {
        Some(format) => format,
        None => Format::from_extension(&path.value).ok_or_else(|| {
            section.error(
                path.line,
                format!(
                    "the extension of `{}` says no format; add format = \"csv\", \"ndjson\" or \
                     \"parquet\"",
                    stated.value
                ),
            )
        })?,
    };
    let final_newline = section.choice(
        "final-newline",
        &[("required", FinalNewline::Required), ("optional", FinalNewline::Optional)],
    )?;
    Ok(SourceConfig {
        path,
        stated_path: stated.value,
        format,
        event_time: section.text("event-time")?,
        watermark_delay_ms: section.integer("watermark-delay-ms", 0..=TIME_LIMIT_MS)?.unwrap_or(0),
        on_error: on_error(&section, directory, state_directory)?,
        final_newline: final_newline.unwrap_or(FinalNewline::Required),
        filter: filter(&section.open_section("filter")?)?,
        rate_limit_rows_per_second: section
            .integer("rate-limit-rows-per-second", 0..=1_000_000_000)?
            .unwrap_or(0),
        schema: schema(&section.open_section("schema")?)?,
    })
}

fn on_error(section: &Section<'_>, directory: &Path, state_directory: &Path) -> Result<OnError> {
    let choices = [("fail", 0), ("skip", 1), ("dead-letter", 2)];
    let choice = section.choice("on-error", &choices)?;
    let file = section.text("dead-letter")?;
    match (choice, file) {
        (Some(2), None) => Ok(OnError::DeadLetter(Located {
            value: state_directory.join("dead-letter.ndjson"),
            line: section.line(),
        })),
        (Some(2) | None, Some(file)) => {
            Ok(OnError::DeadLetter(Located { value: directory.join(file.value), line: file.line }))
        }
        (Some(_), Some(file)) => {
            Err(section
                .error(file.line, "`dead-letter` in [source] needs on-error = \"dead-letter\""))
        }
        (Some(1), None) => Ok(OnError::Skip),
        (_, None) => Ok(OnError::Fail),
    }
}

fn filter(section: &Section<'_>) -> Result<Vec<(Located<String>, FilterValue)>> {
    let mut filter = Vec::new();
    for (column, value) in section.entries() {
        let kept = match value.get_ref() {
            DeValue::Boolean(boolean) => FilterValue::Boolean(*boolean),
            DeValue::Integer(integer) => {
                let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
                FilterValue::Integer(parsed.map_err(|_| {
                    section.wrong_type(&column.value, value, "a 64-bit whole number")
                })?)
            }
            DeValue::Float(float) => {
                let parsed = float.as_str().parse();
                FilterValue::Float(
                    parsed.map_err(|_| section.wrong_type(&column.value, value, "a float"))?,
                )
            }
            DeValue::String(text) => FilterValue::Text(text.clone().into_owned()),
            DeValue::Datetime(datetime) => FilterValue::Text(datetime.to_string()),
            DeValue::Array(_) | DeValue::Table(_) => {
                return Err(section.wrong_type(&column.value, value, "one value"));
            }
        };
        filter.push((column, kept));
    }
    Ok(filter)
}

fn schema(section: &Section<'_>) -> Result<Vec<(Located<String>, ColumnType)>> {
    let typed = |(column, value): (Located<String>, &Spanned<DeValue<'_>>)| {
        let text = section.text_of(&column.value, value)?;
        let column_type = ColumnType::from_str(&text.value).map_err(|error| {
            let close = suggestion_of_type(&text.value);
            section
                .error(text.line, format!("{} is {error}{close}", section.describe(&column.value)))
        })?;
        Ok((column, column_type))
    };
    section.entries().into_iter().map(typed).collect()
}

/// Names that other systems have for our types.
fn suggestion_of_type(text: &str) -> String {
    let known = match text.to_ascii_lowercase().as_str() {
        "int" | "integer" => "int32",
        "long" | "bigint" => "int64",
        "float" | "real" => "float32",
        "double" => "float64",
        "string" | "text" | "varchar" => "utf8",
        "bool" => "boolean",
        "bytes" | "varbinary" => "binary",
        "timestamp" | "datetime" => "timestamp-millis",
        _ => return String::new(),
    };
    format!("; did you mean `{known}`?")
}

fn operator(root: &Section<'_>, directory: &Path) -> Result<OperatorConfig> {
    let known = ["name", "component", "key", "columns", "config", "limits", "wasi", "failure"];
    let section = root.section("operator", &known)?.required()?;
    let component = section.required_text("component")?;
    let component = Located { value: directory.join(component.value), line: component.line };
    let columns = section.open_section("columns")?;
    let columns = columns.entries().into_iter().map(|(field, value)| {
        let column = columns.text_of(&field.value, value)?;
        Ok((field, column))
    });
    let failure = [
        "policy",
        "isolated-rows",
        "restarts",
        "restart-window-ms",
        "restart-backoff-ms",
        "restart-backoff-limit-ms",
    ];
    let failure = section.section("failure", &failure)?;
    Ok(OperatorConfig {
        name: section.name("name", section.required_text("name")?)?.value,
        component,
        key: section.texts("key")?,
        columns: columns.collect::<Result<_>>()?,
        config: json_object(&section.open_section("config")?)?,
        limits: limits(&section)?,
        wasi: wasi(&section, directory)?,
        restart: restart(&failure)?,
        isolated_rows: isolated_rows(&failure)?,
    })
}

/// What the operator gets of WASI, if the file says so.
fn wasi(operator: &Section<'_>, directory: &Path) -> Result<Option<WasiGrant>> {
    let section = operator.section("wasi", &["random-seed", "written-bytes", "directories"])?;
    if !section.is_there() {
        return Ok(None);
    }
    let default = WasiGrant::default();
    let seed = section.integer("random-seed", 0..=SEED_LIMIT)?;
    let written = section.integer("written-bytes", 0..=WRITTEN_BYTES_LIMIT)?;
    let directories = section.open_section("directories")?;
    let entries = directories.entries();
    if entries.len() > DIRECTORIES_LIMIT {
        let message = format!("[operator.wasi.directories] has more than {DIRECTORIES_LIMIT}");
        return Err(section.error(directories.line(), message));
    }
    let granted = entries.into_iter().map(|(name, value)| {
        let what = directories.describe(&name.value);
        if !name.value.starts_with('/') || name.value.len() > 255 {
            let message = format!("{what} must begin with / and have 255 bytes at most");
            return Err(directories.error(name.line, message));
        }
        let (path, access) = match value.get_ref() {
            DeValue::Table(_) => {
                let granted = directories.section(&name.value, &["path", "access"])?;
                let choices = [("read", Access::Read), ("read-write", Access::ReadWrite)];
                (granted.required_text("path")?, granted.choice("access", &choices)?)
            }
            _ => (directories.text_of(&name.value, value)?, None),
        };
        let access = access.unwrap_or(Access::Read);
        Ok(DirectoryGrant { name: name.value, path: directory.join(path.value), access })
    });
    Ok(Some(WasiGrant {
        directories: granted.collect::<Result<_>>()?,
        random_seed: seed.unwrap_or(default.random_seed),
        written_limit_bytes: written.unwrap_or(default.written_limit_bytes),
    }))
}

/// How many rows may be set aside, if any.
fn isolated_rows(section: &Section<'_>) -> Result<Option<u64>> {
    let policy = section.choice("policy", &[("fail", false), ("isolate", true)])?;
    let limit = section.integer("isolated-rows", 0..=ISOLATED_ROWS_LIMIT)?;
    match (policy, limit) {
        (Some(true), limit) => Ok(Some(limit.unwrap_or(1_000))),
        (_, None) => Ok(None),
        (_, Some(_)) => Err(section.error(
            section.line(),
            "`isolated-rows` in [operator.failure] needs policy = \"isolate\"",
        )),
    }
}

fn restart(section: &Section<'_>) -> Result<RestartPolicy> {
    let default = RestartPolicy::default();
    let time_ms = |key, default: u64| -> Result<u64> {
        Ok(section.integer(key, 1..=TIME_LIMIT_MS)?.unwrap_or(default))
    };
    Ok(RestartPolicy {
        limit: section.integer("restarts", 0..=RESTARTS_LIMIT)?.map_or(default.limit, to_u32),
        window_ms: time_ms("restart-window-ms", default.window_ms)?,
        backoff_ms: time_ms("restart-backoff-ms", default.backoff_ms)?,
        backoff_limit_ms: time_ms("restart-backoff-limit-ms", default.backoff_limit_ms)?,
    })
}

fn limits(operator: &Section<'_>) -> Result<Limits> {
    let known = [
        "memory-bytes",
        "table-elements",
        "handles",
        "call-timeout-ms",
        "call-fuel",
        "batch-bytes",
        "batch-rows",
        "compile-timeout-ms",
        "compile-memory-bytes",
    ];
    let section = operator.section("limits", &known)?;
    let default = Limits::default();
    let number = |key, most: u64, default: usize| -> Result<usize> {
        let stated = section.integer(key, 1..=most)?;
        Ok(stated.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX)))
    };
    let time_ms = |key, default: u64| -> Result<u64> {
        Ok(section.integer(key, 1..=TIME_LIMIT_MS)?.unwrap_or(default))
    };
    Ok(Limits {
        memory_bytes: number("memory-bytes", BYTES_LIMIT, default.memory_bytes)?,
        table_elements: number("table-elements", TABLE_ELEMENTS_LIMIT, default.table_elements)?,
        handles: number("handles", HANDLES_LIMIT, default.handles)?,
        call_timeout_ms: time_ms("call-timeout-ms", default.call_timeout_ms)?,
        call_fuel: section.integer("call-fuel", 1..=FUEL_LIMIT)?,
        batch_bytes: number("batch-bytes", BYTES_LIMIT, default.batch_bytes)?,
        batch_rows: number("batch-rows", u64::from(u32::MAX), default.batch_rows)?,
        compile_timeout_ms: time_ms("compile-timeout-ms", default.compile_timeout_ms)?,
        compile_memory_bytes: number(
            "compile-memory-bytes",
            COMPILE_BYTES_LIMIT,
            default.compile_memory_bytes,
        )?,
    })
}

/// A free table as a JSON object.
fn json_object(section: &Section<'_>) -> Result<String> {
    let mut object = serde_json::Map::new();
    for (key, value) in section.entries() {
        let json = json(section, &key.value, value)?;
        object.insert(key.value, json);
    }
    Ok(serde_json::Value::Object(object).to_string())
}

fn json(
    section: &Section<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<serde_json::Value> {
    use serde_json::Value;
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(integer) => {
            let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
            Value::from(
                parsed.map_err(|_| section.wrong_type(key, value, "a 64-bit whole number"))?,
            )
        }
        DeValue::Float(float) => {
            let parsed = float.as_str().parse::<f64>().ok();
            let number = parsed.and_then(serde_json::Number::from_f64);
            Value::Number(number.ok_or_else(|| {
                let (what, stated) = (section.describe(key), float.as_str());
                let message = format!("{what} is {stated}, and JSON has finite numbers alone");
                section.error(section.line_of(value), message)
            })?)
        }
        DeValue::Boolean(boolean) => Value::Bool(*boolean),
        DeValue::Datetime(datetime) => Value::String(datetime.to_string()),
        DeValue::Array(array) => {
            let values = array.iter().map(|value| json(section, key, value));
            Value::Array(values.collect::<Result<_>>()?)
        }
        DeValue::Table(table) => {
            let entries = table
                .iter()
                .map(|(key, value)| Ok((key.to_string(), json(section, key.get_ref(), value)?)));
            Value::Object(entries.collect::<Result<_>>()?)
        }
    })
}

fn sink(root: &Section<'_>, directory: &Path) -> Result<SinkConfig> {
    let section = root.section("sink", &["type", "path", "format"])?.required()?;
    let sink_type = section.choice("type", SinkType::CHOICES)?;
    let sink_type = sink_type.ok_or_else(|| {
        section.error(section.line(), "[sink] lacks `type`: \"files\", \"stdout\" or \"null\"")
    })?;
    let stated = section.text("path")?;
    let stated_path = stated.as_ref().map(|stated| stated.value.clone());
    let path =
        stated.map(|stated| Located { value: directory.join(stated.value), line: stated.line });
    match (sink_type, &path) {
        (SinkType::Files, None) => {
            return Err(section
                .error(section.line(), "[sink] lacks `path`, the directory that the files go to"));
        }
        (SinkType::Stdout | SinkType::Null, Some(path)) => {
            return Err(section
                .error(path.line, "`path` in [sink] is for type = \"files\" alone; remove it"));
        }
        _ => {}
    }
    let format = section.choice("format", Format::CHOICES)?;
    let default = if sink_type == SinkType::Files { Format::Csv } else { Format::Ndjson };
    let format = format.unwrap_or(default);
    if sink_type == SinkType::Stdout && format == Format::Parquet {
        return Err(section.error(
            section.line(),
            "standard output takes format = \"csv\" or \"ndjson\", not parquet",
        ));
    }
    Ok(SinkConfig { sink_type, path, stated_path, format })
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

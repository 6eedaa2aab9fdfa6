//! Checkpoint documents: what a pipeline goes on from.
//!
//! A document is one JSON object in one file, `checkpoint-<id>.json`:
//!
//! ```json
//! {"howdah-checkpoint":2,"crc32":"5d1c0f2a","body":{"id":7, ...}}
//! ```
//!
//! The first member is the version of the format, the second the CRC-32 of the body's bytes.
//! The text around the body is fixed to the byte, so that no flipped bit goes unnoticed.

mod version_1;

use crate::config::enumerate;
use crate::connector::Kept;
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use howdah_runtime::OperatorSpec;
use howdah_state::{Column, StateDescriptor, StateKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// The version of the format that is written. Version 1 is read too.
const VERSION: u32 = 2;
/// The directory of the documents in a state directory.
pub(crate) const DIRECTORY: &str = "checkpoints";
/// Begins the names of files in it; the number of the checkpoint follows.
const PREFIX: &str = "checkpoint-";
/// Ends the name of a document.
const DOCUMENT: &str = ".json";
/// Ends the name of the file that pins a checkpoint.
const PIN: &str = ".pin";
/// The file that is locked while pins are looked at or made.
const PINS_LOCK: &str = "PINS";

/// Where a source was at the barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SourcePosition {
    /// The connector that it belongs to: `file`, ...
    pub connector: String,
    /// Rows before it: all that the source read, filtered and malformed ones included.
    pub rows: u64,
    /// What the connector makes of it; nobody else reads it.
    pub at: serde_json::Value,
}

impl SourcePosition {
    /// A position with what a connector says of it.
    pub(crate) fn new(connector: &str, rows: u64, at: &impl Serialize) -> Result<Self> {
        Ok(Self { connector: connector.to_owned(), rows, at: value(at)? })
    }

    /// What the connector has written; the position of another one is refused.
    pub(crate) fn read<'de, T: Deserialize<'de>>(&'de self, connector: &str) -> Result<T> {
        Kept::Position.check(connector, &self.connector)?;
        Kept::Position.read(connector, &self.at)
    }

    /// The offset of the first byte that is not in the checkpoint, where the source is a file.
    pub fn byte_offset(&self) -> Option<u64> {
        self.at.get("byte-offset")?.as_u64()
    }
}

/// Where the dead-letter file was at the barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DeadLetterPosition {
    /// Relative to the state directory if it is in it, else from the root.
    pub path: String,
    /// The length of the file.
    pub bytes: u64,
}

/// Where a state table was at the barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StatePosition {
    /// The name that the operator declared.
    pub state: String,
    /// The name of its table, `<pipeline>__<operator>__<state>`.
    pub table: String,
    /// The snapshot of the table that holds exactly what the barrier saw.
    pub snapshot: i64,
}

/// Output of one subtask since the checkpoint before, as the sink has prepared it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SinkHandle {
    /// Rows in it.
    pub rows: u64,
    /// Its length, as far as it has one.
    pub bytes: u64,
    /// What the connector makes visible; nobody else reads it.
    pub value: serde_json::Value,
}

impl SinkHandle {
    /// A handle with what a connector says of it.
    pub(crate) fn new(rows: u64, bytes: u64, what: &impl Serialize) -> Result<Self> {
        Ok(Self { rows, bytes, value: value(what)? })
    }

    /// What the connector has written.
    pub(crate) fn read<'de, T: Deserialize<'de>>(&'de self, connector: &str) -> Result<T> {
        Kept::Output.read(connector, &self.value)
    }
}

fn value(of: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(of)
        .map_err(|error| Error::internal(format!("a position is no JSON: {error}")))
}

/// What must be the same in a pipeline that goes on from a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Shape {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The database of the state tables.
    pub tenant: String,
    /// How many key groups there are.
    pub key_groups: u32,
    /// What is read.
    pub sources: Vec<SourceShape>,
    /// What runs.
    pub operators: Vec<OperatorShape>,
    /// Where rows go.
    pub sinks: Vec<SinkShape>,
}

/// What must be the same of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SourceShape {
    /// Its name in the pipeline.
    pub name: String,
    /// Its path as the pipeline file writes it.
    pub path: String,
    /// Its format.
    pub format: String,
    /// The column with the event time.
    pub event_time: Option<String>,
    /// What kept rows equal, as `column = value`.
    pub filter: Vec<String>,
    /// Types that the pipeline file states, as `column type`.
    pub schema: Vec<String>,
}

/// What must be the same of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OperatorShape {
    /// Its name in the pipeline.
    pub name: String,
    /// How many subtasks it has.
    pub parallelism: u32,
    /// What it takes.
    pub inputs: Vec<InputShape>,
    /// For each state its name and columns.
    pub states: Vec<StateShape>,
}

/// What must be the same of an operator's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct InputShape {
    /// Its name; documents of version 1 do not say it.
    pub name: Option<String>,
    /// What it takes the rows of: a source, or an operator and its output.
    pub from: String,
    /// For each field the column that it takes, as `field = column`.
    pub columns: Vec<String>,
}

/// What must be the same of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SinkShape {
    /// Its name in the pipeline.
    pub name: String,
    /// What it takes the rows of; documents of version 1 do not say it.
    pub from: Option<String>,
    /// Its kind.
    pub kind: String,
    /// The directory of a files sink as the pipeline file writes it.
    pub path: Option<String>,
    /// Its format.
    pub format: String,
}

/// The columns of a state, or of timers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StateShape {
    /// The name that the operator declared.
    pub state: String,
    /// The version that the operator declared.
    pub schema_version: u32,
    /// What its rows are: `value`, `list`, `map`, `reducing(sum, max)`, `timers`.
    #[serde(default = "value_kind")]
    pub kind: String,
    /// Key columns, as `name type` or `name type nullable`.
    pub key: Vec<String>,
    /// Columns of the map key, the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub map_key: Vec<String>,
    /// Value columns, the same way.
    pub value: Vec<String>,
    /// How long its rows live after they were last written, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

impl StateShape {
    /// Those of an operator: its states, then its timers.
    pub(crate) fn of_spec(spec: &OperatorSpec) -> Vec<Self> {
        let describe = |column: &Column| {
            let nullable = if column.nullable { " nullable" } else { "" };
            format!("{} {}{nullable}", column.name, column.column_type)
        };
        let columns = |columns: &[Column]| columns.iter().map(describe).collect::<Vec<String>>();
        // Timers have no version.
        let versions = spec.states.iter().map(|state| state.schema_version);
        let versions = versions.chain(std::iter::repeat(0));
        // Their names are those of the operator alone.
        let tables = spec.tables("", "");
        let shape = |(table, schema_version): (&StateDescriptor, u32)| Self {
            state: table.state.clone(),
            schema_version,
            kind: table.kind.to_string(),
            key: columns(&table.key),
            map_key: match &table.kind {
                StateKind::Map { map_key } => columns(map_key),
                _ => Vec::new(),
            },
            value: columns(&table.value),
            ttl_ms: table.ttl_ms,
        };
        tables.iter().zip(versions).map(shape).collect()
    }

    /// In words.
    pub(crate) fn describe(&self) -> String {
        let StateShape { kind, key, map_key, value, schema_version, ttl_ms, .. } = self;
        if kind == "timers" {
            return format!("(timers; key: {})", key.join(", "));
        }
        let kind = if kind == "value" { String::new() } else { format!("{kind}; ") };
        let map_key = match map_key.as_slice() {
            [] => String::new(),
            map_key => format!("; map key: {}", map_key.join(", ")),
        };
        let ttl = ttl_ms.map_or(String::new(), |ttl_ms| format!("; lives {ttl_ms} ms"));
        let (key, value) = (key.join(", "), value.join(", "));
        format!("({kind}key: {key}{map_key}; value: {value}{ttl}; version {schema_version})")
    }
}

/// The kind of all states in documents that do not say it.
fn value_kind() -> String {
    "value".to_owned()
}

/// A completed checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Checkpoint {
    /// Its number; increases over the life of the pipeline.
    pub id: u64,
    /// When it was written, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// The pipeline that it belongs to.
    pub shape: Shape,
    /// One for each source, in the order of the shape.
    pub sources: Vec<SourceCheckpoint>,
    /// One for each operator.
    pub operators: Vec<OperatorCheckpoint>,
    /// One for each sink.
    pub sinks: Vec<SinkCheckpoint>,
}

/// A source at the barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SourceCheckpoint {
    /// Its name in the pipeline.
    pub name: String,
    /// Where it was.
    pub position: SourcePosition,
    /// Whether it was at its end, and the operators knew it.
    pub closed: bool,
    /// Its watermark, in milliseconds since the Unix epoch.
    pub watermark: Option<i64>,
    /// Its dead-letter file, if there is one or was one before.
    pub dead_letters: Option<DeadLetterPosition>,
}

/// An operator at the barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OperatorCheckpoint {
    /// Its name in the pipeline.
    pub name: String,
    /// SHA-256 of the component that ran.
    pub component: String,
    /// CRC-32 of its configuration, as JSON. Older documents do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_crc32: Option<u32>,
    /// Its watermark, in milliseconds since the Unix epoch: the highest of its subtasks. `None`: it
    /// had none, or the document is older; then it is what those of its inputs come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<i64>,
    /// One for each of its states, and of its families of timers.
    pub states: Vec<StatePosition>,
}

/// What a sink has of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SinkCheckpoint {
    /// Its name in the pipeline.
    pub name: String,
    /// The connector that the handles belong to: `files`, `stdout`, ...
    pub connector: String,
    /// The output that it makes visible, by who writes it; one without rows has none.
    pub handles: Vec<SinkHandle>,
}

impl Checkpoint {
    /// What it knows of a source.
    pub fn source(&self, name: &str) -> Option<&SourceCheckpoint> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// What it knows of an operator.
    pub fn operator(&self, name: &str) -> Option<&OperatorCheckpoint> {
        self.operators.iter().find(|operator| operator.name == name)
    }

    /// What it knows of a sink.
    pub fn sink(&self, name: &str) -> Option<&SinkCheckpoint> {
        self.sinks.iter().find(|sink| sink.name == name)
    }

    /// Rows that all sources had read.
    pub fn rows(&self) -> u64 {
        self.sources.iter().map(|source| source.position.rows).sum()
    }

    /// The watermark of the source that is farthest behind; `None`: one has none.
    pub fn watermark(&self) -> Option<i64> {
        let watermarks = self.sources.iter().map(|source| source.watermark);
        watermarks.min().flatten()
    }

    /// Whether an operator has a state, or timers, of this name. One that it lacks begins empty.
    pub(crate) fn has_state(&self, operator: &str, state: &str) -> bool {
        let operators = self.shape.operators.iter().filter(|shape| shape.name == operator);
        operators.flat_map(|shape| &shape.states).any(|shape| shape.state == state)
    }

    /// Where all states of all operators were.
    pub fn states(&self) -> impl Iterator<Item = &StatePosition> {
        self.operators.iter().flat_map(|operator| &operator.states)
    }
}

impl OperatorCheckpoint {
    /// Whether the operator's configuration was another one than this.
    pub(crate) fn has_other_config(&self, config: &str) -> bool {
        self.config_crc32.is_some_and(|stored| stored != config_crc32(config))
    }
}

/// The CRC-32 of an operator's configuration.
pub(crate) fn config_crc32(config: &str) -> u32 {
    crc32fast::hash(config.as_bytes())
}

/// A checkpoint document in a state directory.
#[derive(Debug)]
pub struct CheckpointEntry {
    /// Its number, from the file name.
    pub id: u64,
    /// The file.
    pub path: PathBuf,
    /// What it says, or why it cannot be used.
    pub checkpoint: Result<Checkpoint>,
}

/// The checkpoint documents of a pipeline.
#[derive(Debug)]
pub struct Checkpoints {
    directory: PathBuf,
    sync: bool,
}

impl Checkpoints {
    /// All documents in a state directory, oldest first. Takes no lock: a pipeline may be
    /// running. A directory that is not there has none.
    pub fn list(state_directory: &Path) -> Result<Vec<CheckpointEntry>> {
        let directory = state_directory.join(DIRECTORY);
        let mut entries = Vec::new();
        for name in directory::names(&directory)? {
            let Some(id) = id_of(&name, DOCUMENT) else { continue };
            let path = directory.join(name);
            let checkpoint = match std::fs::read(&path) {
                Ok(bytes) => decode(&path, id, &bytes),
                // Removed since it was listed: newer ones are there.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => Err(Error::io("read", &path, error)),
            };
            entries.push(CheckpointEntry { id, path, checkpoint });
        }
        entries.sort_unstable_by_key(|entry| entry.id);
        Ok(entries)
    }

    /// The documents of a state directory, to add to. Whoever opens it holds the lock.
    pub(crate) fn open(state_directory: &Path, sync: bool) -> Result<Self> {
        let directory = state_directory.join(DIRECTORY);
        directory::create(&directory)?;
        for name in directory::names(&directory)? {
            if name.ends_with(".tmp") {
                directory::remove(&directory.join(name))?;
            }
        }
        Ok(Self { directory, sync })
    }

    /// Writes a document, atomically. Returns its length.
    pub(crate) fn write(&self, checkpoint: &Checkpoint) -> Result<u64> {
        let bytes = encode(checkpoint)?;
        let path = self.path(checkpoint.id);
        directory::write(&path, &path.with_extension("tmp"), &bytes, self.sync)?;
        Ok(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
    }

    /// The newest one of a state directory.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when there is none; [`ErrorKind::Corrupt`] when it is damaged.
    pub fn newest(state_directory: &Path) -> Result<Checkpoint> {
        match Self::list(state_directory)?.pop() {
            Some(entry) => entry.checkpoint,
            None => Err(Error::new(
                ErrorKind::Config,
                format!("{} has no checkpoint yet", state_directory.display()),
            )),
        }
    }

    /// The one with this number.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when there is none; [`ErrorKind::Corrupt`] when it is damaged.
    pub fn find(state_directory: &Path, id: u64) -> Result<Checkpoint> {
        let mut entries = Self::list(state_directory)?;
        match entries.iter().position(|entry| entry.id == id) {
            Some(at) => entries.swap_remove(at).checkpoint,
            None => Err(no_such(&entries, id)),
        }
    }

    /// The checkpoints of a state directory that are pinned.
    pub fn pinned(state_directory: &Path) -> Result<BTreeSet<u64>> {
        let names = directory::names(&state_directory.join(DIRECTORY))?;
        Ok(names.iter().filter_map(|name| id_of(name, PIN)).collect())
    }

    /// Pins a checkpoint: it is kept, however many are retained, until it is unpinned. The pipeline
    /// may be running.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when there is no such checkpoint.
    pub fn pin(state_directory: &Path, id: u64) -> Result<()> {
        let directory = state_directory.join(DIRECTORY);
        let _lock = lock_pins(&directory)?;
        if !directory.join(document(id)).exists() {
            return Err(no_such(&Self::list(state_directory)?, id));
        }
        let path = directory.join(format!("{PREFIX}{id}{PIN}"));
        directory::write(&path, &path.with_extension("tmp"), b"", true)
    }

    /// Lets go of a pinned checkpoint: the next one that is completed may remove it. Whether it was
    /// pinned.
    pub fn unpin(state_directory: &Path, id: u64) -> Result<bool> {
        let directory = state_directory.join(DIRECTORY);
        let path = directory.join(format!("{PREFIX}{id}{PIN}"));
        let pinned = path.exists();
        directory::remove(&path)?;
        Ok(pinned)
    }

    /// Removes those of these documents that are not pinned; says which.
    pub(crate) fn remove_unpinned(&self, ids: &[u64]) -> Result<Vec<u64>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let _lock = lock_pins(&self.directory)?;
        let names = directory::names(&self.directory)?;
        let pinned: BTreeSet<u64> = names.iter().filter_map(|name| id_of(name, PIN)).collect();
        let gone: Vec<u64> = ids.iter().copied().filter(|id| !pinned.contains(id)).collect();
        self.remove(&gone)?;
        Ok(gone)
    }

    /// Removes documents, and the pins of those that were damaged.
    pub(crate) fn remove(&self, ids: &[u64]) -> Result<()> {
        for id in ids {
            directory::remove(&self.directory.join(format!("{PREFIX}{id}{PIN}")))?;
            directory::remove(&self.path(*id))?;
        }
        if ids.is_empty() { Ok(()) } else { self.sync() }
    }

    fn sync(&self) -> Result<()> {
        if self.sync { directory::sync(&self.directory) } else { Ok(()) }
    }

    fn path(&self, id: u64) -> PathBuf {
        self.directory.join(document(id))
    }
}

/// The name of the file of a checkpoint's document.
pub(crate) fn document(id: u64) -> String {
    format!("{PREFIX}{id}{DOCUMENT}")
}

/// Keeps a pin from being made while unpinned checkpoints are removed, and the other way round.
fn lock_pins(directory: &Path) -> Result<File> {
    let path = directory.join(PINS_LOCK);
    let failed = |error| Error::io("lock", &path, error);
    directory::create(directory)?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// There is no checkpoint of this number; says which there are.
pub(crate) fn no_such(entries: &[CheckpointEntry], id: u64) -> Error {
    let ids: Vec<String> = entries.iter().map(|entry| entry.id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let known = match ids.as_slice() {
        [] => "there is none".to_owned(),
        ids => format!("there are {}", enumerate(ids, "and")),
    };
    Error::new(ErrorKind::Config, format!("there is no checkpoint {id}; {known}"))
}

fn id_of(name: &str, extension: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(extension)?;
    let id: u64 = digits.parse().ok()?;
    // `checkpoint-007.json` is none of ours.
    (id.to_string() == digits).then_some(id)
}

const BEFORE_VERSION: &[u8] = b"{\"howdah-checkpoint\":";
const BEFORE_CHECKSUM: &[u8] = b",\"crc32\":\"";
const BEFORE_BODY: &[u8] = b"\",\"body\":";
const AFTER_BODY: &[u8] = b"}\n";
const CHECKSUM_DIGITS: usize = 8;

/// A document as bytes.
pub(crate) fn encode(checkpoint: &Checkpoint) -> Result<Vec<u8>> {
    let body = serde_json::to_vec(checkpoint)
        .map_err(|error| Error::internal(format!("a checkpoint is no JSON: {error}")))?;
    let version = VERSION.to_string();
    let checksum = checksum(&body);
    let parts: [&[u8]; 7] = [
        BEFORE_VERSION,
        version.as_bytes(),
        BEFORE_CHECKSUM,
        checksum.as_bytes(),
        BEFORE_BODY,
        &body,
        AFTER_BODY,
    ];
    Ok(parts.concat())
}

fn checksum(body: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(body))
}

/// The document of a checkpoint, from the bytes of the file, or of what is called so.
pub(crate) fn decode(path: &Path, id: u64, bytes: &[u8]) -> Result<Checkpoint> {
    let corrupt = |reason: &str| {
        let message = format!("the checkpoint document {} {reason}", path.display());
        Error::new(ErrorKind::Corrupt, message)
    };
    let damaged = || corrupt("is damaged");
    let rest = bytes.strip_prefix(BEFORE_VERSION).ok_or_else(damaged)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (version, rest) = rest.split_at_checked(digits).ok_or_else(damaged)?;
    let version: Option<u64> =
        std::str::from_utf8(version).ok().and_then(|version| version.parse().ok());
    let version = match version {
        Some(version) if version > u64::from(VERSION) => {
            return Err(corrupt(&format!(
                "has format version {version}, newer than this howdah, which reads {VERSION}; \
                 use a newer howdah"
            )));
        }
        Some(version @ 1..) => version,
        _ => return Err(damaged()),
    };
    let rest = rest.strip_prefix(BEFORE_CHECKSUM).ok_or_else(damaged)?;
    let (stated, rest) = rest.split_at_checked(CHECKSUM_DIGITS).ok_or_else(damaged)?;
    let rest = rest.strip_prefix(BEFORE_BODY).ok_or_else(damaged)?;
    let body = rest.strip_suffix(AFTER_BODY).ok_or_else(damaged)?;
    if stated != checksum(body).as_bytes() {
        return Err(corrupt("is damaged: its checksum does not match"));
    }
    let checkpoint = match version {
        1 => serde_json::from_slice::<version_1::Checkpoint>(body).map(Checkpoint::from),
        _ => serde_json::from_slice(body),
    };
    let checkpoint = checkpoint.map_err(|error| corrupt(&format!("is no checkpoint: {error}")))?;
    if checkpoint.id != id {
        return Err(corrupt(&format!("is the one of checkpoint {}", checkpoint.id)));
    }
    Ok(checkpoint)
}

#[cfg(test)]
pub(crate) mod tests;

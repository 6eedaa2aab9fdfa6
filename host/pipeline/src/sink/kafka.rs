//! A topic of Kafka. Rows are staged in files until their checkpoint is complete, then sent in one
//! transaction, together with the number of the checkpoint as an offset of a group that is the
//! sink's own: whether a checkpoint was sent is part of its transaction, so that one that a crash
//! broke off is sent once. (Transactions of Kafka end with their producer, so that rows that are
//! in an open one could not be committed after a crash.)

mod marker;
mod topic;

use super::encoder::Encoder;
use super::staged::{RowCheck, StagedFile, StagedWriter, Staging};
use super::{Opening, Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::config::{Delivery, Format, SinkTopicConfig};
use crate::error::{Error, Result};
use crate::grants::Directories;
use crate::kafka::message_too_long;
use crate::place::Directory;
use howdah_runtime::{Output, OutputSpec};
use marker::Marker;
use std::sync::Arc;
use topic::Topic;

/// The name of the connector.
const CONNECTOR: &str = "kafka";
/// What is kept of the sink, in the state directory, followed by its name.
const HOME: &str = "kafka";
/// Where rows are staged, in there.
const STAGING: &str = "staged";
/// What tells the group of this state directory from that of others, beside it.
const GROUP: &str = "group";
/// The same while it is written.
const GROUP_TEMPORARY: &str = "group.tmp";
/// The longest message unless the pipeline file says otherwise.
const MESSAGE_BYTES: usize = 1_000_000;
/// What a message has beside key and value at the most.
const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// The sink. What is sent cannot be taken back: without its checkpoint, output of an earlier run
/// stays.
pub(super) struct Kafka {
    topic: SinkTopicConfig,
    staging: Staging,
    producer: Arc<Topic>,
    /// The group of the state directory: another copy of the pipeline has its own progress.
    group: String,
    /// From recovery on.
    marker: Option<Marker>,
    /// The last checkpoint that was sent.
    committed: u64,
}

/// Whether the topic could be written.
pub(super) fn check(topic: &SinkTopicConfig) -> Result<()> {
    Topic::open(topic, identity(topic, "howdah")).map(drop)
}

/// Names the producer, which fences those of the same name; without transactions it has no name.
fn identity<'a>(topic: &SinkTopicConfig, name: &'a str) -> Option<&'a str> {
    (topic.delivery == Delivery::ExactlyOnce).then_some(name)
}

impl Kafka {
    pub(super) fn open(opening: &Opening<'_>, topic: &SinkTopicConfig) -> Result<Self> {
        let name = &opening.config.name;
        let producer = format!("howdah.{}.{}.{name}", opening.tenant, opening.pipeline);
        // First: what is wrong with it is known before anything of the state changes.
        let opened = Topic::open(topic, identity(topic, &producer))?;
        let state = opening.state_directory;
        let home = state.join(format!("{HOME}-{name}"));
        let home = Directories::only([state]).place(&home)?.create_directory()?;
        let group = format!("{producer}.{}", own_name(&home, opening.sync)?);
        let staging = Staging {
            directory: home.subdirectory(STAGING)?,
            format: Format::Ndjson,
            header: false,
            sync: opening.sync,
            output: opening.output.cloned(),
            check: Some(check_length(topic)),
        };
        let producer = Arc::new(opened);
        Ok(Self { topic: topic.clone(), staging, producer, group, marker: None, committed: 0 })
    }

    fn is_exact(&self) -> bool {
        self.topic.delivery == Delivery::ExactlyOnce
    }

    /// Sends the files, whole or not at all.
    fn send(&self, checkpoint: u64, files: &[StagedFile]) -> Result<()> {
        let marker = self.marker.as_ref();
        let marker =
            marker.ok_or_else(|| Error::internal("the Kafka sink is used before its recovery"))?;
        self.producer.in_transaction(|producer| {
            for file in files {
                producer.send_file(&self.staging.directory.file(&file.staged), &self.topic.key)?;
            }
            producer.mark(marker, checkpoint)
        })
    }

    /// Goes on from a checkpoint without transactions. What one with transactions has staged and
    /// may not have sent is sent now.
    fn recover_without_transactions(&self, handles: &[SinkHandle]) -> Result<()> {
        for file in StagedFile::of(CONNECTOR, handles)? {
            let file = self.staging.directory.file(&file.staged);
            let sent = self.producer.send_file(&file, &self.topic.key);
            sent.map_err(|failure| self.producer.error(failure))?;
        }
        self.producer.flush().map_err(|failure| self.producer.error(failure))?;
        self.staging.clear()
    }
}

impl Sink for Kafka {
    fn connector(&self) -> &'static str {
        CONNECTOR
    }

    fn has_output(&self) -> Result<bool> {
        Ok(false)
    }

    fn recover(&mut self, checkpoint: Option<(u64, &[SinkHandle])>) -> Result<()> {
        let (id, handles) = checkpoint.unwrap_or((0, &[]));
        if !self.is_exact() {
            return self.recover_without_transactions(handles);
        }
        self.producer.claim()?;
        // After that: a transaction that a crash left open has ended then.
        let (marker, committed) = Marker::read(&self.topic.kafka, &self.group)?;
        self.marker = Some(marker);
        self.committed = committed;
        if committed > id {
            let topic = self.topic.kafka.topic.value.as_str();
            let (from, to) = (id, committed);
            tracing::warn!(topic, from, to, "output that was sent stays in the topic");
            self.send(id, &[])?;
            self.committed = id;
        }
        self.commit(id, handles)?;
        self.staging.clear()
    }

    fn writer(&self, subtask: u32, base: u64) -> Result<Box<dyn SinkWriter>> {
        if self.is_exact() {
            return Ok(Box::new(StagedWriter::new(self.staging.clone(), subtask, base)));
        }
        let Some(output) = &self.staging.output else { return Ok(Box::new(super::null::Null)) };
        Ok(Box::new(DirectWriter {
            producer: Arc::clone(&self.producer),
            key: self.topic.key.clone(),
            encoder: encoder(output)?,
            buffer: Vec::new(),
        }))
    }

    fn seal(&mut self, handles: &[SinkHandle]) -> Result<()> {
        self.staging.seal(handles)
    }

    fn commit(&mut self, checkpoint: u64, handles: &[SinkHandle]) -> Result<()> {
        let files = StagedFile::of(CONNECTOR, handles)?;
        if checkpoint > self.committed && !files.is_empty() {
            self.send(checkpoint, &files)?;
            self.committed = checkpoint;
        }
        for file in files {
            self.staging.directory.remove(&file.staged)?;
        }
        Ok(())
    }
}

/// The name of the state directory, which is made once.
fn own_name(home: &Directory, sync: bool) -> Result<String> {
    let stored = home.read(GROUP)?.and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(name) = stored.filter(|name| !name.is_empty()) {
        return Ok(name);
    }
    let name = howdah_state::unique_name();
    home.write(GROUP, GROUP_TEMPORARY, name.as_bytes(), sync)?;
    Ok(name)
}

/// Refuses rows that are longer than a message may be, before a checkpoint has them.
fn check_length(topic: &SinkTopicConfig) -> RowCheck {
    let (kafka, key) = (topic.kafka.clone(), topic.key.clone());
    let stated = kafka.property("message.max.bytes").and_then(|stated| stated.parse().ok());
    let limit: usize = stated.unwrap_or(MESSAGE_BYTES);
    RowCheck::new(move |row| {
        // The key is part of the row.
        if row.len() * 2 + MESSAGE_OVERHEAD_BYTES <= limit {
            return Ok(());
        }
        let key = message_key(row, &key)?.map_or(0, |key| key.len());
        let length = row.len() + key + MESSAGE_OVERHEAD_BYTES;
        if length <= limit { Ok(()) } else { Err(message_too_long(&kafka, length, limit)) }
    })
}

/// Sends rows as they come; a checkpoint waits until the brokers have them.
struct DirectWriter {
    producer: Arc<Topic>,
    key: Vec<String>,
    encoder: Encoder,
    buffer: Vec<u8>,
}

impl SinkWriter for DirectWriter {
    fn write(&mut self, rows: &Output) -> Result<()> {
        self.buffer.clear();
        self.encoder.encode(rows, &mut self.buffer)?;
        let sent = self.producer.send_lines(&self.buffer, &self.key);
        sent.map_err(|failure| self.producer.error(failure))
    }

    fn prepare(&mut self, _: u64) -> Result<Option<SinkHandle>> {
        let flushed = self.producer.flush();
        flushed.map_err(|failure| self.producer.error(failure))?;
        Ok(None)
    }
}

fn encoder(output: &OutputSpec) -> Result<Encoder> {
    Encoder::new(Format::Ndjson, false, output)
}

/// The key of a message: the text of a single column, a JSON list of several.
fn message_key(line: &[u8], columns: &[String]) -> Result<Option<Vec<u8>>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let row: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line)
        .map_err(|error| Error::internal(format!("a staged row is no JSON object: {error}")))?;
    let values: Vec<_> = columns.iter().map(|column| row.get(column).cloned()).collect();
    Ok(match values.as_slice() {
        [None | Some(serde_json::Value::Null)] => None,
        [Some(serde_json::Value::String(text))] => Some(text.clone().into_bytes()),
        [Some(value)] => Some(value.to_string().into_bytes()),
        _ => Some(serde_json::json!(values).to_string().into_bytes()),
    })
}

#[cfg(test)]
mod tests;

//! A topic of Kafka. The position is the offset of each partition, kept in our checkpoints:
//! groups of Kafka have no part in it.

mod decode;
mod partition;

use super::plan::{FileColumn, FileShape, Plan};
use super::{Next, Progress, Source};
use crate::checkpoint::SourcePosition;
use crate::config::{KafkaFormat, KafkaStart, Located, SourceConfig, TopicConfig};
use crate::connector::Kept;
use crate::error::{Error, ErrorKind, Result};
use crate::kafka::{self, Quiet, REQUEST_TIMEOUT, failed};
use decode::METADATA;
use howdah_state::ColumnType;
use partition::Partition;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The name of the connector.
const CONNECTOR: &str = "kafka";
/// How soon to ask again when no message is there.
const IDLE_WAIT: Duration = Duration::from_millis(5);

/// What a checkpoint keeps beside the number of rows: offsets by partition.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Stored {
    topic: String,
    /// The next message of each.
    next: BTreeMap<i32, i64>,
    /// Where each ends, unless it goes on for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<BTreeMap<i32, i64>>,
}

/// What is known of the columns before a message is read: those that the pipeline file states.
pub(super) fn inspect(config: &SourceConfig, topic: &TopicConfig) -> FileShape {
    let stated = |(name, _): &(Located<String>, ColumnType)| untyped(&name.value);
    let columns = match topic.format {
        KafkaFormat::Raw => vec![untyped(decode::RAW_COLUMN)],
        KafkaFormat::Json | KafkaFormat::Csv => config.schema.iter().map(stated).collect(),
    };
    // A member of an object that is not there is null, and any may be there.
    let is_json = topic.format == KafkaFormat::Json;
    FileShape {
        hidden: METADATA.iter().map(|(name, _)| untyped(name)).collect(),
        schemaless: is_json,
        ..FileShape::guessed(columns, is_json)
    }
}

fn untyped(name: &str) -> FileColumn {
    FileColumn { name: name.to_owned(), column_type: None }
}

/// The source.
pub(super) struct KafkaSource {
    topic: TopicConfig,
    consumer: Arc<BaseConsumer<Quiet>>,
    partitions: Vec<Partition>,
    /// Messages that were read since the beginning.
    rows: u64,
    /// Bytes of them that this run read.
    bytes: u64,
}

impl KafkaSource {
    /// Opens the topic at a position of a checkpoint; `None`: where the configuration says.
    pub(super) fn open(
        config: &SourceConfig,
        topic: &TopicConfig,
        plan: &Arc<Plan>,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let read = |position: &SourcePosition| {
            Kept::Position.check(CONNECTOR, &position.connector)?;
            Kept::Position.read::<Stored>(CONNECTOR, &position.at)
        };
        let stored = position.map(read).transpose()?;
        let consumer = consumer(topic)?;
        let ranges = ranges(&consumer, topic)?;
        let starts = starts(topic, &ranges, stored.as_ref())?;
        let ends = match stored.and_then(|stored| stored.end) {
            Some(ends) => Some(ends),
            None if topic.bounded => {
                Some(ranges.iter().map(|(number, range)| (*number, range.high)).collect())
            }
            None => None,
        };
        assign(&consumer, topic, &starts)?;
        let partition = |(number, next): (&i32, &i64)| {
            let queue = consumer.split_partition_queue(&topic.kafka.topic.value, *number);
            let queue = queue.ok_or_else(|| {
                Error::internal(format!("Kafka gives no queue for partition {number}"))
            })?;
            // A partition that came after the end was set is not part of a bounded source.
            let end = ends.as_ref().map(|ends| ends.get(number).copied().unwrap_or(0));
            Ok(Partition::new(config, topic, plan, *number, queue, *next, end))
        };
        let partitions = starts.iter().map(partition).collect::<Result<_>>()?;
        resume(&consumer, topic, &starts)?;
        let rows = position.map_or(0, |position| position.rows);
        Ok(Self { topic: topic.clone(), consumer, partitions, rows, bytes: 0 })
    }

    /// Serves the client; what it tells of brokers passes, or ends the run.
    fn serve(&self) -> Result<()> {
        match self.consumer.poll(Duration::ZERO) {
            Some(Err(error)) => self.judge(&error),
            // Messages go to the queues of their partitions.
            Some(Ok(_)) => Err(Error::internal("Kafka gave a message past its partition's queue")),
            None => Ok(()),
        }
    }

    fn judge(&self, error: &KafkaError) -> Result<()> {
        if let KafkaError::PartitionEOF(_) = error {
            return Ok(());
        }
        if let Some(code) = error.rdkafka_error_code().filter(|code| kafka::is_passing(*code)) {
            let topic = self.topic.kafka.topic.value.as_str();
            tracing::warn!(topic, %code, "the brokers cannot be reached; waiting for them");
            return Ok(());
        }
        Err(failed("read", &self.topic.kafka, error))
    }
}

impl Source for KafkaSource {
    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        self.serve()?;
        // Those behind first: they hold the watermark back.
        self.partitions.sort_by_key(Partition::latest);
        for index in 0..self.partitions.len() {
            let Some(partition) = self.partitions.get_mut(index) else { break };
            let read = match partition.read(rows_limit)? {
                partition::Read::Batch(read) => read,
                partition::Read::Nothing => continue,
                partition::Read::Failed(error) => {
                    self.judge(&error)?;
                    continue;
                }
            };
            self.rows += read.messages;
            self.bytes += read.bytes;
            return Ok(Next::Batch(read.batch));
        }
        let ended = self.partitions.iter().all(Partition::ended);
        Ok(if ended { Next::End } else { Next::Idle(IDLE_WAIT) })
    }

    fn progress(&self) -> Progress {
        Progress { rows: self.rows, bytes_read: self.bytes, bytes_total: 0 }
    }

    fn position(&self) -> Result<SourcePosition> {
        let next = self.partitions.iter().map(|partition| (partition.number(), partition.next()));
        let ends = |partition: &Partition| Some((partition.number(), partition.end()?));
        let stored = Stored {
            topic: self.topic.kafka.topic.value.clone(),
            next: next.collect(),
            end: self.partitions.iter().map(ends).collect(),
        };
        SourcePosition::new(CONNECTOR, self.rows, &stored)
    }

    fn event_time_limit(&self) -> Option<i64> {
        let behind = self.partitions.iter().filter(|partition| !partition.at_end());
        behind.map(Partition::latest).min()
    }
}

fn consumer(topic: &TopicConfig) -> Result<Arc<BaseConsumer<Quiet>>> {
    let mut client = kafka::client(&topic.kafka);
    client
        // Wanted by the library; nothing is committed to it.
        .set("group.id", "howdah")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        // Rows that are gone are an error, never skipped.
        .set("auto.offset.reset", "error");
    let consumer = client.create_with_context(Quiet);
    consumer.map(Arc::new).map_err(|error| failed("open", &topic.kafka, &error))
}

/// Which offsets a partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    low: i64,
    /// Past the last one.
    high: i64,
}

/// The partitions of the topic.
fn ranges(consumer: &BaseConsumer<Quiet>, topic: &TopicConfig) -> Result<BTreeMap<i32, Range>> {
    let name = topic.kafka.topic.value.as_str();
    let wrong = |error: KafkaError| failed("open", &topic.kafka, &error);
    let metadata = consumer.fetch_metadata(Some(name), REQUEST_TIMEOUT).map_err(wrong)?;
    let found = metadata.topics().iter().find(|found| found.name() == name);
    let partitions = match found {
        Some(found) => {
            if let Some(code) = found.error() {
                return Err(wrong(KafkaError::MetadataFetch(code.into())));
            }
            found.partitions()
        }
        None => &[],
    };
    if partitions.is_empty() {
        let error = rdkafka::types::RDKafkaErrorCode::UnknownTopic;
        return Err(wrong(KafkaError::MetadataFetch(error)));
    }
    let range = |partition: &rdkafka::metadata::MetadataPartition| {
        let number = partition.id();
        let (low, high) =
            consumer.fetch_watermarks(name, number, REQUEST_TIMEOUT).map_err(wrong)?;
        Ok((number, Range { low, high }))
    };
    partitions.iter().map(range).collect()
}

/// Where each partition is read from. Refuses a position that the topic no longer has.
fn starts(
    topic: &TopicConfig,
    ranges: &BTreeMap<i32, Range>,
    stored: Option<&Stored>,
) -> Result<BTreeMap<i32, i64>> {
    let name = topic.kafka.topic.value.as_str();
    let refused = |problem: String| {
        let way_out = "bring the messages back, or start afresh with --fresh";
        Error::new(ErrorKind::Incompatible, format!("topic `{name}` {problem}; {way_out}"))
    };
    let Some(stored) = stored else {
        let start = |range: &Range| match topic.start {
            KafkaStart::Earliest => range.low,
            KafkaStart::Latest => range.high,
        };
        return Ok(ranges.iter().map(|(number, range)| (*number, start(range))).collect());
    };
    if stored.topic != name {
        let found = &stored.topic;
        return Err(refused(format!("is not `{found}`, which the checkpoint has offsets of")));
    }
    if let Some(gone) = stored.next.keys().find(|number| !ranges.contains_key(number)) {
        return Err(refused(format!("has no partition {gone} any more, unlike at the checkpoint")));
    }
    let start = |(number, range): (&i32, &Range)| match stored.next.get(number) {
        Some(next) if *next < range.low => Err(refused(format!(
            "has deleted messages that were not read: partition {number} begins at offset {}, and \
             the checkpoint is at {next}",
            range.low
        ))),
        Some(next) if *next > range.high => Err(refused(format!(
            "is another one than at the checkpoint: partition {number} ends at offset {}, and the \
             checkpoint is at {next}",
            range.high
        ))),
        Some(next) => Ok((*number, *next)),
        // Added since: all of it is new.
        None => Ok((*number, range.low)),
    };
    ranges.iter().map(start).collect()
}

/// Assigns the partitions; none gives messages before [`resume`].
fn assign(
    consumer: &BaseConsumer<Quiet>,
    topic: &TopicConfig,
    starts: &BTreeMap<i32, i64>,
) -> Result<()> {
    let list = list(topic, starts)?;
    let assigned = consumer.assign(&list).and_then(|()| consumer.pause(&list));
    assigned.map_err(|error| failed("open", &topic.kafka, &error))
}

fn resume(
    consumer: &BaseConsumer<Quiet>,
    topic: &TopicConfig,
    starts: &BTreeMap<i32, i64>,
) -> Result<()> {
    let resumed = consumer.resume(&list(topic, starts)?);
    resumed.map_err(|error| failed("open", &topic.kafka, &error))
}

fn list(topic: &TopicConfig, starts: &BTreeMap<i32, i64>) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (number, next) in starts {
        let added =
            list.add_partition_offset(&topic.kafka.topic.value, *number, Offset::Offset(*next));
        added.map_err(|error| failed("open", &topic.kafka, &error))?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests;

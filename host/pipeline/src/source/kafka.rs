//! A topic of Kafka. The position is the offset of each partition, kept in our checkpoints:
//! groups of Kafka have no part in it.

mod decode;
mod partition;

use super::plan::{FileColumn, FileShape, Plan};
use super::{Next, Progress, Share, Source};
use crate::checkpoint::SourcePosition;
use crate::clock;
use crate::config::{KafkaFormat, KafkaStart, Located, SourceConfig, TopicConfig};
use crate::connector::Kept;
use crate::error::{Error, ErrorKind, Result};
use crate::kafka::{self, Quiet, REQUEST_TIMEOUT, failed};
use decode::METADATA;
use howdah_state::ColumnType;
use partition::{Partition, Place};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The name of the connector.
pub(super) const CONNECTOR: &str = "kafka";
/// How soon to ask again when no message is there.
const IDLE_WAIT: Duration = Duration::from_millis(5);
/// Messages of all partitions that the client may hold before they are read, and at least of each.
const PREFETCH_KIB: usize = 65_536;
const PREFETCH_LEAST_KIB: usize = 1_024;

/// What a checkpoint keeps beside the number of rows, by partition.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Stored {
    topic: String,
    /// The offset of the next message of each.
    next: BTreeMap<i32, i64>,
    /// How many messages of each were read.
    #[serde(default)]
    read: BTreeMap<i32, u64>,
    /// Where each ends, unless it goes on for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<BTreeMap<i32, i64>>,
    /// The highest event time of each that has had one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    latest: BTreeMap<i32, i64>,
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
    /// How long a partition that is at its end is waited for; `None`: for ever.
    idle_after: Option<Duration>,
    /// Bytes of them that this run read.
    bytes: u64,
    /// Whether the brokers could not be reached since the last messages.
    cut_off: bool,
}

impl KafkaSource {
    /// Opens the partitions of a share at a position of the whole topic; `None`: where the
    /// configuration says.
    pub(super) fn open(
        config: &SourceConfig,
        topic: &TopicConfig,
        plan: &Arc<Plan>,
        share: Share,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let stored = position.map(read).transpose()?;
        let numbers = kafka::partitions(consumer(topic, 1)?.client(), &topic.kafka)?;
        check_share(config, topic, numbers.len(), share)?;
        check_stored(topic, &numbers, stored.as_ref())?;
        let is_own = |number: &i32| u64::try_from(*number).is_ok_and(|number| share.has(number));
        let numbers: Vec<i32> = numbers.into_iter().filter(is_own).collect();
        let consumer = consumer(topic, numbers.len())?;
        let ranges = ranges(&consumer, topic, &numbers)?;
        let starts = starts(topic, &ranges, stored.as_ref())?;
        let Stored { end: ends, latest, read: messages, .. } = stored.unwrap_or_default();
        let highs = || ranges.iter().map(|(number, range)| (*number, range.high)).collect();
        let ends = topic.bounded.then(|| ends.unwrap_or_else(highs));
        assign(&consumer, topic, &starts)?;
        let partition = |(number, next): (&i32, &i64)| {
            let queue = consumer.split_partition_queue(&topic.kafka.topic.value, *number);
            let queue = queue.ok_or_else(|| {
                Error::internal(format!("Kafka gives no queue for partition {number}"))
            })?;
            let place = Place {
                number: *number,
                next: *next,
                // One that came after the end was set is not part of a bounded source.
                end: ends.as_ref().map(|ends| ends.get(number).copied().unwrap_or(0)),
                latest: latest.get(number).copied(),
                messages: messages.get(number).copied().unwrap_or(0),
            };
            Ok(Partition::new(config, topic, plan, queue, place))
        };
        let partitions = starts.iter().map(partition).collect::<Result<_>>()?;
        resume(&consumer, topic, &starts)?;
        let idle_after = (config.idle_after_ms > 0).then_some(config.idle_after_ms);
        Ok(Self {
            topic: topic.clone(),
            consumer,
            partitions,
            idle_after: idle_after.map(Duration::from_millis),
            bytes: 0,
            cut_off: false,
        })
    }

    /// Messages that were read since the beginning.
    fn rows(&self) -> u64 {
        self.partitions.iter().map(Partition::messages).sum()
    }

    /// Serves the client; what it tells of brokers passes, or ends the run.
    fn serve(&mut self) -> Result<()> {
        let error = match self.consumer.poll(Duration::ZERO) {
            None => return Ok(()),
            Some(Err(error)) => error,
            // Messages go to the queues of their partitions.
            Some(Ok(_)) => {
                return Err(Error::internal("Kafka gave a message past its partition's queue"));
            }
        };
        self.judge(&error)
    }

    fn judge(&mut self, error: &KafkaError) -> Result<()> {
        if let KafkaError::PartitionEOF(_) = error {
            return Ok(());
        }
        if let Some(code) = error.rdkafka_error_code().filter(|code| kafka::is_passing(*code)) {
            if !std::mem::replace(&mut self.cut_off, true) {
                let topic = self.topic.kafka.topic.value.as_str();
                tracing::warn!(topic, %code, "the brokers cannot be reached; waiting for them");
            }
            return Ok(());
        }
        Err(failed("read", &self.topic.kafka, error))
    }

    /// Where the client is in each partition: what it has passed is read, or is no message.
    fn reached(&self) -> BTreeMap<i32, i64> {
        let position = self.consumer.position().inspect_err(|error| {
            tracing::debug!(%error, "the client knows no position");
        });
        let offset = |(partition, offset)| match offset {
            Offset::Offset(offset) => Some((partition, offset)),
            _ => None,
        };
        let elements = position.iter().flat_map(|list| {
            let elements = list.elements();
            let place = elements.iter().map(|element| (element.partition(), element.offset()));
            place.collect::<Vec<_>>()
        });
        elements.filter_map(offset).collect()
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
            // Of those that are as far, each has its turn: sorting keeps their order.
            if let Some(from_here) = self.partitions.get_mut(index..) {
                from_here.rotate_left(1);
            }
            self.cut_off = false;
            self.bytes += read.bytes;
            return Ok(Next::Batch(read.batch));
        }
        let ended = self.partitions.iter().all(Partition::ended);
        Ok(if ended { Next::End } else { Next::Idle(IDLE_WAIT) })
    }

    fn progress(&self) -> Progress {
        Progress { rows: self.rows(), bytes_read: self.bytes, bytes_total: 0 }
    }

    fn position(&self) -> Result<SourcePosition> {
        let reached = self.reached();
        let next = |partition: &Partition| {
            let number = partition.number();
            (number, partition.next(reached.get(&number).copied()))
        };
        let end = |partition: &Partition| Some((partition.number(), partition.end()?));
        let latest = |partition: &Partition| Some((partition.number(), partition.latest()?));
        let stored = Stored {
            topic: self.topic.kafka.topic.value.clone(),
            next: self.partitions.iter().map(next).collect(),
            read: self.partitions.iter().map(|it| (it.number(), it.messages())).collect(),
            end: self.partitions.iter().map(end).collect(),
            latest: self.partitions.iter().filter_map(latest).collect(),
        };
        position(&stored)
    }

    fn has_had_nothing(&self) -> bool {
        self.partitions.iter().all(Partition::has_had_nothing)
    }

    fn event_time_limit(&self) -> Option<i64> {
        let now = clock::now();
        self.partitions.iter().filter_map(|it| it.holds_back(now, self.idle_after)).min()
    }
}

fn read(position: &SourcePosition) -> Result<Stored> {
    Kept::Position.check(CONNECTOR, &position.connector)?;
    Kept::Position.read(CONNECTOR, &position.at)
}

fn position(stored: &Stored) -> Result<SourcePosition> {
    SourcePosition::new(CONNECTOR, stored.read.values().sum(), stored)
}

/// See [`source::merge`](super::merge): each partition belongs to one share.
pub(super) fn merge(positions: &[SourcePosition]) -> Result<SourcePosition> {
    let mut all = Stored::default();
    for part in positions {
        let part = read(part)?;
        all.topic = part.topic;
        all.next.extend(part.next);
        all.read.extend(part.read);
        all.latest.extend(part.latest);
        if let Some(end) = part.end {
            all.end.get_or_insert_default().extend(end);
        }
    }
    position(&all)
}

/// Refuses more subtasks than there are partitions: one that has none to read would hold back the
/// watermark for ever.
fn check_share(
    config: &SourceConfig,
    topic: &TopicConfig,
    partitions: usize,
    share: Share,
) -> Result<()> {
    if usize::try_from(share.of).is_ok_and(|subtasks| subtasks <= partitions) {
        return Ok(());
    }
    let (name, source, subtasks) = (&topic.kafka.topic.value, &config.name, share.of);
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "topic `{name}` has {partitions} partitions, too few for the {subtasks} subtasks of source \
             `{source}`; set `parallelism` of the source to {partitions} or less"
        ),
    ))
}

/// The client of a topic with so many partitions.
fn consumer(topic: &TopicConfig, partitions: usize) -> Result<Arc<BaseConsumer<Quiet>>> {
    let consumer = settings(topic, partitions).create_with_context(Quiet);
    consumer.map(Arc::new).map_err(|error| failed("open", &topic.kafka, &error))
}

fn settings(topic: &TopicConfig, partitions: usize) -> ClientConfig {
    // The library has it for each queue, and so for each partition.
    let prefetch_kib = (PREFETCH_KIB / partitions.max(1)).max(PREFETCH_LEAST_KIB).to_string();
    let mut client =
        kafka::client(&topic.kafka, &[("queued.max.messages.kbytes", prefetch_kib.as_str())]);
    client
        // Wanted by the library; nothing is committed to it.
        .set("group.id", "howdah")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        // Rows that are gone are an error, never skipped.
        .set("auto.offset.reset", "error");
    client
}

/// Which offsets a partition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    low: i64,
    /// Past the last one.
    high: i64,
}

/// Which offsets the partitions have.
fn ranges(
    consumer: &BaseConsumer<Quiet>,
    topic: &TopicConfig,
    numbers: &[i32],
) -> Result<BTreeMap<i32, Range>> {
    let name = topic.kafka.topic.value.as_str();
    let range = |number: &i32| {
        let found = consumer.fetch_watermarks(name, *number, REQUEST_TIMEOUT);
        let (low, high) = found.map_err(|error| failed("open", &topic.kafka, &error))?;
        Ok((*number, Range { low, high }))
    };
    numbers.iter().map(range).collect()
}

/// Refuses a position of another topic, or of partitions that are gone.
fn check_stored(topic: &TopicConfig, numbers: &[i32], stored: Option<&Stored>) -> Result<()> {
    let Some(stored) = stored else { return Ok(()) };
    if stored.topic != topic.kafka.topic.value {
        let found = &stored.topic;
        let problem = format!("is not `{found}`, which the checkpoint has offsets of");
        return Err(changed(topic, &problem));
    }
    if let Some(gone) = stored.next.keys().find(|number| !numbers.contains(number)) {
        let problem = format!("has no partition {gone} any more, unlike at the checkpoint");
        return Err(changed(topic, &problem));
    }
    Ok(())
}

fn changed(topic: &TopicConfig, problem: &str) -> Error {
    let name = &topic.kafka.topic.value;
    let way_out = "bring the messages back, or start afresh with --fresh";
    Error::new(ErrorKind::Incompatible, format!("topic `{name}` {problem}; {way_out}"))
}

/// Where each partition is read from. Refuses a position that the topic no longer has.
fn starts(
    topic: &TopicConfig,
    ranges: &BTreeMap<i32, Range>,
    stored: Option<&Stored>,
) -> Result<BTreeMap<i32, i64>> {
    let refused = |problem: String| changed(topic, &problem);
    let Some(stored) = stored else {
        let start = |range: &Range| match topic.start {
            KafkaStart::Earliest => range.low,
            KafkaStart::Latest => range.high,
        };
        return Ok(ranges.iter().map(|(number, range)| (*number, start(range))).collect());
    };
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

//! A topic of Kafka. Rows are staged in files until their checkpoint is complete, then sent in one
//! transaction, together with the number of the checkpoint as an offset of a group that is the
//! sink's own: whether a checkpoint was sent is part of its transaction, so that one that a crash
//! broke off is sent once. (Transactions of Kafka end with their producer, so that rows that are
//! in an open one could not be committed after a crash.)

use super::encoder::Encoder;
use super::staged::{StagedFile, StagedWriter, Staging};
use super::{Opening, Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::config::{Delivery, Format, SinkTopicConfig};
use crate::error::{Error, Result};
use crate::grants::Directories;
use crate::kafka::{self, Quiet, REQUEST_TIMEOUT, failed};
use crate::place::{Open, Place};
use howdah_runtime::{Output, OutputSpec};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::io::{BufRead, BufReader, ErrorKind as Io};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The name of the connector.
const CONNECTOR: &str = "kafka";
/// Where rows are staged, in the state directory, followed by the name of the sink.
const STAGING: &str = "kafka";
/// How often a transaction that the brokers broke off is begun again.
const ATTEMPTS: usize = 5;
/// How long to wait for room in the client's queue at a time.
const QUEUE_WAIT: Duration = Duration::from_millis(100);
/// Messages between two looks at what was delivered.
const POLL_MESSAGES: usize = 1_024;

/// The sink. What is sent cannot be taken back: without its checkpoint, output of an earlier run
/// stays.
pub(super) struct Kafka {
    topic: SinkTopicConfig,
    staging: Staging,
    /// Names the producer and the group: who has them writes, and others are fenced.
    identity: String,
    /// From recovery on.
    producer: Option<Arc<Topic>>,
    /// The last checkpoint that was sent.
    committed: u64,
}

impl Kafka {
    pub(super) fn open(opening: &Opening<'_>, topic: &SinkTopicConfig) -> Result<Self> {
        let name = &opening.config.name;
        let state = opening.state_directory;
        let directory = state.join(format!("{STAGING}-{name}"));
        let directory = Directories::only([state]).place(&directory)?.create_directory()?;
        let staging = Staging {
            directory,
            format: Format::Ndjson,
            header: false,
            sync: opening.sync,
            output: opening.output.cloned(),
        };
        let identity = format!("howdah.{}.{name}", opening.pipeline);
        Ok(Self { topic: topic.clone(), staging, identity, producer: None, committed: 0 })
    }

    fn is_exact(&self) -> bool {
        self.topic.delivery == Delivery::ExactlyOnce
    }

    fn producer(&self) -> Result<&Arc<Topic>> {
        let producer = self.producer.as_ref();
        producer.ok_or_else(|| Error::internal("the Kafka sink is used before its recovery"))
    }

    /// Sends the files, whole or not at all.
    fn send(&self, checkpoint: u64, files: &[StagedFile]) -> Result<()> {
        let producer = self.producer()?;
        let marker = Marker::new(&self.topic, &self.identity)?;
        producer.in_transaction(|producer| {
            for file in files {
                producer.send_file(&self.staging.directory.file(&file.staged), &self.topic.key)?;
            }
            producer.mark(&marker, checkpoint)
        })
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
        let identity = self.is_exact().then_some(self.identity.as_str());
        self.producer = Some(Arc::new(Topic::open(&self.topic, identity)?));
        if !self.is_exact() {
            return Ok(());
        }
        // After the producer: a transaction that a crash left open has ended then.
        self.committed = Marker::new(&self.topic, &self.identity)?.read()?;
        let (id, handles) = checkpoint.unwrap_or((0, &[]));
        if self.committed > id {
            let (topic, committed) = (self.topic.kafka.topic.value.as_str(), self.committed);
            tracing::warn!(
                topic,
                from = id,
                to = committed,
                "output that was sent stays in the topic"
            );
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
            producer: Arc::clone(self.producer()?),
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

/// The number of the last checkpoint that was sent, kept as the offset of a group for the first
/// partition of the topic.
struct Marker {
    topic: SinkTopicConfig,
    consumer: BaseConsumer<Quiet>,
}

impl Marker {
    fn new(topic: &SinkTopicConfig, identity: &str) -> Result<Self> {
        let mut client = kafka::client(&topic.kafka, &[]);
        client
            .set("group.id", identity)
            .set("enable.auto.commit", "false")
            // Offsets of an open transaction are waited for.
            .set("isolation.level", "read_committed");
        let consumer = client.create_with_context(Quiet);
        let consumer = consumer.map_err(|error| failed("open", &topic.kafka, &error))?;
        Ok(Self { topic: topic.clone(), consumer })
    }

    fn read(&self) -> Result<u64> {
        let committed = self
            .offsets(Offset::Invalid)
            .and_then(|list| self.consumer.committed_offsets(list, REQUEST_TIMEOUT));
        let committed =
            committed.map_err(|error| failed("read the progress of", &self.topic.kafka, &error))?;
        let offset = committed.elements().first().and_then(|element| element.offset().to_raw());
        Ok(offset.and_then(|offset| u64::try_from(offset).ok()).unwrap_or(0))
    }

    fn offsets(&self, offset: Offset) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic.kafka.topic.value, 0, offset)?;
        Ok(list)
    }

    fn group(&self) -> Result<ConsumerGroupMetadata, KafkaError> {
        self.consumer.group_metadata().ok_or(KafkaError::Canceled)
    }
}

/// Why messages were not sent.
enum Failure {
    Kafka(KafkaError),
    Other(Error),
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error)
    }
}

/// A topic that messages are sent to.
struct Topic {
    config: SinkTopicConfig,
    producer: BaseProducer<Deliveries>,
}

impl Topic {
    /// With an identity it has transactions, and the producers that had it before are fenced.
    fn open(config: &SinkTopicConfig, identity: Option<&str>) -> Result<Self> {
        let wrong = |error: KafkaError| failed("write", &config.kafka, &error);
        let mut client = kafka::client(&config.kafka, &[]);
        client.set("enable.idempotence", "true");
        if let Some(identity) = identity {
            client.set("transactional.id", identity);
        }
        let producer: BaseProducer<Deliveries> =
            client.create_with_context(Deliveries::default()).map_err(wrong)?;
        if identity.is_some() {
            producer.init_transactions(REQUEST_TIMEOUT).map_err(wrong)?;
        }
        Ok(Self { config: config.clone(), producer })
    }

    /// Does it in a transaction, again where the brokers break it off.
    fn in_transaction(&self, act: impl Fn(&Self) -> Result<(), Failure>) -> Result<()> {
        let mut attempt = 1;
        loop {
            let failure = match self.transaction(&act) {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            let again = match &failure {
                Failure::Kafka(KafkaError::Transaction(error)) => !error.is_fatal(),
                Failure::Kafka(error) => error.rdkafka_error_code().is_some_and(kafka::is_passing),
                Failure::Other(_) => false,
            };
            if !again || attempt == ATTEMPTS {
                return Err(self.error(failure));
            }
            attempt += 1;
            self.producer
                .abort_transaction(REQUEST_TIMEOUT)
                .map_err(|error| self.failed(&error))?;
        }
    }

    fn transaction(&self, act: &impl Fn(&Self) -> Result<(), Failure>) -> Result<(), Failure> {
        self.producer.context().clear();
        self.producer.begin_transaction()?;
        act(self)?;
        self.flush()?;
        for _ in 1..ATTEMPTS {
            match self.producer.commit_transaction(REQUEST_TIMEOUT) {
                // It goes on where it was.
                Err(KafkaError::Transaction(error)) if error.is_retriable() => {}
                ended => return ended.map_err(Failure::from),
            }
        }
        Ok(self.producer.commit_transaction(REQUEST_TIMEOUT)?)
    }

    fn mark(&self, marker: &Marker, checkpoint: u64) -> Result<(), Failure> {
        let offset = Offset::Offset(i64::try_from(checkpoint).unwrap_or(i64::MAX));
        let (list, group) = (marker.offsets(offset)?, marker.group()?);
        Ok(self.producer.send_offsets_to_transaction(&list, &group, REQUEST_TIMEOUT)?)
    }

    fn send_file(&self, file: &Place, key: &[String]) -> Result<(), Failure> {
        let wrong = |error| Failure::Other(Error::io("read", file.shown(), error));
        let file = match file.open_to(Open::Read) {
            Ok(file) => file,
            // Removed once it was sent.
            Err(error) if error.kind() == Io::NotFound => return Ok(()),
            Err(error) => return Err(wrong(error)),
        };
        for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
            self.send(&line.map_err(wrong)?, key)?;
            if number % POLL_MESSAGES == 0 {
                self.producer.poll(Duration::ZERO);
            }
        }
        Ok(())
    }

    fn send_lines(&self, lines: &[u8], key: &[String]) -> Result<(), Failure> {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.send(line, key)?;
        }
        self.producer.poll(Duration::ZERO);
        self.producer.context().check()
    }

    fn send(&self, line: &[u8], key: &[String]) -> Result<(), Failure> {
        let key = message_key(line, key).map_err(Failure::Other)?;
        let mut record = BaseRecord::<[u8], [u8]>::to(&self.config.kafka.topic.value).payload(line);
        if let Some(key) = &key {
            record = record.key(key);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), unsent)) => {
                    record = unsent;
                    self.producer.poll(QUEUE_WAIT);
                    self.producer.context().check()?;
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }

    /// Waits until the brokers have all that was sent.
    fn flush(&self) -> Result<(), Failure> {
        self.producer.flush(REQUEST_TIMEOUT)?;
        self.producer.context().check()
    }

    fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Kafka(error) => self.failed(&error),
            Failure::Other(error) => error,
        }
    }

    fn failed(&self, error: &KafkaError) -> Error {
        failed("write", &self.config.kafka, error)
    }
}

/// Keeps the first message that the brokers did not take.
#[derive(Debug, Default)]
struct Deliveries {
    failed: Mutex<Option<KafkaError>>,
}

impl Deliveries {
    fn clear(&self) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn check(&self) -> Result<(), Failure> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), |error| Err(Failure::Kafka(error)))
    }
}

impl ClientContext for Deliveries {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        kafka::log(facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        kafka::log_error(&error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| error.clone());
        }
    }
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
mod tests {
    use super::*;

    #[test]
    fn a_key_of_one_column_is_its_text() {
        let key = |line: &str| message_key(line.as_bytes(), &["k".to_owned()]).expect("a key");
        assert_eq!(key(r#"{"k":7,"v":1}"#).as_deref(), Some(b"7".as_slice()));
        assert_eq!(key(r#"{"k":"a b"}"#).as_deref(), Some(b"a b".as_slice()));
        assert_eq!(key(r#"{"k":null}"#), None);
    }

    #[test]
    fn a_key_of_several_columns_is_a_list() {
        let columns = ["b".to_owned(), "a".to_owned()];
        let key = message_key(br#"{"a":1,"b":"x"}"#, &columns).expect("a key");
        assert_eq!(key.as_deref(), Some(br#"["x",1]"#.as_slice()));
    }

    #[test]
    fn without_key_columns_there_is_no_key() {
        assert_eq!(message_key(b"{}", &[]).expect("none"), None);
    }
}

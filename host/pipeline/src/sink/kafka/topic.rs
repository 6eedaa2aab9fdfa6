//! Sends messages to a topic, in transactions or as they come.

use super::marker::Marker;
use super::message_key;
use crate::clock;
use crate::config::{KafkaConfig, SinkTopicConfig};
use crate::error::{Error, Result};
use crate::kafka::{self, REQUEST_TIMEOUT, failed, is_fenced, transaction_too_long};
use crate::place::{Open, Place};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig};
use rdkafka::{ClientContext, Offset};
use std::io::{BufRead, BufReader, ErrorKind as Io};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a transaction that the brokers broke off is begun again.
const ATTEMPTS: usize = 5;
/// How long a transaction may take unless the pipeline file says otherwise: the most that brokers
/// allow unless they are told to.
const TRANSACTION_TIMEOUT_MS: &str = "900000";
/// How long to wait for room in the client's queue at a time.
const QUEUE_WAIT: Duration = Duration::from_millis(100);
/// Messages between two looks at what was delivered.
const POLL_MESSAGES: usize = 1_024;

/// Why messages were not sent.
pub(super) enum Failure {
    Kafka(KafkaError),
    /// The transaction may have been committed, or may still be.
    Unknown(KafkaError),
    Other(Error),
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Self::Kafka(error)
    }
}

/// A topic that messages are sent to.
pub(super) struct Topic {
    config: KafkaConfig,
    producer: BaseProducer<Deliveries>,
}

impl Topic {
    /// Refuses settings that the client does not take, and a topic that is not there. With an
    /// identity it has transactions, once it is claimed.
    pub(super) fn open(config: &SinkTopicConfig, identity: Option<&str>) -> Result<Self> {
        let config = config.kafka.clone();
        let producer = settings(&config, identity).create_with_context(Deliveries::default());
        let producer: BaseProducer<Deliveries> =
            producer.map_err(|error| failed("write", &config, &error))?;
        kafka::partitions(producer.client(), &config)?;
        Ok(Self { config, producer })
    }

    /// Fences the producers that had the identity before.
    pub(super) fn claim(&self) -> Result<()> {
        let claimed = self.producer.init_transactions(REQUEST_TIMEOUT);
        claimed.map_err(|error| self.failed(error, None))
    }

    /// Does it in a transaction, again where the brokers break it off.
    pub(super) fn in_transaction(&self, act: impl Fn(&Self) -> Result<(), Failure>) -> Result<()> {
        let mut attempt = 1;
        loop {
            let begun = clock::now();
            let (error, again) = match self.transaction(&act) {
                Ok(()) => return Ok(()),
                Err(Failure::Kafka(error)) => {
                    let again = attempt < ATTEMPTS && !is_final(&error);
                    (self.failed(error, Some(begun)), again)
                }
                // The next run asks what became of it.
                Err(Failure::Unknown(error)) => return Err(self.failed(error, Some(begun))),
                Err(Failure::Other(error)) => (error, false),
            };
            if self.fatal().is_some() {
                return Err(error);
            }
            // Those who read what is committed would wait for the end of an open one.
            let aborted = self.abort();
            if !again {
                return Err(error);
            }
            aborted.map_err(|error| self.failed(error, Some(begun)))?;
            attempt += 1;
        }
    }

    fn transaction(&self, act: &impl Fn(&Self) -> Result<(), Failure>) -> Result<(), Failure> {
        self.producer.context().clear();
        self.producer.begin_transaction()?;
        act(self)?;
        self.flush()?;
        let mut attempt = 1;
        loop {
            match self.producer.commit_transaction(REQUEST_TIMEOUT) {
                // It goes on where it was.
                Err(KafkaError::Transaction(error)) if error.is_retriable() => {
                    if attempt == ATTEMPTS {
                        return Err(Failure::Unknown(KafkaError::Transaction(error)));
                    }
                    attempt += 1;
                }
                ended => return ended.map_err(Failure::from),
            }
        }
    }

    fn abort(&self) -> Result<(), KafkaError> {
        self.producer.purge(PurgeConfig::default().queue());
        // The client waits for reports to be taken: of what was purged, and of what is under way.
        self.producer.flush(REQUEST_TIMEOUT)?;
        let mut attempt = 1;
        loop {
            match self.producer.abort_transaction(REQUEST_TIMEOUT) {
                Err(KafkaError::Transaction(error))
                    if error.is_retriable() && attempt < ATTEMPTS =>
                {
                    self.producer.poll(Duration::ZERO);
                    attempt += 1;
                }
                ended => return ended,
            }
        }
    }

    pub(super) fn mark(&self, marker: &Marker, checkpoint: u64) -> Result<(), Failure> {
        let offset = Offset::Offset(i64::try_from(checkpoint).unwrap_or(i64::MAX));
        let list = marker.offsets(offset)?;
        Ok(self.producer.send_offsets_to_transaction(&list, marker.group(), REQUEST_TIMEOUT)?)
    }

    pub(super) fn send_file(&self, file: &Place, key: &[String]) -> Result<(), Failure> {
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

    pub(super) fn send_lines(&self, lines: &[u8], key: &[String]) -> Result<(), Failure> {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.send(line, key)?;
        }
        self.producer.poll(Duration::ZERO);
        self.producer.context().check()
    }

    fn send(&self, line: &[u8], key: &[String]) -> Result<(), Failure> {
        let key = message_key(line, key).map_err(Failure::Other)?;
        let mut record = BaseRecord::<[u8], [u8]>::to(&self.config.topic.value).payload(line);
        if let Some(key) = &key {
            record = record.key(key);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(Code::QueueFull), unsent)) => {
                    record = unsent;
                    self.make_room()?;
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }

    /// Waits until there is room for a message in the client's queue.
    fn make_room(&self) -> Result<(), Failure> {
        let (before, until) = (self.producer.in_flight_count(), clock::now() + REQUEST_TIMEOUT);
        while self.producer.in_flight_count() >= before {
            if clock::now() >= until {
                return Err(KafkaError::Flush(Code::OperationTimedOut).into());
            }
            self.producer.poll(QUEUE_WAIT);
            self.producer.context().check()?;
        }
        Ok(())
    }

    /// Waits until the brokers have all that was sent, for as long as they take some of it.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        loop {
            let before = self.producer.in_flight_count();
            let flushed = self.producer.flush(REQUEST_TIMEOUT);
            self.producer.context().check()?;
            match flushed {
                Err(KafkaError::Flush(Code::OperationTimedOut))
                    if self.producer.in_flight_count() < before => {}
                ended => return Ok(ended?),
            }
        }
    }

    pub(super) fn error(&self, failure: Failure) -> Error {
        match failure {
            Failure::Kafka(error) | Failure::Unknown(error) => self.failed(error, None),
            Failure::Other(error) => error,
        }
    }

    /// What the client cannot go on after. What calls return then only follows from it.
    fn fatal(&self) -> Option<KafkaError> {
        self.producer.client().fatal_error().map(|(code, _)| KafkaError::Global(code))
    }

    /// `begun`: when the transaction was. Brokers fence a producer, too, whose transaction is late.
    fn failed(&self, error: KafkaError, begun: Option<Instant>) -> Error {
        let error = self.fatal().unwrap_or(error);
        let limit = transaction_timeout(&self.config);
        let lasted = begun.map(|begun| clock::now().saturating_duration_since(begun));
        match error.rdkafka_error_code() {
            Some(code) if is_fenced(code) && lasted.is_some_and(|lasted| lasted >= limit) => {
                transaction_too_long(&self.config, &error, limit)
            }
            _ => failed("write", &self.config, &error),
        }
    }
}

fn settings(config: &KafkaConfig, identity: Option<&str>) -> ClientConfig {
    let defaults: &[_] = match identity {
        Some(_) => &[("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)],
        None => &[],
    };
    let mut client = kafka::client(config, defaults);
    client.set("enable.idempotence", "true");
    if let Some(identity) = identity {
        client.set("transactional.id", identity);
    }
    client
}

fn transaction_timeout(config: &KafkaConfig) -> Duration {
    let stated = config.property("transaction.timeout.ms").unwrap_or(TRANSACTION_TIMEOUT_MS);
    Duration::from_millis(stated.parse().unwrap_or(u64::MAX))
}

/// Whether another transaction would fail of it, too.
fn is_final(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::MessageSizeTooLarge
                | Code::UnknownTopic
                | Code::UnknownTopicOrPartition
                | Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::TransactionalIdAuthorizationFailed
        )
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Located;

    fn config(properties: &[(&str, &str)]) -> KafkaConfig {
        let located = |text: &str| Located { value: text.to_owned(), line: 1 };
        let property = |(name, value): &(&str, &str)| (located(name), (*value).to_owned());
        KafkaConfig {
            brokers: located("localhost:1"),
            topic: located("rows"),
            properties: properties.iter().map(property).collect(),
        }
    }

    #[test]
    fn a_transaction_may_take_as_long_as_brokers_allow_or_as_stated() {
        let timeout = |properties: &[_]| {
            let config = config(properties);
            let client = settings(&config, Some("a"));
            let set = client.get("transaction.timeout.ms").expect("set").to_owned();
            (set, transaction_timeout(&config).as_secs())
        };
        assert_eq!(timeout(&[]), ("900000".to_owned(), 900));
        let stated = [("transaction.timeout.ms", "20000")];
        assert_eq!(timeout(&stated), ("20000".to_owned(), 20));
        assert_eq!(settings(&config(&[]), None).get("transaction.timeout.ms"), None);
    }

    #[test]
    fn a_late_transaction_is_told_by_the_property_that_bounds_it() {
        let stated = [("transaction.timeout.ms", "1000")];
        let config = SinkTopicConfig {
            kafka: config(&stated),
            key: Vec::new(),
            delivery: crate::config::Delivery::ExactlyOnce,
        };
        let producer =
            settings(&config.kafka, Some("a")).create_with_context(Deliveries::default());
        let topic = Topic { config: config.kafka, producer: producer.expect("a client") };
        let begun = clock::now();
        let fenced = || KafkaError::Global(Code::ProducerFenced);
        let early = topic.failed(fenced(), Some(begun + Duration::from_secs(60))).to_string();
        assert!(early.contains("another run of this pipeline"), "{early}");
        let Some(long_ago) = begun.checked_sub(Duration::from_secs(2)) else { return };
        let late = topic.failed(fenced(), Some(long_ago)).to_string();
        assert!(late.contains("transaction.timeout.ms") && !late.contains("another run"), "{late}");
    }
}

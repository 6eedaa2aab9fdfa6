//! What the Kafka source and the Kafka sink have in common: how brokers are reached, and what
//! their errors mean.

use crate::config::KafkaConfig;
use crate::error::{Error, ErrorKind, Result};
use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use std::time::Duration;

/// How long a request of opening or committing may take.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What the library tells of a consumer goes to our log, where it is of use: errors that matter come
/// out of calls, too.
#[derive(Debug)]
pub(crate) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        log(facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

impl ConsumerContext for Quiet {}

/// What the library has to say.
pub(crate) fn log(facility: &str, message: &str) {
    tracing::debug!(facility, message, "librdkafka");
}

/// An error that the library goes on after, or that a call returns.
pub(crate) fn log_error(error: &KafkaError, reason: &str) {
    match error.rdkafka_error_code() {
        Some(code) if is_passing(code) => tracing::warn!(%code, reason, "brokers of Kafka"),
        _ => tracing::debug!(%error, reason, "librdkafka"),
    }
}

/// A client of these brokers. `defaults`: settings that those of the pipeline file replace.
pub(crate) fn client(config: &KafkaConfig, defaults: &[(&str, &str)]) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("client.id", "howdah");
    for (name, value) in defaults {
        client.set(*name, *value);
    }
    for (name, value) in &config.properties {
        client.set(name.value.as_str(), value.as_str());
    }
    client.set("bootstrap.servers", config.brokers.value.as_str());
    // A topic that is not there is an error, not made.
    client.set("allow.auto.create.topics", "false");
    client
}

/// The numbers of the topic's partitions.
pub(crate) fn partitions<C: ClientContext>(
    client: &Client<C>,
    config: &KafkaConfig,
) -> Result<Vec<i32>> {
    let name = config.topic.value.as_str();
    let wrong = |error: KafkaError| failed("open", config, &error);
    let metadata = client.fetch_metadata(Some(name), REQUEST_TIMEOUT).map_err(wrong)?;
    let found = metadata.topics().iter().find(|found| found.name() == name);
    if let Some(code) = found.and_then(MetadataTopic::error) {
        return Err(wrong(KafkaError::MetadataFetch(code.into())));
    }
    let partitions = found.map_or(&[][..], MetadataTopic::partitions);
    if partitions.is_empty() {
        return Err(wrong(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopic)));
    }
    Ok(partitions.iter().map(MetadataPartition::id).collect())
}

/// What was tried with a topic, and why it failed.
pub(crate) fn failed(action: &str, config: &KafkaConfig, error: &KafkaError) -> Error {
    let code = error.rdkafka_error_code();
    let kind = match code {
        Some(code) if is_passing(code) => ErrorKind::Unreachable,
        _ => ErrorKind::External,
    };
    let error = Error::new(kind, cannot(action, config, error));
    match code.map_or("", hint) {
        "" => error,
        hint => error.with_hint(hint),
    }
}

/// A transaction that the brokers ended because of its time.
pub(crate) fn transaction_too_long(
    config: &KafkaConfig,
    error: &KafkaError,
    limit: Duration,
) -> Error {
    let hint = format!(
        "the transaction of a checkpoint took longer than {} ms: set a greater \
         \"transaction.timeout.ms\" in the properties, which transaction.max.timeout.ms of the brokers \
         must allow, or a shorter interval between checkpoints",
        limit.as_millis()
    );
    Error::new(ErrorKind::External, cannot("write", config, error)).with_hint(hint)
}

/// A row that no message can have.
pub(crate) fn message_too_long(config: &KafkaConfig, length: usize, limit: usize) -> Error {
    let message = format!(
        "cannot write topic `{}` of the brokers {}: a row is a message of {length} bytes, and \
         \"message.max.bytes\" is {limit}",
        config.topic.value, config.brokers.value
    );
    Error::new(ErrorKind::External, message).with_hint(hint(RDKafkaErrorCode::MessageSizeTooLarge))
}

fn cannot(action: &str, config: &KafkaConfig, error: &KafkaError) -> String {
    let (topic, brokers) = (&config.topic.value, &config.brokers.value);
    format!("cannot {action} topic `{topic}` of the brokers {brokers}: {error}")
}

/// Whether somebody else writes in our place.
pub(crate) fn is_fenced(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
}

/// The way out, where there is one to be told.
fn hint(code: RDKafkaErrorCode) -> &'static str {
    use RDKafkaErrorCode as Code;
    match code {
        Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::Resolve
        | Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::MessageTimedOut => {
            "see that the brokers run and can be reached from here, then run again"
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition => "create the topic, or mend its name",
        _ if is_fenced(code) => {
            "another run of this pipeline writes to the topic: stop it, or give one of them \
             another `name`"
        }
        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::ClusterAuthorizationFailed => "let this user do so on the brokers",
        Code::MessageSizeTooLarge => {
            "set a greater \"message.max.bytes\" in the properties, which max.message.bytes of the \
             topic must allow"
        }
        Code::InvalidTransactionTimeout => {
            "set a smaller \"transaction.timeout.ms\" in the properties, or a greater \
             transaction.max.timeout.ms on the brokers"
        }
        Code::OffsetOutOfRange | Code::AutoOffsetReset => {
            "messages were deleted before they were read: start afresh with --fresh"
        }
        _ => "",
    }
}

/// Whether it passes: the client goes on by itself and the caller need only wait, or try again.
pub(crate) fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::MessageTimedOut
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::NotCoordinator
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::ConcurrentTransactions
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::KafkaStorageError
            // What follows from a transaction that was broken off.
            | Code::PurgeQueue
            | Code::PurgeInflight
            | Code::NetworkException
    )
}

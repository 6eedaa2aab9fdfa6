//! What the Kafka source and the Kafka sink have in common: how brokers are reached, and what
//! their errors mean.

use crate::config::KafkaConfig;
use crate::error::{Error, ErrorKind};
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
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

/// A client of these brokers.
pub(crate) fn client(config: &KafkaConfig) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("client.id", "howdah");
    for (name, value) in &config.properties {
        client.set(name.value.as_str(), value.as_str());
    }
    client.set("bootstrap.servers", config.brokers.value.as_str());
    client
}

/// What was tried with a topic, and why it failed.
pub(crate) fn failed(action: &str, config: &KafkaConfig, error: &KafkaError) -> Error {
    let (topic, brokers) = (&config.topic.value, &config.brokers.value);
    let hint = match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::Resolve
            | RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::RequestTimedOut,
        ) => "; see that the brokers run and can be reached from here, then run again",
        Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition) => {
            "; create the topic, or mend its name"
        }
        Some(
            RDKafkaErrorCode::Fenced
            | RDKafkaErrorCode::ProducerFenced
            | RDKafkaErrorCode::InvalidProducerEpoch,
        ) => {
            "; another run of this pipeline writes to the topic: stop it, or give one of them \
             another `name`"
        }
        Some(
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed,
        ) => "; let this user do so on the brokers",
        _ => "",
    };
    let message =
        format!("cannot {action} topic `{topic}` of the brokers {brokers}: {error}{hint}");
    Error::new(ErrorKind::External, message)
}

/// Whether the client goes on by itself, and the caller need only wait.
pub(crate) fn is_passing(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::NotCoordinator
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::NetworkException
    )
}

//! Topics of Kafka, in `[source]` and `[sink]`.

use super::Located;
use super::keys::{Key, Kind, optional};
use super::section::Section;
use std::fmt;

/// A topic and how it is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// Brokers to begin with, as `host:port`, separated by commas.
    pub brokers: Located<String>,
    /// The name of the topic.
    pub topic: Located<String>,
    /// Settings of the client (librdkafka), by name.
    pub properties: Vec<(Located<String>, String)>,
}

impl KafkaConfig {
    /// A setting of the client, as far as it is stated.
    #[cfg(feature = "kafka")]
    pub(crate) fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|(known, _)| known.value == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Values of settings may be secret.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.properties.iter().map(|(name, _)| name.value.as_str()).collect();
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .field("properties", &names)
            .finish()
    }
}

/// A topic that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// The topic.
    pub kafka: KafkaConfig,
    /// What messages are.
    pub format: KafkaFormat,
    /// Where a run without a checkpoint begins.
    pub start: KafkaStart,
    /// Whether it ends with the messages that were there when it was opened first.
    pub bounded: bool,
}

/// What the value of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KafkaFormat {
    /// A JSON object.
    Json,
    /// A CSV record, with the fields of `[source.schema]` in its order.
    Csv,
    /// Bytes or text, as the column `value`.
    Raw,
}

/// Where a topic is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KafkaStart {
    /// At the first message that is there.
    Earliest,
    /// After the last one.
    Latest,
}

/// A topic that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkTopicConfig {
    /// The topic.
    pub kafka: KafkaConfig,
    /// Columns whose values are the key of a message; none: it has no key.
    pub key: Vec<String>,
    /// How often a row is there after a failure.
    pub delivery: Delivery,
}

/// What a sink promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Each row once, in a transaction for each checkpoint.
    ExactlyOnce,
    /// Each row at least once, as soon as it is there.
    AtLeastOnce,
}

/// Settings of the client that may be given. What makes output exact is ours to set, and files and
/// libraries of the host are none of the pipeline's.
const SETTINGS: &[&str] = &[
    "batch.num.messages",
    "batch.size",
    "broker.address.family",
    "client.id",
    "compression.codec",
    "compression.type",
    "connections.max.idle.ms",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "linger.ms",
    "max.partition.fetch.bytes",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.max.age.ms",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.timeout.ms",
    "transaction.timeout.ms",
];

/// The kind of source and sink that has such keys.
pub(super) const KIND: &[&str] = &["kafka"];

pub(super) const BROKERS: Key = optional(
    "brokers",
    Kind::Text,
    "Brokers to begin with, as `host:port`, separated by commas. Must be there",
)
.only(KIND);

pub(super) const TOPIC: Key =
    optional("topic", Kind::Text, "The name of the topic. Must be there").only(KIND);

pub(super) const PROPERTIES: Key = optional(
    "properties",
    Kind::Settings(SETTINGS),
    "Settings of the client, by the names that librdkafka has for them",
)
.only(KIND);

/// The topic of a section. `None`: something is wrong.
pub(super) fn kafka(section: &Section<'_>) -> Option<KafkaConfig> {
    let brokers = section.required_text("brokers");
    let topic = section.required_text("topic");
    let properties = properties(&section.section("properties"));
    for (name, value) in &properties {
        if let Some(problem) = not_built_in(&name.value, value) {
            section.problem(name.line, problem);
        }
    }
    if cfg!(not(feature = "kafka")) {
        let problem = "this howdah was built without Kafka; build it with --features kafka";
        section.problem(section.line(), problem);
        return None;
    }
    Some(KafkaConfig { brokers: brokers?, topic: topic?, properties })
}

/// What the client is built without, and the way out.
fn not_built_in(name: &str, value: &str) -> Option<String> {
    let is = |known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(value));
    let (what, way_out) = match name {
        "security.protocol" if is(&["ssl", "sasl_ssl"]) => {
            ("TLS", "take a listener without it, or put a proxy that speaks it before the brokers")
        }
        "sasl.mechanism" | "sasl.mechanisms" if !is(&["plain"]) => ("this mechanism", "take PLAIN"),
        _ => return None,
    };
    Some(format!("`{name}` is \"{value}\", and this howdah is built without {what}; {way_out}"))
}

/// Settings of the client; a number or a boolean is as good as its text.
fn properties(section: &Section<'_>) -> Vec<(Located<String>, String)> {
    use toml::de::DeValue;
    let property = |(name, value): (Located<String>, &toml::Spanned<DeValue<'_>>)| {
        let text = match value.get_ref() {
            DeValue::Boolean(boolean) => boolean.to_string(),
            DeValue::Integer(integer) => integer.to_string(),
            DeValue::Float(float) => float.to_string(),
            DeValue::String(text) => text.clone().into_owned(),
            _ => return section.wrong_type(&name.value, value, "one value"),
        };
        Some((name, text))
    };
    let known = |(name, _): &(Located<String>, _)| SETTINGS.contains(&name.value.as_str());
    section.entries().into_iter().filter(known).filter_map(property).collect()
}

/// The topic of a source. `None`: something is wrong.
pub(super) fn source(section: &Section<'_>) -> Option<TopicConfig> {
    let kafka = kafka(section);
    let formats =
        [("json", KafkaFormat::Json), ("csv", KafkaFormat::Csv), ("raw", KafkaFormat::Raw)];
    let format = section.choice("format", &formats);
    let starts = [("earliest", KafkaStart::Earliest), ("latest", KafkaStart::Latest)];
    let start = section.choice("start", &starts);
    let bounded = section.boolean("bounded");
    if format == Some(KafkaFormat::Csv) && !section.has("schema") {
        let what = section.describe("format");
        let problem = format!(
            "{what} is \"csv\", whose messages have no header: name their fields in order, with \
             types, in [source.schema]"
        );
        section.problem(section.line(), problem);
    }
    Some(TopicConfig {
        kafka: kafka?,
        format: format.unwrap_or(KafkaFormat::Json),
        start: start.unwrap_or(KafkaStart::Earliest),
        bounded: bounded.unwrap_or(false),
    })
}

/// The topic of a sink. `None`: something is wrong.
pub(super) fn sink(section: &Section<'_>) -> Option<SinkTopicConfig> {
    let kafka = kafka(section);
    let key = section.texts("key");
    let deliveries =
        [("exactly-once", Delivery::ExactlyOnce), ("at-least-once", Delivery::AtLeastOnce)];
    let delivery = section.choice("delivery", &deliveries);
    Some(SinkTopicConfig {
        kafka: kafka?,
        key: key.into_iter().map(|column| column.value).collect(),
        delivery: delivery.unwrap_or(Delivery::ExactlyOnce),
    })
}

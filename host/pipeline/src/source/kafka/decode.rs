//! Values of the plan's columns from a message.

use crate::config::{KafkaFormat, SourceConfig, TopicConfig};
use crate::source::column_builder::Value;
use crate::source::file::{Record, Split, split};
use crate::source::object::Object;
use crate::source::plan::Plan;
use rdkafka::Message;
use rdkafka::message::BorrowedMessage;

/// The column of a raw message.
pub(super) const RAW_COLUMN: &str = "value";
/// Columns that every message has beside its own.
pub(super) const METADATA: &[(&str, Metadata)] = &[
    ("kafka.key", Metadata::Key),
    ("kafka.partition", Metadata::Partition),
    ("kafka.offset", Metadata::Offset),
    ("kafka.timestamp", Metadata::Timestamp),
];

/// What a message has beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metadata {
    Key,
    Partition,
    Offset,
    /// Milliseconds since the epoch.
    Timestamp,
}

/// Decodes one message at a time.
#[derive(Debug)]
pub(super) struct Decoder {
    /// For each column of the plan.
    places: Vec<Place>,
    format: Format,
}

/// Where a column comes from.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// A field of the value: of JSON the member with the index of the column.
    Value(usize),
    Metadata(Metadata),
}

#[derive(Debug)]
enum Format {
    Json(Object),
    /// With this many fields.
    Csv(Record, usize),
    Raw,
}

/// The values of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    decoder: &'a Decoder,
    payload: &'a [u8],
    /// Whether there is a value at all.
    has_payload: bool,
    key: Option<&'a [u8]>,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
}

impl Decoder {
    pub(super) fn new(config: &SourceConfig, topic: &TopicConfig, plan: &Plan) -> Self {
        let names = || plan.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        let place = |(index, name): (usize, String)| {
            if let Some((_, metadata)) = METADATA.iter().find(|(known, _)| *known == name) {
                return Place::Metadata(*metadata);
            }
            // The fields of CSV are those of the stated schema, in its order.
            let field = config.schema.iter().position(|(stated, _)| stated.value == name);
            match topic.format {
                KafkaFormat::Csv => Place::Value(field.unwrap_or(usize::MAX)),
                KafkaFormat::Json | KafkaFormat::Raw => Place::Value(index),
            }
        };
        let format = match topic.format {
            KafkaFormat::Json => Format::Json(Object::new(names())),
            KafkaFormat::Csv => Format::Csv(Record::default(), config.schema.len()),
            KafkaFormat::Raw => Format::Raw,
        };
        Self { places: names().into_iter().enumerate().map(place).collect(), format }
    }

    /// The values of a message, or what is wrong with it.
    pub(super) fn decode<'a>(
        &'a mut self,
        message: &'a BorrowedMessage<'_>,
    ) -> Result<Row<'a>, String> {
        let payload = message.payload();
        match (&mut self.format, payload) {
            (Format::Json(object), Some(payload)) => object.parse(payload)?,
            (Format::Csv(record, fields), Some(payload)) => parse_csv(record, payload, *fields)?,
            (Format::Raw, _) => {}
            (Format::Json(_) | Format::Csv(..), None) => {
                return Err("the message has no value, as one that deletes its key".to_owned());
            }
        }
        Ok(Row {
            decoder: self,
            payload: payload.unwrap_or_default(),
            has_payload: payload.is_some(),
            key: message.key(),
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp().to_millis(),
        })
    }
}

impl<'a> Row<'a> {
    /// The value of a column of the plan.
    pub(super) fn value(&self, column: usize) -> Value<'a> {
        match self.decoder.places.get(column) {
            None => Value::Null,
            Some(Place::Metadata(metadata)) => match metadata {
                Metadata::Key => self.key.map_or(Value::Null, Value::Field),
                Metadata::Partition => Value::Integer(i64::from(self.partition)),
                Metadata::Offset => Value::Integer(self.offset),
                Metadata::Timestamp => self.timestamp.map_or(Value::Null, Value::Integer),
            },
            Some(Place::Value(index)) => match &self.decoder.format {
                Format::Json(object) => object.value(*index),
                Format::Csv(record, _) => record.value(self.payload, *index),
                Format::Raw if self.has_payload => Value::Field(self.payload),
                Format::Raw => Value::Null,
            },
        }
    }
}

/// A message is one record without a header, with or without a line break.
fn parse_csv(record: &mut Record, payload: &[u8], fields: usize) -> Result<(), String> {
    match split(payload, true, record) {
        Split::Record { length, .. } if length < payload.len() => {
            Err("the message has more than one CSV record".to_owned())
        }
        Split::Record { .. } if record.len() != fields => {
            let found = record.len();
            Err(format!("the message has {found} fields, [source.schema] has {fields}"))
        }
        Split::Record { .. } => Ok(()),
        Split::Malformed { reason, .. } => Err(reason.to_owned()),
        Split::Blank { .. } | Split::End => Err("the message is no CSV record: it is empty".into()),
        Split::Unclosed | Split::More | Split::TooLong => {
            Err("a quoted field of the message has no closing quote".to_owned())
        }
    }
}

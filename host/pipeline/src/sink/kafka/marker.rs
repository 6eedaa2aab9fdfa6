//! How far a sink has come, as its brokers know it.

use crate::config::KafkaConfig;
use crate::error::Result;
use crate::kafka::{self, Quiet, REQUEST_TIMEOUT, failed};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

/// The number of the last checkpoint that was sent, kept as the offset of a group for the first
/// partition of the topic.
pub(super) struct Marker {
    topic: String,
    group: ConsumerGroupMetadata,
}

impl Marker {
    /// The marker, and where it stands: 0 at the beginning.
    pub(super) fn read(config: &KafkaConfig, group: &str) -> Result<(Self, u64)> {
        let wrong = |error| failed("read the progress of", config, &error);
        let mut client = kafka::client(config, &[]);
        client
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            // Offsets of an open transaction are waited for.
            .set("isolation.level", "read_committed");
        let consumer: BaseConsumer<Quiet> = client.create_with_context(Quiet).map_err(wrong)?;
        let group = consumer.group_metadata().ok_or(KafkaError::Canceled).map_err(wrong)?;
        let marker = Self { topic: config.topic.value.clone(), group };
        let list = marker.offsets(Offset::Invalid).map_err(wrong)?;
        let committed = consumer.committed_offsets(list, REQUEST_TIMEOUT).map_err(wrong)?;
        let offset = match committed.elements().first() {
            Some(element) => {
                element.error().map_err(wrong)?;
                element.offset()
            }
            None => Offset::Invalid,
        };
        let checkpoint = match offset {
            Offset::Offset(offset) => u64::try_from(offset).unwrap_or(0),
            _ => 0,
        };
        Ok((marker, checkpoint))
    }

    /// What says that it stands there.
    pub(super) fn offsets(&self, offset: Offset) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, 0, offset)?;
        Ok(list)
    }

    pub(super) fn group(&self) -> &ConsumerGroupMetadata {
        &self.group
    }
}

//! The messages of one partition, in their order.

use super::decode::Decoder;
use crate::config::{SourceConfig, TopicConfig};
use crate::error::Result;
use crate::kafka::Quiet;
use crate::lines::Origin;
use crate::source::SourceBatch;
use crate::source::plan::Plan;
use crate::source::reject::Rejects;
use crate::source::rows::Rows;
use rdkafka::Message;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::KafkaError;
use std::sync::Arc;
use std::time::Duration;

/// A partition and how far it was read.
pub(super) struct Partition {
    number: i32,
    queue: PartitionQueue<Quiet>,
    /// The offset of the next message.
    next: i64,
    /// Where it ends, unless it goes on for ever.
    end: Option<i64>,
    /// Whether nothing follows now.
    at_end: bool,
    /// The highest event time so far.
    latest: i64,
    plan: Arc<Plan>,
    decoder: Decoder,
    rejects: Rejects,
}

/// What a partition gave.
pub(super) enum Read {
    Batch(Messages),
    /// No message is there.
    Nothing,
    Failed(KafkaError),
}

/// Messages as rows.
pub(super) struct Messages {
    pub(super) batch: SourceBatch,
    /// How many they were, filtered and malformed ones included.
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Partition {
    pub(super) fn new(
        config: &SourceConfig,
        topic: &TopicConfig,
        plan: &Arc<Plan>,
        number: i32,
        queue: PartitionQueue<Quiet>,
        next: i64,
        end: Option<i64>,
    ) -> Self {
        let origin = Origin::of_partition(&topic.kafka.topic.value, number);
        Self {
            number,
            queue,
            next,
            end,
            at_end: false,
            latest: i64::MIN,
            plan: Arc::clone(plan),
            decoder: Decoder::new(config, topic, plan),
            rejects: Rejects::of(origin, &config.on_error),
        }
    }

    pub(super) fn number(&self) -> i32 {
        self.number
    }

    pub(super) fn next(&self) -> i64 {
        self.next
    }

    pub(super) fn end(&self) -> Option<i64> {
        self.end
    }

    pub(super) fn latest(&self) -> i64 {
        self.latest
    }

    /// Whether there is nothing to be read, now or for ever.
    pub(super) fn at_end(&self) -> bool {
        self.at_end || self.ended()
    }

    /// Whether it was read to the end that was set.
    pub(super) fn ended(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }

    /// Messages that are there, without waiting.
    pub(super) fn read(&mut self, rows_limit: usize) -> Result<Read> {
        let mut rows = Rows::new(Arc::clone(&self.plan), rows_limit);
        let (mut messages, mut bytes) = (0, 0);
        while !self.ended() && !rows.is_full(rows_limit) && !self.rejects.is_full() {
            let message = match self.queue.poll(Duration::ZERO) {
                None => break,
                Some(Ok(message)) => message,
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    self.at_end = true;
                    // What is left up to the end are marks of transactions, which are no rows.
                    self.next = self.next.max(self.end.unwrap_or(0));
                    break;
                }
                // What was read is handed on first: the client tells of what lasts again.
                Some(Err(_)) if messages > 0 => break,
                Some(Err(error)) => return Ok(Read::Failed(error)),
            };
            if self.end.is_some_and(|end| message.offset() >= end) {
                self.next = self.next.max(self.end.unwrap_or(0));
                break;
            }
            self.at_end = false;
            self.next = message.offset() + 1;
            messages += 1;
            bytes += u64::try_from(message.payload_len()).unwrap_or(u64::MAX);
            let line = u64::try_from(message.offset()).unwrap_or(0);
            let appended = self.decoder.decode(&message).and_then(|row| {
                rows.append(line, |column| row.value(column)).map_err(|bad| bad.reason)
            });
            if let Err(reason) = appended {
                self.rejects.add(line, message.payload().unwrap_or_default(), reason)?;
                rows.reject();
            }
        }
        if messages == 0 {
            return Ok(Read::Nothing);
        }
        let batch = rows.finish(&mut self.rejects)?;
        let latest = batch.event_times.iter().max();
        self.latest = latest.map_or(self.latest, |latest| self.latest.max(*latest));
        Ok(Read::Batch(Messages { batch, messages, bytes }))
    }
}

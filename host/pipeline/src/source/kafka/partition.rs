//! The messages of one partition, in their order.

use super::decode::Decoder;
use crate::clock;
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
use rdkafka::message::BorrowedMessage;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A partition that is read.
pub(super) struct Partition {
    queue: PartitionQueue<Quiet>,
    place: Place,
    /// Since when nothing follows.
    at_end: Option<Instant>,
    /// Whether this run has read a message.
    has_read: bool,
    /// What the client told of behind messages: it may tell of it once.
    failed: Option<KafkaError>,
    plan: Arc<Plan>,
    decoder: Decoder,
    rejects: Rejects,
}

/// A partition and how far it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) number: i32,
    /// The offset of the next message.
    pub(super) next: i64,
    /// Where it ends, unless it goes on for ever.
    pub(super) end: Option<i64>,
    /// The highest event time so far.
    pub(super) latest: Option<i64>,
    /// Messages that were read, filtered and malformed ones included.
    pub(super) messages: u64,
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
    pub(super) bytes: u64,
}

impl Partition {
    pub(super) fn new(
        config: &SourceConfig,
        topic: &TopicConfig,
        plan: &Arc<Plan>,
        queue: PartitionQueue<Quiet>,
        place: Place,
    ) -> Self {
        let origin = Origin::of_partition(&topic.kafka.topic.value, place.number);
        Self {
            queue,
            place,
            at_end: None,
            has_read: false,
            failed: None,
            plan: Arc::clone(plan),
            decoder: Decoder::new(config, topic, plan),
            rejects: Rejects::of(origin, &config.on_error),
        }
    }

    pub(super) fn number(&self) -> i32 {
        self.place.number
    }

    /// Messages that were read since the beginning, filtered and malformed ones included.
    pub(super) fn messages(&self) -> u64 {
        self.place.messages
    }

    pub(super) fn end(&self) -> Option<i64> {
        self.place.end
    }

    /// The highest event time so far; `None`: there was none.
    pub(super) fn latest(&self) -> Option<i64> {
        self.place.latest.filter(|_| self.plan.has_event_time())
    }

    /// The offset of the next message. `reached` is where the client is, which has passed marks of
    /// transactions, too: those behind the last message need not be there when it is read on.
    pub(super) fn next(&self, reached: Option<i64>) -> i64 {
        let next = reached.map_or(self.place.next, |reached| reached.max(self.place.next));
        // A message past the end may have been looked at.
        self.place.end.map_or(next, |end| next.min(end).max(self.place.next))
    }

    /// The event time that rows to come may still have; `None`: nobody waits for this partition. It is
    /// waited for at its end, too, once it has had rows, unless it has been there for `idle_after`.
    pub(super) fn holds_back(&self, now: Instant, idle_after: Option<Duration>) -> Option<i64> {
        let is_idle = self.at_end.is_some_and(|since| {
            idle_after.is_some_and(|after| now.saturating_duration_since(since) >= after)
        });
        match self.latest() {
            _ if self.ended() || is_idle => None,
            // Malformed rows have no event time.
            None => (self.at_end.is_none() && !self.has_read).then_some(i64::MIN),
            latest => latest,
        }
    }

    /// Whether it is at its end, and no row of it has had an event time.
    pub(super) fn has_had_nothing(&self) -> bool {
        self.at_end.is_some() && self.latest().is_none()
    }

    /// Whether it was read to the end that was set.
    pub(super) fn ended(&self) -> bool {
        self.place.end.is_some_and(|end| self.place.next >= end)
    }

    /// Messages that are there, without waiting.
    pub(super) fn read(&mut self, rows_limit: usize) -> Result<Read> {
        if let Some(error) = self.failed.take() {
            return Ok(Read::Failed(error));
        }
        let mut rows: Option<Rows> = None;
        let mut bytes = 0;
        while !self.ended() && !self.rejects.is_full() {
            if rows.as_ref().is_some_and(|rows| rows.is_full(rows_limit)) {
                break;
            }
            let message = match self.queue.poll(Duration::ZERO) {
                None => break,
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    self.failed = self.place.pass(error, &mut self.at_end);
                    break;
                }
            };
            if self.place.end.is_some_and(|end| message.offset() >= end) {
                self.place.skip_to_end();
                break;
            }
            self.at_end = None;
            self.has_read = true;
            self.place.next = message.offset() + 1;
            self.place.messages += 1;
            bytes += u64::try_from(message.payload_len()).unwrap_or(u64::MAX);
            let rows = rows.get_or_insert_with(|| {
                Rows::new(Arc::clone(&self.plan), rows_limit).with_times_of_filtered()
            });
            append(rows, &message, &mut self.decoder, &mut self.rejects)?;
        }
        let Some(mut rows) = rows else {
            return Ok(self.failed.take().map_or(Read::Nothing, Read::Failed));
        };
        let latest = rows.latest_filtered();
        let batch = rows.finish(&mut self.rejects)?;
        let latest = latest.max(batch.event_times.iter().max().copied());
        self.place.latest = self.place.latest.max(latest);
        Ok(Read::Batch(Messages { batch, bytes }))
    }
}

impl Place {
    /// Passes the end of what is there, and returns what else the client tells of.
    fn pass(&mut self, error: KafkaError, at_end: &mut Option<Instant>) -> Option<KafkaError> {
        let KafkaError::PartitionEOF(_) = error else { return Some(error) };
        at_end.get_or_insert_with(clock::now);
        self.skip_to_end();
        None
    }

    /// What is left up to the end are marks of transactions, which are no rows.
    fn skip_to_end(&mut self) {
        self.next = self.next.max(self.end.unwrap_or(0));
    }
}

/// The row of a message, or what is wrong with it.
fn append(
    rows: &mut Rows,
    message: &BorrowedMessage<'_>,
    decoder: &mut Decoder,
    rejects: &mut Rejects,
) -> Result<()> {
    let line = u64::try_from(message.offset()).unwrap_or(0);
    let appended = decoder
        .decode(message)
        .and_then(|row| rows.append(line, |column| row.value(column)).map_err(|bad| bad.reason));
    if let Err(reason) = appended {
        rejects.add(line, message.payload().unwrap_or_default(), reason)?;
        rows.reject();
    }
    Ok(())
}

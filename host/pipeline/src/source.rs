//! Where rows come from: the contract of a source, and the connectors that keep it.

mod column_builder;
mod columnar;
#[cfg(test)]
mod conformance;
mod file;
mod http;
mod infer;
#[cfg(feature = "kafka")]
mod kafka;
mod nexmark;
mod object;
mod plan;
mod reject;
mod rows;
mod table;

use crate::checkpoint::SourcePosition;
use crate::config::{SourceConfig, SourceConnector};
use crate::error::{Error, Result};
use crate::grants::Directories;
use crate::lines::Lines;
use arrow_array::RecordBatch;
pub(crate) use columnar::{cast_exactly, read_type};
pub(crate) use plan::{FileShape, Plan, Wanted, widens};
pub(crate) use reject::Rejected;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Rows that are read before a batch is handed on, at most this many times the rows that
/// the batch may have: a filter that keeps little must not hold up barriers.
const READ_FACTOR: usize = 8;

/// A stream of rows that can be read again from where a checkpoint left it.
///
/// One thread owns a source, or a share of it, and makes all calls. The contract, which
/// `conformance` tests for every connector:
///
/// - *Position.* [`position`](Self::position) stands between two rows: after all rows that
///   [`next`](Self::next) has returned, filtered and malformed ones included, and before all
///   others. A source that is opened there returns exactly the others, in the same order, with
///   the same event times; where batches end may differ. The position survives the process, and
///   says all by itself where it is: no file of the connector's own may be needed beside it.
///   A source of what others send has no such thing: what it has handed out since the last
///   checkpoint is theirs to send again. Its position counts what they need not.
/// - *Changed input.* What a position refers to may have changed since. A connector that cannot
///   go on exactly there refuses to open, with the way out, and never skips or repeats rows.
/// - *Time.* `next` waits for no input. What is not there yet is [`Next::Idle`], and barriers
///   go by in the meantime. Work of a call is bounded by `rows_limit` rows, times
///   `READ_FACTOR` if they are filtered.
/// - *The end.* After [`Next::End`] every call returns it again. One that never ends returns it never.
/// - *Shares.* Opened by several subtasks, each with its [`Share`], they return each row once, together.
///   Each position says of its share where it is; [`merge`] makes one of them, from which any number
///   of subtasks goes on.
/// - *Checkpoints.* Each position that goes into a checkpoint was asked for at its barrier.
///   [`checkpoint_completed`](Self::checkpoint_completed) follows once that checkpoint is
///   durable; it may be left out, for a crash comes in between, and a connector acknowledges
///   what is before the position at the next open too.
/// - *Errors.* After an error the source is dropped. Opening it again at the last checkpoint's
///   position is the recovery.
pub(crate) trait Source: Send {
    /// The run begins: what others see of the source may be there from now on. A source that is
    /// opened to see whether it would run is dropped without.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// The next rows, `rows_limit` at most.
    fn next(&mut self, rows_limit: usize) -> Result<Next>;

    /// How far it has come. Cheap: asked for around every batch.
    fn progress(&self) -> Progress;

    /// Where the next row is, for a checkpoint. Asked for at barriers.
    fn position(&self) -> Result<SourcePosition>;

    /// An event time that rows to come may still have at the least, where the source knows of one:
    /// one that reads several streams at a time is as far as the one furthest behind. The
    /// watermark stays below. `None`: as far as the rows that it has given.
    fn event_time_limit(&self) -> Option<i64> {
        None
    }

    /// Whether others need not wait for its watermark while it gives nothing, however long it has been
    /// so: it has had no row, and is at the end of what there is.
    fn has_had_nothing(&self) -> bool {
        false
    }

    /// The checkpoint whose barrier asked for this position is durable: nothing before it is
    /// read again. The place to acknowledge or to let go.
    fn checkpoint_completed(&mut self, position: &SourcePosition) -> Result<()> {
        let _ = position;
        Ok(())
    }
}

/// What a source has to give.
#[derive(Debug)]
pub(crate) enum Next {
    /// Rows. There may be none, when all that were read are filtered out.
    Batch(SourceBatch),
    /// Nothing now; worth asking again after this time.
    Idle(Duration),
    /// Nothing any more.
    End,
}

/// Rows of a source, in its order.
#[derive(Debug)]
pub(crate) struct SourceBatch {
    /// With the columns of the operator's input.
    pub(crate) rows: RecordBatch,
    /// The kind of each row, where they are of a changelog.
    pub(crate) row_kinds: Option<Vec<u8>>,
    /// One for each row.
    pub(crate) event_times: Vec<i64>,
    /// Where each row is.
    pub(crate) lines: Lines,
    /// Rows that the filter kept out.
    pub(crate) filtered: u64,
    /// Malformed rows, unless they are errors.
    pub(crate) rejected: Vec<Rejected>,
}

/// How far a source has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Rows that were read, filtered and malformed ones included, since its beginning.
    pub(crate) rows: u64,
    /// Bytes that were read; 0 where rows are no bytes.
    pub(crate) bytes_read: u64,
    /// Bytes that are there to be read, as far as that is known.
    pub(crate) bytes_total: u64,
}

/// The part of a source that a subtask reads. What belongs to it follows from the number of subtasks
/// and from what it is called, so that it is the same in every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Whose it is.
    pub(crate) subtask: u32,
    /// How many subtasks there are.
    pub(crate) of: u32,
}

impl Share {
    /// All of it.
    pub(crate) const WHOLE: Self = Self { subtask: 0, of: 1 };

    /// Those of so many subtasks.
    pub(crate) fn all(of: u32) -> impl Iterator<Item = Self> {
        (0..of).map(move |subtask| Self { subtask, of })
    }

    /// Whether what has this number belongs to it.
    fn has(self, number: u64) -> bool {
        number % u64::from(self.of.max(1)) == u64::from(self.subtask)
    }

    /// Whether what has this name belongs to it.
    fn has_name(self, name: &str) -> bool {
        // The last step of MurmurHash3: names that count up are spread evenly.
        let mut mixed = crc32fast::hash(name.as_bytes());
        mixed = (mixed ^ (mixed >> 16)).wrapping_mul(0x85EB_CA6B);
        mixed = (mixed ^ (mixed >> 13)).wrapping_mul(0xC2B2_AE35);
        self.has(u64::from(mixed ^ (mixed >> 16)))
    }
}

/// Whether a path means the files of a directory.
pub(crate) fn has_many(path: &Path) -> bool {
    file::has_many(path)
}

/// What columns the source has, and of what types they seem to be.
pub(crate) fn inspect(config: &SourceConfig, directories: &Directories) -> Result<FileShape> {
    match config.connector {
        SourceConnector::File => file::inspect(config, directories),
        SourceConnector::Nexmark { .. } => Ok(nexmark::inspect()),
        SourceConnector::Paimon => table::inspect(config, directories),
        SourceConnector::Http => Ok(http::inspect(config)),
        SourceConnector::Kafka => inspect_topic(config),
    }
}

/// Opens a share of a source at a position of all of it; `None`: at its first row.
pub(crate) fn open(
    config: &SourceConfig,
    directories: &Directories,
    plan: Arc<Plan>,
    share: Share,
    position: Option<&SourcePosition>,
) -> Result<Box<dyn Source>> {
    match config.connector {
        SourceConnector::File => file::open(config, directories, plan, share, position),
        SourceConnector::Nexmark { events } => {
            Ok(Box::new(nexmark::NexmarkSource::open(config, events, plan, share, position)?))
        }
        SourceConnector::Paimon => {
            Ok(Box::new(table::PaimonSource::open(config, directories, plan, position)?))
        }
        SourceConnector::Http => Ok(Box::new(http::HttpSource::open(config, plan, position)?)),
        SourceConnector::Kafka => open_topic(config, &plan, share, position),
    }
}

#[cfg(feature = "kafka")]
fn inspect_topic(config: &SourceConfig) -> Result<FileShape> {
    Ok(kafka::inspect(config, topic(config)?))
}

#[cfg(feature = "kafka")]
fn open_topic(
    config: &SourceConfig,
    plan: &Arc<Plan>,
    share: Share,
    position: Option<&SourcePosition>,
) -> Result<Box<dyn Source>> {
    Ok(Box::new(kafka::KafkaSource::open(config, topic(config)?, plan, share, position)?))
}

#[cfg(feature = "kafka")]
fn topic(config: &SourceConfig) -> Result<&crate::config::TopicConfig> {
    config.topic.as_ref().ok_or_else(|| Error::internal("a Kafka source has no topic"))
}

#[cfg(not(feature = "kafka"))]
fn inspect_topic(_: &SourceConfig) -> Result<FileShape> {
    Err(no_kafka())
}

#[cfg(not(feature = "kafka"))]
fn open_topic(
    _: &SourceConfig,
    _: &Arc<Plan>,
    _: Share,
    _: Option<&SourcePosition>,
) -> Result<Box<dyn Source>> {
    Err(no_kafka())
}

/// The configuration has refused it before.
#[cfg(not(feature = "kafka"))]
fn no_kafka() -> Error {
    Error::internal("a Kafka source in a build without Kafka")
}

/// The position of all of a source, from those of its shares.
pub(crate) fn merge(positions: &[SourcePosition]) -> Result<SourcePosition> {
    match positions {
        [whole] => Ok(whole.clone()),
        [first, ..] if first.connector == nexmark::CONNECTOR => nexmark::merge(positions),
        [first, ..] if first.connector == file::DIRECTORY => file::merge(positions),
        #[cfg(feature = "kafka")]
        [first, ..] if first.connector == kafka::CONNECTOR => kafka::merge(positions),
        _ => Err(Error::internal("a source without shares has several positions, or none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spread_over_shares_and_belong_to_one_each() {
        for of in 1..6 {
            let mut counts = vec![0; of as usize];
            for number in 0..1_000 {
                let name = format!("part-{number:04}.csv");
                let owners: Vec<_> = Share::all(of).filter(|share| share.has_name(&name)).collect();
                assert_eq!(owners.len(), 1);
                counts[owners[0].subtask as usize] += 1;
            }
            assert!(counts.iter().all(|count| *count > 800 / of), "{counts:?}");
        }
    }
}

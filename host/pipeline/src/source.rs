//! Where rows come from: the contract of a source, and the connectors that keep it.

mod column_builder;
mod columnar;
#[cfg(test)]
mod conformance;
mod file;
mod http;
mod infer;
mod nexmark;
mod object;
mod plan;
mod reject;
mod rows;
mod table;

use crate::checkpoint::SourcePosition;
use crate::config::{SourceConfig, SourceConnector};
use crate::error::Result;
use crate::grants::Directories;
use crate::lines::Lines;
use arrow_array::RecordBatch;
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
/// One thread owns a source and makes all calls. The contract, which `conformance` tests for
/// every connector:
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
/// - *The end.* After [`Next::End`] every call returns it again. A source that says it is
///   bounded comes to its end; another one comes to it never, or when it is told from outside.
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

    /// Whether it comes to its end by itself.
    #[allow(dead_code, reason = "every source is, so far")]
    fn is_bounded(&self) -> bool;

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
    }
}

/// Opens a source at a position; `None`: at its first row.
pub(crate) fn open(
    config: &SourceConfig,
    directories: &Directories,
    plan: Arc<Plan>,
    position: Option<&SourcePosition>,
) -> Result<Box<dyn Source>> {
    match config.connector {
        SourceConnector::File => file::open(config, directories, plan, position),
        SourceConnector::Nexmark { events } => {
            Ok(Box::new(nexmark::NexmarkSource::open(config, events, plan, position)?))
        }
        SourceConnector::Paimon => {
            Ok(Box::new(table::PaimonSource::open(config, directories, plan, position)?))
        }
        SourceConnector::Http => Ok(Box::new(http::HttpSource::open(config, plan, position)?)),
    }
}

//! Malformed rows: an error, or set aside.

use crate::config::{OnError, SourceConfig};
use crate::error::{Error, Result};
use crate::lines::Origin;
use std::sync::Arc;

/// How much of a malformed row the dead-letter file keeps.
const RAW_LIMIT_BYTES: usize = 64 << 10;
/// Bytes of malformed rows after which a batch is handed on.
const BATCH_LIMIT_BYTES: usize = 4 << 20;

/// A malformed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) origin: Arc<Origin>,
    /// The line that it starts on, or the number of the row in a Parquet file, from 1.
    pub(crate) line: u64,
    /// The row as the file has it, cut short; empty unless dead letters are kept.
    pub(crate) raw: Vec<u8>,
    /// What is wrong, naming the column.
    pub(crate) reason: String,
}

/// Takes malformed rows as `on-error` says.
#[derive(Debug)]
pub(super) struct Rejects {
    origin: Arc<Origin>,
    on_error: OnError,
    rows: Vec<Rejected>,
    bytes: usize,
}

impl Rejects {
    pub(super) fn new(config: &SourceConfig) -> Self {
        Self::of(Origin::of(config), &config.on_error)
    }

    /// Those of what rows are said to come from.
    pub(super) fn of(origin: Origin, on_error: &OnError) -> Self {
        Self { origin: Arc::new(origin), on_error: on_error.clone(), rows: Vec::new(), bytes: 0 }
    }

    /// Sets the row aside, or fails with `FILE:LINE: REASON`.
    pub(super) fn add(&mut self, line: u64, raw: &[u8], reason: String) -> Result<()> {
        let raw = match self.on_error {
            OnError::Fail => {
                return Err(self.error(line, &reason).with_hint(
                    "mend the row, or set on-error = \"skip\" or \"dead-letter\" in [source]",
                ));
            }
            OnError::Skip => Vec::new(),
            OnError::DeadLetter(_) => raw.get(..RAW_LIMIT_BYTES).unwrap_or(raw).to_vec(),
        };
        self.bytes += raw.len() + reason.len() + size_of::<Rejected>();
        self.rows.push(Rejected { origin: Arc::clone(&self.origin), line, raw, reason });
        Ok(())
    }

    /// `FILE:LINE: REASON`, for what cannot be set aside.
    pub(super) fn error(&self, line: u64, reason: &str) -> Error {
        Error::input(format!("{}:{line}: {reason}", self.origin))
    }

    /// What the rows come from.
    pub(super) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Whether it is time to hand on what was set aside.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_LIMIT_BYTES
    }

    pub(super) fn take(&mut self) -> Vec<Rejected> {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }
}

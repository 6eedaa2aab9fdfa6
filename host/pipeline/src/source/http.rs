//! Rows that are sent: bodies of NDJSON, by POST to a port of the loopback address.
//!
//! They cannot be read again, so a crash loses what was handed out after the last checkpoint. That
//! is for whoever sent it to send again, and why it is acknowledged when a checkpoint is complete
//! that has it; or at once, where that loss is no harm.

mod body;
mod server;

use super::plan::{FileColumn, FileShape, Plan};
use super::{Next, Progress, Source, SourceBatch};
use crate::checkpoint::SourcePosition;
use crate::config::SourceConfig;
use crate::error::{Error, Result};
use crate::lines::{Lines, Origin};
use body::BodyReader;
use server::{Done, Received, Server, Shared};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const CONNECTOR: &str = "http";
/// How long the reader waits before it looks again.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The columns that the pipeline file states: there are no rows to guess from.
pub(super) fn inspect(config: &SourceConfig) -> FileShape {
    let column = |(name, column_type): &(crate::config::Located<String>, _)| FileColumn {
        name: name.value.clone(),
        column_type: Some(*column_type),
    };
    let columns = config.schema.iter().map(column).collect();
    FileShape { typed: true, ..FileShape::guessed(columns, false) }
}

/// The source.
pub(super) struct HttpSource {
    shared: Arc<Shared>,
    server: Option<Server>,
    origin: Arc<Origin>,
    /// What is being handed out.
    open: Option<Open>,
    /// Rows since the beginning.
    rows: u64,
    /// Requests that wait for a checkpoint with so many rows.
    unconfirmed: VecDeque<(u64, Done)>,
}

/// A body of which some rows were handed out.
struct Open {
    received: Received,
    handed_out: usize,
}

impl HttpSource {
    pub(super) fn open(
        config: &SourceConfig,
        plan: Arc<Plan>,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let http = config.http.clone();
        let http = http.ok_or_else(|| Error::internal("an HTTP source without a port"))?;
        if let Some(position) = position {
            position.read::<()>(CONNECTOR)?;
        }
        Ok(Self {
            shared: Arc::new(Shared::new(http, BodyReader::new(config, plan))),
            server: None,
            origin: Arc::new(Origin::of(config)),
            open: None,
            rows: position.map_or(0, |position| position.rows),
            unconfirmed: VecDeque::new(),
        })
    }

    /// Rows of a body that fit, and whether that were all.
    fn part(&self, open: &mut Open, rows_limit: usize) -> (SourceBatch, bool) {
        let batch = &open.received.batch;
        let first = open.handed_out;
        let count = (batch.rows.num_rows() - first).min(rows_limit.max(1));
        open.handed_out += count;
        let numbers = batch.lines.iter().skip(first).take(count);
        let numbers = numbers.map(|(_, number)| self.rows + number);
        let event_times = batch.event_times.get(first..first + count).unwrap_or_default();
        let is_last = open.handed_out == batch.rows.num_rows();
        let part = SourceBatch {
            rows: batch.rows.slice(first, count),
            row_kinds: None,
            event_times: event_times.to_vec(),
            lines: Lines::new(&self.origin, numbers.collect()),
            filtered: if is_last { batch.filtered } else { 0 },
            rejected: Vec::new(),
        };
        (part, is_last)
    }
}

impl Source for HttpSource {
    fn begin(&mut self) -> Result<()> {
        self.server = Some(Server::start(Arc::clone(&self.shared))?);
        Ok(())
    }

    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        let open = self.open.take();
        let taken = open.or_else(|| {
            let received = self.shared.take()?;
            Some(Open { received, handed_out: 0 })
        });
        let Some(mut open) = taken else { return Ok(Next::Idle(LOOK_INTERVAL)) };
        let (part, is_last) = self.part(&mut open, rows_limit);
        self.rows += u64::try_from(part.rows.num_rows()).unwrap_or(u64::MAX) + part.filtered;
        if !is_last {
            self.open = Some(open);
        } else if let Some(done) = open.received.done {
            self.unconfirmed.push_back((self.rows, done));
        }
        Ok(Next::Batch(part))
    }

    fn progress(&self) -> Progress {
        Progress { rows: self.rows, ..Progress::default() }
    }

    fn position(&self) -> Result<SourcePosition> {
        SourcePosition::new(CONNECTOR, self.rows, &())
    }

    fn checkpoint_completed(&mut self, position: &SourcePosition) -> Result<()> {
        while self.unconfirmed.front().is_some_and(|(rows, _)| *rows <= position.rows) {
            let Some((_, done)) = self.unconfirmed.pop_front() else { break };
            // Whoever has gone away does not hear of it.
            let _ = done.send(());
        }
        Ok(())
    }
}

impl Drop for HttpSource {
    fn drop(&mut self) {
        // Those who wait hear that it was not done, before the port is closed.
        self.shared.close();
        self.unconfirmed.clear();
        self.open = None;
        self.server = None;
    }
}

#[cfg(test)]
mod tests;

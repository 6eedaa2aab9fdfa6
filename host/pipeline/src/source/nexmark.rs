//! Events of the Nexmark benchmark, generated in the process.

use super::columnar::Columnar;
use super::plan::{FileShape, Plan};
use super::reject::Rejects;
use super::{Next, Progress, Source};
use crate::checkpoint::SourcePosition;
use crate::config::SourceConfig;
use crate::error::Result;
use crate::nexmark::NexmarkEvents;
use std::sync::Arc;

/// The name of the connector.
pub(super) const CONNECTOR: &str = "nexmark";

/// The generator's columns.
pub(super) fn inspect() -> FileShape {
    FileShape::of_schema(&NexmarkEvents::schema())
}

/// The source. Its position is the number of rows alone: an event depends on its number.
pub(super) struct NexmarkSource {
    events: NexmarkEvents,
    /// Events in all; `None`: it goes on for ever.
    limit: Option<u64>,
    columnar: Columnar,
}

impl NexmarkSource {
    pub(super) fn open(
        config: &SourceConfig,
        limit: Option<u64>,
        plan: Arc<Plan>,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let first = match position {
            None => 0,
            Some(position) => {
                position.read::<()>(CONNECTOR)?;
                position.rows
            }
        };
        Ok(Self {
            events: NexmarkEvents::from(first),
            limit,
            columnar: Columnar::new(plan, Rejects::new(config)),
        })
    }
}

impl Source for NexmarkSource {
    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        let next = self.events.number();
        let left = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(next));
        if left == 0 {
            return Ok(Next::End);
        }
        let events = rows_limit.min(usize::try_from(left).unwrap_or(usize::MAX));
        let batch = self.events.batch(events)?;
        self.columnar.take(&batch, next + 1).map(Next::Batch)
    }

    fn progress(&self) -> Progress {
        Progress { rows: self.events.number(), ..Progress::default() }
    }

    fn position(&self) -> Result<SourcePosition> {
        SourcePosition::new(CONNECTOR, self.events.number(), &())
    }

    fn is_bounded(&self) -> bool {
        self.limit.is_some()
    }
}

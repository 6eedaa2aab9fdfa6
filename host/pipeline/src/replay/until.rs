//! A source that ends before its end.

use crate::checkpoint::SourcePosition;
use crate::error::Result;
use crate::source::{Next, Progress, Source};

/// Ends once so many rows were read. With a filter, the last batch may go beyond. It stands around
/// the whole of a source, not a share of it.
pub(crate) struct Until {
    pub(crate) source: Box<dyn Source>,
    pub(crate) rows: u64,
}

impl Source for Until {
    fn begin(&mut self) -> Result<()> {
        self.source.begin()
    }

    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        let left = self.rows.saturating_sub(self.source.progress().rows);
        if left == 0 {
            return Ok(Next::End);
        }
        self.source.next(rows_limit.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }

    fn progress(&self) -> Progress {
        self.source.progress()
    }

    fn position(&self) -> Result<SourcePosition> {
        self.source.position()
    }

    fn event_time_limit(&self) -> Option<i64> {
        self.source.event_time_limit()
    }
}

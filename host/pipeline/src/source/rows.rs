//! Puts rows together from values: filter first, all columns or none.

use super::column_builder::{ColumnBuilder, Scalar, Value, ValueError};
use super::plan::Plan;
use super::{READ_FACTOR, SourceBatch};
use crate::error::Result;
use crate::lines::Lines;
use crate::source::reject::Rejects;
use std::sync::Arc;

/// A batch with as many bytes of text in it is full: rows may be a thousand times as long as usual.
const BATCH_LIMIT_BYTES: usize = 4 << 20;

/// Rows of the batch that is being read.
#[derive(Debug)]
pub(super) struct Rows {
    plan: Arc<Plan>,
    /// One for each column of the plan, in its order.
    builders: Vec<ColumnBuilder>,
    /// The line of each row.
    lines: Vec<u64>,
    filtered: usize,
    rejected: usize,
    /// Whether event times are wanted of rows, too, that the filter keeps out.
    times_of_filtered: bool,
    /// The highest of these.
    latest_filtered: Option<i64>,
}

impl Rows {
    pub(super) fn new(plan: Arc<Plan>, capacity: usize) -> Self {
        let builder = |column: &howdah_state::Column| ColumnBuilder::new(column.clone(), capacity);
        let builders = plan.columns().iter().map(builder).collect();
        Self {
            plan,
            builders,
            lines: Vec::with_capacity(capacity),
            filtered: 0,
            rejected: 0,
            times_of_filtered: false,
            latest_filtered: None,
        }
    }

    /// The same, reading event times of rows, too, that the filter keeps out.
    #[cfg(feature = "kafka")]
    pub(super) fn with_times_of_filtered(self) -> Self {
        Self { times_of_filtered: true, ..self }
    }

    /// The highest event time of the rows that the filter kept out, as far as they have one.
    #[cfg(feature = "kafka")]
    pub(super) fn latest_filtered(&self) -> Option<i64> {
        self.latest_filtered
    }

    /// Appends the row of a line; `value` gives the value of a column of the plan. A row that the
    /// filter keeps out is counted. On an error, which names the column, nothing is appended.
    pub(super) fn append<'v>(
        &mut self,
        line: u64,
        mut value: impl FnMut(usize) -> Value<'v>,
    ) -> Result<(), BadValue> {
        let filter = self.plan.filter();
        for (index, builder) in self.builders.iter_mut().enumerate() {
            let wrong = builder.append(value(index)).err();
            if let Some(error) = wrong {
                let column = builder.column().name.clone();
                self.truncate();
                return Err(BadValue { reason: describe(&column, error), column });
            }
            if filter.get(index).is_some_and(|wanted| !builder.last_is(wanted)) {
                if self.times_of_filtered {
                    self.note_time(index, &mut value);
                }
                self.truncate();
                self.filtered += 1;
                return Ok(());
            }
        }
        self.lines.push(line);
        Ok(())
    }

    /// Counts a row that could not be appended.
    pub(super) fn reject(&mut self) {
        self.rejected += 1;
    }

    /// Whether a batch of `rows_limit` rows is full, or long enough under way.
    pub(super) fn is_full(&self, rows_limit: usize) -> bool {
        self.lines.len() >= rows_limit
            || self.read() >= rows_limit.saturating_mul(READ_FACTOR)
            || self.builders.iter().map(ColumnBuilder::text_bytes).sum::<usize>()
                >= BATCH_LIMIT_BYTES
    }

    /// Whether no row was read.
    pub(super) fn is_empty(&self) -> bool {
        self.read() == 0
    }

    /// The batch; begins a new one.
    pub(super) fn finish(&mut self, rejects: &mut Rejects) -> Result<SourceBatch> {
        let lines = std::mem::take(&mut self.lines);
        let filtered = std::mem::take(&mut self.filtered);
        self.rejected = 0;
        let columns = self.builders.iter_mut().map(ColumnBuilder::finish);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let (rows, event_times) = self.plan.project(&columns, lines.len())?;
        let filtered = u64::try_from(filtered).unwrap_or(u64::MAX);
        let lines = Lines::new(rejects.origin(), lines);
        let rejected = rejects.take();
        Ok(SourceBatch { rows, row_kinds: None, event_times, lines, filtered, rejected })
    }

    /// Notes the event time of a row of which the columns up to this one are read.
    fn note_time<'v>(&mut self, read: usize, value: &mut impl FnMut(usize) -> Value<'v>) {
        let Some(column) = self.plan.event_time() else { return };
        let Some(builder) = self.builders.get_mut(column) else { return };
        if column > read && builder.append(value(column)).is_err() {
            return;
        }
        if let Some(Scalar::Int64(time)) = builder.last() {
            self.latest_filtered = self.latest_filtered.max(Some(time));
        }
    }

    fn read(&self) -> usize {
        self.lines.len() + self.filtered + self.rejected
    }

    fn truncate(&mut self) {
        for builder in &mut self.builders {
            builder.truncate(self.lines.len());
        }
    }
}

/// A value that its column cannot take.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadValue {
    pub(super) column: String,
    /// Names the column, too.
    pub(super) reason: String,
}

/// What is wrong with the value of a column.
pub(super) fn describe(column: &str, error: ValueError) -> String {
    match error {
        ValueError::Missing => {
            format!("column `{column}` has no value, and the operator or event-time needs one")
        }
        ValueError::Wrong(reason) => format!("column `{column}`: {reason}"),
    }
}

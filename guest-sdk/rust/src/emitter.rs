use std::marker::PhantomData;

use crate::columns::ColumnBuilder;
use crate::{Error, Result, Row, RowKind, Timestamp, row, wit};

/// Takes the rows that an operator emits, in their order.
///
/// A row gets the event time of the record that is being processed; outside of
/// [`process`](crate::Operator::process), the watermark.
#[derive(Debug)]
pub struct Emitter<R> {
    columns: Vec<ColumnBuilder>,
    rows: u32,
    kinds: Vec<u8>,
    timestamps: Vec<u8>,
    /// The event time of what is emitted next.
    time: Timestamp,
    changelog: bool,
    /// The first row that could not be emitted: it fails the batch.
    failure: Option<Error>,
    row: PhantomData<fn(&R)>,
}

impl<R: Row> Emitter<R> {
    pub(crate) fn new(changelog: bool, time: Timestamp, capacity: usize) -> Self {
        Self {
            columns: row::builders::<R>(capacity),
            rows: 0,
            kinds: Vec::with_capacity(if changelog { capacity } else { 0 }),
            timestamps: Vec::with_capacity(capacity.saturating_mul(8)),
            time,
            changelog,
            failure: None,
            row: PhantomData,
        }
    }

    pub(crate) fn set_time(&mut self, time: Timestamp) {
        self.time = time;
    }

    /// Emits a new row.
    #[inline]
    pub fn emit(&mut self, row: &R) {
        self.emit_at(RowKind::Insert, self.time, row);
    }

    /// Emits a change: what the row was, and what it is. The operator must say
    /// [`OUTPUT_CHANGELOG`](crate::Operator::OUTPUT_CHANGELOG).
    pub fn emit_update(&mut self, before: &R, after: &R) {
        self.emit_kind(RowKind::UpdateBefore, before);
        self.emit_kind(RowKind::UpdateAfter, after);
    }

    /// Emits that a row is gone. The operator must say
    /// [`OUTPUT_CHANGELOG`](crate::Operator::OUTPUT_CHANGELOG).
    pub fn emit_delete(&mut self, row: &R) {
        self.emit_kind(RowKind::Delete, row);
    }

    /// Emits a row of this kind. Any kind but an insert fails the batch if the operator
    /// does not say [`OUTPUT_CHANGELOG`](crate::Operator::OUTPUT_CHANGELOG).
    pub fn emit_kind(&mut self, kind: RowKind, row: &R) {
        self.emit_at(kind, self.time, row);
    }

    /// Emits a row of this kind with an event time of its own.
    #[inline]
    pub fn emit_at(&mut self, kind: RowKind, timestamp: Timestamp, row: &R) {
        if self.changelog {
            self.kinds.push(kind as u8);
        } else if kind != RowKind::Insert {
            self.fail(Error::new(format!(
                "a row of kind {kind:?} was emitted, but the output is no changelog: \
                 set `const OUTPUT_CHANGELOG: bool = true` in the operator"
            )));
            return;
        }
        let Some(rows) = self.rows.checked_add(1) else {
            self.fail(Error::new("more rows were emitted for one batch than a batch can have"));
            return;
        };
        self.rows = rows;
        row.write(&mut self.columns);
        self.timestamps.extend_from_slice(&timestamp.millis().to_le_bytes());
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// The emitted rows; none is no output.
    pub(crate) fn finish(self) -> Result<Vec<wit::Output>> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.rows == 0 {
            return Ok(Vec::new());
        }
        Ok(vec![wit::Output {
            port: 0,
            batch: wit::Batch {
                rows: self.rows,
                columns: row::finish(self.columns),
                row_kinds: self.changelog.then_some(self.kinds),
            },
            timestamps: self.timestamps,
        }])
    }
}

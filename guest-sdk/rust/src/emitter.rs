use std::marker::PhantomData;

use crate::columns::{Column, ColumnBuilder, chunk};
use crate::{Batch, Error, Inputs, Key, Result, Row, RowKind, Timestamp, row, wit};

/// Takes the rows that an operator emits on one output, in their order.
///
/// A row gets the event time of the record that is being processed, or the time of the timer;
/// outside of [`process`](crate::Operator::process) and [`on_timer`](crate::Operator::on_timer),
/// the watermark.
#[derive(Debug)]
pub struct Emitter<R> {
    port: u32,
    columns: Vec<ColumnBuilder>,
    rows: u32,
    kinds: Vec<u8>,
    timestamps: Vec<u8>,
    /// Whole batches that were emitted before these rows.
    batches: Vec<wit::Output>,
    /// The event time of what is emitted next.
    time: Timestamp,
    changelog: bool,
    /// The first row that could not be emitted: it fails the batch.
    failure: Option<Error>,
    row: PhantomData<fn(&R)>,
}

impl<R: Row> Emitter<R> {
    #[doc(hidden)]
    pub fn new(port: u32, changelog: bool, time: Timestamp, capacity: usize) -> Self {
        Self {
            port,
            columns: row::builders::<R>(capacity),
            rows: 0,
            kinds: Vec::with_capacity(if changelog { capacity } else { 0 }),
            timestamps: Vec::with_capacity(capacity.saturating_mul(8)),
            batches: Vec::new(),
            time,
            changelog,
            failure: None,
            row: PhantomData,
        }
    }

    #[doc(hidden)]
    #[inline]
    pub fn set_time(&mut self, time: Timestamp) {
        self.time = time;
    }

    /// Emits a new row.
    #[inline]
    pub fn emit(&mut self, row: &R) {
        self.emit_at(RowKind::Insert, self.time, row);
    }

    /// Emits a change: what the row was, and what it is. The output must be a changelog.
    pub fn emit_update(&mut self, before: &R, after: &R) {
        self.emit_kind(RowKind::UpdateBefore, before);
        self.emit_kind(RowKind::UpdateAfter, after);
    }

    /// Emits that a row is gone. The output must be a changelog.
    pub fn emit_delete(&mut self, row: &R) {
        self.emit_kind(RowKind::Delete, row);
    }

    /// Emits what became of a row: an insert, an update, a delete, or nothing if it is the same
    /// as before or never was. The output must be a changelog.
    pub fn emit_change(&mut self, before: Option<&R>, after: Option<&R>)
    where
        R: PartialEq,
    {
        match (before, after) {
            (None, Some(after)) => self.emit(after),
            (Some(before), None) => self.emit_delete(before),
            (Some(before), Some(after)) if before != after => self.emit_update(before, after),
            _ => {}
        }
    }

    /// Emits a row of this kind. Any kind but an insert fails the batch if the output is no
    /// changelog: the operator says [`OUTPUT_CHANGELOG`](crate::Operator::OUTPUT_CHANGELOG), or
    /// its [`Outputs`](crate::Outputs) say `#[output(changelog)]`.
    #[inline]
    pub fn emit_kind(&mut self, kind: RowKind, row: &R) {
        self.emit_at(kind, self.time, row);
    }

    /// Emits a row of this kind with an event time of its own.
    #[inline]
    pub fn emit_at(&mut self, kind: RowKind, timestamp: Timestamp, row: &R) {
        if self.changelog {
            self.kinds.push(kind as u8);
        } else if kind != RowKind::Insert {
            return self.fail(no_changelog(&format!("{kind:?}")));
        }
        let Some(rows) = self.rows.checked_add(1) else {
            return self.fail(too_many());
        };
        self.rows = rows;
        row.write(&mut self.columns);
        self.timestamps.extend_from_slice(&timestamp.millis().to_le_bytes());
    }

    /// Emits whole columns of new rows, each with an event time. For
    /// [`process_batch`](crate::Operator::process_batch): columns of the input can go out as they
    /// are. Fails if a column does not fit its field.
    pub fn emit_columns(&mut self, columns: Vec<Column>, timestamps: &[Timestamp]) -> Result<()> {
        let mut times = Vec::with_capacity(timestamps.len().saturating_mul(8));
        for time in timestamps {
            times.extend_from_slice(&time.millis().to_le_bytes());
        }
        self.emit_batch(columns, timestamps.len(), times, None)
    }

    /// The same for one row for each row of a batch, with its event time and its kind.
    pub fn emit_columns_of<I: Inputs, K: Key>(
        &mut self,
        batch: &Batch<'_, I, K>,
        columns: Vec<Column>,
    ) -> Result<()> {
        let kinds = batch.input.batch.row_kinds.clone();
        self.emit_batch(columns, batch.rows(), batch.input.timestamps.clone(), kinds)
    }

    /// The same for one row for each of these rows of a batch, with its event time and its kind. With
    /// [`Batch::copy_rows`], only what is wanted of a batch goes out.
    pub fn emit_columns_of_rows<I: Inputs, K: Key>(
        &mut self,
        batch: &Batch<'_, I, K>,
        rows: &[u32],
        columns: Vec<Column>,
    ) -> Result<()> {
        let mut times = Vec::with_capacity(rows.len().saturating_mul(8));
        for row in rows {
            let Some(time) = chunk::<8>(&batch.input.timestamps, *row as usize) else {
                return Err(Error::new(format!("the batch has no row {row}")));
            };
            times.extend_from_slice(&time);
        }
        if rows.is_empty() {
            return Ok(());
        }
        let kind_of = |kinds: &[u8], row: &u32| kinds.get(*row as usize).copied();
        let kinds = batch.input.batch.row_kinds.as_deref();
        let kinds = kinds.map(|kinds| rows.iter().filter_map(|row| kind_of(kinds, row)).collect());
        self.emit_batch(columns, rows.len(), times, kinds)
    }

    fn emit_batch(
        &mut self,
        columns: Vec<Column>,
        count: usize,
        timestamps: Vec<u8>,
        row_kinds: Option<Vec<u8>>,
    ) -> Result<()> {
        let insert = RowKind::Insert as u8;
        let row_kinds = row_kinds.unwrap_or_else(|| vec![insert; count]);
        if !self.changelog && row_kinds.iter().any(|kind| *kind != insert) {
            return Err(no_changelog("other than Insert"));
        }
        row::check::<R>(&columns, count).map_err(|error| error.context("output"))?;
        let rows = u32::try_from(count).map_err(|_| too_many())?;
        self.end_batch();
        self.batches.push(wit::Output {
            port: self.port,
            batch: wit::Batch { rows, columns, row_kinds: self.changelog.then_some(row_kinds) },
            timestamps,
        });
        Ok(())
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Makes a batch of the rows so far.
    fn end_batch(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return;
        }
        let columns = std::mem::replace(&mut self.columns, row::builders::<R>(0));
        let kinds = std::mem::take(&mut self.kinds);
        self.batches.push(wit::Output {
            port: self.port,
            batch: wit::Batch {
                rows,
                columns: row::finish(columns),
                row_kinds: self.changelog.then_some(kinds),
            },
            timestamps: std::mem::take(&mut self.timestamps),
        });
    }

    /// Adds the emitted rows to the outputs; none is no output.
    #[doc(hidden)]
    pub fn finish(mut self, outputs: &mut Vec<wit::Output>) -> Result<()> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.end_batch();
        outputs.append(&mut self.batches);
        Ok(())
    }
}

#[cold]
fn no_changelog(kind: &str) -> Error {
    Error::new(format!(
        "a row of kind {kind} was emitted, but the output is no changelog: set \
         `const OUTPUT_CHANGELOG: bool = true` in the operator, or `#[output(changelog)]` on the \
         emitter"
    ))
}

#[cold]
fn too_many() -> Error {
    Error::new("more rows were emitted for one batch than a batch can have")
}

//! How the rows of two versions of a table differ: both are read in the order of their keys, side by
//! side.

use crate::ordered::{OrderedRows, RowKeys, whole};
use crate::pin::{Pin, PinnedFile};
use crate::range::FoundRow;
use crate::schema::{KEY_GROUP_COLUMN, TableSchema};
use crate::value_column::ValueColumn;
use crate::{At, Column, Error, ErrorKind, Result, StateReader};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use roaring::RoaringBitmap;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Rows that are handed out at a time.
const BATCH_ROWS: usize = 1024;
/// Bytes of values after which a batch ends.
const BATCH_BYTES: usize = 16 << 20;

/// What became of the row of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowChange {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// It has other values.
    Changed,
}

impl fmt::Display for RowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        })
    }
}

/// Rows that differ: entry `i` of each belongs to row `i`.
#[derive(Debug, Clone)]
pub struct ChangedRows {
    /// What became of the row.
    pub changes: Vec<RowChange>,
    /// `kg` and the key columns.
    pub key: RecordBatch,
    /// The value columns as they were; null in a row that was added.
    pub before: RecordBatch,
    /// The value columns as they are; null in a row that was removed.
    pub after: RecordBatch,
}

/// The rows that differ between two versions of a table, by key group and key. What both have in the
/// same file is passed over, so versions that follow each other cost what changed between them; of
/// the rest, a few rows of each file are in memory at a time.
///
/// All rows that are on disk count: of a state with a time to live also those that have ended and are
/// not merged away yet.
pub struct StateDiff {
    shape: Shape,
    before: Side,
    after: Side,
    failed: bool,
}

/// Columns that both versions are read with.
struct Shape {
    schema: TableSchema,
    key: SchemaRef,
    value: SchemaRef,
    columns: Vec<Column>,
}

/// One of the two versions, and its row that was not looked at yet.
struct Side {
    rows: OrderedRows,
    head: Option<(u32, FoundRow)>,
}

impl fmt::Debug for StateDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateDiff").finish_non_exhaustive()
    }
}

impl StateDiff {
    /// Compares two versions, of one table or of two with the same keys: of a warehouse and a
    /// savepoint, say. `None` is a version without rows.
    ///
    /// # Errors
    /// `Incompatible` when kind, keys, key groups or value columns do not go together;
    /// `InvalidArgument` for two times `None`; otherwise as [`StateReader::scan`].
    pub fn between(
        before: Option<(&StateReader, &At)>,
        after: Option<(&StateReader, &At)>,
    ) -> Result<Self> {
        let wanted = match (before, after) {
            (Some(before), Some(after)) => {
                common(&before.0.schema_version(before.1)?, &after.0.schema_version(after.1)?)?
            }
            (Some((reader, at)), None) | (None, Some((reader, at))) => reader.schema_version(at)?,
            (None, None) => return Err(Error::invalid("there are no two versions to compare")),
        };
        let open = |side: Option<(&StateReader, &At)>| match side {
            Some((reader, at)) => reader.open_as(at, &wanted),
            None => Ok((wanted.clone(), Pin { snapshot: 0, buckets: Vec::new() })),
        };
        let ((before_schema, mut before), (after_schema, mut after)) =
            (open(before)?, open(after)?);
        pass_over_common(&mut before, &mut after);
        Ok(Self {
            shape: Shape::of(wanted),
            before: Side::open(before_schema, before)?,
            after: Side::open(after_schema, after)?,
            failed: false,
        })
    }

    /// The next rows that differ; none at the end.
    fn read(&mut self) -> Result<Option<ChangedRows>> {
        let (mut changes, mut keys) = (Vec::new(), RowKeys::default());
        let columns = || self.shape.columns.iter().map(ValueColumn::new).collect::<Vec<_>>();
        let (mut before, mut after) = (columns(), columns());
        let mut bytes = 0;
        while keys.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            let change = match (&self.before.head, &self.after.head) {
                (None, None) => break,
                (Some(_), None) => RowChange::Removed,
                (None, Some(_)) => RowChange::Added,
                (Some((group, old)), Some((other, new))) => {
                    match (group, &old.key).cmp(&(other, &new.key)) {
                        Ordering::Less => RowChange::Removed,
                        Ordering::Greater => RowChange::Added,
                        Ordering::Equal => RowChange::Changed,
                    }
                }
            };
            let old = if change == RowChange::Added { None } else { self.before.take()? };
            let new = if change == RowChange::Removed { None } else { self.after.take()? };
            if let (Some((_, old)), Some((_, new))) = (&old, &new)
                && is_same(old, new)
            {
                continue;
            }
            let Some((group, row)) = new.as_ref().or(old.as_ref()) else { break };
            keys.push(*group, &row.key, row.hash)?;
            changes.push(change);
            push(&mut before, old.as_ref().map(|(_, row)| row))?;
            push(&mut after, new.as_ref().map(|(_, row)| row))?;
            bytes = before.iter().chain(&after).map(ValueColumn::memory_bytes).sum();
        }
        match changes.is_empty() {
            true => Ok(None),
            false => self.shape.rows(changes, keys, &before, &after).map(Some),
        }
    }
}

impl Iterator for StateDiff {
    type Item = Result<ChangedRows>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read().transpose();
        self.failed = next.as_ref().is_some_and(Result::is_err);
        next
    }
}

impl Side {
    fn open(schema: TableSchema, pin: Pin) -> Result<Self> {
        let mut rows = OrderedRows::new(schema, pin);
        let head = rows.next()?;
        Ok(Self { rows, head })
    }

    fn take(&mut self) -> Result<Option<(u32, FoundRow)>> {
        let next = self.rows.next()?;
        Ok(std::mem::replace(&mut self.head, next))
    }
}

impl Shape {
    fn of(schema: TableSchema) -> Self {
        let mut key = vec![Field::new(KEY_GROUP_COLUMN, DataType::Int32, false)];
        key.extend(schema.key().iter().map(Column::to_arrow));
        // A row that is on one side only has no values on the other.
        let columns: Vec<Column> =
            schema.value.iter().map(|column| Column { nullable: true, ..column.clone() }).collect();
        let value: Vec<Field> = columns.iter().map(Column::to_arrow).collect();
        Self {
            schema,
            key: Arc::new(Schema::new(key)),
            value: Arc::new(Schema::new(value)),
            columns,
        }
    }

    fn rows(
        &self,
        changes: Vec<RowChange>,
        keys: RowKeys,
        before: &[ValueColumn],
        after: &[ValueColumn],
    ) -> Result<ChangedRows> {
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(changes.len()));
        let batch = |schema: &SchemaRef, columns| {
            RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
                .map_err(|error| Error::corrupt(format!("rows that differ: {error}")))
        };
        let values = |columns: &[ValueColumn]| columns.iter().map(whole).collect::<Result<_>>();
        Ok(ChangedRows {
            key: batch(&self.key, keys.columns(&self.schema)?)?,
            before: batch(&self.value, values(before)?)?,
            after: batch(&self.value, values(after)?)?,
            changes,
        })
    }
}

fn push(columns: &mut [ValueColumn], row: Option<&FoundRow>) -> Result<()> {
    match row {
        None => columns.iter_mut().for_each(ValueColumn::push_empty),
        Some(row) => {
            for (column, from) in columns.iter_mut().zip(row.values.iter()) {
                column.push_from(from, row.row)?;
            }
        }
    }
    Ok(())
}

fn is_same(a: &FoundRow, b: &FoundRow) -> bool {
    let mut columns = a.values.iter().zip(b.values.iter());
    columns.all(|(of_a, of_b)| of_a.is_same(a.row, of_b, b.row))
}

/// Masks in both versions the rows that are live in the same file of both. The name of a file is
/// never given twice, so they are the same rows; and a key is live once in a version.
fn pass_over_common(before: &mut Pin, after: &mut Pin) {
    let mut known: HashMap<String, &mut PinnedFile> = HashMap::new();
    for pinned in before.buckets.iter_mut().flatten() {
        known.insert(pinned.file.meta.file_name.clone(), pinned);
    }
    for new in after.buckets.iter_mut().flatten() {
        let Some(old) = known.get_mut(&new.file.meta.file_name) else { continue };
        if old.file.rows() != new.file.rows() || old.file.bytes() != new.file.bytes() {
            continue;
        }
        let mut live_in_both = RoaringBitmap::new();
        live_in_both.insert_range(0..new.file.rows());
        live_in_both -= old.dead.as_ref();
        live_in_both -= new.dead.as_ref();
        old.dead = Arc::new(old.dead.as_ref() | &live_in_both);
        new.dead = Arc::new(new.dead.as_ref() | &live_in_both);
    }
}

/// The shape that both versions can be read in: columns that came later are null in the one before.
fn common(a: &TableSchema, b: &TableSchema) -> Result<TableSchema> {
    let refuse = |what: String| Err(Error::new(ErrorKind::Incompatible, what));
    if a.kind != b.kind || a.key() != b.key() {
        return refuse("the two versions have other kinds or keys and cannot be compared".into());
    }
    if a.key_groups.count() != b.key_groups.count() {
        return refuse(format!(
            "the two versions have {} and {} key groups and cannot be compared",
            a.key_groups.count(),
            b.key_groups.count()
        ));
    }
    let wider = |schema: &TableSchema| (schema.value.len(), schema.schema_id);
    let (narrow, wide) = if wider(a) <= wider(b) { (a, b) } else { (b, a) };
    let known = |name: &str| wide.value.iter().any(|column| column.name == name);
    match narrow.value.iter().find(|column| !known(&column.name)) {
        None => Ok(wide.clone()),
        Some(column) => refuse(format!(
            "only one of the two versions has the column `{}`, and the other has more columns; they \
             cannot be compared",
            column.name
        )),
    }
}

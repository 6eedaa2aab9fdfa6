//! The live rows of a version of a table, in the order of key group and row key.

use crate::pin::Pin;
use crate::range::{FoundRow, RangeCursors};
use crate::schema::TableSchema;
use crate::value_column::ValueColumn;
use crate::{Column, EncodedKeys, Error, Result};
use arrow_array::{ArrayRef, Int32Array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use std::sync::Arc;

/// Reads a version from its first row to its last. Holds a few rows of each file at a time.
pub(crate) struct OrderedRows {
    schema: TableSchema,
    pin: Pin,
    /// The one that is read, or read next.
    group: u32,
    cursors: Option<RangeCursors>,
}

impl OrderedRows {
    pub(crate) fn new(schema: TableSchema, pin: Pin) -> Self {
        Self { schema, pin, group: 0, cursors: None }
    }

    /// The next row, with its key group.
    ///
    /// # Errors
    /// `Corrupt` or `Storage` when a file cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, FoundRow)>> {
        while self.group < self.schema.key_groups.count() {
            if let Some(cursors) = &mut self.cursors {
                if let Some(found) = cursors.next(&self.schema)? {
                    return Ok(Some((self.group, found)));
                }
                self.cursors = None;
                self.group += 1;
                continue;
            }
            let bucket = self.schema.key_groups.subtask_of_group(self.group);
            let ranges = self.pin.range(&self.schema, bucket, self.group, &[], None)?;
            self.cursors = Some(RangeCursors::open(&self.schema, ranges)?);
        }
        Ok(None)
    }
}

/// Row keys that are gathered one by one.
#[derive(Default)]
pub(crate) struct RowKeys {
    groups: Vec<i32>,
    keys: EncodedKeys,
}

impl RowKeys {
    pub(crate) fn push(&mut self, group: u32, key: &[u8], hash: u64) -> Result<()> {
        self.groups.push(i32::try_from(group).unwrap_or(i32::MAX));
        self.keys.push(key, hash)
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The column `kg`, then the key columns.
    pub(crate) fn columns(self, schema: &TableSchema) -> Result<Vec<ArrayRef>> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(self.groups))];
        columns.extend(schema.encoder.decode(&self.keys)?);
        Ok(columns)
    }
}

/// All rows of a column, as an array.
pub(crate) fn whole(column: &ValueColumn) -> Result<ArrayRef> {
    let rows: Vec<Option<u32>> = (0..).map(Some).take(column.rows()).collect();
    column.gather(&rows)
}

/// Goes through all rows: each key is there once, and in the key group that its hash says. Returns
/// how many rows there are.
pub(crate) fn check_keys(table: &str, schema: TableSchema, pin: Pin) -> Result<u64> {
    let shape = schema.clone();
    let wrong = |key: &[u8], hash: u64, what: &str| {
        let shown = show_key(&shape, key, hash).unwrap_or_else(|_| "that cannot be read".into());
        Error::corrupt(format!(
            "table {table}: the row with the key {shown} {what}; restore from an earlier checkpoint"
        ))
    };
    // Values are not read.
    let schema = TableSchema { value: [].into(), ..schema };
    let mut rows = OrderedRows::new(schema, pin);
    let (mut count, mut before): (u64, Option<(u32, Vec<u8>)>) = (0, None);
    while let Some((group, FoundRow { key, hash, .. })) = rows.next()? {
        if shape.key_groups.group_of(hash) != group {
            return Err(wrong(&key, hash, "is in another key group than its own"));
        }
        if before.as_ref().is_some_and(|(of, before)| *of == group && *before == key) {
            return Err(wrong(&key, hash, "is there more than once"));
        }
        before = Some((group, key));
        count += 1;
    }
    Ok(count)
}

/// A key as `column=value`, for messages.
fn show_key(schema: &TableSchema, key: &[u8], hash: u64) -> Result<String> {
    let mut keys = EncodedKeys::default();
    keys.push(key, hash)?;
    show_first(schema.key(), &schema.encoder.decode(&keys)?)
}

/// The first row of these columns as `column=value`, for messages.
pub(crate) fn show_first(columns: &[Column], values: &[ArrayRef]) -> Result<String> {
    let options = FormatOptions::default();
    let mut shown = Vec::new();
    for (column, values) in columns.iter().zip(values) {
        let value = ArrayFormatter::try_new(values.as_ref(), &options)
            .and_then(|formatter| formatter.value(0).try_to_string());
        let value = value.map_err(|error| Error::internal(error.to_string()))?;
        shown.push(format!("{}={value}", column.name));
    }
    Ok(shown.join(" "))
}

//! Reads state tables without the lock, while a pipeline may be running.

use crate::{Column, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::path::{Path, PathBuf};

/// Which version of a table to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The newest snapshot.
    Latest,
    /// The snapshot with this number.
    Snapshot(i64),
    /// The snapshot of this completed checkpoint, by the tag `checkpoint-<id>`.
    Checkpoint(u64),
}

/// A state table in a warehouse.
#[derive(Debug, Clone, serde::Serialize)]
pub struct TableInfo {
    /// `<pipeline>__<operator>__<state>`.
    pub name: String,
    /// The directory of the table.
    pub path: PathBuf,
    /// Newest snapshot, if there is one.
    pub snapshot: Option<i64>,
    /// Live rows in it.
    pub rows: u64,
    /// Bytes of its data files.
    pub bytes: u64,
    /// Data files in it.
    pub files: u64,
    /// Checkpoints that can be read with `At::Checkpoint`.
    pub checkpoints: Vec<u64>,
}

/// All state tables of a tenant in a warehouse.
pub fn list_tables(warehouse: &Path, tenant: &str) -> Result<Vec<TableInfo>> {
    todo!()
}

/// Reads one table.
pub struct StateReader {}

impl StateReader {
    /// Opens a table for reading. `table` is the full name `<pipeline>__<operator>__<state>`.
    pub fn open(warehouse: &Path, tenant: &str, table: &str) -> Result<Self> {
        todo!()
    }
    /// Key columns.
    pub fn key(&self) -> &[Column] {
        todo!()
    }
    /// Value columns.
    pub fn value(&self) -> &[Column] {
        todo!()
    }
    /// Arrow schema of the rows: `kg`, key columns, value columns.
    pub fn schema(&self) -> SchemaRef {
        todo!()
    }
    /// Rows of the table, at most `limit`. Ordered by bucket, file and key.
    pub fn scan(&self, at: &At, limit: Option<usize>) -> Result<Vec<RecordBatch>> {
        todo!()
    }
    /// The rows with this key; `key` has one text for each key column, in order.
    pub fn get(&self, at: &At, key: &[String]) -> Result<Vec<RecordBatch>> {
        todo!()
    }
}

//! The rows of a small Paimon table.

use crate::{Result, TableSource};
use arrow_array::RecordBatch;
use std::path::Path;

/// Reads the newest snapshot of a table, whoever has written it; rows of a table with a primary
/// key are merged. All rows are in memory, so this is for small tables: [`TableSource`] reads one
/// batch after the other. A table without a snapshot has none.
///
/// # Errors
/// `NotFound` when there is no such table; `Corrupt` or `Storage` when it cannot be read.
pub fn read_table(warehouse: &Path, database: &str, table: &str) -> Result<Vec<RecordBatch>> {
    let source = TableSource::open(warehouse, database, table)?;
    let mut batches = Vec::new();
    if let Some(newest) = source.newest()? {
        let mut rows = source.rows(newest.snapshot)?;
        while let Some((batch, _)) = rows.next_batch()? {
            batches.push(batch);
        }
    }
    Ok(batches)
}

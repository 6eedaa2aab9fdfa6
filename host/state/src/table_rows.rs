//! The rows of any Paimon table, as crate `paimon` reads them.

use crate::file_system::{FileSystem, resolve};
use crate::metadata::{newest_paimon_schema, read_error};
use crate::store::{check_name, table_directory};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use futures::TryStreamExt as _;
use paimon::catalog::Identifier;
use paimon::table::Table;
use std::path::Path;

/// Reads the newest snapshot of a table, whoever has written it; rows of a table with a primary
/// key are merged. All rows are in memory, so this is for small tables. A table without a snapshot
/// has none.
///
/// # Errors
/// `NotFound` when there is no such table; `Corrupt` or `Storage` when it cannot be read.
pub fn read_table(warehouse: &Path, database: &str, table: &str) -> Result<Vec<RecordBatch>> {
    check_name("database", database)?;
    check_name("table", table)?;
    let files = FileSystem::new(false, None)?;
    let directory = table_directory(&resolve(warehouse)?, database, table);
    let schema = newest_paimon_schema(&files, &directory)?.ok_or_else(|| {
        Error::not_found(format!("there is no table {}", directory.root.display()))
    })?;
    let identifier = Identifier::new(database, table);
    let location = directory.root.to_string_lossy().into_owned();
    let table = Table::new(files.file_io.clone(), identifier, location, schema, None);
    let runtime = crate::table_sink::runtime()?;
    let rows: paimon::Result<Vec<RecordBatch>> = runtime.block_on(async {
        let builder = table.new_read_builder();
        let plan = builder.new_scan().plan().await?;
        builder.new_read()?.to_arrow(plan.splits())?.try_collect().await
    });
    rows.map_err(|error| read_error(&directory.root, error))
}

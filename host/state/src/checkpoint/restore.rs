//! From a target to a fresh warehouse.

use super::document::{Document, Table};
use super::target::{CheckpointTarget, Meter, OnProgress};
use super::{fetches, tables_in};
use crate::file_system::{FileSystem, resolve};
use crate::lock::Lock;
use crate::metadata::{TableDirectory, write_latest_hint};
use crate::store::table_directory;
use crate::{Error, Result};
use std::path::Path;

/// Damaged files that an error names; more are counted.
const NAMED_LIMIT: usize = 5;

/// What a checkpoint brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredCheckpoint {
    /// Full names of the tables, each with the snapshot to open it at
    /// ([`crate::Restore::Snapshot`]).
    pub tables: Vec<(String, i64)>,
    /// What was kept with it.
    pub payload: Vec<u8>,
}

/// Reads all files of a document and compares their checksums.
pub(super) fn verify(
    target: &CheckpointTarget,
    prefix: &str,
    document: &Document,
    progress: OnProgress<'_>,
) -> Result<()> {
    let wanted = fetches(prefix, document, |_, _| None);
    let bytes = wanted.iter().map(|fetch| fetch.sum.bytes).sum();
    let damages = target.fetch(&wanted, &Meter::new(wanted.len(), bytes, progress))?;
    refuse_damaged(document.checkpoint, &damages)
}

fn refuse_damaged(checkpoint: u64, damages: &[String]) -> Result<()> {
    if damages.is_empty() {
        return Ok(());
    }
    let mut named: Vec<&str> = damages.iter().take(NAMED_LIMIT).map(String::as_str).collect();
    let more = format!("and {} more", damages.len().saturating_sub(NAMED_LIMIT));
    if damages.len() > NAMED_LIMIT {
        named.push(&more);
    }
    Err(Error::corrupt(format!(
        "checkpoint {checkpoint} is damaged: {}; restore from another one",
        named.join("; ")
    )))
}

/// Makes a fresh warehouse of a document, as a whole or not at all.
pub(super) fn restore(
    target: &CheckpointTarget,
    prefix: &str,
    document: &Document,
    warehouse: &Path,
    progress: OnProgress<'_>,
) -> Result<RestoredCheckpoint> {
    let files = target.files();
    let warehouse = resolve(warehouse)?;
    files.create_root(&warehouse)?;
    let _lock = Lock::take(files, &warehouse)?;
    let database = warehouse.join(format!("{}.db", document.tenant));
    if !files.list(&database)?.is_empty() {
        return Err(Error::invalid(format!(
            "{} is not empty; restore into a fresh warehouse, or remove it",
            database.display()
        )));
    }
    // Made beside it and renamed at the end; what a crash left goes first.
    let staging = warehouse.join(".restoring");
    files.remove_directory(&staging)?;
    let result = fill(target, prefix, document, &staging, progress)
        .and_then(|()| files.rename(&staging.join(format!("{}.db", document.tenant)), &database))
        .and_then(|()| files.sync_directory(&warehouse));
    let cleaned = files.remove_directory(&staging);
    result.and(cleaned)?;
    Ok(RestoredCheckpoint {
        tables: tables_in(document),
        payload: document.payload.bytes().unwrap_or_default(),
    })
}

/// Brings the tables of a document to an empty directory.
fn fill(
    target: &CheckpointTarget,
    prefix: &str,
    document: &Document,
    staging: &Path,
    progress: OnProgress<'_>,
) -> Result<()> {
    let files = target.files();
    let directory = |table: &Table| table_directory(staging, &document.tenant, &table.name);
    let wanted =
        fetches(prefix, document, |table, file| Some(directory(table).root.join(&file.path)));
    for table in &document.tables {
        create_directories(files, &directory(table), table)?;
    }
    let bytes = wanted.iter().map(|fetch| fetch.sum.bytes).sum();
    let damages = target.fetch(&wanted, &Meter::new(wanted.len(), bytes, progress))?;
    refuse_damaged(document.checkpoint, &damages)?;
    for table in &document.tables {
        let directory = directory(table);
        write_metadata(files, &directory, table, document.checkpoint)?;
        for below in files.list(&directory.root)? {
            files.sync_directory(&directory.root.join(below))?;
        }
        files.sync_directory(&directory.root)?;
    }
    let database = staging.join(format!("{}.db", document.tenant));
    files.create_directory(&database)?;
    files.sync_directory(&database)
}

/// The directories of a table: those of files, and those that readers list.
pub(super) fn create_directories(
    files: &FileSystem,
    directory: &TableDirectory,
    table: &Table,
) -> Result<()> {
    for path in [directory.schemas(), directory.snapshots(), directory.manifests()] {
        files.create_directory(&path)?;
    }
    for path in [directory.index(), directory.tags()] {
        files.create_directory(&path)?;
    }
    for file in &table.files {
        if let Some(parent) = directory.root.join(&file.path).parent() {
            files.create_directory(parent)?;
        }
    }
    Ok(())
}

/// Writes schemas, snapshot and tag of a table.
pub(super) fn write_metadata(
    files: &FileSystem,
    directory: &TableDirectory,
    table: &Table,
    checkpoint: u64,
) -> Result<()> {
    for schema in &table.schemas {
        files.write(&directory.schema(schema.id), schema.file.as_bytes())?;
    }
    let snapshot = table.snapshot_file.as_bytes();
    files.write(&directory.snapshot(table.snapshot), snapshot)?;
    files.write(&directory.tag(checkpoint), snapshot)?;
    write_latest_hint(files, directory, table.snapshot);
    Ok(())
}

//! Files of a table that no snapshot, tag or lease needs: what a crash left behind.

use crate::committer::files_of;
use crate::fault::IoKind;
use crate::file_system::{FileSystem, TEMPORARY_SUFFIX, resolve};
use crate::lock::Lock;
use crate::metadata::{
    SnapshotReader, TableDirectory, read_snapshot, snapshot_ids, tagged_snapshots,
};
use crate::store::{check_name, check_table_name, table_directory};
use crate::{Error, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Attempts to look at a table while a pipeline moves on.
const ATTEMPTS: usize = 5;

/// Removes the files of a table that nothing needs and that are at least `minimum_age_ms`
/// milliseconds old; with `dry_run`, only names them. For tables that no pipeline has open: an
/// open one is cleaned when it is opened. Choose an age if another engine may be at work on the
/// table, since what it is about to commit is named by no snapshot yet.
///
/// # Errors
/// `Locked` while a pipeline has the warehouse open; `NotFound` when there is no such table;
/// `Corrupt` when a snapshot cannot be read, since what it names is not known then, or when
/// there is none; `Storage` when a file cannot be removed.
pub fn remove_orphans(
    warehouse: &Path,
    tenant: &str,
    table: &str,
    minimum_age_ms: u64,
    dry_run: bool,
) -> Result<Vec<PathBuf>> {
    let files = FileSystem::new(true, None)?;
    let (warehouse, table) = find(&files, warehouse, tenant, table)?;
    let _lock = Lock::take(&files, &warehouse)?;
    let unneeded = unneeded(&files, &table, minimum_age_ms)?;
    if !dry_run {
        files.remove_all(&unneeded)?;
    }
    Ok(unneeded)
}

/// Names the files of a table that nothing needs and that are at least `minimum_age_ms` milliseconds
/// old. Takes no lock and removes nothing: where a pipeline may have the table open, choose an age
/// that leaves out what it is about to commit, and what it removes by itself.
///
/// # Errors
/// As [`remove_orphans`], but for the lock.
pub fn find_orphans(
    warehouse: &Path,
    tenant: &str,
    table: &str,
    minimum_age_ms: u64,
) -> Result<Vec<PathBuf>> {
    let files = FileSystem::new(false, None)?;
    let (_, table) = find(&files, warehouse, tenant, table)?;
    let mut attempt = 1;
    loop {
        match unneeded(&files, &table, minimum_age_ms) {
            // A pipeline that moves on removes what was listed just now.
            Err(_) if attempt < ATTEMPTS => attempt += 1,
            other => return other,
        }
    }
}

fn find(
    files: &FileSystem,
    warehouse: &Path,
    tenant: &str,
    table: &str,
) -> Result<(PathBuf, TableDirectory)> {
    check_name("tenant", tenant)?;
    check_table_name(table)?;
    let warehouse = resolve(warehouse)?;
    let table = table_directory(&warehouse, tenant, table);
    if !files.is_directory(&table.snapshots())? {
        return Err(Error::not_found(format!("there is no table {}", table.root.display())));
    }
    Ok((warehouse, table))
}

fn unneeded(
    files: &FileSystem,
    table: &TableDirectory,
    minimum_age_ms: u64,
) -> Result<Vec<PathBuf>> {
    let mut reader = SnapshotReader::new(files, table);
    let mut used = HashSet::new();
    for id in snapshot_ids(files, table)? {
        let snapshot = read_snapshot(files, table, id)?;
        used.extend(files_of(table, &snapshot, &reader.read(&snapshot)?));
    }
    let tagged = tagged_snapshots(files, table)?;
    let tags = files.list(&table.tags())?.iter().filter(|name| name.starts_with("tag-")).count();
    if tags > tagged.len() {
        return Err(Error::corrupt(format!(
            "table {}: a tag cannot be read, so what it needs is not known; remove the tag first",
            table.name
        )));
    }
    for tag in tagged {
        used.extend(files_of(table, &tag, &reader.read(&tag)?));
    }
    let mut unneeded = orphans(files, table, &used)?;
    if minimum_age_ms > 0 {
        let before_ms = crate::seam::wall_clock_ms().saturating_sub(minimum_age_ms);
        let mut old = Vec::new();
        for path in unneeded {
            if modified_ms(files, &path)? <= before_ms {
                old.push(path);
            }
        }
        unneeded = old;
    }
    Ok(unneeded)
}

/// Files that are not among those in use.
///
/// # Errors
/// `Corrupt` when none is in use: that is a fault, never a licence to remove everything.
pub(crate) fn orphans(
    files: &FileSystem,
    table: &TableDirectory,
    used: &HashSet<PathBuf>,
) -> Result<Vec<PathBuf>> {
    if used.is_empty() {
        return Err(Error::corrupt(format!(
            "table {}: no snapshot names a file; refusing to clean up",
            table.name
        )));
    }
    let mut found = Vec::new();
    let mut directories = vec![table.manifests(), table.index()];
    // Those of other parallelisms too.
    let names = files.list(&table.root)?;
    let buckets = names.iter().filter(|name| name.starts_with("bucket-"));
    directories.extend(buckets.map(|name| table.root.join(name)));
    for directory in directories {
        let paths = files.list(&directory)?.into_iter().map(|name| directory.join(name));
        found.extend(paths.filter(|path| !used.contains(path)));
    }
    for directory in [table.snapshots(), table.tags(), table.leases()] {
        let names = files.list(&directory)?.into_iter();
        let unfinished = names.filter(|name| name.ends_with(TEMPORARY_SUFFIX));
        found.extend(unfinished.map(|name| directory.join(name)));
    }
    Ok(found)
}

/// When a file was last written to, in milliseconds since the Unix epoch.
fn modified_ms(files: &FileSystem, path: &Path) -> Result<u64> {
    let modified =
        files.call(IoKind::Metadata, "read", path, || std::fs::metadata(path)?.modified())?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

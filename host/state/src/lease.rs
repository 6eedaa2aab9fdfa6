//! Leases: how a reader in any process says which snapshot it is at work on.
//!
//! A lease is a small file in the table's directory `lease/` with the number of the snapshot and
//! the time until which it holds. A reader writes its lease first and looks whether the snapshot
//! is there afterwards; the writer takes the snapshot away first and looks for leases afterwards,
//! before it removes a file that the snapshot named, and puts it back when there is one. So a
//! lease is seen by whoever could harm it.

use crate::file_system::FileSystem;
use crate::metadata::TableDirectory;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The longest that a lease holds without being renewed, in milliseconds: a day.
pub(crate) const LONGEST_LEASE_MS: u64 = 24 * 60 * 60 * 1000;

/// Begins the names of lease files.
const PREFIX: &str = "lease-";

/// What is in a lease file.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Content {
    snapshot: i64,
    /// Milliseconds since the Unix epoch.
    expires_ms: u64,
    /// Of the reader, for people.
    pid: u32,
}

/// Holds a snapshot for a reader, whatever the writer of the table does meanwhile, short of going
/// back to an earlier snapshot. Ends when it is dropped, or when its time is over.
#[derive(Debug)]
pub struct SnapshotLease {
    files: FileSystem,
    path: PathBuf,
    snapshot: i64,
}

impl SnapshotLease {
    /// Takes a lease of a snapshot. Whether it came in time is to be checked afterwards.
    ///
    /// # Errors
    /// `InvalidArgument` for more than a day; `Storage` when the file cannot be written.
    pub(crate) fn take(
        files: &FileSystem,
        table: &TableDirectory,
        snapshot: i64,
        duration_ms: u64,
    ) -> Result<Self> {
        let directory = table.leases();
        files.create_directory(&directory)?;
        let path = directory.join(format!("{PREFIX}{}", crate::seam::unique_name()));
        let lease = Self { files: files.clone(), path, snapshot };
        lease.renew(duration_ms)?;
        Ok(lease)
    }

    /// The number of the snapshot.
    pub fn snapshot(&self) -> i64 {
        self.snapshot
    }

    /// Makes it hold until `duration_ms` milliseconds from now.
    ///
    /// # Errors
    /// `InvalidArgument` for more than a day; `Storage` when the lease cannot be written.
    pub fn renew(&self, duration_ms: u64) -> Result<()> {
        if duration_ms > LONGEST_LEASE_MS {
            return Err(Error::invalid(format!(
                "a lease holds for {LONGEST_LEASE_MS} ms at most, {duration_ms} ms asked for; \
                 renew it instead"
            )));
        }
        let content = Content {
            snapshot: self.snapshot,
            expires_ms: crate::seam::wall_clock_ms().saturating_add(duration_ms),
            pid: std::process::id(),
        };
        let bytes = serde_json::to_vec(&content)
            .map_err(|error| Error::invalid(format!("cannot write a lease: {error}")))?;
        self.files.replace_unsynced(&self.path, &bytes)
    }
}

impl Drop for SnapshotLease {
    fn drop(&mut self) {
        // It ends by itself when this fails.
        let _ = self.files.remove(&self.path);
    }
}

/// The snapshots that leases hold at this time; removes those that have ended.
///
/// # Errors
/// `Storage` when leases cannot be listed or read: then nothing may be removed.
pub(crate) fn leased_snapshots(
    files: &FileSystem,
    table: &TableDirectory,
    now_ms: u64,
) -> Result<BTreeSet<i64>> {
    let directory = table.leases();
    let mut leased = BTreeSet::new();
    for name in files.list(&directory)?.iter().filter(|name| name.starts_with(PREFIX)) {
        let path = directory.join(name);
        let Some(lease) = read(files, &path)? else { continue };
        // One that claims more was written by a clock that is ahead, or by nobody we know.
        let ends_ms = lease.expires_ms.min(now_ms.saturating_add(LONGEST_LEASE_MS));
        if ends_ms > now_ms {
            leased.insert(lease.snapshot);
        } else if let Err(error) = files.remove(&path) {
            tracing::warn!(table = table.name, %error, "a lease that has ended was not removed");
        }
    }
    Ok(leased)
}

/// `None` when it went while it was read, or names no snapshot.
fn read(files: &FileSystem, path: &Path) -> Result<Option<Content>> {
    let bytes = match files.read(path) {
        Ok(bytes) => bytes,
        Err(_) if !files.exists(path)? => return Ok(None),
        Err(error) => return Err(error),
    };
    let content = serde_json::from_slice(&bytes);
    if let Err(error) = &content {
        tracing::warn!(path = %path.display(), %error, "a lease file is no lease");
    }
    Ok(content.ok())
}

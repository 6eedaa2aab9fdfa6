//! Which snapshots and files are still needed, and the safe order to remove the others.
//!
//! Every file is needed by a run of consecutive snapshots: from the one that added it to the
//! last before the one that dropped it. Tags and recent snapshots keep their files; a snapshot
//! goes before the files that only it named, so that no reader can plan what is half gone.

use crate::file_system::FileSystem;
use crate::metadata::TableDirectory;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// Bookkeeping of one table.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    /// Snapshots on disk, with the time they were superseded (`None`: the latest).
    snapshots: BTreeMap<i64, Option<u64>>,
    /// Files of the latest snapshot, with the snapshot that added each.
    live: HashMap<PathBuf, i64>,
    dropped: Vec<DroppedFile>,
    /// Tagged checkpoints and their snapshots.
    checkpoints: BTreeMap<u64, i64>,
    /// The snapshot that the table was restored to, until it is said which ones are kept.
    restored: Option<i64>,
}

/// A file that the latest snapshot does not name.
#[derive(Debug)]
struct DroppedFile {
    path: PathBuf,
    /// The first snapshot that named it.
    added_in: i64,
    /// The first snapshot after that one that did not.
    dropped_in: i64,
}

impl Retention {
    /// Bookkeeping of a table as it is on disk: all its snapshots, ascending, each with the
    /// files that it names. The last one is held until [`Retention::decided`].
    pub(crate) fn load(
        snapshots: Vec<(i64, Vec<PathBuf>)>,
        checkpoints: BTreeMap<u64, i64>,
        now_ms: u64,
    ) -> Self {
        let mut retention = Self { checkpoints, ..Self::default() };
        let Some(latest) = snapshots.last().map(|(id, _)| *id) else { return retention };
        retention.restored = Some(latest);
        let mut spans: HashMap<PathBuf, (i64, i64)> = HashMap::new();
        for (id, files) in snapshots {
            let superseded = (id != latest).then_some(now_ms);
            retention.snapshots.insert(id, superseded);
            for file in files {
                spans.entry(file).and_modify(|span| span.1 = id).or_insert((id, id));
            }
        }
        for (path, (first, last)) in spans {
            if last == latest {
                retention.live.insert(path, first);
            } else {
                retention.dropped.push(DroppedFile { path, added_in: first, dropped_in: last + 1 });
            }
        }
        retention
    }

    /// Takes note of a new latest snapshot.
    pub(crate) fn committed(
        &mut self,
        snapshot: i64,
        added: impl IntoIterator<Item = PathBuf>,
        dropped: impl IntoIterator<Item = PathBuf>,
        now_ms: u64,
    ) {
        if let Some(superseded) = self.snapshots.values_mut().next_back() {
            superseded.get_or_insert(now_ms);
        }
        self.snapshots.insert(snapshot, None);
        for path in dropped {
            if let Some(added_in) = self.live.remove(&path) {
                self.dropped.push(DroppedFile { path, added_in, dropped_in: snapshot });
            }
        }
        for path in added {
            self.live.insert(path, snapshot);
        }
    }

    /// Tagged checkpoints and their snapshots.
    pub(crate) fn checkpoints(&self) -> &BTreeMap<u64, i64> {
        &self.checkpoints
    }

    pub(crate) fn tag(&mut self, checkpoint: u64, snapshot: i64) {
        self.checkpoints.insert(checkpoint, snapshot);
    }

    /// A checkpoint is no longer kept; readers of it get the grace period from now on.
    pub(crate) fn untag(&mut self, checkpoint: u64, now_ms: u64) {
        let snapshot = self.checkpoints.remove(&checkpoint);
        if let Some(Some(superseded)) = snapshot.and_then(|id| self.snapshots.get_mut(&id)) {
            *superseded = now_ms;
        }
    }

    /// It has been said which checkpoints are kept.
    pub(crate) fn decided(&mut self) {
        self.restored = None;
    }

    /// Whether the snapshot is still on disk.
    pub(crate) fn has(&self, snapshot: i64) -> bool {
        self.snapshots.contains_key(&snapshot)
    }

    /// Removes snapshots that were superseded at least `retained_ms` ago and that no tag holds
    /// (ours or anybody's), then the files that no other snapshot names.
    ///
    /// # Errors
    /// `Storage` when a file cannot be removed; what is left is tried again next time.
    pub(crate) fn expire(
        &mut self,
        files: &FileSystem,
        table: &TableDirectory,
        now_ms: u64,
        retained_ms: u64,
    ) -> Result<usize> {
        let mut expired: Vec<i64> = self
            .snapshots
            .iter()
            .filter(|(id, superseded)| {
                superseded.is_some_and(|at| at.saturating_add(retained_ms) <= now_ms)
                    && !self.checkpoints.values().any(|held| held == *id)
                    && self.restored != Some(**id)
            })
            .map(|(id, _)| *id)
            .collect();
        if expired.is_empty() {
            return Ok(0);
        }
        // Others may have tagged a snapshot meanwhile.
        let tagged = crate::metadata::tagged_snapshots(files, table)?;
        expired.retain(|id| !tagged.iter().any(|tag| tag.id() == *id));
        // An empty set of what is needed is a fault, never a licence to remove everything.
        if self.live.is_empty() || expired.len() >= self.snapshots.len() {
            return Err(Error::corrupt(format!(
                "table {}: refusing to remove every snapshot",
                table.name
            )));
        }
        // No crash may bring back the tag of a snapshot that is gone.
        files.sync_directory(&table.tags())?;
        for id in &expired {
            files.remove(&table.snapshot(*id))?;
            self.snapshots.remove(id);
        }
        // No crash may bring a snapshot back whose files are gone.
        files.sync_directory(&table.snapshots())?;
        let needed = |file: &DroppedFile| {
            self.snapshots.range(file.added_in..file.dropped_in).next().is_some()
        };
        let (kept, unneeded): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.dropped).into_iter().partition(needed);
        self.dropped = kept;
        let mut unneeded = unneeded.into_iter();
        while let Some(file) = unneeded.next() {
            if let Err(error) = files.remove(&file.path) {
                self.dropped.push(file);
                self.dropped.extend(unneeded);
                return Err(error);
            }
        }
        Ok(expired.len())
    }
}

//! Which snapshots and files are still needed, and the safe order to remove the others.
//!
//! Every file is needed by a run of consecutive snapshots: from the one that added it to the
//! last before the one that dropped it. Tags, leases and recent snapshots keep their files; a
//! snapshot goes before the files that only it named, so that no reader can plan what is half
//! gone.

use crate::file_system::{FileSystem, TEMPORARY_SUFFIX};
use crate::lease::leased_snapshots;
use crate::metadata::TableDirectory;
use crate::metrics::OnDisk;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// Begins the names of snapshots that are set aside; their number follows.
const ASIDE_PREFIX: &str = ".snapshot-";

/// How often expired snapshots are looked for while one is retained.
const LOOKS_PER_RETENTION: u64 = 16;

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
    /// Snapshot files that nobody sees under their new names, to be removed.
    set_aside: Vec<(i64, PathBuf)>,
    /// The last removal failed half-way.
    unfinished: bool,
    /// When expired snapshots were last looked for.
    looked_at_ms: Option<u64>,
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

    /// How many snapshots and superseded files there are.
    pub(crate) fn on_disk(&self) -> OnDisk {
        OnDisk {
            snapshots: self.snapshots.len(),
            superseded_files: self.dropped.len(),
            manifests: 0,
        }
    }

    /// Removes snapshots that were superseded at least `retained_ms` ago and that no tag (ours or
    /// anybody's) or lease holds, then the files that no other snapshot names. Looks only now and
    /// then, so that the cost of a commit does not grow with the snapshots that are retained.
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
        let interval_ms = retained_ms / LOOKS_PER_RETENTION;
        if self.looked_at_ms.is_some_and(|at| now_ms < at.saturating_add(interval_ms)) {
            return Ok(0);
        }
        self.looked_at_ms = Some(now_ms);
        let due = self.due(now_ms, retained_ms);
        if due.is_empty() && !self.unfinished {
            return Ok(0);
        }
        self.unfinished = true;
        let expired = self.remove_snapshots(files, table, due)?;
        self.remove_files(files)?;
        self.unfinished = false;
        Ok(expired)
    }

    /// Snapshots whose time is over, as far as we know.
    fn due(&self, now_ms: u64, retained_ms: u64) -> Vec<i64> {
        let held: BTreeSet<i64> = self.checkpoints.values().copied().chain(self.restored).collect();
        self.snapshots
            .iter()
            .filter(|(id, superseded)| {
                superseded.is_some_and(|at| at.saturating_add(retained_ms) <= now_ms)
                    && !held.contains(id)
            })
            .map(|(id, _)| *id)
            .collect()
    }

    fn remove_snapshots(
        &mut self,
        files: &FileSystem,
        table: &TableDirectory,
        mut expired: Vec<i64>,
    ) -> Result<usize> {
        // Others may have tagged a snapshot meanwhile, or be at work on it.
        let tagged = crate::metadata::tagged_snapshots(files, table)?;
        let leased = leased_snapshots(files, table, crate::seam::wall_clock_ms())?;
        expired.retain(|id| !leased.contains(id) && !tagged.iter().any(|tag| tag.id() == *id));
        // An empty set of what is needed is a fault, never a licence to remove everything.
        if expired.len() >= self.snapshots.len() {
            return Err(Error::corrupt(format!(
                "table {}: all snapshots would expire; none is removed",
                table.name
            )));
        }
        // Some may be aside since an attempt that failed.
        if expired.is_empty() && self.set_aside.is_empty() {
            return Ok(0);
        }
        // No crash may bring back the tag of a snapshot that is gone.
        files.sync_directory(&table.tags())?;
        for id in &expired {
            let aside = table.snapshots().join(format!("{ASIDE_PREFIX}{id}{TEMPORARY_SUFFIX}"));
            files.rename(&table.snapshot(*id), &aside)?;
            self.set_aside.push((*id, aside));
            self.snapshots.remove(id);
        }
        // Whoever took a lease and found its snapshot there did so before now.
        let leased = leased_snapshots(files, table, crate::seam::wall_clock_ms())?;
        while let Some(at) = self.set_aside.iter().position(|(id, _)| leased.contains(id)) {
            let Some((id, aside)) = self.set_aside.get(at) else { break };
            files.rename(aside, &table.snapshot(*id))?;
            self.snapshots.insert(*id, Some(crate::seam::steady_ms()));
            self.set_aside.swap_remove(at);
        }
        // No crash may bring a snapshot back whose files are gone.
        files.sync_directory(&table.snapshots())?;
        Ok(expired.iter().filter(|id| !leased.contains(id)).count())
    }

    /// Removes the files that no snapshot names.
    fn remove_files(&mut self, files: &FileSystem) -> Result<()> {
        if self.live.is_empty() {
            return Err(Error::corrupt("the latest snapshot names no file; nothing is removed"));
        }
        while let Some((_, path)) = self.set_aside.last() {
            files.remove(path)?;
            self.set_aside.pop();
        }
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
        Ok(())
    }
}

/// Puts snapshots back that a crash left aside, although a reader holds them. Their files are
/// all there: those go after what is aside.
///
/// # Errors
/// `Storage` when leases cannot be read, or the snapshot cannot be renamed.
pub(crate) fn put_back_leased(files: &FileSystem, table: &TableDirectory) -> Result<()> {
    let number = |name: &String| -> Option<i64> {
        name.strip_prefix(ASIDE_PREFIX)?.strip_suffix(TEMPORARY_SUFFIX)?.parse().ok()
    };
    let aside: Vec<(i64, PathBuf)> = files
        .list(&table.snapshots())?
        .iter()
        .filter_map(|name| Some((number(name)?, table.snapshots().join(name))))
        .collect();
    if aside.is_empty() {
        return Ok(());
    }
    let leased = leased_snapshots(files, table, crate::seam::wall_clock_ms())?;
    for (id, path) in aside.iter().filter(|(id, _)| leased.contains(id)) {
        files.rename(path, &table.snapshot(*id))?;
    }
    files.sync_directory(&table.snapshots())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::SnapshotLease;
    use crate::{Fault, Faults};

    /// Input/output error.
    const EIO: i32 = 5;

    #[test]
    fn lease_counts_until_the_snapshot_is_gone_even_after_a_failure() {
        let mut put_back = 0;
        for call in 0..20 {
            let directory = tempfile::tempdir().unwrap();
            let table = TableDirectory {
                name: "p__o__s".to_owned(),
                root: directory.path().join("default.db").join("p__o__s"),
            };
            let plain = FileSystem::new(true, None).unwrap();
            let data = |id: i64| table.bucket(0).join(format!("data-{id}"));
            for id in [1, 2] {
                plain.create_directory(&table.tags()).unwrap();
                plain.write(&table.snapshot(id), b"{}").unwrap();
                plain.write(&data(id), b"rows").unwrap();
            }
            let snapshots = vec![(1, vec![data(1)]), (2, vec![data(2)])];
            let mut retention = Retention::load(snapshots, BTreeMap::new(), 0);
            let faults = Faults::at(call, Fault::Once(EIO));
            let failing = FileSystem::new(true, Some(faults)).unwrap();
            if retention.expire(&failing, &table, 1, 0).is_ok() {
                continue;
            }
            let aside = table.snapshots().join(format!(".snapshot-1{TEMPORARY_SUFFIX}"));
            let there = table.snapshot(1).exists() || aside.exists();
            let lease = SnapshotLease::take(&plain, &table, 1, 60_000).unwrap();
            retention.expire(&plain, &table, 2, 0).unwrap();
            assert_eq!(table.snapshot(1).exists(), there, "call {call}");
            assert_eq!(data(1).exists(), there, "call {call}");
            put_back += usize::from(there);
            drop(lease);
            retention.expire(&plain, &table, u64::MAX, 0).unwrap();
            assert!(!table.snapshot(1).exists() && !data(1).exists(), "call {call}");
            assert!(table.snapshot(2).exists() && data(2).exists(), "call {call}");
        }
        assert!(put_back > 0);
    }
}

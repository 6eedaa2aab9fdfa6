//! Commits snapshots: one writer, everything it needs to know kept in memory.
//!
//! Stock commits walk the manifest history each time; this one reads it once, when the table
//! is opened, and folds its own commits into what it knows.

use crate::data_file::{DamagedSidecar, DataFile, FileId};
use crate::deletion_vector;
use crate::digest;
use crate::file_system::FileSystem;
use crate::manifest;
use crate::metadata::{
    SNAPSHOT_VERSION, SnapshotContent, SnapshotReader, TableDirectory, open_pin, read_snapshot,
    snapshot_ids, tagged_checkpoints, tagged_snapshots, write_latest_hint,
};
use crate::metrics::OnDisk;
use crate::orphans::orphans;
use crate::pin::{Pin, PinnedFile};
use crate::retention::{Retention, put_back_leased};
use crate::schema::TableSchema;
use crate::{Error, ErrorKind, Result};
use paimon::spec::{CommitKind, FileKind, IndexFileMeta, ManifestFileMeta, Snapshot};
use roaring::RoaringBitmap;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Manifests in the base list that start their merge into one.
const MANIFESTS_LIMIT: usize = 30;
/// Levels of sorted runs: the oldest is at the top; 0 is for other writers.
pub(crate) const TOP_LEVEL: i32 = 62;
/// While the deletion vectors of a bucket are smaller than this, they share one index file;
/// above, a commit rewrites only the index files with a vector that it touched.
const SHARED_INDEX_LIMIT_BYTES: u64 = 64 << 10;
/// Deletion vectors that a commit rewrites share index files of this size: few files are written
/// and made durable, and few bytes are written again when only one of the vectors changes next.
const INDEX_LIMIT_BYTES: u64 = 256 << 10;

/// What a commit changes.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) kind: CommitKind,
    /// Goes into the snapshot, for people: the checkpoint.
    pub(crate) identifier: u64,
    pub(crate) added: Vec<Arc<DataFile>>,
    pub(crate) removed: HashSet<FileId>,
    /// Rows that die, of files that were there and of those that are added.
    pub(crate) dead: HashMap<FileId, RoaringBitmap>,
}

/// What the committer knows after a commit.
struct Next {
    pin: Pin,
    manifests: Vec<ManifestFileMeta>,
    index_files: Vec<(u32, IndexFileMeta)>,
    index_manifest: Option<String>,
    lists: Vec<PathBuf>,
}

/// The single writer of a table.
#[derive(Debug)]
pub(crate) struct Committer {
    pub(crate) files: FileSystem,
    pub(crate) table: TableDirectory,
    pub(crate) schema: TableSchema,
    pub(crate) retention: Retention,
    pin: Arc<Pin>,
    manifests: Vec<ManifestFileMeta>,
    index_files: Vec<(u32, IndexFileMeta)>,
    index_manifest: Option<String>,
    /// The two manifest lists of the latest snapshot.
    lists: Vec<PathBuf>,
    next_sequence_number: i64,
}

impl Committer {
    /// Starts an empty table: writes its first snapshot.
    pub(crate) fn create(
        files: FileSystem,
        table: TableDirectory,
        schema: TableSchema,
    ) -> Result<Self> {
        let parallelism = schema.key_groups.parallelism();
        let mut directories =
            vec![table.manifests(), table.snapshots(), table.index(), table.tags()];
        directories.extend((0..parallelism).map(|bucket| table.bucket(bucket)));
        for directory in directories {
            files.create_directory(&directory)?;
        }
        let buckets = vec![Vec::new(); parallelism as usize];
        let mut committer = Self {
            files,
            table,
            schema,
            retention: Retention::default(),
            pin: Arc::new(Pin { snapshot: 0, buckets }),
            manifests: Vec::new(),
            index_files: Vec::new(),
            index_manifest: None,
            lists: Vec::new(),
            next_sequence_number: 0,
        };
        committer.commit(&Change {
            kind: CommitKind::APPEND,
            identifier: 0,
            added: Vec::new(),
            removed: HashSet::new(),
            dead: HashMap::new(),
        })?;
        Ok(committer)
    }

    /// Opens a table at a snapshot: what came after it is removed, and so is every file that no
    /// snapshot names.
    pub(crate) fn restore(
        files: FileSystem,
        table: TableDirectory,
        schema: TableSchema,
        snapshot: i64,
    ) -> Result<Self> {
        // Nothing is removed before what is to be restored has been read.
        let latest = snapshot_to_restore(&files, &table, snapshot)?;
        put_back_leased(&files, &table)?;
        let mut reader = SnapshotReader::new(&files, &table);
        let content = reader.read(&latest)?;
        let pin =
            open_pin(&files, &table, &schema, snapshot, &content, None, DamagedSidecar::Refuse)?;
        for pinned in pin.files() {
            pinned.file.content.verify()?;
        }
        let next_sequence_number =
            pin.files().map(|pinned| pinned.file.meta.max_sequence_number + 1).max().unwrap_or(0);

        let later = roll_back(&files, &table, snapshot)?;
        let mut named = Vec::new();
        match earlier_files(&files, &table, &mut reader, snapshot) {
            Ok(earlier) => {
                named = earlier;
                named.push((snapshot, files_of(&table, &latest, &content)));
                remove_orphans(&files, &table, &mut reader, &named)?;
            }
            // What it names is not known, so nothing can be called unneeded.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(table = table.name, %error, "an earlier snapshot is damaged");
                named.push((snapshot, files_of(&table, &latest, &content)));
            }
            Err(error) => return Err(error),
        }
        let checkpoints = tagged_checkpoints(&files, &table)?;
        let now_ms = crate::seam::steady_ms();
        tracing::info!(table = table.name, snapshot, rolled_back = later, "state table restored");
        let SnapshotContent { manifests, index_files, .. } = content;
        Ok(Self {
            retention: Retention::load(named, checkpoints, now_ms),
            lists: lists_of(&table, &latest),
            index_manifest: latest.index_manifest().map(str::to_owned),
            pin: Arc::new(pin),
            files,
            table,
            schema,
            manifests,
            index_files,
            next_sequence_number,
        })
    }

    /// The latest snapshot, open.
    pub(crate) fn pin(&self) -> &Arc<Pin> {
        &self.pin
    }

    /// Greater than every sequence number on disk.
    pub(crate) fn next_sequence_number(&self) -> i64 {
        self.next_sequence_number
    }

    /// Takes note of sequence numbers that came from elsewhere.
    pub(crate) fn pass_sequence_number(&mut self, used: i64) {
        self.next_sequence_number = self.next_sequence_number.max(used.saturating_add(1));
    }

    /// Gives out sequence numbers for this many rows; returns the first.
    pub(crate) fn take_sequence_numbers(&mut self, rows: usize) -> i64 {
        let first = self.next_sequence_number;
        self.next_sequence_number += i64::try_from(rows).unwrap_or(i64::MAX);
        first
    }

    /// The level of the next sorted run of a bucket; `None` when there is no room for one.
    pub(crate) fn next_level(&self, bucket: u32) -> Option<i32> {
        let newest = self.pin.bucket(bucket).first().map_or(TOP_LEVEL + 1, |f| f.file.meta.level);
        (newest > 1).then_some(newest - 1)
    }

    /// The level of the output of a merge, so that levels do not run out: right below the next
    /// older run.
    pub(crate) fn merged_level(&self, bucket: u32, oldest_input: FileId) -> i32 {
        let runs = self.pin.bucket(bucket);
        let at = runs.iter().position(|run| run.file.id == oldest_input);
        let older = at.and_then(|at| runs.get(at + 1));
        // After a rescale there may be more levels.
        let top = at.and_then(|at| runs.get(at)).map_or(0, |oldest| oldest.file.meta.level);
        older.map_or(TOP_LEVEL.max(top), |older| older.file.meta.level - 1)
    }

    /// Commits one snapshot. The files that the change adds are the committer's from then on.
    ///
    /// # Errors
    /// `Storage` when it cannot be written. The table stays at the snapshot before, and what was
    /// written is removed, the added files included.
    pub(crate) fn commit(&mut self, change: &Change) -> Result<i64> {
        let id = self.pin.snapshot + 1;
        let mut written = Vec::new();
        match self.write(id, change, &mut written) {
            Ok(next) => {
                self.advance(next);
                Ok(id)
            }
            Err(error) => {
                // The snapshot of another writer is not ours to remove.
                let snapshot = (error.kind() != ErrorKind::Locked).then_some(id);
                self.take_back(snapshot, change, &written);
                Err(error)
            }
        }
    }

    /// Replaces all data files by others in the buckets of another parallelism, in one snapshot.
    ///
    /// # Errors
    /// As for [`Committer::commit`].
    pub(crate) fn rescale(
        &mut self,
        schema: TableSchema,
        added: Vec<Arc<DataFile>>,
        dead: HashMap<FileId, RoaringBitmap>,
    ) -> Result<i64> {
        let id = self.pin.snapshot + 1;
        let change = Change {
            kind: CommitKind::OVERWRITE,
            identifier: 0,
            added,
            removed: HashSet::new(),
            dead,
        };
        let mut written = Vec::new();
        match self.write_rescaled(id, &schema, &change, &mut written) {
            Ok(next) => {
                self.advance(next);
                self.schema = schema;
                Ok(id)
            }
            Err(error) => {
                let snapshot = (error.kind() != ErrorKind::Locked).then_some(id);
                self.take_back(snapshot, &change, &written);
                Err(error)
            }
        }
    }

    /// Writes the snapshot as one that follows an empty table with the new buckets.
    fn write_rescaled(
        &mut self,
        id: i64,
        schema: &TableSchema,
        change: &Change,
        written: &mut Vec<PathBuf>,
    ) -> Result<Next> {
        let removed: Vec<_> =
            self.pin.files().map(|pinned| entry(FileKind::Delete, &pinned.file)).collect();
        let removal = self.write_manifest(&self.files.without_sync()?, &removed)?;
        written.extend(removal.iter().map(|meta| self.table.manifests().join(meta.file_name())));
        let buckets = vec![Vec::new(); schema.key_groups.parallelism() as usize];
        let empty = Arc::new(Pin { snapshot: self.pin.snapshot, buckets });
        let pin = std::mem::replace(&mut self.pin, empty);
        let old_schema = std::mem::replace(&mut self.schema, schema.clone());
        let manifests = self.manifests.clone();
        self.manifests.extend(removal);
        let index_files = std::mem::take(&mut self.index_files);
        let index_manifest = self.index_manifest.take();
        let next = self.write(id, change, written);
        self.pin = pin;
        self.schema = old_schema;
        self.manifests = manifests;
        self.index_files = index_files;
        self.index_manifest = index_manifest;
        next
    }

    /// Writes a snapshot and what it names; `written` gets the latter, as far as it comes.
    ///
    /// What it names is made durable at the end, all of it together: the file system then writes
    /// its own records once, not once for each file.
    fn write(&self, id: i64, change: &Change, written: &mut Vec<PathBuf>) -> Result<Next> {
        let manifests = self.table.manifests();
        let unsynced = self.files.without_sync()?;
        let pin = self.next_pin(id, change)?;
        let index_files = self.next_index_files(&unsynced, &pin, change, written)?;
        let index_changed = index_files != self.index_files;
        let index_manifest = match index_changed {
            true => manifest::write_index(&unsynced, &self.table, &index_files)?,
            false => self.index_manifest.clone(),
        };
        written.extend(index_manifest.iter().filter(|_| index_changed).map(|n| manifests.join(n)));
        let delta = self.write_delta(&unsynced, change)?;
        written.extend(delta.iter().map(|meta| manifests.join(meta.file_name())));
        let base = self.base_manifests(&unsynced)?;
        if base != self.manifests {
            written.extend(base.iter().map(|meta| manifests.join(meta.file_name())));
        }
        let base_list = manifest::write_list(&unsynced, &self.table, "0", &base)?;
        written.push(manifests.join(&base_list));
        let delta_list = manifest::write_list(&unsynced, &self.table, "1", delta.as_slice())?;
        written.push(manifests.join(&delta_list));
        for path in written.iter() {
            self.files.sync_path(path)?;
        }
        let lists = [base_list, delta_list];
        for bucket in change.added.iter().map(|file| file.bucket).collect::<BTreeSet<_>>() {
            self.files.sync_directory(&self.table.bucket(bucket))?;
        }
        if index_changed {
            self.files.sync_directory(&self.table.index())?;
        }
        self.files.sync_directory(&self.table.manifests())?;
        let properties = digest::properties(
            id,
            self.schema.schema_id,
            pin.files().map(|pinned| (pinned.file.bucket, &pinned.file.meta)),
            &index_files,
        );
        self.write_snapshot(&pin, change, &lists, index_manifest.as_ref(), properties)?;
        let lists = lists.iter().map(|name| manifests.join(name)).collect();
        let manifests = base.into_iter().chain(delta).collect();
        Ok(Next { pin, manifests, index_files, index_manifest, lists })
    }

    /// Makes a snapshot that is written the latest. Names and numbers are compared; paths are
    /// made only of what differs.
    fn advance(&mut self, next: Next) {
        let (manifests, index) = (self.table.manifests(), self.table.index());
        let mut added = next.lists.clone();
        let mut dropped = std::mem::take(&mut self.lists);
        let old = self.manifests.iter().map(ManifestFileMeta::file_name);
        let new = next.manifests.iter().map(ManifestFileMeta::file_name);
        note_names(&manifests, old, new, &mut added, &mut dropped);
        let old = self.index_manifest.iter().map(String::as_str);
        let new = next.index_manifest.iter().map(String::as_str);
        note_names(&manifests, old, new, &mut added, &mut dropped);
        let old = self.index_files.iter().map(|(_, meta)| meta.file_name.as_str());
        let new = next.index_files.iter().map(|(_, meta)| meta.file_name.as_str());
        note_names(&index, old, new, &mut added, &mut dropped);
        for (pin, other, paths) in
            [(&*self.pin, &next.pin, &mut dropped), (&next.pin, &*self.pin, &mut added)]
        {
            let there: HashSet<FileId> = other.files().map(|pinned| pinned.file.id).collect();
            for file in pin.files().map(|pinned| &pinned.file) {
                if !there.contains(&file.id) {
                    paths.extend(data_paths(&self.table, file.bucket, &file.meta));
                }
            }
        }
        self.manifests = next.manifests;
        self.index_files = next.index_files;
        self.index_manifest = next.index_manifest;
        self.lists = next.lists;
        self.pin = Arc::new(next.pin);
        self.retention.committed(self.pin.snapshot, added, dropped, crate::seam::steady_ms());
    }

    /// Removes what a commit wrote that failed. Whatever resists is removed when the table is
    /// next opened.
    fn take_back(&self, snapshot: Option<i64>, change: &Change, written: &[PathBuf]) {
        // Only the last sync may have failed: then the snapshot is there and names the others.
        let gone = snapshot.map_or(Ok(()), |id| self.files.remove(&self.table.snapshot(id)));
        if let Err(error) = gone.and_then(|()| self.files.sync_directory(&self.table.snapshots())) {
            let table = &self.table.name;
            tracing::warn!(table, snapshot, %error, "a failed commit was not taken back");
            return;
        }
        for path in written {
            let _ = self.files.remove(path);
        }
        self.discard(&change.added);
    }

    /// Removes data files that were written and never committed. Whatever resists is removed when
    /// the table is next opened.
    pub(crate) fn discard(&self, data_files: &[Arc<DataFile>]) {
        for file in data_files {
            for path in data_paths(&self.table, file.bucket, &file.meta) {
                let _ = self.files.remove(&path);
            }
        }
    }

    fn next_pin(&self, id: i64, change: &Change) -> Result<Pin> {
        let mut buckets = self.pin.buckets.clone();
        for of_bucket in &mut buckets {
            of_bucket.retain(|pinned| !change.removed.contains(&pinned.file.id));
        }
        for file in &change.added {
            let of_bucket = buckets.get_mut(file.bucket as usize).ok_or_else(|| {
                Error::internal(format!("table {} has no bucket {}", self.table.name, file.bucket))
            })?;
            of_bucket.push(PinnedFile { file: file.clone(), dead: Arc::default() });
            of_bucket.sort_by_key(|pinned| pinned.file.meta.level);
        }
        for pinned in buckets.iter_mut().flatten() {
            if let Some(dead) = change.dead.get(&pinned.file.id)
                && !dead.is_empty()
            {
                let all = Arc::make_mut(&mut pinned.dead);
                *all |= dead;
                // Written as it is: in runs where that is shorter.
                all.optimize();
            }
        }
        let pin = Pin { snapshot: id, buckets };
        pin.check(&self.table.name)?;
        Ok(pin)
    }

    /// The deletion-vector index files after a change; rewrites those it touches.
    fn next_index_files(
        &self,
        unsynced: &FileSystem,
        pin: &Pin,
        change: &Change,
        written: &mut Vec<PathBuf>,
    ) -> Result<Vec<(u32, IndexFileMeta)>> {
        let touched = self.touched_buckets(change);
        let mut next: Vec<(u32, IndexFileMeta)> =
            self.index_files.iter().filter(|(of, _)| !touched.contains(of)).cloned().collect();
        for bucket in touched {
            let of_bucket = pin.bucket(bucket);
            let old: Vec<&IndexFileMeta> = self
                .index_files
                .iter()
                .filter(|(of, _)| *of == bucket)
                .map(|(_, meta)| meta)
                .collect();
            let rewritten = self.rewrite_index_files(unsynced, &old, of_bucket, change, written)?;
            next.extend(rewritten.into_iter().map(|meta| (bucket, meta)));
        }
        next.sort_by_key(|(bucket, _)| *bucket);
        Ok(next)
    }

    /// Buckets with a file that goes or of which rows die.
    fn touched_buckets(&self, change: &Change) -> BTreeSet<u32> {
        let dies = |file: &DataFile| change.dead.get(&file.id).is_some_and(|dead| !dead.is_empty());
        let there = self.pin.files().map(|pinned| &pinned.file);
        there
            .chain(&change.added)
            .filter(|file| change.removed.contains(&file.id) || dies(file))
            .map(|file| file.bucket)
            .collect()
    }

    fn rewrite_index_files(
        &self,
        unsynced: &FileSystem,
        old: &[&IndexFileMeta],
        of_bucket: &[PinnedFile],
        change: &Change,
        written: &mut Vec<PathBuf>,
    ) -> Result<Vec<IndexFileMeta>> {
        let with_dead: Vec<(&str, &RoaringBitmap)> = of_bucket
            .iter()
            .filter(|pinned| !pinned.dead.is_empty())
            .map(|pinned| (pinned.file.meta.file_name.as_str(), pinned.dead.as_ref()))
            .collect();
        let changed: HashSet<&str> = of_bucket
            .iter()
            .filter(|pinned| change.dead.get(&pinned.file.id).is_some_and(|dead| !dead.is_empty()))
            .map(|pinned| pinned.file.meta.file_name.as_str())
            .collect();
        let live: HashSet<&str> = with_dead.iter().map(|(name, _)| *name).collect();
        // An index file stays as it is when all that it covers is live and unchanged.
        let covers = |meta: &IndexFileMeta| -> Vec<String> {
            meta.deletion_vectors_ranges.iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        let (kept, stale): (Vec<&IndexFileMeta>, Vec<&IndexFileMeta>) =
            old.iter().copied().partition(|meta| {
                covers(meta)
                    .iter()
                    .all(|name| live.contains(name.as_str()) && !changed.contains(name.as_str()))
            });
        if changed.is_empty() && stale.is_empty() {
            return Ok(kept.into_iter().cloned().collect());
        }
        if with_dead.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = |vectors: &[(&str, &RoaringBitmap)]| -> u64 {
            vectors.iter().map(|(_, dead)| dead.serialized_size() as u64).sum()
        };
        let covered: HashSet<String> = kept.iter().flat_map(|meta| covers(meta)).collect();
        let (rewritten, mut next) = match bytes(&with_dead) <= SHARED_INDEX_LIMIT_BYTES {
            true => (with_dead, Vec::new()),
            false => {
                let not_kept = with_dead.into_iter().filter(|(name, _)| !covered.contains(*name));
                (not_kept.collect(), kept.into_iter().cloned().collect::<Vec<_>>())
            }
        };
        let directory = self.table.index();
        let mut rest = rewritten.as_slice();
        while !rest.is_empty() {
            let fit = (1..=rest.len())
                .take_while(|&count| bytes(rest.get(..count).unwrap_or(rest)) <= INDEX_LIMIT_BYTES);
            let (together, following) = rest.split_at(fit.last().unwrap_or(1));
            let meta = deletion_vector::write(unsynced, &directory, together)?;
            written.push(directory.join(&meta.file_name));
            next.push(meta);
            rest = following;
        }
        Ok(next)
    }

    /// The manifest of what a change adds and removes, if it does.
    fn write_delta(
        &self,
        unsynced: &FileSystem,
        change: &Change,
    ) -> Result<Option<ManifestFileMeta>> {
        let removed = self
            .pin
            .files()
            .filter(|pinned| change.removed.contains(&pinned.file.id))
            .map(|pinned| entry(FileKind::Delete, &pinned.file));
        let added = change.added.iter().map(|file| entry(FileKind::Add, file));
        self.write_manifest(unsynced, &removed.chain(added).collect::<Vec<_>>())
    }

    /// What the next base list names: all manifests so far, merged into one when there are many.
    fn base_manifests(&self, unsynced: &FileSystem) -> Result<Vec<ManifestFileMeta>> {
        if self.manifests.len() <= MANIFESTS_LIMIT {
            return Ok(self.manifests.clone());
        }
        let live: Vec<_> =
            self.pin.files().map(|pinned| entry(FileKind::Add, &pinned.file)).collect();
        Ok(self.write_manifest(unsynced, &live)?.into_iter().collect())
    }

    fn write_manifest(
        &self,
        unsynced: &FileSystem,
        entries: &[manifest::Entry<'_>],
    ) -> Result<Option<ManifestFileMeta>> {
        let buckets = self.schema.key_groups.parallelism();
        manifest::write(unsynced, &self.table, self.schema.schema_id, buckets, entries)
    }

    fn write_snapshot(
        &self,
        pin: &Pin,
        change: &Change,
        [base, delta]: &[String; 2],
        index_manifest: Option<&String>,
        properties: HashMap<String, String>,
    ) -> Result<()> {
        let id = pin.snapshot;
        let rows = |pin: &Pin| -> i64 { pin.files().map(|p| p.file.meta.row_count).sum() };
        let snapshot = Snapshot::builder()
            .version(SNAPSHOT_VERSION)
            .id(id)
            .schema_id(self.schema.schema_id)
            .base_manifest_list(base.clone())
            .delta_manifest_list(delta.clone())
            .commit_user("howdah".to_owned())
            .commit_identifier(i64::try_from(change.identifier).unwrap_or(i64::MAX))
            .commit_kind(change.kind.clone())
            .time_millis(crate::seam::wall_clock_ms())
            .total_record_count(Some(rows(pin)))
            .delta_record_count(Some(rows(pin) - rows(&self.pin)))
            .index_manifest(index_manifest.cloned())
            .properties(Some(properties))
            .build();
        let path = self.table.snapshot(id);
        if self.files.exists(&path)? {
            return Err(Error::new(
                ErrorKind::Locked,
                format!(
                    "{} exists already: another writer is at work on the table",
                    path.display()
                ),
            ));
        }
        self.files.replace(&path, &manifest::encode_snapshot(&snapshot)?)?;
        write_latest_hint(&self.files, &self.table, id);
        Ok(())
    }

    /// How much there is besides data.
    pub(crate) fn on_disk(&self) -> OnDisk {
        OnDisk { manifests: self.manifests.len(), ..self.retention.on_disk() }
    }

    /// Tags the latest snapshot as the one of a checkpoint.
    pub(crate) fn tag(&mut self, checkpoint: u64, snapshot: i64) -> Result<()> {
        let bytes = self.files.read(&self.table.snapshot(snapshot))?;
        self.files.replace(&self.table.tag(checkpoint), &bytes)?;
        self.retention.tag(checkpoint, snapshot);
        Ok(())
    }

    /// Makes the tags of checkpoints be exactly these (a tag of a later one stays: that
    /// checkpoint is under way).
    pub(crate) fn retain(&mut self, checkpoints: &[(u64, i64)]) -> Result<()> {
        let newest = checkpoints.iter().map(|(checkpoint, _)| *checkpoint).max().unwrap_or(0);
        let tagged: Vec<u64> = self.retention.checkpoints().keys().copied().collect();
        for checkpoint in tagged {
            let kept = checkpoints.iter().any(|(retained, _)| *retained == checkpoint);
            if !kept && checkpoint <= newest {
                self.files.remove(&self.table.tag(checkpoint))?;
                self.retention.untag(checkpoint, crate::seam::steady_ms());
            }
        }
        for &(checkpoint, snapshot) in checkpoints {
            if self.retention.checkpoints().get(&checkpoint) == Some(&snapshot) {
                continue;
            }
            if self.retention.has(snapshot) {
                self.tag(checkpoint, snapshot)?;
            } else {
                let table = &self.table.name;
                tracing::warn!(table, checkpoint, snapshot, "the snapshot to keep is gone");
            }
        }
        self.retention.decided();
        Ok(())
    }
}

fn entry(kind: FileKind, file: &DataFile) -> manifest::Entry<'_> {
    (kind, file.bucket, &file.meta)
}

/// Adds the names that only `new` has to `added`, those that only `old` has to `dropped`.
fn note_names<'a>(
    directory: &Path,
    old: impl Iterator<Item = &'a str>,
    new: impl Iterator<Item = &'a str>,
    added: &mut Vec<PathBuf>,
    dropped: &mut Vec<PathBuf>,
) {
    let old: HashSet<&str> = old.collect();
    let new: HashSet<&str> = new.collect();
    added.extend(new.difference(&old).map(|name| directory.join(name)));
    dropped.extend(old.difference(&new).map(|name| directory.join(name)));
}

/// A data file and what belongs to it.
pub(crate) fn data_paths(
    table: &TableDirectory,
    bucket: u32,
    meta: &paimon::spec::DataFileMeta,
) -> Vec<PathBuf> {
    let directory = table.bucket(bucket);
    let names = std::iter::once(&meta.file_name).chain(&meta.extra_files);
    names.map(|name| directory.join(name)).collect()
}

fn lists_of(table: &TableDirectory, snapshot: &Snapshot) -> Vec<PathBuf> {
    [snapshot.base_manifest_list(), snapshot.delta_manifest_list()]
        .map(|name| table.manifests().join(name))
        .to_vec()
}

/// Every file that a snapshot names.
pub(crate) fn files_of(
    table: &TableDirectory,
    snapshot: &Snapshot,
    content: &SnapshotContent,
) -> Vec<PathBuf> {
    let mut all = lists_of(table, snapshot);
    all.extend(content.manifests.iter().map(|meta| table.manifests().join(meta.file_name())));
    all.extend(snapshot.index_manifest().map(|name| table.manifests().join(name)));
    all.extend(content.index_files.iter().map(|(_, meta)| table.index().join(&meta.file_name)));
    for (bucket, meta) in &content.data_files {
        all.extend(data_paths(table, *bucket, meta));
    }
    all
}

/// The snapshot that a table is to be opened at.
///
/// # Errors
/// `NotFound` when it is not there; `Corrupt` when it is damaged.
pub(crate) fn snapshot_to_restore(
    files: &FileSystem,
    table: &TableDirectory,
    snapshot: i64,
) -> Result<Snapshot> {
    if !files.exists(&table.snapshot(snapshot))? {
        return Err(Error::not_found(format!(
            "table {} has no snapshot {snapshot}; it was removed or never written",
            table.name
        )));
    }
    read_snapshot(files, table, snapshot)
}

/// Removes the snapshots after `snapshot`, newest first, and their tags; returns how many.
pub(crate) fn roll_back(
    files: &FileSystem,
    table: &TableDirectory,
    snapshot: i64,
) -> Result<usize> {
    write_latest_hint(files, table, snapshot);
    for (checkpoint, tagged) in tagged_checkpoints(files, table)? {
        if tagged > snapshot {
            files.remove(&table.tag(checkpoint))?;
        }
    }
    // A tag of a removed snapshot must not come back: its number is given out again.
    files.sync_directory(&table.tags())?;
    let later: Vec<i64> =
        snapshot_ids(files, table)?.into_iter().filter(|&id| id > snapshot).collect();
    for &id in later.iter().rev() {
        files.remove(&table.snapshot(id))?;
    }
    files.sync_directory(&table.snapshots())?;
    Ok(later.len())
}

/// The files of the snapshots before `snapshot`, ascending.
fn earlier_files(
    files: &FileSystem,
    table: &TableDirectory,
    reader: &mut SnapshotReader<'_>,
    snapshot: i64,
) -> Result<Vec<(i64, Vec<PathBuf>)>> {
    let earlier = snapshot_ids(files, table)?.into_iter().filter(|&id| id < snapshot);
    earlier
        .map(|id| {
            let read = read_snapshot(files, table, id)?;
            Ok((id, files_of(table, &read, &reader.read(&read)?)))
        })
        .collect()
}

/// Removes files that no snapshot and no tag names: what a crash or a roll-back left behind.
fn remove_orphans(
    files: &FileSystem,
    table: &TableDirectory,
    reader: &mut SnapshotReader<'_>,
    named: &[(i64, Vec<PathBuf>)],
) -> Result<()> {
    let mut used: HashSet<PathBuf> = named.iter().flat_map(|(_, paths)| paths).cloned().collect();
    // Another engine may have removed a snapshot and kept its files for the tag.
    for tag in tagged_snapshots(files, table)? {
        match reader.read(&tag) {
            Ok(content) => used.extend(files_of(table, &tag, &content)),
            // What it names is not known, so nothing can be called unneeded.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::warn!(table = table.name, %error, "a tagged snapshot is damaged");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    files.remove_all(&orphans(files, table, &used)?)
}

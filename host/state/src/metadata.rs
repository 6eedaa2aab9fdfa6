//! Snapshots, manifests and tags of a table on disk.

use crate::data_file::{Content, DamagedSidecar, DataFile};
use crate::deletion_vector;
use crate::digest;
use crate::file_system::FileSystem;
use crate::live_files::{Entry, LiveFiles};
use crate::pin::{Pin, PinnedFile};
use crate::schema;
use crate::{Error, ErrorKind, Result};
use paimon::spec::{
    DataFileMeta, FileKind, IndexFileMeta, IndexManifest, IndexManifestEntry, Manifest,
    ManifestFileMeta, ManifestList, Snapshot, TableSchema,
};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Snapshot format that current Paimon writes.
pub(crate) const SNAPSHOT_VERSION: i32 = 3;

/// Where the files of a table lie.
#[derive(Debug, Clone)]
pub(crate) struct TableDirectory {
    /// For messages: `<pipeline>__<operator>__<state>`.
    pub(crate) name: String,
    pub(crate) root: PathBuf,
}

impl TableDirectory {
    pub(crate) fn snapshot(&self, id: i64) -> PathBuf {
        self.snapshots().join(format!("snapshot-{id}"))
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.root.join("snapshot")
    }

    pub(crate) fn schemas(&self) -> PathBuf {
        self.root.join("schema")
    }

    pub(crate) fn schema(&self, id: i64) -> PathBuf {
        self.schemas().join(format!("schema-{id}"))
    }

    pub(crate) fn manifests(&self) -> PathBuf {
        self.root.join("manifest")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    pub(crate) fn leases(&self) -> PathBuf {
        self.root.join("lease")
    }

    pub(crate) fn tags(&self) -> PathBuf {
        self.root.join("tag")
    }

    pub(crate) fn tag(&self, checkpoint: u64) -> PathBuf {
        self.tags().join(format!("{TAG_PREFIX}{checkpoint}"))
    }

    pub(crate) fn bucket(&self, bucket: u32) -> PathBuf {
        self.root.join(format!("bucket-{bucket}"))
    }
}

/// File name of the tag of a checkpoint, before its number: `tag-` and the tag's name.
const TAG_PREFIX: &str = "tag-checkpoint-";

/// Numbers of the snapshots on disk, ascending.
pub(crate) fn snapshot_ids(files: &FileSystem, table: &TableDirectory) -> Result<Vec<i64>> {
    let mut ids: Vec<i64> = numbers(&files.list(&table.snapshots())?, "snapshot-").collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Numbers of the schemas on disk, ascending.
pub(crate) fn schema_ids(files: &FileSystem, table: &TableDirectory) -> Result<Vec<i64>> {
    let mut ids: Vec<i64> = numbers(&files.list(&table.schemas())?, "schema-").collect();
    ids.sort_unstable();
    Ok(ids)
}

/// The newest schema of any Paimon table, as Paimon has it; `None`: there is no table.
pub(crate) fn newest_paimon_schema(
    files: &FileSystem,
    table: &TableDirectory,
) -> Result<Option<TableSchema>> {
    let Some(newest) = schema_ids(files, table)?.pop() else { return Ok(None) };
    let path = table.schema(newest);
    let schema = serde_json::from_slice(&files.read(&path)?);
    schema.map(Some).map_err(|error| {
        Error::corrupt(format!("the schema file {} is damaged: {error}", path.display()))
    })
}

/// Tagged checkpoints and their snapshots.
pub(crate) fn tagged_checkpoints(
    files: &FileSystem,
    table: &TableDirectory,
) -> Result<BTreeMap<u64, i64>> {
    let mut tagged = BTreeMap::new();
    for checkpoint in numbers::<u64>(&files.list(&table.tags())?, TAG_PREFIX) {
        match read_snapshot_file(files, &table.tag(checkpoint)) {
            Ok(tag) => drop(tagged.insert(checkpoint, tag.id())),
            Err(error) if error.kind() == ErrorKind::Storage => return Err(error),
            // The checkpoint document has the number of the snapshot too.
            Err(error) => tracing::warn!(table = table.name, %error, "a tag is damaged"),
        }
    }
    Ok(tagged)
}

/// The snapshots that tags hold, ours and anybody's.
pub(crate) fn tagged_snapshots(
    files: &FileSystem,
    table: &TableDirectory,
) -> Result<Vec<Snapshot>> {
    let mut tagged = Vec::new();
    for name in files.list(&table.tags())?.iter().filter(|name| name.starts_with("tag-")) {
        match read_snapshot_file(files, &table.tags().join(name)) {
            Ok(tag) => tagged.push(tag),
            // What cannot be read now may hold a snapshot all the same.
            Err(error) if error.kind() == ErrorKind::Storage => return Err(error),
            Err(error) => tracing::warn!(table = table.name, %error, "a tag is damaged"),
        }
    }
    Ok(tagged)
}

fn numbers<T: std::str::FromStr>(names: &[String], prefix: &str) -> impl Iterator<Item = T> {
    names.iter().filter_map(move |name| name.strip_prefix(prefix)?.parse().ok())
}

pub(crate) fn read_snapshot(
    files: &FileSystem,
    table: &TableDirectory,
    id: i64,
) -> Result<Snapshot> {
    read_snapshot_file(files, &table.snapshot(id))
}

pub(crate) fn read_snapshot_file(files: &FileSystem, path: &Path) -> Result<Snapshot> {
    if !files.exists(path)? {
        return Err(Error::not_found(format!(
            "there is no {}: it was never written, or removed after its time; name another",
            path.display()
        )));
    }
    let snapshot: Snapshot = serde_json::from_slice(&files.read(path)?).map_err(|error| {
        Error::corrupt(format!("snapshot file {} is damaged: {error}", path.display()))
    })?;
    if snapshot.version() > SNAPSHOT_VERSION {
        return Err(Error::new(
            ErrorKind::Incompatible,
            format!(
                "{} has format {}, newer than {SNAPSHOT_VERSION}, the newest known here; use a \
                 newer version of howdah",
                path.display(),
                snapshot.version()
            ),
        ));
    }
    Ok(snapshot)
}

/// What a snapshot names, without its data files being open.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotContent {
    pub(crate) manifests: Vec<ManifestFileMeta>,
    /// (bucket, data file).
    pub(crate) data_files: Vec<(u32, Arc<DataFileMeta>)>,
    /// (bucket, index file).
    pub(crate) index_files: Vec<(u32, IndexFileMeta)>,
}

/// Reads what snapshots name, each manifest once.
pub(crate) struct SnapshotReader<'a> {
    files: &'a FileSystem,
    table: &'a TableDirectory,
    known: ManifestCache,
}

/// What is known of manifests that have been read: they never change.
#[derive(Debug, Default)]
pub(crate) struct ManifestCache {
    entries: HashMap<String, Arc<Vec<Entry>>>,
    /// Of the snapshot that was read last.
    live: LiveFiles,
}

impl<'a> SnapshotReader<'a> {
    pub(crate) fn new(files: &'a FileSystem, table: &'a TableDirectory) -> Self {
        Self::with_cache(files, table, ManifestCache::default())
    }

    /// A reader that knows some manifests already.
    pub(crate) fn with_cache(
        files: &'a FileSystem,
        table: &'a TableDirectory,
        known: ManifestCache,
    ) -> Self {
        Self { files, table, known }
    }

    /// Of the manifests that were read, those that this snapshot, which was read last, names.
    pub(crate) fn into_cache(mut self, content: &SnapshotContent) -> ManifestCache {
        let named = content.manifests.iter().map(ManifestFileMeta::file_name);
        let entries = named.filter_map(|name| self.known.entries.remove_entry(name)).collect();
        ManifestCache { entries, live: self.known.live }
    }

    pub(crate) fn read(&mut self, snapshot: &Snapshot) -> Result<SnapshotContent> {
        // What comes of a damaged manifest must not be where the next one begins.
        let mut live = std::mem::take(&mut self.known.live);
        let content = self.read_unchecked(snapshot, &mut live).and_then(|content| {
            let names = content.manifests.iter().map(ManifestFileMeta::file_name);
            let (id, schema) = (snapshot.id(), snapshot.schema_id());
            let found = digest::combine(id, schema, live.sum(), &content.index_files);
            digest::check(&self.table.name, snapshot, names, &found)?;
            Ok(content)
        });
        let content = content.map_err(|error| match error.kind() {
            // A name that leads nowhere may be damaged itself.
            ErrorKind::Corrupt => error.within(&format!(
                "snapshot-{} ({}, {})",
                snapshot.id(),
                snapshot.base_manifest_list(),
                snapshot.delta_manifest_list()
            )),
            _ => error,
        })?;
        self.known.live = live;
        Ok(content)
    }

    fn read_unchecked(
        &mut self,
        snapshot: &Snapshot,
        live: &mut LiveFiles,
    ) -> Result<SnapshotContent> {
        let mut manifests = self.read_list(snapshot.base_manifest_list())?;
        manifests.extend(self.read_list(snapshot.delta_manifest_list())?);
        let known = live.known(manifests.iter().map(ManifestFileMeta::file_name));
        if known == 0 {
            *live = LiveFiles::default();
        }
        for manifest in manifests.iter().skip(known).map(ManifestFileMeta::file_name) {
            live.follow(manifest, &self.read_manifest(manifest)?);
        }
        let index_files = match snapshot.index_manifest() {
            Some(name) => self.read_index_manifest(name)?,
            None => Vec::new(),
        };
        Ok(SnapshotContent { manifests, data_files: live.files().collect(), index_files })
    }

    fn read_list(&self, name: &str) -> Result<Vec<ManifestFileMeta>> {
        let path = self.table.manifests().join(name);
        let text = path.to_string_lossy();
        block_on(ManifestList::read(&self.files.file_io, &text))
            .map_err(|error| read_error(&path, error))
    }

    fn read_manifest(&mut self, name: &str) -> Result<Arc<Vec<Entry>>> {
        if let Some(known) = self.known.entries.get(name) {
            return Ok(known.clone());
        }
        let path = self.table.manifests().join(name);
        let text = path.to_string_lossy();
        // Kind and bucket of an entry have no accessors; a filter that keeps all is told them.
        let mut kinds_and_buckets = Vec::new();
        let mut keep_all = |kind: FileKind, _: &[u8], bucket, _| {
            kinds_and_buckets.push((kind, bucket));
            true
        };
        let (files, mut schemas) = (&self.files.file_io, Default::default());
        let read = Manifest::read_filtered(files, &text, &mut schemas, &mut keep_all);
        let read = block_on(read).map_err(|error| read_error(&path, error))?;
        if read.len() != kinds_and_buckets.len() {
            return Err(Error::internal(format!("not every entry of {text} was read")));
        }
        let entries: Vec<Entry> = read
            .into_iter()
            .zip(kinds_and_buckets)
            .map(|(entry, (kind, bucket))| {
                let bucket = u32::try_from(bucket).map_err(|_| {
                    Error::corrupt(format!("manifest {} names no bucket", path.display()))
                })?;
                let added = kind == FileKind::Add;
                Ok(Entry { added, bucket, file: Arc::new(entry.file().clone()) })
            })
            .collect::<Result<_>>()?;
        let entries = Arc::new(entries);
        self.known.entries.insert(name.to_owned(), entries.clone());
        Ok(entries)
    }

    fn read_index_manifest(&self, name: &str) -> Result<Vec<(u32, IndexFileMeta)>> {
        let path = self.table.manifests().join(name);
        let text = path.to_string_lossy();
        let entries: Vec<IndexManifestEntry> =
            block_on(IndexManifest::read(&self.files.file_io, &text))
                .map_err(|error| read_error(&path, error))?;
        entries
            .into_iter()
            .filter(|entry| entry.index_file.index_type == deletion_vector::INDEX_TYPE)
            .map(|entry| {
                let bucket = u32::try_from(entry.bucket).map_err(|_| {
                    Error::corrupt(format!("index manifest {} names no bucket", path.display()))
                })?;
                Ok((bucket, entry.index_file))
            })
            .collect()
    }
}

/// Opens the data files of a snapshot, or only those of one bucket.
pub(crate) fn open_pin(
    files: &FileSystem,
    table: &TableDirectory,
    schema: &schema::TableSchema,
    snapshot: i64,
    content: &SnapshotContent,
    only: Option<u32>,
    damaged: DamagedSidecar,
) -> Result<Pin> {
    let wanted = |bucket: &u32| only.is_none_or(|only| only == *bucket);
    let mut dead: HashMap<String, RoaringBitmap> = HashMap::new();
    for (_, index_file) in content.index_files.iter().filter(|(bucket, _)| wanted(bucket)) {
        dead.extend(deletion_vector::read(files, &table.index(), index_file)?);
    }
    let mut buckets = vec![Vec::new(); schema.key_groups.parallelism() as usize];
    for (bucket, meta) in content.data_files.iter().filter(|(bucket, _)| wanted(bucket)) {
        check_raw(table, meta)?;
        let opened = Content::open(files, &table.bucket(*bucket), meta, schema, damaged)?;
        let of_bucket = buckets.get_mut(*bucket as usize).ok_or_else(|| {
            Error::corrupt(format!(
                "table {}: there should be no bucket {bucket}; restore from an earlier checkpoint",
                table.name
            ))
        })?;
        of_bucket.push(PinnedFile {
            file: DataFile::new(*bucket, DataFileMeta::clone(meta), opened),
            dead: Arc::new(dead.remove(&meta.file_name).unwrap_or_default()),
        });
    }
    for of_bucket in &mut buckets {
        of_bucket.sort_by_key(|pinned| pinned.file.meta.level);
    }
    let pin = Pin { snapshot, buckets };
    pin.check(&table.name)?;
    Ok(pin)
}

/// Only files whose rows are all upserts, outside level 0, can be read as they are.
fn check_raw(table: &TableDirectory, meta: &DataFileMeta) -> Result<()> {
    if meta.level > 0 && meta.delete_row_count == Some(0) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Incompatible,
        format!(
            "table {}: {} was written by another engine and is not fully compacted; compact the \
             table first",
            table.name, meta.file_name
        ),
    ))
}

/// Runs one of crate `paimon`'s futures: over our operator they never wait.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    futures::executor::block_on(future)
}

pub(crate) fn read_error(path: &Path, error: paimon::Error) -> Error {
    if let Some(failed) = failed_call(&error) {
        let failed = std::io::Error::new(failed.kind(), failed.to_string());
        return Error::io("read", path, failed);
    }
    Error::with_source(
        ErrorKind::Corrupt,
        format!("cannot read {}: {error}; restore from an earlier checkpoint", path.display()),
        error,
    )
}

pub(crate) fn write_error(path: &Path, error: paimon::Error) -> Error {
    if let Some(failed) = failed_call(&error) {
        let failed = std::io::Error::new(failed.kind(), failed.to_string());
        return Error::io("write", path, failed);
    }
    Error::with_source(
        ErrorKind::Storage,
        format!("cannot write {}: {error}", path.display()),
        error,
    )
}

/// The call to the file system that failed, unless what failed is to find all of a file there, or
/// its damaged name is none at all.
fn failed_call(error: &paimon::Error) -> Option<&std::io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(failed) = error.downcast_ref::<std::io::Error>() {
            use std::io::ErrorKind::{InvalidInput, NotFound, UnexpectedEof};
            let damage = [NotFound, UnexpectedEof, InvalidInput];
            return Some(failed).filter(|failed| !damage.contains(&failed.kind()));
        }
        cause = error.source();
    }
    None
}

/// A hint only: readers fall back to listing.
pub(crate) fn write_latest_hint(files: &FileSystem, table: &TableDirectory, snapshot: i64) {
    let path = table.snapshots().join("LATEST");
    if let Err(error) = files.replace_unsynced(&path, snapshot.to_string().as_bytes()) {
        tracing::warn!(table = table.name, %error, "the LATEST hint could not be written");
    }
}

//! Writes manifests, the lists of them, and index manifests.

use crate::data_file::no_statistics;
use crate::file_system::FileSystem;
use crate::metadata::{TableDirectory, block_on, write_error};
use crate::{Error, Result};
use paimon::spec::{
    BinaryRow, DataFileMeta, FileKind, IndexFileMeta, IndexManifest, IndexManifestEntry, Manifest,
    ManifestEntry, ManifestFileMeta, ManifestList, Snapshot,
};

/// Format of a manifest entry.
const ENTRY_VERSION: i32 = 2;
/// Format of an entry of an index manifest.
const INDEX_ENTRY_VERSION: i32 = 1;

/// What a manifest says of a data file: that it comes or goes, and in which bucket it lies.
pub(crate) type Entry<'a> = (FileKind, u32, &'a DataFileMeta);

/// Writes a manifest of a table with this many buckets, unless there is nothing to say.
pub(crate) fn write(
    files: &FileSystem,
    table: &TableDirectory,
    schema_id: i64,
    buckets: u32,
    entries: &[Entry<'_>],
) -> Result<Option<ManifestFileMeta>> {
    if entries.is_empty() {
        return Ok(None);
    }
    let buckets = bucket_number(buckets);
    let rows: Vec<ManifestEntry> = entries
        .iter()
        .map(|(kind, bucket, meta)| {
            let bucket = bucket_number(*bucket);
            let meta = (*meta).clone();
            ManifestEntry::new(*kind, no_partition(), bucket, buckets, meta, ENTRY_VERSION)
        })
        .collect();
    let name = format!("manifest-{}-0", crate::seam::unique_name());
    let path = table.manifests().join(&name);
    block_on(Manifest::write(&files.file_io, &path.to_string_lossy(), &rows))
        .map_err(|error| write_error(&path, error))?;
    // Nobody else knows of it yet.
    let size = files.size(&path).inspect_err(|_| drop(files.remove(&path)))?;
    let count = |wanted: FileKind| {
        let matching = entries.iter().filter(|(kind, ..)| *kind == wanted).count();
        i64::try_from(matching).unwrap_or(i64::MAX)
    };
    let of_buckets = || entries.iter().map(|(_, bucket, _)| bucket_number(*bucket));
    let levels = || entries.iter().map(|(_, _, meta)| meta.level);
    let meta = ManifestFileMeta::new(
        name,
        i64::try_from(size).unwrap_or(i64::MAX),
        count(FileKind::Add),
        count(FileKind::Delete),
        no_statistics()?,
        schema_id,
    );
    Ok(Some(meta.with_bucket_level_stats(
        of_buckets().min(),
        of_buckets().max(),
        levels().min(),
        levels().max(),
    )))
}

/// Writes a list of manifests; returns its name.
pub(crate) fn write_list(
    files: &FileSystem,
    table: &TableDirectory,
    suffix: &str,
    manifests: &[ManifestFileMeta],
) -> Result<String> {
    let name = format!("manifest-list-{}-{suffix}", crate::seam::unique_name());
    let path = table.manifests().join(&name);
    block_on(ManifestList::write(&files.file_io, &path.to_string_lossy(), manifests))
        .map_err(|error| write_error(&path, error))?;
    Ok(name)
}

/// Writes the manifest of index files (bucket, file), unless there are none; returns its name.
pub(crate) fn write_index(
    files: &FileSystem,
    table: &TableDirectory,
    index_files: &[(u32, IndexFileMeta)],
) -> Result<Option<String>> {
    if index_files.is_empty() {
        return Ok(None);
    }
    let entries: Vec<IndexManifestEntry> = index_files
        .iter()
        .map(|(bucket, meta)| IndexManifestEntry {
            version: INDEX_ENTRY_VERSION,
            kind: FileKind::Add,
            partition: no_partition(),
            bucket: bucket_number(*bucket),
            index_file: meta.clone(),
        })
        .collect();
    let name = format!("index-manifest-{}-0", crate::seam::unique_name());
    let path = table.manifests().join(&name);
    block_on(IndexManifest::write(&files.file_io, &path.to_string_lossy(), &entries))
        .map_err(|error| write_error(&path, error))?;
    Ok(Some(name))
}

/// The content of a snapshot's file.
pub(crate) fn encode_snapshot(snapshot: &Snapshot) -> Result<Vec<u8>> {
    serde_json::to_vec(snapshot)
        .map_err(|error| Error::corrupt(format!("cannot encode a snapshot: {error}")))
}

/// State tables have no partitions.
fn no_partition() -> Vec<u8> {
    BinaryRow::new(0).to_serialized_bytes()
}

/// Paimon counts buckets in 32-bit signed numbers; `KeyGroups` limits them to fewer.
fn bucket_number(bucket: u32) -> i32 {
    i32::try_from(bucket).unwrap_or(i32::MAX)
}

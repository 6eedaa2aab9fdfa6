//! Savepoints: self-contained warehouses.
//!
//! A savepoint is a Paimon warehouse directory that any reader opens: every file is in it, none
//! is shared with the warehouse it came from, and each table is in the plainest layout: one
//! manifest, one deletion-vector index file for each bucket, one snapshot. A document beside
//! the tables says what it consists of, with checksums. The directory may be moved and copied.

use super::document::{self, Document, File, Payload, Table};
use super::plan::TableContent;
use super::restore::{self, RestoredCheckpoint};
use super::target::{CheckpointTarget, Meter, OnProgress};
use super::{CheckpointRequest, check_length, check_request, tables_of};
use crate::deletion_vector;
use crate::digest;
use crate::file_system::{FileSystem, resolve};
use crate::manifest::{self, encode_snapshot};
use crate::metadata::{ManifestCache, TableDirectory};
use crate::schema::TableSchema;
use crate::store::table_directory;
use crate::{Error, Result};
use paimon::spec::{CommitKind, FileKind, IndexFileMeta, Snapshot};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the document in a savepoint.
const DOCUMENT: &str = "savepoint";

/// Writes a savepoint of tables to a directory that is not there yet: there as a whole or not
/// at all. Everything is fsynced.
///
/// # Errors
/// `InvalidArgument` when the directory is there already; `NotFound` when a table or snapshot
/// is not there; `Corrupt` when files are damaged; `Storage` when files cannot be written.
pub fn write_savepoint(
    request: &CheckpointRequest<'_>,
    destination: &Path,
    progress: OnProgress<'_>,
) -> Result<()> {
    check_request(request)?;
    let span = tracing::info_span!("savepoint", id = request.checkpoint);
    let _entered = span.enter();
    let destination = resolve(destination)?;
    let files = FileSystem::new(true, None)?;
    if files.exists(&destination)? {
        return Err(Error::invalid(format!(
            "{} is there already; choose another directory",
            destination.display()
        )));
    }
    let parent = destination.parent().unwrap_or(Path::new("/"));
    let name = destination.file_name().unwrap_or_default().to_string_lossy();
    let staging = parent.join(format!(".{name}.{}.tmp", crate::seam::unique_name()));
    let result = fill(&files, request, &staging, progress)
        .and_then(|()| files.rename(&staging, &destination))
        .and_then(|()| files.sync_directory(parent));
    if result.is_err() {
        let _ = files.remove_directory(&staging);
    }
    result
}

/// Reads every file of a savepoint and compares its checksum.
///
/// # Errors
/// `Corrupt`, with the names of the damaged files; `NotFound` when it is no savepoint.
pub fn verify_savepoint(savepoint: &Path, progress: OnProgress<'_>) -> Result<()> {
    let (target, document) = open(savepoint)?;
    restore::verify(&target, "", &document, progress)
}

/// Makes a fresh warehouse of a savepoint, as [`crate::CheckpointStore::restore`] does of a
/// checkpoint. The savepoint stays as it is.
///
/// # Errors
/// As for [`crate::CheckpointStore::restore`].
pub fn restore_savepoint(
    savepoint: &Path,
    warehouse: &Path,
    progress: OnProgress<'_>,
) -> Result<RestoredCheckpoint> {
    let (target, document) = open(savepoint)?;
    restore::restore(&target, "", &document, warehouse, progress)
}

/// The number of the checkpoint in a savepoint, and what its writer keeps with it. Reads its document
/// alone.
///
/// # Errors
/// `NotFound` when it is no savepoint; `Corrupt` when its document is damaged.
pub fn savepoint_payload(savepoint: &Path) -> Result<(u64, Vec<u8>)> {
    let (_, document) = open(savepoint)?;
    Ok((document.checkpoint, document.payload.bytes().unwrap_or_default()))
}

fn open(savepoint: &Path) -> Result<(CheckpointTarget, Document)> {
    let target = CheckpointTarget::directory(savepoint, true)?;
    let name = target.describe(DOCUMENT);
    let bytes = target.read(DOCUMENT, document::LIMIT_BYTES)?.ok_or_else(|| {
        Error::not_found(format!("{} is no savepoint: there is no {name}", savepoint.display()))
    })?;
    Ok((target, Document::decode(&name, &bytes)?))
}

fn fill(
    files: &FileSystem,
    request: &CheckpointRequest<'_>,
    staging: &Path,
    progress: OnProgress<'_>,
) -> Result<()> {
    let _leases = super::lease(files, &tables_of(request)?)?;
    let mut contents = Vec::new();
    for (source, snapshot) in tables_of(request)? {
        let content = TableContent::read(files, &source, snapshot, &mut ManifestCache::default())?;
        contents.push((source, content));
    }
    let data = || contents.iter().flat_map(|(_, content)| &content.content.data_files);
    let files_total = data().map(|(_, meta)| 1 + meta.extra_files.len()).sum();
    let bytes_total = data().map(|(_, meta)| u64::try_from(meta.file_size).unwrap_or(0)).sum();
    let meter = Meter::new(files_total, bytes_total, progress);
    let mut document = Document {
        checkpoint: request.checkpoint,
        time_ms: crate::seam::wall_clock_ms(),
        tenant: request.tenant.to_owned(),
        tables: Vec::new(),
        payload: Payload::new(request.payload),
    };
    for (source, content) in &contents {
        let to = table_directory(staging, request.tenant, &source.name);
        let table = write_table(files, source, content, &to, request.checkpoint, &meter)?;
        document.tables.push(table);
    }
    let database = staging.join(format!("{}.db", request.tenant));
    files.create_directory(&database)?;
    files.sync_directory(&database)?;
    files.replace(&staging.join(DOCUMENT), &document.encode()?)
}

/// Writes one table; returns what it consists of.
fn write_table(
    files: &FileSystem,
    from: &TableDirectory,
    content: &TableContent,
    to: &TableDirectory,
    checkpoint: u64,
    meter: &Meter<'_>,
) -> Result<Table> {
    let mut table = Table {
        name: from.name.clone(),
        snapshot: content.snapshot.id(),
        snapshot_file: String::new(),
        schemas: content.schemas.clone(),
        files: Vec::new(),
    };
    for (bucket, meta) in &content.content.data_files {
        for name in std::iter::once(&meta.file_name).chain(&meta.extra_files) {
            let path = format!("bucket-{bucket}/{name}");
            let source = from.root.join(&path);
            let is_data = name == &meta.file_name;
            // A file beside a data file may be gone: everybody does without.
            if !is_data && !files.exists(&source)? {
                continue;
            }
            let wanted = is_data.then(|| u64::try_from(meta.file_size).ok());
            check_length(&source, files.size(&source)?, wanted.flatten())?;
            files.copy(&source, &to.root.join(&path))?;
            table.files.push(sum_of(files, to, path)?);
            meter.add(1, wanted.flatten().unwrap_or(0));
        }
    }
    let index_files = write_index_files(files, from, content, to)?;
    let (snapshot, written) = write_manifests(files, content, to, &index_files)?;
    for (_, meta) in &index_files {
        table.files.push(sum_of(files, to, format!("index/{}", meta.file_name))?);
    }
    for name in written {
        table.files.push(sum_of(files, to, format!("manifest/{name}"))?);
    }
    table.snapshot_file = String::from_utf8(encode_snapshot(&snapshot)?)
        .map_err(|_| Error::corrupt(format!("the snapshot of table {} is no text", table.name)))?;
    restore::create_directories(files, to, &table)?;
    restore::write_metadata(files, to, &table, checkpoint)?;
    for below in files.list(&to.root)? {
        files.sync_directory(&to.root.join(below))?;
    }
    files.sync_directory(&to.root)?;
    Ok(table)
}

fn sum_of(files: &FileSystem, table: &TableDirectory, path: String) -> Result<File> {
    let (bytes, crc32) = files.checksum(&table.root.join(&path))?;
    Ok(File { path, bytes, crc32 })
}

/// One index file for each bucket that has dead rows.
fn write_index_files(
    files: &FileSystem,
    from: &TableDirectory,
    content: &TableContent,
    to: &TableDirectory,
) -> Result<Vec<(u32, IndexFileMeta)>> {
    let mut buckets: BTreeMap<u32, Vec<(String, RoaringBitmap)>> = BTreeMap::new();
    for (bucket, meta) in &content.content.index_files {
        let vectors = deletion_vector::read(files, &from.index(), meta)?;
        buckets.entry(*bucket).or_default().extend(vectors);
    }
    buckets
        .into_iter()
        .map(|(bucket, vectors)| {
            let vectors: Vec<(&str, &RoaringBitmap)> =
                vectors.iter().map(|(name, dead)| (name.as_str(), dead)).collect();
            Ok((bucket, deletion_vector::write(files, &to.index(), &vectors)?))
        })
        .collect()
}

/// Writes one manifest with all data files, and what leads to it. Returns the snapshot, and the
/// names of the files.
fn write_manifests(
    files: &FileSystem,
    content: &TableContent,
    to: &TableDirectory,
    index_files: &[(u32, IndexFileMeta)],
) -> Result<(Snapshot, Vec<String>)> {
    let from = &content.snapshot;
    let schema = content
        .schemas
        .last()
        .ok_or_else(|| Error::corrupt(format!("table {} has no schema", to.name)))?;
    let schema = TableSchema::decode(&to.name, schema.file.as_bytes())?;
    let live = &content.content.data_files;
    let added: Vec<_> =
        live.iter().map(|(bucket, meta)| (FileKind::Add, *bucket, &**meta)).collect();
    let buckets = schema.key_groups.parallelism();
    let manifest = manifest::write(files, to, from.schema_id(), buckets, &added)?;
    let base = manifest::write_list(files, to, "0", manifest.as_slice())?;
    let delta = manifest::write_list(files, to, "1", &[])?;
    let index_manifest = manifest::write_index(files, to, index_files)?;
    let mut written = vec![base.clone(), delta.clone()];
    written.extend(manifest.iter().map(|meta| meta.file_name().to_owned()));
    written.extend(index_manifest.clone());
    let rows = live.iter().map(|(_, meta)| meta.row_count).sum();
    let data_files = live.iter().map(|(bucket, meta)| (*bucket, &**meta));
    let properties = digest::properties(from.id(), from.schema_id(), data_files, index_files);
    let snapshot = Snapshot::builder()
        .version(from.version())
        .id(from.id())
        .schema_id(from.schema_id())
        .base_manifest_list(base)
        .delta_manifest_list(delta)
        .commit_user(from.commit_user().to_owned())
        .commit_identifier(from.commit_identifier())
        .commit_kind(CommitKind::APPEND)
        .time_millis(from.time_millis())
        .total_record_count(Some(rows))
        .delta_record_count(Some(0))
        .index_manifest(index_manifest)
        .properties(Some(properties))
        .build();
    Ok((snapshot, written))
}

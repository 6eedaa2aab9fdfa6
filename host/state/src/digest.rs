//! A digest of what a snapshot consists of, kept in the snapshot itself.
//!
//! Manifests, their lists and index manifests have no checksums. What they say of the files of a
//! snapshot is summed up when it is committed and when it is read: a flipped bit in any of them
//! that would change an answer is noticed. Snapshots of other engines have no digest.

use crate::{Error, Result};
use paimon::spec::{DataFileMeta, IndexFileMeta, Snapshot};
use std::collections::HashMap;
use xxhash_rust::xxh3::Xxh3;

/// The property of a snapshot that holds the digest.
const PROPERTY: &str = "howdah.content-digest";

/// The properties of a snapshot with these data files and index files (bucket, file), in any
/// order.
pub(crate) fn properties<'a>(
    snapshot: i64,
    schema: i64,
    data_files: impl Iterator<Item = (u32, &'a DataFileMeta)>,
    index_files: &'a [(u32, IndexFileMeta)],
) -> HashMap<String, String> {
    HashMap::from([(PROPERTY.to_owned(), digest(snapshot, schema, data_files, index_files))])
}

/// The digest of such a snapshot.
fn digest<'a>(
    snapshot: i64,
    schema: i64,
    data_files: impl Iterator<Item = (u32, &'a DataFileMeta)>,
    index_files: &'a [(u32, IndexFileMeta)],
) -> String {
    // A sum does not depend on the order.
    let data =
        data_files.fold(0_u64, |sum, (bucket, meta)| sum.wrapping_add(of_data_file(bucket, meta)));
    combine(snapshot, schema, data, index_files)
}

/// The digest of such a snapshot; `data` is the sum of [`of_data_file`] over its data files.
pub(crate) fn combine(
    snapshot: i64,
    schema: i64,
    data: u64,
    index_files: &[(u32, IndexFileMeta)],
) -> String {
    let mut hasher = Xxh3::new();
    number(&mut hasher, snapshot);
    number(&mut hasher, schema);
    let index =
        index_files.iter().fold(0_u64, |sum, (of, meta)| sum.wrapping_add(index(*of, meta)));
    hasher.update(&data.to_le_bytes());
    hasher.update(&index.to_le_bytes());
    format!("{:016x}", hasher.digest())
}

/// Fails unless `found` is the digest that a snapshot has, if it has one. `manifests` are the
/// names of those that were read.
pub(crate) fn check<'a>(
    table: &str,
    snapshot: &'a Snapshot,
    manifests: impl Iterator<Item = &'a str>,
    found: &str,
) -> Result<()> {
    let stored = snapshot.properties().and_then(|properties| properties.get(PROPERTY));
    if stored.is_none_or(|stored| stored == found) {
        return Ok(());
    }
    let suspects: Vec<&str> = snapshot.index_manifest().into_iter().chain(manifests).collect();
    Err(Error::corrupt(format!(
        "table {table}: one of {} is damaged, or what names them: it is not what was committed; \
         restore from an earlier checkpoint",
        suspects.join(", "),
    )))
}

/// The part of a data file: of everything that reading depends on.
pub(crate) fn of_data_file(bucket: u32, meta: &DataFileMeta) -> u64 {
    let mut hasher = Xxh3::new();
    number(&mut hasher, i64::from(bucket));
    number(&mut hasher, i64::from(meta.level));
    text(&mut hasher, &meta.file_name);
    number(&mut hasher, meta.file_size);
    number(&mut hasher, meta.row_count);
    number(&mut hasher, meta.delete_row_count.unwrap_or(-1));
    number(&mut hasher, meta.min_sequence_number);
    number(&mut hasher, meta.max_sequence_number);
    number(&mut hasher, meta.schema_id);
    bytes(&mut hasher, &meta.min_key);
    bytes(&mut hasher, &meta.max_key);
    number(&mut hasher, i64::try_from(meta.extra_files.len()).unwrap_or(i64::MAX));
    meta.extra_files.iter().for_each(|name| text(&mut hasher, name));
    hasher.digest()
}

fn index(bucket: u32, meta: &IndexFileMeta) -> u64 {
    let mut hasher = Xxh3::new();
    number(&mut hasher, i64::from(bucket));
    text(&mut hasher, &meta.file_name);
    number(&mut hasher, meta.file_size);
    for (data_file, range) in meta.deletion_vectors_ranges.iter().flatten() {
        text(&mut hasher, data_file);
        number(&mut hasher, i64::from(range.offset));
        number(&mut hasher, i64::from(range.length));
        number(&mut hasher, range.cardinality.unwrap_or(-1));
    }
    hasher.digest()
}

fn number(hasher: &mut Xxh3, number: i64) {
    hasher.update(&number.to_le_bytes());
}

fn text(hasher: &mut Xxh3, text: &str) {
    bytes(hasher, text.as_bytes());
}

/// With the length, so that neighbours cannot be taken for each other.
fn bytes(hasher: &mut Xxh3, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

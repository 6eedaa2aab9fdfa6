//! A pinned snapshot: its data files, open, with their dead rows. Never changes.

use crate::data_file::{DataFile, FileId, ProbeKey};
use crate::key::EncodedKeys;
use crate::schema::TableSchema;
use crate::value_column::ValueColumn;
use crate::write_buffer::Location;
use crate::{Error, ErrorKind, Result};
use roaring::RoaringBitmap;
use std::ops::Range;
use std::sync::Arc;

/// The files of one snapshot, planned once for all probes of it.
#[derive(Debug, Clone)]
pub(crate) struct Pin {
    pub(crate) snapshot: i64,
    /// For each bucket, newest sorted run first (that is, by ascending level).
    pub(crate) buckets: Vec<Vec<PinnedFile>>,
}

/// A data file and its dead rows.
#[derive(Debug, Clone)]
pub(crate) struct PinnedFile {
    pub(crate) file: Arc<DataFile>,
    pub(crate) dead: Arc<RoaringBitmap>,
}

impl PinnedFile {
    pub(crate) fn live_rows(&self) -> u64 {
        u64::from(self.file.rows()).saturating_sub(self.dead.len())
    }
}

/// The keys of a probe that one file has.
#[derive(Debug)]
pub(crate) struct FileHits {
    pub(crate) file: FileId,
    /// (number of the key, row), by ascending row.
    pub(crate) rows: Vec<(u32, u32)>,
    /// One row for each of `rows`; empty when values were not asked for.
    pub(crate) values: Vec<ValueColumn>,
}

/// Rows of one file between two keys, read a few at a time, in key order.
#[derive(Debug, Clone)]
pub(crate) struct FileRange {
    pinned: PinnedFile,
    /// What is left to read; dead rows are among them.
    rows: Range<u32>,
}

/// Rows of a [`FileRange`], in key order; entry `i` of each belongs to row `i`.
#[derive(Debug)]
pub(crate) struct RangeRows {
    pub(crate) file: FileId,
    /// Row numbers in the file.
    pub(crate) rows: Vec<u32>,
    pub(crate) keys: EncodedKeys,
    pub(crate) values: Vec<ValueColumn>,
}

impl FileRange {
    /// Reads the next live rows, at most `limit_rows` of them; `None` when there are no more.
    ///
    /// # Errors
    /// `Corrupt` or `Storage` when the file cannot be read.
    pub(crate) fn next(
        &mut self,
        schema: &TableSchema,
        limit_rows: usize,
    ) -> Result<Option<RangeRows>> {
        let PinnedFile { file, dead } = &self.pinned;
        let rows: Vec<u32> =
            self.rows.by_ref().filter(|row| !dead.contains(*row)).take(limit_rows).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        let keys = file.content.keys(&schema.encoder, &rows)?;
        let values = file.content.values(&rows, None)?;
        Ok(Some(RangeRows { file: file.id, rows, keys, values }))
    }
}

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want<'a> {
    /// All value columns.
    Values,
    /// These value columns, in this order.
    #[expect(dead_code, reason = "for states that read a part of a row")]
    Columns(&'a [usize]),
    Positions,
}

/// By key group and key; a key that is there twice is there once afterwards.
fn sort(keys: &mut Vec<ProbeKey<'_>>) {
    // Most keys differ early: comparing numbers is cheaper than comparing slices.
    keys.sort_unstable_by(|a, b| {
        (a.group, a.beginning).cmp(&(b.group, b.beginning)).then_with(|| a.key.cmp(b.key))
    });
    keys.dedup_by(|a, b| a.group == b.group && a.key == b.key);
}

/// Takes the keys of these hits (number of the key, row) out of a list, each however often it is
/// there.
fn remove_found(missing: &mut Vec<ProbeKey<'_>>, keys: &EncodedKeys, hits: &[(u32, u32)]) {
    let mut found = vec![false; keys.len()];
    for &(index, _) in hits {
        if let Some(found) = found.get_mut(index as usize) {
            *found = true;
        }
    }
    missing.retain(|key| !found.get(key.index as usize).is_some_and(|&found| found));
}

impl Pin {
    pub(crate) fn files(&self) -> impl Iterator<Item = &PinnedFile> {
        self.buckets.iter().flatten()
    }

    pub(crate) fn bucket(&self, bucket: u32) -> &[PinnedFile] {
        self.buckets.get(bucket as usize).map_or(&[], Vec::as_slice)
    }

    /// Looks for keys in one bucket. `wanted` are indices into `keys`; what is nowhere in the
    /// hits has no row. Of a key that is there more than once, one index is answered.
    pub(crate) fn probe(
        &self,
        schema: &TableSchema,
        bucket: u32,
        keys: &EncodedKeys,
        wanted: &[u32],
        want: Want<'_>,
    ) -> Result<Vec<FileHits>> {
        let mut missing: Vec<ProbeKey<'_>> = wanted
            .iter()
            .filter_map(|&index| {
                let hash = *keys.hashes().get(index as usize)?;
                let group = schema.key_groups.group_of(hash);
                Some(ProbeKey::new(group, keys.key(index as usize), hash, index))
            })
            .collect();
        let mut all = Vec::new();
        // A key is live in one file at most: what was found is not looked for again.
        for PinnedFile { file, dead } in self.bucket(bucket) {
            if missing.is_empty() {
                break;
            }
            let mut candidates: Vec<ProbeKey<'_>> =
                missing.iter().filter(|key| file.content.may_have(key)).copied().collect();
            if candidates.is_empty() {
                continue;
            }
            sort(&mut candidates);
            let mut rows = file.content.find(&schema.encoder, &candidates)?;
            rows.retain(|&(_, row)| !dead.contains(row));
            if rows.is_empty() {
                continue;
            }
            remove_found(&mut missing, keys, &rows);
            let positions: Vec<u32> = rows.iter().map(|&(_, row)| row).collect();
            let values = match want {
                Want::Values => file.content.values(&positions, None)?,
                Want::Columns(columns) => file.content.values(&positions, Some(columns))?,
                Want::Positions => Vec::new(),
            };
            all.push(FileHits { file: file.id, rows, values });
        }
        Ok(all)
    }

    /// The live rows of one key group whose encoded keys are at least `from` and less than `to`,
    /// of each file that has such keys, newest first. Both bounds may be the beginning of a key.
    /// A key is in one of the ranges at most.
    pub(crate) fn range(
        &self,
        schema: &TableSchema,
        bucket: u32,
        group: u32,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Vec<FileRange>> {
        let mut ranges = Vec::new();
        for pinned in self.bucket(bucket) {
            let rows = pinned.file.content.range(&schema.encoder, group, from, to)?;
            if !rows.is_empty() {
                ranges.push(FileRange { pinned: pinned.clone(), rows });
            }
        }
        Ok(ranges)
    }

    /// Where these keys lie, in their order.
    pub(crate) fn locate(
        &self,
        schema: &TableSchema,
        bucket: u32,
        keys: &EncodedKeys,
        wanted: &[u32],
    ) -> Result<Vec<(u32, Location)>> {
        let hits = self.probe(schema, bucket, keys, wanted, Want::Positions)?;
        let mut located = Vec::with_capacity(wanted.len());
        for FileHits { file, rows, .. } in hits {
            located.extend(rows.iter().map(|&(index, row)| (index, Location::At { file, row })));
        }
        Ok(located)
    }

    /// The invariants of a snapshot that are cheap to see.
    ///
    /// # Errors
    /// `Incompatible` when files share a level; `Corrupt` when a dead row lies past the end of
    /// its file.
    pub(crate) fn check(&self, table: &str) -> Result<()> {
        for files in &self.buckets {
            for pair in files.windows(2) {
                if let [newer, older] = pair
                    && newer.file.meta.level >= older.file.meta.level
                {
                    return Err(Error::new(
                        ErrorKind::Incompatible,
                        format!(
                            "table {table}, snapshot {}: {} and {} are of the same level, as only \
                             another engine writes them",
                            self.snapshot, newer.file.meta.file_name, older.file.meta.file_name
                        ),
                    ));
                }
            }
        }
        for PinnedFile { file, dead } in self.files() {
            if dead.max().is_some_and(|row| row >= file.rows()) {
                return Err(Error::corrupt(format!(
                    "table {table}, snapshot {}: a deletion vector marks a row past the end of {}",
                    self.snapshot, file.meta.file_name
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Another parallelism for a stored table, without a row being rewritten.
//!
//! Every data file gets a second name, by hard link, in each new bucket that owns some of its key
//! groups; its rows of other key groups are masked by a deletion vector there. Rows are sorted by
//! key group, so that the masks are few ranges. The old names go in the same snapshot, under new
//! ones: readers subtract names that were removed over the whole history of a table.
//!
//! Copies of one file that meet again in a bucket become one: a row of it is live there when it
//! is live in one of them.

use crate::committer::{Committer, TOP_LEVEL};
use crate::data_file::{Content, DamagedSidecar, DataFile, FileId};
use crate::evolution::NextSchema;
use crate::pin::PinnedFile;
use crate::schema::TableSchema;
use crate::{KeyGroups, Result};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Levels that a bucket has left for new runs, at least.
const FREE_LEVELS: i32 = 31;

/// A data file on its way to a new bucket.
#[derive(Debug)]
struct Adopted<'a> {
    source: &'a PinnedFile,
    dead: RoaringBitmap,
}

/// Spreads the latest snapshot of a table over other buckets, in one snapshot. The table stays
/// as it was after an error.
///
/// # Errors
/// `Storage` when files cannot be linked or written.
pub(crate) fn rescale(
    committer: &mut Committer,
    next: NextSchema,
    groups: &KeyGroups,
) -> Result<()> {
    let span = tracing::info_span!("rescale", table = committer.table.name);
    let _entered = span.enter();
    let pin = committer.pin().clone();
    let origins = by_origin(pin.files());
    let buckets: Vec<Vec<Adopted<'_>>> =
        (0..groups.parallelism()).map(|bucket| adopt(&origins, groups, bucket)).collect();
    let most = buckets.iter().map(Vec::len).max().unwrap_or(0);
    let top = i32::try_from(most).unwrap_or(i32::MAX - FREE_LEVELS) + FREE_LEVELS;
    let top = top.max(TOP_LEVEL);
    let next = next.rescaled(&committer.files, &committer.table, groups, top)?;
    let mut linked = Vec::new();
    let result = link(committer, &next.schema, &buckets, top, &mut linked)
        .and_then(|files| next.write(&committer.files, &committer.table).map(|()| files));
    let (added, dead) = match result {
        Ok(files) => files,
        Err(error) => {
            for path in linked {
                // What resists is removed when the table is next opened.
                let _ = committer.files.remove(&path);
            }
            return Err(error);
        }
    };
    let files = added.len();
    let snapshot = committer.rescale(next.schema, added, dead)?;
    let parallelism = groups.parallelism();
    let table = &committer.table.name;
    tracing::info!(table, parallelism, snapshot, files, "state table rescaled");
    Ok(())
}

/// The copies of each file, by the name that it was written under.
fn by_origin<'a>(
    files: impl Iterator<Item = &'a PinnedFile>,
) -> BTreeMap<(String, i64, i64), Vec<&'a PinnedFile>> {
    let mut origins: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for pinned in files {
        let meta = &pinned.file.meta;
        let key = (origin(&meta.file_name).to_owned(), meta.file_size, meta.row_count);
        origins.entry(key).or_default().push(pinned);
    }
    origins
}

/// The name of a file without ending, and without what a rescale added to it.
fn origin(name: &str) -> &str {
    let stem = name.strip_suffix(".parquet").unwrap_or(name);
    stem.split_once("_e").map_or(stem, |(origin, _)| origin)
}

/// The files that a new bucket has live rows of, oldest first.
fn adopt<'a>(
    origins: &BTreeMap<(String, i64, i64), Vec<&'a PinnedFile>>,
    groups: &KeyGroups,
    bucket: u32,
) -> Vec<Adopted<'a>> {
    let mut adopted = Vec::new();
    for copies in origins.values() {
        let Some((&source, others)) = copies.split_first() else { continue };
        let mut dead = source.dead.as_ref().clone();
        for other in others {
            dead &= other.dead.as_ref();
        }
        for group in 0..groups.count() {
            if groups.subtask_of_group(group) != bucket {
                dead.insert_range(source.file.content.group_rows(group));
            }
        }
        if dead.len() < u64::from(source.file.rows()) {
            adopted.push(Adopted { source, dead });
        }
    }
    adopted.sort_by_key(|adopted| {
        let meta = &adopted.source.file.meta;
        (std::cmp::Reverse(meta.level), meta.max_sequence_number)
    });
    adopted
}

type Files = (Vec<Arc<DataFile>>, HashMap<FileId, RoaringBitmap>);

/// Gives files their new names and opens them; `linked` gets these names, as far as it comes.
fn link(
    committer: &Committer,
    schema: &TableSchema,
    buckets: &[Vec<Adopted<'_>>],
    top: i32,
    linked: &mut Vec<PathBuf>,
) -> Result<Files> {
    let (files, table) = (&committer.files, &committer.table);
    let unique = crate::seam::unique_name();
    let unique = unique.split('-').next().unwrap_or_default();
    let (mut added, mut dead) = (Vec::new(), HashMap::new());
    for (bucket, adopted) in (0_u32..).zip(buckets) {
        let directory = table.bucket(bucket);
        files.create_directory(&directory)?;
        for (level, Adopted { source, dead: masked }) in (1..=top).rev().zip(adopted) {
            let from = table.bucket(source.file.bucket);
            let mut meta = source.file.meta.clone();
            let old_name = meta.file_name.clone();
            meta.file_name = format!("{}_e{unique}b{bucket}.parquet", origin(&old_name));
            meta.level = level;
            let mut names = vec![(old_name.clone(), meta.file_name.clone())];
            for extra in &mut meta.extra_files {
                let ending = extra.strip_prefix(&old_name);
                let renamed = match ending {
                    Some(ending) => format!("{}{ending}", meta.file_name),
                    None => format!("{}.{extra}", meta.file_name),
                };
                names.push((std::mem::replace(extra, renamed.clone()), renamed));
            }
            for (old, new) in names {
                let is_data = old == old_name;
                let (old, new) = (from.join(old), directory.join(new));
                // A file beside a data file may be gone: everybody does without.
                if is_data || files.exists(&old)? {
                    linked.push(new.clone());
                    files.link_or_copy(&old, &new)?;
                }
            }
            let content = Content::open(files, &directory, &meta, schema, DamagedSidecar::Refuse)?;
            let file = DataFile::new(bucket, meta, content);
            if !masked.is_empty() {
                dead.insert(file.id, masked.clone());
            }
            added.push(file);
        }
    }
    files.sync_directory(&table.root)?;
    Ok((added, dead))
}

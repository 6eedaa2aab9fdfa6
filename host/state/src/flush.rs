//! Turns frozen write buffers into data files and deletion vectors.

use crate::committer::{Change, Committer};
use crate::data_file::{DataFile, DataFileWriter, FileId, Source};
use crate::file_system::FileSystem;
use crate::key::beginning;
use crate::metadata::TableDirectory;
use crate::pin::Pin;
use crate::pool::PoolQueue;
use crate::schema::TableSchema;
use crate::write_buffer::{Location, Status, WriteBuffer};
use crate::{Error, Result, StateKind};
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use paimon::spec::CommitKind;
use roaring::RoaringBitmap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Rows that are built at a time.
const BATCH_ROWS: usize = 8192;

/// A frozen buffer of a subtask.
#[derive(Debug, Clone)]
pub(crate) struct Frozen {
    pub(crate) subtask: u32,
    pub(crate) buffer: Arc<WriteBuffer>,
}

/// Where the rows of a flushed buffer lie now, one entry for each row of the buffer.
pub(crate) type NewLocations = Arc<[Location]>;

/// Writes these buffers, one of each subtask at most, as one snapshot. Returns the snapshot and
/// each buffer's new locations. Idle threads of the pool write buckets meanwhile.
///
/// Nothing is committed when no buffer has a change: the latest snapshot says it all already.
pub(crate) fn flush(
    committer: &mut Committer,
    pool: &PoolQueue,
    checkpoint: u64,
    frozen: &[Frozen],
) -> Result<(i64, Vec<NewLocations>)> {
    let mut change = Change {
        kind: CommitKind::APPEND,
        identifier: checkpoint,
        added: Vec::new(),
        removed: HashSet::new(),
        dead: HashMap::new(),
    };
    let parts: Vec<BucketFlush> =
        frozen.iter().map(|frozen| BucketFlush::new(committer, frozen)).collect::<Result<_>>()?;
    let results = pool.for_each(parts.len(), move |part| match parts.get(part) {
        Some(part) => part.run(),
        None => Err(Error::internal("a flush lost one of its buckets")),
    });
    let mut locations = Vec::with_capacity(frozen.len());
    let mut failure = None;
    for result in results {
        match result {
            Ok(flushed) => {
                if let Some(file) = &flushed.added {
                    committer.pass_sequence_number(file.meta.max_sequence_number);
                }
                change.added.extend(flushed.added);
                change.dead.extend(flushed.dead);
                locations.push(flushed.locations);
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(error) = failure {
        // The other buckets are of no use without this one.
        committer.discard(&change.added);
        return Err(error);
    }
    if change.added.is_empty() && change.dead.is_empty() {
        return Ok((committer.pin().snapshot, locations));
    }
    Ok((committer.commit(&change)?, locations))
}

/// The part of a flush that concerns one bucket.
struct BucketFlush {
    files: FileSystem,
    table: TableDirectory,
    schema: TableSchema,
    pin: Arc<Pin>,
    frozen: Frozen,
    /// Level of the new run.
    level: i32,
    first_sequence_number: i64,
}

/// What became of a buffer.
struct Flushed {
    added: Option<Arc<DataFile>>,
    /// Rows on disk that it supersedes.
    dead: HashMap<FileId, RoaringBitmap>,
    locations: NewLocations,
}

impl BucketFlush {
    fn new(committer: &mut Committer, frozen: &Frozen) -> Result<Self> {
        let Frozen { subtask, buffer } = frozen;
        let level = committer.next_level(*subtask).ok_or_else(|| {
            Error::invalid(format!(
                "table {}: bucket {subtask} has no level left for a sorted run",
                committer.table.name
            ))
        })?;
        Ok(Self {
            files: committer.files.clone(),
            table: committer.table.clone(),
            schema: committer.schema.clone(),
            pin: committer.pin().clone(),
            frozen: frozen.clone(),
            level,
            first_sequence_number: committer.take_sequence_numbers(buffer.dirty_rows()),
        })
    }

    fn run(&self) -> Result<Flushed> {
        // The file comes last: nothing is left behind when a probe fails.
        let dead = self.supersede()?;
        let (added, locations) = self.write_rows()?;
        Ok(Flushed { added, dead, locations })
    }

    /// The rows on disk that the buffer's rows supersede.
    fn supersede(&self) -> Result<HashMap<FileId, RoaringBitmap>> {
        let Frozen { subtask, buffer } = &self.frozen;
        let live_files: Vec<FileId> =
            self.pin.bucket(*subtask).iter().map(|pinned| pinned.file.id).collect();
        let mut superseded: Vec<(FileId, u32)> = Vec::new();
        let mut unknown = Vec::new();
        for row in dirty_rows(buffer) {
            match buffer.location(row) {
                Location::Absent => {}
                Location::At { file, row } if live_files.contains(&file) => {
                    superseded.push((file, row));
                }
                // Never looked for, or merged into another file since.
                Location::Unknown | Location::At { .. } => unknown.push(row),
            }
        }
        let located = self.pin.locate(&self.schema, *subtask, buffer.keys(), &unknown)?;
        for (_, location) in located {
            if let Location::At { file, row } = location {
                superseded.push((file, row));
            }
        }
        // In order, a bitmap grows at its end.
        superseded.sort_unstable();
        superseded.dedup();
        let of_file = superseded.chunk_by(|a, b| a.0 == b.0);
        of_file
            .filter_map(|rows| {
                let (file, _) = *rows.first()?;
                let dead = RoaringBitmap::from_sorted_iter(rows.iter().map(|&(_, row)| row));
                Some(
                    dead.map(|dead| (file, dead))
                        .map_err(|_| Error::internal("superseded rows are out of order")),
                )
            })
            .collect()
    }

    /// Writes the written rows of the buffer as one sorted run.
    fn write_rows(&self) -> Result<(Option<Arc<DataFile>>, NewLocations)> {
        let Frozen { subtask, buffer } = &self.frozen;
        let mut locations = clean_locations(buffer);
        let rows = self.rows_in_order();
        if rows.is_empty() {
            return Ok((None, locations.into()));
        }
        let keys = buffer.keys();
        let is_list = self.schema.kind == StateKind::List;
        let mut sequence_numbers = self.first_sequence_number..;
        let directory = self.table.bucket(*subtask);
        let mut writer = DataFileWriter::create(&self.files, &self.schema, &directory)?;
        for batch in rows.chunks(BATCH_ROWS) {
            let in_buffer: Vec<u32> = batch.iter().map(|(_, row)| *row).collect();
            let keys = keys.take(&in_buffer);
            let mut columns = self.schema.encoder.decode(&keys)?;
            // What is appended to a list later must come behind all that is there.
            let positions = columns.last().filter(|_| is_list);
            let numbers = match positions.and_then(|last| last.as_primitive_opt::<Int64Type>()) {
                Some(positions) => positions.values().to_vec(),
                None => sequence_numbers.by_ref().take(batch.len()).collect(),
            };
            let optional: Vec<Option<u32>> = in_buffer.iter().copied().map(Some).collect();
            columns.extend(buffer.gather(&optional)?);
            writer.write(
                keys.hashes(),
                batch.iter().map(|(group, _)| i32::try_from(*group).unwrap_or(i32::MAX)).collect(),
                numbers,
                columns,
            )?;
        }
        let file = writer.finish(*subtask, self.level, Source::Append)?;
        for (in_file, (_, row)) in (0..).zip(&rows) {
            if let Some(location) = locations.get_mut(*row as usize) {
                *location = Location::At { file: file.id, row: in_file };
            }
        }
        Ok((Some(file), locations.into()))
    }

    /// (key group, row) of each written row, in key order.
    fn rows_in_order(&self) -> Vec<(u32, u32)> {
        let buffer = &self.frozen.buffer;
        let keys = buffer.keys();
        let groups = &self.schema.key_groups;
        let group_of =
            |row: u32| keys.hashes().get(row as usize).map_or(0, |&hash| groups.group_of(hash));
        let key = |row: u32| keys.key(row as usize);
        // Dealt out by key group first: short lists are sorted sooner than one long one.
        let mut of_group: Vec<Vec<(u64, u32)>> = vec![Vec::new(); groups.count() as usize];
        for row in dirty_rows(buffer).filter(|&row| buffer.status(row) == Status::Written) {
            if let Some(rows) = of_group.get_mut(group_of(row) as usize) {
                rows.push((beginning(key(row)), row));
            }
        }
        let mut in_order = Vec::with_capacity(buffer.rows());
        for (group, mut rows) in (0..).zip(of_group) {
            rows.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
            in_order.extend(rows.into_iter().map(|(_, row)| (group, row)));
        }
        in_order
    }
}

fn dirty_rows(buffer: &WriteBuffer) -> impl Iterator<Item = u32> + '_ {
    let rows = u32::try_from(buffer.rows()).unwrap_or(u32::MAX);
    (0..rows).filter(|&row| buffer.status(row).is_dirty())
}

/// What is known of each row once the buffer is published; written rows are filled in later.
fn clean_locations(buffer: &WriteBuffer) -> Vec<Location> {
    let rows = u32::try_from(buffer.rows()).unwrap_or(u32::MAX);
    (0..rows)
        .map(|row| match buffer.status(row) {
            Status::CleanPresent | Status::CleanAbsent => buffer.location(row),
            Status::Written => Location::Unknown,
            Status::Deleted => Location::Absent,
        })
        .collect()
}

//! Turns frozen write buffers into data files and deletion vectors.

use crate::committer::{Change, Committer};
use crate::data_file::{DataFileWriter, FileId, Source};
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

/// Writes these buffers as one snapshot. Returns the snapshot and each buffer's new locations.
///
/// Nothing is committed when no buffer has a change: the latest snapshot says it all already.
pub(crate) fn flush(
    committer: &mut Committer,
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
    let mut locations = Vec::with_capacity(frozen.len());
    for frozen in frozen {
        let written = supersede(committer, frozen, &mut change.dead)
            .and_then(|()| write_rows(committer, frozen, &mut change));
        match written {
            Ok(of_buffer) => locations.push(of_buffer),
            Err(error) => {
                committer.discard(&change.added);
                return Err(error);
            }
        }
    }
    if change.added.is_empty() && change.dead.is_empty() {
        return Ok((committer.pin().snapshot, locations));
    }
    Ok((committer.commit(&change)?, locations))
}

/// Marks the rows on disk that a buffer's rows supersede.
fn supersede(
    committer: &Committer,
    Frozen { subtask, buffer }: &Frozen,
    dead: &mut HashMap<FileId, RoaringBitmap>,
) -> Result<()> {
    let live_files: HashSet<FileId> =
        committer.pin().bucket(*subtask).iter().map(|pinned| pinned.file.id).collect();
    let mut unknown = Vec::new();
    for row in dirty_rows(buffer) {
        match buffer.location(row) {
            Location::Absent => {}
            Location::At { file, row } if live_files.contains(&file) => {
                dead.entry(file).or_default().insert(row);
            }
            // Never looked for, or merged into another file since.
            Location::Unknown | Location::At { .. } => unknown.push(row),
        }
    }
    let located = committer.pin().locate(&committer.schema, *subtask, buffer.keys(), &unknown)?;
    for (_, location) in located {
        if let Location::At { file, row } = location {
            dead.entry(file).or_default().insert(row);
        }
    }
    Ok(())
}

fn dirty_rows(buffer: &WriteBuffer) -> impl Iterator<Item = u32> + '_ {
    let rows = u32::try_from(buffer.rows()).unwrap_or(u32::MAX);
    (0..rows).filter(|&row| buffer.status(row).is_dirty())
}

/// Writes the written rows of a buffer as one sorted run.
fn write_rows(
    committer: &mut Committer,
    Frozen { subtask, buffer }: &Frozen,
    change: &mut Change,
) -> Result<NewLocations> {
    let groups = committer.schema.key_groups.clone();
    let keys = buffer.keys();
    let group_of =
        |row: u32| keys.hashes().get(row as usize).map_or(0, |&hash| groups.group_of(hash));
    let mut locations: Vec<Location> = clean_locations(buffer);
    let mut rows: Vec<(u32, u32)> = dirty_rows(buffer)
        .filter(|&row| buffer.status(row) == Status::Written)
        .map(|row| (group_of(row), row))
        .collect();
    if rows.is_empty() {
        return Ok(locations.into());
    }
    rows.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| keys.key(a.1 as usize).cmp(keys.key(b.1 as usize)))
    });
    let level = committer.next_level(*subtask).ok_or_else(|| {
        Error::invalid(format!(
            "table {}: bucket {subtask} has no level left for a sorted run",
            committer.table.name
        ))
    })?;
    let is_list = committer.schema.kind == StateKind::List;
    let first_sequence_number = committer.take_sequence_numbers(rows.len());
    let mut sequence_numbers = first_sequence_number..;
    let mut greatest = first_sequence_number;
    let directory = committer.table.bucket(*subtask);
    let mut writer = DataFileWriter::create(&committer.files, &committer.schema, &directory)?;
    for batch in rows.chunks(BATCH_ROWS) {
        let in_buffer: Vec<u32> = batch.iter().map(|(_, row)| *row).collect();
        let mut columns = committer.schema.encoder.decode(&keys.take(&in_buffer))?;
        // What is appended to a list later must come behind all that is there.
        let positions = columns.last().filter(|_| is_list);
        let numbers = match positions.and_then(|last| last.as_primitive_opt::<Int64Type>()) {
            Some(positions) => positions.values().to_vec(),
            None => sequence_numbers.by_ref().take(batch.len()).collect(),
        };
        greatest = numbers.iter().copied().max().unwrap_or(0).max(greatest);
        let optional: Vec<Option<u32>> = in_buffer.iter().copied().map(Some).collect();
        columns.extend(buffer.gather(&optional)?);
        writer.write(
            batch.iter().map(|(group, _)| i32::try_from(*group).unwrap_or(i32::MAX)).collect(),
            numbers,
            columns,
        )?;
    }
    let file = writer.finish(*subtask, level, Source::Append)?;
    committer.pass_sequence_number(greatest);
    for (in_file, (_, row)) in (0..).zip(&rows) {
        if let Some(location) = locations.get_mut(*row as usize) {
            *location = Location::At { file: file.id, row: in_file };
        }
    }
    change.added.push(file);
    Ok(locations.into())
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

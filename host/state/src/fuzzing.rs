//! Bytes from anywhere, into what reads files: nothing may panic, whatever they are.
//!
//! For the targets in `fuzz/` and for a test that drives them with a mutator of its own.
#![expect(clippy::expect_used, reason = "only built for tests")]

use crate::data_file::{Content, DataFileWriter, ProbeKey, Sidecar, Source};
use crate::file_system::FileSystem;
use crate::schema::TableSchema;
use crate::{Column, ColumnType, KeyGroups, StateKind};
use arrow_array::{ArrayRef, BooleanArray, Decimal128Array, Int64Array, StringArray};
use roaring::RoaringBitmap;
use std::sync::{Arc, OnceLock};

/// Rows of the sound file that edits are made to.
const ROWS: i64 = 300;

/// A sound data file and its schema.
struct Sound {
    schema: TableSchema,
    bytes: Vec<u8>,
    keys: crate::EncodedKeys,
}

/// Reads a data file in every way there is. `edits` says where a sound one differs: three bytes of
/// place, one of content, and so on; when it begins with a zero, the rest of it is the file.
pub fn data_file(edits: &[u8]) {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    let sound = SOUND.get_or_init(sound);
    let bytes = match edits.split_first() {
        Some((0, file)) => file.to_vec(),
        _ => edited(&sound.bytes, edits),
    };
    let Ok(content) = Content::in_memory(bytes, ROWS, &sound.schema) else { return };
    let hashes = sound.keys.hashes();
    let keys: Vec<ProbeKey<'_>> = (0_u32..)
        .zip(hashes)
        .map(|(row, &hash)| {
            let group = sound.schema.key_groups.group_of(hash);
            ProbeKey::new(group, sound.keys.key(row as usize), hash, row)
        })
        .collect();
    let _ = content.find(&sound.schema.encoder, &keys);
    let rows: Vec<u32> = (0..content.rows()).step_by(3).collect();
    let _ = content.values(&rows, None);
    let _ = content.keys(&sound.schema.encoder, &rows);
    let _ = content.range(&sound.schema.encoder, 1, &[128], Some(&[129]));
    if let Ok(batches) = content.scan(&RoaringBitmap::from_iter([3, 7, 8])) {
        batches.take_while(Result::is_ok).for_each(drop);
    }
}

/// Looks for keys in a filter file.
pub fn filter(content: &[u8]) {
    Sidecar::fuzz(content);
}

/// Decodes a deletion vector.
pub fn deletion_vector(content: &[u8]) {
    crate::deletion_vector::fuzz(content);
}

/// Decodes the document of a checkpoint.
pub fn checkpoint_document(content: &[u8]) {
    crate::checkpoint::fuzz_document(content);
}

fn edited(sound: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for edit in edits.chunks_exact(4) {
        let place = edit.iter().take(3).fold(0, |place, &byte| place << 8 | usize::from(byte));
        let place = place % bytes.len();
        if let Some((byte, content)) = bytes.get_mut(place).zip(edit.last()) {
            *byte = *content;
        }
    }
    bytes
}

/// Writes the file that edits are made to.
fn sound() -> Sound {
    try_sound().expect("a small file can be written to the directory for temporary files")
}

fn try_sound() -> crate::Result<Sound> {
    let key =
        [Column::required("id", ColumnType::Int64), Column::required("tag", ColumnType::Utf8)];
    let decimal = ColumnType::Decimal128 { precision: 20, scale: 2 };
    let value = [
        Column::nullable("text", ColumnType::Utf8),
        Column::nullable("number", ColumnType::Int64),
        Column::required("decimal", decimal),
        Column::nullable("flag", ColumnType::Boolean),
    ];
    let groups = KeyGroups::new(2, 1)?;
    let schema = TableSchema::new(&StateKind::Value, &key, &value, groups, 0)?;
    let columns = |rows: &[i64]| -> Vec<ArrayRef> {
        let rows = || rows.iter().copied();
        vec![
            Arc::new(Int64Array::from_iter_values(rows().map(|row| row / 3))),
            Arc::new(StringArray::from_iter_values(rows().map(|row| format!("{row:05}")))),
            Arc::new(StringArray::from_iter(
                rows().map(|row| (row % 3 > 0).then(|| "x".repeat(9))),
            )),
            Arc::new(Int64Array::from_iter(rows().map(|row| (row % 40 > 9).then_some(row)))),
            Arc::new(
                Decimal128Array::from_iter_values(rows().map(i128::from))
                    .with_data_type(decimal.to_arrow()),
            ),
            Arc::new(BooleanArray::from_iter(
                rows().map(|row| (row % 7 > 0).then_some(row % 2 == 0)),
            )),
        ]
    };
    let all: Vec<i64> = (0..ROWS).collect();
    let unsorted = columns(&all);
    let keys = schema.encoder.encode(unsorted.get(..2).unwrap_or_default())?;
    let group = |row: i64| {
        let row = usize::try_from(row).unwrap_or(0);
        keys.hashes().get(row).map_or(0, |&hash| schema.key_groups.group_of(hash))
    };
    let mut order = all;
    order.sort_by_key(|&row| (group(row), row));
    let directory = std::env::temp_dir().join(format!("howdah-{}", crate::seam::unique_name()));
    let files = FileSystem::new(false, None)?;
    let mut writer = DataFileWriter::create(&files, &schema, &directory)?;
    let groups = order.iter().map(|&row| i32::try_from(group(row)).unwrap_or(0)).collect();
    let sorted = columns(&order);
    let keys = schema.encoder.encode(sorted.get(..2).unwrap_or_default())?;
    writer.write(keys.hashes(), groups, order.clone(), sorted)?;
    let file = writer.finish(0, 1, Source::Append)?;
    let bytes = files.read(&directory.join(&file.meta.file_name))?;
    files.remove_directory(&directory)?;
    Ok(Sound { schema, bytes, keys })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Calls a target with inputs of its own making: some rounds, or a minute in a full run.
    fn drive(target: fn(&[u8]), seed: u64, rounds: usize) {
        let mut state = seed;
        let mut random = move || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        let full = std::env::var_os("HOWDAH_TEST_FULL").is_some();
        let start = crate::seam::now();
        let mut done = 0_usize;
        let mut input: Vec<u8> = Vec::new();
        while done < rounds || full && start.elapsed() < Duration::from_secs(60) {
            // Go on from the last input, or begin anew.
            if random() % 4 == 0 {
                input.clear();
            }
            for _ in 0..1 + random() % 12 {
                let bytes = random().to_le_bytes();
                match random() % 4 {
                    0 => input.extend(&bytes[..usize::from(bytes[7] % 8)]),
                    1 => input.truncate(usize::from(bytes[0])),
                    2 => input.extend([1, 0, 0, 0, bytes[1] % 4, bytes[2]]),
                    _ if !input.is_empty() => {
                        let at = usize::from(bytes[0]) % input.len();
                        input[at] ^= 1 << (bytes[1] % 8);
                    }
                    _ => input.push(bytes[3]),
                }
            }
            target(&input);
            done += 1;
        }
        println!("{done} inputs from seed {seed}");
    }

    #[test]
    fn damaged_data_file_never_panics() {
        drive(data_file, 1, 500);
    }

    #[test]
    fn damaged_filter_never_panics() {
        drive(filter, 2, 20_000);
    }

    #[test]
    fn damaged_deletion_vector_never_panics() {
        drive(deletion_vector, 3, 20_000);
    }

    #[test]
    fn damaged_checkpoint_document_never_panics() {
        drive(checkpoint_document, 4, 5_000);
    }

    #[test]
    fn file_that_edits_are_made_to_is_sound() {
        let sound = sound();
        let content = Content::in_memory(sound.bytes, ROWS, &sound.schema).unwrap();
        assert_eq!(i64::from(content.rows()), ROWS);
    }
}

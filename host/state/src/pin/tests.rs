//! Probes and ranges over files that are written here.

use super::*;
use crate::data_file::{DataFileWriter, Source};
use crate::file_system::FileSystem;
use crate::{Column, ColumnType, KeyGroups, StateKind};
use arrow_array::{ArrayRef, Int64Array, StringArray};
use std::collections::BTreeMap;
use std::path::Path;

/// (person, tag) to number.
type Rows = BTreeMap<(i64, String), i64>;

fn schema() -> TableSchema {
    let key =
        [Column::required("person", ColumnType::Int64), Column::required("tag", ColumnType::Utf8)];
    let value = [Column::required("number", ColumnType::Int64)];
    TableSchema::new(&StateKind::Value, &key, &value, KeyGroups::new(4, 1).unwrap(), 0).unwrap()
}

fn encode<'a>(
    schema: &TableSchema,
    keys: impl Iterator<Item = &'a (i64, String)> + Clone,
) -> EncodedKeys {
    let people: ArrayRef = Arc::new(Int64Array::from_iter_values(keys.clone().map(|key| key.0)));
    let tags: ArrayRef = Arc::new(StringArray::from_iter_values(keys.map(|key| &key.1)));
    schema.encoder.encode(&[people, tags]).unwrap()
}

/// One file of these rows.
fn write(directory: &Path, schema: &TableSchema, rows: &Rows, level: i32) -> Arc<DataFile> {
    let files = FileSystem::new(false, None).unwrap();
    let keys = encode(schema, rows.keys());
    let mut order: Vec<usize> = (0..keys.len()).collect();
    let group = |row: usize| schema.key_groups.group_of(keys.hashes()[row]);
    order.sort_by_key(|&row| (group(row), keys.key(row).to_vec()));
    let sorted: Vec<_> = rows.iter().collect();
    let people = order.iter().map(|&row| sorted[row].0.0);
    let tags = order.iter().map(|&row| &sorted[row].0.1);
    let numbers = order.iter().map(|&row| *sorted[row].1);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(people)),
        Arc::new(StringArray::from_iter_values(tags)),
        Arc::new(Int64Array::from_iter_values(numbers)),
    ];
    let mut writer = DataFileWriter::create(&files, schema, directory).unwrap();
    let groups = order.iter().map(|&row| i32::try_from(group(row)).unwrap()).collect();
    let hashes: Vec<u64> = order.iter().map(|&row| keys.hashes()[row]).collect();
    writer.write(&hashes, groups, vec![0; order.len()], columns).unwrap();
    writer.finish(0, level, Source::Append).unwrap()
}

/// Two files: the newer one has even people again, and their rows in the older one are dead.
fn two_files(directory: &Path, schema: &TableSchema) -> (Pin, Rows) {
    let rows = |people: &mut dyn Iterator<Item = i64>, number: i64| -> Rows {
        let tags =
            |person: i64| (0..40 + person).map(move |tag| ((person, format!("{tag:03}")), number));
        people.flat_map(tags).collect()
    };
    let old = rows(&mut (0..40), 1);
    let new = rows(&mut (0..40).step_by(2), 2);
    let older = write(directory, schema, &old, 62);
    let newer = write(directory, schema, &new, 61);
    let keys = encode(schema, new.keys());
    let wanted: Vec<u32> = (0_u32..).zip(new.keys()).map(|(index, _)| index).collect();
    let pin = |dead, newer: Option<PinnedFile>| Pin {
        snapshot: 1,
        buckets: vec![
            newer
                .into_iter()
                .chain([PinnedFile { file: older.clone(), dead: Arc::new(dead) }])
                .collect(),
        ],
    };
    let located = pin(RoaringBitmap::new(), None).locate(schema, 0, &keys, &wanted).unwrap();
    let dead = located.iter().map(|(_, location)| match location {
        Location::At { row, .. } => *row,
        other => panic!("{other:?}"),
    });
    let pin = pin(dead.collect(), Some(PinnedFile { file: newer, dead: Arc::default() }));
    let mut live = old;
    live.extend(new);
    (pin, live)
}

/// All rows of the ranges, by encoded key.
fn read(
    pin: &Pin,
    schema: &TableSchema,
    ranges: Vec<FileRange>,
    limit_rows: usize,
) -> Vec<(Vec<u8>, i64)> {
    use arrow_array::cast::AsArray;
    let mut found = Vec::new();
    for mut range in ranges {
        let mut of_file = Vec::new();
        while let Some(rows) = range.next(schema, limit_rows).unwrap() {
            assert!(rows.rows.len() <= limit_rows);
            assert_eq!(rows.keys.len(), rows.rows.len());
            assert!(pin.files().any(|pinned| pinned.file.id == rows.file));
            let all: Vec<_> = (0..rows.keys.len()).map(|row| u32::try_from(row).ok()).collect();
            let numbers = rows.values[0].gather(&all).unwrap();
            let numbers = numbers.as_primitive::<arrow_array::types::Int64Type>();
            for (row, number) in numbers.values().iter().enumerate() {
                of_file.push((rows.keys.key(row).to_vec(), *number));
            }
        }
        assert!(of_file.is_sorted(), "a file's rows come in key order");
        found.extend(of_file);
    }
    found.sort();
    found
}

#[test]
fn range_has_the_live_rows_between_its_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let schema = schema();
    let (pin, live) = two_files(directory.path(), &schema);
    let keys = encode(&schema, live.keys());
    let bound = |person: i64, tag: &str| {
        let whole = encode(&schema, std::iter::once(&(person, tag.to_owned())));
        whole.key(0)[..8 + tag.len()].to_vec()
    };
    let bounds = [
        (Vec::new(), None),
        (bound(7, ""), Some(bound(8, ""))),
        (bound(8, "01"), Some(bound(8, "02"))),
        (bound(8, "01"), None),
        (bound(9, "005"), Some(bound(9, "005"))),
        (bound(39, "9"), None),
        (bound(9, ""), Some(bound(3, ""))),
    ];
    for (from, to) in bounds {
        for group in 0..4 {
            let mut wanted: Vec<(Vec<u8>, i64)> = live
                .values()
                .enumerate()
                .filter(|(row, _)| schema.key_groups.group_of(keys.hashes()[*row]) == group)
                .map(|(row, number)| (keys.key(row).to_vec(), *number))
                .filter(|(key, _)| *key >= from && to.as_ref().is_none_or(|to| key < to))
                .collect();
            wanted.sort();
            for limit_rows in [1, 7, 10_000] {
                let ranges = pin.range(&schema, 0, group, &from, to.as_deref()).unwrap();
                assert_eq!(read(&pin, &schema, ranges, limit_rows), wanted);
            }
        }
    }
}

#[test]
fn range_of_an_unknown_group_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let schema = schema();
    let (pin, _) = two_files(directory.path(), &schema);
    assert!(pin.range(&schema, 0, 4, &[], None).unwrap().is_empty());
    assert!(pin.range(&schema, 1, 0, &[], None).unwrap().is_empty());
}

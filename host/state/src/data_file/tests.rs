//! Files of every shape, read in place and decoded, against the rows that were written.

use super::*;
use crate::file_system::FileSystem;
use crate::schema::TableSchema;
use crate::value_column::ValueColumn;
use crate::{Column, ColumnType, EncodedKeys, KeyGroups, Result, StateKind};
use arrow_array::*;
use roaring::RoaringBitmap;
use std::path::Path;

mod foreign;

const GROUPS: u32 = 5;

fn all_types() -> Vec<ColumnType> {
    vec![
        ColumnType::Boolean,
        ColumnType::Int32,
        ColumnType::Int64,
        ColumnType::Float32,
        ColumnType::Float64,
        ColumnType::Decimal128 { precision: 9, scale: 2 },
        ColumnType::Decimal128 { precision: 18, scale: 2 },
        ColumnType::Decimal128 { precision: 38, scale: 10 },
        ColumnType::Date,
        ColumnType::TimestampMillis,
        ColumnType::Utf8,
        ColumnType::Binary,
    ]
}

/// A column of these numbers, in the order of the numbers but for booleans.
fn array(column_type: ColumnType, numbers: &[Option<i64>]) -> ArrayRef {
    let numbers = numbers.iter().copied();
    // A zero byte, and values of many lengths.
    let text = |number: i64| {
        let filler = "x".repeat(usize::try_from(number.rem_euclid(40)).unwrap());
        format!("{:012}\0{filler}", number + 500_000_000)
    };
    let int = |number: i64| i32::try_from(number).unwrap();
    match column_type {
        ColumnType::Boolean => {
            Arc::new(numbers.map(|n| n.map(|n| n % 3 == 0)).collect::<BooleanArray>())
        }
        ColumnType::Int32 => Arc::new(numbers.map(|n| n.map(int)).collect::<Int32Array>()),
        ColumnType::Int64 => Arc::new(numbers.collect::<Int64Array>()),
        ColumnType::Float32 => Arc::new(
            numbers
                .map(|n| n.map(|n| f32::from(i16::try_from(n).unwrap())))
                .collect::<Float32Array>(),
        ),
        ColumnType::Float64 => {
            Arc::new(numbers.map(|n| n.map(|n| f64::from(int(n)))).collect::<Float64Array>())
        }
        ColumnType::Decimal128 { .. } => Arc::new(
            numbers
                .map(|n| n.map(i128::from))
                .collect::<Decimal128Array>()
                .with_data_type(column_type.to_arrow()),
        ),
        ColumnType::Date => Arc::new(numbers.map(|n| n.map(int)).collect::<Date32Array>()),
        ColumnType::TimestampMillis => Arc::new(numbers.collect::<TimestampMillisecondArray>()),
        ColumnType::Utf8 => Arc::new(numbers.map(|n| n.map(text)).collect::<StringArray>()),
        ColumnType::Binary => Arc::new(
            numbers
                .map(|n| n.map(|n| if n == 0 { Vec::new() } else { text(n).into_bytes() }))
                .collect::<BinaryArray>(),
        ),
    }
}

/// A file and what was written to it, in its order.
pub(super) struct Written {
    pub(super) schema: TableSchema,
    pub(super) file: Arc<DataFile>,
    pub(super) keys: EncodedKeys,
    pub(super) values: Vec<ArrayRef>,
}

/// Writes `rows` rows: distinct keys, values of every number of the row.
pub(super) fn write(
    directory: &Path,
    files: &FileSystem,
    key: &[Column],
    value: &[Column],
    rows: i64,
) -> Written {
    let groups = KeyGroups::new(GROUPS, 1).unwrap();
    let schema = TableSchema::new(&StateKind::Value, key, value, groups, 0).unwrap();
    // The last column tells all keys apart; those before have the same value for some rows.
    let columns = |order: &[i64]| -> Vec<ArrayRef> {
        let last = key.len() - 1;
        let numbers = |column: usize| {
            let divisor = if column == last { 1 } else { 700 };
            order.iter().map(move |row| Some((row * 7 - 10_000).div_euclid(divisor)))
        };
        let column = |at: usize| array(key[at].column_type, &numbers(at).collect::<Vec<_>>());
        (0..key.len()).map(column).collect()
    };
    let all: Vec<i64> = (0..rows).collect();
    let keys = schema.encoder.encode(&columns(&all)).unwrap();
    let group = |row: i64| {
        let hash = keys.hashes()[usize::try_from(row).unwrap()];
        schema.key_groups.group_of(hash)
    };
    let mut order = all;
    order.sort_by_key(|&row| (group(row), keys.key(usize::try_from(row).unwrap()).to_vec()));
    let values: Vec<ArrayRef> = value
        .iter()
        .zip(0..)
        .map(|(column, at)| {
            let missing = |row: i64| column.nullable && (row + at) % 5 < 2 && row % 900 < 700;
            let numbers: Vec<_> =
                order.iter().map(|&row| (!missing(row)).then_some(row % 30_000)).collect();
            array(column.column_type, &numbers)
        })
        .collect();
    let key_columns = columns(&order);
    let mut writer = DataFileWriter::create(files, &schema, directory).unwrap();
    let step = 1000;
    for start in (0..order.len()).step_by(step) {
        let these = step.min(order.len() - start);
        let of = &order[start..start + these];
        let columns = key_columns.iter().chain(&values).map(|array| array.slice(start, these));
        let columns: Vec<ArrayRef> = columns.collect();
        let encoded = schema.encoder.encode(&columns[..key_columns.len()]).unwrap();
        writer
            .write(
                encoded.hashes(),
                of.iter().map(|&row| i32::try_from(group(row)).unwrap()).collect(),
                of.to_vec(),
                columns,
            )
            .unwrap();
    }
    let file = writer.finish(0, 1, Source::Append).unwrap();
    let keys = schema.encoder.encode(&key_columns).unwrap();
    Written { schema, file, keys, values }
}

pub(super) fn gather(columns: &[ValueColumn]) -> Vec<ArrayRef> {
    columns
        .iter()
        .map(|column| {
            let rows = u32::try_from(column.rows()).unwrap();
            column.gather(&(0..rows).map(Some).collect::<Vec<_>>()).unwrap()
        })
        .collect()
}

impl Written {
    pub(super) fn probe_keys(&self, rows: impl Iterator<Item = u32>) -> Vec<ProbeKey<'_>> {
        rows.map(|row| {
            let hash = self.keys.hashes()[row as usize];
            let group = self.schema.key_groups.group_of(hash);
            ProbeKey::new(group, self.keys.key(row as usize), hash, row)
        })
        .collect()
    }

    /// Finds every third key and its values, all rows at once and each alone.
    pub(super) fn check(&self, content: &Content) {
        let rows: Vec<u32> = (0..content.rows()).filter(|row| row % 3 == 1).collect();
        let keys = self.probe_keys(rows.iter().copied());
        let wanted: Vec<(u32, u32)> = rows.iter().map(|&row| (row, row)).collect();
        assert_eq!(content.find(&self.schema.encoder, &keys).unwrap(), wanted);
        assert!(keys.iter().all(|key| content.may_have(key)));
        let indices = UInt32Array::from(rows.clone());
        let taken: Vec<ArrayRef> = self
            .values
            .iter()
            .map(|array| arrow_select::take::take(array, &indices, None).unwrap())
            .collect();
        assert_eq!(gather(&content.values(&rows, None).unwrap()), taken);
        for row in rows.iter().step_by(41) {
            let keys = self.probe_keys(std::iter::once(*row));
            assert_eq!(content.find(&self.schema.encoder, &keys).unwrap(), [(*row, *row)]);
            let value = gather(&content.values(&[*row], None).unwrap());
            let wanted: Vec<ArrayRef> =
                self.values.iter().map(|array| array.slice(*row as usize, 1)).collect();
            assert_eq!(value, wanted);
        }
        self.check_missing(content);
    }

    /// Keys that are cut short or made longer are not there.
    fn check_missing(&self, content: &Content) {
        let bounds: Vec<(u32, Vec<u8>)> = (0..content.rows())
            .step_by(17)
            .map(|row| {
                let group = self.schema.key_groups.group_of(self.keys.hashes()[row as usize]);
                let mut key = self.keys.key(row as usize).to_vec();
                match key.last_mut() {
                    // Past the end of text; the last bits of a number.
                    Some(last @ 0) => *last = 1,
                    Some(last) => *last ^= 2,
                    None => {}
                }
                (group, key)
            })
            .collect();
        let known: std::collections::HashSet<&[u8]> =
            (0..self.keys.len()).map(|row| self.keys.key(row)).collect();
        let mut keys: Vec<ProbeKey<'_>> = (0..)
            .zip(&bounds)
            .filter(|(_, (_, key))| !known.contains(key.as_slice()))
            .map(|(index, (group, key))| ProbeKey::new(*group, key, 0, index))
            .collect();
        keys.sort_by_key(|key| (key.group, key.key));
        assert_eq!(content.find(&self.schema.encoder, &keys).unwrap(), []);
    }

    /// The same file, opened in another way.
    pub(super) fn reopen(&self, directory: &Path, files: &FileSystem) -> Result<Content> {
        let damaged = DamagedSidecar::Refuse;
        Content::open(files, directory, &self.file.meta, &self.schema, damaged)
    }
}

fn value_columns(nullable: bool) -> Vec<Column> {
    (0..)
        .zip(all_types())
        .map(|(at, column_type)| Column { name: format!("v{at}"), column_type, nullable })
        .collect()
}

fn both_modes(check: impl Fn(&Path, &FileSystem)) {
    for mode in [ReadMode::Mmap, ReadMode::Pread] {
        let directory = tempfile::tempdir().unwrap();
        check(directory.path(), &FileSystem::new(false, None).unwrap().with_read_mode(mode));
    }
}

#[test]
fn every_value_type_is_read_in_place() {
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        for nullable in [false, true] {
            let written = write(directory, files, &key, &value_columns(nullable), 5_000);
            assert!(written.file.content.is_in_place());
            written.check(&written.file.content);
        }
    });
}

#[test]
fn every_key_type_is_searched_in_place() {
    both_modes(|directory, files| {
        let value = [Column::required("v", ColumnType::Int32)];
        for column_type in all_types() {
            if !column_type.is_key_type() || column_type == ColumnType::Boolean {
                continue;
            }
            let key = [Column::required("id", column_type)];
            let written = write(directory, files, &key, &value, 3_000);
            assert!(written.file.content.is_in_place());
            written.check(&written.file.content);
        }
    });
}

#[test]
fn composite_keys_of_every_type_are_searched_in_place() {
    both_modes(|directory, files| {
        let value = [Column::required("v", ColumnType::Int32)];
        for first in all_types().into_iter().filter(|first| first.is_key_type()) {
            for last in [ColumnType::Int64, ColumnType::Utf8] {
                let key = [
                    Column::required("first", first),
                    Column::required("second", ColumnType::Binary),
                    Column::required("last", last),
                ];
                let written = write(directory, files, &key, &value, 3_000);
                assert!(written.file.content.is_in_place());
                written.check(&written.file.content);
            }
        }
    });
}

#[test]
fn only_the_columns_that_are_asked_for_are_read() {
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        let written = write(directory, files, &key, &value_columns(true), 2_000);
        let some = gather(&written.file.content.values(&[5, 7], Some(&[10, 2])).unwrap());
        let wanted = [10, 2].map(|column: usize| {
            let rows = UInt32Array::from(vec![5, 7]);
            arrow_select::take::take(&written.values[column], &rows, None).unwrap()
        });
        assert_eq!(some, wanted);
    });
}

#[test]
fn page_directories_stay_small() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSystem::new(false, None).unwrap();
    let key = [Column::required("id", ColumnType::Int64)];
    let value = [Column::required("v", ColumnType::Utf8)];
    let written = write(directory.path(), &files, &key, &value, 100_000);
    let bytes = written.file.content.memory_bytes();
    assert!(bytes < 100_000, "{bytes} bytes of directories for 100,000 rows");
}

#[test]
fn filter_refuses_nearly_all_other_keys() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSystem::new(false, None).unwrap();
    let key = [Column::required("id", ColumnType::Int64)];
    let written = write(directory.path(), &files, &key, &[], 20_000);
    let strangers = (0..20_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let passed = strangers
        .filter(|&hash| {
            let group = written.schema.key_groups.group_of(hash);
            written.file.content.may_have(&ProbeKey::new(group, b"key", hash, 0))
        })
        .count();
    assert!(passed < 200, "{passed} of 20,000 strangers pass");
}

#[test]
fn damage_of_any_byte_does_not_pass_verification() {
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        let value = [Column::nullable("v", ColumnType::Utf8)];
        let written = write(directory, files, &key, &value, 100);
        written.file.content.verify().unwrap();
        let path = directory.join(&written.file.meta.file_name);
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            // Under a fresh inode: the file is still mapped.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
            let error = written.reopen(directory, files).and_then(|opened| opened.verify());
            let error = error.unwrap_err();
            assert!(error.to_string().contains(&written.file.meta.file_name), "{error}");
        }
    });
}

#[test]
fn damage_of_any_byte_of_a_filter_is_refused_or_passed_over() {
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        let written = write(directory, files, &key, &[], 100);
        let name = &written.file.meta.extra_files[0];
        let path = directory.join(name);
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, bytes).unwrap();
            let error = written.reopen(directory, files).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            let passed_over = DamagedSidecar::PassOver;
            let meta = &written.file.meta;
            let content =
                Content::open(files, directory, meta, &written.schema, passed_over).unwrap();
            written.check(&content);
        }
    });
}

#[test]
fn file_without_its_filter_answers_all_the_same() {
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        let written = write(directory, files, &key, &[], 100);
        std::fs::remove_file(directory.join(&written.file.meta.extra_files[0])).unwrap();
        let content = written.reopen(directory, files).unwrap();
        written.check(&content);
        content.verify().unwrap();
    });
}

#[test]
fn filter_of_the_format_before_is_not_asked() {
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        let written = write(directory, files, &key, &[], 100);
        let path = directory.join(&written.file.meta.extra_files[0]);
        let mut bytes = std::fs::read(&path).unwrap();
        // Filters of that format are of another kind: here, one that has no key.
        bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
        let end = bytes.len() - 4;
        bytes[64..end].fill(0);
        let checksum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let content = written.reopen(directory, files).unwrap();
        written.check(&content);
        content.verify().unwrap();
        let absent = ProbeKey::new(0, &[7], 7, 0);
        assert!(content.may_have(&absent));
    });
}

#[test]
fn filter_of_a_newer_version_is_refused_with_a_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSystem::new(false, None).unwrap();
    let key = [Column::required("id", ColumnType::Int64)];
    let written = write(directory.path(), &files, &key, &[], 10);
    let path = directory.path().join(&written.file.meta.extra_files[0]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 3;
    std::fs::write(&path, bytes).unwrap();
    let error = written.reopen(directory.path(), &files).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Incompatible);
    assert!(error.to_string().contains("is of version 3"), "{error}");
}

#[test]
fn scan_reads_what_was_written() {
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        let written = write(directory, files, &key, &value_columns(true), 2_000);
        let mut at = 0;
        for rows in written.file.content.scan(&RoaringBitmap::new()).unwrap() {
            let rows = rows.unwrap();
            for (array, wanted) in rows.value.iter().zip(&written.values) {
                assert_eq!(array, &wanted.slice(at, rows.rows.len()));
            }
            at += rows.rows.len();
        }
        assert_eq!(at, 2_000);
    });
}

#[test]
fn large_rows_are_decoded_a_few_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSystem::new(false, None).unwrap();
    let column = |name: &str, column_type| Column::required(name, column_type);
    let (key, value) = ([column("id", ColumnType::Int64)], [column("blob", ColumnType::Binary)]);
    let groups = KeyGroups::new(1, 1).unwrap();
    let schema = TableSchema::new(&StateKind::Value, &key, &value, groups, 0).unwrap();
    let mut writer = DataFileWriter::create(&files, &schema, directory.path()).unwrap();
    let blob = vec![7; 1 << 20];
    for id in 0..24 {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![id])),
            Arc::new(BinaryArray::from_iter_values([&blob])),
        ];
        writer.write(&[0], vec![0], vec![id], columns).unwrap();
    }
    let file = writer.finish(0, 1, Source::Append).unwrap();
    let batches: Vec<usize> = file
        .content
        .scan(&RoaringBitmap::new())
        .unwrap()
        .map(|rows| rows.unwrap().rows.len())
        .collect();
    assert_eq!(batches.iter().sum::<usize>(), 24);
    assert!(batches.iter().all(|&rows| rows <= 8), "{batches:?}");
}

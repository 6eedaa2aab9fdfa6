//! Every column type, as key and as value, through memory and disk.

use crate::effort::scratch;
use arrow_array::*;
use howdah_state::*;
use std::sync::Arc;

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

/// Three values of a type, the middle one null if it may be.
fn values(column_type: ColumnType, nullable: bool) -> ArrayRef {
    let hole = |middle: i64| if nullable { None } else { Some(middle) };
    let numbers = [Some(-5), hole(0), Some(7)];
    let texts = [Some("b\0\u{e9}"), if nullable { None } else { Some("") }, Some("a")];
    match column_type {
        ColumnType::Boolean => {
            Arc::new(numbers.iter().map(|n| n.map(|n| n > 0)).collect::<BooleanArray>())
        }
        ColumnType::Int32 => {
            Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<Int32Array>())
        }
        ColumnType::Int64 => Arc::new(numbers.iter().copied().collect::<Int64Array>()),
        ColumnType::Float32 => {
            Arc::new(numbers.iter().map(|n| n.map(|n| n as f32 / 2.0)).collect::<Float32Array>())
        }
        ColumnType::Float64 => {
            Arc::new(numbers.iter().map(|n| n.map(|n| n as f64 / 2.0)).collect::<Float64Array>())
        }
        ColumnType::Decimal128 { .. } => Arc::new(
            numbers
                .iter()
                .map(|n| n.map(i128::from))
                .collect::<Decimal128Array>()
                .with_data_type(column_type.to_arrow()),
        ),
        ColumnType::Date => {
            Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<Date32Array>())
        }
        ColumnType::TimestampMillis => {
            Arc::new(numbers.iter().copied().collect::<TimestampMillisecondArray>())
        }
        ColumnType::Utf8 => Arc::new(texts.iter().copied().collect::<StringArray>()),
        ColumnType::Binary => {
            Arc::new(texts.iter().map(|t| t.map(str::as_bytes)).collect::<BinaryArray>())
        }
    }
}

struct OneTable {
    store: StateStore,
    state: ValueState,
}

fn open(
    warehouse: &std::path::Path,
    key: &[Column],
    value: &[Column],
    restore: Restore,
) -> OneTable {
    let options =
        StoreOptions { sync: false, read_cache_limit_bytes: 0, ..StoreOptions::default() };
    let store = StateStore::open(warehouse, "default", options).unwrap();
    let descriptor = StateDescriptor {
        pipeline: "p".into(),
        operator: "o".into(),
        state: "s".into(),
        kind: StateKind::Value,
        ttl_ms: None,
        key: key.to_vec(),
        value: value.to_vec(),
        parallelism: 1,
        key_groups: 16,
    };
    let state = store.open_table(&descriptor, restore).unwrap().value_state(0).unwrap();
    OneTable { store, state }
}

/// Writes three rows, reads them back from the buffer, from disk and after a restart.
fn round_trip(key: &[Column], key_columns: Vec<ArrayRef>, value: &[Column], columns: &[ArrayRef]) {
    let directory = scratch();
    let keys = KeyBatch::new(&KeyEncoder::new(key).unwrap(), key_columns).unwrap();
    let mut table = open(directory.path(), key, value, Restore::Fresh);
    table.state.put(&keys, columns).unwrap();
    assert_eq!(table.state.get(&keys).unwrap().columns, columns, "from the write buffer");
    table.state.freeze(1).unwrap();
    let StateEvent::Published { snapshot, .. } = table.store.events().recv().unwrap() else {
        panic!("not published");
    };
    let rows = table.state.get(&keys).unwrap();
    assert_eq!(rows.present.count_set_bits(), keys.len());
    assert_eq!(rows.columns, columns, "from disk");
    drop(table);
    let mut table = open(directory.path(), key, value, Restore::Snapshot(snapshot));
    let rows = table.state.get(&keys).unwrap();
    assert_eq!(rows.present.count_set_bits(), keys.len());
    assert_eq!(rows.columns, columns, "after a restart");
}

#[test]
fn every_type_is_kept_as_a_nullable_value() {
    let value: Vec<Column> = (0..)
        .zip(all_types())
        .map(|(at, column_type)| Column::nullable(format!("v{at}"), column_type))
        .collect();
    let columns: Vec<ArrayRef> =
        all_types().into_iter().map(|column_type| values(column_type, true)).collect();
    let key = [Column::required("id", ColumnType::Int64)];
    round_trip(&key, vec![values(ColumnType::Int64, false)], &value, &columns);
}

#[test]
fn every_type_is_kept_as_a_required_value() {
    let value: Vec<Column> = (0..)
        .zip(all_types())
        .map(|(at, column_type)| Column::required(format!("v{at}"), column_type))
        .collect();
    let columns: Vec<ArrayRef> =
        all_types().into_iter().map(|column_type| values(column_type, false)).collect();
    let key = [Column::required("id", ColumnType::Int64)];
    round_trip(&key, vec![values(ColumnType::Int64, false)], &value, &columns);
}

#[test]
fn every_key_type_finds_its_rows() {
    for column_type in all_types().into_iter().filter(|t| t.is_key_type()) {
        let key =
            [Column::required("id", ColumnType::Int64), Column::required("part", column_type)];
        let keys = vec![values(ColumnType::Int64, false), values(column_type, false)];
        let value = [Column::required("v", ColumnType::Int32)];
        round_trip(&key, keys, &value, &[values(ColumnType::Int32, false)]);
    }
}

#[test]
fn state_without_value_columns_is_a_set() {
    let key = [Column::required("id", ColumnType::Int64)];
    round_trip(&key, vec![values(ColumnType::Int64, false)], &[], &[]);
}

#[test]
fn encoded_keys_sort_like_typed_keys() {
    for column_type in all_types().into_iter().filter(|t| t.is_key_type()) {
        let encoder = KeyEncoder::new(&[Column::required("k", column_type)]).unwrap();
        let array = values(column_type, false);
        let encoded = encoder.encode(std::slice::from_ref(&array)).unwrap();
        let order: Vec<usize> = match column_type {
            // "b..", "", "a"
            ColumnType::Utf8 | ColumnType::Binary => vec![1, 2, 0],
            _ => vec![0, 1, 2],
        };
        for pair in order.windows(2) {
            assert!(encoded.key(pair[0]) <= encoded.key(pair[1]), "{column_type}");
        }
    }
}

/// The hash decides where a key lives on disk: these numbers must never change.
#[test]
fn hashes_of_keys_are_fixed() {
    let encoder = KeyEncoder::new(&[
        Column::required("a", ColumnType::Int64),
        Column::required("b", ColumnType::Utf8),
    ])
    .unwrap();
    let keys = KeyBatch::new(
        &encoder,
        vec![
            Arc::new(Int64Array::from(vec![1, -1])),
            Arc::new(StringArray::from(vec!["x", "a\0b"])),
        ],
    )
    .unwrap();
    assert_eq!(keys.encoded().key(0), [128, 0, 0, 0, 0, 0, 0, 1, b'x', 0, 0]);
    assert_eq!(
        keys.encoded().key(1),
        [127, 255, 255, 255, 255, 255, 255, 255, b'a', 0, 255, b'b', 0, 0]
    );
    assert_eq!(keys.encoded().hashes(), [HASH_OF_FIRST, HASH_OF_SECOND]);
}

const HASH_OF_FIRST: u64 = 16_587_037_569_487_227_307;
const HASH_OF_SECOND: u64 = 6_063_898_866_991_108_133;

#[test]
fn null_key_is_refused_with_column_and_row() {
    let encoder = KeyEncoder::new(&[Column::required("id", ColumnType::Int64)]).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let error = encoder.encode(&[column]).unwrap_err();
    assert_eq!(error.to_string(), "key column `id` has no value in row 1; keys cannot be null");
}

#[test]
fn float_key_is_refused() {
    let error = KeyEncoder::new(&[Column::required("x", ColumnType::Float64)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

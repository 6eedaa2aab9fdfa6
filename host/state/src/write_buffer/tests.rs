use super::*;
use crate::{Column, ColumnType, KeyGroups};
use arrow_array::{Int64Array, StringArray};
use std::sync::Arc;

/// A map from text to text for each number.
fn schema() -> TableSchema {
    let kind = StateKind::Map { map_key: vec![Column::required("name", ColumnType::Utf8)] };
    let key = [Column::required("person", ColumnType::Int64)];
    let value = [Column::nullable("text", ColumnType::Utf8)];
    TableSchema::new(&kind, &key, &value, KeyGroups::new(4, 1).unwrap(), 0).unwrap()
}

#[test]
fn cleared_buffer_is_like_a_new_one() {
    let schema = schema();
    let people: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|n| n.to_string())));
    let keys = schema.encoder.encode(&[people, names]).unwrap();
    let mut buffer = WriteBuffer::new(&schema);
    buffer.begin().unwrap();
    for row in 0..keys.len() {
        buffer.add_absent(keys.key(row), keys.hashes()[row]).unwrap();
        buffer.set_complete(keys.key(row));
    }
    assert!(buffer.memory_bytes() > 0);
    let cleared = buffer.cleared();
    assert_eq!(format!("{cleared:?}"), format!("{:?}", WriteBuffer::new(&schema)));
}

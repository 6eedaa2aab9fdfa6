//! Writes a small state table, with updates and deletes, into a directory:
//! `cargo run -p howdah-state --example write_table -- DIRECTORY`.
//!
//! The fixtures of `tests/state/format.rs` were made with it.

use arrow_array::{ArrayRef, Int64Array, StringArray};
use howdah_state::{
    Column, ColumnType, KeyBatch, KeyEncoder, Restore, StateDescriptor, StateKind, StateStore,
    StoreOptions,
};
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("which directory?")?;
    let key = vec![Column::required("id", ColumnType::Int64)];
    let store = StateStore::open(Path::new(&directory), "default", StoreOptions::default())?;
    let table = store.open_table(
        &StateDescriptor {
            pipeline: "pipeline".into(),
            operator: "operator".into(),
            state: "state".into(),
            kind: StateKind::Value,
            ttl_ms: None,
            key: key.clone(),
            value: vec![
                Column::required("number", ColumnType::Int64),
                Column::nullable("text", ColumnType::Utf8),
            ],
            parallelism: 1,
            key_groups: 64,
        },
        Restore::Fresh,
    )?;
    let mut state = table.value_state(0)?;
    let encoder = KeyEncoder::new(&key)?;
    let keys = |ids: Vec<i64>| KeyBatch::new(&encoder, vec![Arc::new(Int64Array::from(ids))]);

    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
    state.put(&keys(vec![1, 2, 3])?, &[numbers, texts])?;
    state.freeze(1)?;
    store.events().recv()?;

    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![20]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("bb")]));
    state.put(&keys(vec![2])?, &[numbers, texts])?;
    state.delete(&keys(vec![3])?)?;
    state.freeze(2)?;
    store.events().recv()?;
    store.close()?;
    Ok(())
}

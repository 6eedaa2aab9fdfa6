//! Rows that live for a while: gone when read after their time.

use crate::fixture::{eager, keys};
use crate::kinds::{descriptor, map_key, numbers, published, reducers, texts, times};
use arrow_array::Array as _;
use howdah_state::*;
use std::path::Path;

const START_MS: i64 = 1_700_000_000_000;
const TTL_MS: i64 = 1_000;

fn open(warehouse: &Path, kind: StateKind) -> (StateStore, StateTable, ManualClock) {
    let (clock, hand) = Clock::manual(START_MS);
    // Nothing is found in memory: what is read is on disk.
    let options = StoreOptions { clock, read_cache_limit_bytes: 0, ..eager() };
    let store = StateStore::open(warehouse, "default", options).unwrap();
    let descriptor = descriptor(kind, Some(TTL_MS as u64));
    let table = store.open_table(&descriptor, Restore::Fresh).unwrap();
    (store, table, hand)
}

#[test]
fn value_is_there_until_its_time_and_then_gone() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table, clock) = open(directory.path(), StateKind::Value);
    let mut state = table.value_state(0).unwrap();
    state.put(&keys(&[1]), &[numbers(&[Some(1)])]).unwrap();
    clock.set(START_MS + TTL_MS - 1);
    assert!(state.get(&keys(&[1])).unwrap().present.value(0));
    state.freeze(1).unwrap();
    published(&store);
    assert!(state.get(&keys(&[1])).unwrap().present.value(0));
    clock.set(START_MS + TTL_MS);
    assert!(!state.get(&keys(&[1])).unwrap().present.value(0));
}

#[test]
fn writing_a_value_again_starts_its_time_anew() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table, clock) = open(directory.path(), StateKind::Value);
    let mut state = table.value_state(0).unwrap();
    state.put(&keys(&[1]), &[numbers(&[Some(1)])]).unwrap();
    state.freeze(1).unwrap();
    published(&store);
    clock.set(START_MS + TTL_MS - 1);
    state.put(&keys(&[1]), &[numbers(&[Some(1)])]).unwrap();
    clock.set(START_MS + TTL_MS);
    let found = state.get(&keys(&[1])).unwrap();
    assert!(found.present.value(0));
    assert_eq!(found.columns.len(), 1);
}

#[test]
fn value_can_be_written_after_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table, clock) = open(directory.path(), StateKind::Value);
    let mut state = table.value_state(0).unwrap();
    state.put(&keys(&[1]), &[numbers(&[Some(1)])]).unwrap();
    state.freeze(1).unwrap();
    published(&store);
    clock.set(START_MS + TTL_MS);
    assert!(!state.get(&keys(&[1])).unwrap().present.value(0));
    state.put(&keys(&[1]), &[numbers(&[Some(2)])]).unwrap();
    state.freeze(2).unwrap();
    published(&store);
    assert!(state.get(&keys(&[1])).unwrap().present.value(0));
    assert_eq!(table.metrics().rows, 1);
}

#[test]
fn elements_of_a_list_go_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table, clock) = open(directory.path(), StateKind::List);
    let mut state = table.list_state(0).unwrap();
    state.append(&keys(&[1]), &[0], &[numbers(&[Some(1)])]).unwrap();
    state.freeze(1).unwrap();
    published(&store);
    clock.set(START_MS + 1);
    state.append(&keys(&[1]), &[0], &[numbers(&[Some(2)])]).unwrap();
    clock.set(START_MS + TTL_MS);
    assert_eq!(state.get(&keys(&[1]), 10).unwrap().key_of.len(), 1);
}

#[test]
fn entries_of_a_map_go_one_by_one() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table, clock) = open(directory.path(), StateKind::Map { map_key: map_key() });
    let mut state = table.map_state(0).unwrap();
    let item = |name: &str| [texts(&[name.to_owned()])];
    state.put(&keys(&[1]), &[0], &item("a"), &[numbers(&[Some(1)])]).unwrap();
    state.freeze(1).unwrap();
    published(&store);
    clock.set(START_MS + 1);
    state.put(&keys(&[1]), &[0], &item("b"), &[numbers(&[Some(1)])]).unwrap();
    clock.set(START_MS + TTL_MS);
    let entries = state.entries(&keys(&[1]), 10).unwrap();
    assert_eq!(entries.map_key[0].to_data(), item("b")[0].to_data());
    assert!(!state.get(&keys(&[1]), &[0], &item("a")).unwrap().present.value(0));
}

#[test]
fn folding_begins_anew_after_the_time_of_a_row() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table, clock) = open(directory.path(), reducers());
    let mut state = table.reducing_state(0).unwrap();
    state.add(&keys(&[1]), &vec![numbers(&[Some(5)]); 6]).unwrap();
    state.freeze(1).unwrap();
    published(&store);
    clock.set(START_MS + TTL_MS);
    state.add(&keys(&[1]), &vec![numbers(&[Some(7)]); 6]).unwrap();
    let found = state.get(&keys(&[1])).unwrap();
    assert_eq!(found.columns[0].to_data(), numbers(&[Some(7)]).to_data());
}

#[test]
fn timer_whose_time_to_live_is_over_is_never_due() {
    let directory = tempfile::tempdir().unwrap();
    let (store, table, clock) = open(directory.path(), StateKind::Timers);
    let mut state = table.timers(0).unwrap();
    state.set(&keys(&[1, 2]), &times(&[10, 20])).unwrap();
    state.freeze(1).unwrap();
    published(&store);
    assert_eq!(state.take_due(10, 10).unwrap().times.len(), 1);
    clock.set(START_MS + TTL_MS);
    assert_eq!(state.next_ms().unwrap(), None);
    assert_eq!(state.take_due(20, 10).unwrap().times.len(), 0);
}

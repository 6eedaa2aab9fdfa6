//! Rows that live for a while: gone when read after their time.

use crate::effort::{count_case, scratch};
use crate::fixture::{Fixture, Model};
use crate::fixture::{eager, keys};
use crate::kinds::{descriptor, map_key, numbers, published, reducers, texts, times};
use crate::kinds::{no_cache, tiny_buffers};
use arrow_array::Array as _;
use howdah_state::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
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
    let directory = scratch();
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
    let directory = scratch();
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
    let directory = scratch();
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
    let directory = scratch();
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
    let directory = scratch();
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
    let directory = scratch();
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
    let directory = scratch();
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

#[derive(Debug, Clone)]
enum Event {
    Put(Vec<i64>),
    Get(Vec<i64>),
    Delete(Vec<i64>),
    /// Time goes by, in milliseconds.
    Wait(i64),
    Checkpoint,
    /// Dies and comes back at the last checkpoint with that many subtasks.
    Restart(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let ids = || proptest::collection::vec(0..40_i64, 1..20);
    prop_oneof![
        4 => ids().prop_map(Event::Put),
        3 => ids().prop_map(Event::Get),
        1 => ids().prop_map(Event::Delete),
        3 => (1..TTL_MS / 2).prop_map(Event::Wait),
        3 => Just(Event::Checkpoint),
        1 => (1..4_u32).prop_map(Event::Restart),
    ]
}

/// A store whose rows end, and what it should hold: for each key its number and end.
fn run(events: &[Event], options: &StoreOptions) {
    count_case();
    let directory = scratch();
    let (clock, hand) = Clock::manual(START_MS);
    let options = StoreOptions { clock, ..options.clone() };
    let open = |parallelism, restore| {
        let descriptor = StateDescriptor {
            ttl_ms: Some(TTL_MS as u64),
            ..crate::fixture::descriptor(parallelism)
        };
        Fixture::with_descriptor(directory.path(), &descriptor, options.clone(), restore).unwrap()
    };
    let (mut fixture, mut parallelism) = (open(1, Restore::Fresh), 1);
    let (mut now_ms, mut number) = (START_MS, 0);
    let mut model: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let mut last = (fixture.checkpoint(1), model.clone());
    let mut checkpoint = 1;
    for event in events.iter().chain([&Event::Get((0..40).collect())]) {
        match event {
            Event::Put(ids) => {
                number += 1;
                let rows: Model =
                    ids.iter().map(|&id| (id, (number, Some("x".to_owned())))).collect();
                fixture.put(&rows).unwrap();
                model.extend(ids.iter().map(|&id| (id, (number, now_ms + TTL_MS))));
            }
            Event::Get(ids) => {
                let wanted: Model = ids
                    .iter()
                    .filter_map(|id| Some((*id, model.get(id)?)))
                    .filter(|(_, (_, ends_ms))| *ends_ms > now_ms)
                    .map(|(id, (number, _))| (id, (*number, Some("x".to_owned()))))
                    .collect();
                assert_eq!(fixture.get(ids).unwrap(), wanted);
            }
            Event::Delete(ids) => {
                fixture.delete(ids).unwrap();
                model.retain(|id, _| !ids.contains(id));
            }
            Event::Wait(wait_ms) => {
                now_ms += wait_ms;
                hand.set(now_ms);
            }
            Event::Checkpoint => {
                checkpoint += 1;
                last = (fixture.checkpoint(checkpoint), model.clone());
                fixture.table.retain(&[(checkpoint, last.0)]).unwrap();
            }
            Event::Restart(next) => {
                drop(fixture);
                let restore = match *next == parallelism {
                    true => Restore::Snapshot(last.0),
                    false => Restore::Rescaled(last.0),
                };
                (fixture, parallelism) = (open(*next, restore), *next);
                model = last.1.clone();
                checkpoint += 1;
                last = (fixture.checkpoint(checkpoint), model.clone());
                fixture.table.retain(&[(checkpoint, last.0)]).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 32, ..ProptestConfig::default() })]

    #[test]
    fn rows_that_end_answer_like_a_map_with_a_clock(
        events in proptest::collection::vec(event(), 1..60),
    ) {
        run(&events, &no_cache());
        run(&events, &tiny_buffers());
        run(&events, &eager());
    }
}

//! The store against a plain map, through flushes, merges, roll-backs and restarts.

use crate::effort::{count_case, scratch};
use crate::fixture::{Fixture, Model, eager, scan};
use howdah_state::{At, ReadMode, Restore, StoreOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Put(Vec<(i64, i64, Option<String>)>),
    Delete(Vec<i64>),
    Get(Vec<i64>),
    ReadAhead(Vec<i64>),
    Checkpoint,
    /// Dies and comes back at the checkpoint that many before the last.
    Crash(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..60_i64;
    let row = (id.clone(), any::<i64>(), proptest::option::of("[a-c]{0,12}"));
    prop_oneof![
        5 => proptest::collection::vec(row, 1..20).prop_map(Step::Put),
        2 => proptest::collection::vec(id.clone(), 1..10).prop_map(Step::Delete),
        4 => proptest::collection::vec(id.clone(), 1..20).prop_map(Step::Get),
        2 => proptest::collection::vec(id, 1..20).prop_map(Step::ReadAhead),
        4 => Just(Step::Checkpoint),
        1 => (0..3_usize).prop_map(Step::Crash),
    ]
}

fn run(steps: Vec<Step>, parallelism: u32, options: &StoreOptions) {
    count_case();
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture =
        Some(Fixture::open(warehouse, parallelism, options.clone(), Restore::Fresh).unwrap());
    let mut model = Model::new();
    let mut checkpoints: BTreeMap<u64, (i64, Model)> = BTreeMap::new();
    let mut next_checkpoint = 1;
    for step in steps {
        let open = fixture.as_mut().unwrap();
        match step {
            Step::Put(rows) => {
                let rows: Model =
                    rows.into_iter().map(|(id, number, text)| (id, (number, text))).collect();
                open.put(&rows).unwrap();
                model.extend(rows);
            }
            Step::Delete(ids) => {
                open.delete(&ids).unwrap();
                ids.iter().for_each(|id| drop(model.remove(id)));
            }
            Step::Get(ids) => {
                let found = open.get(&ids).unwrap();
                let wanted: Model =
                    ids.iter().filter_map(|id| Some((*id, model.get(id)?.clone()))).collect();
                assert_eq!(found, wanted);
            }
            Step::ReadAhead(ids) => open.read_ahead(&ids).unwrap(),
            Step::Checkpoint => {
                let snapshot = open.checkpoint(next_checkpoint);
                checkpoints.insert(next_checkpoint, (snapshot, model.clone()));
                next_checkpoint += 1;
                if checkpoints.len() > 3 {
                    checkpoints.pop_first();
                }
                let retained: Vec<(u64, i64)> = checkpoints
                    .iter()
                    .map(|(checkpoint, (snapshot, _))| (*checkpoint, *snapshot))
                    .collect();
                open.table.retain(&retained).unwrap();
                let (checkpoint, (_, wanted)) = checkpoints.iter().next_back().unwrap();
                assert_eq!(&scan(warehouse, At::Checkpoint(*checkpoint)).unwrap(), wanted);
            }
            Step::Crash(back) => {
                drop(fixture.take());
                let chosen = checkpoints.len().saturating_sub(1 + back);
                let restore = match checkpoints.iter().nth(chosen) {
                    Some((checkpoint, (snapshot, state))) => {
                        let (checkpoint, snapshot) = (*checkpoint, *snapshot);
                        model = state.clone();
                        checkpoints.retain(|id, _| *id <= checkpoint);
                        Restore::Snapshot(snapshot)
                    }
                    None => {
                        model.clear();
                        Restore::Fresh
                    }
                };
                let reopened = Fixture::open(warehouse, parallelism, options.clone(), restore);
                fixture = Some(reopened.unwrap());
            }
        }
    }
    let found = fixture.as_mut().unwrap().get(&(0..60).collect::<Vec<_>>()).unwrap();
    assert_eq!(found, model);
}

proptest! {
    // A case opens tables and starts threads: a quarter of the usual number.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn answers_like_a_map(steps in proptest::collection::vec(step(), 1..60), parallelism in 1..4_u32) {
        run(steps, parallelism, &eager());
    }

    #[test]
    fn answers_like_a_map_when_every_write_overflows_the_buffer(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        run(steps, 2, &StoreOptions { write_buffer_limit_bytes: 512, ..eager() });
    }

    #[test]
    fn answers_like_a_map_without_a_read_cache(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        run(steps, 1, &StoreOptions { read_cache_limit_bytes: 0, ..eager() });
    }

    #[test]
    fn answers_like_a_map_when_files_are_read_by_position(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let read_mode = ReadMode::Pread;
        run(steps, 2, &StoreOptions { read_cache_limit_bytes: 0, read_mode, ..eager() });
    }
}

//! Other parallelisms: every row stays, none is rewritten, and there is a way back.

use crate::checkpoints::{directory, quiet, request};
use crate::effort::{count_case, is_full, scratch};
use crate::fixture::{Fixture, Model, TABLE, descriptor, eager, files_in, rows, scan};
use crate::oracle;
use arrow_array::RecordBatch;
use howdah_state::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Keeps every snapshot.
fn keeping() -> StoreOptions {
    StoreOptions { merge_trigger_runs: 50, snapshot_retained_ms: 60_000, ..eager() }
}

/// Inodes of all data files.
fn data_inodes(warehouse: &Path) -> BTreeSet<u64> {
    let buckets = (0..8).map(|bucket| format!("bucket-{bucket}"));
    let files = buckets.flat_map(|bucket| files_in(warehouse, &bucket));
    files.map(|path| std::fs::metadata(path).unwrap().ino()).collect()
}

/// Some rows over and over, some of them deleted: `round` makes them differ.
fn change(fixture: &mut Fixture, model: &mut Model, round: i64) {
    // Half of all keys are of a few key groups only: what does not fit is owned by few subtasks.
    let skewed = |i: i64| if i % 2 == 0 { i % 7 } else { i };
    let changed: Model = (0..40)
        .map(|i| (skewed(i * (round + 3)) % 300, (round * 1000 + i, Some(format!("r{round}")))))
        .collect();
    fixture.put(&changed).unwrap();
    model.extend(changed);
    let deleted: Vec<i64> = (0..8).map(|i| (i * 11 + round) % 300).collect();
    fixture.delete(&deleted).unwrap();
    deleted.iter().for_each(|id| drop(model.remove(id)));
}

fn all_ids() -> Vec<i64> {
    (0..310).collect()
}

#[test]
fn rescaling_keeps_every_row_and_rewrites_none() {
    let root = scratch();
    let warehouse = root.path();
    let mut model = Model::new();
    let mut history: BTreeMap<u64, Model> = BTreeMap::new();
    let mut last = None;
    let mut checkpoint = 0;
    for parallelism in [1, 3, 2, 5, 1] {
        let inodes = data_inodes(warehouse);
        let restore = last.map_or(Restore::Fresh, Restore::Rescaled);
        let mut fixture = Fixture::open(warehouse, parallelism, keeping(), restore).unwrap();
        assert_eq!(fixture.get(&all_ids()).unwrap(), model);
        assert_eq!(scan(warehouse, At::Latest).unwrap(), model);
        assert_eq!(data_inodes(warehouse), inodes, "rows were rewritten");
        for _ in 0..3 {
            checkpoint += 1;
            change(&mut fixture, &mut model, checkpoint as i64);
            last = Some(fixture.checkpoint(checkpoint));
            history.insert(checkpoint, model.clone());
        }
        assert_eq!(fixture.get(&all_ids()).unwrap(), model);
        drop(fixture);
        // Time travel across all of them.
        for (checkpoint, wanted) in &history {
            assert_eq!(&scan(warehouse, At::Checkpoint(*checkpoint)).unwrap(), wanted);
            let reader = StateReader::open(warehouse, "default", TABLE).unwrap();
            for id in ["0", "1", "5", "150"] {
                let found = reader.get(&At::Checkpoint(*checkpoint), &[id.to_owned()]).unwrap();
                let wanted = wanted.contains_key(&id.parse().unwrap());
                assert_eq!(
                    found.iter().map(RecordBatch::num_rows).sum::<usize>(),
                    usize::from(wanted)
                );
            }
        }
        oracle::compare(warehouse, TABLE, None, &model);
    }
    for checkpoint in [1, 5] {
        let tag = format!("checkpoint-{checkpoint}");
        oracle::compare(warehouse, TABLE, Some(&tag), &history[&checkpoint]);
    }
}

#[test]
fn copies_of_a_file_that_meet_again_become_one() {
    let root = scratch();
    let warehouse = root.path();
    let mut fixture = Fixture::open(warehouse, 1, keeping(), Restore::Fresh).unwrap();
    let mut model = Model::new();
    change(&mut fixture, &mut model, 1);
    let mut last = fixture.checkpoint(1);
    drop(fixture);
    for parallelism in [3, 2, 5, 1] {
        let restore = Restore::Rescaled(last);
        let mut fixture = Fixture::open(warehouse, parallelism, keeping(), restore).unwrap();
        assert!(fixture.table.metrics().files <= u64::from(parallelism));
        assert_eq!(fixture.get(&all_ids()).unwrap(), model);
        last = fixture.checkpoint(2);
    }
}

#[test]
fn merges_after_a_rescale_drop_what_is_masked() {
    let root = scratch();
    let warehouse = root.path();
    let mut model = Model::new();
    let mut fixture = Fixture::open(warehouse, 2, keeping(), Restore::Fresh).unwrap();
    for round in 1..=4 {
        change(&mut fixture, &mut model, round);
        fixture.checkpoint(round as u64);
    }
    let last = fixture.checkpoint(5);
    drop(fixture);
    let mut fixture = Fixture::open(warehouse, 3, eager(), Restore::Rescaled(last)).unwrap();
    let mut last = last;
    for round in 6..=20 {
        change(&mut fixture, &mut model, round);
        last = fixture.checkpoint(round as u64);
        fixture.table.retain(&[(round as u64, last)]).unwrap();
    }
    assert!(fixture.table.metrics().merges_total > 0);
    assert_eq!(fixture.get(&all_ids()).unwrap(), model);
    drop(fixture);
    let mut fixture = Fixture::open(warehouse, 3, eager(), Restore::Snapshot(last)).unwrap();
    assert_eq!(fixture.get(&all_ids()).unwrap(), model);
    oracle::compare(warehouse, TABLE, None, &model);
}

#[test]
fn more_runs_than_there_are_levels_meet_in_a_bucket() {
    let root = scratch();
    let warehouse = root.path();
    let mut model = Model::new();
    let options = StoreOptions { merge_trigger_runs: 50, ..keeping() };
    let mut fixture = Fixture::open(warehouse, 3, options.clone(), Restore::Fresh).unwrap();
    let mut last = 0;
    for round in 0..30 {
        let new: Model = (round * 10..round * 10 + 10).map(|id| (id, (id, None))).collect();
        fixture.put(&new).unwrap();
        model.extend(new);
        last = fixture.checkpoint(round as u64 + 1);
    }
    assert!(fixture.table.metrics().files > 61);
    drop(fixture);
    let mut fixture = Fixture::open(warehouse, 1, options, Restore::Rescaled(last)).unwrap();
    assert_eq!(fixture.get(&all_ids()).unwrap(), model);
    for round in 31..=40 {
        change(&mut fixture, &mut model, round);
        fixture.checkpoint(round as u64);
    }
    assert_eq!(fixture.get(&all_ids()).unwrap(), model);
    oracle::compare(warehouse, TABLE, None, &model);
}

#[test]
fn rolling_back_to_before_a_rescale_brings_its_parallelism_back() {
    let root = scratch();
    let warehouse = root.path();
    let mut model = Model::new();
    let mut fixture = Fixture::open(warehouse, 2, keeping(), Restore::Fresh).unwrap();
    change(&mut fixture, &mut model, 1);
    let before = fixture.checkpoint(1);
    let at_first = model.clone();
    drop(fixture);
    let mut fixture = Fixture::open(warehouse, 3, keeping(), Restore::Rescaled(before)).unwrap();
    change(&mut fixture, &mut model, 2);
    fixture.checkpoint(2);
    drop(fixture);

    let error = Fixture::open(warehouse, 3, keeping(), Restore::Snapshot(before)).map(drop);
    let message = error.unwrap_err().to_string();
    assert!(message.contains("parallelism: stored 2, asked for 3 (restore rescaled"), "{message}");
    let mut fixture = Fixture::open(warehouse, 2, keeping(), Restore::Snapshot(before)).unwrap();
    assert_eq!(fixture.get(&all_ids()).unwrap(), at_first);
    oracle::compare(warehouse, TABLE, None, &at_first);
    let mut model = at_first.clone();
    change(&mut fixture, &mut model, 3);
    let last = fixture.checkpoint(2);
    oracle::compare(warehouse, TABLE, None, &model);
    drop(fixture);
    // And once more forward, and through a checkpoint elsewhere.
    let mut fixture = Fixture::open(warehouse, 3, keeping(), Restore::Rescaled(last)).unwrap();
    assert_eq!(fixture.get(&all_ids()).unwrap(), model);
    change(&mut fixture, &mut model, 4);
    let last = fixture.checkpoint(4);
    let target = scratch();
    let mut store = CheckpointStore::open(directory(target.path())).unwrap();
    let tables = [(TABLE.to_owned(), last)];
    store.checkpoint(&request(warehouse, 4, &tables), &quiet).unwrap();
    let copy = target.path().join("copy");
    store.restore(4, &copy, &quiet).unwrap();
    let mut fixture = Fixture::open(&copy, 5, keeping(), Restore::Rescaled(last)).unwrap();
    assert_eq!(fixture.get(&all_ids()).unwrap(), model);
    oracle::compare(&copy, TABLE, None, &model);
    let savepoint = target.path().join("savepoint");
    write_savepoint(&request(warehouse, 4, &tables), &savepoint, &quiet).unwrap();
    oracle::compare(&savepoint, TABLE, None, &model);
    oracle::compare(&savepoint, TABLE, Some("checkpoint-4"), &model);
}

/// Calls to the file system fail in turn, as an error and as a crash: every one in the full
/// round, some of them otherwise.
#[test]
fn failed_rescale_leaves_the_table_as_it_was() {
    let root = scratch();
    let warehouse = root.path().join("table");
    let mut model = Model::new();
    let mut fixture = Fixture::open(&warehouse, 2, keeping(), Restore::Fresh).unwrap();
    for round in 1..=2 {
        change(&mut fixture, &mut model, round);
        fixture.checkpoint(round as u64);
    }
    let last = fixture.checkpoint(3);
    drop(fixture);
    let stride = if is_full() { 1 } else { 9 };
    let faults = [Fault::Once(28), Fault::Crash(Effect::Nothing), Fault::Crash(Effect::Whole)];
    for (start, fault) in (0..).step_by(3).zip(faults) {
        for call in (start..).step_by(stride) {
            let copy = root.path().join("copy");
            crate::damage::copy_directory(&warehouse, &copy);
            let faults = Faults::at(call, fault);
            let options = StoreOptions { faults: Some(faults.clone()), ..keeping() };
            let opened = Fixture::open(&copy, 3, options, Restore::Rescaled(last)).map(drop);
            if faults.failed().is_none() {
                opened.unwrap();
                assert!(call > 30, "only {call} calls were seen");
                std::fs::remove_dir_all(&copy).unwrap();
                break;
            }
            // Readers see the same rows all along.
            assert_eq!(scan(&copy, At::Latest).unwrap(), model, "call {call}");
            let restore = Restore::Snapshot(last);
            let mut fixture = Fixture::open(&copy, 2, keeping(), restore).unwrap();
            assert_eq!(fixture.get(&all_ids()).unwrap(), model);
            drop(fixture);
            let left = data_inodes(&copy).len();
            assert_eq!(left, data_inodes(&warehouse).len());
            assert_eq!(files_in(&copy, "bucket-2").len(), 0, "call {call}");
            let restore = Restore::Rescaled(last);
            let mut fixture = Fixture::open(&copy, 3, keeping(), restore).unwrap();
            assert_eq!(fixture.get(&all_ids()).unwrap(), model);
            drop(fixture);
            std::fs::remove_dir_all(&copy).unwrap();
        }
    }
}

#[test]
fn rescale_to_the_same_parallelism_changes_nothing() {
    let root = scratch();
    let warehouse = root.path();
    let mut fixture = Fixture::open(warehouse, 2, keeping(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let last = fixture.checkpoint(1);
    drop(fixture);
    let names = files_in(warehouse, "schema");
    drop(Fixture::open(warehouse, 2, keeping(), Restore::Rescaled(last)).unwrap());
    assert_eq!(files_in(warehouse, "schema"), names);
    assert_eq!(files_in(warehouse, "snapshot").len(), last as usize + 1);
}

#[test]
fn rescale_past_the_number_of_key_groups_is_refused() {
    let root = scratch();
    let warehouse = root.path();
    let mut fixture = Fixture::open(warehouse, 2, keeping(), Restore::Fresh).unwrap();
    let last = fixture.checkpoint(1);
    drop(fixture);
    let store = StateStore::open(warehouse, "default", keeping()).unwrap();
    let error = store.open_table(&descriptor(65), Restore::Rescaled(last)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[derive(Debug, Clone)]
enum Step {
    Put(Vec<(i64, i64)>),
    Delete(Vec<i64>),
    Checkpoint,
    /// Starts again from the last checkpoint, with this parallelism.
    Rescale(u32),
    /// Through a checkpoint elsewhere into a fresh warehouse.
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..60_i64;
    prop_oneof![
        5 => proptest::collection::vec((id.clone(), any::<i64>()), 1..20).prop_map(Step::Put),
        2 => proptest::collection::vec(id, 1..10).prop_map(Step::Delete),
        4 => Just(Step::Checkpoint),
        3 => (1..6_u32).prop_map(Step::Rescale),
        1 => Just(Step::Move),
    ]
}

fn run(steps: Vec<Step>) {
    count_case();
    let root = scratch();
    let mut warehouse = root.path().join("0");
    let mut parallelism = 2;
    let fixture = Fixture::open(&warehouse, parallelism, eager(), Restore::Fresh).unwrap();
    let mut fixture = Some(fixture);
    let mut model = Model::new();
    let mut last = (fixture.as_mut().unwrap().checkpoint(1), model.clone());
    let mut store = CheckpointStore::open(directory(&root.path().join("target"))).unwrap();
    for (number, step) in (2_u64..).zip(steps) {
        let open = fixture.as_mut().unwrap();
        match step {
            Step::Put(rows) => {
                let rows: Model = rows.into_iter().map(|(id, n)| (id, (n, None))).collect();
                open.put(&rows).unwrap();
                model.extend(rows);
            }
            Step::Delete(ids) => {
                open.delete(&ids).unwrap();
                ids.iter().for_each(|id| drop(model.remove(id)));
            }
            Step::Checkpoint => {
                last = (open.checkpoint(number), model.clone());
                open.table.retain(&[(number, last.0)]).unwrap();
            }
            Step::Rescale(wanted) => {
                drop(fixture.take());
                parallelism = wanted;
                model = last.1.clone();
                let restore = Restore::Rescaled(last.0);
                let mut opened = Fixture::open(&warehouse, parallelism, eager(), restore).unwrap();
                // The snapshot before may expire from now on.
                last.0 = opened.checkpoint(number);
                opened.table.retain(&[(number, last.0)]).unwrap();
                fixture = Some(opened);
            }
            Step::Move => {
                let tables = [(TABLE.to_owned(), last.0)];
                store.checkpoint(&request(&warehouse, number, &tables), &quiet).unwrap();
                store.subsume(number).unwrap();
                drop(fixture.take());
                std::fs::remove_dir_all(&warehouse).unwrap();
                warehouse = root.path().join(number.to_string());
                store.restore(number, &warehouse, &quiet).unwrap();
                model = last.1.clone();
                let restore = Restore::Snapshot(last.0);
                fixture = Some(Fixture::open(&warehouse, parallelism, eager(), restore).unwrap());
            }
        }
        let ids: Vec<i64> = (0..60).collect();
        assert_eq!(fixture.as_mut().unwrap().get(&ids).unwrap(), model);
    }
    drop(fixture.take());
    assert_eq!(scan(&warehouse, At::Snapshot(last.0)).unwrap(), last.1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn answers_like_a_map_through_rescales_and_moves(
        steps in proptest::collection::vec(step(), 1..30),
    ) {
        run(steps);
    }
}

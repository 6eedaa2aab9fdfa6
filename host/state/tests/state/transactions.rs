//! A transaction that is rolled back has not been: every kind of state against a plain map.

use crate::fixture::{eager, key_columns, keys};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use howdah_state::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What all states hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    values: BTreeMap<i64, Option<String>>,
    lists: BTreeMap<i64, Vec<Option<String>>>,
    maps: BTreeMap<(i64, i64), Option<String>>,
    sums: BTreeMap<i64, i64>,
    /// Time, then key.
    timers: BTreeSet<(i64, i64)>,
}

#[derive(Debug, Clone)]
enum Op {
    Put(i64, Option<String>),
    Delete(i64),
    Append(i64, Option<String>),
    ClearList(i64),
    PutEntry(i64, i64, Option<String>),
    DeleteEntry(i64, i64),
    ClearMap(i64),
    Add(i64, i64),
    ClearSum(i64),
    SetTimer(i64, i64),
    DeleteTimer(i64, i64),
    TakeDue(i64),
    /// Reads all that a key has, which brings it into memory.
    Read(i64),
}

#[derive(Debug, Clone)]
enum Step {
    Plain(Vec<Op>),
    Commit(Vec<Op>),
    RollBack(Vec<Op>),
    Checkpoint,
    Compare,
}

const KEYS: std::ops::Range<i64> = 0..6;
const MAP_KEYS: std::ops::Range<i64> = 0..5;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let text = || prop::option::weighted(0.8, "[a-z]{0,9}");
    let op = prop_oneof![
        2 => (KEYS, text()).prop_map(|(key, text)| Op::Put(key, text)),
        1 => KEYS.prop_map(Op::Delete),
        2 => (KEYS, text()).prop_map(|(key, text)| Op::Append(key, text)),
        1 => KEYS.prop_map(Op::ClearList),
        3 => (KEYS, MAP_KEYS, text()).prop_map(|(key, entry, text)| Op::PutEntry(key, entry, text)),
        2 => (KEYS, MAP_KEYS).prop_map(|(key, entry)| Op::DeleteEntry(key, entry)),
        1 => KEYS.prop_map(Op::ClearMap),
        2 => (KEYS, -9_i64..9).prop_map(|(key, number)| Op::Add(key, number)),
        1 => KEYS.prop_map(Op::ClearSum),
        2 => (KEYS, 0_i64..20).prop_map(|(key, time)| Op::SetTimer(key, time)),
        1 => (KEYS, 0_i64..20).prop_map(|(key, time)| Op::DeleteTimer(key, time)),
        1 => (0_i64..20).prop_map(Op::TakeDue),
        2 => KEYS.prop_map(Op::Read),
    ];
    prop::collection::vec(op, 1..12)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => ops().prop_map(Step::Plain),
        2 => ops().prop_map(Step::Commit),
        4 => ops().prop_map(Step::RollBack),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Compare),
    ];
    prop::collection::vec(step, 1..16)
}

/// The states of one subtask.
struct States {
    store: StateStore,
    values: ValueState,
    lists: ListState,
    maps: MapState,
    sums: ReducingState,
    timers: Timers,
}

fn text(value: &Option<String>) -> ArrayRef {
    Arc::new(StringArray::from(vec![value.as_deref()]))
}

fn number(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}

fn time(value: i64) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(vec![value]))
}

fn texts(column: &ArrayRef) -> Vec<Option<String>> {
    column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

impl States {
    fn open(warehouse: &Path, options: StoreOptions, snapshots: &[(String, i64)]) -> Self {
        let store = StateStore::open(warehouse, "default", options).unwrap();
        let table = |state: &str, kind, value| {
            let descriptor = StateDescriptor {
                pipeline: "pipeline".into(),
                operator: "operator".into(),
                state: state.into(),
                kind,
                key: key_columns(),
                value,
                key_groups: 4,
                ..StateDescriptor::default()
            };
            let name = descriptor.table_name();
            let snapshot = snapshots.iter().find(|(table, _)| *table == name);
            let restore = snapshot.map_or(Restore::Fresh, |(_, id)| Restore::Snapshot(*id));
            store.open_table(&descriptor, restore).unwrap()
        };
        let note = || vec![Column::nullable("note", ColumnType::Utf8)];
        let map_key = vec![Column::required("entry", ColumnType::Int64)];
        let total = vec![Column::required("total", ColumnType::Int64)];
        let reducers = vec![Reducer::Sum];
        Self {
            values: table("values", StateKind::Value, note()).value_state(0).unwrap(),
            lists: table("lists", StateKind::List, note()).list_state(0).unwrap(),
            maps: table("maps", StateKind::Map { map_key }, note()).map_state(0).unwrap(),
            sums: table("sums", StateKind::Reducing { reducers }, total).reducing_state(0).unwrap(),
            timers: table("timers", StateKind::Timers, Vec::new()).timers(0).unwrap(),
            store,
        }
    }

    /// Does it in the states and in the model, which must agree in what they answer.
    fn run(&mut self, model: &mut Model, ops: &[Op]) -> TestCaseResult {
        for op in ops {
            self.run_one(model, op)?;
        }
        Ok(())
    }

    fn run_one(&mut self, model: &mut Model, op: &Op) -> TestCaseResult {
        match op {
            Op::Put(key, note) => {
                self.values.put(&keys(&[*key]), &[text(note)]).unwrap();
                model.values.insert(*key, note.clone());
            }
            Op::Delete(key) => {
                self.values.delete(&keys(&[*key])).unwrap();
                model.values.remove(key);
            }
            Op::Append(key, note) => {
                self.lists.append(&keys(&[*key]), &[0], &[text(note)]).unwrap();
                model.lists.entry(*key).or_default().push(note.clone());
            }
            Op::ClearList(key) => {
                self.lists.clear(&keys(&[*key])).unwrap();
                model.lists.remove(key);
            }
            Op::PutEntry(key, entry, note) => {
                self.maps.put(&keys(&[*key]), &[0], &[number(*entry)], &[text(note)]).unwrap();
                model.maps.insert((*key, *entry), note.clone());
            }
            Op::DeleteEntry(key, entry) => {
                self.maps.delete(&keys(&[*key]), &[0], &[number(*entry)]).unwrap();
                model.maps.remove(&(*key, *entry));
            }
            Op::ClearMap(key) => {
                self.maps.clear(&keys(&[*key])).unwrap();
                model.maps.retain(|(of, _), _| of != key);
            }
            Op::Add(key, added) => {
                self.sums.add(&keys(&[*key]), &[number(*added)]).unwrap();
                *model.sums.entry(*key).or_default() += added;
            }
            Op::ClearSum(key) => {
                self.sums.clear(&keys(&[*key])).unwrap();
                model.sums.remove(key);
            }
            Op::SetTimer(key, at) => {
                self.timers.set(&keys(&[*key]), &time(*at)).unwrap();
                model.timers.insert((*at, *key));
            }
            Op::DeleteTimer(key, at) => {
                self.timers.delete(&keys(&[*key]), &time(*at)).unwrap();
                model.timers.remove(&(*at, *key));
            }
            Op::TakeDue(until) => {
                let due: BTreeSet<(i64, i64)> =
                    model.timers.iter().filter(|(at, _)| at <= until).copied().collect();
                prop_assert_eq!(self.due(*until), due.iter().copied().collect::<Vec<_>>());
                model.timers.retain(|timer| !due.contains(timer));
            }
            Op::Read(key) => {
                let mut found = Model::default();
                self.read(*key, &mut found);
                let expected = of_key(model, *key);
                prop_assert_eq!(found, expected);
            }
        }
        Ok(())
    }

    fn due(&mut self, until: i64) -> Vec<(i64, i64)> {
        let due = self.timers.take_due(until, 1000).unwrap();
        let times = due.times.as_primitive::<TimestampMillisecondType>().values().to_vec();
        let keys = due.key[0].as_primitive::<Int64Type>().values().to_vec();
        times.into_iter().zip(keys).collect()
    }

    /// All but timers, of one key.
    fn read(&mut self, key: i64, found: &mut Model) {
        let of = keys(&[key]);
        let rows = self.values.get(&of).unwrap();
        if rows.present.value(0) {
            found.values.extend(texts(&rows.columns[0]).into_iter().map(|note| (key, note)));
        }
        let list = texts(&self.lists.get(&of, 1000).unwrap().columns[0]);
        if !list.is_empty() {
            found.lists.insert(key, list);
        }
        let entries = self.maps.entries(&of, 1000).unwrap();
        let map_keys = entries.map_key[0].as_primitive::<Int64Type>().values().to_vec();
        let entries = map_keys.into_iter().zip(texts(&entries.columns[0]));
        found.maps.extend(entries.map(|(entry, note)| ((key, entry), note)));
        let sums = self.sums.get(&of).unwrap();
        if sums.present.value(0) {
            found.sums.insert(key, sums.columns[0].as_primitive::<Int64Type>().value(0));
        }
    }

    fn begin(&mut self) {
        self.values.begin().unwrap();
        self.lists.begin().unwrap();
        self.maps.begin().unwrap();
        self.sums.begin().unwrap();
        self.timers.begin().unwrap();
    }

    fn commit(&mut self) {
        self.values.commit().unwrap();
        self.lists.commit().unwrap();
        self.maps.commit().unwrap();
        self.sums.commit().unwrap();
        self.timers.commit().unwrap();
    }

    fn roll_back(&mut self) {
        self.values.roll_back();
        self.lists.roll_back();
        self.maps.roll_back();
        self.sums.roll_back();
        self.timers.roll_back();
    }

    fn checkpoint(&mut self, id: u64) -> Vec<(String, i64)> {
        self.values.freeze(id).unwrap();
        self.lists.freeze(id).unwrap();
        self.maps.freeze(id).unwrap();
        self.sums.freeze(id).unwrap();
        self.timers.freeze(id).unwrap();
        self.store.wait_published(id).unwrap()
    }

    fn compare(&mut self, model: &Model) -> TestCaseResult {
        let mut found = Model { timers: model.timers.clone(), ..Model::default() };
        for key in KEYS {
            self.read(key, &mut found);
        }
        prop_assert_eq!(&found, model);
        let first = model.timers.first().map(|(at, _)| *at);
        prop_assert_eq!(self.timers.next_ms().unwrap(), first);
        Ok(())
    }
}

/// All but timers, of one key.
fn of_key(model: &Model, key: i64) -> Model {
    let mut one = model.clone();
    one.values.retain(|of, _| *of == key);
    one.lists.retain(|of, _| *of == key);
    one.maps.retain(|(of, _), _| *of == key);
    one.sums.retain(|of, _| *of == key);
    one.timers.clear();
    one
}

fn holds(steps: &[Step], options: &StoreOptions) -> TestCaseResult {
    let directory = tempfile::tempdir().unwrap();
    let mut states = States::open(directory.path(), options.clone(), &[]);
    let mut model = Model::default();
    let mut checkpoint = 0;
    for step in steps {
        match step {
            Step::Plain(ops) => states.run(&mut model, ops)?,
            Step::Commit(ops) => {
                states.begin();
                states.run(&mut model, ops)?;
                states.commit();
            }
            Step::RollBack(ops) => {
                states.begin();
                states.run(&mut model.clone(), ops)?;
                states.roll_back();
                // Not always: what is read is in memory from then on.
                if ops.len() % 2 == 0 {
                    states.compare(&model)?;
                }
            }
            Step::Checkpoint => {
                checkpoint += 1;
                states.checkpoint(checkpoint);
            }
            Step::Compare => states.compare(&model)?,
        }
    }
    // What is published is the same as what was seen.
    let snapshots = states.checkpoint(checkpoint + 1);
    states.compare(&model)?;
    drop(states);
    let mut states = States::open(directory.path(), options.clone(), &snapshots);
    states.compare(&model)?;
    let timers: Vec<(i64, i64)> = model.timers.iter().copied().collect();
    prop_assert_eq!(states.due(i64::MAX), timers);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn what_is_rolled_back_has_not_been(
        steps in steps(),
        write_buffer_limit_bytes in prop_oneof![Just(1_usize), Just(600), Just(1 << 20)],
        timers_in_memory in 1_usize..6,
    ) {
        let options = StoreOptions { write_buffer_limit_bytes, timers_in_memory, ..eager() };
        holds(&steps, &options)?;
    }
}

#[test]
fn there_is_one_transaction_at_a_time_and_no_barrier_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut states = States::open(directory.path(), eager(), &[]);
    states.begin();
    assert_eq!(states.values.begin().unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(states.values.freeze(1).unwrap_err().kind(), ErrorKind::Internal);
    states.roll_back();
    states.roll_back();
    states.checkpoint(1);
}

#[test]
fn a_transaction_has_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { write_buffer_limit_bytes: 1 << 20, ..eager() };
    let mut states = States::open(directory.path(), options, &[]);
    states.values.begin().unwrap();
    let large = Some("x".repeat(1 << 20));
    let error = (0..100).find_map(|key| states.values.put(&keys(&[key]), &[text(&large)]).err());
    let error = error.unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(
        error.to_string(),
        "what one transaction of state pipeline__operator__values reads and writes takes more \
         than 64 MiB; do less in one"
    );
    states.values.roll_back();
    assert!(!states.values.get(&keys(&[0])).unwrap().present.value(0));
}

#[test]
fn an_answer_has_the_limits_that_are_set() {
    let directory = tempfile::tempdir().unwrap();
    let mut states = States::open(directory.path(), eager(), &[]);
    let large = Some("x".repeat(1000));
    for key in [1, 2, 3] {
        states.values.put(&keys(&[key]), &[text(&large)]).unwrap();
    }
    states.values.limit_answers(AnswerLimit { rows: 3, bytes: 2500 });
    assert!(states.values.get(&keys(&[1, 2])).is_ok());
    for wanted in [&[1, 2, 3][..], &[1, 4, 5, 6]] {
        let error = states.values.get(&keys(wanted)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(
            error.to_string().starts_with("the answer of state pipeline__operator__values has"),
            "{error}"
        );
    }
}

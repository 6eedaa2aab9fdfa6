//! All kinds of state against plain collections, through flushes, merges, roll-backs, restarts
//! and changes of parallelism.

use crate::effort::{count_case, scratch};
use crate::fixture::{eager, key_columns, keys};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use howdah_state::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

const KEY_GROUPS: u32 = 16;

pub(crate) fn map_key() -> Vec<Column> {
    vec![Column::required("item", ColumnType::Utf8)]
}

pub(crate) fn reducers() -> StateKind {
    use Reducer as R;
    StateKind::Reducing { reducers: vec![R::Sum, R::Min, R::Max, R::Count, R::First, R::Last] }
}

/// A state of one subtask with a required number as value, as many times as there are reducers.
pub(crate) fn descriptor(kind: StateKind, ttl_ms: Option<u64>) -> StateDescriptor {
    let value = match &kind {
        StateKind::Timers => Vec::new(),
        StateKind::Reducing { reducers } => {
            let name = |at| format!("v{at}");
            (0..reducers.len()).map(|at| Column::nullable(name(at), ColumnType::Int64)).collect()
        }
        _ => vec![Column::nullable("number", ColumnType::Int64)],
    };
    StateDescriptor {
        pipeline: "pipeline".into(),
        operator: "operator".into(),
        state: "state".into(),
        kind,
        ttl_ms,
        key: key_columns(),
        value,
        parallelism: 1,
        key_groups: KEY_GROUPS,
    }
}

pub(crate) fn open(
    warehouse: &Path,
    kind: StateKind,
    options: StoreOptions,
    restore: Restore,
) -> (StateStore, StateTable) {
    open_parallel(warehouse, kind, 1, options, restore)
}

fn open_parallel(
    warehouse: &Path,
    kind: StateKind,
    parallelism: u32,
    options: StoreOptions,
    restore: Restore,
) -> (StateStore, StateTable) {
    let store = StateStore::open(warehouse, "default", options).unwrap();
    let wanted = StateDescriptor { parallelism, ..descriptor(kind, None) };
    let table = store.open_table(&wanted, restore).unwrap();
    (store, table)
}

pub(crate) fn published(store: &StateStore) -> i64 {
    match store.events().recv().unwrap() {
        StateEvent::Published { snapshot, .. } => snapshot,
        StateEvent::Failed { error, .. } => panic!("{error}"),
    }
}

pub(crate) fn numbers(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

pub(crate) fn texts(values: &[String]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(crate) fn times(values: &[i64]) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(values.to_vec()))
}

fn read_numbers(column: &ArrayRef) -> Vec<Option<i64>> {
    column.as_primitive::<Int64Type>().iter().collect()
}

/// A subtask of a state and what it should hold.
trait Subject: Sized {
    type Step: std::fmt::Debug + Clone;
    type Model: Default + Clone;
    fn kind() -> StateKind;
    fn new(table: &StateTable, subtask: u32) -> Self;
    /// What a step says of these keys.
    fn part_of_step(step: &Self::Step, owns: &dyn Fn(i64) -> bool) -> Self::Step;
    /// What a model holds for these keys.
    fn part_of_model(model: &Self::Model, owns: &dyn Fn(i64) -> bool) -> Self::Model;
    /// One model of several for different keys.
    fn together(models: impl Iterator<Item = Self::Model>) -> Self::Model;
    /// Does a step, and checks what it reads.
    fn step(&mut self, model: &mut Self::Model, step: &Self::Step);
    /// The step that reads all there can be.
    fn everything() -> Self::Step;
    fn freeze(&mut self, checkpoint: u64);
}

#[derive(Debug, Clone)]
enum Event<S> {
    Step(S),
    Checkpoint,
    /// Dies and comes back at the checkpoint that many before the last.
    Crash(usize),
    /// The same, with that many subtasks.
    Rescale(usize, u32),
}

fn events<S: std::fmt::Debug + Clone + 'static>(
    step: impl Strategy<Value = S> + 'static,
) -> impl Strategy<Value = Vec<Event<S>>> {
    let event = prop_oneof![
        16 => step.prop_map(Event::Step),
        6 => Just(Event::Checkpoint),
        2 => (0..3_usize).prop_map(Event::Crash),
        1 => (0..2_usize, 1..6_u32).prop_map(|(back, to)| Event::Rescale(back, to)),
    ];
    proptest::collection::vec(event, 1..50)
}

/// A state that is put through events.
struct Trial<'a, S: Subject> {
    warehouse: &'a Path,
    options: &'a StoreOptions,
    parallelism: u32,
    /// The store, its table and all subtasks, while the process lives.
    open: Option<(StateStore, StateTable, Vec<S>)>,
    /// For each subtask.
    models: Vec<S::Model>,
    /// Snapshot, parallelism and content of the last few checkpoints.
    checkpoints: BTreeMap<u64, (i64, u32, S::Model)>,
    next_checkpoint: u64,
}

impl<'a, S: Subject> Trial<'a, S> {
    fn begin(warehouse: &'a Path, options: &'a StoreOptions) -> Self {
        let mut trial = Self {
            warehouse,
            options,
            parallelism: 1,
            open: None,
            models: Vec::new(),
            checkpoints: BTreeMap::new(),
            next_checkpoint: 1,
        };
        trial.restart(Restore::Fresh, &S::Model::default());
        trial
    }

    fn owner(&self, id: i64) -> u32 {
        let groups = KeyGroups::new(KEY_GROUPS, self.parallelism).unwrap();
        groups.subtask_of(keys(&[id]).encoded().hashes()[0])
    }

    fn restart(&mut self, restore: Restore, model: &S::Model) {
        self.open = None;
        let options = self.options.clone();
        let (store, table) =
            open_parallel(self.warehouse, S::kind(), self.parallelism, options, restore);
        let subtasks = (0..self.parallelism).map(|subtask| S::new(&table, subtask)).collect();
        self.open = Some((store, table, subtasks));
        self.models = (0..self.parallelism)
            .map(|subtask| S::part_of_model(model, &|id| self.owner(id) == subtask))
            .collect();
    }

    fn step(&mut self, step: &S::Step) {
        for subtask in 0..self.parallelism {
            let part = S::part_of_step(step, &|id| self.owner(id) == subtask);
            let (_, _, subtasks) = self.open.as_mut().unwrap();
            subtasks[subtask as usize].step(&mut self.models[subtask as usize], &part);
        }
    }

    fn checkpoint(&mut self) {
        let (store, table, subtasks) = self.open.as_mut().unwrap();
        for subtask in subtasks {
            subtask.freeze(self.next_checkpoint);
        }
        let snapshot = published(store);
        let content = S::together(self.models.iter().cloned());
        self.checkpoints.insert(self.next_checkpoint, (snapshot, self.parallelism, content));
        self.next_checkpoint += 1;
        if self.checkpoints.len() > 3 {
            self.checkpoints.pop_first();
        }
        let retained: Vec<_> =
            self.checkpoints.iter().map(|(id, (snapshot, ..))| (*id, *snapshot)).collect();
        table.retain(&retained).unwrap();
    }

    /// Comes back at the checkpoint that many before the last, with this many subtasks or as
    /// many as it had then.
    fn crash(&mut self, back: usize, parallelism: Option<u32>) {
        let chosen = self.checkpoints.len().saturating_sub(1 + back);
        let Some((&id, (snapshot, had, content))) = self.checkpoints.iter().nth(chosen) else {
            self.parallelism = parallelism.unwrap_or(self.parallelism);
            return self.restart(Restore::Fresh, &S::Model::default());
        };
        let (snapshot, had, content) = (*snapshot, *had, content.clone());
        self.parallelism = parallelism.unwrap_or(had);
        self.checkpoints.retain(|other, _| *other <= id);
        match parallelism {
            Some(_) => self.restart(Restore::Rescaled(snapshot), &content),
            None => self.restart(Restore::Snapshot(snapshot), &content),
        }
    }
}

fn run<S: Subject>(events: &[Event<S::Step>], options: &StoreOptions) {
    count_case();
    let directory = scratch();
    let mut trial = Trial::<S>::begin(directory.path(), options);
    for event in events {
        match event {
            Event::Step(step) => trial.step(step),
            Event::Checkpoint => trial.checkpoint(),
            Event::Crash(back) => trial.crash(*back, None),
            Event::Rescale(back, parallelism) => trial.crash(*back, Some(*parallelism)),
        }
    }
    trial.step(&S::everything());
}

/// Those of a list that belong to these keys.
fn owned<T: Clone>(all: &[T], id: impl Fn(&T) -> i64, owns: &dyn Fn(i64) -> bool) -> Vec<T> {
    all.iter().filter(|one| owns(id(one))).cloned().collect()
}

// Values.

#[derive(Debug, Clone)]
enum ValueStep {
    Put(Vec<(i64, Option<i64>)>),
    Delete(Vec<i64>),
    Get(Vec<i64>),
    ReadAhead(Vec<i64>),
}

impl Subject for ValueState {
    type Step = ValueStep;
    type Model = BTreeMap<i64, Option<i64>>;

    fn kind() -> StateKind {
        StateKind::Value
    }

    fn new(table: &StateTable, subtask: u32) -> Self {
        table.value_state(subtask).unwrap()
    }

    fn part_of_step(step: &ValueStep, owns: &dyn Fn(i64) -> bool) -> ValueStep {
        match step {
            ValueStep::Put(rows) => ValueStep::Put(owned(rows, |row| row.0, owns)),
            ValueStep::Delete(ids) => ValueStep::Delete(owned(ids, |id| *id, owns)),
            ValueStep::Get(ids) => ValueStep::Get(owned(ids, |id| *id, owns)),
            ValueStep::ReadAhead(ids) => ValueStep::ReadAhead(owned(ids, |id| *id, owns)),
        }
    }

    fn part_of_model(model: &Self::Model, owns: &dyn Fn(i64) -> bool) -> Self::Model {
        model.iter().filter(|(id, _)| owns(**id)).map(|(id, value)| (*id, *value)).collect()
    }

    fn together(models: impl Iterator<Item = Self::Model>) -> Self::Model {
        models.flatten().collect()
    }

    fn step(&mut self, model: &mut Self::Model, step: &ValueStep) {
        match step {
            ValueStep::Put(rows) => {
                let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
                let values: Vec<_> = rows.iter().map(|(_, value)| *value).collect();
                self.put(&keys(&ids), &[numbers(&values)]).unwrap();
                model.extend(rows.iter().copied());
            }
            ValueStep::Delete(ids) => {
                self.delete(&keys(ids)).unwrap();
                model.retain(|id, _| !ids.contains(id));
            }
            ValueStep::Get(ids) => {
                let found = self.get(&keys(ids)).unwrap();
                let values = read_numbers(&found.columns[0]);
                for (at, id) in ids.iter().enumerate() {
                    let found = found.present.value(at).then_some(values[at]);
                    assert_eq!(found, model.get(id).copied(), "key {id}");
                }
            }
            ValueStep::ReadAhead(ids) => self.read_ahead(&keys(ids)).unwrap(),
        }
    }

    fn everything() -> ValueStep {
        ValueStep::Get((0..40).collect())
    }

    fn freeze(&mut self, checkpoint: u64) {
        ValueState::freeze(self, checkpoint).unwrap();
    }
}

fn value_step() -> impl Strategy<Value = ValueStep> {
    let row = (0..40_i64, proptest::option::of(0..100_i64));
    let ids = || proptest::collection::vec(0..40_i64, 1..15);
    prop_oneof![
        4 => proptest::collection::vec(row, 1..20).prop_map(ValueStep::Put),
        2 => ids().prop_map(ValueStep::Delete),
        3 => ids().prop_map(ValueStep::Get),
        1 => ids().prop_map(ValueStep::ReadAhead),
    ]
}

// Lists.

#[derive(Debug, Clone)]
enum ListStep {
    Append(Vec<(i64, Option<i64>)>),
    Clear(Vec<i64>),
    Get(Vec<i64>),
}

impl Subject for ListState {
    type Step = ListStep;
    type Model = BTreeMap<i64, Vec<Option<i64>>>;

    fn kind() -> StateKind {
        StateKind::List
    }

    fn new(table: &StateTable, subtask: u32) -> Self {
        table.list_state(subtask).unwrap()
    }

    fn part_of_step(step: &ListStep, owns: &dyn Fn(i64) -> bool) -> ListStep {
        match step {
            ListStep::Append(rows) => ListStep::Append(owned(rows, |row| row.0, owns)),
            ListStep::Clear(ids) => ListStep::Clear(owned(ids, |id| *id, owns)),
            ListStep::Get(ids) => ListStep::Get(owned(ids, |id| *id, owns)),
        }
    }

    fn part_of_model(model: &Self::Model, owns: &dyn Fn(i64) -> bool) -> Self::Model {
        model.iter().filter(|(id, _)| owns(**id)).map(|(id, list)| (*id, list.clone())).collect()
    }

    fn together(models: impl Iterator<Item = Self::Model>) -> Self::Model {
        models.flatten().collect()
    }

    fn step(&mut self, model: &mut Self::Model, step: &ListStep) {
        match step {
            ListStep::Append(rows) => {
                let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
                let values: Vec<_> = rows.iter().map(|(_, value)| *value).collect();
                let key_of: Vec<u32> = (0..).take(ids.len()).collect();
                self.append(&keys(&ids), &key_of, &[numbers(&values)]).unwrap();
                for (id, value) in rows {
                    model.entry(*id).or_default().push(*value);
                }
            }
            ListStep::Clear(ids) => {
                self.clear(&keys(ids)).unwrap();
                ids.iter().for_each(|id| {
                    model.remove(id);
                });
            }
            ListStep::Get(ids) => {
                let found = self.get(&keys(ids), 1000).unwrap();
                let mut lists = vec![Vec::new(); ids.len()];
                for (key, value) in found.key_of.iter().zip(read_numbers(&found.columns[0])) {
                    lists[*key as usize].push(value);
                }
                let wanted: Vec<_> =
                    ids.iter().map(|id| model.get(id).cloned().unwrap_or_default()).collect();
                assert_eq!(lists, wanted);
            }
        }
    }

    fn everything() -> ListStep {
        ListStep::Get((0..12).collect())
    }

    fn freeze(&mut self, checkpoint: u64) {
        ListState::freeze(self, checkpoint).unwrap();
    }
}

fn list_step() -> impl Strategy<Value = ListStep> {
    let row = (0..12_i64, proptest::option::of(0..100_i64));
    let ids = proptest::collection::vec(0..12_i64, 1..5);
    prop_oneof![
        4 => proptest::collection::vec(row, 1..10).prop_map(ListStep::Append),
        1 => ids.clone().prop_map(ListStep::Clear),
        2 => ids.prop_map(ListStep::Get),
    ]
}

// Maps.

#[derive(Debug, Clone)]
enum MapStep {
    Put(Vec<(i64, String, Option<i64>)>),
    Delete(Vec<(i64, String)>),
    Clear(Vec<i64>),
    Get(Vec<(i64, String)>),
    Entries(Vec<i64>),
    Range(Vec<i64>, Option<String>, Option<String>, usize),
}

impl Subject for MapState {
    type Step = MapStep;
    type Model = BTreeMap<(i64, String), Option<i64>>;

    fn kind() -> StateKind {
        StateKind::Map { map_key: map_key() }
    }

    fn new(table: &StateTable, subtask: u32) -> Self {
        table.map_state(subtask).unwrap()
    }

    fn part_of_step(step: &MapStep, owns: &dyn Fn(i64) -> bool) -> MapStep {
        match step {
            MapStep::Put(rows) => MapStep::Put(owned(rows, |row| row.0, owns)),
            MapStep::Delete(rows) => MapStep::Delete(owned(rows, |row| row.0, owns)),
            MapStep::Clear(ids) => MapStep::Clear(owned(ids, |id| *id, owns)),
            MapStep::Get(rows) => MapStep::Get(owned(rows, |row| row.0, owns)),
            MapStep::Entries(ids) => MapStep::Entries(owned(ids, |id| *id, owns)),
            MapStep::Range(ids, from, to, limit) => {
                let ids = owned(ids, |id| *id, owns);
                MapStep::Range(ids, from.clone(), to.clone(), *limit)
            }
        }
    }

    fn part_of_model(model: &Self::Model, owns: &dyn Fn(i64) -> bool) -> Self::Model {
        let owned = model.iter().filter(|((id, _), _)| owns(*id));
        owned.map(|(entry, value)| (entry.clone(), *value)).collect()
    }

    fn together(models: impl Iterator<Item = Self::Model>) -> Self::Model {
        models.flatten().collect()
    }

    fn step(&mut self, model: &mut Self::Model, step: &MapStep) {
        let named = |entries: &[(i64, String)]| {
            let ids: Vec<i64> = entries.iter().map(|(id, _)| *id).collect();
            let items: Vec<String> = entries.iter().map(|(_, item)| item.clone()).collect();
            let key_of: Vec<u32> = (0..).take(ids.len()).collect();
            (keys(&ids), key_of, [texts(&items)])
        };
        match step {
            MapStep::Put(rows) => {
                let entries: Vec<_> =
                    rows.iter().map(|(id, item, _)| (*id, item.clone())).collect();
                let values: Vec<_> = rows.iter().map(|(_, _, value)| *value).collect();
                let (keys, key_of, items) = named(&entries);
                self.put(&keys, &key_of, &items, &[numbers(&values)]).unwrap();
                model.extend(entries.into_iter().zip(values));
            }
            MapStep::Delete(entries) => {
                let (keys, key_of, items) = named(entries);
                self.delete(&keys, &key_of, &items).unwrap();
                entries.iter().for_each(|entry| {
                    model.remove(entry);
                });
            }
            MapStep::Clear(ids) => {
                self.clear(&keys(ids)).unwrap();
                model.retain(|(of, _), _| !ids.contains(of));
            }
            MapStep::Get(entries) => {
                let (keys, key_of, items) = named(entries);
                let found = self.get(&keys, &key_of, &items).unwrap();
                let values = read_numbers(&found.columns[0]);
                for (at, entry) in entries.iter().enumerate() {
                    let found = found.present.value(at).then_some(values[at]);
                    assert_eq!(found, model.get(entry).copied(), "{entry:?}");
                }
            }
            MapStep::Entries(ids) => {
                let found = self.entries(&keys(ids), 1000).unwrap();
                let items = found.map_key[0].as_string::<i32>();
                let values = read_numbers(&found.columns[0]);
                let found: Vec<_> = (0..values.len())
                    .map(|at| {
                        let id = ids[found.key_of[at] as usize];
                        ((id, items.value(at).to_owned()), values[at])
                    })
                    .collect();
                let wanted: Vec<_> = ids
                    .iter()
                    .flat_map(|id| model.iter().filter(move |((of, _), _)| of == id))
                    .map(|(entry, value)| (entry.clone(), *value))
                    .collect();
                assert_eq!(found, wanted);
            }
            MapStep::Range(ids, from, to, limit) => {
                let bound = |text: &Option<String>| text.clone().map(|text| [texts(&[text])]);
                let (from_bound, to_bound) = (bound(from), bound(to));
                let found = self
                    .range(
                        &keys(ids),
                        from_bound.as_ref().map(<[ArrayRef; 1]>::as_slice),
                        to_bound.as_ref().map(<[ArrayRef; 1]>::as_slice),
                        *limit,
                    )
                    .unwrap();
                let items: Vec<_> = found.map_key[0].as_string::<i32>().iter().flatten().collect();
                let within = |item: &String| {
                    from.as_ref().is_none_or(|from| item >= from)
                        && to.as_ref().is_none_or(|to| item < to)
                };
                let of_key = |id: &i64| {
                    let id = *id;
                    let entries = model.keys().filter(move |(of, item)| *of == id && within(item));
                    entries.map(|(_, item)| item.as_str()).take(*limit)
                };
                let wanted: Vec<_> = ids.iter().flat_map(of_key).collect();
                assert_eq!(items, wanted);
            }
        }
    }

    fn everything() -> MapStep {
        MapStep::Entries((0..6).collect())
    }

    fn freeze(&mut self, checkpoint: u64) {
        MapState::freeze(self, checkpoint).unwrap();
    }
}

fn map_step() -> impl Strategy<Value = MapStep> {
    let item = "[a-d\u{0}]{0,2}";
    let entry = (0..6_i64, item);
    let row = (0..6_i64, item, proptest::option::of(0..4_i64));
    let bound = || proptest::option::of(item);
    prop_oneof![
        4 => proptest::collection::vec(row, 1..10).prop_map(MapStep::Put),
        2 => proptest::collection::vec(entry.clone(), 1..6).prop_map(MapStep::Delete),
        1 => (0..6_i64).prop_map(|id| MapStep::Clear(vec![id])),
        2 => proptest::collection::vec(entry, 1..6).prop_map(MapStep::Get),
        1 => proptest::collection::vec(0..6_i64, 1..4).prop_map(MapStep::Entries),
        1 => (0..6_i64, bound(), bound(), 1..5_usize)
            .prop_map(|(id, from, to, limit)| MapStep::Range(vec![id], from, to, limit)),
    ]
}

// Reducing state.

#[derive(Debug, Clone)]
enum ReduceStep {
    Add(Vec<(i64, Option<i64>)>),
    Clear(Vec<i64>),
    Get(Vec<i64>),
}

/// Sum, min, max, count, first and last.
type Folded = [Option<i64>; 6];

impl Subject for ReducingState {
    type Step = ReduceStep;
    type Model = BTreeMap<i64, Folded>;

    fn kind() -> StateKind {
        reducers()
    }

    fn new(table: &StateTable, subtask: u32) -> Self {
        table.reducing_state(subtask).unwrap()
    }

    fn part_of_step(step: &ReduceStep, owns: &dyn Fn(i64) -> bool) -> ReduceStep {
        match step {
            ReduceStep::Add(rows) => ReduceStep::Add(owned(rows, |row| row.0, owns)),
            ReduceStep::Clear(ids) => ReduceStep::Clear(owned(ids, |id| *id, owns)),
            ReduceStep::Get(ids) => ReduceStep::Get(owned(ids, |id| *id, owns)),
        }
    }

    fn part_of_model(model: &Self::Model, owns: &dyn Fn(i64) -> bool) -> Self::Model {
        model.iter().filter(|(id, _)| owns(**id)).map(|(id, folded)| (*id, *folded)).collect()
    }

    fn together(models: impl Iterator<Item = Self::Model>) -> Self::Model {
        models.flatten().collect()
    }

    fn step(&mut self, model: &mut Self::Model, step: &ReduceStep) {
        match step {
            ReduceStep::Add(rows) => {
                let ids: Vec<i64> = rows.iter().map(|(id, _)| *id).collect();
                let values: Vec<_> = rows.iter().map(|(_, value)| *value).collect();
                let columns = vec![numbers(&values); 6];
                self.add(&keys(&ids), &columns).unwrap();
                for (id, value) in rows {
                    let [sum, min, max, count, first, last] =
                        model.entry(*id).or_insert([None, None, None, Some(0), None, None]);
                    let Some(value) = *value else { continue };
                    *sum = Some(sum.unwrap_or(0) + value);
                    *min = Some(min.map_or(value, |min| min.min(value)));
                    *max = Some(max.map_or(value, |max| max.max(value)));
                    *count = count.map(|count| count + 1);
                    first.get_or_insert(value);
                    *last = Some(value);
                }
            }
            ReduceStep::Clear(ids) => {
                self.clear(&keys(ids)).unwrap();
                ids.iter().for_each(|id| {
                    model.remove(id);
                });
            }
            ReduceStep::Get(ids) => {
                let found = self.get(&keys(ids)).unwrap();
                let columns: Vec<_> = found.columns.iter().map(read_numbers).collect();
                for (at, id) in ids.iter().enumerate() {
                    let found = found.present.value(at).then(|| {
                        Folded::try_from(columns.iter().map(|c| c[at]).collect::<Vec<_>>()).unwrap()
                    });
                    assert_eq!(found, model.get(id).copied(), "key {id}");
                }
            }
        }
    }

    fn everything() -> ReduceStep {
        ReduceStep::Get((0..20).collect())
    }

    fn freeze(&mut self, checkpoint: u64) {
        ReducingState::freeze(self, checkpoint).unwrap();
    }
}

fn reduce_step() -> impl Strategy<Value = ReduceStep> {
    let row = (0..20_i64, proptest::option::of(-50..50_i64));
    let ids = proptest::collection::vec(0..20_i64, 1..6);
    prop_oneof![
        4 => proptest::collection::vec(row, 1..20).prop_map(ReduceStep::Add),
        1 => ids.clone().prop_map(ReduceStep::Clear),
        2 => ids.prop_map(ReduceStep::Get),
    ]
}

// Timers.

#[derive(Debug, Clone)]
enum TimerStep {
    Set(Vec<(i64, i64)>),
    Delete(Vec<(i64, i64)>),
    TakeDue(i64, usize),
    Next,
}

impl Subject for Timers {
    type Step = TimerStep;
    type Model = BTreeSet<(i64, i64)>;

    fn kind() -> StateKind {
        StateKind::Timers
    }

    fn new(table: &StateTable, subtask: u32) -> Self {
        table.timers(subtask).unwrap()
    }

    fn part_of_step(step: &TimerStep, owns: &dyn Fn(i64) -> bool) -> TimerStep {
        match step {
            TimerStep::Set(timers) => TimerStep::Set(owned(timers, |timer| timer.1, owns)),
            TimerStep::Delete(timers) => TimerStep::Delete(owned(timers, |timer| timer.1, owns)),
            TimerStep::TakeDue(..) | TimerStep::Next => step.clone(),
        }
    }

    fn part_of_model(model: &Self::Model, owns: &dyn Fn(i64) -> bool) -> Self::Model {
        model.iter().filter(|(_, id)| owns(*id)).copied().collect()
    }

    fn together(models: impl Iterator<Item = Self::Model>) -> Self::Model {
        models.flatten().collect()
    }

    fn step(&mut self, model: &mut Self::Model, step: &TimerStep) {
        let named = |timers: &[(i64, i64)]| {
            let ids: Vec<i64> = timers.iter().map(|(_, id)| *id).collect();
            let at: Vec<i64> = timers.iter().map(|(time, _)| *time).collect();
            (keys(&ids), times(&at))
        };
        match step {
            TimerStep::Set(timers) => {
                let (keys, times) = named(timers);
                self.set(&keys, &times).unwrap();
                model.extend(timers);
            }
            TimerStep::Delete(timers) => {
                let (keys, times) = named(timers);
                self.delete(&keys, &times).unwrap();
                timers.iter().for_each(|timer| {
                    model.remove(timer);
                });
            }
            TimerStep::TakeDue(time, limit) => {
                let found = self.take_due(*time, *limit).unwrap();
                let times = found.times.as_primitive::<TimestampMillisecondType>().values();
                let ids = found.key[0].as_primitive::<Int64Type>().values();
                let found: Vec<_> = times.iter().copied().zip(ids.iter().copied()).collect();
                let wanted: Vec<_> =
                    model.iter().copied().filter(|(at, _)| at <= time).take(*limit).collect();
                assert_eq!(found, wanted);
                wanted.iter().for_each(|timer| {
                    model.remove(timer);
                });
            }
            TimerStep::Next => {
                assert_eq!(self.next_ms().unwrap(), model.first().map(|(time, _)| *time));
            }
        }
    }

    fn everything() -> TimerStep {
        TimerStep::TakeDue(i64::MAX, 10_000)
    }

    fn freeze(&mut self, checkpoint: u64) {
        Timers::freeze(self, checkpoint).unwrap();
    }
}

fn timer_step() -> impl Strategy<Value = TimerStep> {
    let timers = || proptest::collection::vec((-20..100_i64, 0..20_i64), 1..15);
    prop_oneof![
        4 => timers().prop_map(TimerStep::Set),
        2 => timers().prop_map(TimerStep::Delete),
        2 => (-20..100_i64, 1..20_usize).prop_map(|(time, limit)| TimerStep::TakeDue(time, limit)),
        1 => Just(TimerStep::Next),
    ]
}

pub(crate) fn tiny_buffers() -> StoreOptions {
    StoreOptions { write_buffer_limit_bytes: 512, ..eager() }
}

pub(crate) fn no_cache() -> StoreOptions {
    StoreOptions { read_cache_limit_bytes: 0, ..eager() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn value_state_answers_like_a_map(events in events(value_step())) {
        run::<ValueState>(&events, &no_cache());
        run::<ValueState>(&events, &tiny_buffers());
    }

    #[test]
    fn list_answers_like_vectors(events in events(list_step())) {
        run::<ListState>(&events, &no_cache());
        run::<ListState>(&events, &tiny_buffers());
    }

    #[test]
    fn map_answers_like_a_map_of_maps(events in events(map_step())) {
        run::<MapState>(&events, &no_cache());
        run::<MapState>(&events, &tiny_buffers());
    }

    #[test]
    fn reducing_state_answers_like_a_fold(events in events(reduce_step())) {
        run::<ReducingState>(&events, &no_cache());
        run::<ReducingState>(&events, &tiny_buffers());
    }

    #[test]
    fn timers_answer_like_a_sorted_set(events in events(timer_step()), limit in 1..6_usize) {
        run::<Timers>(&events, &no_cache());
        run::<Timers>(&events, &StoreOptions { timers_in_memory: limit, ..no_cache() });
        run::<Timers>(&events, &StoreOptions { timers_in_memory: limit, ..tiny_buffers() });
    }
}

/// Rows that the files of a snapshot have more than those of the one before.
fn rows_added(warehouse: &Path, snapshot: i64) -> i64 {
    let name = format!("snapshot-{snapshot}");
    let paths = crate::fixture::files_in(warehouse, "snapshot");
    let path = paths.iter().find(|path| path.ends_with(&name)).unwrap();
    let snapshot: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    snapshot["deltaRecordCount"].as_i64().unwrap()
}

/// A map of 10,000 entries under one key, on disk; the state that wrote it.
fn large_map(warehouse: &Path) -> (StateStore, MapState, Vec<u32>, ArrayRef, i64) {
    let kind = StateKind::Map { map_key: map_key() };
    // Merges would add rows of their own.
    let options = StoreOptions { merge_trigger_runs: 50, ..no_cache() };
    let (store, table) = open(warehouse, kind, options, Restore::Fresh);
    let mut state = table.map_state(0).unwrap();
    let items: Vec<String> = (0..10_000).map(|item| format!("item-{item:05}")).collect();
    let (key_of, items) = (vec![0; items.len()], texts(&items));
    let values = numbers(&vec![Some(1); key_of.len()]);
    state.put(&keys(&[7]), &key_of, std::slice::from_ref(&items), &[values]).unwrap();
    state.freeze(1).unwrap();
    let snapshot = published(&store);
    (store, state, key_of, items, snapshot)
}

#[test]
fn one_changed_entry_of_a_large_map_writes_one_row() {
    let directory = scratch();
    let (store, mut state, key_of, items, _) = large_map(directory.path());
    // The operator reads the map, changes an entry, and writes the whole map back.
    let found = state.entries(&keys(&[7]), 20_000).unwrap();
    let mut values = read_numbers(&found.columns[0]);
    values[5_000] = Some(2);
    state.put(&keys(&[7]), &key_of, &[items], &[numbers(&values)]).unwrap();
    state.freeze(2).unwrap();
    assert_eq!(rows_added(directory.path(), published(&store)), 1);
}

#[test]
fn change_of_a_map_that_is_taken_back_writes_nothing() {
    let directory = scratch();
    let (store, mut state, _, _, snapshot) = large_map(directory.path());
    let (known, new) = ([texts(&["item-00042".to_owned()])], [texts(&["new".to_owned()])]);
    let key = keys(&[7]);
    state.get(&key, &[0], &known).unwrap();
    state.get(&key, &[0], &new).unwrap();
    state.put(&key, &[0], &known, &[numbers(&[Some(9)])]).unwrap();
    state.put(&key, &[0], &new, &[numbers(&[Some(9)])]).unwrap();
    state.delete(&key, &[0], &new).unwrap();
    state.delete(&key, &[0], &known).unwrap();
    state.put(&key, &[0], &known, &[numbers(&[Some(1)])]).unwrap();
    state.freeze(2).unwrap();
    assert_eq!(published(&store), snapshot);
}

#[test]
fn all_entries_of_a_map_cost_one_probe() {
    let directory = scratch();
    let kind = StateKind::Map { map_key: map_key() };
    let (_store, table) = open(directory.path(), kind, eager(), Restore::Fresh);
    let mut state = table.map_state(0).unwrap();
    let ids: Vec<i64> = (0..100).collect();
    state.entries(&keys(&ids), 10).unwrap();
    assert_eq!(table.metrics().probes_total, 1);
}

#[test]
fn appending_to_a_list_probes_nothing() {
    let directory = scratch();
    let (store, table) = open(directory.path(), StateKind::List, eager(), Restore::Fresh);
    let mut state = table.list_state(0).unwrap();
    for checkpoint in 1..5 {
        state.append(&keys(&[1, 2]), &[0, 1, 0], &[numbers(&[Some(1), None, Some(2)])]).unwrap();
        state.freeze(checkpoint).unwrap();
        published(&store);
    }
    assert_eq!(table.metrics().probes_total, 0);
}

#[test]
fn limit_of_a_list_says_that_there_is_more() {
    let directory = scratch();
    let (_store, table) = open(directory.path(), StateKind::List, eager(), Restore::Fresh);
    let mut state = table.list_state(0).unwrap();
    let keys = keys(&[1, 2]);
    state.append(&keys, &[0, 1, 0], &[numbers(&[Some(1), None, Some(2)])]).unwrap();
    let found = state.get(&keys, 2).unwrap();
    assert_eq!(found.more.iter().collect::<Vec<_>>(), [true, false]);
}

#[test]
fn sum_that_its_column_cannot_hold_is_refused_and_changes_nothing() {
    let directory = scratch();
    let (_store, table) = open(directory.path(), reducers(), eager(), Restore::Fresh);
    let mut state = table.reducing_state(0).unwrap();
    state.add(&keys(&[1]), &vec![numbers(&[Some(i64::MAX)]); 6]).unwrap();
    let error = state.add(&keys(&[2, 1]), &vec![numbers(&[Some(1), Some(1)]); 6]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("column `v0`: the sum is too large"), "{error}");
    let found = state.get(&keys(&[1, 2])).unwrap();
    assert_eq!(found.present.iter().collect::<Vec<_>>(), [true, false]);
    assert_eq!(read_numbers(&found.columns[0])[0], Some(i64::MAX));
}

#[test]
fn reducer_that_cannot_fold_a_column_is_refused() {
    let directory = scratch();
    let store = StateStore::open(directory.path(), "default", eager()).unwrap();
    let wanted = StateDescriptor {
        value: vec![Column::nullable("text", ColumnType::Utf8)],
        ..descriptor(StateKind::Reducing { reducers: vec![Reducer::Sum] }, None)
    };
    let error = store.open_table(&wanted, Restore::Fresh).unwrap_err();
    assert!(error.to_string().contains("column `text` is utf8, which has no sum"), "{error}");
}

#[test]
fn handle_of_another_kind_is_refused() {
    let directory = scratch();
    let (_store, table) = open(directory.path(), StateKind::List, eager(), Restore::Fresh);
    let error = table.value_state(0).unwrap_err();
    assert!(error.to_string().contains("is of kind list, not value"), "{error}");
}

#[test]
fn table_of_another_kind_is_refused() {
    let directory = scratch();
    let (store, table) = open(directory.path(), StateKind::List, eager(), Restore::Fresh);
    let mut state = table.list_state(0).unwrap();
    state.append(&keys(&[1]), &[0], &[numbers(&[Some(1)])]).unwrap();
    state.freeze(1).unwrap();
    let snapshot = published(&store);
    store.close().unwrap();
    let store = StateStore::open(directory.path(), "default", eager()).unwrap();
    let wanted = descriptor(StateKind::Value, None);
    let error = store.open_table(&wanted, Restore::Snapshot(snapshot)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("kind: stored list, asked for value"), "{error}");
}

#[test]
fn more_timers_than_may_be_in_memory_are_due_in_order() {
    let directory = scratch();
    let options = StoreOptions { timers_in_memory: 100, ..no_cache() };
    let (store, table) = open(directory.path(), StateKind::Timers, options, Restore::Fresh);
    let mut state = table.timers(0).unwrap();
    let ids: Vec<i64> = (0..20_000).collect();
    let at: Vec<i64> = ids.iter().map(|id| id * 7_919 % 20_000).collect();
    for ((ids, at), checkpoint) in ids.chunks(5_000).zip(at.chunks(5_000)).zip(1..) {
        state.set(&keys(ids), &times(at)).unwrap();
        state.freeze(checkpoint).unwrap();
        published(&store);
    }
    let mut found: Vec<i64> = Vec::new();
    loop {
        let due = state.take_due(19_000, 777).unwrap();
        let times = due.times.as_primitive::<TimestampMillisecondType>();
        if times.is_empty() {
            break;
        }
        found.extend(times.values());
    }
    assert_eq!(found, (0..=19_000).collect::<Vec<_>>());
}

fn get(warehouse: &Path, key: &[&str]) -> Vec<arrow_array::RecordBatch> {
    let reader = StateReader::open(warehouse, "default", crate::fixture::TABLE).unwrap();
    let key: Vec<String> = key.iter().map(|&text| text.to_owned()).collect();
    reader.get(&At::Latest, &key).unwrap()
}

#[test]
fn reader_gets_the_entries_of_a_map_or_one_of_them() {
    let directory = scratch();
    let kind = StateKind::Map { map_key: map_key() };
    let (store, table) = open(directory.path(), kind, eager(), Restore::Fresh);
    let mut state = table.map_state(0).unwrap();
    for (checkpoint, items) in [(1, ["c", "a"]), (2, ["b", "d"])] {
        let items = texts(&items.map(str::to_owned));
        state.put(&keys(&[7, 8]), &[0, 0], &[items], &[numbers(&[Some(1), None])]).unwrap();
        state.freeze(checkpoint).unwrap();
        published(&store);
    }
    let entries = get(directory.path(), &["7"]);
    let items: Vec<_> = entries[0].column(2).as_string::<i32>().iter().flatten().collect();
    assert_eq!(items, ["a", "b", "c", "d"]);
    assert_eq!(get(directory.path(), &["7", "d"])[0].num_rows(), 1);
    assert!(get(directory.path(), &["8"]).is_empty());
}

#[test]
fn reader_gets_the_timers_of_a_key() {
    let directory = scratch();
    let (store, table) = open(directory.path(), StateKind::Timers, eager(), Restore::Fresh);
    let mut state = table.timers(0).unwrap();
    state.set(&keys(&[7, 8, 7]), &times(&[30, 20, 10])).unwrap();
    state.freeze(1).unwrap();
    published(&store);
    let found: usize =
        get(directory.path(), &["7"]).iter().map(arrow_array::RecordBatch::num_rows).sum();
    assert_eq!(found, 2);
}

#[test]
fn timers_stay_set_when_those_after_them_cannot_be_read() {
    let directory = scratch();
    let options = StoreOptions { read_mode: ReadMode::Pread, ..no_cache() };
    let (store, table) = open(directory.path(), StateKind::Timers, options, Restore::Fresh);
    let mut state = table.timers(0).unwrap();
    let ids: Vec<i64> = (0..8).collect();
    state.set(&keys(&ids), &times(&ids)).unwrap();
    state.freeze(1).unwrap();
    let snapshot = published(&store);
    drop((state, table, store));
    let mut failed_reads = 0;
    for call in 0.. {
        let faults = Faults::at(call, Fault::Once(5));
        let options = StoreOptions {
            read_mode: ReadMode::Pread,
            timers_in_memory: 2,
            faults: Some(faults.clone()),
            ..no_cache()
        };
        let wanted = descriptor(StateKind::Timers, None);
        let opened = StateStore::open(directory.path(), "default", options)
            .and_then(|store| Ok((store.open_table(&wanted, Restore::Snapshot(snapshot))?, store)));
        let Ok((table, _store)) = opened else { continue };
        if faults.calls() > call && faults.failed().is_some() {
            continue;
        }
        let mut state = table.timers(0).unwrap();
        let taken = match state.take_due(100, 100) {
            Ok(due) => due,
            Err(_) => {
                failed_reads += 1;
                state.take_due(100, 100).unwrap()
            }
        };
        assert_eq!(taken.times.len(), 8, "call {call}: {:?}", faults.failed());
        if faults.failed().is_none() {
            break;
        }
    }
    assert!(failed_reads > 0);
}

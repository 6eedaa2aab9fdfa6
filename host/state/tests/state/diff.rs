//! Two versions of a table differ in exactly the rows that were added, removed or changed between
//! them, whatever was flushed, merged or spread over other subtasks meanwhile.

use crate::effort::scratch;
use crate::fixture::{Fixture, Model, TABLE, descriptor, eager, keys, model_rows, rows};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use howdah_state::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Values = (i64, Option<String>);
type Differences = BTreeMap<i64, (Option<Values>, Option<Values>)>;

fn reader(warehouse: &Path) -> StateReader {
    StateReader::open(warehouse, "default", TABLE).unwrap()
}

fn differences(diff: StateDiff) -> Differences {
    let mut found = Differences::new();
    for rows in diff {
        let ChangedRows { changes, key, before, after } = rows.unwrap();
        let ids = key.column(1).as_primitive::<Int64Type>().clone();
        let (before, after) = (model_rows(before.columns()), model_rows(after.columns()));
        for (row, change) in changes.into_iter().enumerate() {
            let before = (change != RowChange::Added).then(|| before[row].clone());
            let after = (change != RowChange::Removed).then(|| after[row].clone());
            assert_eq!(before.is_some() && after.is_some(), change == RowChange::Changed);
            assert!(found.insert(ids.value(row), (before, after)).is_none(), "{}", ids.value(row));
        }
    }
    found
}

fn expected(before: &Model, after: &Model) -> Differences {
    let ids = before.keys().chain(after.keys());
    let sides = |id: &i64| (before.get(id).cloned(), after.get(id).cloned());
    ids.map(|id| (*id, sides(id))).filter(|(_, (before, after))| before != after).collect()
}

#[test]
fn every_two_versions_differ_in_what_was_done_between_them() {
    let root = scratch();
    let mut model = Model::new();
    let mut versions: Vec<(u64, Model)> = Vec::new();
    let mut restore = Restore::Fresh;
    let mut checkpoint = 0;
    for parallelism in [2, 3, 1] {
        let mut fixture = Fixture::open(root.path(), parallelism, eager(), restore).unwrap();
        for _ in 0..6 {
            checkpoint += 1;
            let round = i64::try_from(checkpoint).unwrap();
            let ids = (0..400_i64).filter(|id| id * 7 % (3 + round) == 0);
            let changed: Model =
                ids.map(|id| (id, (id % 3 * (round % 2), Some(format!("{}", id % 5))))).collect();
            fixture.put(&changed).unwrap();
            model.extend(changed);
            let gone: Vec<i64> = (0..20).map(|i| (i * 19 + round * 31) % 400).collect();
            fixture.delete(&gone).unwrap();
            gone.iter().for_each(|id| drop(model.remove(id)));
            restore = Restore::Rescaled(fixture.checkpoint(checkpoint));
            versions.push((checkpoint, model.clone()));
        }
        fixture.store.close().unwrap();
    }
    let reader = reader(root.path());
    for (from, before) in &versions {
        for (to, after) in &versions {
            let (from_at, to_at) = (At::Checkpoint(*from), At::Checkpoint(*to));
            let diff = StateDiff::between(Some((&reader, &from_at)), Some((&reader, &to_at)));
            let found = differences(diff.unwrap());
            assert_eq!(found, expected(before, after), "from {from} to {to}");
        }
    }
    let (last, model) = versions.last().unwrap();
    let at = At::Checkpoint(*last);
    let all = StateDiff::between(None, Some((&reader, &at))).unwrap();
    assert_eq!(differences(all), expected(&Model::new(), model));
    assert_eq!(reader.check_keys(&at).unwrap(), model.len() as u64);
}

#[test]
fn a_column_that_came_later_was_null_before() {
    let root = scratch();
    let mut fixture = Fixture::open(root.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 10, "a"), (2, 20, "b")])).unwrap();
    let snapshot = fixture.checkpoint(1);
    fixture.store.close().unwrap();
    let mut wanted = descriptor(1);
    wanted.value.push(Column::nullable("also", ColumnType::Int64));
    let store = StateStore::open(root.path(), "default", eager()).unwrap();
    let table = store.open_table(&wanted, Restore::Snapshot(snapshot)).unwrap();
    let mut state = table.value_state(0).unwrap();
    let number = || Arc::new(Int64Array::from(vec![20]));
    state.put(&keys(&[2]), &[number(), Arc::new(StringArray::from(vec!["b"])), number()]).unwrap();
    state.freeze(2).unwrap();
    store.wait_published(2).unwrap();
    let reader = reader(root.path());
    let (before, after) = (At::Checkpoint(1), At::Checkpoint(2));
    let diff = StateDiff::between(Some((&reader, &before)), Some((&reader, &after))).unwrap();
    let found: Vec<ChangedRows> = diff.collect::<Result<_>>().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].changes, [RowChange::Changed]);
    let also = |rows: &RecordBatch| rows.column(2).as_primitive::<Int64Type>().iter().next();
    assert_eq!((also(&found[0].before), also(&found[0].after)), (Some(None), Some(Some(20))));
}

#[test]
fn versions_whose_keys_differ_are_refused() {
    let (one, other) = (scratch(), scratch());
    let mut fixture = Fixture::open(one.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.checkpoint(1);
    let store = StateStore::open(other.path(), "default", eager()).unwrap();
    let key = vec![Column::required("other", ColumnType::Int64)];
    let wanted = StateDescriptor { key, ..descriptor(1) };
    let table = store.open_table(&wanted, Restore::Fresh).unwrap();
    table.value_state(0).unwrap().freeze(1).unwrap();
    store.wait_published(1).unwrap();
    let (one, other) = (reader(one.path()), reader(other.path()));
    let at = At::Checkpoint(1);
    let error = StateDiff::between(Some((&one, &at)), Some((&other, &at))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("other kinds or keys"), "{error}");
}

/// All rows of a table, loaded into another one that has another parallelism.
fn copied(from: &Path, to: &Path, wanted: &StateDescriptor) -> Result<u64> {
    let store = StateStore::open(to, "default", eager())?;
    let table = store.open_table(wanted, Restore::Fresh)?;
    let mut loader = table.loader()?;
    let columns = wanted.loader_columns();
    let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
    let copied = reader(from).read_ordered(&At::Latest, |batch| {
        let schema = batch.schema();
        let at = |name: &String| schema.index_of(name).unwrap();
        loader.load(&batch.project(&names.iter().map(at).collect::<Vec<_>>()).unwrap())
    })?;
    loader.freeze(1)?;
    store.wait_published(1)?;
    Ok(copied)
}

#[test]
fn rows_that_are_loaded_elsewhere_are_the_same() {
    let (one, other) = (scratch(), scratch());
    let mut fixture = Fixture::open(one.path(), 3, eager(), Restore::Fresh).unwrap();
    let model: Model = (0..5_000).map(|id| (id, (id, Some(id.to_string())))).collect();
    fixture.put(&model).unwrap();
    fixture.checkpoint(1);
    assert_eq!(copied(one.path(), other.path(), &descriptor(2)).unwrap(), 5_000);
    let (before, after) = (reader(one.path()), reader(other.path()));
    let at = At::Latest;
    let diff = StateDiff::between(Some((&before, &at)), Some((&after, &at))).unwrap();
    assert_eq!(differences(diff), Differences::new());
    assert_eq!(after.check_keys(&at).unwrap(), 5_000);
}

#[test]
fn elements_of_a_list_keep_their_order_when_they_are_loaded() {
    let (one, other) = (scratch(), scratch());
    let wanted = StateDescriptor { kind: StateKind::List, ..descriptor(1) };
    let store = StateStore::open(one.path(), "default", eager()).unwrap();
    let table = store.open_table(&wanted, Restore::Fresh).unwrap();
    let mut list = table.list_state(0).unwrap();
    for (checkpoint, number) in (1..).zip([5_i64, 3, 9, 1]) {
        let columns = [number, number + 1];
        let numbers = Arc::new(Int64Array::from(columns.to_vec()));
        let texts = Arc::new(StringArray::from(vec![None::<&str>; 2]));
        list.append(&keys(&[7, 8]), &[0, 1], &[numbers, texts]).unwrap();
        list.freeze(checkpoint).unwrap();
        store.wait_published(checkpoint).unwrap();
    }
    copied(one.path(), other.path(), &wanted).unwrap();
    let numbers = |rows: Vec<RecordBatch>| -> Vec<i64> {
        let numbers = rows.iter().map(|batch| batch.column_by_name("number").unwrap().clone());
        numbers.flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec()).collect()
    };
    let found = reader(other.path()).get(&At::Latest, &["8"]).unwrap();
    assert_eq!(numbers(found), [6, 4, 10, 2]);
}

#[test]
fn a_key_that_is_loaded_twice_is_named() {
    let root = scratch();
    let store = StateStore::open(root.path(), "default", eager()).unwrap();
    let table = store.open_table(&descriptor(2), Restore::Fresh).unwrap();
    let mut loader = table.loader().unwrap();
    let fields: Vec<_> = descriptor(2).loader_columns().iter().map(Column::to_arrow).collect();
    let batch = |ids: Vec<i64>| {
        let texts = StringArray::from(vec![None::<&str>; ids.len()]);
        let ids = Arc::new(Int64Array::from(ids));
        let schema = Arc::new(Schema::new(fields.clone()));
        RecordBatch::try_new(schema, vec![ids.clone(), ids, Arc::new(texts)]).unwrap()
    };
    loader.load(&batch((0..2_000).collect())).unwrap();
    for twice in [vec![5_000, 5_001, 5_000], vec![6_000, 77]] {
        let error = loader.load(&batch(twice)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("more than one row with the key id="), "{error}");
    }
}

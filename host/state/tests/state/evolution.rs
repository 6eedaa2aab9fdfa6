//! Columns that come and widen.

use crate::effort::scratch;
use crate::fixture::{TABLE, descriptor, eager, files_in, keys};
use crate::oracle;
use arrow_array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array};
use arrow_array::{RecordBatch, StringArray};
use howdah_state::*;
use std::path::Path;
use std::sync::Arc;

fn described(value: Vec<Column>, ttl_ms: Option<u64>) -> StateDescriptor {
    StateDescriptor { value, ttl_ms, ..descriptor(2) }
}

fn decimal(precision: u8) -> ColumnType {
    ColumnType::Decimal128 { precision, scale: 2 }
}

/// The columns of a table at first.
fn narrow() -> Vec<Column> {
    vec![
        Column::required("number", ColumnType::Int32),
        Column::required("ratio", ColumnType::Float32),
        Column::required("price", decimal(7)),
    ]
}

/// All that may become of them.
fn wide() -> Vec<Column> {
    vec![
        Column::nullable("number", ColumnType::Int64),
        Column::required("ratio", ColumnType::Float64),
        Column::required("price", decimal(20)),
        Column::nullable("text", ColumnType::Utf8),
    ]
}

fn narrow_values(ids: &[i64]) -> Vec<ArrayRef> {
    let ids = || ids.iter().map(|&id| id as i32);
    let prices = Decimal128Array::from_iter_values(ids().map(i128::from));
    vec![
        Arc::new(Int32Array::from_iter_values(ids())),
        Arc::new(Float32Array::from_iter_values(ids().map(|id| id as f32 / 2.0))),
        Arc::new(prices.with_precision_and_scale(7, 2).unwrap()),
    ]
}

fn wide_values(ids: &[i64]) -> Vec<ArrayRef> {
    let ids = || ids.iter().copied();
    let prices = Decimal128Array::from_iter_values(ids().map(i128::from));
    vec![
        Arc::new(Int64Array::from_iter(ids().map(|id| (id % 2 == 0).then_some(id << 33)))),
        Arc::new(Float64Array::from_iter_values(ids().map(|id| id as f64 / 2.0))),
        Arc::new(prices.with_precision_and_scale(20, 2).unwrap()),
        Arc::new(StringArray::from_iter_values(ids().map(|id| format!("t{id}")))),
    ]
}

/// An open table of two subtasks.
struct Open {
    store: StateStore,
    subtasks: Vec<ValueState>,
    groups: KeyGroups,
}

impl Open {
    fn new(warehouse: &Path, wanted: &StateDescriptor, restore: Restore) -> Result<Self> {
        let options = StoreOptions { snapshot_retained_ms: 60_000, ..eager() };
        let store = StateStore::open(warehouse, "default", options)?;
        let table = store.open_table(wanted, restore)?;
        let subtasks = (0..wanted.parallelism).map(|i| table.value_state(i)).collect::<Result<_>>();
        let groups = KeyGroups::new(wanted.key_groups, wanted.parallelism)?;
        Ok(Self { store, subtasks: subtasks?, groups })
    }

    fn split(&self, ids: &[i64]) -> Vec<Vec<i64>> {
        let mut split = vec![Vec::new(); self.subtasks.len()];
        for &id in ids {
            let hash = keys(&[id]).encoded().hashes()[0];
            split[self.groups.subtask_of(hash) as usize].push(id);
        }
        split
    }

    fn put(&mut self, ids: &[i64], values: impl Fn(&[i64]) -> Vec<ArrayRef>) {
        for (subtask, ids) in self.split(ids).into_iter().enumerate() {
            self.subtasks[subtask].put(&keys(&ids), &values(&ids)).unwrap();
        }
    }

    fn checkpoint(&mut self, checkpoint: u64) -> i64 {
        for subtask in &mut self.subtasks {
            subtask.freeze(checkpoint).unwrap();
        }
        match self.store.events().recv().unwrap() {
            StateEvent::Published { snapshot, .. } => snapshot,
            StateEvent::Failed { error, .. } => panic!("{error}"),
        }
    }

    /// The rows of these keys as text, one line each, in their order.
    fn get(&mut self, ids: &[i64]) -> Vec<String> {
        let mut lines = Vec::new();
        for (subtask, ids) in self.split(ids).into_iter().enumerate() {
            let rows = self.subtasks[subtask].get(&keys(&ids)).unwrap();
            let texts = texts(&rows.columns);
            let found = ids.iter().zip(&texts).enumerate();
            let found = found.filter(|(at, _)| rows.present.value(*at));
            lines.extend(found.map(|(_, (id, text))| (*id, format!("{id}{text}"))));
        }
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// The columns of each row, as pypaimon's values are written as text.
fn texts(columns: &[ArrayRef]) -> Vec<String> {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    let rows = columns.first().map_or(0, Array::len);
    let text = |column: &ArrayRef, row: usize| {
        if column.is_null(row) {
            return String::new();
        }
        match column.data_type() {
            arrow_schema::DataType::Int32 => {
                column.as_primitive::<Int32Type>().value(row).to_string()
            }
            arrow_schema::DataType::Int64 => {
                column.as_primitive::<Int64Type>().value(row).to_string()
            }
            arrow_schema::DataType::Float32 => {
                format!("{:?}", column.as_primitive::<Float32Type>().value(row))
            }
            arrow_schema::DataType::Float64 => {
                format!("{:?}", column.as_primitive::<Float64Type>().value(row))
            }
            arrow_schema::DataType::Decimal128(..) => {
                column.as_primitive::<Decimal128Type>().value_as_string(row)
            }
            arrow_schema::DataType::Timestamp(..) => {
                column.as_primitive::<TimestampMillisecondType>().value(row).to_string()
            }
            _ => column.as_string::<i32>().value(row).to_owned(),
        }
    };
    (0..rows)
        .map(|row| columns.iter().map(|column| format!(",{}", text(column, row))).collect())
        .collect()
}

/// All rows at a version as text, in the order of their keys, and the names of the columns.
fn scan(warehouse: &Path, at: At) -> (String, Vec<String>) {
    let reader = StateReader::open(warehouse, "default", TABLE).unwrap();
    let schema = reader.schema_at(&at).unwrap();
    let names: Vec<&str> = schema.fields().iter().skip(1).map(|f| f.name().as_str()).collect();
    let mut lines = Vec::new();
    for batch in reader.scan(&at, None).unwrap() {
        assert_eq!(RecordBatch::schema(&batch), schema);
        for line in texts(&batch.columns()[1..]) {
            let id: i64 = line[1..].split(',').next().unwrap().parse().unwrap();
            lines.push((id, line[1..].to_owned()));
        }
    }
    lines.sort();
    (names.join(","), lines.into_iter().map(|(_, line)| line).collect())
}

fn compare_with_oracle(warehouse: &Path, tag: Option<&str>, at: At) {
    let (names, lines) = scan(warehouse, at);
    oracle::compare_text(warehouse, TABLE, tag, &format!("{names}\n{}\n", lines.join("\n")));
}

#[test]
fn columns_are_added_and_widened_and_old_snapshots_keep_their_shape() {
    let root = scratch();
    let warehouse = root.path();
    let ids: Vec<i64> = (0..40).collect();
    let mut open = Open::new(warehouse, &described(narrow(), None), Restore::Fresh).unwrap();
    open.put(&ids, narrow_values);
    let first = open.checkpoint(1);
    drop(open);

    let wanted = described(wide(), None);
    let mut open = Open::new(warehouse, &wanted, Restore::Snapshot(first)).unwrap();
    assert_eq!(open.get(&[3, 4]), ["3,3,1.5,0.03,", "4,4,2.0,0.04,"]);
    // Before anything is written in the new shape.
    compare_with_oracle(warehouse, None, At::Latest);
    open.put(&[4, 5, 50], wide_values);
    open.checkpoint(2);
    let after = ["3,3,1.5,0.03,", "4,34359738368,2.0,0.04,t4", "5,,2.5,0.05,t5"];
    assert_eq!(open.get(&[3, 4, 5]), after);
    drop(open);
    let (names, lines) = scan(warehouse, At::Latest);
    assert_eq!((names.as_str(), lines.len()), ("id,number,ratio,price,text", 41));
    assert_eq!(lines[3..6], after);
    let (names, lines) = scan(warehouse, At::Checkpoint(1));
    assert_eq!((names.as_str(), lines.len()), ("id,number,ratio,price", 40));
    compare_with_oracle(warehouse, None, At::Latest);
    compare_with_oracle(warehouse, Some("checkpoint-1"), At::Checkpoint(1));
}

#[test]
fn merged_and_rescaled_files_of_several_shapes_keep_their_rows() {
    let root = scratch();
    let warehouse = root.path();
    let ids: Vec<i64> = (0..40).collect();
    let mut open = Open::new(warehouse, &described(narrow(), None), Restore::Fresh).unwrap();
    open.put(&ids, narrow_values);
    let first = open.checkpoint(1);
    drop(open);
    // New columns and another parallelism in one step.
    let wanted = StateDescriptor { parallelism: 3, ..described(wide(), None) };
    let mut open = Open::new(warehouse, &wanted, Restore::Rescaled(first)).unwrap();
    assert_eq!(open.get(&[3]), ["3,3,1.5,0.03,"]);
    let mut last = first;
    for round in 0..8_i64 {
        open.put(&[round, 60 + round], wide_values);
        last = open.checkpoint(2 + round as u64);
    }
    assert_eq!(open.get(&[3, 20]), ["3,,1.5,0.03,t3", "20,20,10.0,0.20,"]);
    drop(open);
    let mut open = Open::new(warehouse, &wanted, Restore::Snapshot(last)).unwrap();
    assert_eq!(open.get(&[3, 20]), ["3,,1.5,0.03,t3", "20,20,10.0,0.20,"]);
    compare_with_oracle(warehouse, None, At::Latest);
}

#[test]
fn rolling_back_to_before_an_evolution_brings_the_old_shape_back() {
    let root = scratch();
    let warehouse = root.path();
    let mut open = Open::new(warehouse, &described(narrow(), None), Restore::Fresh).unwrap();
    open.put(&[1, 2], narrow_values);
    let first = open.checkpoint(1);
    drop(open);
    let wanted = described(wide(), None);
    let mut open = Open::new(warehouse, &wanted, Restore::Snapshot(first)).unwrap();
    open.put(&[1], wide_values);
    let second = open.checkpoint(2);
    drop(open);
    // The operator from before does not fit what came later.
    let narrow = described(narrow(), None);
    let error = Open::new(warehouse, &narrow, Restore::Snapshot(second)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("keep the column"), "{error}");
    let mut open = Open::new(warehouse, &narrow, Restore::Snapshot(first)).unwrap();
    assert_eq!(open.get(&[1, 2]), ["1,1,0.5,0.01", "2,2,1.0,0.02"]);
    compare_with_oracle(warehouse, None, At::Latest);
    open.put(&[3], narrow_values);
    let third = open.checkpoint(2);
    drop(open);
    compare_with_oracle(warehouse, None, At::Latest);
    // And forward again, where the new column gets the number that it had.
    let mut open = Open::new(warehouse, &wanted, Restore::Snapshot(third)).unwrap();
    assert_eq!(open.get(&[3]), ["3,3,1.5,0.03,"]);
    open.put(&[4], wide_values);
    open.checkpoint(3);
    compare_with_oracle(warehouse, None, At::Latest);
}

#[test]
fn opening_again_in_the_same_shape_writes_no_schema() {
    let root = scratch();
    let warehouse = root.path();
    let mut open = Open::new(warehouse, &described(narrow(), None), Restore::Fresh).unwrap();
    let first = open.checkpoint(1);
    drop(open);
    let wanted = described(wide(), None);
    for _ in 0..3 {
        drop(Open::new(warehouse, &wanted, Restore::Snapshot(first)).unwrap());
    }
    assert_eq!(files_in(warehouse, "schema").len(), 2);
    let newest = std::fs::read(&files_in(warehouse, "schema")[1]).unwrap();
    let newest: serde_json::Value = serde_json::from_slice(&newest).unwrap();
    let ids: Vec<i64> =
        newest["fields"].as_array().unwrap().iter().map(|f| f["id"].as_i64().unwrap()).collect();
    assert_eq!((ids, newest["highestFieldId"].as_i64()), (vec![0, 1, 2, 3, 4, 5], Some(5)));
}

#[test]
fn time_to_live_may_come_later_and_columns_after_it() {
    let root = scratch();
    let warehouse = root.path();
    let mut open = Open::new(warehouse, &described(narrow(), None), Restore::Fresh).unwrap();
    open.put(&[1, 2], narrow_values);
    let first = open.checkpoint(1);
    drop(open);
    let wanted = described(narrow(), Some(1_000_000));
    let mut open = Open::new(warehouse, &wanted, Restore::Snapshot(first)).unwrap();
    // Rows from before never end.
    assert_eq!(open.get(&[1, 2]).len(), 2);
    open.put(&[2, 3], narrow_values);
    let second = open.checkpoint(2);
    assert_eq!(open.get(&[1, 2, 3]).len(), 3);
    drop(open);
    compare_with_oracle(warehouse, None, At::Latest);
    let wanted = described(wide(), Some(1_000_000));
    let mut open = Open::new(warehouse, &wanted, Restore::Snapshot(second)).unwrap();
    open.put(&[4], wide_values);
    let third = open.checkpoint(3);
    assert_eq!(open.get(&[1, 2, 3, 4]).len(), 4);
    drop(open);
    let (names, lines) = scan(warehouse, At::Latest);
    assert_eq!((names.as_str(), lines.len()), ("id,number,ratio,price,text,expires_at", 4));
    compare_with_oracle(warehouse, None, At::Latest);
    // Without it again, nothing ends that is written from then on.
    let wanted = described(wide(), None);
    let mut open = Open::new(warehouse, &wanted, Restore::Snapshot(third)).unwrap();
    assert_eq!(open.get(&[1, 2, 3, 4]).len(), 4);
}

/// What cannot be, and the words that the message has for it.
#[test]
fn other_changes_are_refused_before_anything_is_touched() {
    let root = scratch();
    let warehouse = root.path();
    let mut open = Open::new(warehouse, &described(wide(), None), Restore::Fresh).unwrap();
    open.put(&[1], wide_values);
    let first = open.checkpoint(1);
    open.put(&[2], wide_values);
    open.checkpoint(2);
    drop(open);
    let column = |at: usize, column: Column| {
        let mut value = wide();
        if at < value.len() {
            value[at] = column;
        } else {
            value.push(column);
        }
        described(value, None)
    };
    let base = described(wide(), None);
    let cases = [
        (
            column(0, Column::nullable("number", ColumnType::Int32)),
            "`number` int64, nullable, asked for `number` int32, nullable (keep the type",
        ),
        (
            column(0, Column::required("number", ColumnType::Int64)),
            "`number` int64, nullable, asked for `number` int64 (keep it nullable",
        ),
        (
            column(1, Column::required("ratio", ColumnType::Utf8)),
            "`ratio` float64, asked for `ratio` utf8 (keep the type",
        ),
        (
            column(
                2,
                Column::required("price", ColumnType::Decimal128 { precision: 22, scale: 4 }),
            ),
            "`price` decimal128(20,2), asked for `price` decimal128(22,4) (keep the type",
        ),
        (
            column(3, Column::nullable("words", ColumnType::Utf8)),
            "`text` utf8, nullable, asked for `words` utf8, nullable (keep names",
        ),
        (
            column(4, Column::required("more", ColumnType::Int32)),
            "stored nothing, asked for `more` int32 (make it nullable",
        ),
        (
            described(wide()[..3].to_vec(), None),
            "`text` utf8, nullable, asked for nothing (keep the column",
        ),
        (StateDescriptor { key_groups: 32, ..base.clone() }, "key groups: stored 64, asked for 32"),
        (
            StateDescriptor { kind: StateKind::List, ..base.clone() },
            "kind: stored value, asked for list",
        ),
        (
            StateDescriptor {
                key: vec![Column::required("id", ColumnType::Int32)],
                ..base.clone()
            },
            "key column 0: stored `id` int64, asked for `id` int32 (keys cannot change",
        ),
    ];
    for (wanted, words) in cases {
        let error = Open::new(warehouse, &wanted, Restore::Snapshot(first)).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.to_string().contains(words), "{error}\nlacks: {words}");
    }
    assert_eq!(files_in(warehouse, "schema").len(), 1);
    assert_eq!(scan(warehouse, At::Checkpoint(2)).1.len(), 2, "what came later was removed");
}

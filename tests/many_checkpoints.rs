//! After many checkpoints with updates and deletes, pypaimon reads exactly the live rows.

use crate::support::{Random, oracle};
use arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use howdah_state::{
    Column, ColumnType, KeyBatch, KeyEncoder, KeyGroups, Restore, StateDescriptor, StateEvent,
    StateKind, StateStore, StateTable, StoreOptions, ValueState,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CHECKPOINTS: u64 = 50;
const PARALLELISM: u32 = 2;
const KEY_GROUPS: u32 = 1_024;

/// Keys that there may be at most.
const KEYS: u64 = 3_000;

/// Rows written, and keys deleted, between two checkpoints.
const PUTS: u64 = 400;
const DELETES: u64 = 120;

/// Newest checkpoints that stay readable.
const RETAINED: usize = 3;

type Key = (i64, String);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    amount: i64,
    note: Option<String>,
    at: i64,
}

/// The state under test, and what it must hold.
struct Subject {
    table: StateTable,
    subtasks: Vec<ValueState>,
    encoder: KeyEncoder,
    groups: KeyGroups,
    expected: BTreeMap<Key, Value>,
}

impl Subject {
    fn open(store: &StateStore) -> Self {
        let key = vec![
            Column::required("id", ColumnType::Int64),
            Column::required("name", ColumnType::Utf8),
        ];
        let table = store
            .open_table(
                &StateDescriptor {
                    pipeline: "many".to_owned(),
                    operator: "checkpoints".to_owned(),
                    state: "rows".to_owned(),
                    kind: StateKind::Value,
                    ttl_ms: None,
                    key: key.clone(),
                    value: vec![
                        Column::required("amount", ColumnType::Int64),
                        Column::nullable("note", ColumnType::Utf8),
                        Column::required("at", ColumnType::TimestampMillis),
                    ],
                    parallelism: PARALLELISM,
                    key_groups: KEY_GROUPS,
                },
                Restore::Fresh,
            )
            .unwrap();
        Self {
            subtasks: (0..PARALLELISM).map(|subtask| table.value_state(subtask).unwrap()).collect(),
            encoder: KeyEncoder::new(&key).unwrap(),
            groups: KeyGroups::new(KEY_GROUPS, PARALLELISM).unwrap(),
            expected: BTreeMap::new(),
            table,
        }
    }

    fn columns(keys: &[Key]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(keys.iter().map(|(id, _)| *id))),
            Arc::new(StringArray::from_iter_values(keys.iter().map(|(_, name)| name))),
        ]
    }

    /// The rows of each subtask.
    fn split<V: Clone>(&self, rows: &[(Key, V)]) -> Vec<Vec<(Key, V)>> {
        let keys: Vec<Key> = rows.iter().map(|(key, _)| key.clone()).collect();
        let encoded = self.encoder.encode(&Self::columns(&keys)).unwrap();
        let mut parts = vec![Vec::new(); self.subtasks.len()];
        for (row, hash) in rows.iter().zip(encoded.hashes()) {
            parts[self.groups.subtask_of(*hash) as usize].push(row.clone());
        }
        parts
    }

    fn key_batch<V>(&self, rows: &[(Key, V)]) -> KeyBatch {
        let keys: Vec<Key> = rows.iter().map(|(key, _)| key.clone()).collect();
        KeyBatch::new(&self.encoder, Self::columns(&keys)).unwrap()
    }

    fn put(&mut self, rows: &[(Key, Value)]) {
        for (subtask, part) in self.split(rows).iter().enumerate() {
            let keys = self.key_batch(part);
            let values = || part.iter().map(|(_, value)| value);
            let columns: [ArrayRef; 3] = [
                Arc::new(Int64Array::from_iter_values(values().map(|value| value.amount))),
                Arc::new(values().map(|value| value.note.as_deref()).collect::<StringArray>()),
                Arc::new(TimestampMillisecondArray::from_iter_values(values().map(|v| v.at))),
            ];
            let state = &mut self.subtasks[subtask];
            state.get(&keys).unwrap();
            state.put(&keys, &columns).unwrap();
        }
        self.expected.extend(rows.iter().cloned());
    }

    fn delete(&mut self, keys: &[Key]) {
        let rows: Vec<(Key, ())> = keys.iter().map(|key| (key.clone(), ())).collect();
        for (subtask, part) in self.split(&rows).iter().enumerate() {
            let keys = self.key_batch(part);
            self.subtasks[subtask].delete(&keys).unwrap();
        }
        for key in keys {
            self.expected.remove(key);
        }
    }

    /// Takes the barrier through all subtasks and waits for the snapshot.
    fn checkpoint(&mut self, store: &StateStore, checkpoint: u64) -> i64 {
        for subtask in &mut self.subtasks {
            subtask.freeze(checkpoint).unwrap();
        }
        match store.events().recv_timeout(Duration::from_secs(60)).unwrap() {
            StateEvent::Published { checkpoint: published, snapshot, .. } => {
                assert_eq!(published, checkpoint);
                snapshot
            }
            StateEvent::Failed { error, .. } => panic!("checkpoint {checkpoint}: {error}"),
        }
    }
}

/// Writes the rows for the oracle: a null is empty, a time in milliseconds.
fn write_expected(rows: &BTreeMap<Key, Value>, path: &Path) {
    let mut text = "id,name,amount,note,at\n".to_owned();
    for ((id, name), Value { amount, note, at }) in rows {
        writeln!(text, "{id},{name},{amount},{},{at}", note.as_deref().unwrap_or("")).unwrap();
    }
    std::fs::write(path, text).unwrap();
}

fn key(random: &mut Random) -> Key {
    let number = random.below(KEYS);
    (i64::try_from(number % 300).unwrap() - 150, format!("n{}", number / 300))
}

#[test]
fn after_50_checkpoints_with_updates_and_deletes_pypaimon_reads_the_live_rows() {
    let directory = tempfile::tempdir().unwrap();
    let warehouse = directory.path().join("warehouse");
    let store = StateStore::open(&warehouse, "default", StoreOptions::default()).unwrap();
    let mut subject = Subject::open(&store);
    let mut random = Random::new(50);
    let mut retained: Vec<(u64, i64)> = Vec::new();
    let mut before_last = BTreeMap::new();
    for checkpoint in 1..=CHECKPOINTS {
        let rows: BTreeMap<Key, Value> = (0..PUTS)
            .map(|row| {
                let note = (row % 3 > 0).then(|| format!("{checkpoint} {row}"));
                let number = i64::try_from(checkpoint * 1_000 + row).unwrap();
                (key(&mut random), Value { amount: number, note, at: number * 7 })
            })
            .collect();
        subject.put(&rows.into_iter().collect::<Vec<_>>());
        let deleted: Vec<Key> = (0..DELETES).map(|_| key(&mut random)).collect();
        subject.delete(&deleted);
        if checkpoint == CHECKPOINTS - 1 {
            before_last = subject.expected.clone();
        }
        retained.push((checkpoint, subject.checkpoint(&store, checkpoint)));
        if retained.len() > RETAINED {
            retained.remove(0);
        }
        subject.table.retain(&retained).unwrap();
    }
    assert!(subject.expected.len() > 1_000, "{} rows", subject.expected.len());
    assert!(subject.table.metrics().merges_total > 0, "no merge: nothing bounds the runs");
    let expected = subject.expected.clone();
    drop(subject);
    store.close().unwrap();

    let table = "default.many__checkpoints__rows";
    let file = directory.path().join("expected.csv");
    for (rows, checkpoint) in
        [(&expected, None), (&expected, Some(CHECKPOINTS)), (&before_last, Some(CHECKPOINTS - 1))]
    {
        write_expected(rows, &file);
        oracle::check_table(&warehouse, table, &file, &["id", "name"], checkpoint);
    }
}

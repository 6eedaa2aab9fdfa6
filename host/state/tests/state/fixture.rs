//! A small table with an integer key and two value columns, and ways to drive it.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use howdah_state::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const TABLE: &str = "pipeline__operator__state";

/// What a state holds: number and text by key.
pub(crate) type Model = BTreeMap<i64, (i64, Option<String>)>;

pub(crate) fn key_columns() -> Vec<Column> {
    vec![Column::required("id", ColumnType::Int64)]
}

pub(crate) fn descriptor(parallelism: u32) -> StateDescriptor {
    StateDescriptor {
        pipeline: "pipeline".into(),
        operator: "operator".into(),
        state: "state".into(),
        kind: StateKind::Value,
        ttl_ms: None,
        key: key_columns(),
        value: vec![
            Column::required("number", ColumnType::Int64),
            Column::nullable("text", ColumnType::Utf8),
        ],
        parallelism,
        key_groups: 64,
    }
}

/// Options that make everything happen often.
pub(crate) fn eager() -> StoreOptions {
    StoreOptions {
        sync: false,
        snapshot_retained_ms: 0,
        merge_trigger_runs: 3,
        ..StoreOptions::default()
    }
}

/// An open store with its one table and the handles of all subtasks.
pub(crate) struct Fixture {
    pub(crate) store: StateStore,
    pub(crate) table: StateTable,
    pub(crate) subtasks: Vec<ValueState>,
    groups: KeyGroups,
}

impl Fixture {
    pub(crate) fn open(
        warehouse: &Path,
        parallelism: u32,
        options: StoreOptions,
        restore: Restore,
    ) -> Result<Self> {
        Self::with_descriptor(warehouse, &descriptor(parallelism), options, restore)
    }

    /// A table that differs from [`descriptor`] in parallelism and times only.
    pub(crate) fn with_descriptor(
        warehouse: &Path,
        descriptor: &StateDescriptor,
        options: StoreOptions,
        restore: Restore,
    ) -> Result<Self> {
        let parallelism = descriptor.parallelism;
        let store = StateStore::open(warehouse, "default", options)?;
        let table = store.open_table(descriptor, restore)?;
        let subtasks = (0..parallelism).map(|i| table.value_state(i)).collect::<Result<_>>()?;
        Ok(Self { store, table, subtasks, groups: KeyGroups::new(64, parallelism)? })
    }

    pub(crate) fn owner(&self, id: i64) -> usize {
        self.groups.subtask_of(keys(&[id]).encoded().hashes()[0]) as usize
    }

    /// Splits ids by the subtask that owns them.
    fn by_subtask(&self, ids: impl IntoIterator<Item = i64>) -> Vec<Vec<i64>> {
        let mut split = vec![Vec::new(); self.subtasks.len()];
        for id in ids {
            split[self.owner(id)].push(id);
        }
        split
    }

    pub(crate) fn put(&mut self, rows: &Model) -> Result<()> {
        for (subtask, ids) in self.by_subtask(rows.keys().copied()).into_iter().enumerate() {
            if !ids.is_empty() {
                let numbers: ArrayRef =
                    Arc::new(ids.iter().map(|id| Some(rows[id].0)).collect::<Int64Array>());
                let texts: ArrayRef =
                    Arc::new(ids.iter().map(|id| rows[id].1.clone()).collect::<StringArray>());
                self.subtasks[subtask].put(&keys(&ids), &[numbers, texts])?;
            }
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, ids: &[i64]) -> Result<()> {
        for (subtask, ids) in self.by_subtask(ids.iter().copied()).into_iter().enumerate() {
            if !ids.is_empty() {
                self.subtasks[subtask].delete(&keys(&ids))?;
            }
        }
        Ok(())
    }

    pub(crate) fn read_ahead(&mut self, ids: &[i64]) -> Result<()> {
        for (subtask, ids) in self.by_subtask(ids.iter().copied()).into_iter().enumerate() {
            self.subtasks[subtask].read_ahead(&keys(&ids))?;
        }
        Ok(())
    }

    pub(crate) fn get(&mut self, ids: &[i64]) -> Result<Model> {
        let mut found = Model::new();
        for (subtask, ids) in self.by_subtask(ids.iter().copied()).into_iter().enumerate() {
            if !ids.is_empty() {
                let rows = self.subtasks[subtask].get(&keys(&ids))?;
                let values = model_rows(&rows.columns);
                for (at, id) in ids.into_iter().enumerate() {
                    if rows.present.value(at) {
                        found.insert(id, values[at].clone());
                    }
                }
            }
        }
        Ok(found)
    }

    /// Freezes all subtasks and waits until the checkpoint is published.
    pub(crate) fn checkpoint(&mut self, checkpoint: u64) -> i64 {
        for subtask in &mut self.subtasks {
            subtask.freeze(checkpoint).unwrap();
        }
        self.published(checkpoint)
    }

    pub(crate) fn published(&self, wanted: u64) -> i64 {
        match self.store.events().recv().unwrap() {
            StateEvent::Published { checkpoint, snapshot, .. } => {
                assert_eq!(checkpoint, wanted);
                snapshot
            }
            StateEvent::Failed { error, .. } => panic!("{error}"),
        }
    }
}

pub(crate) fn keys(ids: &[i64]) -> KeyBatch {
    let encoder = KeyEncoder::new(&key_columns()).unwrap();
    KeyBatch::new(&encoder, vec![Arc::new(Int64Array::from(ids.to_vec()))]).unwrap()
}

/// The value columns of the fixture's table as rows.
pub(crate) fn model_rows(columns: &[ArrayRef]) -> Vec<(i64, Option<String>)> {
    let numbers = columns[0].as_primitive::<Int64Type>();
    let texts = columns[1].as_string::<i32>();
    (0..numbers.len())
        .map(|row| {
            let text = texts.is_valid(row).then(|| texts.value(row).to_owned());
            (numbers.value(row), text)
        })
        .collect()
}

/// The whole table at a version; fails if a key is there twice.
pub(crate) fn scan(warehouse: &Path, at: At) -> Result<Model> {
    let reader = StateReader::open(warehouse, "default", TABLE)?;
    let mut found = Model::new();
    for batch in reader.scan(&at, None)? {
        let ids = batch.column(1).as_primitive::<Int64Type>().clone();
        for (row, value) in model_rows(&batch.columns()[2..]).into_iter().enumerate() {
            let twice = found.insert(ids.value(row), value);
            assert!(twice.is_none(), "key {} is live twice", ids.value(row));
        }
    }
    Ok(found)
}

pub(crate) fn rows(rows: &[(i64, i64, &str)]) -> Model {
    rows.iter().map(|&(id, number, text)| (id, (number, Some(text.to_owned())))).collect()
}

/// Names of all files below a directory of the table.
pub(crate) fn files_in(warehouse: &Path, directory: &str) -> Vec<PathBuf> {
    let directory = warehouse.join("default.db").join(TABLE).join(directory);
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

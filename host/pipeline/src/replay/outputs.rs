//! What two runs put out, as rows and how often each is there: two tables, which are compared like
//! states, so that neither has to fit into memory.

use crate::config::{PipelineConfig, SinkConfig};
use crate::error::{Error, Result};
use arrow_array::{ArrayRef, StringArray};
use howdah_state::{
    At, Column, ColumnType, KeyBatch, Reducer, Restore, StateDescriptor, StateDiff, StateKind,
    StateReader, StateStore, StoreOptions,
};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows that are counted at a time.
const BATCH_ROWS: usize = 4_096;
/// The database of the tables.
const TENANT: &str = "replay";
/// The only checkpoint of the tables.
const CHECKPOINT: u64 = 1;

/// Where a sink writes to.
pub(super) fn directory(of_run: &Path, sink: &str) -> PathBuf {
    of_run.join("output").join(sink)
}

/// For each sink the rows that differ.
pub(super) fn differences(
    old: &PipelineConfig,
    new: &PipelineConfig,
    root: &Path,
) -> Result<Vec<(String, StateDiff)>> {
    let warehouse = |side: &str| root.join("counted").join(side);
    count(old, &root.join("old"), &warehouse("old"))?;
    count(new, &root.join("new"), &warehouse("new"))?;
    let at = At::Checkpoint(CHECKPOINT);
    let compare = |sink: &SinkConfig| {
        let table = descriptor(sink).table_name();
        let open = |side| StateReader::open(&warehouse(side), TENANT, &table);
        let (old, new) = (open("old")?, open("new")?);
        let diff = StateDiff::between(Some((&old, &at)), Some((&new, &at)))?;
        Ok((format!("output {}", sink.name), diff))
    };
    new.sinks.iter().map(compare).collect()
}

fn descriptor(sink: &SinkConfig) -> StateDescriptor {
    StateDescriptor {
        pipeline: "replay".to_owned(),
        operator: "output".to_owned(),
        state: sink.name.clone(),
        kind: StateKind::Reducing { reducers: vec![Reducer::Count] },
        key: vec![Column::required("row", ColumnType::Utf8)],
        value: vec![Column::required("times", ColumnType::Int64)],
        ..StateDescriptor::default()
    }
}

/// Counts how often each row is in the output of each sink.
fn count(config: &PipelineConfig, run: &Path, warehouse: &Path) -> Result<()> {
    let options = StoreOptions { sync: false, ..StoreOptions::default() };
    let store = StateStore::open(warehouse, TENANT, options)?;
    let mut states = Vec::new();
    for sink in &config.sinks {
        let table = store.open_table(&descriptor(sink), Restore::Fresh)?;
        let mut state = table.reducing_state(0)?;
        let output = directory(run, &sink.name);
        for name in crate::directory::names(&output)? {
            if !name.starts_with("part-") {
                continue;
            }
            each_batch(&output.join(name), |rows| {
                let rows: ArrayRef = Arc::new(StringArray::from(rows));
                let keys = KeyBatch::new(table.key_encoder(), vec![Arc::clone(&rows)])?;
                Ok(state.add(&keys, &[rows])?)
            })?;
        }
        states.push(state);
    }
    states.iter_mut().try_for_each(|state| state.freeze(CHECKPOINT))?;
    store.wait_published(CHECKPOINT)?;
    Ok(store.close()?)
}

/// Hands out the lines of a file.
fn each_batch(path: &Path, mut take: impl FnMut(Vec<String>) -> Result<()>) -> Result<()> {
    let failed = |error| Error::io("read", path, error);
    let mut lines = BufReader::new(File::open(path).map_err(failed)?).lines();
    loop {
        let rows = lines.by_ref().take(BATCH_ROWS).collect::<std::io::Result<Vec<String>>>();
        let rows = rows.map_err(failed)?;
        if rows.is_empty() {
            return Ok(());
        }
        take(rows)?;
    }
}

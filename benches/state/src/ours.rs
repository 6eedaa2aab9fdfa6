//! The state store as an operator uses it: through its public functions.

use crate::workload::{Batch, Counted, Shape, VALUE_BYTES, column};
use anyhow::{Context, Result, bail};
use arrow_array::cast::AsArray;
use howdah_state::{
    Column, ColumnType, KeyBatch, KeyGroups, Restore, Rows, StateDescriptor, StateEvent, StateKind,
    StateStore, StateTable, StoreOptions, ValueState,
};
use std::path::Path;
use std::time::Duration;

pub(crate) const TENANT: &str = "bench";

/// An open state. What takes no number of a subtask is for a state with one.
pub(crate) struct Ours {
    store: StateStore,
    pub(crate) table: StateTable,
    subtasks: Vec<ValueState>,
    /// The last checkpoint whose barrier has been passed.
    checkpoint: u64,
    /// How many of those are not published yet.
    under_way: u64,
    snapshot: i64,
}

/// A checkpoint that is in a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    pub(crate) snapshot: i64,
    /// How long the background part worked on it.
    pub(crate) background_s: f64,
}

impl Ours {
    /// Opens a state with one subtask.
    pub(crate) fn open(
        directory: &Path,
        shape: Shape,
        options: StoreOptions,
        restore: Restore,
    ) -> Result<Self> {
        Self::open_parallel(directory, shape, 1, options, restore)
    }

    pub(crate) fn open_parallel(
        directory: &Path,
        shape: Shape,
        parallelism: u32,
        options: StoreOptions,
        restore: Restore,
    ) -> Result<Self> {
        let store = StateStore::open(directory, TENANT, options)?;
        let descriptor = StateDescriptor {
            pipeline: "bench".into(),
            operator: "count".into(),
            state: "count".into(),
            kind: StateKind::Value,
            ttl_ms: None,
            key: shape.columns(),
            value: vec![Column::required("count", ColumnType::Binary)],
            parallelism,
            key_groups: KeyGroups::DEFAULT_COUNT,
        };
        let table = store.open_table(&descriptor, restore)?;
        let subtasks =
            (0..parallelism).map(|subtask| table.value_state(subtask)).collect::<Result<_, _>>()?;
        // Checkpoints of a restored state are numbered on, past those that it had.
        let checkpoint = if restore == Restore::Fresh { 0 } else { 1_000_000 };
        let snapshot = match restore {
            Restore::Snapshot(snapshot) | Restore::Rescaled(snapshot) => snapshot,
            Restore::Fresh => 0,
        };
        Ok(Self { store, table, subtasks, checkpoint, under_way: 0, snapshot })
    }

    pub(crate) fn get(&mut self, keys: &KeyBatch) -> Result<Rows> {
        Ok(self.subtasks[0].get(keys)?)
    }

    /// What the keys have.
    pub(crate) fn count(&mut self, batch: &Batch) -> Result<Counted> {
        self.count_in(0, batch)
    }

    pub(crate) fn count_in(&mut self, subtask: usize, batch: &Batch) -> Result<Counted> {
        let mut counted = Counted::default();
        counted.see_rows(&batch.numbers, &self.subtasks[subtask].get(&batch.keys)?);
        Ok(counted)
    }

    /// Counts up each of the keys.
    pub(crate) fn count_up(&mut self, batch: &Batch) -> Result<Counted> {
        let mut counted = Counted::default();
        let rows = self.subtasks[0].get(&batch.keys)?;
        let old = rows.columns[0].as_binary::<i32>();
        let mut values = vec![0; batch.len() * VALUE_BYTES];
        for (at, new) in values.chunks_exact_mut(VALUE_BYTES).enumerate() {
            let old = rows.present.value(at).then(|| old.value(at));
            counted.count_up(batch.numbers[at], old, new);
        }
        self.put(batch, values.chunks_exact(VALUE_BYTES))?;
        Ok(counted)
    }

    pub(crate) fn put<'a>(
        &mut self,
        batch: &Batch,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<()> {
        self.put_in(0, batch, values)
    }

    pub(crate) fn put_in<'a>(
        &mut self,
        subtask: usize,
        batch: &Batch,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> Result<()> {
        Ok(self.subtasks[subtask].put(&batch.keys, &[column(values)])?)
    }

    /// The barrier of the next checkpoint.
    pub(crate) fn freeze(&mut self) -> Result<()> {
        self.checkpoint += 1;
        self.under_way += 1;
        for subtask in &mut self.subtasks {
            subtask.freeze(self.checkpoint)?;
        }
        Ok(())
    }

    /// Waits until no checkpoint is under way, and gives up all but the newest.
    pub(crate) fn wait_until_published(&mut self) -> Result<Option<Published>> {
        let mut last = None;
        while self.under_way > 0 {
            let event = self.store.events().recv_timeout(Duration::from_secs(120));
            match event.context("a checkpoint is not published after 120 s")? {
                StateEvent::Published { checkpoint, snapshot, duration, .. } => {
                    self.under_way -= 1;
                    self.snapshot = snapshot;
                    self.table.retain(&[(checkpoint, snapshot)])?;
                    last = Some(Published { snapshot, background_s: duration.as_secs_f64() });
                }
                StateEvent::Failed { error, .. } => return Err(error.into()),
            }
        }
        Ok(last)
    }

    /// A checkpoint from barrier to snapshot.
    pub(crate) fn checkpoint(&mut self) -> Result<Published> {
        self.freeze()?;
        self.wait_until_published()?.context("no checkpoint was under way")
    }

    /// The newest published checkpoint and its snapshot.
    pub(crate) fn newest(&self) -> (u64, i64) {
        (self.checkpoint - self.under_way, self.snapshot)
    }

    /// Fails unless the state lies in this many sorted runs.
    pub(crate) fn expect_runs(&self, runs: u64) -> Result<()> {
        let metrics = self.table.metrics();
        if metrics.files != runs {
            bail!("{runs} sorted runs were wanted, and there are {}", metrics.files);
        }
        Ok(())
    }

    pub(crate) fn close(self) -> Result<()> {
        drop(self.subtasks);
        Ok(self.store.close()?)
    }
}

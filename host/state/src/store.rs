//! The store of a pipeline: opens tables, flushes in the background.

use crate::{Column, Result, ValueState};
use crossbeam_channel::Receiver;
use std::path::PathBuf;
use std::time::Duration;

/// How a store behaves.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Fsync files and directories before a checkpoint counts as published.
    pub sync: bool,
    /// Bytes in the write buffer of one subtask of one state before it is flushed early.
    pub write_buffer_limit_bytes: usize,
    /// How long a snapshot, and the files only it names, outlive the checkpoint they served, so that readers can finish.
    pub snapshot_retained_ms: u64,
    /// Sorted runs of a bucket that start a merge.
    pub merge_trigger_runs: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            sync: true,
            write_buffer_limit_bytes: 64 << 20,
            snapshot_retained_ms: 60_000,
            merge_trigger_runs: 5,
        }
    }
}

/// What a state table is to look like.
#[derive(Debug, Clone)]
pub struct StateDescriptor {
    /// Name of the pipeline; first part of the table name.
    pub pipeline: String,
    /// Name of the operator; second part of the table name.
    pub operator: String,
    /// Name of the state; last part of the table name.
    pub state: String,
    /// Key columns.
    pub key: Vec<Column>,
    /// Value columns.
    pub value: Vec<Column>,
    /// Number of subtasks, which is the number of buckets.
    pub parallelism: u32,
    /// Number of key groups.
    pub key_groups: u32,
}

/// Where a table starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restore {
    /// Empty: what is there is removed.
    Fresh,
    /// The table as it was at this snapshot: what came after is removed.
    Snapshot(i64),
}

/// What the background part of a store reports.
#[derive(Debug)]
pub enum StateEvent {
    /// All subtasks' writes up to this checkpoint's barrier are in this snapshot, durable.
    Published {
        /// `<pipeline>__<operator>__<state>`.
        table: String,
        /// Which checkpoint.
        checkpoint: u64,
        /// The snapshot that holds exactly what the barrier saw.
        snapshot: i64,
        /// How long the background part took.
        duration: Duration,
    },
    /// The table can't go on.
    Failed {
        /// `<pipeline>__<operator>__<state>`.
        table: String,
        /// Why.
        error: crate::Error,
    },
}

/// The state of one pipeline on local disk. One process at a time.
pub struct StateStore {}

impl StateStore {
    /// Opens (creates) the warehouse directory; `tenant` names the database, `<tenant>.db`. Takes the lock.
    pub fn open(warehouse: PathBuf, tenant: &str, options: StoreOptions) -> Result<Self> {
        todo!()
    }
    /// Opens (creates) a value state.
    pub fn value_state(&self, descriptor: StateDescriptor, restore: Restore) -> Result<StateTable> {
        todo!()
    }
    /// Reports from the background, of all tables.
    pub fn events(&self) -> Receiver<StateEvent> {
        todo!()
    }
    /// Waits for background work and closes; called by drop as well (which ignores errors).
    pub fn close(self) -> Result<()> {
        todo!()
    }
}

/// One state: a Paimon table and the write buffers before it. Cheap to clone.
#[derive(Clone)]
pub struct StateTable {}

impl StateTable {
    /// `<pipeline>__<operator>__<state>`.
    pub fn name(&self) -> &str {
        todo!()
    }
    /// The handle of one subtask; each can be taken once.
    pub fn subtask(&self, subtask: u32) -> Result<ValueState> {
        todo!()
    }
    /// A checkpoint is complete: these snapshots (one for each retained checkpoint, this one's included) must be kept;
    /// others may go. Sets the tags `checkpoint-<id>` in the table to exactly these.
    pub fn retain(&self, checkpoints: &[(u64, i64)]) -> Result<()> {
        todo!()
    }
    /// What it did so far and how large it is.
    pub fn metrics(&self) -> TableMetrics {
        todo!()
    }
}

/// Counters and sizes of a state table.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableMetrics {
    /// Calls of `get` that had a key which no buffer knew: each is one probe of the pinned snapshot.
    pub probes_total: u64,
    /// Calls of `get`.
    pub gets_total: u64,
    /// Keys looked up.
    pub keys_read_total: u64,
    /// Keys written or deleted.
    pub keys_written_total: u64,
    /// Live rows in the latest snapshot.
    pub rows: u64,
    /// Bytes of the data files in the latest snapshot.
    pub bytes: u64,
    /// Data files in the latest snapshot.
    pub files: u64,
    /// Snapshots committed.
    pub commits_total: u64,
    /// Merges published.
    pub merges_total: u64,
}

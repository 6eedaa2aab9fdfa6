//! Keyed operator state in Apache Paimon tables.
//!
//! A state is a Paimon primary-key table on local disk. Writes go to a write buffer in memory;
//! at a barrier the buffer is frozen, which takes no I/O, and a thread in the background turns
//! it into one sorted Parquet file for each bucket, with deletion vectors over the rows that it
//! supersedes, in one snapshot. Reads take a batch of keys: what the buffers do not know goes
//! down in one probe of the pinned snapshot. Any Paimon reader can open the table meanwhile.
//!
//! ```
//! use howdah_state::arrow_array::{ArrayRef, Int64Array};
//! use howdah_state::*;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let warehouse = directory.path().to_path_buf();
//! let store = StateStore::open(&warehouse, "default", StoreOptions::default())?;
//! let table = store.open_table(
//!     &StateDescriptor {
//!         pipeline: "shop".into(),
//!         operator: "orders".into(),
//!         state: "totals".into(),
//!         key: vec![Column::required("customer", ColumnType::Int64)],
//!         value: vec![Column::required("cents", ColumnType::Int64)],
//!         ..StateDescriptor::default()
//!     },
//!     Restore::Fresh,
//! )?;
//! let mut state = table.value_state(0)?;
//!
//! let customers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
//! let keys = KeyBatch::new(table.key_encoder(), vec![customers])?;
//! state.put(&keys, &[Arc::new(Int64Array::from(vec![1999, 250]))])?;
//! assert_eq!(state.get(&keys)?.present.count_set_bits(), 2);
//!
//! // A barrier: checkpoint 1 holds what was written so far.
//! state.freeze(1)?;
//! store.wait_published(1)?;
//!
//! // Anybody can read it, at that checkpoint, with this crate or another Paimon reader.
//! let reader = StateReader::open(&warehouse, "default", table.name())?;
//! let rows = reader.scan(&At::Checkpoint(1), None)?;
//! assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
//! store.close()?;
//!
//! // The next run goes on from there.
//! let snapshot = reader.snapshot_id(&At::Checkpoint(1))?;
//! let store = StateStore::open(&warehouse, "default", StoreOptions::default())?;
//! // store.open_table(&descriptor, Restore::Snapshot(snapshot))?
//! # assert!(snapshot > 0);
//! # store.close()
//! # }
//! ```
//!
//! The example `shop` shows more: other kinds of state, a time to live, a checkpoint in another
//! place, and a restore at another parallelism.
//!
//! # Keys, subtasks and kinds
//!
//! Every call takes a [`KeyBatch`]: typed Arrow columns, encoded by a [`KeyEncoder`]. Arrays that
//! go with it have one row for each key, or name the key of each row by its index (`key_of`).
//!
//! * **Key group**: the hash of a key, modulo a fixed number. The unit that moves between
//!   subtasks; the table column `kg`.
//! * **Subtask**: one of `parallelism` owners of key groups, with a handle and a thread of its own.
//!   It refuses keys of others: [`KeyGroups::split`] deals a batch out.
//! * **Bucket**: the files of one subtask, as Paimon's default bucket function assigns key groups.
//! * **Kind** ([`StateKind`]): [`ValueState`], one row for each key; [`ListState`] and
//!   [`MapState`], many rows for each key; [`ReducingState`], one row that the store folds (sum,
//!   minimum …); [`Timers`], points in time for each key.
//! * **Time to live** (`ttl_ms`): after its last write a row ends in that time. Its subtask then
//!   no longer sees it; a merge takes it off the disk. Other readers see the column `expires_at`,
//!   and the row until it is off the disk.
//!
//! # Barriers and checkpoints
//!
//! 1. Each subtask of each table calls `freeze` with the number of the checkpoint. Only when all
//!    have is anything published. Numbers are the caller's; each is used once, in ascending order.
//! 2. The background flushes, and reports [`StateEvent::Published`] for each table, with its
//!    snapshot; [`StateStore::wait_published`] waits for all. The snapshot has the tag
//!    `checkpoint-<id>` from then on.
//! 3. [`StateTable::retain`] says which checkpoints are still needed. Without it all are kept.
//! 4. After a restart, [`Restore::Snapshot`] goes on from one of them; what came later is
//!    removed. [`Restore::Rescaled`] does so at another parallelism, without rewriting a row.
//!
//! * **Sorted run**: one data file at a level of its own, newest lowest. Merges bound their number.
//! * **Pin**: the open files of the snapshot that look-ups of the disk (probes) go to.
//! * **Checkpoint elsewhere** ([`CheckpointStore`]): a copy of snapshots in a directory or an object
//!   store, of which only files that are not there yet are sent.
//! * **Savepoint** ([`write_savepoint`]): a warehouse of its own, with every file in it, to move or
//!   to keep.
//! * **Difference** ([`StateDiff`]): the rows that were added, removed or changed between two versions.
//! * **Lease** ([`StateReader::hold`]): what a reader takes to keep a snapshot from expiring.
//!
//! # Metrics
//!
//! [`StateTable::metrics`] returns counters and sizes. With a recorder of crate `metrics`, installed
//! before a table is opened, each table also reports these, with the label `table` (its full name):
//!
//! | name | kind | what |
//! |---|---|---|
//! | `howdah_state_probe_duration_seconds` | histogram | one look into the files of a snapshot for the keys of a batch |
//! | `howdah_state_flush_duration_seconds` | histogram | from frozen buffers to a published snapshot |
//! | `howdah_state_merge_duration_seconds` | histogram | one merge of sorted runs, without its publication |
//! | `howdah_state_commit_duration_seconds` | histogram | publication of a merge |
//! | `howdah_state_checkpoint_duration_seconds` | histogram | from the last subtask's barrier to the published snapshot |
//! | `howdah_state_flushed_rows_total`, `howdah_state_flushed_bytes_total` | counter | rows and bytes of data files that flushes wrote |
//! | `howdah_state_merged_rows_total`, `howdah_state_merged_bytes_total` | counter | rows and bytes of data files that merges wrote |
//! | `howdah_state_expired_snapshots_total` | counter | snapshots removed after their time |
//! | `howdah_state_probes_total` | counter | batches with a key that no buffer knew |
//! | `howdah_state_keys_read_total`, `howdah_state_keys_written_total` | counter | keys looked up; written or deleted |
//! | `howdah_state_commits_total`, `howdah_state_merges_total` | counter | flushes committed; merges published |
//! | `howdah_state_write_waits_total` | counter | writes that waited for frozen buffers to be flushed |
//! | `howdah_state_write_stops_total` | counter | writes that waited for merges to catch up |
//! | `howdah_state_frozen_bytes` | gauge | frozen write buffers on their way to disk |
//! | `howdah_state_cached_bytes` | gauge | published write buffers kept as a read cache |
//! | `howdah_state_rows`, `howdah_state_data_bytes`, `howdah_state_files` | gauge | live rows, bytes of data files, and data files of the latest snapshot |
//! | `howdah_state_runs` | gauge | sorted runs of the bucket that has most |
//! | `howdah_state_snapshots` | gauge | snapshots on disk |
//! | `howdah_state_superseded_files` | gauge | files that only superseded snapshots name |
//! | `howdah_state_manifests` | gauge | manifests that the latest snapshot names |
//!
//! Flushes, merges, checkpoints and restores are `tracing` spans. That of a checkpoint is a child of the
//! span in which the last subtask called `freeze`, though it is work of another thread.

mod checkpoint;
mod clock;
mod column;
mod committer;
mod data_file;
mod deletion_vector;
mod diff;
mod digest;
mod error;
mod evolution;
mod fault;
mod file_system;
mod flush;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod key_group;
mod kind;
mod lease;
mod list_state;
mod live_files;
mod load;
mod lock;
mod manifest;
mod map_state;
mod merge;
mod metadata;
mod metrics;
mod ordered;
mod orphans;
mod pin;
mod pool;
mod range;
mod read_ahead;
mod reader;
mod reducer;
mod reducing_state;
mod rescale;
mod retention;
mod rows;
mod schema;
mod seam;
mod store;
mod table_rows;
mod table_sink;
mod table_source;
mod timers;
mod undo;
mod value_column;
mod value_state;
mod view;
mod worker;
mod write_buffer;

pub use checkpoint::{
    CheckpointInfo, CheckpointRequest, CheckpointStore, CheckpointTarget, OnProgress, Progress,
    RestoredCheckpoint, TransferPlan, restore_savepoint, savepoint_payload, verify_savepoint,
    write_savepoint,
};
pub use clock::{Clock, ManualClock};
pub use column::{Column, ColumnType, UnknownColumnType};
pub use data_file::ReadMode;
pub use diff::{ChangedRows, RowChange, StateDiff};
pub use error::{Error, ErrorKind, Result};
pub use evolution::SchemaChange;
pub use fault::{Effect, Fault, Faults, IoCall, IoKind};
pub use key::{EncodedKeys, KeyBatch, KeyEncoder};
pub use key_group::KeyGroups;
pub use kind::{Reducer, StateKind, UnknownReducer};
pub use lease::SnapshotLease;
pub use list_state::{ListElements, ListState};
pub use load::TableLoader;
pub use map_state::{MapEntries, MapState};
pub use orphans::{find_orphans, remove_orphans};
pub use reader::{At, StateReader, TableInfo, VerifiedTable, list_tables};
pub use reducing_state::ReducingState;
pub use rows::{AnswerLimit, Rows};
pub use seam::unique_name;
pub use store::{
    Restore, StateDescriptor, StateEvent, StateStore, StateTable, StoreOptions, TableMetrics,
};
pub use table_rows::read_table;
pub use table_sink::{TableSink, TableSinkDescriptor, TableSinkWriter, has_output};
pub use table_source::{TableRows, TableSource, TableVersion};
pub use timers::{DueTimers, Timers};
pub use value_state::ValueState;

/// The arrays of keys and values are those of this version of Arrow.
pub use arrow_array;
/// [`Rows::present`] comes from this version of Arrow.
pub use arrow_buffer;
/// [`StateReader::schema`] comes from this version of Arrow.
pub use arrow_schema;
/// What [`CheckpointTarget::operator`] takes comes from this version of opendal.
pub use opendal_core;

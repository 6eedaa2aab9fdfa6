//! Keyed operator state in Apache Paimon tables.
//!
//! A state is a Paimon primary-key table on local disk. Writes go to a write buffer in memory;
//! at a barrier the buffer is frozen, which takes no I/O, and a thread in the background turns
//! it into one sorted Parquet file for each bucket, with deletion vectors over the rows that it
//! supersedes, in one snapshot. Reads take a batch of keys: what the buffers do not know goes
//! down in one probe of the pinned snapshot. Any Paimon reader can open the table meanwhile.
//!
//! ```
//! use arrow_array::{ArrayRef, Int64Array};
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
//!         operator: "totals".into(),
//!         state: "total".into(),
//!         kind: StateKind::Value,
//!         key: vec![Column::required("customer", ColumnType::Int64)],
//!         value: vec![Column::required("cents", ColumnType::Int64)],
//!         ttl_ms: None,
//!         parallelism: 1,
//!         key_groups: KeyGroups::DEFAULT_COUNT,
//!     },
//!     Restore::Fresh,
//! )?;
//! let mut state = table.value_state(0)?;
//!
//! let encoder = KeyEncoder::new(&[Column::required("customer", ColumnType::Int64)])?;
//! let customers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
//! let keys = KeyBatch::new(&encoder, vec![customers])?;
//! state.put(&keys, &[Arc::new(Int64Array::from(vec![1999, 250]))])?;
//! assert_eq!(state.get(&keys)?.present.count_set_bits(), 2);
//!
//! // A barrier: checkpoint 1 holds what was written so far.
//! state.freeze(1)?;
//! let Ok(StateEvent::Published { snapshot, .. }) = store.events().recv() else { panic!() };
//! store.close()?;
//!
//! // Anybody can read it, at that checkpoint, with this crate or another Paimon reader.
//! let reader = StateReader::open(&warehouse, "default", "shop__totals__total")?;
//! let rows = reader.scan(&At::Checkpoint(1), None)?;
//! assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
//! # assert!(snapshot > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Concepts
//!
//! * **Key group**: the hash of a key, modulo a fixed number. The unit that moves between
//!   subtasks; the table column `kg`.
//! * **Bucket**: the key groups of one subtask, as Paimon's default bucket function assigns them.
//! * **Sorted run**: one data file at a level of its own, newest lowest.
//! * **Pin**: the open files of the snapshot that probes look into.
//! * **Checkpoint**: a snapshot with the tag `checkpoint-<id>`. A [`CheckpointStore`] keeps
//!   checkpoints outside the warehouse, too.
//! * **Savepoint**: a warehouse of its own, with every file in it, to move or to keep.

mod checkpoint;
mod clock;
mod column;
mod committer;
mod data_file;
mod deletion_vector;
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
mod lock;
mod manifest;
mod map_state;
mod merge;
mod metadata;
mod metrics;
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
mod timers;
mod value_column;
mod value_state;
mod view;
mod worker;
mod write_buffer;

pub use checkpoint::{
    CheckpointInfo, CheckpointRequest, CheckpointStore, CheckpointTarget, OnProgress, Progress,
    RestoredCheckpoint, TransferPlan, restore_savepoint, verify_savepoint, write_savepoint,
};
pub use clock::{Clock, ManualClock};
pub use column::{Column, ColumnType, UnknownColumnType};
pub use data_file::ReadMode;
pub use error::{Error, ErrorKind, Result};
pub use fault::{Effect, Fault, Faults, IoCall, IoKind};
pub use key::{EncodedKeys, KeyBatch, KeyEncoder};
pub use key_group::KeyGroups;
pub use kind::{Reducer, StateKind, UnknownReducer};
pub use lease::SnapshotLease;
pub use list_state::{ListElements, ListState};
pub use map_state::{MapEntries, MapState};
pub use orphans::remove_orphans;
pub use reader::{At, StateReader, TableInfo, list_tables};
pub use reducing_state::ReducingState;
pub use rows::Rows;
pub use store::{
    Restore, StateDescriptor, StateEvent, StateStore, StateTable, StoreOptions, TableMetrics,
};
pub use timers::{DueTimers, Timers};
pub use value_state::ValueState;

/// What [`CheckpointTarget::operator`] takes comes from this version of opendal.
pub use opendal_core;

//! Savepoints of a pipeline: a checkpoint that stands on its own, to keep, to move, to start from.
//!
//! A savepoint is a directory that is a Paimon warehouse with the state tables, every file in it; see
//! [`howdah_state::write_savepoint`]. What the checkpoint says of sources, operators and sinks is kept
//! with it. The output that was visible at the checkpoint is not part of it.

use crate::checkpoint::{self, Checkpoint, Checkpoints};
use crate::config::PipelineConfig;
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::restore::FreshStart;
use howdah_state::{CheckpointRequest, OnProgress, savepoint_payload};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A savepoint that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Savepoint {
    /// Its directory.
    pub path: PathBuf,
    /// The name of the pipeline.
    pub pipeline: String,
    /// The database of its tables.
    pub tenant: String,
    /// The checkpoint that it holds.
    pub checkpoint: u64,
    /// Rows that all sources had read.
    pub rows_read: u64,
    /// Names of its tables.
    pub tables: Vec<String>,
}

impl Savepoint {
    fn of(path: &Path, checkpoint: &Checkpoint) -> Self {
        Self {
            path: path.to_owned(),
            pipeline: checkpoint.shape.pipeline.clone(),
            tenant: checkpoint.shape.tenant.clone(),
            checkpoint: checkpoint.id,
            rows_read: checkpoint.rows(),
            tables: checkpoint.states().map(|state| state.table.clone()).collect(),
        }
    }
}

/// Writes a savepoint of a completed checkpoint to a directory that is not there yet: there as a
/// whole or not at all. `warehouse` is that of the pipeline, which may be running, as long as the
/// checkpoint is retained.
///
/// # Errors
/// [`ErrorKind::Config`] when the directory is there already; [`ErrorKind::Corrupt`] when state is
/// gone or damaged; [`ErrorKind::Storage`] when it cannot be written.
pub fn write_savepoint(
    warehouse: &Path,
    checkpoint: &Checkpoint,
    destination: &Path,
    progress: OnProgress<'_>,
) -> Result<Savepoint> {
    let states = checkpoint.states().map(|state| (state.table.clone(), state.snapshot));
    let tables: Vec<(String, i64)> = states.collect();
    let request = CheckpointRequest {
        checkpoint: checkpoint.id,
        warehouse,
        tenant: &checkpoint.shape.tenant,
        tables: &tables,
        payload: &checkpoint::encode(checkpoint)?,
    };
    howdah_state::write_savepoint(&request, destination, progress).map_err(of_caller)?;
    Ok(Savepoint::of(destination, checkpoint))
}

/// What a savepoint holds.
///
/// # Errors
/// [`ErrorKind::Config`] when it is none; [`ErrorKind::Corrupt`] when its document is damaged.
pub fn read_savepoint(savepoint: &Path) -> Result<Savepoint> {
    Ok(Savepoint::of(savepoint, &read(savepoint)?))
}

/// Reads every file of a savepoint and compares its checksum.
///
/// # Errors
/// As [`read_savepoint`]; [`ErrorKind::Corrupt`] names the damaged files.
pub fn verify_savepoint(savepoint: &Path, progress: OnProgress<'_>) -> Result<Savepoint> {
    let found = read_savepoint(savepoint)?;
    howdah_state::verify_savepoint(savepoint, progress).map_err(of_caller)?;
    Ok(found)
}

/// The checkpoint in a savepoint.
pub(crate) fn read(savepoint: &Path) -> Result<Checkpoint> {
    let (id, payload) = savepoint_payload(savepoint).map_err(of_caller)?;
    checkpoint::decode(savepoint, id, &payload)
}

/// Makes a state directory that of a savepoint. Its lock is held. `check` refuses a checkpoint that
/// does not fit the pipeline.
pub(crate) fn install(
    config: &PipelineConfig,
    savepoint: &Path,
    fresh: bool,
    progress: OnProgress<'_>,
    check: impl FnOnce(&Checkpoint) -> Result<()>,
) -> Result<()> {
    let mut found = read(savepoint)?;
    check(&found)?;
    let (state_directory, sync) = (&config.state_directory, config.checkpoint.sync);
    let warehouse = config.warehouse();
    let entries = Checkpoints::list(state_directory)?;
    let broken_off = FreshStart::is_under_way(state_directory);
    if !fresh && !broken_off && (!entries.is_empty() || warehouse.exists()) {
        let shown = state_directory.display();
        let message = format!(
            "{shown} has state of its own; run with --fresh as well to remove it, or name another \
             state-directory"
        );
        return Err(Error::new(ErrorKind::Incompatible, message));
    }
    let ids: Vec<u64> = entries.iter().map(|entry| entry.id).collect();
    crate::restore::refuse_pinned(state_directory, &ids)?;
    let name = savepoint.display().to_string();
    let start = FreshStart::begin_from(state_directory, &name, sync)?;
    let checkpoints = Checkpoints::open(state_directory, sync)?;
    checkpoints.remove(&ids)?;
    directory::remove_all(&warehouse)?;
    howdah_state::restore_savepoint(savepoint, &warehouse, progress)?;
    // What those handles stood for was visible when the savepoint was written.
    found.sinks.iter_mut().for_each(|sink| sink.handles.clear());
    // Nor are its rows that were set aside.
    found.sources.iter_mut().for_each(|source| source.dead_letters = None);
    checkpoints.write(&found)?;
    start.end()
}

/// What is not there was named by the caller.
fn of_caller(error: howdah_state::Error) -> Error {
    use howdah_state::ErrorKind as State;
    match error.kind() {
        State::NotFound | State::InvalidArgument => {
            Error::new(ErrorKind::Config, error.to_string())
        }
        _ => error.into(),
    }
}

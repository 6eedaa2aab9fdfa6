//! Whether an operator fits a pipeline, and the state that is stored, without starting anything.

use crate::checkpoint::{Checkpoint, Checkpoints, Shape, StateShape};
use crate::config::PipelineConfig;
use crate::error::{Error, Result};
use crate::paths;
use crate::pipeline::{StartFrom, WAREHOUSE};
use crate::resolved::Resolved;
use crate::restore::{FreshStart, Restore};
use howdah_runtime::{Component, OperatorSpec};
use howdah_state::{At, SchemaChange, StateDescriptor, StateReader};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// How a state of an operator goes with what is stored under its name. Timers are one, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateFit {
    /// The name that the operator declares.
    pub state: String,
    /// Its shape in the checkpoint; `None`: it is not there.
    pub stored: Option<String>,
    /// The shape that the operator declares; `None`: it does not.
    pub wanted: Option<String>,
    /// What differs, column by column. The table goes on with what is not refused.
    pub changes: Vec<SchemaChange>,
    /// Whether it cannot go on.
    pub refused: bool,
}

/// How an operator goes with a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointFit {
    /// Its number.
    pub checkpoint: u64,
    /// Whether another component wrote it.
    pub component_changed: bool,
    /// Whether the operator had another configuration.
    pub config_changed: bool,
    /// Every state of the operator or of the checkpoint.
    pub states: Vec<StateFit>,
}

/// How an operator goes with a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelineFit {
    /// The name of the pipeline.
    pub pipeline: String,
    /// For each field of the operator's input, the source column that it takes.
    pub columns: Vec<(String, String)>,
    /// The newest checkpoint, which the pipeline would go on from; `None`: it would begin at the
    /// beginning.
    pub checkpoint: Option<CheckpointFit>,
}

/// Checks a component as the operator of a pipeline, whichever one the pipeline file names: its
/// configuration, columns, keys and limits, and the state of the newest checkpoint. Takes no lock
/// and changes nothing, so the pipeline may be running.
///
/// # Errors
/// As [`Pipeline::prepare`](crate::Pipeline::prepare) and
/// [`Pipeline::start`](crate::Pipeline::start), which would refuse it.
pub fn check_pipeline(config: &PipelineConfig, component: &Component) -> Result<PipelineFit> {
    config.find_source()?;
    paths::check(config)?;
    let resolved = Resolved::of(config, component)?;
    let shape = resolved.shape(config);
    let columns = resolved.plan.sources();
    let columns = columns.map(|(field, from)| (field.to_owned(), from.to_owned())).collect();
    let from = FreshStart::finish_first(&config.state_directory, StartFrom::Latest)?;
    let tables = StoredTables::of_pipeline(config, &resolved.spec);
    let restore = Restore::choose(&config.state_directory, from, &shape, &tables)?;
    let checkpoint = restore.checkpoint.map(|checkpoint| {
        let operator = &config.operator;
        Ok::<_, Error>(CheckpointFit {
            checkpoint: checkpoint.id,
            component_changed: checkpoint.component != component.digest(),
            config_changed: checkpoint.has_other_config(&operator.config),
            states: states(&checkpoint, &shape.states, &tables)?,
        })
    });
    let checkpoint = checkpoint.transpose()?;
    Ok(PipelineFit { pipeline: config.name.clone(), columns, checkpoint })
}

/// Compares the states of an operator with those of the newest checkpoint in a state directory;
/// `None`: it has none, and a pipeline begins at the beginning. A state that does not fit is no
/// error here. Takes no lock and changes nothing.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) when the checkpoint or a table is damaged.
pub fn check_state(
    state_directory: &Path,
    component: &Component,
    spec: &OperatorSpec,
) -> Result<Option<CheckpointFit>> {
    let Some(newest) = Checkpoints::list(state_directory)?.pop() else { return Ok(None) };
    let checkpoint = newest.checkpoint?;
    let Shape { pipeline, operator, tenant, .. } = &checkpoint.shape;
    let tables = StoredTables {
        warehouse: state_directory.join(WAREHOUSE),
        tenant: tenant.clone(),
        wanted: spec
            .tables(pipeline, operator)
            .into_iter()
            .map(|descriptor| StateDescriptor {
                parallelism: checkpoint.shape.parallelism,
                key_groups: checkpoint.shape.key_groups,
                ..descriptor
            })
            .collect(),
    };
    Ok(Some(CheckpointFit {
        checkpoint: checkpoint.id,
        component_changed: checkpoint.component != component.digest(),
        config_changed: false,
        states: states(&checkpoint, &StateShape::of_spec(spec), &tables)?,
    }))
}

/// Compares states with stored tables.
pub(crate) trait CompareTable {
    /// How the table of a state, as of a snapshot, differs from what is asked for.
    fn compare(&self, state: &str, snapshot: i64) -> Result<Vec<SchemaChange>>;
}

/// The tables of a pipeline, and what an operator wants of them.
pub(crate) struct StoredTables {
    warehouse: PathBuf,
    tenant: String,
    wanted: Vec<StateDescriptor>,
}

impl StoredTables {
    pub(crate) fn of_pipeline(config: &PipelineConfig, spec: &OperatorSpec) -> Self {
        Self {
            warehouse: config.warehouse(),
            tenant: config.tenant.clone(),
            wanted: config.tables(spec),
        }
    }
}

impl CompareTable for StoredTables {
    fn compare(&self, state: &str, snapshot: i64) -> Result<Vec<SchemaChange>> {
        let wanted = self.wanted.iter().find(|descriptor| descriptor.state == state);
        let wanted = wanted
            .ok_or_else(|| Error::internal(format!("the operator has no state `{state}`")))?;
        let table = StateReader::open(&self.warehouse, &self.tenant, &wanted.table_name())?;
        // Another parallelism is a matter of the pipeline, and said there.
        Ok(table.compare(&At::Snapshot(snapshot), wanted, true)?)
    }
}

/// How the states of an operator go with those of a checkpoint.
pub(crate) fn states(
    checkpoint: &Checkpoint,
    wanted: &[StateShape],
    tables: &dyn CompareTable,
) -> Result<Vec<StateFit>> {
    let stored = &checkpoint.shape.states;
    let named = |shapes: &[StateShape], name: &str| {
        shapes.iter().find(|shape| shape.state == name).map(StateShape::describe)
    };
    let gone = stored.iter().filter(|stored| named(wanted, &stored.state).is_none());
    let unlike = |state: &StateShape| StateFit {
        state: state.state.clone(),
        stored: named(stored, &state.state),
        wanted: named(wanted, &state.state),
        changes: Vec::new(),
        refused: true,
    };
    let mut fits: Vec<StateFit> = gone.map(unlike).collect();
    for state in wanted {
        let mut fit = unlike(state);
        if let Some(before) = stored.iter().find(|stored| stored.state == state.state) {
            fit.refused = before.schema_version != state.schema_version;
            if before != state {
                let mut positions = checkpoint.states.iter();
                let position = positions.find(|position| position.state == state.state);
                let snapshot = position.map(|position| position.snapshot).ok_or_else(|| {
                    Error::internal(format!("the checkpoint lacks the state `{}`", state.state))
                })?;
                fit.changes = tables.compare(&state.state, snapshot)?;
            }
            fit.refused |= fit.changes.iter().any(|change| change.refused.is_some());
        }
        fits.push(fit);
    }
    Ok(fits)
}

//! Whether an operator fits a pipeline, and the state that is stored, without starting anything.

use crate::checkpoint::{Checkpoint, Checkpoints, Shape, StatePosition, StateShape};
use crate::config::{PipelineConfig, enumerate};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Graph;
use crate::paths;
use crate::pipeline::{StartFrom, WAREHOUSE};
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
    /// Its shape in the checkpoint; `None`: it is not there, and begins empty.
    pub stored: Option<String>,
    /// The shape that the operator declares; `None`: it does not.
    pub wanted: Option<String>,
    /// What differs, column by column. The table goes on with what is not refused.
    pub changes: Vec<SchemaChange>,
    /// Whether it cannot go on.
    pub refused: bool,
}

impl StateFit {
    /// Whether it begins empty: nothing is stored under its name.
    pub fn is_new(&self) -> bool {
        self.stored.is_none()
    }
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
    /// For each field of the operator's inputs, the column that it takes.
    pub columns: Vec<(String, String)>,
    /// The newest checkpoint, which the pipeline would go on from; `None`: it would begin at the
    /// beginning.
    pub checkpoint: Option<CheckpointFit>,
}

/// Checks components as the operators of a pipeline, whichever ones the pipeline file names: their
/// configuration, columns, keys and limits, and the state of the newest checkpoint. Says how the
/// operator called `operator` fits. Takes no lock and changes nothing, so the pipeline may be
/// running.
///
/// # Errors
/// As [`Pipeline::prepare`](crate::Pipeline::prepare) and
/// [`Pipeline::start`](crate::Pipeline::start), which would refuse it.
pub fn check_pipeline(
    config: &PipelineConfig,
    components: &[Component],
    operator: &str,
) -> Result<PipelineFit> {
    config.find_sources()?;
    paths::check(config)?;
    let graph = Graph::of(config, components)?;
    let shape = graph.shape(config);
    let from = FreshStart::finish_first(&config.state_directory, StartFrom::Latest)?;
    let tables = StoredTables::of_pipeline(config, &graph);
    let restore = Restore::choose(&config.state_directory, from, &shape, &tables, &[])?;
    let known = config.operators.iter().zip(&graph.operators).zip(components).zip(&shape.operators);
    let known = known.map(|(((config, node), component), shape)| (config, node, component, shape));
    let found = known.into_iter().find(|(config, ..)| config.name == operator);
    let Some((operator, _, component, shape)) = found else {
        let name = &config.name;
        let message = format!("the pipeline `{name}` has no operator `{operator}`");
        return Err(Error::new(ErrorKind::Config, message));
    };
    let checkpoint = restore.checkpoint.map(|checkpoint| {
        let stored = checkpoint.operator(&operator.name);
        Ok::<_, Error>(CheckpointFit {
            checkpoint: checkpoint.id,
            component_changed: stored.is_some_and(|it| it.component != component.digest()),
            config_changed: stored.is_some_and(|it| it.has_other_config(&operator.config)),
            states: states(&Stored::of(&checkpoint, &operator.name), &shape.states, &tables)?,
        })
    });
    let columns = graph.columns(&operator.name, config);
    Ok(PipelineFit { pipeline: config.name.clone(), columns, checkpoint: checkpoint.transpose()? })
}

/// Compares the states of an operator with those of the newest checkpoint in a state directory;
/// `None`: it has none, and a pipeline begins at the beginning. A state that does not fit is no
/// error here. Takes no lock and changes nothing.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when the checkpoint or a table is damaged; [`ErrorKind::Config`] when
/// several operators have state there, so that it is not clear which one is meant.
pub fn check_state(
    state_directory: &Path,
    component: &Component,
    spec: &OperatorSpec,
) -> Result<Option<CheckpointFit>> {
    let Some(newest) = Checkpoints::list(state_directory)?.pop() else { return Ok(None) };
    let checkpoint = newest.checkpoint?;
    let Shape { pipeline, tenant, operators, key_groups, .. } = &checkpoint.shape;
    let [operator] = operators.as_slice() else {
        let names: Vec<&str> = operators.iter().map(|operator| operator.name.as_str()).collect();
        let message = format!(
            "{} has the state of several operators: {}; check the component against the pipeline \
             file",
            state_directory.display(),
            enumerate(&names, "and")
        );
        return Err(Error::new(ErrorKind::Config, message));
    };
    let sized = |descriptor| StateDescriptor {
        parallelism: operator.parallelism,
        key_groups: *key_groups,
        ..descriptor
    };
    let tables = StoredTables {
        warehouse: state_directory.join(WAREHOUSE),
        tenant: tenant.clone(),
        wanted: spec.tables(pipeline, &operator.name).into_iter().map(sized).collect(),
    };
    let stored = checkpoint.operator(&operator.name);
    Ok(Some(CheckpointFit {
        checkpoint: checkpoint.id,
        component_changed: stored.is_some_and(|it| it.component != component.digest()),
        config_changed: false,
        states: states(
            &Stored::of(&checkpoint, &operator.name),
            &StateShape::of_spec(spec),
            &tables,
        )?,
    }))
}

/// Compares states with stored tables.
pub(crate) trait CompareTable {
    /// How the table of a state of an operator, as of a snapshot, differs from what is asked for.
    fn compare(&self, operator: &str, state: &str, snapshot: i64) -> Result<Vec<SchemaChange>>;
}

/// The tables of a pipeline, and what its operators want of them.
pub(crate) struct StoredTables {
    warehouse: PathBuf,
    tenant: String,
    wanted: Vec<StateDescriptor>,
}

impl StoredTables {
    pub(crate) fn of_pipeline(config: &PipelineConfig, graph: &Graph) -> Self {
        let operators = config.operators.iter().zip(&graph.operators);
        let wanted = operators.flat_map(|(operator, node)| config.tables(operator, &node.spec));
        Self {
            warehouse: config.warehouse(),
            tenant: config.tenant.clone(),
            wanted: wanted.collect(),
        }
    }

    /// Those of a savepoint, and what a pipeline's operators want of them.
    pub(crate) fn of_savepoint(config: &PipelineConfig, graph: &Graph, savepoint: &Path) -> Self {
        Self { warehouse: savepoint.to_owned(), ..Self::of_pipeline(config, graph) }
    }
}

impl CompareTable for StoredTables {
    fn compare(&self, operator: &str, state: &str, snapshot: i64) -> Result<Vec<SchemaChange>> {
        let wanted = self
            .wanted
            .iter()
            .find(|descriptor| descriptor.operator == operator && descriptor.state == state);
        let wanted = wanted.ok_or_else(|| {
            Error::internal(format!("the operator `{operator}` has no state `{state}`"))
        })?;
        let table = StateReader::open(&self.warehouse, &self.tenant, &wanted.table_name())?;
        // Another parallelism is a matter of the pipeline, and said there.
        Ok(table.compare(&At::Snapshot(snapshot), wanted, true)?)
    }
}

/// The states of an operator in a checkpoint.
pub(crate) struct Stored<'a> {
    operator: &'a str,
    shapes: &'a [StateShape],
    positions: &'a [StatePosition],
}

impl<'a> Stored<'a> {
    pub(crate) fn of(checkpoint: &'a Checkpoint, operator: &'a str) -> Self {
        let mut shapes = checkpoint.shape.operators.iter();
        let shapes = shapes.find(|shape| shape.name == operator);
        let positions = checkpoint.operator(operator);
        Self {
            operator,
            shapes: shapes.map_or(&[], |shape| &shape.states),
            positions: positions.map_or(&[], |positions| &positions.states),
        }
    }
}

/// How the states of an operator go with those of a checkpoint.
pub(crate) fn states(
    stored: &Stored<'_>,
    wanted: &[StateShape],
    tables: &dyn CompareTable,
) -> Result<Vec<StateFit>> {
    let named = |shapes: &[StateShape], name: &str| {
        shapes.iter().find(|shape| shape.state == name).map(StateShape::describe)
    };
    let gone = stored.shapes.iter().filter(|stored| named(wanted, &stored.state).is_none());
    let unlike = |state: &StateShape| StateFit {
        state: state.state.clone(),
        stored: named(stored.shapes, &state.state),
        wanted: named(wanted, &state.state),
        changes: Vec::new(),
        refused: true,
    };
    let mut fits: Vec<StateFit> = gone.map(unlike).collect();
    for state in wanted {
        let mut fit = StateFit { refused: false, ..unlike(state) };
        if let Some(before) = stored.shapes.iter().find(|stored| stored.state == state.state) {
            fit.refused = before.schema_version != state.schema_version;
            if before != state {
                let mut positions = stored.positions.iter();
                let position = positions.find(|position| position.state == state.state);
                let snapshot = position.map(|position| position.snapshot).ok_or_else(|| {
                    Error::internal(format!("the checkpoint lacks the state `{}`", state.state))
                })?;
                fit.changes = tables.compare(stored.operator, &state.state, snapshot)?;
            }
            fit.refused |= fit.changes.iter().any(|change| change.refused.is_some());
        }
        fits.push(fit);
    }
    Ok(fits)
}

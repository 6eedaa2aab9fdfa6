//! Begins a pipeline with states that are filled with rows from elsewhere.

mod columns;
mod rows;

use crate::checkpoint::{
    Checkpoint, Checkpoints, OperatorCheckpoint, SinkCheckpoint, SourceCheckpoint, StatePosition,
    config_crc32,
};
use crate::clock;
use crate::config::{OperatorConfig, enumerate};
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::Pipeline;
use crate::restore::{self, FreshStart};
use crate::source;
pub use columns::ColumnFit;
use columns::Columns;
use howdah_state::{StateDescriptor, StateStore, StoreOptions};
use rows::RowFile;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The checkpoint that a pipeline then goes on from.
const CHECKPOINT: u64 = 1;

/// A state that is to be filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateImport {
    /// The state, or `operator.state`.
    pub state: String,
    /// A Parquet file, or the directory of a Paimon table.
    pub path: PathBuf,
}

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The checkpoint that a run goes on from.
    pub checkpoint: u64,
    /// The states that were filled.
    pub tables: Vec<ImportedTable>,
}

/// A state that was filled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportedTable {
    /// The name of its table, `<pipeline>__<operator>__<state>`.
    pub table: String,
    /// Where the rows come from.
    pub path: PathBuf,
    /// How many.
    pub rows: u64,
    /// How each column went with the state.
    pub columns: Vec<ColumnFit>,
}

/// A state and the file that goes into it, checked.
struct Planned {
    descriptor: StateDescriptor,
    file: RowFile,
    columns: Columns,
}

impl Pipeline {
    /// Fills states of a pipeline that has none yet, and makes its first checkpoint, from which a run
    /// goes on: at the beginning of its sources, with these states. The others begin empty.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when the pipeline has state or output, there is no such state, or a file
    /// does not have the columns that the state needs: then nothing is changed. [`ErrorKind::Input`]
    /// for a row that the state cannot have; then the pipeline has no state again.
    pub fn import(self, imports: &[StateImport]) -> Result<Imported> {
        let (state_directory, sync) = (&self.config.state_directory, self.config.checkpoint.sync);
        let warehouse = self.config.warehouse();
        let broken_off = FreshStart::is_under_way(state_directory);
        let stale: Vec<u64> = Checkpoints::list(state_directory)?.iter().map(|it| it.id).collect();
        if !broken_off && (!stale.is_empty() || warehouse.exists()) {
            let message = format!(
                "{} has state already, and an import would take its place; name another \
                 state-directory in the pipeline file, or remove this one",
                state_directory.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let planned = self.plan(imports)?;
        let sources = self.first_positions()?;
        let sinks = self.first_sinks()?;
        restore::refuse_pinned(state_directory, &stale)?;
        let start = FreshStart::begin_import(state_directory, sync)?;
        let checkpoints = Checkpoints::open(state_directory, sync)?;
        checkpoints.remove(&stale)?;
        directory::remove_all(&warehouse)?;
        let filled = self.fill(planned);
        let (tables, operators) = match filled {
            Ok(filled) => filled,
            Err(error) => {
                // What is half filled serves nobody; what cannot be removed keeps its mark.
                directory::remove_all(&warehouse).and_then(|()| start.end())?;
                return Err(error);
            }
        };
        let shape = self.graph.shape(&self.config);
        let time_ms = clock::epoch_ms();
        let first = Checkpoint { id: CHECKPOINT, time_ms, shape, sources, operators, sinks };
        checkpoints.write(&first)?;
        start.end()?;
        Ok(Imported { checkpoint: CHECKPOINT, tables })
    }

    /// Finds the states, and compares their columns with those of the files.
    fn plan(&self, imports: &[StateImport]) -> Result<Vec<Planned>> {
        let mut planned: Vec<Planned> = Vec::new();
        let mut errors = Vec::new();
        for StateImport { state, path } in imports {
            let plan = || {
                let descriptor = self.find_state(state)?;
                let file = RowFile::open(path)?;
                let columns = Columns::of(&descriptor, &file.schema(), state, path)?;
                Ok::<_, Error>(Planned { descriptor, file, columns })
            };
            match plan() {
                Ok(plan) if planned.iter().any(|it| it.descriptor == plan.descriptor) => {
                    let message = format!("the state `{state}` is named twice");
                    errors.push(Error::new(ErrorKind::Config, message));
                }
                Ok(plan) => planned.push(plan),
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors)?;
        Ok(planned)
    }

    /// The state of this name, or of `operator.state`.
    fn find_state(&self, name: &str) -> Result<StateDescriptor> {
        let all: Vec<StateDescriptor> = self.states().flat_map(|(_, states)| states).collect();
        let whole = |it: &StateDescriptor| format!("{}.{}", it.operator, it.state);
        let mut found = all.iter().filter(|it| it.state == name || whole(it) == name);
        let names: Vec<String> = all.iter().map(whole).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let problem = match (found.next(), found.next()) {
            (Some(state), None) => return Ok(state.clone()),
            (None, _) if names.is_empty() => "the pipeline has no states".to_owned(),
            (None, _) => {
                let states = enumerate(&names, "and");
                format!("the pipeline has no state `{name}`; it has {states}")
            }
            (Some(_), Some(_)) => {
                let states = enumerate(&names, "and");
                format!(
                    "more than one operator has a state `{name}`; give its whole name: {states}"
                )
            }
        };
        Err(Error::new(ErrorKind::Config, problem))
    }

    /// The states and timers of each operator.
    fn states(&self) -> impl Iterator<Item = (&OperatorConfig, Vec<StateDescriptor>)> {
        let operators = self.config.operators.iter().zip(&self.graph.operators);
        operators.map(|(operator, node)| (operator, self.config.tables(operator, &node.spec)))
    }

    /// Where the sources begin.
    fn first_positions(&self) -> Result<Vec<SourceCheckpoint>> {
        let sources = self.config.sources.iter().zip(self.open_sources(None)?);
        let first = sources.map(|(config, (subtasks, _))| {
            let positions = subtasks.iter().map(|source| source.position());
            Ok(SourceCheckpoint {
                name: config.name.clone(),
                position: source::merge(&positions.collect::<Result<Vec<_>>>()?)?,
                closed: false,
                watermark: None,
                dead_letters: None,
            })
        });
        first.collect()
    }

    /// Sinks without output.
    fn first_sinks(&self) -> Result<Vec<SinkCheckpoint>> {
        let sinks = self.config.sinks.iter().zip(self.open_sinks(None, true)?);
        let first = sinks.map(|(config, sink)| SinkCheckpoint {
            name: config.name.clone(),
            connector: sink.connector().to_owned(),
            handles: Vec::new(),
        });
        Ok(first.collect())
    }

    /// Makes all tables, with the rows that are for them.
    fn fill(
        &self,
        mut planned: Vec<Planned>,
    ) -> Result<(Vec<ImportedTable>, Vec<OperatorCheckpoint>)> {
        let sync = self.config.checkpoint.sync;
        let options = StoreOptions { sync, ..StoreOptions::default() };
        let store = StateStore::open(&self.config.warehouse(), &self.config.tenant, options)?;
        let (mut tables, mut loaders) = (Vec::new(), Vec::new());
        for (_, states) in self.states() {
            for descriptor in states {
                let table = store.open_table(&descriptor, howdah_state::Restore::Fresh)?;
                let mut loader = table.loader()?;
                let of_state = planned.iter().position(|it| it.descriptor == descriptor);
                if let Some(Planned { file, columns, .. }) =
                    of_state.map(|at| planned.swap_remove(at))
                {
                    let path = file.path().to_owned();
                    let table = descriptor.table_name();
                    let rows = load(&mut loader, file, &columns, &path)?;
                    tables.push(ImportedTable { table, path, rows, columns: columns.fits });
                }
                loaders.push(loader);
            }
        }
        loaders.iter_mut().try_for_each(|loader| loader.freeze(CHECKPOINT))?;
        let snapshots = store.wait_published(CHECKPOINT)?;
        store.close()?;
        let position = |descriptor: StateDescriptor| -> Result<StatePosition> {
            let table = descriptor.table_name();
            let found = snapshots.iter().find(|(name, _)| *name == table);
            let (_, snapshot) = found.ok_or_else(|| Error::internal("a table has no snapshot"))?;
            Ok(StatePosition { state: descriptor.state, table, snapshot: *snapshot })
        };
        let operators =
            self.states().zip(&self.components).map(|((operator, states), component)| {
                Ok(OperatorCheckpoint {
                    name: operator.name.clone(),
                    component: component.digest().to_owned(),
                    config_crc32: Some(config_crc32(&operator.config)),
                    watermark: None,
                    states: states.into_iter().map(position).collect::<Result<_>>()?,
                })
            });
        Ok((tables, operators.collect::<Result<_>>()?))
    }
}

/// Moves all rows of a file into a table.
fn load(
    loader: &mut howdah_state::TableLoader,
    file: RowFile,
    columns: &Columns,
    path: &Path,
) -> Result<u64> {
    let mut rows = 0;
    for batch in file.batches()? {
        let batch = columns.convert(&batch?, path, rows)?;
        let loaded = loader.load(&batch).map_err(|error| match error.kind() {
            howdah_state::ErrorKind::InvalidArgument => {
                Error::input(format!("{}: {error}; mend the file", path.display()))
            }
            _ => error.into(),
        });
        loaded?;
        rows += u64::try_from(batch.num_rows()).unwrap_or(0);
    }
    Ok(rows)
}

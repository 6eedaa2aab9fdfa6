//! A prepared pipeline, and how it is started.

use crate::checkpoint::{self, Checkpoint, Checkpoints};
use crate::config::{OperatorConfig, PipelineConfig, SinkConfig, SourceConfig};
use crate::connector::Kept;
use crate::coordinator::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::fit::StoredTables;
use crate::graph::{Graph, SinkNode, SourceNode};
use crate::handle::Handle;
use crate::launch::{Launch, OpenSource, RestoredNodes};
use crate::lock::Lock;
use crate::replay::Until;
use crate::restore::{self, FreshStart, Restore};
use crate::sink::{self, Sink};
use crate::source::{self, Share, Source};
use crate::{dead_letter, directory, dropped};
use crate::{paths, savepoint};
use howdah_runtime::{Component, Context, Engine, Inspection, Instance, LoadOptions, OperatorSpec};
use howdah_state::{Clock, OnProgress, StateStore, StateTable, StoreOptions};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The file in the state directory that carries the lock.
pub(crate) const LOCK: &str = "LOCK";
/// The directory of the state tables in the state directory.
pub(crate) const WAREHOUSE: &str = "warehouse";

/// Where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StartFrom {
    /// The newest completed checkpoint; the beginning, if there is none.
    #[default]
    Latest,
    /// This completed checkpoint; later ones, and the output that they made visible, are
    /// removed.
    Checkpoint(u64),
    /// The beginning: state, checkpoints and this pipeline's own output are removed.
    Fresh,
}

/// How to start a pipeline.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// Where to begin.
    pub from: StartFrom,
    /// The clock that operators, their processing-time timers and times to live go by. Default:
    /// that of the machine.
    pub clock: Clock,
    /// States of the checkpoint that the pipeline no longer has and goes on without, each by the name
    /// of its operator (all of its states, and the operator), its own, or `operator.state`. What it
    /// lacks and is not named here is refused. They stay in the checkpoint.
    pub dropped_states: Vec<String>,
}

impl Default for StartOptions {
    fn default() -> Self {
        Self { from: StartFrom::default(), clock: Clock::system(), dropped_states: Vec::new() }
    }
}

/// The components of a pipeline's operators, compiled. Cheap to clone. A program that starts its
/// pipeline again after a failure keeps them: their files may be others by then, or half written.
#[derive(Debug, Clone)]
pub struct Components {
    /// In the order of the configuration's operators.
    all: Vec<Component>,
}

impl Components {
    /// Loads those that a pipeline file names.
    ///
    /// # Errors
    /// [`ErrorKind::Operator`] for what is no component that runs here, with its line.
    pub fn load(config: &PipelineConfig, engine: &Engine) -> Result<Self> {
        paths::check(config)?;
        Ok(Self { all: load_components(config, engine)? })
    }
}

/// A checked pipeline that holds the lock on its state directory and is ready to start.
pub struct Pipeline {
    pub(crate) config: PipelineConfig,
    /// One for each operator.
    pub(crate) components: Vec<Component>,
    pub(crate) graph: Graph,
    /// Sources that end once so many rows were read, by their names.
    pub(crate) until: BTreeMap<String, u64>,
    lock: Lock,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Loads the components, resolves the columns and takes the lock on the state directory.
    /// Whatever does not fit is refused here, with the line of the pipeline file.
    pub fn prepare(config: PipelineConfig, engine: &Engine) -> Result<Self> {
        let components = Components::load(&config, engine)?;
        Self::prepare_with(config, components)
    }

    /// The same with components that [`Components::load`] has loaded for this configuration.
    pub fn prepare_with(config: PipelineConfig, components: Components) -> Result<Self> {
        paths::check(&config)?;
        let Components { all: components } = components;
        let graph = Graph::of(&config, &components)?;
        let stated = "`state-directory` in the pipeline file says where it is";
        directory::create(&config.state_directory).map_err(|error| error.with_hint(stated))?;
        let lock = config.state_directory.join(LOCK);
        let lock = Lock::acquire(&lock, &config.state_directory, &config.name)?;
        Ok(Self { config, components, graph, until: BTreeMap::new(), lock })
    }

    /// Checks what [`Pipeline::prepare`] and [`Pipeline::start`] would refuse, as far as it can be
    /// known beforehand. Takes no lock and changes nothing: the pipeline may be running, as it is or
    /// as another file has it.
    ///
    /// # Errors
    /// As [`Pipeline::prepare`] and [`Pipeline::start`].
    pub fn check(config: &PipelineConfig, engine: &Engine) -> Result<()> {
        config.find_sources()?;
        let components = Components::load(config, engine)?.all;
        let graph = Graph::of(config, &components)?;
        let tables = StoredTables::of_pipeline(config, &graph);
        let from = FreshStart::finish_first(&config.state_directory, StartFrom::Latest)?;
        Restore::choose(&config.state_directory, from, &graph.shape(config), &tables, &[]).map(drop)
    }

    /// Removes checkpoints of a pipeline that does not run. The newest one stays, as a run goes on
    /// from it; so do those that are pinned.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] while it runs; [`ErrorKind::Config`] for one that is not there, or has to
    /// stay: then none is removed.
    pub fn remove_checkpoints(config: &PipelineConfig, ids: &[u64]) -> Result<()> {
        let lock = config.state_directory.join(LOCK);
        let _lock = Lock::acquire(&lock, &config.state_directory, &config.name)?;
        let entries = Checkpoints::list(&config.state_directory)?;
        for id in ids {
            if !entries.iter().any(|entry| entry.id == *id) {
                return Err(checkpoint::no_such(&entries, *id));
            }
        }
        if let Some(newest) = entries.last().filter(|entry| ids.contains(&entry.id)) {
            let message = format!(
                "checkpoint {} is the newest, which the next run goes on from; to go back, run with \
                 --checkpoint, to begin anew, with --fresh",
                newest.id
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        restore::refuse_pinned(&config.state_directory, ids)?;
        Checkpoints::open(&config.state_directory, config.checkpoint.sync)?.remove(ids)
    }

    /// The configuration.
    pub fn config(&self) -> &PipelineConfig {
        &self.config
    }

    /// What the operators say they are, in the order of the configuration's.
    pub fn operators(&self) -> impl Iterator<Item = &OperatorSpec> {
        self.graph.operators.iter().map(|operator| &operator.spec)
    }

    /// Starts the threads.
    ///
    /// Fails when there is no checkpoint to start from, it is damaged, or the pipeline has
    /// changed so that it no longer fits.
    pub fn start(self, options: StartOptions) -> Result<Handle> {
        let StartOptions { from, clock, dropped_states } = options;
        let state_directory = &self.config.state_directory;
        let sync = self.config.checkpoint.sync;
        let from = FreshStart::finish_first(state_directory, from)?;
        let tables = StoredTables::of_pipeline(&self.config, &self.graph);
        let shape = self.graph.shape(&self.config);
        let restore = Restore::choose(state_directory, from, &shape, &tables, &dropped_states)?;
        let checkpoint = restore.checkpoint.as_ref();
        if let Some(checkpoint) = checkpoint {
            self.log_changes(checkpoint);
        }
        let span = checkpoint.map_or_else(tracing::Span::none, |checkpoint| {
            tracing::debug_span!("restore", checkpoint = checkpoint.id)
        });
        let _entered = span.entered();
        // All that may refuse comes before all that changes something on disk.
        self.refuse_to_hide(&restore)?;
        let mut sources = self.open_sources(checkpoint)?;
        sources.iter_mut().flat_map(|(subtasks, _)| subtasks).try_for_each(|it| it.begin())?;
        let begins = checkpoint.is_none() && from == StartFrom::Latest;
        let mut sinks = self.open_sinks(checkpoint, begins)?;

        let fresh_start = match from {
            StartFrom::Fresh => Some(FreshStart::begin(state_directory, sync)?),
            StartFrom::Latest | StartFrom::Checkpoint(_) => None,
        };
        // Documents go first: no crash may leave one whose output is gone.
        let checkpoints = Checkpoints::open(state_directory, sync)?;
        checkpoints.remove(&restore.obsolete)?;
        let open = |(subtasks, claim): (_, Option<dead_letter::Claim>)| {
            let dead_letters = claim.map(dead_letter::Claim::open).transpose()?;
            Ok(OpenSource { subtasks, dead_letters })
        };
        let sources = sources.into_iter().map(open).collect::<Result<Vec<_>>>()?;
        for (config, sink) in self.config.sinks.iter().zip(&mut sinks) {
            let handles = checkpoint.map(|checkpoint| {
                let handles = checkpoint.sink(&config.name).map(|sink| sink.handles.as_slice());
                (checkpoint.id, handles.unwrap_or_default())
            });
            sink.recover(handles)?;
        }
        if let Some(fresh_start) = fresh_start {
            fresh_start.end()?;
        }
        let (store, tables) = self.open_states(checkpoint, &clock)?;
        let instances = self.instantiate(&tables, checkpoint, &clock)?;
        let Self { config, components, graph, lock, .. } = self;
        let launch = Launch {
            config,
            graph,
            components,
            lock,
            restore,
            sources,
            sinks,
            checkpoints,
            store,
            tables,
            instances,
        };
        launch.run()
    }

    /// Makes the state directory that of a savepoint: [`Pipeline::start`] then goes on from it.
    /// `fresh` removes what is there before; `dropped_states` are as in [`StartOptions`].
    ///
    /// # Errors
    /// [`ErrorKind::Incompatible`] when the pipeline has checkpoints and `fresh` is not set, or the
    /// savepoint is of another pipeline, or one of another shape; [`ErrorKind::Corrupt`] when it is
    /// damaged.
    pub fn install_savepoint(
        &self,
        savepoint: &Path,
        fresh: bool,
        dropped_states: &[String],
        progress: OnProgress<'_>,
    ) -> Result<()> {
        let tables = StoredTables::of_savepoint(&self.config, &self.graph, savepoint);
        let shape = self.graph.shape(&self.config);
        savepoint::install(&self.config, savepoint, fresh, progress, |checkpoint| {
            restore::compare(checkpoint, &shape, &tables, dropped_states)
        })
    }

    /// Says what else is another than it was. The operators' stored states fit, so it may be.
    fn log_changes(&self, checkpoint: &Checkpoint) {
        let id = checkpoint.id;
        let nodes = self.components.iter().zip(&self.graph.operators);
        for name in dropped::missing(&checkpoint.shape, &self.graph.shape(&self.config)) {
            tracing::warn!(
                "the pipeline goes on without the state of `{name}`, which stays in checkpoint {id}"
            );
        }
        let gone = checkpoint.sinks.iter().filter(|sink| !sink.handles.is_empty());
        let known = |name: &str| self.config.sinks.iter().any(|sink| sink.name == name);
        for sink in gone.filter(|sink| checkpoint.sinks.len() > 1 && !known(&sink.name)) {
            tracing::warn!(
                "the sink `{}` is gone: what of its output at checkpoint {id} was not visible when \
                 the pipeline ended stays so",
                sink.name
            );
        }
        for (operator, (component, node)) in self.config.operators.iter().zip(nodes) {
            let Some(stored) = checkpoint.operator(&operator.name) else { continue };
            let component = component.digest();
            let before = checkpoint.shape.operators.iter().find(|it| it.name == operator.name);
            if let Some(before) = before.filter(|it| it.parallelism != operator.parallelism) {
                tracing::info!(
                    "operator `{}` had {} subtasks at checkpoint {id} and has {}: its state is \
                     spread over them as it is",
                    operator.name,
                    before.parallelism,
                    operator.parallelism
                );
            }
            if stored.component != component {
                tracing::warn!(
                    "the component of operator `{}` has changed since checkpoint {id}: its SHA-256 \
                     was {} and is {component}; its states fit",
                    operator.name,
                    stored.component
                );
            }
            if stored.has_other_config(&operator.config) {
                tracing::warn!(
                    "the configuration of operator `{}` has changed since checkpoint {id}",
                    operator.name
                );
            }
            let tables = self.config.tables(operator, &node.spec);
            for table in tables.iter().filter(|it| !checkpoint.has_state(&operator.name, &it.state))
            {
                tracing::warn!(
                    "operator `{}` has a state `{}` that it did not have at checkpoint {id}: it \
                     begins empty",
                    operator.name,
                    table.state
                );
            }
        }
    }

    /// The sources at the checkpoint, and their claims on dead-letter files.
    #[expect(clippy::type_complexity, reason = "what comes of a source before it is changed")]
    pub(crate) fn open_sources(
        &self,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Vec<(Vec<Box<dyn Source>>, Option<dead_letter::Claim>)>> {
        let PipelineConfig { state_directory, directories, checkpoint: settings, .. } =
            &self.config;
        let sync = settings.sync;
        let open = |(config, node): (&SourceConfig, &SourceNode)| {
            let stored = checkpoint.and_then(|checkpoint| checkpoint.source(&config.name));
            let position = stored.map(|stored| &stored.position);
            let until = self.until.get(&config.name).copied();
            let subtasks = Share::all(config.parallelism).map(|share| {
                let plan = Arc::clone(&node.plan);
                let source = source::open(config, directories, plan, share, position)?;
                Ok(match until {
                    Some(rows) => Box::new(Until { source, rows }),
                    None => source,
                })
            });
            let subtasks = subtasks.collect::<Result<Vec<_>>>()?;
            let Some(path) = config.dead_letter_file() else { return Ok((subtasks, None)) };
            let letters = stored.and_then(|stored| stored.dead_letters.as_ref());
            let owner = (state_directory.as_path(), config.name.as_str());
            let place = directories.place(path)?;
            let claim = dead_letter::Claim::check(&place, owner, letters, sync)?;
            Ok((subtasks, Some(claim)))
        };
        self.config.sources.iter().zip(&self.graph.sources).map(open).collect()
    }

    /// Takes possession of where the sinks write. `begins`: there must be no output yet.
    pub(crate) fn open_sinks(
        &self,
        checkpoint: Option<&Checkpoint>,
        begins: bool,
    ) -> Result<Vec<Box<dyn Sink>>> {
        let open = |(config, node): (&SinkConfig, &SinkNode)| {
            let sink = sink::open(&sink::Opening {
                tenant: &self.config.tenant,
                pipeline: &self.config.name,
                state_directory: &self.config.state_directory,
                sync: self.config.checkpoint.sync,
                directories: &self.config.directories,
                config,
                output: node.output.as_ref(),
            });
            let sink = sink.map_err(|error| match error.kind() {
                ErrorKind::Config => error.at(&self.config.file, config.line),
                _ => error,
            })?;
            if let Some(stored) = checkpoint.and_then(|stored| stored.sink(&config.name)) {
                Kept::Output.check(sink.connector(), &stored.connector)?;
            }
            if begins && sink.has_output()? {
                let path = config.path.as_ref().map(|path| path.value.display().to_string());
                let message = format!(
                    "the output directory {} has output of an earlier run, but {} has no \
                     checkpoint that it belongs to; start with --fresh to remove it",
                    path.unwrap_or_default(),
                    self.config.state_directory.display()
                );
                return Err(Error::new(ErrorKind::Incompatible, message));
            }
            Ok(sink)
        };
        self.config.sinks.iter().zip(&self.graph.sinks).map(open).collect()
    }

    /// A state that begins empty must not take the place of one that a kept checkpoint has.
    fn refuse_to_hide(&self, restore: &Restore) -> Result<()> {
        let Some(checkpoint) = &restore.checkpoint else { return Ok(()) };
        for (operator, node) in self.config.operators.iter().zip(&self.graph.operators) {
            let tables = self.config.tables(operator, &node.spec).into_iter();
            for new in tables.filter(|it| !checkpoint.has_state(&operator.name, &it.state)) {
                let Some(id) = restore.holder_of(&new.table_name()) else { continue };
                let message = format!(
                    "the state `{}` of operator `{}` would begin empty in place of the one that \
                     checkpoint {} still has; run with --checkpoint {} to go on with that one, or \
                     remove the checkpoints that have it: `howdah checkpoint rm`",
                    new.state, operator.name, id, id
                );
                return Err(Error::new(ErrorKind::Incompatible, message));
            }
        }
        Ok(())
    }

    /// Opens the tables of all states and timers.
    fn open_states(
        &self,
        checkpoint: Option<&Checkpoint>,
        clock: &Clock,
    ) -> Result<(StateStore, Vec<Table>)> {
        let options = StoreOptions {
            sync: self.config.checkpoint.sync,
            snapshot_retained_ms: self.config.checkpoint.snapshot_retained_ms,
            clock: clock.clone(),
            ..StoreOptions::default()
        };
        let store = StateStore::open(&self.config.warehouse(), &self.config.tenant, options)?;
        let mut tables = Vec::new();
        let operators = self.config.operators.iter().zip(&self.graph.operators).enumerate();
        for (index, (operator, node)) in operators {
            for descriptor in self.config.tables(operator, &node.spec) {
                let state = descriptor.state.clone();
                let known = checkpoint.filter(|it| it.has_state(&operator.name, &state));
                let restore = match known {
                    None => howdah_state::Restore::Fresh,
                    Some(checkpoint) => {
                        let stored = checkpoint.operator(&operator.name);
                        let mut positions = stored.into_iter().flat_map(|stored| &stored.states);
                        let position = positions.find(|position| position.state == state);
                        let position = position.ok_or_else(|| {
                            Error::internal(format!("the checkpoint lacks the state `{state}`"))
                        })?;
                        let shapes = &checkpoint.shape.operators;
                        let shape = shapes.iter().find(|shape| shape.name == operator.name);
                        // Spread over other subtasks, no row is rewritten.
                        match shape.is_some_and(|it| it.parallelism != operator.parallelism) {
                            true => howdah_state::Restore::Rescaled(position.snapshot),
                            false => howdah_state::Restore::Snapshot(position.snapshot),
                        }
                    }
                };
                let table = store.open_table(&descriptor, restore)?;
                tables.push(Table { operator: index, state, table });
            }
        }
        Ok((store, tables))
    }

    /// For each operator its subtasks' instances.
    fn instantiate(
        &self,
        tables: &[Table],
        checkpoint: Option<&Checkpoint>,
        clock: &Clock,
    ) -> Result<Vec<Vec<Instance>>> {
        let restored = RestoredNodes::of(&self.config, &self.graph, checkpoint);
        let nodes = self.config.operators.iter().zip(&self.graph.operators).zip(&self.components);
        let nodes = nodes.zip(&restored.operators).enumerate();
        let instances = nodes.map(|(index, (((operator, node), component), restored))| {
            let own = tables.iter().filter(|table| table.operator == index);
            let own: Vec<StateTable> = own.map(|table| table.table.clone()).collect();
            let instance = |subtask| {
                let context = Context {
                    pipeline: self.config.name.clone(),
                    operator: operator.name.clone(),
                    subtask,
                    parallelism: operator.parallelism,
                    key_groups: self.config.key_groups,
                    config: operator.config.clone(),
                    restored_from: checkpoint.map(|checkpoint| checkpoint.id),
                    watermark: restored.watermark,
                    clock: clock.clone(),
                };
                let mut instance =
                    component.instantiate(&node.spec, context, &operator.limits, &own)?;
                if operator.isolated_rows.is_some() {
                    instance.keep_state_on_failure();
                }
                Ok(instance)
            };
            (0..operator.parallelism).map(instance).collect()
        });
        instances.collect()
    }
}

/// The components of all operators.
fn load_components(config: &PipelineConfig, engine: &Engine) -> Result<Vec<Component>> {
    let mut components = Vec::with_capacity(config.operators.len());
    let mut errors = Vec::new();
    for operator in &config.operators {
        let options = LoadOptions {
            limits: operator.limits.clone(),
            wasi: operator.wasi.clone(),
            tenant: config.tenant.clone(),
        };
        match engine.load_with(&operator.component.value, &options) {
            Ok(component) => components.push(component),
            Err(error) => {
                let error = Error::from(in_full(error, operator, engine));
                errors.push(error.at(&config.file, operator.component.line));
            }
        }
    }
    Error::all(errors)?;
    Ok(components)
}

/// Every difference from the contract, where one of them is why the component is refused.
fn in_full(
    error: howdah_runtime::Error,
    operator: &OperatorConfig,
    engine: &Engine,
) -> howdah_runtime::Error {
    if error.kind() != howdah_runtime::ErrorKind::Component {
        return error;
    }
    let Ok(mut inspection) = Inspection::read(&operator.component.value) else {
        return error;
    };
    inspection.grant_wasi(engine.permits_wasi(), operator.wasi.is_some());
    inspection.refusal_error().unwrap_or(error)
}

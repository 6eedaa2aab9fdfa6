//! A prepared pipeline, and how it is started.

use crate::checkpoint::{self, Checkpoint, Checkpoints};
use crate::clock;
use crate::config::{OperatorConfig, PipelineConfig, SinkType};
use crate::coordinator::{Coordinator, Links, Settings, Table};
use crate::dead_letter::{self, DeadLetters};
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::fit::StoredTables;
use crate::handle::{Event, Handle};
use crate::isolation::FailedRows;
use crate::lock::Lock;
use crate::paths;
use crate::progress::Counters;
use crate::reader::{RateLimit, Reader};
use crate::resolved::Resolved;
use crate::restore::{FreshStart, Restore};
use crate::sink::{Committer, Sink, Staging};
use crate::source::{self, Source, Start};
use crate::subtask::Subtask;
use crate::watermark::Watermark;
use crossbeam_channel::{Receiver, Sender, bounded};
use howdah_runtime::{Component, Context, Engine, Inspection, Instance, LoadOptions, OperatorSpec};
use howdah_state::{Clock, KeyGroups, StateStore, StateTable, StoreOptions};
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Batches that wait before a subtask.
const SUBTASK_QUEUE: usize = 8;
/// Messages that wait before the sink, for each subtask.
const SINK_QUEUE: usize = 4;
/// Messages that wait before the coordinator.
const REPORT_QUEUE: usize = 1_024;
/// Events that wait for whoever listens.
const EVENT_QUEUE: usize = 1_024;
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
}

impl Default for StartOptions {
    fn default() -> Self {
        Self { from: StartFrom::default(), clock: Clock::system() }
    }
}

/// A checked pipeline that holds the lock on its state directory and is ready to start.
pub struct Pipeline {
    config: PipelineConfig,
    component: Component,
    resolved: Resolved,
    lock: Lock,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Loads the component, resolves the columns and takes the lock on the state directory.
    /// Whatever does not fit is refused here, with the line of the pipeline file.
    pub fn prepare(config: PipelineConfig, engine: &Engine) -> Result<Self> {
        paths::check(&config)?;
        let located = |error| Error::from(error).at(&config.file, config.operator.component.line);
        let OperatorConfig { component, limits, wasi, .. } = &config.operator;
        let options = LoadOptions {
            limits: limits.clone(),
            wasi: wasi.clone(),
            tenant: config.tenant.clone(),
        };
        let component = engine
            .load_with(&component.value, &options)
            .map_err(|error| located(in_full(error, &config, engine)))?;
        let resolved = Resolved::of(&config, &component)?;
        directory::create(&config.state_directory)?;
        let lock = config.state_directory.join(LOCK);
        let lock = Lock::acquire(&lock, &config.state_directory, &config.name)?;
        Ok(Self { config, component, resolved, lock })
    }

    /// The configuration.
    pub fn config(&self) -> &PipelineConfig {
        &self.config
    }

    /// What the operator says it is.
    pub fn operator(&self) -> &OperatorSpec {
        &self.resolved.spec
    }

    /// Starts the threads.
    ///
    /// Fails when there is no checkpoint to start from, it is damaged, or the pipeline has
    /// changed so that it no longer fits.
    pub fn start(self, options: StartOptions) -> Result<Handle> {
        let StartOptions { from, clock } = options;
        let state_directory = &self.config.state_directory;
        let sync = self.config.checkpoint.sync;
        let from = FreshStart::finish_first(state_directory, from)?;
        let tables = StoredTables::of_pipeline(&self.config, &self.resolved.spec);
        let shape = self.resolved.shape(&self.config);
        let restore = Restore::choose(state_directory, from, &shape, &tables)?;
        let checkpoint = restore.checkpoint.as_ref();
        if let Some(checkpoint) = checkpoint {
            self.log_changes(checkpoint);
        }
        // All that may refuse comes before all that changes something on disk.
        let position = checkpoint.map(|checkpoint| checkpoint.source);
        let source = source::open(&self.config.source, Arc::clone(&self.resolved.plan), position)?;
        let start = Start::read(&self.config.source.path.value)?;
        if let Some(checkpoint) = checkpoint {
            start.check(&self.config.source.path.value, checkpoint.source_start)?;
        }
        let mut committer = Committer::claim(&self.config, self.resolved.spec.outputs.first())?;
        if checkpoint.is_none() && from == StartFrom::Latest && committer.has_parts()? {
            return Err(self.orphaned_output());
        }
        let dead_letters = self.claim_dead_letters(checkpoint)?;

        let fresh_start = match from {
            StartFrom::Fresh => Some(FreshStart::begin(state_directory, sync)?),
            StartFrom::Latest | StartFrom::Checkpoint(_) => None,
        };
        // Documents go first: no crash may leave one whose output is gone.
        let checkpoints = Checkpoints::open(state_directory, sync)?;
        checkpoints.remove(&restore.obsolete)?;
        let dead_letters = dead_letters.map(dead_letter::Claim::open).transpose()?;
        let files = checkpoint.map(|checkpoint| (checkpoint.id, checkpoint.sink.as_slice()));
        committer.recover(files)?;
        if let Some(fresh_start) = fresh_start {
            fresh_start.end()?;
        }
        let (store, tables) = self.open_states(checkpoint, &clock)?;
        let instances = self.instantiate(&tables, checkpoint, &clock)?;
        self.launch(Launch {
            restore,
            source,
            start,
            committer,
            dead_letters,
            checkpoints,
            store,
            tables,
            instances,
        })
    }

    /// Says what else is another than it was. The operator's states fit, so it may be.
    fn log_changes(&self, checkpoint: &Checkpoint) {
        let (operator, id) = (&self.config.operator, checkpoint.id);
        let component = self.component.digest();
        if checkpoint.component != component {
            tracing::warn!(
                "the component of operator `{}` has changed since checkpoint {id}: its SHA-256 was \
                 {} and is {component}; its states fit",
                operator.name,
                checkpoint.component
            );
        }
        if checkpoint.has_other_config(&operator.config) {
            tracing::warn!(
                "the configuration of operator `{}` has changed since checkpoint {id}",
                operator.name
            );
        }
    }

    fn orphaned_output(&self) -> Error {
        let path = self.config.sink.path.as_ref().map(|path| path.value.display().to_string());
        Error::new(
            ErrorKind::Incompatible,
            format!(
                "the output directory {} has output of an earlier run, but {} has no checkpoint \
                 that it belongs to; start with --fresh to remove it",
                path.unwrap_or_default(),
                self.config.state_directory.display()
            ),
        )
    }

    /// Refuses a dead-letter file that is not this pipeline's.
    fn claim_dead_letters(
        &self,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<dead_letter::Claim>> {
        let Some(path) = self.config.dead_letter_file() else { return Ok(None) };
        let position = checkpoint.and_then(|checkpoint| checkpoint.dead_letters.as_ref());
        let (state_directory, sync) = (&self.config.state_directory, self.config.checkpoint.sync);
        dead_letter::Claim::check(path, state_directory, position, sync).map(Some)
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
        let described = self.config.tables(&self.resolved.spec);
        let mut tables = Vec::with_capacity(described.len());
        for descriptor in described {
            let state = descriptor.state.clone();
            let restore = match checkpoint {
                None => howdah_state::Restore::Fresh,
                Some(checkpoint) => {
                    let mut positions = checkpoint.states.iter();
                    let position = positions.find(|position| position.state == state);
                    let position = position.ok_or_else(|| {
                        Error::internal(format!("the checkpoint lacks the state `{state}`"))
                    })?;
                    howdah_state::Restore::Snapshot(position.snapshot)
                }
            };
            let table = store.open_table(&descriptor, restore)?;
            tables.push(Table { state, table });
        }
        Ok((store, tables))
    }

    fn instantiate(
        &self,
        tables: &[Table],
        checkpoint: Option<&Checkpoint>,
        clock: &Clock,
    ) -> Result<Vec<Instance>> {
        let tables: Vec<StateTable> = tables.iter().map(|table| table.table.clone()).collect();
        let instance = |subtask| {
            let context = Context {
                pipeline: self.config.name.clone(),
                operator: self.config.operator.name.clone(),
                subtask,
                parallelism: self.config.parallelism,
                key_groups: self.config.key_groups,
                config: self.config.operator.config.clone(),
                restored_from: checkpoint.map(|checkpoint| checkpoint.id),
                watermark: checkpoint.and_then(|c| c.watermark).unwrap_or(i64::MIN),
                clock: clock.clone(),
            };
            let limits = &self.config.operator.limits;
            let mut instance =
                self.component.instantiate(&self.resolved.spec, context, limits, &tables)?;
            if self.config.operator.isolated_rows.is_some() {
                instance.keep_state_on_failure();
            }
            Ok(instance)
        };
        (0..self.config.parallelism).map(instance).collect()
    }

    /// Wires the threads and starts them.
    fn launch(self, launch: Launch) -> Result<Handle> {
        let config = &self.config;
        let parallelism = usize::try_from(config.parallelism).unwrap_or(usize::MAX);
        let counters = Arc::new(Counters::default());
        let failure = Arc::new(Failure::new());
        let (events, events_receiver) = bounded(EVENT_QUEUE);
        let (reports, reports_receiver) = bounded(REPORT_QUEUE);
        let (commands, commands_receiver) = bounded(2);
        let (outcome, outcome_receiver) = bounded(1);
        let (sink_sender, sink_receiver) = bounded(SINK_QUEUE * parallelism);
        let (subtask_senders, subtask_receivers): (Vec<Sender<_>>, Vec<Receiver<_>>) =
            (0..parallelism).map(|_| bounded(SUBTASK_QUEUE)).unzip();

        let restored = launch.restore.checkpoint;
        let restored_from = restored.as_ref().map(|checkpoint| checkpoint.id);
        counters.checkpoint.set(restored_from.unwrap_or(0));
        let watermark = restored.as_ref().and_then(|checkpoint| checkpoint.watermark);
        let has_event_time = self.resolved.plan.has_event_time();
        counters.set_watermark(watermark.filter(|_| has_event_time));
        let groups = KeyGroups::new(config.key_groups, config.parallelism)?;
        let reader = Reader {
            source: launch.source,
            start: launch.start,
            exchange: Exchange::new(
                &self.resolved.input,
                self.resolved.plan.key().to_vec(),
                groups,
            )?,
            watermark: has_event_time
                .then(|| Watermark::new(config.source.watermark_delay_ms, watermark)),
            announces_watermark: !self.resolved.spec.timers.is_empty()
                || self.component.handlers().watermark,
            dead_letters: launch.dead_letters,
            earlier_dead_letters: restored
                .as_ref()
                .and_then(|checkpoint| checkpoint.dead_letters.clone()),
            rate_limit: RateLimit::new(config.source.rate_limit_rows_per_second),
            closed: restored.as_ref().is_some_and(|checkpoint| checkpoint.closed),
            commands: commands_receiver,
            reports: reports.clone(),
            subtasks: subtask_senders,
            counters: Arc::clone(&counters),
            failure: Arc::clone(&failure),
        };
        let isolated_rows = config.operator.isolated_rows;
        let mut failed_rows = FailedRows::open(
            &config.state_directory,
            restored_from,
            config.parallelism,
            isolated_rows.unwrap_or(0),
            config.checkpoint.sync,
            &self.resolved.spec.key_columns(),
        )?
        .into_iter()
        .filter(|_| isolated_rows.is_some());
        let staging = Staging {
            directory: launch.committer.staging(),
            format: config.sink.format,
            header: config.sink.sink_type == SinkType::Files,
            sync: config.checkpoint.sync,
            base: restored_from.unwrap_or(0),
        };
        let sink =
            Sink::new(staging, self.resolved.spec.outputs.first().cloned(), config.parallelism);
        let links = Links {
            commands,
            reports: reports_receiver,
            state_events: launch.store.events(),
            events: events.clone(),
            counters: Arc::clone(&counters),
            failure: Arc::clone(&failure),
        };
        let settings = Settings {
            interval: Duration::from_millis(config.checkpoint.interval_ms),
            retained: config.checkpoint.retained,
            parallelism,
            shape: self.resolved.shape(config),
            component: self.component.digest().to_owned(),
            config_crc32: checkpoint::config_crc32(&config.operator.config),
        };
        let coordinator = Coordinator::new(
            links,
            settings,
            launch.tables.clone(),
            (launch.checkpoints, launch.committer),
            launch.restore.retained,
            launch.restore.next_id,
        );

        // From here on the handle's drop ends what was started.
        let mut handle = Handle {
            name: config.name.clone(),
            restored_from,
            started: clock::now(),
            events: events_receiver,
            reports: reports.clone(),
            outcome: outcome_receiver,
            threads: Vec::with_capacity(parallelism + 3),
            counters: Arc::clone(&counters),
            failure: Arc::clone(&failure),
            tables: launch.tables,
            store: Some(launch.store),
            _lock: self.lock,
        };
        let _ = events.try_send(Event::Started { checkpoint: restored_from });
        drop(events);
        let role = |role: &str| format!("{}-{role}", config.name);
        let failing = &failure;
        handle.threads.push(spawn(&role("coordinator"), failing, move || {
            let (done, result) = coordinator.run();
            // The handle takes it after the thread has ended.
            let _ = outcome.try_send(done);
            result
        })?);
        let sink_reports = reports.clone();
        let sink_failure = Arc::clone(&failure);
        handle.threads.push(spawn(&role("sink"), failing, move || {
            sink.run(&sink_receiver, &sink_reports, &sink_failure)
        })?);
        for ((number, instance), input) in (0..).zip(launch.instances).zip(subtask_receivers) {
            let subtask = Subtask {
                number,
                instance,
                key: self.resolved.plan.key().to_vec(),
                input,
                sink: sink_sender.clone(),
                reports: reports.clone(),
                counters: Arc::clone(&counters),
                completed: restored_from.unwrap_or(0),
                failed_rows: failed_rows.next(),
                timers_singled: false,
                failure: Arc::clone(&failure),
            };
            let role = role(&format!("subtask-{number}"));
            handle.threads.push(spawn(&role, failing, move || subtask.run())?);
        }
        handle.threads.push(spawn(&role("source"), failing, move || reader.run())?);
        Ok(handle)
    }
}

/// Every difference from the contract, where one of them is why the component is refused.
fn in_full(
    error: howdah_runtime::Error,
    config: &PipelineConfig,
    engine: &Engine,
) -> howdah_runtime::Error {
    if error.kind() != howdah_runtime::ErrorKind::Component {
        return error;
    }
    let Ok(mut inspection) = Inspection::read(&config.operator.component.value) else {
        return error;
    };
    if config.operator.wasi.is_some() && engine.permits_wasi() {
        inspection.grant_wasi();
    }
    inspection.refusal_error().unwrap_or(error)
}

/// What has been opened for a run.
struct Launch {
    restore: Restore,
    source: Box<dyn Source>,
    start: Start,
    committer: Committer,
    dead_letters: Option<DeadLetters>,
    checkpoints: Checkpoints,
    store: StateStore,
    tables: Vec<Table>,
    instances: Vec<Instance>,
}

/// Starts a thread whose failure, or panic, ends the pipeline.
fn spawn(
    name: &str,
    failure: &Arc<Failure>,
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<JoinHandle<()>> {
    let guard = Guard { name: name.to_owned(), failure: Arc::clone(failure) };
    clock::spawn(name, move || {
        if let Err(error) = run() {
            guard.failure.raise(error);
        }
    })
}

/// Raises a failure when its thread panics.
struct Guard {
    name: String,
    failure: Arc<Failure>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failure.raise(Error::internal(format!("the thread {} panicked", self.name)));
        }
    }
}

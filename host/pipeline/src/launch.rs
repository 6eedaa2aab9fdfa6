//! Wires the nodes of a pipeline with channels, and starts a thread for each subtask of each source
//! and operator, and for each sink.

mod restored;
mod wires;

use crate::checkpoint::{Checkpoint, Checkpoints, OperatorCheckpoint, config_crc32};
use crate::clock;
use crate::config::PipelineConfig;
use crate::coordinator::{Command, Coordinator, Links, Report, Settings, Table};
use crate::dead_letter::DeadLetters;
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::gate::Gate;
use crate::graph::Graph;
use crate::handle::{Event, Handle};
use crate::isolation::FailedRows;
use crate::latency::LatencyMeter;
use crate::lock::Lock;
use crate::meter::Meter;
use crate::outlet::{Outlet, Outlets};
use crate::progress::Counters;
use crate::reader::{RateLimit, Reader};
use crate::restore::Restore;
use crate::sink::{Sink, SinkThread};
use crate::source::Source;
use crate::subtask::Subtask;
use crate::trace::CheckpointSpan;
use crate::watermark::{Idleness, Watermark};
use crossbeam_channel::{Receiver, Sender, bounded};
use howdah_runtime::{Component, Instance};
use howdah_state::StateStore;
use restored::Restored;
pub(crate) use restored::RestoredNodes;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
#[cfg(feature = "bench")]
pub(crate) use wires::SUBTASK_QUEUE;
use wires::{SinkWires, SubtaskWires, Wires};

/// Messages that wait before the coordinator.
const REPORT_QUEUE: usize = 1_024;
/// Events that wait for whoever listens.
const EVENT_QUEUE: usize = 1_024;

/// Room for the barriers that are on their way to a source: those of the checkpoints that may fail
/// one after the other, and of the one in flight; for the news of the one before; and for the word to
/// drain.
fn command_queue(config: &PipelineConfig) -> usize {
    usize::try_from(config.checkpoint.tolerated_failures).unwrap_or(usize::MAX).saturating_add(3)
}

/// What has been opened for a run.
pub(crate) struct Launch {
    pub(crate) config: PipelineConfig,
    pub(crate) graph: Graph,
    pub(crate) components: Vec<Component>,
    pub(crate) lock: Lock,
    pub(crate) restore: Restore,
    /// One for each source.
    pub(crate) sources: Vec<OpenSource>,
    /// One for each sink.
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) store: StateStore,
    /// The tables of all operators.
    pub(crate) tables: Vec<Table>,
    /// For each operator one for each subtask.
    pub(crate) instances: Vec<Vec<Instance>>,
}

/// A source at the position that the run goes on from.
pub(crate) struct OpenSource {
    /// The share of each subtask.
    pub(crate) subtasks: Vec<Box<dyn Source>>,
    /// That of the only subtask.
    pub(crate) dead_letters: Option<DeadLetters>,
}

impl Launch {
    /// Starts the threads.
    pub(crate) fn run(self) -> Result<Handle> {
        let Self { config, graph, components, restore, sinks, tables, .. } = self;
        let checkpoint = restore.checkpoint;
        let restored = RestoredNodes::of(&config, &graph, checkpoint.as_ref());
        let wires = Wires::of(&config, &graph, &restored)?;
        let readers = wires.sources.iter().enumerate();
        let readers: Vec<usize> =
            readers.flat_map(|(source, subtasks)| vec![source; subtasks.len()]).collect();
        let producers = wires.sinks.iter().map(|sink| sink.producers).collect();

        let (events, events_receiver) = bounded(EVENT_QUEUE);
        let (reports, reports_receiver) = bounded(REPORT_QUEUE);
        let (outcome, outcome_receiver) = bounded(1);
        let (commands, commands_receivers): (Vec<Sender<_>>, Vec<Receiver<_>>) =
            readers.iter().map(|_| bounded(command_queue(&config))).unzip();
        let restored_from = checkpoint.as_ref().map(|checkpoint| checkpoint.id);
        let nodes = Nodes {
            config: &config,
            graph: &graph,
            checkpoint: checkpoint.as_ref(),
            base: restored_from.unwrap_or(0),
            reports,
            counters: Arc::new(Counters::new(readers.len())),
            checkpoint_span: CheckpointSpan::default(),
            failure: Arc::new(Failure::new()),
        };
        nodes.counters.checkpoint.set(nodes.base);
        // Shown first, started last.
        let of_sources = nodes.sources(self.sources, wires.sources, commands_receivers);
        let mut tasks = nodes.sinks(&sinks, wires.sinks)?;
        let instances = (components.as_slice(), self.instances);
        tasks.extend(nodes.operators(instances, wires.operators, &restored.operators)?);
        tasks.extend(of_sources);
        let links = Links {
            commands,
            reports: reports_receiver,
            state_events: self.store.events(),
            events: events.clone(),
            counters: Arc::clone(&nodes.counters),
            checkpoint_span: nodes.checkpoint_span.clone(),
            failure: Arc::clone(&nodes.failure),
        };
        let coordinator = Coordinator::new(
            links,
            nodes.settings(&components, readers, producers),
            tables.clone(),
            (self.checkpoints, sinks),
            restore.retained,
            restore.next_id,
        );
        tasks.push(Task::new("coordinator", move || {
            // The handle takes it after the thread has ended.
            let _ = outcome.try_send(coordinator.run());
            Ok(())
        }));

        // From here on the handle's drop ends what was started.
        let mut handle = Handle {
            name: config.name.clone(),
            restored_from,
            started: clock::now(),
            events: events_receiver,
            reports: nodes.reports,
            outcome: outcome_receiver,
            threads: Vec::new(),
            counters: nodes.counters,
            failure: nodes.failure,
            tables,
            store: Some(self.store),
            _lock: self.lock,
        };
        let _ = events.try_send(Event::Started { checkpoint: restored_from });
        for task in tasks {
            handle.threads.push(task.start(&handle.name, &handle.failure)?);
        }
        Ok(handle)
    }
}

/// What makes the threads of nodes, and what they share.
struct Nodes<'a> {
    config: &'a PipelineConfig,
    graph: &'a Graph,
    /// The checkpoint that the run goes on from.
    checkpoint: Option<&'a Checkpoint>,
    /// Its number; 0: there is none.
    base: u64,
    reports: Sender<Report>,
    counters: Arc<Counters>,
    checkpoint_span: CheckpointSpan,
    failure: Arc<Failure>,
}

impl Nodes<'_> {
    fn sinks(&self, sinks: &[Box<dyn Sink>], wires: Vec<SinkWires>) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        let nodes = self.config.sinks.iter().zip(sinks).zip(wires).enumerate();
        for (number, ((config, sink), SinkWires { producers, rows })) in nodes {
            let writer = SinkThread::new(number, &**sink, producers, self.base)?;
            let latency = LatencyMeter::new(&self.config.name, Arc::clone(&self.counters));
            let (reports, failure) = (self.reports.clone(), Arc::clone(&self.failure));
            let run = move || writer.run(&rows, &reports, &latency, &failure);
            tasks.push(Task::new(&config.name, run));
        }
        Ok(tasks)
    }

    /// The subtasks of all operators.
    fn operators(
        &self,
        (components, instances): (&[Component], Vec<Vec<Instance>>),
        wires: Vec<Vec<SubtaskWires>>,
        restored: &[Restored],
    ) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        let parts = components.iter().zip(instances).zip(wires).zip(restored).enumerate();
        for (operator, (((component, instances), wires), restored)) in parts {
            let mut failed_rows = self.failed_rows(operator)?.into_iter();
            for (number, (instance, wires)) in instances.into_iter().zip(wires).enumerate() {
                let gate = Gate::new(wires.inlets, restored.watermark);
                let at = (operator, number);
                let subtask = self.subtask(at, (component, instance), gate, wires.outlets);
                let Some((name, mut subtask)) = subtask else { continue };
                subtask.failed_rows = failed_rows.next();
                tasks.push(Task::new(&name, move || subtask.run()));
            }
        }
        Ok(tasks)
    }

    /// Where the subtasks of an operator set rows aside that it fails on; empty: they do not.
    fn failed_rows(&self, operator: usize) -> Result<Vec<FailedRows>> {
        let nodes = self.config.operators.get(operator).zip(self.graph.operators.get(operator));
        let Some((config, node)) = nodes else { return Ok(Vec::new()) };
        let failed_rows = FailedRows::open(
            &self.config.state_directory,
            Some(config.name.as_str()).filter(|_| self.config.operators.len() > 1),
            (self.base > 0).then_some(self.base),
            config.parallelism,
            (config.isolated_rows.unwrap_or(0), self.config.checkpoint.sync),
            &node.spec.key_columns(),
        )?;
        Ok(if config.isolated_rows.is_some() { failed_rows } else { Vec::new() })
    }

    /// A subtask of an operator, and its name.
    fn subtask(
        &self,
        (operator, number): (usize, usize),
        (component, instance): (&Component, Instance),
        gate: Gate,
        outlets: Vec<Outlet>,
    ) -> Option<(String, Subtask)> {
        let config = self.config.operators.get(operator)?;
        let node = self.graph.operators.get(operator)?;
        let subtask = Subtask {
            operator,
            instance,
            keys: node.keys(),
            gate,
            outlets: self.outlets(outlets, &config.name, number),
            reports: self.reports.clone(),
            counters: Arc::clone(&self.counters),
            completed: self.base,
            failed_rows: None,
            timers_singled: false,
            idle: false,
            batch_rows: config.batch.rows,
            batch_wait: Duration::from_millis(config.batch.wait_ms),
            heeds_watermark: !node.spec.timers.is_empty() || component.handlers().watermark,
            checkpoint_span: self.checkpoint_span.clone(),
            failure: Arc::clone(&self.failure),
        };
        Some((format!("{}-{number}", config.name), subtask))
    }

    /// The readers of all sources.
    fn sources(
        &self,
        sources: Vec<OpenSource>,
        outlets: Vec<Vec<Vec<Outlet>>>,
        commands: Vec<Receiver<Command>>,
    ) -> Vec<Task> {
        let mut tasks = Vec::new();
        let mut commands = commands.into_iter().enumerate();
        for (source, (open, outlets)) in sources.into_iter().zip(outlets).enumerate() {
            let mut dead_letters = open.dead_letters;
            let subtasks = open.subtasks.into_iter().zip(outlets).zip(commands.by_ref());
            for (subtask, ((share, outlets), (number, commands))) in subtasks.enumerate() {
                let reader = self.reader((source, subtask, number), share, outlets, commands);
                let Some((name, mut reader)) = reader else { continue };
                reader.dead_letters = dead_letters.take();
                tasks.push(Task::new(&name, move || reader.run()));
            }
        }
        tasks
    }

    /// A subtask of a source, with a number among all of them, and its name.
    fn reader(
        &self,
        (source, subtask, number): (usize, usize, usize),
        share: Box<dyn Source>,
        outlets: Vec<Outlet>,
        commands: Receiver<Command>,
    ) -> Option<(String, Reader)> {
        let config = self.config.sources.get(source)?;
        let plan = &self.graph.sources.get(source)?.plan;
        let restored = self.checkpoint.and_then(|checkpoint| checkpoint.source(&config.name));
        let watermark = restored.and_then(|restored| restored.watermark);
        let watermark = Watermark::new(config.watermark_delay_ms, watermark);
        let watermark = plan.has_event_time().then_some(watermark);
        self.counters.source(number, |counters| {
            counters.set_watermark(watermark.as_ref().and_then(Watermark::value));
        });
        let letters = restored.and_then(|restored| restored.dead_letters.clone());
        let reader = Reader {
            number,
            source: share,
            outlets: self.outlets(outlets, &config.name, subtask),
            watermark,
            idleness: Idleness::new(config.idle_after_ms),
            dead_letters: None,
            earlier_dead_letters: letters.filter(|_| subtask == 0),
            rate_limit: RateLimit::new(config.rate_limit_rows_per_second, config.parallelism),
            closed: restored.is_some_and(|restored| restored.closed),
            draining: false,
            commands,
            reports: self.reports.clone(),
            counters: Arc::clone(&self.counters),
            failure: Arc::clone(&self.failure),
        };
        let name = match config.parallelism {
            1 => config.name.clone(),
            _ => format!("{}-{subtask}", config.name),
        };
        Some((name, reader))
    }

    fn outlets(&self, outlets: Vec<Outlet>, node: &str, subtask: usize) -> Outlets {
        Outlets {
            outlets,
            read_at: None,
            counters: Arc::clone(&self.counters),
            meter: Meter::new(&self.config.name, self.counters.tally(node, subtask)),
        }
    }

    fn settings(
        &self,
        components: &[Component],
        readers: Vec<usize>,
        producers: Vec<usize>,
    ) -> Settings {
        let Self { config, graph, .. } = self;
        let operators = config.operators.iter().zip(components);
        let operators = operators.map(|(operator, component)| OperatorCheckpoint {
            name: operator.name.clone(),
            component: component.digest().to_owned(),
            config_crc32: Some(config_crc32(&operator.config)),
            watermark: None,
            states: Vec::new(),
        });
        let subtasks = config.operators.iter().map(|operator| operator.parallelism);
        Settings {
            interval: Duration::from_millis(config.checkpoint.interval_ms),
            least_pause: Duration::from_millis(config.checkpoint.least_pause_ms),
            timeout: Duration::from_millis(config.checkpoint.timeout_ms),
            tolerated_failures: config.checkpoint.tolerated_failures,
            retained: config.checkpoint.retained,
            shape: graph.shape(config),
            operators: operators.collect(),
            subtasks: subtasks.filter_map(|subtasks| usize::try_from(subtasks).ok()).sum(),
            readers,
            producers,
        }
    }
}

/// A thread that is ready to start.
struct Task {
    name: String,
    run: Box<dyn FnOnce() -> Result<()> + Send>,
}

impl Task {
    fn new(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Self {
        Self { name: name.to_owned(), run: Box::new(run) }
    }

    /// Starts it. Its failure, or panic, ends the pipeline.
    fn start(self, pipeline: &str, failure: &Arc<Failure>) -> Result<JoinHandle<()>> {
        let name = format!("{pipeline}-{}", self.name);
        let guard = Guard { name: name.clone(), failure: Arc::clone(failure) };
        clock::spawn(&name, move || {
            if let Err(error) = (self.run)() {
                guard.failure.raise(error);
            }
        })
    }
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

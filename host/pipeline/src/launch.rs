//! Wires the nodes of a pipeline with channels, and starts a thread for each source, each subtask
//! of each operator, and each sink.

use crate::checkpoint::{Checkpoint, Checkpoints, OperatorCheckpoint, config_crc32};
use crate::clock;
use crate::config::PipelineConfig;
use crate::coordinator::{Coordinator, Links, Settings, Table};
use crate::dead_letter::DeadLetters;
use crate::error::{Error, Result};
use crate::exchange::{Exchange, Message};
use crate::failure::Failure;
use crate::gate::{self, Gate};
use crate::graph::{Consumer, Distribution, Edge, Graph, Producer};
use crate::handle::{Event, Handle};
use crate::isolation::FailedRows;
use crate::lock::Lock;
use crate::meter::Meter;
use crate::outlet::{Outlet, Outlets, Target};
use crate::progress::Counters;
use crate::reader::{RateLimit, Reader};
use crate::restore::Restore;
use crate::sink::{Sink, SinkMessage, SinkThread};
use crate::source::Source;
use crate::subtask::Subtask;
use crate::watermark::{Idleness, Watermark};
use arrow_schema::{Fields, Schema};
use crossbeam_channel::{Receiver, Sender, bounded};
use howdah_runtime::{Component, Instance};
use howdah_state::{Column, KeyGroups, StateStore};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages that wait in the channel between two subtasks.
const SUBTASK_QUEUE: usize = 8;
/// Messages that wait before a sink, for each that writes to it.
const SINK_QUEUE: usize = 4;
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
    pub(crate) source: Box<dyn Source>,
    pub(crate) dead_letters: Option<DeadLetters>,
}

/// Where a producer was at the checkpoint that a run goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restored {
    /// `i64::MIN`: there was none.
    pub(crate) watermark: i64,
    /// Whether it was at its end, and those who take its rows knew it.
    pub(crate) closed: bool,
}

/// The restored sources and operators of a pipeline.
#[derive(Debug)]
pub(crate) struct RestoredNodes {
    pub(crate) sources: Vec<Restored>,
    pub(crate) operators: Vec<Restored>,
}

impl RestoredNodes {
    /// The document says it of the sources. As the barrier went through everywhere behind the same
    /// rows, an operator was where its inputs were; ahead of them, if it did not wait for one that was
    /// idle.
    pub(crate) fn of(
        config: &PipelineConfig,
        graph: &Graph,
        checkpoint: Option<&Checkpoint>,
    ) -> Self {
        let source = |name: &str| {
            let source = checkpoint.and_then(|checkpoint| checkpoint.source(name));
            Restored {
                watermark: source.and_then(|source| source.watermark).unwrap_or(i64::MIN),
                closed: source.is_some_and(|source| source.closed),
            }
        };
        let sources = config.sources.iter().map(|config| source(&config.name)).collect();
        let mut restored = Self { sources, operators: Vec::new() };
        // Each operator comes after those whose rows it takes.
        for (operator, config) in config.operators.iter().enumerate() {
            let inputs = graph.edges_to(Consumer::Operator(operator));
            let inputs: Vec<Restored> = inputs.iter().map(|edge| restored.at(edge.from)).collect();
            let stored = checkpoint.and_then(|checkpoint| checkpoint.operator(&config.name));
            let stored = stored.and_then(|stored| stored.watermark).unwrap_or(i64::MIN);
            let Restored { watermark, closed } = Restored::combined(&inputs);
            restored.operators.push(Restored { watermark: watermark.max(stored), closed });
        }
        restored
    }

    fn at(&self, producer: Producer) -> Restored {
        let found = match producer {
            Producer::Source(source) => self.sources.get(source),
            Producer::Operator(operator) => self.operators.get(operator),
        };
        found.copied().unwrap_or(Restored { watermark: i64::MIN, closed: false })
    }
}

impl Restored {
    /// Those at their end hold nobody back, unless all are.
    fn combined(inputs: &[Self]) -> Self {
        let open = inputs.iter().filter(|input| !input.closed).map(|input| input.watermark).min();
        let all = inputs.iter().map(|input| input.watermark).min();
        Self {
            watermark: open.or(all).unwrap_or(i64::MIN),
            closed: !inputs.is_empty() && inputs.iter().all(|input| input.closed),
        }
    }
}

/// The channels between the nodes of a pipeline, by their ends.
struct Wires {
    /// For each source where its rows go.
    sources: Vec<Vec<Outlet>>,
    /// For each operator and subtask the same, and where rows come from.
    operators: Vec<Vec<SubtaskWires>>,
    /// For each sink how many write to it, and where their rows come.
    sinks: Vec<(usize, Receiver<SinkMessage>)>,
}

#[derive(Default)]
struct SubtaskWires {
    outlets: Vec<Outlet>,
    inlets: Vec<(gate::Start, Receiver<Message>)>,
}

impl Wires {
    fn of(config: &PipelineConfig, graph: &Graph, restored: &RestoredNodes) -> Result<Self> {
        let operators = config.operators.iter().map(|operator| {
            let subtasks = (0..operator.parallelism).map(|_| SubtaskWires::default());
            subtasks.collect::<Vec<_>>()
        });
        let mut wires = Self {
            sources: config.sources.iter().map(|_| Vec::new()).collect(),
            operators: operators.collect(),
            sinks: Vec::new(),
        };
        for edge in &graph.edges {
            if let Consumer::Operator(operator) = edge.to {
                wires.add_operator_edge(config, edge, operator, restored.at(edge.from))?;
            }
        }
        for sink in 0..config.sinks.len() {
            wires.add_sink(&graph.edges_to(Consumer::Sink(sink)))?;
        }
        Ok(wires)
    }

    /// How many subtasks a producer has.
    fn producers(&self, producer: Producer) -> usize {
        match producer {
            Producer::Source(_) => 1,
            Producer::Operator(operator) => self.operators.get(operator).map_or(0, Vec::len),
        }
    }

    /// A channel from each subtask of the producer to each of the operator.
    fn add_operator_edge(
        &mut self,
        config: &PipelineConfig,
        edge: &Edge,
        operator: usize,
        restored: Restored,
    ) -> Result<()> {
        let Distribution::KeyGroup { key } = &edge.distribution else {
            return Err(Error::internal("rows for an operator are not distributed by their keys"));
        };
        let node = config.operators.get(operator);
        let node = node.ok_or_else(|| Error::internal("an edge leads to no operator"))?;
        let groups = KeyGroups::new(config.key_groups, node.parallelism)?;
        let Restored { watermark, closed: ended } = restored;
        let start = gate::Start { port: edge.input, watermark, ended };
        for producer in 0..self.producers(edge.from) {
            let mut senders = Vec::new();
            for subtask in self.operators.get_mut(operator).into_iter().flatten() {
                let (sender, receiver) = bounded(SUBTASK_QUEUE);
                senders.push(sender);
                subtask.inlets.push((start, receiver));
            }
            let exchange = Exchange::new(&edge.fields, key.clone(), groups.clone())?;
            let to = Target::Operator { exchange, subtasks: senders };
            self.leave(edge, producer, to)?;
        }
        Ok(())
    }

    /// One channel for all subtasks of all producers, which the sink knows by number.
    fn add_sink(&mut self, edges: &[&Edge]) -> Result<()> {
        let mut producers = Vec::new();
        for edge in edges {
            producers.extend((0..self.producers(edge.from)).map(|subtask| (*edge, subtask)));
        }
        let (sender, receiver) = bounded(SINK_QUEUE * producers.len().max(1));
        self.sinks.push((producers.len(), receiver));
        for (number, (edge, subtask)) in (0..).zip(producers) {
            let to = Target::Sink { producer: number, channel: sender.clone() };
            self.leave(edge, subtask, to)?;
        }
        Ok(())
    }

    /// Adds a way out of a subtask of the edge's producer.
    fn leave(&mut self, edge: &Edge, subtask: usize, to: Target) -> Result<()> {
        let outlets = match edge.from {
            Producer::Source(source) => self.sources.get_mut(source),
            Producer::Operator(operator) => {
                let subtasks = self.operators.get_mut(operator);
                let subtask = subtasks.and_then(|subtasks| subtasks.get_mut(subtask));
                subtask.map(|subtask| &mut subtask.outlets)
            }
        };
        let fields: Fields = edge.fields.iter().map(Column::to_arrow).collect();
        let schema = Arc::new(Schema::new(fields));
        let outlet = Outlet { output: edge.output, columns: edge.columns.clone(), schema, to };
        let outlets = outlets.ok_or_else(|| Error::internal("an edge comes from no subtask"))?;
        outlets.push(outlet);
        Ok(())
    }
}

/// What all threads of a run share.
struct Shared {
    reports: Sender<crate::coordinator::Report>,
    counters: Arc<Counters>,
    failure: Arc<Failure>,
    /// The checkpoint that the run goes on from; 0: none.
    base: u64,
}

impl Launch {
    /// Starts the threads.
    pub(crate) fn run(self) -> Result<Handle> {
        let Self { config, graph, components, .. } = self;
        let checkpoint = self.restore.checkpoint;
        let restored_from = checkpoint.as_ref().map(|checkpoint| checkpoint.id);
        let restored = RestoredNodes::of(&config, &graph, checkpoint.as_ref());
        let wires = Wires::of(&config, &graph, &restored)?;

        let (events, events_receiver) = bounded(EVENT_QUEUE);
        let (reports, reports_receiver) = bounded(REPORT_QUEUE);
        let (outcome, outcome_receiver) = bounded(1);
        let (commands, commands_receivers): (Vec<Sender<_>>, Vec<Receiver<_>>) =
            config.sources.iter().map(|_| bounded(command_queue(&config))).unzip();
        let shared = Shared {
            reports,
            counters: Arc::new(Counters::new(config.sources.len())),
            failure: Arc::new(Failure::new()),
            base: restored_from.unwrap_or(0),
        };
        shared.counters.checkpoint.set(shared.base);
        let links = Links {
            commands,
            reports: reports_receiver,
            state_events: self.store.events(),
            events: events.clone(),
            counters: Arc::clone(&shared.counters),
            failure: Arc::clone(&shared.failure),
        };
        let producers: Vec<usize> = wires.sinks.iter().map(|(producers, _)| *producers).collect();
        let writers = self.sinks.iter().zip(&producers).enumerate();
        let writers = writers.map(|(number, (sink, producers))| {
            SinkThread::new(number, &**sink, *producers, shared.base)
        });
        let writers = writers.collect::<Result<Vec<_>>>()?;
        let coordinator = Coordinator::new(
            links,
            settings(&config, &graph, &components, producers),
            self.tables.clone(),
            (self.checkpoints, self.sinks),
            self.restore.retained,
            self.restore.next_id,
        );
        let readers = readers(
            &config,
            &graph,
            &shared,
            checkpoint.as_ref(),
            (self.sources, wires.sources, commands_receivers),
        );
        let parts = (self.instances, wires.operators, restored.operators);
        let subtasks = subtasks(&config, &graph, &components, &shared, parts)?;

        // From here on the handle's drop ends what was started.
        let mut handle = Handle {
            name: config.name.clone(),
            restored_from,
            started: clock::now(),
            events: events_receiver,
            reports: shared.reports.clone(),
            outcome: outcome_receiver,
            threads: Vec::new(),
            counters: Arc::clone(&shared.counters),
            failure: Arc::clone(&shared.failure),
            tables: self.tables,
            store: Some(self.store),
            _lock: self.lock,
        };
        let _ = events.try_send(Event::Started { checkpoint: restored_from });
        drop(events);
        let role = |role: &str| format!("{}-{role}", config.name);
        let failing = &shared.failure;
        handle.threads.push(spawn(&role("coordinator"), failing, move || {
            let (done, result) = coordinator.run();
            // The handle takes it after the thread has ended.
            let _ = outcome.try_send(done);
            result
        })?);
        for ((sink, writer), (_, receiver)) in config.sinks.iter().zip(writers).zip(wires.sinks) {
            let (reports, failure) = (shared.reports.clone(), Arc::clone(&shared.failure));
            handle.threads.push(spawn(&role(&sink.name), failing, move || {
                writer.run(&receiver, &reports, &failure)
            })?);
        }
        for (name, subtask) in subtasks {
            handle.threads.push(spawn(&role(&name), failing, move || subtask.run())?);
        }
        for (source, reader) in config.sources.iter().zip(readers) {
            handle.threads.push(spawn(&role(&source.name), failing, move || reader.run())?);
        }
        Ok(handle)
    }
}

fn settings(
    config: &PipelineConfig,
    graph: &Graph,
    components: &[Component],
    producers: Vec<usize>,
) -> Settings {
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
        producers,
    }
}

type SourceParts = (Vec<OpenSource>, Vec<Vec<Outlet>>, Vec<Receiver<crate::coordinator::Command>>);

fn readers(
    config: &PipelineConfig,
    graph: &Graph,
    shared: &Shared,
    checkpoint: Option<&Checkpoint>,
    (sources, outlets, commands): SourceParts,
) -> Vec<Reader> {
    let parts = sources.into_iter().zip(outlets).zip(commands);
    let nodes = config.sources.iter().zip(&graph.sources).enumerate();
    let readers =
        nodes.zip(parts).map(|((number, (source, node)), ((open, outlets), commands))| {
            let restored = checkpoint.and_then(|checkpoint| checkpoint.source(&source.name));
            let watermark = restored.and_then(|restored| restored.watermark);
            let watermark = node
                .plan
                .has_event_time()
                .then(|| Watermark::new(source.watermark_delay_ms, watermark));
            shared.counters.source(number, |counters| {
                counters.set_watermark(watermark.as_ref().and_then(Watermark::value));
            });
            Reader {
                number,
                source: open.source,
                outlets: Outlets {
                    outlets,
                    counters: Arc::clone(&shared.counters),
                    meter: Meter::new(&config.name, &source.name, 0),
                },
                watermark,
                idleness: Idleness::new(source.idle_after_ms),
                dead_letters: open.dead_letters,
                earlier_dead_letters: restored.and_then(|restored| restored.dead_letters.clone()),
                rate_limit: RateLimit::new(source.rate_limit_rows_per_second),
                closed: restored.is_some_and(|restored| restored.closed),
                draining: false,
                commands,
                reports: shared.reports.clone(),
                counters: Arc::clone(&shared.counters),
                failure: Arc::clone(&shared.failure),
            }
        });
    readers.collect()
}

type OperatorParts = (Vec<Vec<Instance>>, Vec<Vec<SubtaskWires>>, Vec<Restored>);

/// The subtasks of all operators, with their names.
fn subtasks(
    config: &PipelineConfig,
    graph: &Graph,
    components: &[Component],
    shared: &Shared,
    (instances, wires, restored): OperatorParts,
) -> Result<Vec<(String, Subtask)>> {
    let mut subtasks = Vec::new();
    let nodes = config.operators.iter().zip(&graph.operators).zip(components).enumerate();
    let parts = instances.into_iter().zip(wires).zip(restored);
    for ((index, ((operator, node), component)), ((instances, wires), restored)) in nodes.zip(parts)
    {
        let keys = node.keys();
        let failed_rows = FailedRows::open(
            &config.state_directory,
            Some(operator.name.as_str()).filter(|_| config.operators.len() > 1),
            (shared.base > 0).then_some(shared.base),
            operator.parallelism,
            (operator.isolated_rows.unwrap_or(0), config.checkpoint.sync),
            &node.spec.key_columns(),
        )?;
        let mut failed_rows = failed_rows.into_iter().filter(|_| operator.isolated_rows.is_some());
        for (number, (instance, wires)) in instances.into_iter().zip(wires).enumerate() {
            let subtask = Subtask {
                operator: index,
                instance,
                keys: keys.clone(),
                gate: Gate::new(wires.inlets, restored.watermark),
                outlets: Outlets {
                    outlets: wires.outlets,
                    counters: Arc::clone(&shared.counters),
                    meter: Meter::new(&config.name, &operator.name, number),
                },
                reports: shared.reports.clone(),
                counters: Arc::clone(&shared.counters),
                completed: shared.base,
                failed_rows: failed_rows.next(),
                timers_singled: false,
                idle: false,
                batch_rows: operator.batch.rows,
                batch_wait: Duration::from_millis(operator.batch.wait_ms),
                heeds_watermark: !node.spec.timers.is_empty() || component.handlers().watermark,
                failure: Arc::clone(&shared.failure),
            };
            subtasks.push((format!("{}-{number}", operator.name), subtask));
        }
    }
    Ok(subtasks)
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(watermark: i64, closed: bool) -> Restored {
        Restored { watermark, closed }
    }

    #[test]
    fn an_operator_is_restored_where_its_open_inputs_were() {
        let open = [at(5, false), at(9, false), at(3, true)];
        assert_eq!(Restored::combined(&open), at(5, false));
        assert_eq!(Restored::combined(&[at(5, true), at(9, true)]), at(5, true));
        assert_eq!(Restored::combined(&[]), at(i64::MIN, false));
    }
}

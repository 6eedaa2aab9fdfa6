//! The channels between the nodes of a pipeline, by their ends.

use super::restored::{Restored, RestoredNodes};
use crate::config::PipelineConfig;
use crate::error::{Error, Result};
use crate::exchange::{Exchange, Message};
use crate::gate;
use crate::graph::{Consumer, Distribution, Edge, Graph, Producer};
use crate::outlet::{Outlet, Target};
use crate::sink::SinkMessage;
use arrow_schema::{Fields, Schema};
use crossbeam_channel::{Receiver, bounded};
use howdah_state::{Column, KeyGroups};
use std::sync::Arc;

/// Messages that wait in the channel between two subtasks.
pub(crate) const SUBTASK_QUEUE: usize = 8;
/// Messages that wait before a sink, for each that writes to it.
const SINK_QUEUE: usize = 4;

/// All channels.
pub(super) struct Wires {
    /// For each source and subtask where its rows go.
    pub(super) sources: Vec<Vec<Vec<Outlet>>>,
    /// For each operator and subtask the same, and where rows come from.
    pub(super) operators: Vec<Vec<SubtaskWires>>,
    /// One for each sink.
    pub(super) sinks: Vec<SinkWires>,
}

#[derive(Default)]
pub(super) struct SubtaskWires {
    pub(super) outlets: Vec<Outlet>,
    pub(super) inlets: Vec<(gate::Start, Receiver<Message>)>,
}

pub(super) struct SinkWires {
    /// How many write to it.
    pub(super) producers: usize,
    pub(super) rows: Receiver<SinkMessage>,
}

impl Wires {
    pub(super) fn of(
        config: &PipelineConfig,
        graph: &Graph,
        restored: &RestoredNodes,
    ) -> Result<Self> {
        let sources = config.sources.iter().map(|source| subtasks(source.parallelism));
        let operators = config.operators.iter().map(|operator| subtasks(operator.parallelism));
        let mut wires =
            Self { sources: sources.collect(), operators: operators.collect(), sinks: Vec::new() };
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
            Producer::Source(source) => self.sources.get(source).map_or(0, Vec::len),
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
        let (sender, rows) = bounded(SINK_QUEUE * producers.len().max(1));
        self.sinks.push(SinkWires { producers: producers.len(), rows });
        for (number, (edge, subtask)) in (0..).zip(producers) {
            let to = Target::Sink { producer: number, channel: sender.clone() };
            self.leave(edge, subtask, to)?;
        }
        Ok(())
    }

    /// Adds a way out of a subtask of the edge's producer.
    fn leave(&mut self, edge: &Edge, subtask: usize, to: Target) -> Result<()> {
        let outlets = match edge.from {
            Producer::Source(source) => {
                self.sources.get_mut(source).and_then(|subtasks| subtasks.get_mut(subtask))
            }
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

/// So many subtasks without channels.
fn subtasks<T: Default>(parallelism: u32) -> Vec<T> {
    (0..parallelism).map(|_| T::default()).collect()
}

//! Where the nodes of a pipeline were at the checkpoint that a run goes on from.

use crate::checkpoint::Checkpoint;
use crate::config::PipelineConfig;
use crate::graph::{Consumer, Graph, Producer};

/// Where a producer was.
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

    pub(super) fn at(&self, producer: Producer) -> Restored {
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

//! The graph of a pipeline: which node takes whose rows.
//!
//! `connect` makes links of the names in the pipeline file, from the file alone; `typed` makes edges
//! of them, with what sources and operators say of their columns; `fields` finds the columns, and
//! `union` puts those of several together for one sink.

mod connect;
pub(crate) mod fields;
mod typed;
mod union;

use crate::config::Located;
pub(crate) use connect::{Stated, StatedInput, StatedNode};
pub(crate) use typed::{Distribution, Edge, Graph, SinkNode, SourceNode};

/// What makes rows, by its index among the sources or operators of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Producer {
    Source(usize),
    Operator(usize),
}

/// What takes rows, by its index among the operators or sinks of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consumer {
    Operator(usize),
    Sink(usize),
}

/// A consumer takes the rows of a producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) from: Producer,
    /// Which output of an operator; `None`: its only one.
    pub(crate) output: Option<Located<String>>,
    pub(crate) to: Consumer,
    /// Which input of an operator; `None`: its only one.
    pub(crate) input: Option<Located<String>>,
    /// Columns of the producer for the key fields of the operator, by position; empty: by name.
    pub(crate) key: Vec<Located<String>>,
    /// Fields of the operator and the columns of the producer that they take.
    pub(crate) columns: Vec<(Located<String>, Located<String>)>,
    /// The line of the pipeline file.
    pub(crate) line: u32,
}

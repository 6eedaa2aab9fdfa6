//! From links, and what operators and sources say they are, to edges with types.

use super::{Consumer, Link, Producer, fields, union};
use crate::checkpoint::{InputShape, OperatorShape, Shape, SinkShape, SourceShape, StateShape};
use crate::config::{OperatorConfig, PipelineConfig, SourceConfig, enumerate};
use crate::error::{Error, Result, suggestion_or_list};
use crate::sink::{self, OP_COLUMN};
use crate::source::{self, Plan, Share, Wanted};
use howdah_runtime::{Component, InputSpec, OperatorSpec, OutputSpec};
use howdah_state::{Column, StateDescriptor};
use std::sync::Arc;

/// A pipeline whose parts fit.
#[derive(Debug)]
pub(crate) struct Graph {
    /// One for each source of the pipeline.
    pub(crate) sources: Vec<SourceNode>,
    /// One for each operator.
    pub(crate) operators: Vec<OperatorNode>,
    /// One for each sink.
    pub(crate) sinks: Vec<SinkNode>,
    pub(crate) edges: Vec<Edge>,
}

/// A source.
#[derive(Debug)]
pub(crate) struct SourceNode {
    /// What is read: what all that take its rows want, one after the other.
    pub(crate) plan: Arc<Plan>,
}

/// An operator.
#[derive(Debug)]
pub(crate) struct OperatorNode {
    pub(crate) spec: OperatorSpec,
}

impl OperatorNode {
    /// For each input the fields that are the key, in key order.
    pub(crate) fn keys(&self) -> Vec<Vec<usize>> {
        self.spec.inputs.iter().map(key_positions).collect()
    }
}

fn key_positions(input: &InputSpec) -> Vec<usize> {
    let position = |key: &String| input.fields.iter().position(|field| field.name == *key);
    input.key.iter().filter_map(position).collect()
}

/// A sink.
#[derive(Debug)]
pub(crate) struct SinkNode {
    /// What it writes; `None`: its operator has no outputs.
    pub(crate) output: Option<OutputSpec>,
}

/// Rows go from an output to an input.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) from: Producer,
    /// Index of the output of an operator.
    pub(crate) output: u32,
    pub(crate) to: Consumer,
    /// Index of the input of an operator.
    pub(crate) input: u32,
    /// For each field that the consumer takes, the index of the producer's column.
    pub(crate) columns: Vec<usize>,
    /// The fields that the consumer takes.
    pub(crate) fields: Vec<Column>,
    /// Where rows go.
    pub(crate) distribution: Distribution,
    /// The names of fields and columns, for people.
    names: Vec<(String, String)>,
}

/// How the rows of an edge are spread over subtasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// To the subtask that owns the key group of the key: of these fields.
    KeyGroup { key: Vec<usize> },
    /// To the subtask of the same number.
    Forward,
}

#[cfg(test)]
impl Edge {
    /// One from an only output to an only input.
    pub(super) fn of(
        (from, to): (Producer, Consumer),
        (columns, fields): (Vec<usize>, Vec<Column>),
        distribution: Distribution,
    ) -> Self {
        Self { from, output: 0, to, input: 0, columns, fields, distribution, names: Vec::new() }
    }
}

impl Graph {
    /// Asks the operators what they are, and finds their columns. Changes nothing. Whatever does
    /// not fit is refused, all at once, with the lines of the pipeline file.
    pub(crate) fn of(config: &PipelineConfig, components: &[Component]) -> Result<Self> {
        let specs = describe(config, components)?;
        let mut planner = Planner { config, specs: &specs, errors: Vec::new() };
        let ends = planner.ends();
        planner.check_outputs(&ends);
        let mut edges = Vec::new();
        let mut sources = Vec::new();
        for (index, source) in config.sources.iter().enumerate() {
            let from = Producer::Source(index);
            let ends: Vec<&End<'_>> = ends.iter().filter(|end| end.link.from == from).collect();
            let (plan, found) = planner.source(source, &ends);
            edges.extend(found);
            sources.extend(plan.map(|plan| SourceNode { plan }));
        }
        for end in &ends {
            edges.extend(planner.operator_edge(end));
        }
        for (index, sink) in config.sinks.iter().enumerate() {
            planner.unite(index, &ends, &sources, &mut edges);
            planner.errors.extend(sink::check(sink).err());
        }
        Error::all(planner.errors)?;
        let sinks = (0..config.sinks.len())
            .map(|sink| SinkNode { output: sink_output(config, &specs, &sources, &edges, sink) });
        let sinks = sinks.collect();
        let operators = specs.into_iter().map(|spec| OperatorNode { spec }).collect();
        Ok(Self { sources, operators, sinks, edges })
    }

    /// Edges to a consumer, in the order of its inputs; an input that takes the rows of several has
    /// an edge from each.
    pub(crate) fn edges_to(&self, to: Consumer) -> Vec<&Edge> {
        let mut edges: Vec<&Edge> = self.edges.iter().filter(|edge| edge.to == to).collect();
        edges.sort_by_key(|edge| edge.input);
        edges
    }

    /// What must be the same when the pipeline is run again.
    pub(crate) fn shape(&self, config: &PipelineConfig) -> Shape {
        let origin = |edge: &Edge| match edge.from {
            Producer::Source(source) => {
                config.sources.get(source).map(|source| source.name.clone()).unwrap_or_default()
            }
            Producer::Operator(operator) => {
                let name = config.operators.get(operator).map(|operator| operator.name.clone());
                let name = name.unwrap_or_default();
                let outputs = self.operators.get(operator).map(|node| &node.spec.outputs);
                let outputs = outputs.map(Vec::as_slice).unwrap_or_default();
                let port = usize::try_from(edge.output).ok().and_then(|port| outputs.get(port));
                match port.filter(|_| outputs.len() > 1) {
                    Some(output) => format!("{name}.{}", output.name),
                    None => name,
                }
            }
        };
        // Those of one input may be named in any order.
        let edges_to = |to: Consumer| {
            let edges = self.edges_to(to).into_iter();
            let mut edges: Vec<(String, &Edge)> = edges.map(|edge| (origin(edge), edge)).collect();
            edges.sort_by(|(a, of_a), (b, of_b)| (of_a.input, a).cmp(&(of_b.input, b)));
            edges
        };
        let inputs = |index: usize, spec: &OperatorSpec| {
            let input = |(from, edge): (String, &Edge)| {
                let input = spec.inputs.get(usize::try_from(edge.input).ok()?)?;
                let names = edge.names.iter();
                let columns = names.map(|(field, from)| format!("{field} = {from}")).collect();
                Some(InputShape { name: Some(input.name.clone()), from, columns })
            };
            edges_to(Consumer::Operator(index)).into_iter().filter_map(input).collect()
        };
        let from = |sink: usize| {
            let edges = edges_to(Consumer::Sink(sink));
            let origins: Vec<&str> = edges.iter().map(|(origin, _)| origin.as_str()).collect();
            (!origins.is_empty()).then(|| enumerate(&origins, "and"))
        };
        let operators = config.operators.iter().zip(&self.operators).enumerate();
        let operators = operators.map(|(index, (operator, node))| OperatorShape {
            name: operator.name.clone(),
            parallelism: operator.parallelism,
            inputs: inputs(index, &node.spec),
            states: StateShape::of_spec(&node.spec),
        });
        let sinks = config.sinks.iter().enumerate().map(|(index, sink)| SinkShape {
            name: sink.name.clone(),
            from: from(index),
            kind: sink.sink_type.name().to_owned(),
            path: sink.stated_path.clone(),
            format: sink.format.name().to_owned(),
        });
        Shape {
            pipeline: config.name.clone(),
            tenant: config.tenant.clone(),
            key_groups: config.key_groups,
            sources: config.sources.iter().map(source_shape).collect(),
            operators: operators.collect(),
            sinks: sinks.collect(),
        }
    }

    /// For each field of an operator's inputs the column that it takes.
    pub(crate) fn columns(&self, operator: &str, config: &PipelineConfig) -> Vec<(String, String)> {
        let index = config.operators.iter().position(|config| config.name == operator);
        let edges = index.map(|index| self.edges_to(Consumer::Operator(index)));
        let mut columns = Vec::new();
        for (field, column) in edges.into_iter().flatten().flat_map(|edge| edge.names.iter()) {
            // Those of one input may come from several origins.
            let known = (field.clone(), column.clone());
            if !columns.contains(&known) {
                columns.push(known);
            }
        }
        columns
    }
}

fn source_shape(source: &SourceConfig) -> SourceShape {
    let filter = source.filter.iter();
    let schema = source.schema.iter();
    SourceShape {
        name: source.name.clone(),
        path: source.stated_path.clone(),
        format: source.format.name().to_owned(),
        event_time: source.event_time.as_ref().map(|column| column.value.clone()),
        filter: filter.map(|(column, value)| format!("{} = {value}", column.value)).collect(),
        schema: schema.map(|(column, stated)| format!("{} {stated}", column.value)).collect(),
    }
}

/// What the operators say they are.
fn describe(config: &PipelineConfig, components: &[Component]) -> Result<Vec<OperatorSpec>> {
    let mut specs = Vec::with_capacity(components.len());
    let mut errors = Vec::new();
    for (operator, component) in config.operators.iter().zip(components) {
        match component.describe(&operator.config, &operator.limits) {
            Ok(spec) => specs.push(spec),
            Err(error) => {
                errors.push(Error::from(error).at(&config.file, operator.component.line));
            }
        }
    }
    Error::all(errors)?;
    Ok(specs)
}

/// A link whose ends are known.
struct End<'a> {
    link: &'a Link,
    /// The index of the output of an operator, and what it is.
    output: Option<(u32, &'a OutputSpec)>,
    /// The same of the input of an operator.
    input: Option<(u32, &'a InputSpec)>,
}

impl End<'_> {
    /// Whether the rows are those of another one, and go where its rows go.
    fn is_same(&self, other: &Self) -> bool {
        let place = |end: &Self| {
            let (output, input) = (end.output.map(|it| it.0), end.input.map(|it| it.0));
            (end.link.from, output, end.link.to, input)
        };
        place(self) == place(other)
    }

    /// Whether an edge was made of it.
    fn is_of(&self, edge: &Edge) -> bool {
        let output = self.output.map_or(0, |(at, _)| at);
        let input = self.input.map_or(0, |(at, _)| at);
        let place = (self.link.from, output, self.link.to, input);
        place == (edge.from, edge.output, edge.to, edge.input)
    }

    fn is_changelog(&self, sources: &[SourceNode]) -> bool {
        match self.link.from {
            Producer::Operator(_) => self.output.is_some_and(|(_, output)| output.changelog),
            Producer::Source(source) => {
                sources.get(source).is_some_and(|source| source.plan.is_changelog())
            }
        }
    }
}

/// Finds out what fits, and gathers what does not.
struct Planner<'a> {
    config: &'a PipelineConfig,
    specs: &'a [OperatorSpec],
    errors: Vec<Error>,
}

impl<'a> Planner<'a> {
    fn error(&mut self, line: u32, message: String) {
        self.errors.push(self.config.error(line, message));
    }

    fn operator(&self, index: usize) -> Option<(&'a OperatorConfig, &'a OperatorSpec)> {
        Some((self.config.operators.get(index)?, self.specs.get(index)?))
    }

    /// The links with their outputs and inputs. Each input must be taken care of, and takes the rows of
    /// an output once.
    fn ends(&mut self) -> Vec<End<'a>> {
        let mut ends: Vec<End<'a>> = Vec::new();
        for link in &self.config.links {
            let Some(output) = self.output(link) else { continue };
            let Some(input) = self.input(link) else { continue };
            if output.is_none() && matches!(link.from, Producer::Operator(_)) {
                // An operator without outputs leaves its sink empty.
                continue;
            }
            let end = End { link, output, input };
            if ends.iter().any(|known| known.is_same(&end)) {
                let message = format!("{} would be taken twice", self.called(&end));
                self.error(link.line, message);
            }
            ends.push(end);
        }
        let operators = self.config.operators.iter().zip(self.specs).enumerate();
        for (index, (operator, spec)) in operators {
            // A link that could not be understood has been told of.
            let to = Consumer::Operator(index);
            let links = self.config.links.iter().filter(|link| link.to == to).count();
            let found = || ends.iter().filter(|end| end.link.to == to);
            for (at, input) in (0..).zip(&spec.inputs) {
                if found().count() < links
                    || found().any(|end| end.input.map(|it| it.0) == Some(at))
                {
                    continue;
                }
                let message = format!(
                    "nothing goes to the input `{0}` of operator `{1}`; say what it takes: \
                     inputs = {{ {0} = \"...\" }}",
                    input.name, operator.name
                );
                self.errors.push(self.config.error(operator.component.line, message));
            }
        }
        ends
    }

    /// The output of the operator that a link comes from; the outer `None`: there is none such.
    #[expect(clippy::option_option, reason = "a source has no outputs to choose from")]
    fn output(&mut self, link: &'a Link) -> Option<Option<(u32, &'a OutputSpec)>> {
        let Producer::Operator(index) = link.from else { return Some(None) };
        let (operator, spec) = self.operator(index)?;
        match (&link.output, spec.outputs.as_slice()) {
            (None, []) if matches!(link.to, Consumer::Sink(_)) => Some(None),
            (None, [output]) => Some(Some((0, output))),
            (None, outputs) => {
                let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
                let name = &operator.name;
                let message = if names.is_empty() {
                    format!("operator `{name}` has no outputs, so nothing can take its rows")
                } else {
                    format!(
                        "operator `{name}` has {} outputs; name one of them: `{name}.PORT`; there \
                         are {}",
                        names.len(),
                        enumerate(&names, "and")
                    )
                };
                self.error(link.line, message);
                None
            }
            (Some(stated), outputs) => {
                let found = (0..).zip(outputs).find(|(_, output)| output.name == stated.value);
                if found.is_none() {
                    let known = || outputs.iter().map(|output| output.name.as_str());
                    let message = format!(
                        "operator `{}` has no output `{}`{}",
                        operator.name,
                        stated.value,
                        suggestion_or_list(&stated.value, known, "it has")
                    );
                    self.error(stated.line, message);
                }
                found.map(Some)
            }
        }
    }

    /// The input of the operator that a link goes to; the outer `None`: there is none such.
    #[expect(clippy::option_option, reason = "a sink has no inputs to choose from")]
    fn input(&mut self, link: &'a Link) -> Option<Option<(u32, &'a InputSpec)>> {
        let Consumer::Operator(index) = link.to else { return Some(None) };
        let (operator, spec) = self.operator(index)?;
        match (&link.input, spec.inputs.as_slice()) {
            (None, [input]) => Some(Some((0, input))),
            (None, inputs) => {
                let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
                let message = format!(
                    "operator `{}` has {} inputs: {}; say what each takes: inputs = {{ {} = \
                     \"...\" }}",
                    operator.name,
                    names.len(),
                    enumerate(&names, "and"),
                    names.join(" = \"...\", ")
                );
                self.error(link.line, message);
                None
            }
            (Some(stated), inputs) => {
                let found = (0..).zip(inputs).find(|(_, input)| input.name == stated.value);
                if found.is_none() {
                    let known = || inputs.iter().map(|input| input.name.as_str());
                    let message = format!(
                        "operator `{}` has no input `{}`{}",
                        operator.name,
                        stated.value,
                        suggestion_or_list(&stated.value, known, "it has")
                    );
                    self.error(stated.line, message);
                }
                found.map(Some)
            }
        }
    }

    /// No output may be lost without a word.
    fn check_outputs(&mut self, ends: &[End<'a>]) {
        if ends.len() < self.config.links.len() && !self.errors.is_empty() {
            // It may be one of those that could not be understood.
            return;
        }
        let operators = self.config.operators.iter().zip(self.specs).enumerate();
        for (index, (operator, spec)) in operators {
            for (at, output) in (0..).zip(&spec.outputs) {
                let is_taken = ends.iter().any(|end| {
                    end.link.from == Producer::Operator(index)
                        && end.output.map(|it| it.0) == Some(at)
                });
                if !is_taken {
                    let message = format!(
                        "nothing takes the output `{0}` of operator `{1}`; name it as an input: \
                         \"{1}.{0}\", of a sink of type \"null\" if its rows are not wanted",
                        output.name, operator.name
                    );
                    self.errors.push(self.config.error(operator.component.line, message));
                }
            }
        }
    }

    /// What is to be read of a source, and the edges from it.
    fn source(
        &mut self,
        source: &SourceConfig,
        ends: &[&End<'a>],
    ) -> (Option<Arc<Plan>>, Vec<Edge>) {
        let shape = match source::inspect(source, &self.config.directories) {
            Ok(shape) => shape,
            Err(error) => {
                self.errors.push(error);
                return (None, Vec::new());
            }
        };
        let (mut all, mut edges) = (Vec::new(), Vec::new());
        for end in ends {
            if shape.is_changelog {
                let called = self.called(end);
                self.check_changelog(end, end.link.line, &called, |name| {
                    shape.all(source).iter().any(|column| column.name == name)
                });
            }
            let Some(wanted) = self.wanted(end, || shape.all(source)) else { continue };
            let columns = (all.len()..).take(wanted.len()).collect();
            edges.push(edge(end, &wanted, columns));
            all.extend(wanted);
        }
        if edges.len() < ends.len() {
            return (None, edges);
        }
        let plan = Plan::resolve(&self.config.file, source, &all, &shape).map(Arc::new);
        // What the file lacks is found by opening it.
        let opened = plan.and_then(|plan| {
            let (directories, whole) = (&self.config.directories, Share::WHOLE);
            source::open(source, directories, Arc::clone(&plan), whole, None)?;
            Ok(plan)
        });
        match opened {
            Ok(plan) => (Some(plan), edges),
            Err(error) => {
                self.errors.push(error);
                (None, edges)
            }
        }
    }

    /// Refuses a changelog for those who do not take one. `has`: whether it has a column of this name.
    fn check_changelog(
        &mut self,
        end: &End<'a>,
        line: u32,
        called: &str,
        has: impl FnOnce(&str) -> bool,
    ) {
        match end.input {
            None if has(OP_COLUMN) => {
                let message = format!(
                    "{called} has a field `{OP_COLUMN}`, the name of the column for row kinds; \
                     rename it"
                );
                self.error(line, message);
            }
            Some((_, input)) if !input.changelog => {
                let message = format!(
                    "{called} is a changelog, whose rows may take back others; the input `{}` takes \
                     inserts alone",
                    input.name
                );
                self.error(end.link.line, message);
            }
            _ => {}
        }
    }

    /// What the rows of a link come from, in words.
    fn called(&self, end: &End<'a>) -> String {
        let name = |name: Option<&String>| name.cloned().unwrap_or_default();
        match (end.link.from, end.output) {
            (Producer::Source(source), _) => {
                let source = self.config.sources.get(source).map(|source| &source.name);
                format!("source `{}`", name(source))
            }
            (Producer::Operator(operator), output) => {
                let operator = self.operator(operator);
                let of = format!("operator `{}`", name(operator.map(|(config, _)| &config.name)));
                match (operator.map(|(_, spec)| spec.outputs.as_slice()), output) {
                    (Some([_, _, ..]), Some((_, output))) => {
                        format!("the output `{}` of {of}", output.name)
                    }
                    _ => format!("the output of {of}"),
                }
            }
        }
    }

    /// A sink that takes the rows of several gets the same columns of all: those of the first, in its
    /// order.
    fn unite(&mut self, sink: usize, ends: &[End<'a>], sources: &[SourceNode], edges: &mut [Edge]) {
        let to = Consumer::Sink(sink);
        let mut united: Option<(String, bool, Vec<Column>)> = None;
        for end in ends.iter().filter(|end| end.link.to == to) {
            let Some(edge) = edges.iter_mut().find(|edge| end.is_of(edge)) else { continue };
            let (called, changelog) = (self.called(end), end.is_changelog(sources));
            let Some((first, first_changelog, fields)) = &mut united else {
                united = Some((called, changelog, edge.fields.clone()));
                continue;
            };
            match union::unite((first, fields), (&called, edge)) {
                Ok(()) if changelog == *first_changelog => {}
                Ok(()) => {
                    let (is, is_not) =
                        if changelog { (&called, &*first) } else { (&*first, &called) };
                    let problem = format!("{is} is a changelog, and {is_not} is not");
                    self.error(end.link.line, union::refused(&problem));
                }
                Err(problems) => {
                    for problem in problems {
                        self.error(end.link.line, union::refused(&problem));
                    }
                }
            }
        }
        // A column that may be null in one of them may be null.
        let Some((_, _, fields)) = united else { return };
        for edge in edges.iter_mut().filter(|edge| edge.to == to) {
            edge.fields.clone_from(&fields);
        }
    }

    /// The edge of a link from an operator.
    fn operator_edge(&mut self, end: &End<'a>) -> Option<Edge> {
        let (_, output) = end.output?;
        let Producer::Operator(index) = end.link.from else { return None };
        let (operator, _) = self.operator(index)?;
        let called = self.called(end);
        if output.changelog {
            let line = operator.component.line;
            self.check_changelog(end, line, &called, |name| {
                output.fields.iter().any(|field| field.name == name)
            });
        }
        let wanted = self.wanted(end, || output.fields.clone())?;
        match fields::project(self.config, &wanted, &output.fields, &called) {
            Ok(columns) => Some(edge(end, &wanted, columns)),
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    /// What the consumer wants; a sink takes all there is.
    fn wanted(&mut self, end: &End<'a>, all: impl FnOnce() -> Vec<Column>) -> Option<Vec<Wanted>> {
        let node_line = match end.link.to {
            Consumer::Sink(_) => end.link.line,
            Consumer::Operator(index) => self.operator(index)?.0.component.line,
        };
        let Some((_, input)) = end.input else {
            let named = |field: Column| {
                let column = field.name.clone();
                Wanted { field, column, line: None, node_line }
            };
            return Some(all().into_iter().map(named).collect());
        };
        match fields::wanted(self.config, end.link, input, node_line) {
            Ok(wanted) => Some(wanted),
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }
}

fn edge(end: &End<'_>, wanted: &[Wanted], columns: Vec<usize>) -> Edge {
    let names = wanted.iter().map(|wanted| (wanted.field.name.clone(), wanted.column.clone()));
    let distribution = match end.input {
        None => Distribution::Forward,
        Some((_, input)) => Distribution::KeyGroup { key: key_positions(input) },
    };
    Edge {
        from: end.link.from,
        output: end.output.map_or(0, |(output, _)| output),
        to: end.link.to,
        input: end.input.map_or(0, |(input, _)| input),
        columns,
        fields: wanted.iter().map(|wanted| wanted.field.clone()).collect(),
        distribution,
        names: names.collect(),
    }
}

/// What a sink writes.
fn sink_output(
    config: &PipelineConfig,
    specs: &[OperatorSpec],
    sources: &[SourceNode],
    edges: &[Edge],
    sink: usize,
) -> Option<OutputSpec> {
    let edge = edges.iter().find(|edge| edge.to == Consumer::Sink(sink))?;
    match edge.from {
        Producer::Operator(operator) => {
            let output = usize::try_from(edge.output).unwrap_or(usize::MAX);
            let output = specs.get(operator)?.outputs.get(output)?;
            // Those of all that it takes.
            Some(OutputSpec { fields: edge.fields.clone(), ..output.clone() })
        }
        Producer::Source(source) => {
            let name = config.sources.get(source)?.name.clone();
            let changelog = sources.get(source)?.plan.is_changelog();
            Some(OutputSpec { name, fields: edge.fields.clone(), changelog })
        }
    }
}

impl PipelineConfig {
    /// The tables that an operator needs in this pipeline: of its states, then of its timers.
    pub(crate) fn tables(
        &self,
        operator: &OperatorConfig,
        spec: &OperatorSpec,
    ) -> Vec<StateDescriptor> {
        let sized = |descriptor| StateDescriptor {
            parallelism: operator.parallelism,
            key_groups: self.key_groups,
            ..descriptor
        };
        spec.tables(&self.name, &operator.name).into_iter().map(sized).collect()
    }
}

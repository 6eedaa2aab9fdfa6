//! What a pipeline and its operator make of each other.

use crate::checkpoint::{Shape, StateShape};
use crate::config::PipelineConfig;
use crate::error::{Error, Result};
use crate::source;
use howdah_runtime::{Component, InputSpec, OperatorSpec};
use howdah_state::StateDescriptor;
use std::sync::Arc;

/// An operator that fits the pipeline and its source.
pub(crate) struct Resolved {
    pub(crate) spec: OperatorSpec,
    /// The operator's only input.
    pub(crate) input: InputSpec,
    pub(crate) plan: Arc<source::Plan>,
}

impl Resolved {
    /// Asks the operator what it is, and finds its columns in the source. Changes nothing. Whatever
    /// does not fit is refused, with the line of the pipeline file.
    pub(crate) fn of(config: &PipelineConfig, component: &Component) -> Result<Self> {
        let located = |error| Error::from(error).at(&config.file, config.operator.component.line);
        let described = component.describe(&config.operator.config, &config.operator.limits);
        let spec = described.map_err(located)?;
        let input = check_operator(config, &spec)?;
        let shape = source::inspect(&config.source)?;
        let plan = Arc::new(source::Plan::resolve(config, &input, &shape)?);
        // What the file lacks is found by opening it.
        source::open(&config.source, Arc::clone(&plan), None)?;
        Ok(Self { spec, input, plan })
    }

    /// What must be the same when the pipeline is run again.
    pub(crate) fn shape(&self, config: &PipelineConfig) -> Shape {
        let source = &config.source;
        let filter = source.filter.iter();
        let schema = source.schema.iter();
        Shape {
            pipeline: config.name.clone(),
            tenant: config.tenant.clone(),
            source_path: source.stated_path.clone(),
            source_format: source.format.name().to_owned(),
            event_time: source.event_time.as_ref().map(|column| column.value.clone()),
            filter: filter.map(|(column, value)| format!("{} = {value}", column.value)).collect(),
            schema: schema.map(|(column, stated)| format!("{} {stated}", column.value)).collect(),
            columns: self.plan.sources().map(|(field, from)| format!("{field} = {from}")).collect(),
            parallelism: config.parallelism,
            key_groups: config.key_groups,
            operator: config.operator.name.clone(),
            sink: config.sink.sink_type.name().to_owned(),
            sink_path: config.sink.stated_path.clone(),
            sink_format: config.sink.format.name().to_owned(),
            states: StateShape::of_spec(&self.spec),
        }
    }
}

impl PipelineConfig {
    /// The tables that an operator needs in this pipeline: of its states, then of its timers.
    pub(crate) fn tables(&self, spec: &OperatorSpec) -> Vec<StateDescriptor> {
        let sized = |descriptor| StateDescriptor {
            parallelism: self.parallelism,
            key_groups: self.key_groups,
            ..descriptor
        };
        spec.tables(&self.name, &self.operator.name).into_iter().map(sized).collect()
    }
}

/// One input and at most one output are what a pipeline can connect so far.
fn check_operator(config: &PipelineConfig, spec: &OperatorSpec) -> Result<InputSpec> {
    let line = config.operator.component.line;
    let refuse = |message: String| {
        let name = &config.operator.name;
        Err(config.error(line, format!("the operator `{name}` {message}")))
    };
    let [input] = spec.inputs.as_slice() else {
        return refuse(format!(
            "has {} inputs; a pipeline has one source, so it takes an operator with one input",
            spec.inputs.len()
        ));
    };
    if input.key.is_empty() {
        return refuse("has no key fields; its rows cannot be spread over subtasks".to_owned());
    }
    if let [_, _, ..] = spec.outputs.as_slice() {
        return refuse(format!(
            "has {} outputs; a pipeline has one sink, so it takes an operator with at most one",
            spec.outputs.len()
        ));
    }
    for output in &spec.outputs {
        let taken = output.fields.iter().any(|field| field.name == crate::sink::OP_COLUMN);
        if output.changelog && taken {
            return refuse(format!(
                "has an output field `{}`, the name of the column for row kinds; rename it",
                crate::sink::OP_COLUMN
            ));
        }
    }
    Ok(input.clone())
}

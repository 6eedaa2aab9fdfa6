//! `howdah check`: says what an operator is, and refuses one that would not run.

use crate::facts::{self, Output};
use crate::failure::{Failure, Result};
use crate::inspect;
use crate::{compile_worker, environment};
use anyhow::{Context, anyhow};
use howdah_runtime::{Engine, EngineOptions, Inspection, Limits, OperatorSpec, TimeDomain};
use howdah_state::{Column, StateKind};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Check that a component runs here, and say what it reads, writes and keeps
///
/// Compares its imports and exports with the contract, function by function, compiles it, and asks
/// it what it is (`describe`). It gets no rows and no state, nothing is written, and what runs goes
/// on undisturbed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah check last-bid.wasm
  howdah check top.wasm --config '{\"size\": 10}'

Exit codes: 0 it runs here, 1 it does not, 2 wrong arguments.")]
pub(crate) struct Args {
    /// The component file
    #[arg(value_name = "COMPONENT.wasm")]
    component: PathBuf,
    /// The operator's configuration, as in [operator.config] of a pipeline file
    #[arg(long, value_name = "JSON", default_value = "{}")]
    config: String,
    /// How to print
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Runs `howdah check`.
pub(crate) fn run(args: &Args) -> Result<()> {
    is_object(&args.config)?;
    check(&args.component, &args.config, args.output)
}

/// Checks a component with a configuration, and prints what it is.
pub(crate) fn check(component: &Path, config: &str, output: Output) -> Result<()> {
    let checked = Checked::of(component, config, output)?;
    match output {
        Output::Json => writeln!(std::io::stdout(), "{}", checked.json())?,
        Output::Text => write!(std::io::stdout(), "{}", checked.text())?,
    }
    Ok(())
}

fn is_object(config: &str) -> Result<()> {
    match serde_json::from_str(config) {
        Ok(Value::Object(_)) => Ok(()),
        Ok(_) => {
            Err(Failure::usage(format!("--config {config} is no JSON object, like {{\"a\": 1}}")))
        }
        Err(error) => Err(Failure::usage(format!("--config is no JSON object: {error}"))),
    }
}

/// A component that runs here.
struct Checked {
    inspection: Inspection,
    spec: OperatorSpec,
}

impl Checked {
    fn of(component: &Path, config: &str, output: Output) -> Result<Self> {
        let inspection = inspect::read(component)?;
        let refusals: Vec<String> = inspection.refusals().map(ToString::to_string).collect();
        if !refusals.is_empty() {
            if output == Output::Json {
                writeln!(
                    std::io::stdout(),
                    "{}",
                    json!({ "runs": false, "component": inspection })
                )?;
            }
            return Err(Failure::Failed(anyhow!(
                "{} does not run on this host, which has howdah:operator@{}:\n  {}",
                inspection.name,
                inspection.host_version,
                refusals.join("\n  ")
            )));
        }
        let engine = Engine::new(EngineOptions {
            cache_directory: environment::cache_directory(),
            compile_worker: Some(compile_worker::this_program()?),
            ..EngineOptions::default()
        })
        .context("cannot set up the WebAssembly engine")?;
        let component = engine.load(component).map_err(anyhow::Error::from)?;
        let spec = component.describe(config, &Limits::default());
        Ok(Self { inspection, spec: spec.map_err(anyhow::Error::from)? })
    }

    fn json(&self) -> Value {
        json!({ "runs": true, "component": self.inspection, "spec": spec_json(&self.spec) })
    }

    fn text(&self) -> String {
        let mut text = facts::component(&self.inspection);
        // Writing to a string cannot fail.
        let _ = write_spec(&mut text, &self.spec);
        for difference in &self.inspection.differences {
            let _ = writeln!(text, "  note          it {}", difference.what);
        }
        text.push_str("it runs on this host\n");
        text
    }
}

fn write_spec(text: &mut String, spec: &OperatorSpec) -> std::fmt::Result {
    let changelog = |changelog| if changelog { ", a changelog" } else { "" };
    for input in &spec.inputs {
        let key = input.key.join(", ");
        writeln!(
            text,
            "  input         {}: keyed by {key}{}",
            input.name,
            changelog(input.changelog)
        )?;
        write_columns(text, &input.fields)?;
    }
    for output in &spec.outputs {
        let rows = if output.changelog { "a changelog" } else { "rows" };
        writeln!(text, "  output        {}: {rows}", output.name)?;
        write_columns(text, &output.fields)?;
    }
    let key: Vec<String> = spec.key_columns().iter().map(column).collect();
    let key = key.join(", ");
    for state in &spec.states {
        write!(text, "  state         {}: {} for each {key}", state.name, kind(&state.kind))?;
        if let Some(ttl_ms) = state.ttl_ms {
            write!(text, "; rows live {ttl_ms} ms")?;
        }
        writeln!(text, "; schema version {}", state.schema_version)?;
        write_columns(text, &state.fields)?;
    }
    for timer in &spec.timers {
        writeln!(text, "  timers        {}: {} for each {key}", timer.name, domain(timer.domain))?;
    }
    Ok(())
}

/// What a key has, in words.
fn kind(kind: &StateKind) -> String {
    match kind {
        StateKind::Map { map_key } => {
            let columns: Vec<String> = map_key.iter().map(column).collect();
            format!("map by {}", columns.join(", "))
        }
        kind => kind.to_string(),
    }
}

fn domain(domain: TimeDomain) -> &'static str {
    match domain {
        TimeDomain::EventTime => "event-time",
        TimeDomain::ProcessingTime => "processing-time",
    }
}

fn write_columns(text: &mut String, columns: &[Column]) -> std::fmt::Result {
    columns.iter().try_for_each(|field| writeln!(text, "                  {}", column(field)))
}

fn column(column: &Column) -> String {
    let nullable = if column.nullable { ", nullable" } else { "" };
    format!("{} {}{nullable}", column.name, column.column_type)
}

fn spec_json(spec: &OperatorSpec) -> Value {
    let fields = |columns: &[Column]| -> Vec<Value> {
        let field = |column: &Column| {
            json!({
                "name": column.name,
                "type": column.column_type.to_string(),
                "nullable": column.nullable,
            })
        };
        columns.iter().map(field).collect()
    };
    let inputs = spec.inputs.iter().map(|input| {
        json!({
            "name": input.name,
            "fields": fields(&input.fields),
            "key": input.key,
            "changelog": input.changelog,
        })
    });
    let outputs = spec.outputs.iter().map(|output| {
        json!({
            "name": output.name,
            "fields": fields(&output.fields),
            "changelog": output.changelog,
        })
    });
    let states = spec.states.iter().map(|state| {
        json!({
            "name": state.name,
            "kind": kind_name(&state.kind),
            "map_key": match &state.kind {
                StateKind::Map { map_key } => fields(map_key),
                _ => Vec::new(),
            },
            "reducers": match &state.kind {
                StateKind::Reducing { reducers } => {
                    reducers.iter().map(ToString::to_string).collect()
                }
                _ => Vec::new(),
            },
            "ttl_ms": state.ttl_ms,
            "key": fields(&spec.key_columns()),
            "fields": fields(&state.fields),
            "schema_version": state.schema_version,
        })
    });
    let timers = spec
        .timers
        .iter()
        .map(|timer| json!({ "name": timer.name, "domain": domain(timer.domain) }));
    json!({
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
        "states": states.collect::<Vec<_>>(),
        "timers": timers.collect::<Vec<_>>(),
    })
}

/// The word for a kind, without its parts.
fn kind_name(kind: &StateKind) -> String {
    kind.to_string().split('(').next().unwrap_or_default().to_owned()
}

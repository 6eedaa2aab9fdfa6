//! `howdah check`: says what an operator is, and refuses one that would not run.

use crate::directories::DirectoryArgs;
use crate::facts::{self, Output};
use crate::failure::{Failure, Result};
use crate::inspect;
use crate::{compile_worker, environment, wasi};
use anyhow::{Context, anyhow};
use howdah_pipeline::{
    CheckpointFit, OperatorConfig, PipelineConfig, StateFit, check_pipeline, check_state,
};
use howdah_runtime::{
    Component, Engine, EngineOptions, Inspection, Limits, LoadOptions, OperatorSpec, TimeDomain,
    WasiGrant,
};
use howdah_state::{Column, StateKind};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Check that a component runs here, and say what it reads, writes and keeps
///
/// Compares its imports and exports with the contract, function by function, compiles it, and asks
/// it what it is (`describe`). With --against also whether it fits a pipeline and its stored state,
/// so that a new version is refused before the old one is stopped. It gets no rows and no state,
/// takes no lock and writes nothing but compiled code into the cache; what runs goes on undisturbed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah check last-bid.wasm
  howdah check top.wasm --config '{\"size\": 10}'
  howdah check last-bid-2.wasm --against q18.toml   as the operator of this pipeline, whichever
                                                    component it names
  howdah check last-bid-2.wasm --against state      with the newest checkpoint in a state directory

A state that is stored may get new nullable columns at its end, wider numbers, and another time to
live. A new state, or new timers, begin empty. Everything else is refused, and named.

Exit codes: 0 it runs here and fits, 1 it does not, 2 wrong arguments or pipeline file.")]
pub(crate) struct Args {
    /// The component file
    #[arg(value_name = "COMPONENT.wasm")]
    component: PathBuf,
    /// A pipeline file, or the state directory of a pipeline
    #[arg(long, value_name = "PIPELINE.toml|STATE_DIR")]
    against: Option<PathBuf>,
    /// The operator's configuration, as in [operator.config] of a pipeline file [default: that of
    /// the pipeline, or {}]
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    directories: DirectoryArgs,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

/// Runs `howdah check`.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(config) = &args.config {
        is_object(config)?;
    }
    match &args.against {
        None => {
            let config = args.config.as_deref().unwrap_or("{}");
            Checked::of(args, config, &Limits::default(), args.wasi_alone().as_ref())?
                .print(args.output)
        }
        Some(directory) if directory.is_dir() => against_state(args, directory),
        Some(pipeline) => against_pipeline(args, pipeline),
    }
}

/// Checks a component that was just made, with a configuration; `name` is what it will be called.
/// One with WASI is asked what it is as if it were granted.
pub(crate) fn check_made(made: &Path, name: &Path, config: &str, wasi: bool) -> Result<Checked> {
    let args = Args {
        component: made.to_owned(),
        against: None,
        config: None,
        output: Output::Text,
        directories: DirectoryArgs::default(),
        wasi: wasi::WasiArgs::of(wasi),
    };
    let named =
        |text: String| text.replace(&made.display().to_string(), &name.display().to_string());
    let checked = Checked::of(&args, config, &Limits::default(), args.wasi_alone().as_ref());
    let mut checked = checked.map_err(|failure| match failure {
        Failure::Failed(error) => Failure::Failed(anyhow!(named(format!("{error:#}")))),
        other => other,
    })?;
    checked.inspection.name = named(checked.inspection.name);
    Ok(checked)
}

impl Args {
    /// Where no pipeline says what it grants, it is asked what it is as if one did.
    fn wasi_alone(&self) -> Option<WasiGrant> {
        self.wasi.permission().map(|_| WasiGrant::default())
    }
}

/// Checks a component as the operator of a pipeline.
fn against_pipeline(args: &Args, file: &Path) -> Result<()> {
    let mut config =
        PipelineConfig::load_alone(file).map_err(|error| Failure::Usage(error.into()))?;
    args.directories.grant(&mut config);
    let operator = replaced(&mut config, args, file)?;
    operator.component.value.clone_from(&args.component);
    if let Some(stated) = &args.config {
        operator.config.clone_from(stated);
    }
    let operator = operator.clone();
    let OperatorConfig { limits, wasi, .. } = &operator;
    let checked = Checked::of(args, &operator.config, limits, wasi.as_ref())?;
    let mut components = Vec::with_capacity(config.operators.len());
    for other in &config.operators {
        components.push(if other.name == operator.name {
            checked.component.clone()
        } else {
            checked.load(other)?
        });
    }
    let fit = check_pipeline(&config, &components, &operator.name).map_err(|error| {
        let cause = anyhow::Error::from(error);
        let shown = (args.component.display(), file.display());
        Failure::Failed(cause.context(format!("{} does not fit {}", shown.0, shown.1)))
    })?;
    let mut out = std::io::stdout().lock();
    if args.output == Output::Json {
        let mut json = checked.json();
        set(&mut json, "fits", Value::Bool(true));
        set(&mut json, "pipeline", json!(fit));
        writeln!(out, "{json}")?;
        return Ok(());
    }
    write!(out, "{}", checked.text())?;
    for (field, source) in &fit.columns {
        if field != source {
            writeln!(out, "  column        {field} takes the source's {source}")?;
        }
    }
    match &fit.checkpoint {
        Some(checkpoint) => write!(out, "{}", checkpoint_text(checkpoint))?,
        None => writeln!(out, "  checkpoint    none yet: it would begin at the beginning")?,
    }
    writeln!(out, "it runs on this host and fits pipeline `{}`", fit.pipeline)?;
    Ok(())
}

/// The operator of a pipeline that the component is to be: of several, the one with a component of
/// the same file name.
fn replaced<'a>(
    config: &'a mut PipelineConfig,
    args: &Args,
    file: &Path,
) -> Result<&'a mut OperatorConfig> {
    let several = config.operators.len() > 1;
    let of_name = |operator: &OperatorConfig| {
        !several || operator.component.value.file_name() == args.component.file_name()
    };
    let names: Vec<String> = config.operators.iter().map(|it| it.name.clone()).collect();
    let mut found = config.operators.iter_mut().filter(|operator| of_name(operator));
    match (found.next(), found.next()) {
        (Some(operator), None) => Ok(operator),
        (found, _) => Err(Failure::usage(format!(
            "{} has {} with a component called {}, so it is not clear which one is to be checked; \
             its operators are {}",
            file.display(),
            if found.is_some() { "several operators" } else { "no operator" },
            args.component.file_name().unwrap_or_default().display(),
            names.join(", ")
        ))),
    }
}

/// Checks a component with what is stored in a state directory.
fn against_state(args: &Args, directory: &Path) -> Result<()> {
    if !directory.join("warehouse").is_dir() && !directory.join("checkpoints").is_dir() {
        return Err(Failure::usage(format!(
            "{} is no state directory of a pipeline; give the one that `state-directory` of the \
             pipeline file names, or the pipeline file",
            directory.display()
        )));
    }
    let config = args.config.as_deref().unwrap_or("{}");
    let checked = Checked::of(args, config, &Limits::default(), args.wasi_alone().as_ref())?;
    let fit = check_state(directory, &checked.component, &checked.spec);
    let fit = fit.map_err(anyhow::Error::from)?;
    let refused: Vec<&StateFit> =
        fit.iter().flat_map(|fit| &fit.states).filter(|state| state.refused).collect();
    let mut out = std::io::stdout().lock();
    if args.output == Output::Json {
        let mut json = checked.json();
        set(&mut json, "fits", Value::Bool(refused.is_empty()));
        set(&mut json, "state", json!(fit));
        writeln!(out, "{json}")?;
    } else {
        write!(out, "{}", checked.text())?;
        match &fit {
            Some(fit) => write!(out, "{}", checkpoint_text(fit))?,
            None => writeln!(out, "  checkpoint    none yet: nothing is stored that it must fit")?,
        }
    }
    if !refused.is_empty() {
        let names: Vec<String> = refused.iter().map(|fit| format!("`{}`", fit.state)).collect();
        return Err(Failure::Failed(anyhow!(
            "{} does not fit the state in {}: {}\n{}",
            args.component.display(),
            directory.display(),
            names.join(", "),
            refused.iter().map(|fit| state_text(fit)).collect::<String>().trim_end()
        )));
    }
    if args.output == Output::Text {
        writeln!(out, "it runs on this host and fits the state in {}", directory.display())?;
    }
    Ok(())
}

/// Adds a member to a JSON object.
fn set(json: &mut Value, name: &str, value: Value) {
    if let Some(members) = json.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

/// How the states go with a checkpoint.
fn checkpoint_text(fit: &CheckpointFit) -> String {
    let mut text = format!("  checkpoint    {}", fit.checkpoint);
    let changed = [(fit.component_changed, "component"), (fit.config_changed, "configuration")];
    let changed: Vec<&str> =
        changed.into_iter().filter(|(changed, _)| *changed).map(|(_, what)| what).collect();
    if !changed.is_empty() {
        text.push_str(&format!(", of another {}", changed.join(" and another ")));
    }
    text.push('\n');
    fit.states.iter().for_each(|state| text.push_str(&state_text(state)));
    text
}

fn state_text(fit: &StateFit) -> String {
    let StateFit { state, stored, wanted, changes, refused } = fit;
    if fit.is_new() {
        return format!("  stored        {state}: new, begins empty\n");
    }
    let stored = stored.as_deref().unwrap_or_default();
    let wanted = wanted.as_deref().unwrap_or("not declared");
    let verdict = match (refused, stored == wanted) {
        (true, _) => format!("does not fit: stored {stored}, asked for {wanted}"),
        (false, true) => "as stored".to_owned(),
        (false, false) => "goes on, changed".to_owned(),
    };
    let mut text = format!("  stored        {state}: {verdict}\n");
    for change in changes {
        text.push_str(&format!("                  {change}\n"));
    }
    text
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
pub(crate) struct Checked {
    engine: Engine,
    inspection: Inspection,
    component: Component,
    spec: OperatorSpec,
}

impl Checked {
    fn of(args: &Args, config: &str, limits: &Limits, grant: Option<&WasiGrant>) -> Result<Self> {
        let mut inspection = inspect::read(&args.component)?;
        let permission = args.wasi.permission();
        inspection.grant_wasi(permission.is_some(), grant.is_some());
        if let Some(refusal) = inspection.refusal() {
            if args.output == Output::Json {
                writeln!(
                    std::io::stdout(),
                    "{}",
                    json!({ "runs": false, "component": inspection })
                )?;
            }
            return Err(Failure::Failed(anyhow!(refusal)));
        }
        let engine = Engine::new(EngineOptions {
            cache_directory: environment::cache_directory(),
            compile_worker: Some(compile_worker::this_program()?),
            wasi: permission,
            ..EngineOptions::default()
        })
        .context("cannot set up the WebAssembly engine")?;
        let options =
            LoadOptions { limits: limits.clone(), wasi: grant.cloned(), ..LoadOptions::default() };
        let component = engine.load_with(&args.component, &options).map_err(anyhow::Error::from)?;
        let spec = component.describe(config, limits).map_err(anyhow::Error::from)?;
        Ok(Self { engine, inspection, component, spec })
    }

    /// Another operator of the same pipeline.
    fn load(&self, operator: &OperatorConfig) -> Result<Component> {
        let options = LoadOptions {
            limits: operator.limits.clone(),
            wasi: operator.wasi.clone(),
            ..LoadOptions::default()
        };
        let component = self.engine.load_with(&operator.component.value, &options);
        Ok(component.map_err(anyhow::Error::from)?)
    }

    /// Prints what it is.
    pub(crate) fn print(&self, output: Output) -> Result<()> {
        let where_granted = match self.inspection.granted.as_slice() {
            [] => "",
            _ => ", where [operator.wasi] and --allow-wasi grant it WASI",
        };
        let text = match output {
            Output::Json => self.json().to_string(),
            Output::Text => format!("{}it runs on this host{where_granted}", self.text()),
        };
        writeln!(std::io::stdout(), "{text}")?;
        Ok(())
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

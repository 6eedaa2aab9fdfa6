//! `howdah status`, `savepoint`, `stop`, `rescale` and `swap`: operations on a running pipeline.
//!
//! Each works on a pipeline that does not run as well, as far as that makes sense.

use crate::directories::DirectoryArgs;
use crate::failure::{Failure, Result};
use crate::progress::SharedBar;
use crate::run::{confirm, engine, failure};
use crate::{environment, wasi};
use anyhow::{Context, anyhow};
use howdah_pipeline::{
    CheckpointFit, Checkpoints, ControlClient, ControlRequest, OperatorConfig, Pipeline,
    PipelineConfig, Savepoint, check_pipeline, write_savepoint,
};
use howdah_runtime::{Engine, LoadOptions};
use indicatif::HumanCount;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// What all of them have.
#[derive(Debug, clap::Args)]
struct Common {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// How to print what was done
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Common {
    fn config(&self) -> Result<PipelineConfig> {
        let config = PipelineConfig::load_alone(&self.pipeline);
        config.map_err(|error| Failure::Usage(error.into()))
    }

    /// Prints one or the other.
    fn print(&self, text: &str, json: &impl Serialize) -> Result<()> {
        let mut out = std::io::stdout().lock();
        match self.output {
            Output::Text => write!(out, "{text}")?,
            Output::Json => {
                let json = serde_json::to_string(json).context("cannot write JSON")?;
                writeln!(out, "{json}")?;
            }
        }
        Ok(())
    }
}

/// Reaches the process that runs a pipeline, if there is one.
fn connect(config: &PipelineConfig) -> Result<Option<ControlClient>> {
    ControlClient::connect(&config.state_directory).map_err(failure)
}

/// Say whether a pipeline runs, and how far it is
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah status q18.toml
  howdah status q18.toml --output json | jq .progress.rows_in")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    common: Common,
}

/// Runs `howdah status`.
pub(crate) fn status(args: &StatusArgs) -> Result<()> {
    let config = args.common.config()?;
    let status: Value = match connect(&config)? {
        Some(client) => client.order(ControlRequest::Status).map_err(failure)?,
        None => {
            let last = Checkpoints::list(&config.state_directory).map_err(failure)?.pop();
            json!({
                "pipeline": config.name,
                "running": false,
                "progress": { "checkpoint": last.map(|entry| entry.id) },
            })
        }
    };
    args.common.print(&status_text(&status), &status)
}

fn status_text(status: &Value) -> String {
    let number = |name: &str| status.pointer(&format!("/progress/{name}")).and_then(Value::as_u64);
    let name = status.get("pipeline").and_then(Value::as_str).unwrap_or_default();
    let mut text = match status.get("process") {
        Some(process) => format!("{name}: runs (process {process})\n"),
        None => format!("{name}: does not run\n"),
    };
    // Writing to a string does not fail.
    if let (Some(rows_in), Some(rows_out)) = (number("rows_in"), number("rows_out")) {
        let (rows_in, rows_out) = (HumanCount(rows_in), HumanCount(rows_out));
        let _ = writeln!(text, "  rows         {rows_in} in, {rows_out} out since it was started");
    }
    let _ = match number("checkpoint") {
        Some(checkpoint) => writeln!(text, "  checkpoint   {checkpoint} is the last"),
        None => writeln!(text, "  checkpoint   none yet"),
    };
    if let Some(restarts) = status.get("restarts").and_then(Value::as_u64).filter(|it| *it > 0) {
        let _ = writeln!(text, "  restarts     {restarts}");
    }
    for operator in status.get("operators").and_then(Value::as_array).into_iter().flatten() {
        let of = |name: &str| operator.get(name).map(|it| it.to_string().replace('"', ""));
        let [name, parallelism, component] =
            ["name", "parallelism", "component"].map(|name| of(name).unwrap_or_default());
        let _ = writeln!(text, "  operator     {name}: {parallelism} subtasks of {component}");
    }
    text
}

/// Write a savepoint: the state and where the sources are, to keep, to move, to start from
///
/// A savepoint is a directory with everything in it. `howdah run --from` begins with it, here or on
/// another machine; it is an Apache Paimon warehouse, too, that any reader opens. A running pipeline
/// makes a checkpoint for it and goes on meanwhile; of one that does not run, it is the last
/// checkpoint, or the one that --checkpoint names.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah savepoint q18.toml backup/monday
  howdah run q18.toml --from backup/monday --fresh
  howdah checkpoint verify backup/monday")]
pub(crate) struct SavepointArgs {
    #[command(flatten)]
    common: Common,
    /// The directory, which must not be there yet
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Of this completed checkpoint, instead of one that is made now
    #[arg(long, value_name = "ID")]
    checkpoint: Option<u64>,
}

/// Runs `howdah savepoint`.
pub(crate) fn savepoint(args: &SavepointArgs) -> Result<()> {
    let config = args.common.config()?;
    let directory = absolute(&args.directory)?;
    refuse_existing(&directory)?;
    let client = if args.checkpoint.is_none() { connect(&config)? } else { None };
    let written = match client {
        Some(client) => client.order(ControlRequest::Savepoint { directory }).map_err(failure)?,
        None => {
            let checkpoint = match args.checkpoint {
                Some(id) => Checkpoints::find(&config.state_directory, id),
                None => Checkpoints::newest(&config.state_directory),
            };
            let checkpoint = checkpoint.map_err(failure)?;
            let bar = SharedBar::new("writing state");
            let written =
                write_savepoint(&config.warehouse(), &checkpoint, &directory, &|it| bar.set(it));
            bar.finish();
            written.map_err(failure)?
        }
    };
    args.common.print(&savepoint_text(&written), &written)
}

/// A line about a savepoint.
pub(crate) fn savepoint_text(savepoint: &Savepoint) -> String {
    let Savepoint { path, pipeline, checkpoint, rows_read, tables, .. } = savepoint;
    format!(
        "{}: savepoint of pipeline `{pipeline}` at checkpoint {checkpoint}, after {} rows, with {} \
         tables\n",
        path.display(),
        HumanCount(*rows_read),
        tables.len()
    )
}

/// The process that writes it has a working directory of its own.
fn absolute(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path);
    Ok(absolute.with_context(|| format!("cannot find {}", path.display()))?)
}

fn refuse_existing(directory: &Path) -> Result<()> {
    if directory.exists() {
        let shown = directory.display();
        return Err(Failure::usage(format!("{shown} is there already; name another directory")));
    }
    Ok(())
}

/// Stop a running pipeline at a checkpoint
///
/// It waits until the pipeline has stopped. The next `howdah run` goes on where it was.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah stop q18.toml
  howdah stop q18.toml --savepoint backup/monday
  howdah stop q18.toml --drain           let windows close and timers fire first")]
pub(crate) struct StopArgs {
    #[command(flatten)]
    common: Common,
    /// End as if the input were at its end: all timers fire, all windows close. Rows that are read
    /// later are late
    #[arg(long)]
    drain: bool,
    /// Write a savepoint of the last checkpoint to this directory, which must not be there yet
    #[arg(long, value_name = "DIR")]
    savepoint: Option<PathBuf>,
}

/// Runs `howdah stop`.
pub(crate) fn stop(args: &StopArgs) -> Result<()> {
    let config = args.common.config()?;
    let savepoint = args.savepoint.as_deref().map(absolute).transpose()?;
    savepoint.as_deref().map_or(Ok(()), refuse_existing)?;
    let Some(client) = connect(&config)? else {
        return Err(Failure::Nothing(format!("pipeline `{}` does not run", config.name)));
    };
    let order = ControlRequest::Stop { drain: args.drain, savepoint };
    let stopped: Value = client.order(order).map_err(failure)?;
    let summary = |name: &str| stopped.pointer(&format!("/summary/{name}"));
    let how = match summary("finished").and_then(Value::as_bool) {
        Some(true) if args.drain => "drained",
        Some(true) => "was at its end",
        _ => "stopped",
    };
    let mut text = format!("{}: {how}", config.name);
    if let Some(last) = summary("checkpoints/last").and_then(Value::as_u64) {
        let _ = write!(text, " at checkpoint {last}");
    }
    text.push('\n');
    if let Some(written) = stopped.get("savepoint").filter(|it| !it.is_null()) {
        let written: Savepoint =
            serde_json::from_value(written.clone()).context("the savepoint is not described")?;
        text.push_str(&savepoint_text(&written));
    }
    args.common.print(&text, &stopped)
}

/// Change the number of subtasks of an operator
///
/// No row of state is rewritten: subtasks take over the files of others and pass over the keys that
/// are not theirs. A running pipeline is checked first, then stops at a checkpoint and goes on with
/// the new number. Once a checkpoint is complete, the pipeline file says so; if it fails before, it
/// goes on as it was.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah rescale q18.toml 4
  howdah rescale q7.toml 2 --operator max-bids")]
pub(crate) struct RescaleArgs {
    #[command(flatten)]
    common: Common,
    /// How many subtasks it is to have
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    parallelism: u32,
    /// The operator, where there are several
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    #[command(flatten)]
    directories: DirectoryArgs,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

/// Runs `howdah rescale`.
pub(crate) fn rescale(args: &RescaleArgs) -> Result<()> {
    let mut config = args.common.config()?;
    args.directories.grant(&mut config);
    let operator = find_operator(&config, args.operator.as_deref())?.name.clone();
    let parallelism = i64::from(args.parallelism);
    let text = edited(&config, &operator, |section| {
        section.set("parallelism", parallelism);
    })?;
    let engine = engine(args.wasi.permission())?;
    let running = replace(&config, text, &engine)?;
    let when = if running { "has" } else { "will have, when it runs," };
    let json = json!({
        "pipeline": config.name, "operator": operator, "parallelism": parallelism,
        "running": running,
    });
    let text = format!("{}: operator `{operator}` {when} {parallelism} subtasks\n", config.name);
    args.common.print(&text, &json)
}

/// What to do about states that change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    /// Go on with what the tables take, refuse the rest.
    Allow,
    /// Refuse every change of a state.
    Reject,
    /// Show changes and ask.
    AwaitApproval,
}

/// Replace the component of an operator, and keep its state
///
/// All is checked before anything stops: the contract, columns, keys, and stored state. A running
/// pipeline then stops at a checkpoint and goes on with the new component. Once a checkpoint is
/// complete, the pipeline file names it; if the new component fails before, the pipeline goes on with
/// the old one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah swap q18.toml last-bid last-bid-2.wasm
  howdah swap q18.toml last-bid last-bid-2.wasm --policy reject
  howdah check last-bid-2.wasm --against q18.toml    check it alone")]
pub(crate) struct SwapArgs {
    #[command(flatten)]
    common: Common,
    /// The operator
    #[arg(value_name = "OPERATOR")]
    operator: String,
    /// The new component: another file than the one that runs, so that there is a way back
    #[arg(value_name = "COMPONENT.wasm")]
    component: PathBuf,
    /// What to do when a state changes
    #[arg(long, value_enum, default_value = "allow")]
    policy: Policy,
    /// Approve of the changes that --policy await-approval would ask about
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    directories: DirectoryArgs,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

/// Runs `howdah swap`.
pub(crate) fn swap(args: &SwapArgs) -> Result<()> {
    let mut config = args.common.config()?;
    args.directories.grant(&mut config);
    let operator = find_operator(&config, Some(&args.operator))?;
    let component = std::fs::canonicalize(&args.component).map_err(|error| {
        Failure::usage(format!("cannot read {}: {error}", args.component.display()))
    })?;
    if std::fs::canonicalize(&operator.component.value).is_ok_and(|before| before == component) {
        return Err(Failure::usage(format!(
            "{} is the component that `{}` has; give the new one another name, so that there is a \
             way back",
            args.component.display(),
            args.operator
        )));
    }
    let engine = engine(args.wasi.permission())?;
    let changes = state_changes(&config, operator, &component, &engine)?;
    match args.policy {
        _ if changes.is_empty() => {}
        Policy::Allow => {}
        Policy::Reject => {
            return Err(Failure::Failed(anyhow!(
                "{} changes state, and --policy reject refuses that: {}",
                args.component.display(),
                changes.join("; ")
            )));
        }
        Policy::AwaitApproval if args.yes => {}
        Policy::AwaitApproval => {
            let shown = args.component.display();
            confirm(&format!("{shown} changes state: {}", changes.join("; ")))?;
        }
    }
    let name = in_file(&config, &component);
    let text = edited(&config, &args.operator, |section| {
        section.set("component", name.as_str());
    })?;
    let running = replace(&config, text, &engine)?;
    let when = if running { "runs" } else { "will run, when the pipeline does," };
    let json = json!({
        "pipeline": config.name, "operator": args.operator, "component": component,
        "running": running, "changes": changes,
    });
    let mut text = format!("{}: operator `{}` {when} {name}\n", config.name, args.operator);
    for change in &changes {
        let _ = writeln!(text, "  state        {change}");
    }
    args.common.print(&text, &json)
}

/// As a pipeline file beside it writes a path.
fn in_file(config: &PipelineConfig, path: &Path) -> String {
    let directory = config.file.parent().unwrap_or(Path::new(""));
    // A file that is named alone is in the working directory.
    let directory = std::fs::canonicalize(Path::new(".").join(directory)).ok();
    let inside = directory.and_then(|directory| path.strip_prefix(directory).ok());
    inside.unwrap_or(path).display().to_string()
}

/// How states change when an operator has another component, in words. What cannot be is an error.
fn state_changes(
    config: &PipelineConfig,
    operator: &OperatorConfig,
    component: &Path,
    engine: &Engine,
) -> Result<Vec<String>> {
    let load = |other: &OperatorConfig| {
        let path = if other.name == operator.name { component } else { &other.component.value };
        let options = LoadOptions {
            limits: other.limits.clone(),
            wasi: other.wasi.clone(),
            tenant: config.tenant.clone(),
        };
        engine.load_with(path, &options).map_err(anyhow::Error::from)
    };
    let components = config.operators.iter().map(load).collect::<anyhow::Result<Vec<_>>>()?;
    let fit = check_pipeline(config, &components, &operator.name).map_err(|error| {
        let shown = (component.display(), config.file.display());
        Failure::Failed(
            anyhow::Error::from(error).context(format!("{} does not fit {}", shown.0, shown.1)),
        )
    })?;
    Ok(fit.checkpoint.as_ref().map(changes_of).unwrap_or_default())
}

fn changes_of(fit: &CheckpointFit) -> Vec<String> {
    let mut words = Vec::new();
    for state in &fit.states {
        if state.is_new() {
            words.push(format!("`{}` is new and begins empty", state.state));
        }
        words.extend(state.changes.iter().map(|change| format!("`{}`: {change}", state.state)));
    }
    words
}

/// The operator of this name; without a name, the only one.
pub(crate) fn find_operator<'a>(
    config: &'a PipelineConfig,
    name: Option<&str>,
) -> Result<&'a OperatorConfig> {
    let names: Vec<&str> = config.operators.iter().map(|it| it.name.as_str()).collect();
    let found = match (name, config.operators.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => {
            return Err(Failure::usage(format!(
                "pipeline `{}` has several operators; say which with --operator: {}",
                config.name,
                names.join(", ")
            )));
        }
        (Some(name), operators) => operators.iter().find(|operator| operator.name == name),
    };
    found.ok_or_else(|| {
        Failure::usage(format!(
            "pipeline `{}` has no operator `{}`; it has {}",
            config.name,
            name.unwrap_or_default(),
            names.join(", ")
        ))
    })
}

/// The pipeline file with one operator's section changed; all else stays as it is written.
fn edited(
    config: &PipelineConfig,
    operator: &str,
    change: impl FnOnce(&mut Section<'_>),
) -> Result<String> {
    let shown = config.file.display();
    let text =
        std::fs::read_to_string(&config.file).with_context(|| format!("cannot read {shown}"))?;
    let mut document: DocumentMut =
        text.parse().with_context(|| format!("{shown} cannot be changed"))?;
    let section = document.get_mut("operator").and_then(|all| {
        // The short form has the operator itself there.
        if all.get("component").is_some() { Some(all) } else { all.get_mut(operator) }
    });
    let section = section
        .filter(|section| section.is_table_like())
        .with_context(|| format!("{shown} has no section for the operator `{operator}`"))?;
    change(&mut Section(section));
    Ok(document.to_string())
}

/// A section of the pipeline file.
struct Section<'a>(&'a mut Item);

impl Section<'_> {
    /// Sets a key; what is written around its value stays.
    fn set(&mut self, key: &str, to: impl Into<toml_edit::Value>) {
        let Some(table) = self.0.as_table_like_mut() else { return };
        let mut new = to.into();
        if let Some(old) = table.get(key).and_then(Item::as_value) {
            *new.decor_mut() = old.decor().clone();
        }
        table.insert(key, Item::Value(new));
    }
}

/// Makes a pipeline have another file; whether it runs.
fn replace(config: &PipelineConfig, text: String, engine: &Engine) -> Result<bool> {
    if let Some(client) = connect(config)? {
        let _: Value = client.order(ControlRequest::Replace { text }).map_err(failure)?;
        return Ok(true);
    }
    let mut other = PipelineConfig::parse(&config.file, &text).map_err(failure)?;
    other.directories.clone_from(&config.directories);
    Pipeline::check(&other, engine).map_err(failure)?;
    environment::replace_file(&config.file, text.as_bytes())
        .with_context(|| format!("cannot write {}", config.file.display()))?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_around_a_changed_value_stays() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("rows.csv"), "").unwrap();
        std::fs::write(at("o.wasm"), "").unwrap();
        let text = "# Mine.\nname = 'q'\n[source]\npath = 'rows.csv'\n\n[operator] # the one\n\
                    name = 'o'\ncomponent = 'o.wasm'   # of today\n\n[sink]\ntype = 'null'\n";
        std::fs::write(at("q.toml"), text).unwrap();
        let config = PipelineConfig::load_alone(&at("q.toml")).unwrap();
        let changed = edited(&config, "o", |section| section.set("component", "new.wasm"));
        assert_eq!(changed.unwrap(), text.replace("'o.wasm'", "\"new.wasm\""));
        let changed = edited(&config, "o", |section| section.set("parallelism", 4));
        let expected = text.replace("# of today\n", "# of today\nparallelism = 4\n");
        assert_eq!(changed.unwrap(), expected);
    }
}

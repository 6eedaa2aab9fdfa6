//! `howdah run`: runs a pipeline to its end, or until it is told to stop.

mod report;
mod session;
mod signals;

use crate::directories::DirectoryArgs;
use crate::failure::{Failure, Result};
use crate::serve::{self, Health};
use crate::traces::{TraceArgs, Traces};
use crate::{compile_worker, environment, wasi};
use anyhow::{Context, anyhow};
use howdah_pipeline::{
    Checkpoints, ErrorKind, PipelineConfig, SinkType, StartFrom, read_savepoint,
};
use howdah_runtime::{Engine, EngineOptions, WasiPermission};
use report::{Line, listening, print_json, summary_text};
use session::Session;
use signals::Signals;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// Progress on standard error, the summary on standard output.
    Text,
    /// One JSON object a line on standard output: events, progress and the summary.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// Run a pipeline to the end of its input, or until Ctrl-C
///
/// A pipeline that ran before goes on from its last completed checkpoint: it does not matter
/// whether it was stopped, failed or was killed. Ctrl-C and SIGTERM stop it at a checkpoint, as
/// `howdah stop` does; a second Ctrl-C ends it at once, which loses nothing but the work since the
/// last checkpoint. The parallelism of an operator may be another one each time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah run q18.toml                    run it, or go on where it was
  howdah run q18.toml --fresh            start over; asks before it removes anything
  howdah run q18.toml --checkpoint 41    go back to a completed checkpoint
  howdah run q18.toml --from backup/monday    begin with a savepoint
  howdah run q9.toml --allow-dropped-state sellers    go on without an operator that had state
  howdah run q18.toml --output json | jq 'select(.event == \"summary\")'

Environment:
  HOWDAH_CACHE_DIR   where compiled operators are kept (default: `howdah` in the cache directory
                     of the user)
  HOWDAH_ALLOW_DIRS  directories as those of --allow-dir, written as $PATH is")]
pub(crate) struct Args {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// Remove the state, the checkpoints and the output of this pipeline, and start over
    #[arg(long)]
    fresh: bool,
    /// Do not ask before --fresh, --checkpoint or --from removes something
    #[arg(long)]
    yes: bool,
    /// Go on from this completed checkpoint; later ones, and their output, are removed
    #[arg(long, value_name = "ID", conflicts_with = "fresh")]
    checkpoint: Option<u64>,
    /// Begin with this savepoint, in a state directory that is empty (or with --fresh); output that
    /// was made after it is removed
    #[arg(long, value_name = "SAVEPOINT_DIR", conflicts_with = "checkpoint")]
    from: Option<PathBuf>,
    /// Go on without this state of the checkpoint, which the pipeline no longer has: the name of an
    /// operator that is gone, with all its states, or of a state, or `operator.state`. It stays in the
    /// checkpoint. Repeat it for each
    #[arg(long, value_name = "NAME")]
    allow_dropped_state: Vec<String>,
    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// What to log on standard error
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "warn")]
    log: Level,
    /// Answer on this port of 127.0.0.1: /metrics for Prometheus, /healthz, /readyz; 0: any that is
    /// free
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    directories: DirectoryArgs,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

/// Runs `howdah run`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let removes = args.fresh || args.checkpoint.is_some() || args.from.is_some();
    let asks = removes && !args.yes;
    let signals = Signals::default();
    if !asks {
        signals.listen()?;
    }
    let mut config =
        PipelineConfig::load(&args.pipeline).map_err(|error| Failure::Usage(error.into()))?;
    let traces = Traces::start(&args.traces, &config)?;
    log_to_stderr(args.log, traces.as_ref())?;
    args.directories.grant(&mut config);
    let prints = config.sinks.iter().any(|sink| sink.sink_type == SinkType::Stdout);
    if args.output == Output::Json && prints {
        return Err(Failure::usage(format!(
            "{}: the sink writes rows to standard output, and so would --output json; let the \
             sink write files, or leave --output json out",
            args.pipeline.display()
        )));
    }
    if asks {
        match (args.checkpoint, &args.from) {
            (Some(checkpoint), _) => confirm_going_back(&config, checkpoint)?,
            (None, Some(savepoint)) if !args.fresh => confirm_savepoint(&config, savepoint)?,
            (None, _) => confirm_removal(&config)?,
        }
        // While it asks, Ctrl-C ends the process: it has nothing to stop yet.
        signals.listen()?;
    }

    let health = Health::default();
    if let Some(port) = args.http_port {
        // Whoever reports a figure looks for the recorder once.
        listening(args.output, serve::start(port, &config, health.clone())?)?;
    }
    let engine = engine(args.wasi.permission())?;
    let mut session = Session::new(
        &engine,
        config,
        args.output,
        signals,
        health,
        args.allow_dropped_state.clone(),
    );
    if let Some(savepoint) = &args.from {
        session.install(savepoint, args.fresh)?;
    }
    let summary = session.run(start_from(args))?;
    let aside = session.set_aside();
    match args.output {
        Output::Json => print_json(&Line::Summary(&summary))?,
        // Rows and figures do not mix.
        Output::Text if prints => {
            write!(std::io::stderr(), "{}", summary_text(&summary, &aside))?;
        }
        Output::Text => write!(std::io::stdout(), "{}", summary_text(&summary, &aside))?,
    }
    Ok(())
}

/// The engine that operators run in.
pub(crate) fn engine(wasi: Option<WasiPermission>) -> Result<Engine> {
    let options = EngineOptions {
        cache_directory: environment::cache_directory(),
        compile_worker: Some(compile_worker::this_program()?),
        wasi,
        ..EngineOptions::default()
    };
    Ok(Engine::new(options).context("cannot set up the WebAssembly engine")?)
}

/// Events go to standard error, spans to the traces, if there are any.
fn log_to_stderr(level: Level, traces: Option<&Traces>) -> Result<()> {
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(LevelFilter::from(level));
    tracing_subscriber::registry()
        .with(log)
        .with(traces.map(Traces::layer))
        .try_init()
        .map_err(|error| Failure::Failed(anyhow!("cannot set up logging: {error}")))
}

fn start_from(args: &Args) -> StartFrom {
    match args.checkpoint {
        Some(checkpoint) => StartFrom::Checkpoint(checkpoint),
        None if args.fresh && args.from.is_none() => StartFrom::Fresh,
        None => StartFrom::Latest,
    }
}

/// A wrong pipeline file is wrong usage; anything else is a failure.
pub(crate) fn failure(error: howdah_pipeline::Error) -> Failure {
    match error.kind() {
        ErrorKind::Config => Failure::Usage(error.into()),
        _ => Failure::Failed(error.into()),
    }
}

/// Whether there is something that a fresh start removes. The output may have outlived the
/// state directory.
fn has_something(config: &PipelineConfig) -> Result<bool> {
    Ok(config.state_directory.exists() || config.has_output().map_err(failure)?)
}

/// Asks before later checkpoints are removed. One that is damaged is no loss.
fn confirm_going_back(config: &PipelineConfig, checkpoint: u64) -> Result<()> {
    let entries = Checkpoints::list(&config.state_directory).map_err(failure)?;
    if !entries.iter().any(|entry| entry.id > checkpoint && entry.checkpoint.is_ok()) {
        return Ok(());
    }
    confirm(&format!(
        "--checkpoint {checkpoint} removes the later checkpoints of pipeline `{}`, and the output \
         that they made visible",
        config.name
    ))
}

/// Asks before output is removed that was made after a savepoint.
fn confirm_savepoint(config: &PipelineConfig, savepoint: &Path) -> Result<()> {
    if !config.has_output().map_err(failure)? {
        return Ok(());
    }
    let checkpoint = read_savepoint(savepoint).map_err(failure)?.checkpoint;
    confirm(&format!(
        "pipeline `{}` has output; --from removes what was made after checkpoint {checkpoint}, \
         which the savepoint is of",
        config.name
    ))
}

/// Asks before everything is removed.
fn confirm_removal(config: &PipelineConfig) -> Result<()> {
    if !has_something(config)? {
        return Ok(());
    }
    confirm(&format!(
        "--fresh removes the state and the checkpoints of pipeline `{}` in {}, and its output",
        config.name,
        config.state_directory.display()
    ))
}

/// Asks on a terminal; elsewhere refuses.
pub(crate) fn confirm(what: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "{what}; there is no terminal to ask on, so say --yes as well"
        )));
    }
    write!(std::io::stderr(), "{what}.\nGo on? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::usage("nothing was done"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_without_a_state_directory_is_something_to_ask_about() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("rows.csv"), "").unwrap();
        std::fs::write(at("o.wasm"), "").unwrap();
        let text = "name = 'q'\n[source]\npath = 'rows.csv'\n[operator]\nname = 'o'\n\
                    component = 'o.wasm'\n[sink]\ntype = 'files'\npath = 'out'\n";
        let config = PipelineConfig::parse(&at("q.toml"), text).unwrap();
        assert!(!has_something(&config).unwrap());
        std::fs::create_dir(at("out")).unwrap();
        std::fs::write(at("out/part-1-0.csv"), "").unwrap();
        assert!(has_something(&config).unwrap());
    }
}

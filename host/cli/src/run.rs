//! `howdah run`: runs a pipeline to its end, or until it is told to stop.

use crate::failure::{Failure, Result};
use crate::progress::{Bar, Unit};
use crate::{compile_worker, environment, wasi};
use anyhow::{Context, anyhow};
use howdah_pipeline::{
    Checkpoints, ErrorKind, Event, Handle, Pipeline, PipelineConfig, Progress, Restarts, SinkType,
    StartFrom, StartOptions, Summary,
};
use howdah_runtime::{Engine, EngineOptions};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// Time between two looks at the counters.
const REFRESH: Duration = Duration::from_millis(200);

/// Time between two progress objects of `--output json`.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

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
/// whether it was stopped, failed or was killed. Ctrl-C and SIGTERM stop it at a checkpoint; a
/// second Ctrl-C ends it at once, which loses nothing but the work since the last checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah run q18.toml                    run it, or go on where it was
  howdah run q18.toml --fresh            start over; asks before it removes anything
  howdah run q18.toml --checkpoint 41    go back to a completed checkpoint
  howdah run q18.toml --output json | jq 'select(.event == \"summary\")'

Environment:
  HOWDAH_CACHE_DIR   where compiled operators are kept (default: `howdah` in the cache directory
                     of the user)")]
pub(crate) struct Args {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// Remove the state, the checkpoints and the output of this pipeline, and start over
    #[arg(long)]
    fresh: bool,
    /// Do not ask before --fresh or --checkpoint removes something
    #[arg(long)]
    yes: bool,
    /// Go on from this completed checkpoint; later ones, and their output, are removed
    #[arg(long, value_name = "ID", conflicts_with = "fresh")]
    checkpoint: Option<u64>,
    /// What to print
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// What to log on standard error
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "warn")]
    log: Level,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

/// Runs `howdah run`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let asks = (args.fresh || args.checkpoint.is_some()) && !args.yes;
    let signals = Signals::default();
    if !asks {
        signals.listen()?;
    }
    log_to_stderr(args.log)?;
    let config =
        PipelineConfig::load(&args.pipeline).map_err(|error| Failure::Usage(error.into()))?;
    let prints = config.sinks.iter().any(|sink| sink.sink_type == SinkType::Stdout);
    if args.output == Output::Json && prints {
        return Err(Failure::usage(format!(
            "{}: the sink writes rows to standard output, and so would --output json; let the \
             sink write files, or leave --output json out",
            args.pipeline.display()
        )));
    }
    if asks {
        match args.checkpoint {
            None => confirm_removal(&config)?,
            Some(checkpoint) => confirm_going_back(&config, checkpoint)?,
        }
        // While it asks, Ctrl-C ends the process: it has nothing to stop yet.
        signals.listen()?;
    }

    let engine = Engine::new(EngineOptions {
        cache_directory: environment::cache_directory(),
        compile_worker: Some(compile_worker::this_program()?),
        wasi: args.wasi.permission(),
        ..EngineOptions::default()
    })
    .context("cannot set up the WebAssembly engine")?;
    let mut restarts = Restarts::new(config.restart());
    let mut from = start_from(args);
    let summary = loop {
        let pipeline = Pipeline::prepare(config.clone(), &engine).map_err(failure)?;
        let handle =
            pipeline.start(StartOptions { from, ..StartOptions::default() }).map_err(failure)?;
        let stopper = handle.stopper();
        signals.on_request(move || stopper.stop());
        let followed = match args.output {
            Output::Text => follow_in_text(&handle),
            Output::Json => follow_in_json(&handle),
        };
        if followed.is_err() {
            // Nobody reads what we print any more; end in order all the same.
            handle.stop();
        }
        let checkpoint = handle.progress().checkpoint;
        let ended = handle.wait();
        match ended {
            Ok(summary) => {
                followed?;
                break summary;
            }
            Err(error) if followed.is_err() => return Err(failed_at(error, checkpoint)),
            Err(error) => {
                let shown = error.to_string();
                let wait = restarts.after(error).map_err(|error| failed_at(error, checkpoint))?;
                restarting(args.output, &shown, restarts.count(), wait)?;
                if signals.wait(wait) {
                    return Err(Failure::Failed(anyhow!("{shown}\nstopped before a restart")));
                }
                from = StartFrom::Latest;
            }
        }
    };
    match args.output {
        Output::Json => print_json(&Line::Summary(&summary))?,
        // Rows and figures do not mix.
        Output::Text if prints => {
            write!(std::io::stderr(), "{}", summary_text(&summary))?;
        }
        Output::Text => write!(std::io::stdout(), "{}", summary_text(&summary))?,
    }
    Ok(())
}

fn log_to_stderr(level: Level) -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(|error| Failure::Failed(anyhow!("cannot set up logging: {error}")))
}

fn start_from(args: &Args) -> StartFrom {
    match args.checkpoint {
        Some(checkpoint) => StartFrom::Checkpoint(checkpoint),
        None if args.fresh => StartFrom::Fresh,
        None => StartFrom::Latest,
    }
}

/// A wrong pipeline file is wrong usage; anything else is a failure.
fn failure(error: howdah_pipeline::Error) -> Failure {
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
fn confirm(what: &str) -> Result<()> {
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
        Err(Failure::usage("nothing was removed"))
    }
}

/// Ctrl-C and SIGTERM stop at a checkpoint; the second one does not wait for it. One that comes
/// before the pipeline runs stops it as soon as it does.
#[derive(Default)]
struct Signals {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    request: Mutex<Request>,
    changed: Condvar,
}

#[derive(Default)]
struct Request {
    made: bool,
    /// Stops the pipeline that runs now, or ran last.
    stop: Option<Box<dyn Fn() + Send>>,
}

impl Shared {
    fn request(&self) -> MutexGuard<'_, Request> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A signal has come. Whether it is the first.
    fn make_request(&self) -> bool {
        let mut request = self.request();
        let first = !std::mem::replace(&mut request.made, true);
        if let Some(stop) = request.stop.as_ref().filter(|_| first) {
            stop();
        }
        self.changed.notify_all();
        first
    }
}

impl Signals {
    fn listen(&self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        ctrlc::set_handler(move || {
            if !shared.make_request() {
                environment::exit_at_once(130);
            }
            // Nobody to tell is no reason to go on.
            let _ = writeln!(
                std::io::stderr(),
                "stopping at a checkpoint; once more to end at once (the work since the last \
                 checkpoint is then done again)"
            );
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(())
    }

    /// Calls `stop` when a signal comes, or when one has come.
    fn on_request(&self, stop: impl Fn() + Send + 'static) {
        let mut request = self.shared.request();
        if request.made {
            stop();
        }
        request.stop = Some(Box::new(stop));
    }

    /// Waits so long, or until a signal comes. Whether one has come.
    fn wait(&self, wait: Duration) -> bool {
        let request = self.shared.request();
        let waited = self.shared.changed.wait_timeout_while(request, wait, |request| !request.made);
        waited.unwrap_or_else(PoisonError::into_inner).0.made
    }
}

/// The next event, or `None` when it is time to look at the counters; `Err`: the pipeline is over.
fn next_event(handle: &Handle) -> std::result::Result<Option<Event>, ()> {
    match handle.events().recv_timeout(REFRESH) {
        Ok(event) => Ok(Some(event)),
        Err(error) if error.is_timeout() => Ok(None),
        Err(_) => Err(()),
    }
}

/// Shows progress until the pipeline is over.
fn follow_in_text(handle: &Handle) -> Result<()> {
    // The source says how long it is once it has started.
    let bar = Bar::new(0, Unit::Bytes);
    while let Ok(event) = next_event(handle) {
        if let Some(Event::Started { checkpoint: Some(checkpoint) }) = event {
            bar.note(&format!("goes on from checkpoint {checkpoint}"));
        }
        let progress = handle.progress();
        bar.set(progress.bytes_read, progress.bytes_total, &progress_text(&progress));
    }
    bar.finish();
    Ok(())
}

fn progress_text(progress: &Progress) -> String {
    let checkpoint = match progress.checkpoint {
        Some(checkpoint) => format!("checkpoint {checkpoint}"),
        None => "no checkpoint yet".to_owned(),
    };
    format!(
        "{} rows in, {} out, {checkpoint}",
        HumanCount(progress.rows_in),
        HumanCount(progress.rows_out)
    )
}

/// A line of `--output json` beside the pipeline's own events.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Progress(&'a Progress),
    /// It failed, and is started again after a wait.
    Restarting {
        restart: usize,
        wait_ms: u64,
        error: &'a str,
    },
    Summary(&'a Summary),
}

/// Prints events and progress until the pipeline is over.
fn follow_in_json(handle: &Handle) -> Result<()> {
    let mut printed = environment::now();
    while let Ok(event) = next_event(handle) {
        if let Some(event) = event {
            print_json(&event)?;
        }
        let now = environment::now();
        if now.duration_since(printed) >= JSON_INTERVAL {
            printed = now;
            print_json(&Line::Progress(&handle.progress()))?;
        }
    }
    Ok(())
}

fn print_json(line: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(line).context("cannot write JSON")?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// A failure, with where state and output are.
fn failed_at(error: howdah_pipeline::Error, checkpoint: Option<u64>) -> Failure {
    let position = match checkpoint {
        Some(checkpoint) => format!(
            "state and output are as of checkpoint {checkpoint}; `howdah run` goes on from there"
        ),
        None => "no checkpoint was completed; `howdah run` begins at the beginning".to_owned(),
    };
    let failure = failure(error);
    if failure.is_closed_pipe() {
        return failure;
    }
    Failure::Failed(anyhow!("{}\n{position}", failure.message()))
}

/// Says that the pipeline failed and is started again.
fn restarting(output: Output, error: &str, restart: usize, wait: Duration) -> Result<()> {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    if output == Output::Json {
        return print_json(&Line::Restarting { restart, wait_ms, error });
    }
    writeln!(std::io::stderr(), "{error}\nstarts again in {wait_ms} ms (restart {restart})")?;
    Ok(())
}

/// The closing summary.
fn summary_text(summary: &Summary) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_summary(&mut text, summary);
    text
}

fn write_summary(text: &mut String, summary: &Summary) -> std::fmt::Result {
    let Summary { checkpoints, .. } = summary;
    let outcome = if summary.finished { "finished" } else { "stopped at a checkpoint" };
    write!(text, "{}: {outcome}", summary.pipeline)?;
    if let Some(checkpoint) = summary.restored_from {
        write!(text, ", went on from checkpoint {checkpoint}")?;
    }
    writeln!(text)?;
    writeln!(
        text,
        "  rows         {} in, {} out, {:.0} read per second, {:.2} s",
        HumanCount(summary.rows_in),
        HumanCount(summary.rows_out),
        summary.rows_per_second,
        Duration::from_millis(summary.elapsed_ms).as_secs_f64()
    )?;
    for (count, what) in [
        (summary.rows_filtered, "kept out by the filter"),
        (summary.rows_skipped, "malformed, skipped"),
        (summary.rows_dead_lettered, "malformed, written to the dead-letter file"),
        (summary.rows_isolated, "failed in the operator, set aside in failed-rows"),
    ] {
        if count > 0 {
            writeln!(text, "               {} {what}", HumanCount(count))?;
        }
    }
    write!(text, "  checkpoints  {} completed", checkpoints.completed)?;
    if checkpoints.failed > 0 {
        write!(text, ", {} failed", checkpoints.failed)?;
    }
    if let Some(last) = checkpoints.last {
        write!(
            text,
            "; median {} ms, longest {} ms; the last is {last}",
            checkpoints.duration_median_ms, checkpoints.duration_max_ms
        )?;
    }
    writeln!(text)?;
    writeln!(
        text,
        "  look-ups     {} keys in {} batches, {} probes of the disk",
        HumanCount(summary.keys),
        HumanCount(summary.batches),
        HumanCount(summary.probes)
    )?;
    for state in &summary.states {
        writeln!(
            text,
            "  state        {}: {} rows, {} in {} files",
            state.table,
            HumanCount(state.metrics.rows),
            HumanBytes(state.metrics.bytes),
            HumanCount(state.metrics.files)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_pipeline::{CheckpointSummary, StateSummary};
    use howdah_state::TableMetrics;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn summary() -> Summary {
        let metrics =
            TableMetrics { rows: 145_734, bytes: 7_075_628, files: 6, ..TableMetrics::default() };
        Summary {
            pipeline: "q18".to_owned(),
            finished: true,
            restored_from: None,
            rows_in: 460_000,
            rows_out: 459_000,
            rows_filtered: 40_000,
            rows_skipped: 0,
            rows_dead_lettered: 0,
            rows_isolated: 0,
            elapsed_ms: 1_880,
            rows_per_second: 265_310.4,
            batches: 94,
            probes: 90,
            keys: 149_000,
            checkpoints: CheckpointSummary {
                completed: 3,
                failed: 0,
                last: Some(3),
                duration_median_ms: 38,
                duration_max_ms: 62,
                bytes: 1,
            },
            states: vec![StateSummary {
                state: "last".to_owned(),
                table: "q18__last-bid__last".to_owned(),
                metrics,
            }],
        }
    }

    #[test]
    fn the_summary_says_what_a_run_did() {
        let expected = "\
q18: finished
  rows         460,000 in, 459,000 out, 265310 read per second, 1.88 s
               40,000 kept out by the filter
  checkpoints  3 completed; median 38 ms, longest 62 ms; the last is 3
  look-ups     149,000 keys in 94 batches, 90 probes of the disk
  state        q18__last-bid__last: 145,734 rows, 6.75 MiB in 6 files
";
        assert_eq!(summary_text(&summary()), expected);
    }

    #[test]
    fn the_summary_names_what_did_not_go_well() {
        let mut summary = summary();
        summary.finished = false;
        summary.restored_from = Some(2);
        summary.rows_skipped = 7;
        summary.checkpoints.failed = 1;
        let text = summary_text(&summary);
        for line in [
            "q18: stopped at a checkpoint, went on from checkpoint 2\n",
            "               7 malformed, skipped\n",
            "  checkpoints  3 completed, 1 failed; median",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

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

    #[test]
    fn a_signal_before_the_pipeline_runs_stops_it_once_it_does() {
        for early in [true, false] {
            let signals = Signals::default();
            let stopped = Arc::new(AtomicBool::new(false));
            if early {
                assert!(signals.shared.make_request());
            }
            let stop = Arc::clone(&stopped);
            signals.on_request(move || stop.store(true, Ordering::SeqCst));
            assert_eq!(stopped.load(Ordering::SeqCst), early);
            assert_eq!(signals.shared.make_request(), !early, "the second one ends at once");
            assert!(stopped.load(Ordering::SeqCst));
        }
    }

    #[test]
    fn a_json_line_says_what_it_is() {
        let summary = summary();
        let line = serde_json::to_value(Line::Summary(&summary)).unwrap();
        assert_eq!(line["event"], "summary");
        assert_eq!(line["states"][0]["rows"], 145_734);
    }
}

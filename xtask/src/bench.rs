//! `cargo xtask bench`: figures, with what is needed to judge them.

use crate::command::{output, print, run as run_command, say};
use crate::demo;
use crate::measure::{self, Measured, median};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::{Command, ExitCode};

/// Measure, and print a table with the machine, the versions and the options
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, clap::Subcommand)]
enum Suite {
    Boundary(crate::bench_boundary::Args),
    Pipeline(PipelineArgs),
    State(crate::bench_state::Args),
}

/// Measure `howdah run` of Nexmark q18, the whole process
#[derive(Debug, clap::Args)]
struct PipelineArgs {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Runs of each case; the median counts
    #[arg(long, default_value = "5", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
}

/// A figure, and what it is held against.
#[derive(Debug, Clone, Serialize)]
struct Figure {
    /// The suite.
    suite: &'static str,
    /// What was measured.
    case: String,
    /// The figure of howdah.
    howdah: f64,
    /// The figure of another program in the same case.
    peer: Option<f64>,
    /// Which program.
    peer_name: Option<String>,
    /// What the figures count.
    unit: &'static str,
    /// How many times better howdah is.
    ratio: Option<f64>,
    /// The ratio that is asked for.
    bar: Option<f64>,
    /// Whether it is reached.
    met: Option<bool>,
}

/// Runs `cargo xtask bench`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    match &args.suite {
        Suite::Boundary(args) => crate::bench_boundary::run(workspace, args),
        Suite::Pipeline(args) => run_pipeline(workspace, args),
        Suite::State(args) => crate::bench_state::run(workspace, args),
    }
}

fn run_pipeline(workspace: &Workspace, args: &PipelineArgs) -> Result<ExitCode> {
    crate::setup::prepare(workspace)?;
    let figures = pipeline(workspace, args.runs)?;
    if args.json {
        for figure in &figures {
            print(&serde_json::to_string(figure)?)?;
        }
    } else {
        print(&machine())?;
        print(&format!("{OPTIONS}, {} runs, medians", args.runs))?;
        print(&table(&figures))?;
    }
    let missed = figures.iter().any(|figure| figure.met == Some(false));
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

const OPTIONS: &str = "q18, parallelism 2, checkpoints each 500 ms and synced to disk, CSV file in, \
NDJSON files out, compiled operator in the cache";

/// The lines of a summary that the suite reports, from `howdah run --output json`.
#[derive(Debug, serde::Deserialize)]
struct RunSummary {
    checkpoints: Checkpoints,
}

#[derive(Debug, serde::Deserialize)]
struct Checkpoints {
    completed: f64,
    duration_median_ms: f64,
}

fn pipeline(workspace: &Workspace, runs: u32) -> Result<Vec<Figure>> {
    let directory = workspace.target.join("bench-pipeline");
    let pipeline = demo::lay_out(workspace, &directory)?;
    let howdah = workspace.release_binary();
    let mut figures = Vec::new();
    for (events, name) in [("500000", "500K"), ("2000000", "2M")] {
        let mut generate = Command::new(&howdah);
        generate.args(["nexmark", "--force", "--events", events, "--out"]);
        run_command(generate.arg(directory.join("events.csv")))?;
        let mut measured = Vec::new();
        let mut summaries = Vec::new();
        // One more, not counted: it compiles the operator and warms the page cache.
        for round in 0..=runs {
            let mut command = Command::new(&howdah);
            command.args(["run", "--fresh", "--yes", "--output", "json"]).arg(&pipeline);
            let run = measure::run(
                command.stderr(std::process::Stdio::null()),
                &directory.join("stdout"),
            )?;
            let summary = summary(&run)?;
            say(&format!(
                "{name} run {round}: {:.2} s, {} checkpoints",
                run.wall_s, summary.checkpoints.completed
            ));
            if round > 0 {
                measured.push(run);
                summaries.push(summary);
            }
        }
        let of_runs = |figure: fn(&Measured) -> f64| median(measured.iter().map(figure));
        let of_summaries = |figure: fn(&Checkpoints) -> f64| {
            median(summaries.iter().map(|summary| figure(&summary.checkpoints)))
        };
        for (what, unit, howdah) in [
            ("wall time", "s", of_runs(|run| run.wall_s)),
            ("CPU time", "s", of_runs(|run| run.cpu_s)),
            ("peak memory", "MiB", of_runs(|run| run.peak_mib)),
            ("checkpoints", "count", of_summaries(|checkpoints| checkpoints.completed)),
            (
                "checkpoint, median",
                "ms",
                of_summaries(|checkpoints| checkpoints.duration_median_ms),
            ),
        ] {
            figures.push(Figure {
                suite: "pipeline",
                case: format!("q18 {name}: {what}"),
                howdah,
                peer: None,
                peer_name: None,
                unit,
                ratio: None,
                bar: None,
                met: None,
            });
        }
    }
    Ok(figures)
}

/// The summary is the last line that a run prints.
fn summary(run: &Measured) -> Result<RunSummary> {
    let line = run.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("no summary in the run's output: {line}"))
}

/// One line on what the figures were measured on.
pub(crate) fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, model)| model);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_gib = memory
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .map_or(0.0, |kib: f64| kib / f64::from(1 << 20));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let version = |program: &str, argument: &str| {
        output(Command::new(program).arg(argument)).unwrap_or_else(|| format!("{program}: none"))
    };
    format!(
        "{model}, {cores} cores, {memory_gib:.0} GiB; Linux {}; {}; howdah {}",
        version("uname", "-r"),
        version("rustc", "--version"),
        env!("CARGO_PKG_VERSION")
    )
}

/// Figures in aligned columns.
fn table(figures: &[Figure]) -> String {
    let number =
        |figure: Option<f64>| figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"));
    let width = figures.iter().map(|figure| figure.case.len()).max().unwrap_or_default();
    let mut text = format!(
        "{:width$}  {:>10}  {:>10}  {:>6}  {:>6}  {:>6}  unit   peer\n",
        "case", "howdah", "peer", "ratio", "bar", "met"
    );
    for figure in figures {
        let met = figure.met.map_or("-", |met| if met { "yes" } else { "no" });
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:width$}  {:>10}  {:>10}  {:>6}  {:>6}  {met:>6}  {:5}  {}",
            figure.case,
            number(Some(figure.howdah)),
            number(figure.peer),
            number(figure.ratio),
            number(figure.bar),
            figure.unit,
            figure.peer_name.as_deref().unwrap_or("-"),
        );
    }
    text
}

//! `cargo xtask bench pipeline`: whole pipelines, each in a process of its own, measured from outside.

mod cases;
mod flink;
mod pipelines;
mod runs;

use crate::bench::machine;
use crate::build::Built;
use crate::command::{print, run as run_command, say};
use crate::measure;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use flink::Flink;
use howdah_bench_figures::Figure;
use pipelines::{Source, pass_through};
use runs::{Run, Runs, Sizes, Slope};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// What its figures belong to.
const SUITE: &str = "pipeline";

/// Measure whole pipelines, and CSV in turns with Flink
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask setup --flink                               # gets what it compares with, 330 MB
  cargo xtask bench pipeline                              # all of it, for figures to quote
  cargo xtask bench pipeline --cases exchange,latency     # some of it
  cargo xtask bench pipeline --quick --no-peer            # in a minute, while working on it
  cargo xtask bench pipeline --json                       # one JSON object a line

Each row is a figure, what it is held against, the bar, and whether it is met. The command fails if a
bar is missed. Where start-up is left out, a figure is the difference between runs over few and over
many events, for each event between: so a process's start, and what it does once, is in neither side.
What takes part in a comparison runs in turns, and medians count. docs/src/performance.md says more.")]
pub(crate) struct Args {
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Measure only these
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    cases: Vec<Case>,
    /// Runs of each contestant; the median counts [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: Option<u32>,
    /// Fewer events: for work on a case, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Leave Flink out
    #[arg(long)]
    no_peer: bool,
}

/// A group of rows of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// CSV, NDJSON, Parquet and generated events to nowhere, without an operator; start-up is left out
    Read,
    /// CSV to nowhere beside Flink: CPU time of all threads for each row; start-up is left out
    Flink,
    /// What a row costs between subtasks: key, split, copy, channel, gathering. CPU time, in memory
    Exchange,
    /// q18 with 1M keys: checkpoints each 100 ms beside 10 s, rows a second from start to end
    Checkpoints,
    /// q18 with two subtasks beside one, rows a second; start-up is left out
    Subtasks,
    /// q18 at half of its peak rate: from reading an event to writing what comes of it, p99
    Latency,
}

impl Case {
    const ALL: [Self; 6] =
        [Self::Read, Self::Flink, Self::Exchange, Self::Checkpoints, Self::Subtasks, Self::Latency];
}

/// What all cases share.
struct Bench<'a> {
    workspace: &'a Workspace,
    /// Where pipelines, events and states are.
    directory: PathBuf,
    /// Rounds that count.
    runs: u32,
    quick: bool,
    no_peer: bool,
}

/// Runs `cargo xtask bench pipeline`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let bench = Bench {
        workspace,
        directory: workspace.target.join("bench-pipeline"),
        runs: args.runs.unwrap_or(if args.quick { 1 } else { 5 }),
        quick: args.quick,
        no_peer: args.no_peer,
    };
    if args.cases.contains(&Case::Flink) && !args.no_peer {
        // Before anything is measured.
        Flink::find(workspace)?;
    }
    bench.lay_out()?;
    if !args.json {
        print(&machine())?;
        print(&format!("medians of {} runs, checkpoints are synced to disk", bench.runs))?;
        print(&Figure::heading())?;
    }
    let mut missed = false;
    for case in &args.cases {
        for figure in bench.measure(*case)? {
            missed |= figure.met == Some(false);
            print(&if args.json { serde_json::to_string(&figure)? } else { figure.to_string() })?;
        }
    }
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Someone who runs over so many events.
type Contestant<'a> = &'a dyn Fn(u64) -> Result<Run>;

impl Bench<'_> {
    /// Builds what is measured.
    fn lay_out(&self) -> Result<()> {
        let components = Built::release(self.workspace)?.components;
        std::fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        let component = components.join(pipelines::COMPONENT);
        std::fs::copy(&component, self.directory.join(pipelines::COMPONENT))
            .with_context(|| format!("cannot copy {}", component.display()))?;
        Ok(())
    }

    /// Few and many events for each contestant, in turns.
    fn slopes<const N: usize>(
        &self,
        sizes: Sizes,
        contestants: [Contestant<'_>; N],
    ) -> Result<[Slope; N]> {
        let few = contestants.map(|contestant| move || contestant(sizes.few));
        let many = contestants.map(|contestant| move || contestant(sizes.many));
        let mut turns: Vec<&dyn Fn() -> Result<Run>> = Vec::new();
        for (few, many) in few.iter().zip(&many) {
            turns.push(few);
            turns.push(many);
        }
        let mut runs = self.all_take_turns(&turns)?.into_iter();
        let mut next = || runs.next().unwrap_or_default();
        Ok(contestants.map(|_| Slope { few: next(), many: next(), sizes }))
    }

    fn take_turns<const N: usize>(
        &self,
        contestants: [&dyn Fn() -> Result<Run>; N],
    ) -> Result<[Runs; N]> {
        let mut runs = self.all_take_turns(&contestants)?.into_iter();
        Ok(contestants.map(|_| runs.next().unwrap_or_default()))
    }

    /// Each runs once in each round. One more round, not counted, compiles operators and warms the page
    /// cache.
    fn all_take_turns(&self, contestants: &[&dyn Fn() -> Result<Run>]) -> Result<Vec<Runs>> {
        let mut all: Vec<Runs> = contestants.iter().map(|_| Runs::default()).collect();
        for round in 0..=self.runs {
            for (contestant, runs) in contestants.iter().zip(&mut all) {
                let run = contestant()?;
                if round > 0 {
                    runs.0.push(run);
                }
            }
        }
        Ok(all)
    }

    fn pass_through(&self, source: Source, events: u64) -> Result<Run> {
        self.run(&pass_through(source, events))
    }

    /// Runs a pipeline from the beginning to the end of its input.
    fn run(&self, pipeline: &pipelines::Pipeline) -> Result<Run> {
        let file = self.directory.join("pipeline.toml");
        std::fs::write(&file, pipeline.to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(self.workspace.release_binary());
        let options = ["--fresh", "--yes", "--output", "json", "--log", "error"];
        command.arg("run").args(options).arg(&file);
        let measured = measure::run(&mut command, &self.directory.join("stdout"))?;
        // The summary is the last line.
        let line = measured.stdout.lines().last().unwrap_or_default();
        let summary = serde_json::from_str(line)
            .with_context(|| format!("no summary in the run's output: {line}"))?;
        say(&format!("{pipeline:#}: {:.2} s, {:.2} s of CPU", measured.wall_s, measured.cpu_s));
        Ok(Run { measured, summary })
    }

    /// The file that a source reads so many events from.
    fn events(&self, source: Source, events: u64) -> PathBuf {
        self.directory.join(source.file(events))
    }

    /// Writes the files of a source.
    fn write_events(&self, source: Source, sizes: Sizes) -> Result<()> {
        let Some(format) = source.format() else { return Ok(()) };
        for events in [sizes.few, sizes.many] {
            let mut generate = Command::new(self.workspace.release_binary());
            generate.args(["nexmark", "--force", "--format", format, "--events"]);
            let file = self.events(source, events);
            run_command(generate.arg(events.to_string()).arg("--out").arg(file))?;
        }
        Ok(())
    }
}

//! `cargo xtask bench boundary`: operators as components of several languages side by side with
//! native ones that do the same to the same state store.
//!
//! The contestants take turns with the same batches in every round, and medians over the rounds
//! count, so that a machine that is busy for a while is busy for all of them. After every round
//! their outputs are compared: a case that measures nothing fails.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "numbers here are made by the bench itself, and a panic only ends the bench"
)]

mod contestant;
mod echo;
mod epoch;
mod language;
mod native;
mod profile;
mod queries;
mod start;
mod work;

use anyhow::{Context, Result};
use clap::Parser;
use howdah_bench_figures::Figure;
use language::Language;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What its figures belong to.
const SUITE: &str = "boundary";

/// Measure operators of several languages side by side with native ones
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench boundary",
    max_term_width = 100,
    after_help = "Examples:
  cargo xtask bench boundary                         # all of it, for figures to quote
  cargo xtask bench boundary --cases echo --quick    # one case in seconds, while working on it
  cargo xtask bench boundary --json                  # one JSON object a line

Each row is a figure, what it is held against, the bar, and whether it is met. The command fails
if a bar is missed. Python, C and JavaScript take part once `cargo xtask setup --python --c --js`
has got their toolchains."
)]
struct Arguments {
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Measure only these
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    cases: Vec<Case>,
    /// Fewer rounds: for work on a case, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Run only this contestant, native or a language, for `perf record`
    #[arg(long, value_name = "CONTESTANT")]
    profile: Option<String>,
    /// Where compiled code is kept, and states for the time of a case
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
    /// The components of `operators/c`
    #[arg(long, value_name = "DIRECTORY")]
    c: Option<PathBuf>,
    /// The components of `operators/js`
    #[arg(long, value_name = "DIRECTORY")]
    js: Option<PathBuf>,
    /// The components of `operators/python`
    #[arg(long, value_name = "DIRECTORY")]
    python: Option<PathBuf>,
}

/// A group of rows of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// Read and write back a value of 64 bytes for each row
    Echo,
    /// Nexmark queries over the state store, with checkpoints
    Queries,
    /// What looking for deadlines costs
    Epoch,
    /// A further instance of a component
    Instantiate,
    /// From a component file to an instance, with compiled code in the cache
    Start,
    /// Bytes of the components
    Size,
}

impl Case {
    const ALL: [Self; 6] =
        [Self::Echo, Self::Queries, Self::Epoch, Self::Instantiate, Self::Start, Self::Size];
}

/// What all cases share.
struct Setting {
    directory: PathBuf,
    /// Those that take part.
    languages: Vec<Language>,
    quick: bool,
}

impl Setting {
    /// Rounds of a case: the median counts.
    fn rounds(&self, rounds: usize) -> usize {
        if self.quick { rounds.div_ceil(4) } else { rounds }
    }

    /// The languages with a component of this name, and its path.
    fn components(&self, name: &str) -> Vec<(&Language, PathBuf)> {
        let component = |language| Some((language, Language::component(language, name)?));
        self.languages.iter().filter_map(component).collect()
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            // Nobody to tell is no reason to fail otherwise.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

const EXPLANATION: &str = "\
Echo, queries, epoch: time of the calling thread or process on a CPU, contestants in turns, medians \
of rounds. Echo: all state is in the write buffer; keys are distinct and encoded before the clock \
starts. Queries: keys, operator, state and checkpoints (not synced to disk); reading, parsing and \
writing of rows are left out, which cost the same for all. Instantiate and start: wall time.";

fn run(arguments: Arguments) -> Result<ExitCode> {
    let setting = Setting {
        directory: arguments.directory,
        languages: Language::all(arguments.c, arguments.js, arguments.python),
        quick: arguments.quick,
    };
    std::fs::create_dir_all(&setting.directory)
        .with_context(|| format!("cannot create {}", setting.directory.display()))?;
    if let Some(contestant) = &arguments.profile {
        profile::run(&setting, &arguments.cases, contestant)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout();
    if !arguments.json {
        writeln!(out, "{EXPLANATION}\n{}", Figure::heading())?;
    }
    let mut missed = false;
    let mut report = |figure: Figure| -> Result<()> {
        missed |= figure.met == Some(false);
        let line =
            if arguments.json { serde_json::to_string(&figure)? } else { figure.to_string() };
        writeln!(out, "{line}").context("cannot write to standard output")
    };
    for case in &arguments.cases {
        let done = match case {
            Case::Echo => echo::run(&setting, &mut report),
            Case::Queries => queries::run(&setting, &mut report),
            Case::Epoch => epoch::run(&setting, &mut report),
            Case::Instantiate => start::instantiate(&setting, &mut report),
            Case::Start => start::cached(&setting, &mut report),
            Case::Size => start::sizes(&setting, &mut report),
        };
        done.with_context(|| format!("case {case:?}"))?;
    }
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

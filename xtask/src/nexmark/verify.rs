//! `cargo xtask nexmark verify`.

use super::QUERIES;
use super::kill::Kills;
use super::oracle::{Comparison, Oracle};
use super::pipeline::{Pipeline, write_events};
use crate::build::Built;
use crate::command::{print, say};
use crate::measure;
use crate::workspace::Workspace;
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};

/// Run the queries of Nexmark, also killed and started again, and compare what they put out with DuckDB
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask nexmark verify                                  # all queries over 100,000 events
  cargo xtask nexmark verify --events 2000000 --kills 5       # for longer, with more kills
  cargo xtask nexmark verify --queries q5,q9 --parallelism 3  # some of them
  cargo xtask nexmark verify --json                           # one JSON object a line

Each query runs to its end at each parallelism; then again, killed (`kill -9`) at moments that are
drawn from the seed, and started again each time. Both times the rows that it put out must be those
of tests/oracles/nexmark_queries over the same events: as a multiset, after what a changelog adds
and removes. A line tells of rows, kills, and whether they are the same; below it are the first that
are not. What differs stays in target/nexmark: pipeline, output, state, log. The command fails then.")]
pub(crate) struct Args {
    /// How many events
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    events: u64,
    /// Run only these [default: all]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(QUERIES),
        default_values_t = QUERIES.map(str::to_owned),
        hide_default_value = true
    )]
    queries: Vec<String>,
    /// Subtasks of the operators
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,3",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=256)
    )]
    parallelism: Vec<u32>,
    /// How often each is killed; 0: only undisturbed runs
    #[arg(long, default_value_t = 2, value_name = "K")]
    kills: u32,
    /// What the moments of kills are drawn from [default: another each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Print one JSON object a line instead of text
    #[arg(long)]
    json: bool,
}

impl Args {
    /// What `cargo xtask test` verifies.
    pub(crate) fn for_tests(full: bool) -> Self {
        Self {
            events: 100_000,
            queries: QUERIES.map(str::to_owned).into(),
            parallelism: vec![1, 3],
            kills: if full { 5 } else { 1 },
            seed: None,
            json: false,
        }
    }
}

/// Verifies in a directory, which is made anew; whether all is exact.
pub(super) fn run(
    workspace: &Workspace,
    built: &Built,
    directory: &Path,
    args: &Args,
) -> Result<bool> {
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64));
    if args.kills > 0 {
        say(&format!("Kills are drawn from seed {seed}: `--seed {seed}` repeats them."));
    }
    let mut verification = Verification::begin(workspace, built, directory, args, seed)?;
    let (mut exact, mut all) = (0, 0);
    let seconds = measure::seconds(|| {
        for query in &args.queries {
            say(&format!("{query} ..."));
            for parallelism in &args.parallelism {
                let verdict = verification.verify(query, *parallelism);
                exact += u32::from(verdict.ok);
                all += 1;
                let as_json = || serde_json::to_string(&verdict);
                print(&if args.json { as_json()? } else { verdict.to_string() })?;
            }
        }
        Ok(())
    })?;
    say(&format!("{exact} of {all} are exact, in {seconds:.0} s."));
    Ok(exact == all)
}

/// What all queries share.
struct Verification<'a> {
    workspace: &'a Workspace,
    built: &'a Built,
    events: PathBuf,
    oracle: Oracle,
    kills: u32,
    seed: u64,
}

impl<'a> Verification<'a> {
    /// Writes the events and starts the oracle.
    fn begin(
        workspace: &'a Workspace,
        built: &'a Built,
        directory: &Path,
        args: &Args,
        seed: u64,
    ) -> Result<Self> {
        let events = write_events(built, directory, args.events)?;
        let oracle = Oracle::start(workspace, &events, args.events)?;
        Ok(Self { workspace, built, events, oracle, kills: args.kills, seed })
    }

    /// What comes of a query at a parallelism.
    fn verify<'q>(&mut self, query: &'q str, parallelism: u32) -> Verdict<'q> {
        let (kills, outcome) = match self.undisturbed_and_killed(query, parallelism) {
            Ok((kills, comparison)) => (kills, Outcome::Compared(comparison)),
            Err(error) => (0, Outcome::Failed { error: format!("{error:#}") }),
        };
        let ok = matches!(&outcome, Outcome::Compared(comparison) if comparison.is_exact());
        Verdict { query, parallelism, kills, ok, outcome }
    }

    /// How often it was killed, and what it put out then. What is exact is removed.
    fn undisturbed_and_killed(
        &mut self,
        query: &str,
        parallelism: u32,
    ) -> Result<(u32, Comparison)> {
        let (workspace, built) = (self.workspace, self.built);
        let mut pipeline = Pipeline::lay_out(workspace, built, &self.events, query, parallelism)?;
        pipeline.start_over(None)?;
        let seconds = measure::seconds(|| pipeline.run_to_end())?;
        let mut comparison = self.oracle.compare(query, &pipeline.output())?;
        let mut kills = 0;
        if self.kills > 0 && comparison.is_exact() {
            kills = self.kills;
            let seed = (self.seed, query, parallelism);
            Kills { count: kills, seed, seconds }.run(&mut pipeline)?;
            comparison = self.oracle.compare(query, &pipeline.output())?;
        }
        if comparison.is_exact() {
            pipeline.remove()?;
        }
        Ok((kills, comparison))
    }
}

/// What came of a query at a parallelism.
#[derive(Debug, Serialize)]
struct Verdict<'a> {
    query: &'a str,
    parallelism: u32,
    /// Kills of the run that is told of.
    kills: u32,
    ok: bool,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    Compared(Comparison),
    /// There is nothing to compare.
    Failed {
        error: String,
    },
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { query, parallelism, kills, .. } = self;
        write!(f, "{query:<4} parallelism {parallelism}  kills {kills}  ")?;
        match &self.outcome {
            Outcome::Failed { error } => write!(f, "FAILED: {error}"),
            Outcome::Compared(comparison) => comparison.fmt(f),
        }
    }
}

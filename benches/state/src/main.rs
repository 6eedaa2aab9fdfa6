//! `cargo xtask bench state`: the state store side by side with RocksDB and with a hash map that
//! is written out whole at every checkpoint.
//!
//! To run one case in seconds while working on it:
//!
//! ```text
//! cargo xtask setup --rocksdb                                 # once: gets the peer
//! cargo xtask bench state --cases probe --rows 1m --quick     # or: update, barrier, ...
//! ```
//!
//! To profile howdah alone: the binary's own `--no-peer --alone`, under `perf record`.
//!
//! Loaded states are kept in the target directory and linked into each run, so that only the
//! first run after a build has to load them. Every case checks that all stores gave the same
//! answers, so a case that measures nothing fails.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    reason = "numbers here are made by the bench itself, and a panic only ends the bench"
)]

mod base;
mod cases;
mod hash_map;
mod heap;
mod ours;
mod rocksdb;
mod workload;

use anyhow::{Context, Result, bail};
use cases::Case;
use clap::Parser;
use howdah_bench_figures::Figure;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// What its figures belong to.
pub(crate) const SUITE: &str = "state";

#[global_allocator]
static HEAP: heap::CountingAllocator = heap::CountingAllocator;

/// Measure the state store side by side with RocksDB and a hash map
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench state", max_term_width = 100)]
struct Arguments {
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
    /// Measure only these
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    cases: Vec<Case>,
    /// Rows of state, for the cases that have several sizes
    #[arg(long, value_delimiter = ',', default_value = "1m,5m", value_parser = parse_rows)]
    rows: Vec<u64>,
    /// Fewer rounds: for work on a case, not for figures to quote
    #[arg(long)]
    quick: bool,
    /// Leave RocksDB out
    #[arg(long)]
    no_peer: bool,
    /// Leave the hash map out too: to profile howdah
    #[arg(long, requires = "no_peer")]
    alone: bool,
    /// RocksDB as a shared library with the C API
    #[arg(long, value_name = "FILE", required_unless_present = "no_peer")]
    rocksdb: Option<PathBuf>,
    /// Where to keep the loaded states and work on them
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// `5000000`, `5m` or `100k`.
fn parse_rows(text: &str) -> Result<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, unit) = match lower.strip_suffix('m') {
        Some(digits) => (digits, 1_000_000),
        None => lower.strip_suffix('k').map_or((lower.as_str(), 1), |digits| (digits, 1000)),
    };
    let rows = digits.parse::<u64>().context("a number like 5000000, 5m or 100k is wanted")? * unit;
    if !(10_000..=50_000_000).contains(&rows) {
        bail!("rows must be from 10k to 50m");
    }
    Ok(rows)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            // Nobody to tell is no reason to fail otherwise.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let library = match &arguments.rocksdb {
        Some(path) if !arguments.no_peer => Some(rocksdb::Library::load(path)?),
        _ => None,
    };
    let setting = cases::Setting {
        bases: base::Bases::new(&arguments.directory)?,
        rocksdb: library,
        rows: arguments.rows.clone(),
        quick: arguments.quick,
        alone: arguments.alone,
    };
    let mut out = std::io::stdout();
    if !arguments.json {
        writeln!(out, "{}", setting.describe())?;
        writeln!(out, "{}", Figure::heading())?;
    }
    let mut missed = false;
    let mut report = |figure: Figure| -> Result<()> {
        missed |= figure.met == Some(false);
        let line =
            if arguments.json { serde_json::to_string(&figure)? } else { figure.to_string() };
        writeln!(out, "{line}").context("cannot write to standard output")
    };
    for case in &arguments.cases {
        case.run(&setting, &mut report).with_context(|| format!("case {case:?}"))?;
    }
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

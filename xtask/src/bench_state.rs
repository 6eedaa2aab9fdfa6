//! `cargo xtask bench state`: builds the bench of the state store and runs it.

use crate::bench::machine;
use crate::command::{print, run as run_command, say, typed};
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::process::{Command, ExitCode};

/// Measure the state store side by side with RocksDB and a hash map; --help lists the options
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on to the bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Runs `cargo xtask bench state`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let given = |option: &str| args.options.iter().any(|word| word == option);
    let asks_for_help = given("--help") || given("-h");
    let rocksdb = setup::rocksdb_library(workspace);
    let has_peer = rocksdb.is_file() && !given("--no-peer");
    if !has_peer && !given("--no-peer") && !asks_for_help {
        bail!(
            "RocksDB is not there: get it with `cargo xtask setup --rocksdb` (downloads 330 MB), \
             or measure without it: `cargo xtask bench state --no-peer`"
        );
    }
    // The packages that `cargo xtask bench pipeline` builds are named too: so both share what
    // they stand on.
    run_command(workspace.cargo().args([
        "build",
        "--release",
        "--package=howdah",
        "--package=howdah-operator-artifacts",
        "--package=howdah-bench-state",
        "--bin=howdah-bench-state",
    ]))?;
    if !given("--json") && !asks_for_help {
        print(&machine())?;
    }
    let mut bench = Command::new(workspace.target.join("release/howdah-bench-state"));
    if !given("--directory") {
        bench.arg("--directory").arg(workspace.target.join("bench-state"));
    }
    bench.args(&args.options);
    if has_peer {
        bench.arg("--rocksdb").arg(rocksdb);
    }
    say(&format!("$ {}", typed(&bench)));
    let status = bench.status().context("cannot run the bench")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `cargo xtask bench boundary`: builds the operators of all languages and the bench, and runs it.

use crate::bench::machine;
use crate::command::{print, run as run_command, say, typed};
use crate::languages::Language;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::process::{Command, ExitCode};

/// Measure operators of several languages side by side with native ones; --help lists the options
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on to the bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Runs `cargo xtask bench boundary`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let given = |option: &str| args.options.iter().any(|word| word == option);
    let asks_for_help = given("--help") || given("-h");
    // The packages that the other benches build are named too: so all share what they stand on.
    run_command(workspace.cargo().args([
        "build",
        "--release",
        "--package=howdah",
        "--package=howdah-operator-artifacts",
        "--package=howdah-bench-state",
        "--package=howdah-bench-boundary",
        "--bin=howdah-bench-boundary",
    ]))?;
    let mut bench = Command::new(workspace.target.join("release/howdah-bench-boundary"));
    if !given("--directory") {
        bench.arg("--directory").arg(workspace.target.join("bench-boundary"));
    }
    if !asks_for_help {
        for language in Language::ALL {
            if let Some(directory) = language.build_operators(workspace)? {
                bench.arg(format!("--{language}")).arg(directory);
            }
        }
        if !given("--json") {
            print(&machine())?;
        }
    }
    bench.args(&args.options);
    say(&format!("$ {}", typed(&bench)));
    let status = bench.status().context("cannot run the bench")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

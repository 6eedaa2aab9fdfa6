//! `cargo xtask test`.

use crate::command::run as run_command;
use crate::setup;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::ExitCode;

/// Set up what is missing and run all tests of the workspace
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Every round and seed, instead of those that fit in a coffee break
    #[arg(long)]
    full: bool,
    /// Passed on to `cargo test`, for instance `-p howdah-state` or `-- a_test`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Runs `cargo xtask test`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    setup::prepare(workspace)?;
    let mut command = workspace.cargo();
    command.arg("test");
    if !args.cargo.iter().any(|word| word == "-p" || word == "--package") {
        command.arg("--workspace");
    }
    command.args(&args.cargo);
    command.env("HOWDAH_ORACLE_PYTHON", workspace.oracle_python());
    command.env("HOWDAH_READERS_PYTHON", workspace.readers_python());
    if args.full {
        command.env("HOWDAH_TEST_FULL", "1").env("PROPTEST_CASES", "1024");
    }
    run_command(&mut command)?;
    Ok(ExitCode::SUCCESS)
}

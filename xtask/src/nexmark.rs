//! `cargo xtask nexmark`: the queries of the Nexmark benchmark.

mod kill;
mod oracle;
mod pipeline;
mod verify;

use crate::build::Built;
use crate::workspace::Workspace;
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;

/// The queries, each with a pipeline in `examples/nexmark`. Without q6, which Flink leaves out, too.
const QUERIES: [&str; 23] = [
    "q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q9", "q10", "q11", "q12", "q13", "q14", "q15",
    "q16", "q17", "q18", "q19", "q20", "q21", "q22", "q23",
];

/// Run the queries of the Nexmark benchmark
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Verify(verify::Args),
}

/// Runs `cargo xtask nexmark`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Verify(args) => {
            let directory = workspace.target.join("nexmark");
            let exact = verify::run(workspace, &Built::release(workspace)?, &directory, args)?;
            Ok(if exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// Verifies as part of `cargo xtask test`, in a directory that is made anew; whether all is exact.
pub(crate) fn test(workspace: &Workspace, directory: &Path, full: bool) -> Result<bool> {
    let args = verify::Args::for_tests(full);
    verify::run(workspace, &Built::for_tests(workspace)?, directory, &args)
}

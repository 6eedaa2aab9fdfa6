//! The `howdah` command.

mod build;
mod check;
mod compile_worker;
mod environment;
mod facts;
mod failure;
mod inspect;
mod new;
mod nexmark;
mod progress;
mod project;
mod run;
mod state;
mod table;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Run stream operators, sandboxed as WebAssembly, with their state in Apache Paimon tables
#[derive(Debug, Parser)]
#[command(name = "howdah", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "A first tour:
  howdah nexmark --events 500000 --out events.csv   write a file to work on
  howdah run pipeline.toml                          run a pipeline to its end, or until Ctrl-C
  howdah state scan pipeline.toml last --limit 5    look at its state, also while it runs

Exit codes: 0 done or stopped at a checkpoint, 1 failed, 2 wrong arguments or pipeline file.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::Args),
    Build(build::Args),
    Run(run::Args),
    State(state::Args),
    Check(check::Args),
    Inspect(inspect::Args),
    Nexmark(nexmark::Args),
    /// Compile one component from standard input, for another howdah
    #[command(hide = true)]
    CompileWorker,
}

fn main() -> ExitCode {
    environment::ignore_file_size_signal();
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Command::New(args) => new::run(args),
        Command::Build(args) => build::run(args),
        Command::Run(args) => run::run(args),
        Command::State(args) => state::run(args),
        Command::Check(args) => check::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Nexmark(args) => nexmark::run(args),
        Command::CompileWorker => compile_worker::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // With standard error closed there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "error: {}", failure.message());
            failure.exit_code()
        }
    }
}

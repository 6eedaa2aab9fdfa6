//! The `howdah` command.

mod build;
mod check;
mod checkpoint;
mod compile_worker;
mod differences;
mod directories;
mod doctor;
mod environment;
mod facts;
mod failure;
mod inspect;
mod new;
mod nexmark;
mod operate;
mod progress;
mod project;
mod replay;
mod row_file;
mod run;
mod schema;
mod serve;
mod state;
mod table;
mod top;
mod traces;
mod wasi;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Run stream operators, sandboxed as WebAssembly, with their state in Apache Paimon tables
#[derive(Debug, Parser)]
#[command(name = "howdah", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "A first tour:
  howdah new --lang rust highest-bid   make a project of an operator, with a pipeline and events
  cd highest-bid
  howdah build                         make a component of it, and check it
  howdah run pipeline.toml             run it to the end of its input, or until Ctrl-C
  howdah state scan pipeline.toml highest    look at its state, also while it runs
  howdah stop pipeline.toml --savepoint backup    stop it, and keep a copy of its state

Exit codes: 0 done, or stopped at a checkpoint; 1 failed, or refused after a look at it; 2 wrong
arguments or pipeline file, nothing was started; 3 `state get` found no row, or there
is nothing to stop; 130 ended at once by a
second Ctrl-C.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::Args),
    Build(build::Args),
    Run(run::Args),
    Status(operate::StatusArgs),
    Top(top::Args),
    Savepoint(operate::SavepointArgs),
    Stop(operate::StopArgs),
    Rescale(operate::RescaleArgs),
    Swap(operate::SwapArgs),
    Replay(replay::Args),
    Checkpoint(checkpoint::Args),
    State(state::Args),
    Check(check::Args),
    Doctor(doctor::Args),
    Inspect(inspect::Args),
    Schema(schema::Args),
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
        Command::Status(args) => operate::status(args),
        Command::Top(args) => top::run(args),
        Command::Savepoint(args) => operate::savepoint(args),
        Command::Stop(args) => operate::stop(args),
        Command::Rescale(args) => operate::rescale(args),
        Command::Swap(args) => operate::swap(args),
        Command::Replay(args) => replay::run(args),
        Command::Checkpoint(args) => checkpoint::run(args),
        Command::State(args) => state::run(args),
        Command::Check(args) => check::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Nexmark(args) => nexmark::run(args),
        Command::CompileWorker => compile_worker::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            let prefix =
                if matches!(failure, failure::Failure::Nothing(_)) { "" } else { "error: " };
            // With standard error closed there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "{prefix}{}", failure.shown());
            failure.exit_code()
        }
    }
}

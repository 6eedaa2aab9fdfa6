//! Commands of this workspace: `cargo xtask setup | demo | test | bench | nexmark`.

mod bench;
mod bench_boundary;
mod bench_pipeline;
mod bench_state;
mod build;
mod command;
mod demo;
mod languages;
mod measure;
mod nexmark;
mod setup;
mod test;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Build, show, test and measure howdah
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Setup(setup::Args),
    Demo(demo::Args),
    Test(test::Args),
    Bench(bench::Args),
    Nexmark(nexmark::Args),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            command::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workspace = workspace::Workspace::find()?;
    match &arguments.command {
        Command::Setup(args) => {
            setup::run(&workspace, args)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Demo(args) => demo::run(&workspace, args),
        Command::Test(args) => test::run(&workspace, args),
        Command::Bench(args) => bench::run(&workspace, args),
        Command::Nexmark(args) => nexmark::run(&workspace, args),
    }
}

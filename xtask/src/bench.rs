//! `cargo xtask bench`: figures, with what is needed to judge them.

use crate::command::output;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::{Command, ExitCode};

/// Measure, and print a table with the machine, the versions and the options
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Debug, clap::Subcommand)]
enum Suite {
    Boundary(crate::bench_boundary::Args),
    Pipeline(crate::bench_pipeline::Args),
    State(crate::bench_state::Args),
}

/// Runs `cargo xtask bench`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    match &args.suite {
        Suite::Boundary(args) => crate::bench_boundary::run(workspace, args),
        Suite::Pipeline(args) => crate::bench_pipeline::run(workspace, args),
        Suite::State(args) => crate::bench_state::run(workspace, args),
    }
}

/// One line on what the figures were measured on.
pub(crate) fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, model)| model);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_gib = memory
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .map_or(0.0, |kib: f64| kib / f64::from(1 << 20));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let version = |program: &str, argument: &str| {
        output(Command::new(program).arg(argument)).unwrap_or_else(|| format!("{program}: none"))
    };
    format!(
        "{model}, {cores} cores, {memory_gib:.0} GiB; Linux {}; {}; howdah {}",
        version("uname", "-r"),
        version("rustc", "--version"),
        env!("CARGO_PKG_VERSION")
    )
}

//! `cargo xtask demo`: the shortest way to see howdah at work.

mod operations;

use crate::build::Built;
use crate::command::{run as run_command, say};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, ExitCode};

/// Build howdah, run Nexmark q18 over 500,000 events, look at its state, and operate on it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many events
    #[arg(long, default_value = "500000", value_name = "N")]
    events: u64,
}

/// The pipeline, in `examples`.
const PIPELINE: &str = "last-bid.toml";

/// Prints five rows of the table; what a user of pypaimon would type.
const PYPAIMON: &str = r#"
from pypaimon import CatalogFactory
catalog = CatalogFactory.create({"warehouse": "state/warehouse"})
rows = catalog.get_table("default.q18__last-bid__last").new_read_builder().with_limit(5)
print(rows.new_read().to_pandas(rows.new_scan().plan().splits()).head(5))
"#;

/// Runs `cargo xtask demo`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    let directory = workspace.target.join("demo");
    let built = Built::release(workspace)?;
    lay_out(workspace, &built, &directory)?;

    say(&format!("\nIn {}:", directory.display()));
    let howdah = || in_directory(&directory, &built.howdah);
    let events = args.events.to_string();
    run_command(howdah().args(["nexmark", "--events", &events, "--out", "events.csv", "--force"]))?;
    run_command(howdah().args(["run", PIPELINE, "--fresh", "--yes"]))?;
    run_command(howdah().args(["state", "scan", PIPELINE, "last", "--limit", "5"]))?;
    say("The state is a Paimon table; with pypaimon:");
    run_command(in_directory(&directory, &workspace.oracle_python()).args(["-c", PYPAIMON]))?;
    operations::run(&directory, &howdah, args.events)?;
    Ok(ExitCode::SUCCESS)
}

/// Lays the pipeline out in a directory: all but its input.
fn lay_out(workspace: &Workspace, built: &Built, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for (from, name) in [
        (workspace.root.join("examples").join(PIPELINE), PIPELINE),
        (built.components.join("last-bid.wasm"), "last-bid.wasm"),
    ] {
        std::fs::copy(&from, directory.join(name))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

fn in_directory(directory: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    command
}

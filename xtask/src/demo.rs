//! `cargo xtask demo`: the shortest way to see howdah at work.

mod operations;

use crate::command::{run as run_command, say, typed};
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

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
    lay_out(workspace, &directory)?;

    say(&format!("\nIn {}:", directory.display()));
    let howdah = || in_directory(&directory, &workspace.release_binary());
    let events = args.events.to_string();
    run_command(howdah().args(["nexmark", "--events", &events, "--out", "events.csv", "--force"]))?;
    run_command(howdah().args(["run", PIPELINE, "--fresh", "--yes"]))?;
    run_command(howdah().args(["state", "scan", PIPELINE, "last", "--limit", "5"]))?;
    say("The state is a Paimon table; with pypaimon:");
    run_command(in_directory(&directory, &workspace.oracle_python()).args(["-c", PYPAIMON]))?;
    operations::run(&directory, &howdah, args.events)?;
    Ok(ExitCode::SUCCESS)
}

/// Builds the command and the operators in release, and lays the pipeline out in a directory:
/// all but its input.
fn lay_out(workspace: &Workspace, directory: &Path) -> Result<()> {
    let components = build(workspace)?;
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for (from, name) in [
        (workspace.root.join("examples").join(PIPELINE), PIPELINE),
        (components.join("last-bid.wasm"), "last-bid.wasm"),
    ] {
        std::fs::copy(&from, directory.join(name))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

/// Builds the command and the operators in release, with what that needs. Gives the directory of the
/// components: the output directory of the build script that makes them.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    setup::prepare(workspace)?;
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "-p", "howdah", "-p", OPERATORS]);
    cargo.arg("--message-format=json-render-diagnostics");
    say(&format!("$ {}", typed(&cargo)));
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo build")?;
    if !output.status.success() {
        bail!("the build failed");
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<BuildMessage>(line).ok())
        .find(|message| {
            message.reason == "build-script-executed" && message.package_id.contains(OPERATORS_PATH)
        })
        .and_then(|message| message.out_dir)
        .context("cargo did not say where it built the operators")
}

/// The crate whose build script makes the components.
const OPERATORS: &str = "howdah-operator-artifacts";

/// Its directory, which is how cargo's messages name it.
const OPERATORS_PATH: &str = "/operators/artifacts#";

/// What we need of a line of `cargo build --message-format=json`.
#[derive(Debug, Deserialize)]
struct BuildMessage {
    reason: String,
    #[serde(default)]
    package_id: String,
    out_dir: Option<PathBuf>,
}

fn in_directory(directory: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    command
}

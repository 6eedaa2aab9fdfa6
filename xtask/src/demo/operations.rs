//! The second half of the demo: a pipeline is stopped, changed and moved on, and its result is that of
//! the one that was left alone.

use super::PIPELINE;
use crate::command::{run as run_command, say, typed};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The pipeline file of the first half, with directories of its own.
const OPERATED: &str = "operated.toml";
/// Another component than the first.
const SUCCESSOR: &str = "last-bid-2.wasm";
const SAVEPOINT: &str = "savepoint";

/// Runs the pipeline of the first half again, in the directory of the demo.
pub(super) fn run(directory: &Path, howdah: &dyn Fn() -> Command, events: u64) -> Result<()> {
    lay_out(directory, events)?;
    say("\nThe same once more, and operated on:");
    let mut running = start(howdah().args(["run", OPERATED, "--fresh", "--yes"]))?;
    run_command(howdah().args(["top", OPERATED, "--once"]))?;
    run_command(howdah().args(["stop", OPERATED, "--savepoint", SAVEPOINT]))?;
    let ended = running.wait().context("cannot wait for the pipeline")?;
    ensure!(ended.success(), "the pipeline ended with {ended}");
    run_command(howdah().args(["swap", OPERATED, "last-bid", SUCCESSOR]))?;
    run_command(howdah().args(["rescale", OPERATED, "4"]))?;
    run_command(howdah().args(["run", OPERATED, "--from", SAVEPOINT, "--fresh", "--yes"]))?;
    compare(directory, howdah)
}

/// The pipeline file, slow enough for something to be done meanwhile, and the successor of the
/// operator.
fn lay_out(directory: &Path, events: u64) -> Result<()> {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut text = String::from_utf8(read(PIPELINE)?).context("the pipeline file is no text")?;
    let rate = format!("[source]\nrate-limit-rows-per-second = {}", (events / 2).max(1));
    for (from, to) in [
        ("state-directory = \"state\"", "state-directory = \"operated-state\""),
        ("path = \"output\"", "path = \"operated-output\""),
        ("[source]", &rate),
    ] {
        ensure!(text.contains(from), "{PIPELINE} has no {from}");
        text = text.replacen(from, to, 1);
    }
    write(OPERATED, text.as_bytes())?;
    // A section that says nothing: the same operator, but another component.
    let mut component = read("last-bid.wasm")?;
    component.extend(b"\0\x05\x04note");
    write(SUCCESSOR, &component)?;
    match std::fs::remove_dir_all(directory.join(SAVEPOINT)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {SAVEPOINT}"))
        }
        _ => Ok(()),
    }
}

/// Starts it, and waits for a checkpoint.
fn start(command: &mut Command) -> Result<Child> {
    say(&format!("$ {} &", typed(command)));
    let command = command.args(["--output", "json"]).stdout(Stdio::piped());
    let mut running = command.spawn().context("cannot start the pipeline")?;
    let lines = running.stdout.take().context("the pipeline has no output")?;
    let mut lines = BufReader::new(lines).lines();
    let completed = lines.any(|line| line.is_ok_and(|line| line.contains("checkpoint_completed")));
    if !completed {
        bail!("the pipeline ended before its first checkpoint: {}", running.wait()?);
    }
    // It goes on to tell: somebody has to read it.
    std::thread::Builder::new().name("reader".to_owned()).spawn(move || lines.for_each(drop))?;
    Ok(running)
}

/// Output and state of both, row by row.
fn compare(directory: &Path, howdah: &dyn Fn() -> Command) -> Result<()> {
    let state = |file: &str| -> Result<Vec<String>> {
        let mut scan = howdah();
        scan.args(["state", "scan", file, "last", "--output", "csv"]).stderr(Stdio::inherit());
        let printed = scan.output().context("cannot run howdah state scan")?;
        ensure!(printed.status.success(), "the state of {file} cannot be read");
        Ok(sorted(&String::from_utf8_lossy(&printed.stdout)))
    };
    let (output, state, before, state_before) = (
        output(&directory.join("operated-output"))?,
        state(OPERATED)?,
        output(&directory.join("output"))?,
        state(PIPELINE)?,
    );
    ensure!(output == before, "the output is another one");
    ensure!(state == state_before, "the state is another one");
    let (output, state) = (output.len(), state.len().saturating_sub(1));
    say(&format!(
        "Stopped, moved to a savepoint, with another component and twice the subtasks: {output} \
         rows of output and {state} of state, all as they were."
    ));
    Ok(())
}

/// All rows in the files of a directory, sorted.
fn output(directory: &Path) -> Result<Vec<String>> {
    let files = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    let mut text = String::new();
    for file in files {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "ndjson") {
            text += &std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
    }
    Ok(sorted(&text))
}

fn sorted(text: &str) -> Vec<String> {
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}

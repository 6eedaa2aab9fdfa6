//! Running programs and talking to the terminal.

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::process::{Command, Stdio};

/// A line for people. Standard output is kept for results.
pub(crate) fn say(line: &str) {
    // Nobody to tell is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A line of a result.
pub(crate) fn print(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("cannot write to standard output")
}

/// The command as one would type it.
pub(crate) fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Shows the command, runs it, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    say(&format!("$ {}", typed(command)));
    let status = command.status().with_context(|| format!("cannot run {}", typed(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", typed(command));
    }
    Ok(())
}

/// Whether the command can be run and succeeds; its output is thrown away.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What the command prints, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

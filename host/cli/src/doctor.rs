//! `howdah doctor`: looks a pipeline over.

use crate::directories::DirectoryArgs;
use crate::failure::{Failure, Result};
use crate::operate::Output;
use crate::run::engine;
use crate::wasi;
use anyhow::{Context, anyhow};
use howdah_pipeline::{Examination, Finding, Pipeline, PipelineConfig, Severity, examine};
use howdah_runtime::printable;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Look a pipeline over: configuration, directories, checkpoints, and every file and key of its state
///
/// It reads only, takes no lock, and works beside a running pipeline. Every data file of every
/// checkpoint is read and compared with its checksum, and every key of the newest version of each
/// table: that takes as long as reading the state.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah doctor q18.toml
  howdah doctor state --output json | jq 'select(.severity == \"problem\")'

Exit codes: 0 no problem was found, at most notes; 1 there are problems; 2 wrong arguments.")]
pub(crate) struct Args {
    /// The pipeline file, or the pipeline's state directory
    #[arg(value_name = "PIPELINE.toml|STATE_DIR")]
    place: PathBuf,
    /// How to print what is found: text, or one JSON object a line, the last of which sums up
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    directories: DirectoryArgs,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

/// Runs `howdah doctor`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut findings = Vec::new();
    let state_directory = if args.place.is_dir() {
        if !is_state_directory(&args.place) {
            let shown = args.place.display();
            return Err(Failure::usage(format!(
                "{shown} is no state directory of a pipeline; name that, or the pipeline file"
            )));
        }
        Some(args.place.clone())
    } else {
        configuration(&args.place, args, &mut findings)?
    };
    let mut examination = match state_directory {
        Some(directory) => examine(&directory, &mut |what| progress(what)),
        None => Examination::default(),
    };
    progress("");
    findings.append(&mut examination.findings);
    examination.findings = findings;
    print(&examination, args.output)?;
    match examination.findings.iter().filter(|it| it.severity == Severity::Problem).count() {
        0 => Ok(()),
        1 => Err(Failure::Failed(anyhow!("there is a problem"))),
        problems => Err(Failure::Failed(anyhow!("there are {problems} problems"))),
    }
}

/// Whether a pipeline has been here.
fn is_state_directory(directory: &Path) -> bool {
    ["LOCK", "checkpoints", "warehouse"].iter().any(|name| directory.join(name).exists())
}

/// What is looked at, on a terminal.
fn progress(what: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        // Nobody to tell is no reason to stop.
        let _ = write!(out, "\r\x1b[K{what}");
    }
}

/// Checks the pipeline file, as `howdah run` does; the state directory, where it is known.
fn configuration(file: &Path, args: &Args, findings: &mut Vec<Finding>) -> Result<Option<PathBuf>> {
    if !file.exists() {
        return Err(Failure::usage(format!("there is no {}", file.display())));
    }
    let shown = file.display().to_string();
    let advice = "mend it; examples/reference.toml has every key";
    let alone = match PipelineConfig::load_alone(file) {
        Ok(config) => config,
        Err(error) => {
            findings.push(Finding::problem(shown, error.to_string(), advice));
            return Ok(None);
        }
    };
    progress("configuration");
    let engine = engine(args.wasi.permission())?;
    let checked = PipelineConfig::load(file).and_then(|mut config| {
        args.directories.grant(&mut config);
        Pipeline::check(&config, &engine)
    });
    if let Err(error) = checked {
        let problem = error.to_string();
        let advice = "`howdah run` refuses it so; mend what it names";
        findings.push(Finding::problem(shown, problem, advice));
    }
    Ok(Some(alone.state_directory))
}

fn print(examination: &Examination, output: Output) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let Examination { running, checkpoints, tables, rows, files, bytes, findings } = examination;
    if output == Output::Json {
        for finding in findings {
            writeln!(out, "{}", serde_json::to_string(finding).context("cannot write JSON")?)?;
        }
        let summary = json!({
            "running": running, "checkpoints": checkpoints, "tables": tables, "rows": rows,
            "files": files, "bytes": bytes, "healthy": !examination.has_problems(),
        });
        writeln!(out, "{summary}")?;
        return Ok(());
    }
    write!(out, "{}", printable(&text(examination)))?;
    Ok(())
}

fn text(examination: &Examination) -> String {
    let Examination { running, checkpoints, tables, rows, files, bytes, findings } = examination;
    let mut text = String::new();
    // Writing to a string does not fail.
    for Finding { severity, subject, message, advice } in findings {
        let mark = match severity {
            Severity::Note => "note",
            Severity::Problem => "PROBLEM",
        };
        let _ =
            writeln!(text, "{mark}: {subject}\n  {}\n  -> {advice}", message.replace('\n', "\n  "));
    }
    let _ = match running {
        Some(owner) => writeln!(text, "runs: {owner}"),
        None => writeln!(text, "does not run"),
    };
    let _ = writeln!(
        text,
        "looked at: {checkpoints} checkpoints, {tables} tables with {} rows, {} files, {}",
        HumanCount(*rows),
        HumanCount(*files),
        HumanBytes(*bytes)
    );
    text
}

//! `howdah inspect`: what is in a component file, found without running it.

use crate::facts::{self, Output};
use crate::failure::{Failure, Result};
use howdah_runtime::{ErrorKind, Inspection};
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Show what is in a component, without running it
///
/// Its imports and exports as WIT, what it was made with, its core modules and their memories, and
/// where its bytes go. Whether it runs here, and what state it keeps, says `howdah check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah inspect last-bid.wasm
  howdah inspect last-bid.wasm --output json | jq .producers
  howdah inspect last-bid.wasm --wit > last-bid.wit

Exit codes: 0 shown, 1 no component or a damaged one, 2 wrong arguments.")]
pub(crate) struct Args {
    /// The component file
    #[arg(value_name = "COMPONENT.wasm")]
    component: PathBuf,
    /// Print the WIT alone
    #[arg(long, conflicts_with = "output")]
    wit: bool,
    /// How to print
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Runs `howdah inspect`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let inspection = read(&args.component)?;
    let mut out = std::io::stdout().lock();
    match args.output {
        _ if args.wit => write!(out, "{}", inspection.wit)?,
        Output::Json => writeln!(out, "{}", json!(inspection))?,
        Output::Text => write!(out, "{}", text(&inspection))?,
    }
    Ok(())
}

/// Looks into a component file.
pub(crate) fn read(path: &Path) -> Result<Inspection> {
    if path.is_dir() {
        return Err(Failure::usage(format!(
            "{shown} is a directory: build the operator in it first (`howdah build {shown}`), then \
             name the .wasm file that comes of it",
            shown = path.display()
        )));
    }
    if matches!(path.try_exists(), Ok(false)) {
        return Err(Failure::usage(format!(
            "the component {} is not there; build the operator (`howdah build`), or mend the path",
            path.display()
        )));
    }
    Inspection::read(path).map_err(|error| match error.kind() {
        // The file cannot be read.
        ErrorKind::Host => Failure::Usage(error.into()),
        _ => Failure::Failed(error.into()),
    })
}

fn text(inspection: &Inspection) -> String {
    let mut text = facts::component(inspection);
    // Writing to a string cannot fail.
    let _ = write_text(&mut text, inspection);
    text
}

fn write_text(text: &mut String, inspection: &Inspection) -> std::fmt::Result {
    let of_itself = |field: &str| {
        inspection.producers.iter().any(|producer| producer.field == field && !producer.nested)
    };
    for producer in &inspection.producers {
        let named = format!("{} {}", producer.name, producer.version);
        let is_other = producer.nested && of_itself(&producer.field);
        let of = if is_other { ", of a module in it" } else { "" };
        writeln!(text, "  {:13} {}{of}", producer.field, named.trim_end())?;
    }
    for module in &inspection.modules {
        write!(
            text,
            "  module        {}: {} ({} code, {} data)",
            module.name.as_deref().unwrap_or("without a name"),
            HumanBytes(module.bytes),
            HumanBytes(module.code_bytes),
            HumanBytes(module.data_bytes)
        )?;
        for memory in &module.memories {
            write!(text, ", memory from {}", HumanBytes(memory.minimum_bytes))?;
            if let Some(maximum) = memory.maximum_bytes {
                write!(text, " to {}", HumanBytes(maximum))?;
            }
        }
        writeln!(text)?;
    }
    for section in &inspection.custom_sections {
        write!(text, "  section       {}: {}", section.name, HumanBytes(section.bytes))?;
        match section.count {
            1 => writeln!(text)?,
            count => writeln!(text, " in {}", HumanCount(count))?,
        }
    }
    for difference in &inspection.differences {
        writeln!(
            text,
            "  differs       {}",
            difference.to_string().replace('\n', "\n            ")
        )?;
    }
    writeln!(text, "\n{}", inspection.wit.trim_end())
}

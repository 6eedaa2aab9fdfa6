//! `howdah build`: makes a component of a project.

mod c;
mod js;
mod python;
mod rust;

use crate::check;
use crate::facts::Output;
use crate::failure::{Failure, Result};
use crate::project::Language;
use anyhow::Context;
use howdah_pipeline::PipelineConfig;
use indicatif::HumanBytes;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Make a component of a project, and check it
///
/// The compiler of the project's language makes it; what it says is shown as it is. The component is
/// the one that the project's pipeline.toml names, or the directory's name with .wasm.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah build
  howdah build highest-bid
  howdah build --wasi     an operator in Rust that uses files: with std::fs, and the imports of WASI

What it needs:
  Rust        cargo, with `rustup target add wasm32-unknown-unknown`; for WASI, wasm32-wasip2
  Python      componentize-py: `pip install componentize-py==0.25.1`
  JavaScript  Node.js and componentize-qjs: `npm ci` in the project's howdah/
  C           a clang for wasm32-wasi: `pip install ziglang==0.16.0`, or zig
A checkout of howdah gets them with `cargo xtask setup`, and --python, --js or --c.

Environment:
  HOWDAH_WASM_RUSTC   a Rust compiler for wasm32-unknown-unknown, instead of the one that is found

Exit codes: 0 made, and it runs here; 1 it cannot be made, or does not run here; 2 wrong arguments,
or a tool is missing.")]
pub(crate) struct Args {
    /// The directory of the project
    #[arg(value_name = "PROJECT", default_value = ".")]
    project: PathBuf,
    /// Let it import WASI, as for files [default: as pipeline.toml has a section [operator.wasi]]
    #[arg(long)]
    wasi: bool,
    /// How to print what the check finds
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// What is built, and where it goes.
struct Project {
    directory: PathBuf,
    component: PathBuf,
    /// Where it is until it is checked: what runs, and may start again, shall not find one that
    /// cannot run.
    unchecked: PathBuf,
    /// The configuration that its pipeline gives it.
    config: String,
    /// Whether it may import WASI.
    wasi: bool,
}

/// Runs `howdah build`.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.project.is_dir() {
        return Err(Failure::usage(format!("{} is no directory", args.project.display())));
    }
    let language = Language::of(&args.project)?;
    let mut project = Project::find(&args.project)?;
    project.wasi |= args.wasi;
    if project.wasi && language != Language::Rust {
        return Err(Failure::usage(format!(
            "an operator in {language} is built without WASI: one that needs files is to be written \
             in Rust; leave out --wasi, or [operator.wasi] in pipeline.toml"
        )));
    }
    match language {
        Language::Rust => rust::build(&project)?,
        Language::Python => python::build(&project)?,
        Language::C => c::build(&project)?,
        Language::Js => js::build(&project)?,
    }
    let checked = project.check(args.output);
    if checked.is_err() {
        // It was there for the check alone.
        let _ = std::fs::remove_file(&project.unchecked);
    }
    checked
}

impl Project {
    fn find(directory: &Path) -> Result<Self> {
        // Messages name `a.wasm`, not `./a.wasm`.
        let inside = if directory == Path::new(".") { Path::new("") } else { directory };
        let pipeline = inside.join("pipeline.toml");
        let (component, config, wasi) = if pipeline.is_file() {
            let config = PipelineConfig::load_alone(&pipeline)
                .map_err(|error| Failure::Usage(error.into()))?;
            let Ok([operator]) = <[_; 1]>::try_from(config.operators) else {
                return Err(Failure::usage(format!(
                    "{} has several operators; a project is built with a pipeline file of its own, \
                     with one",
                    pipeline.display()
                )));
            };
            (operator.component.value, operator.config, operator.wasi.is_some())
        } else {
            let whole = directory
                .canonicalize()
                .with_context(|| format!("cannot resolve {}", directory.display()))?;
            let name = whole.file_name().unwrap_or(OsStr::new("operator")).to_string_lossy();
            let name = format!("{}.wasm", name.replace('_', "-"));
            (inside.join(name), "{}".to_owned(), false)
        };
        Ok(Self {
            directory: directory.to_owned(),
            unchecked: component.with_extension("unchecked.wasm"),
            component,
            config,
            wasi,
        })
    }

    /// Checks what was made, and puts it where it belongs.
    fn check(&self, output: Output) -> Result<()> {
        let Self { component, unchecked, config, .. } = self;
        let bytes = std::fs::metadata(unchecked)
            .with_context(|| format!("no component came of it: {}", unchecked.display()))?
            .len();
        let checked = check::check_made(unchecked, component, config, self.wasi)?;
        std::fs::rename(unchecked, component)
            .with_context(|| format!("cannot write {}", component.display()))?;
        say(&format!("made {}, {}", component.display(), HumanBytes(bytes)));
        checked.print(output)
    }

    /// The file with the operator: the component's name with this extension, and with `_` where
    /// the language has no `-` in names of modules.
    fn source(&self, extension: &str) -> Result<PathBuf> {
        let stem = self.component.file_stem().unwrap_or_default().to_string_lossy();
        let name = if extension == "js" { stem.to_string() } else { stem.replace('-', "_") };
        let file = PathBuf::from(format!("{name}.{extension}"));
        if self.directory.join(&file).is_file() {
            return Ok(file);
        }
        Err(Failure::usage(format!(
            "{} has no {}, which would define the operator of {stem}.wasm; rename it, or `component` \
             in pipeline.toml",
            self.directory.display(),
            file.display()
        )))
    }

    /// The path of what is made, for a tool that runs in the directory of the project.
    fn whole_component(&self) -> Result<PathBuf> {
        let path = std::path::absolute(&self.unchecked);
        Ok(path.with_context(|| format!("cannot resolve {}", self.unchecked.display()))?)
    }
}

/// Shows a command as it would be typed, and runs it to its end with our terminal.
fn run_tool(mut command: Command, what: &str) -> Result<()> {
    say(&format!("$ {}", typed(&command)));
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(failed(what)) }
}

fn failed(what: &str) -> Failure {
    Failure::Failed(anyhow::anyhow!("{what} failed; what it said is above"))
}

/// A command as it would be typed.
fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Says how far it is.
fn say(line: &str) {
    // Nobody to tell is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}

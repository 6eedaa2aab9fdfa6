//! Components of projects in Rust: cargo, and what is needed after it.

use super::{Project, failed, say, typed};
use crate::failure::{Failure, Result};
use anyhow::Context;
use howdah_componentize::{Toolchain, encode};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a line of `cargo build --message-format=json` says of something that was made.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    crate_types: Vec<String>,
}

pub(super) fn build(project: &Project) -> Result<()> {
    let toolchain = Toolchain::find().map_err(Failure::Usage)?;
    if toolchain.builds_std() {
        say("this compiler builds Rust's standard library too, the first time");
    }
    let module = core_module(project, &toolchain)?;
    Ok(encode(&module, &project.component)?)
}

/// Has cargo build the core module. Its messages go to standard error, as ever.
fn core_module(project: &Project, toolchain: &Toolchain) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--lib"]);
    toolchain.apply(&mut cargo);
    say(&format!("$ {}", typed(&cargo)));
    let output = cargo
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&project.directory)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")
        .map_err(|error| {
            Failure::Usage(error.context("a Rust project needs cargo: install Rust with rustup"))
        })?;
    if !output.status.success() {
        return Err(failed("cargo build"));
    }
    let manifest = project.directory.join("Cargo.toml");
    let manifest = manifest
        .canonicalize()
        .with_context(|| format!("cannot resolve {}", manifest.display()))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    messages.lines().filter_map(|line| module_of(line, &manifest)).next_back().ok_or_else(|| {
        Failure::usage(format!(
            "{} makes no core module; it needs: [lib] crate-type = [\"cdylib\", \"rlib\"]",
            manifest.display()
        ))
    })
}

/// The core module that a message names, if it is of this package.
fn module_of(line: &str, manifest: &Path) -> Option<PathBuf> {
    let message: Message = serde_json::from_str(line).ok()?;
    let ours = message.manifest_path.is_some_and(|path| path == manifest);
    let is_module =
        message.target.is_some_and(|target| target.crate_types.iter().any(|t| t == "cdylib"));
    if message.reason != "compiler-artifact" || !ours || !is_module {
        return None;
    }
    let is_wasm = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "wasm");
    message.filenames.into_iter().find(is_wasm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_taken_from_what_cargo_says_of_this_package() {
        let manifest = Path::new("/p/Cargo.toml");
        let line = |manifest: &str, kind: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"{manifest}\",\"target\":\
                 {{\"crate_types\":[\"{kind}\",\"rlib\"]}},\"filenames\":[\"/t/a.wasm\",\"/t/a.rlib\"]}}"
            )
        };
        let found = |line: &str| module_of(line, manifest);
        assert_eq!(found(&line("/p/Cargo.toml", "cdylib")), Some(PathBuf::from("/t/a.wasm")));
        assert_eq!(found(&line("/other/Cargo.toml", "cdylib")), None);
        assert_eq!(found(&line("/p/Cargo.toml", "bin")), None);
        assert_eq!(found("{\"reason\":\"build-finished\",\"success\":true}"), None);
        assert_eq!(found("warning: text"), None);
    }
}

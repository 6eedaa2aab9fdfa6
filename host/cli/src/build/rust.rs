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
    if project.wasi {
        // Its linker makes a component of it.
        let toolchain = Toolchain::find_for_wasi().map_err(Failure::Usage)?;
        let made = built(project, &toolchain)?;
        let copied = std::fs::copy(&made, &project.unchecked);
        copied.with_context(|| format!("cannot copy {}", made.display()))?;
        return Ok(());
    }
    let toolchain = Toolchain::find().map_err(Failure::Usage)?;
    if toolchain.builds_std() {
        say("this compiler builds Rust's standard library too, the first time");
    }
    let module = built(project, &toolchain)?;
    if let Some(file) = uses_files(&project.directory.join("src")) {
        say(&format!(
            "note: {} uses std::fs, which without WASI has no files: all it does is an error. With \
             --wasi, or [operator.wasi] in pipeline.toml, it is built with it",
            file.display()
        ));
    }
    Ok(encode(&module, &project.unchecked)?)
}

/// A source file below a directory that names `std::fs`.
fn uses_files(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    entries.flatten().map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() {
            return uses_files(&path);
        }
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let text = is_source.then(|| std::fs::read_to_string(&path).ok()).flatten()?;
        text.lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .any(|line| line.contains("std::fs") || line.contains("std::{fs"))
            .then_some(path)
    })
}

/// What cargo builds: the core module, or for WASI the component. Its messages go to standard error,
/// as ever.
fn built(project: &Project, toolchain: &Toolchain) -> Result<PathBuf> {
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
    fn a_source_that_uses_files_is_found_and_one_that_speaks_of_them_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).expect("written");
        };
        write("lib.rs", "mod inner;\n// not std::fs::read\n");
        write("notes.txt", "std::fs");
        assert_eq!(uses_files(directory.path()), None);
        std::fs::create_dir(directory.path().join("inner")).expect("made");
        write("inner/mod.rs", "use std::fs::File;\n");
        assert_eq!(uses_files(directory.path()), Some(directory.path().join("inner/mod.rs")));
    }

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

//! Where things are.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;

/// The directories of this workspace, as cargo sees them.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    /// The directory with the root `Cargo.toml`.
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    /// Where cargo builds, whatever sets it.
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn find() -> Result<Self> {
        // As `cargo run` says it now: checkouts that share a target directory share this program.
        let built_in = env!("CARGO_MANIFEST_DIR");
        let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| built_in.into());
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
            .arg(PathBuf::from(package).join("Cargo.toml"))
            .output()
            .context("cannot run cargo metadata")?;
        serde_json::from_slice(&output.stdout).with_context(|| {
            format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim())
        })
    }

    /// The Python that has the packages of `tests/oracles/requirements.txt`.
    pub(crate) fn oracle_python(&self) -> PathBuf {
        self.target.join("oracles-venv/bin/python")
    }

    /// The Python that has the packages of `tests/oracles/readers.txt`.
    pub(crate) fn readers_python(&self) -> PathBuf {
        self.target.join("readers-venv/bin/python")
    }

    /// The Python that has the packages of `tests/oracles/kafka.txt`.
    pub(crate) fn kafka_python(&self) -> PathBuf {
        self.target.join("kafka-venv/bin/python")
    }

    /// A Python whose environment has Flink's jars.
    pub(crate) fn flink_python(&self) -> PathBuf {
        self.target.join("flink-venv/bin/python")
    }

    /// The release build of the command.
    pub(crate) fn release_binary(&self) -> PathBuf {
        self.target.join("release/howdah")
    }

    /// A command in the root of the workspace.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// A cargo command in the root of the workspace.
    pub(crate) fn cargo(&self) -> Command {
        self.command(cargo())
    }
}

/// The cargo that runs us.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

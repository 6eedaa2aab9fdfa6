//! The languages of operators beside Rust. Their toolchains are got on demand; what is not there
//! is skipped, and said so.

use crate::command::{run as run_command, say};
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// A language that operators are written in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Language {
    /// `guest-sdk/python`.
    Python,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Python => "python",
        })
    }
}

impl Language {
    pub(crate) const ALL: [Self; 1] = [Self::Python];

    /// Gets its toolchain, unless it is there; says what it is.
    pub(crate) fn set_up(self, workspace: &Workspace) -> Result<String> {
        match self {
            Self::Python => {
                let requirements = self.sdk(workspace).join("toolchain.txt");
                setup::environment(&self.python(workspace), &requirements)
            }
        }
    }

    /// Runs the tests of its SDK, which need no host.
    pub(crate) fn test(self, workspace: &Workspace) -> Result<()> {
        match self {
            Self::Python => run_command(
                Command::new(workspace.oracle_python())
                    .current_dir(self.sdk(workspace))
                    .env("PYTHONDONTWRITEBYTECODE", "1")
                    .args(["-m", "unittest", "discover", "--start-directory", "tests"]),
            ),
        }
    }

    /// The variable that tells tests where its operators are.
    pub(crate) fn operators_variable(self) -> &'static str {
        match self {
            Self::Python => "HOWDAH_OPERATORS_PYTHON",
        }
    }

    /// Builds the operators of `operators/<language>` to components, those that are older than
    /// what they are made of. Gives their directory; nothing without its toolchain.
    pub(crate) fn build_operators(self, workspace: &Workspace) -> Result<Option<PathBuf>> {
        if !self.is_set_up(workspace) {
            say(&format!(
                "{self:<15} skipped: `cargo xtask setup --{self}` gets what makes components of it"
            ));
            return Ok(None);
        }
        let directory = workspace.target.join("operators-other").join(self.to_string());
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let sources = workspace.root.join("operators").join(self.to_string());
        let newest = [&sources, &self.sdk(workspace), &workspace.root.join("wit")]
            .into_iter()
            .map(|directory| newest_change(directory))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .max()
            .flatten();
        for source in files(&sources)? {
            if source.extension().is_none_or(|extension| extension != self.extension()) {
                continue;
            }
            let name = source.file_stem().context("a source has a name")?.to_string_lossy();
            let component = directory.join(name.replace('_', "-")).with_extension("wasm");
            if modified(&component).is_none_or(|built| Some(built) < newest) {
                self.build(workspace, &source, &component)?;
            }
        }
        Ok(Some(directory))
    }

    /// Makes a component of one operator.
    fn build(self, workspace: &Workspace, source: &Path, component: &Path) -> Result<()> {
        match self {
            Self::Python => run_command(
                Command::new(self.python(workspace))
                    .current_dir(self.sdk(workspace))
                    .env("PYTHONDONTWRITEBYTECODE", "1")
                    .args(["-m", "howdah.build"])
                    .arg(source)
                    .arg("--output")
                    .arg(component),
            ),
        }
    }

    fn is_set_up(self, workspace: &Workspace) -> bool {
        match self {
            Self::Python => self.toolchain(workspace).join("requirements.txt").is_file(),
        }
    }

    /// What the names of its sources end in.
    fn extension(self) -> &'static str {
        match self {
            Self::Python => "py",
        }
    }

    fn sdk(self, workspace: &Workspace) -> PathBuf {
        workspace.root.join("guest-sdk").join(self.to_string())
    }

    fn toolchain(self, workspace: &Workspace) -> PathBuf {
        workspace.target.join("toolchains").join(self.to_string())
    }

    fn python(self, workspace: &Workspace) -> PathBuf {
        self.toolchain(workspace).join("bin/python")
    }
}

/// When anything in a directory changed last; `None` if it has no files.
fn newest_change(directory: &Path) -> Result<Option<SystemTime>> {
    let mut newest = None;
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for path in files(&directory)? {
            if path.is_dir() {
                left.push(path);
            } else {
                newest = newest.max(modified(&path));
            }
        }
    }
    Ok(newest)
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let context = || format!("cannot read {}", directory.display());
    let mut paths = Vec::new();
    for entry in directory.read_dir().with_context(context)? {
        paths.push(entry.with_context(context)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

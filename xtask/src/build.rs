//! Builds the command and the operators.

use crate::command::{say, typed};
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Stdio;

/// The crate whose build script makes the components.
const OPERATORS: &str = "howdah-operator-artifacts";

/// Its directory, which is how cargo's messages name it.
const OPERATORS_PATH: &str = "/operators/artifacts#";

/// The package of the command, and the command.
const HOWDAH: &str = "howdah";

/// What was built.
#[derive(Debug)]
pub(crate) struct Built {
    /// The command.
    pub(crate) howdah: PathBuf,
    /// The directory of the components: the output directory of the build script that makes them.
    pub(crate) components: PathBuf,
}

impl Built {
    /// In release, with what that needs.
    pub(crate) fn release(workspace: &Workspace) -> Result<Self> {
        setup::prepare(workspace)?;
        Self::by(workspace, &["build", "--release", "-p", HOWDAH, "-p", OPERATORS])
    }

    /// As the tests of the workspace have it: after them, nothing is left to build.
    pub(crate) fn for_tests(workspace: &Workspace) -> Result<Self> {
        Self::by(workspace, &["test", "--workspace", "--no-run"])
    }

    fn by(workspace: &Workspace, arguments: &[&str]) -> Result<Self> {
        let mut cargo = workspace.cargo();
        cargo.args(arguments).arg("--message-format=json-render-diagnostics");
        say(&format!("$ {}", typed(&cargo)));
        let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        if !output.status.success() {
            bail!("the build failed");
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let messages: Vec<Message> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self {
            howdah: messages
                .iter()
                .find_map(Message::howdah)
                .context("cargo did not say where it built the command")?,
            components: messages
                .iter()
                .find_map(Message::components)
                .context("cargo did not say where it built the operators")?,
        })
    }
}

/// What we need of a line of cargo's `--message-format=json`.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    package_id: String,
    out_dir: Option<PathBuf>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Message {
    fn howdah(&self) -> Option<PathBuf> {
        let target = self.target.as_ref()?;
        let is_command = target.name == HOWDAH && target.kind == ["bin"];
        // Its own tests are an executable of that name, too, in another directory.
        let executable = self.executable.as_ref().filter(|path| path.ends_with(HOWDAH))?;
        is_command.then(|| executable.clone())
    }

    fn components(&self) -> Option<PathBuf> {
        let is_of_operators =
            self.reason == "build-script-executed" && self.package_id.contains(OPERATORS_PATH);
        self.out_dir.clone().filter(|_| is_of_operators)
    }
}

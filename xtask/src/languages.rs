//! The languages of operators beside Rust. Their toolchains are got on demand; what is not there
//! is skipped, and said so.

use crate::command::{run as run_command, say, succeeds};
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// The lock file of the packages that are installed beside it.
const INSTALLED: &str = "installed-lock.json";
/// Where the JavaScript SDK, and its toolchain, have what checks types.
const TYPES: &str = "types";

/// A language that operators are written in.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Language {
    /// `guest-sdk/python`.
    Python,
    /// `guest-sdk/c`.
    C,
    /// `guest-sdk/js`.
    Js,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Python => "python",
            Self::C => "c",
            Self::Js => "js",
        })
    }
}

impl Language {
    pub(crate) const ALL: [Self; 3] = [Self::Python, Self::C, Self::Js];

    /// Gets its toolchain, unless it is there; says what it is.
    pub(crate) fn set_up(self, workspace: &Workspace) -> Result<String> {
        match self {
            Self::Python | Self::C => {
                let requirements = self.sdk(workspace).join("toolchain.txt");
                setup::environment(&self.python(workspace), &requirements)
            }
            Self::Js => self.set_up_js(workspace),
        }
    }

    /// What makes components, and what checks types, which projects of authors do not need.
    fn set_up_js(self, workspace: &Workspace) -> Result<String> {
        let directory = self.toolchain(workspace);
        install_packages(&self.sdk(workspace), &directory)?;
        let types = directory.join(TYPES);
        install_packages(&self.sdk(workspace).join(TYPES), &types)?;
        Ok(directory.join("node_modules/componentize-qjs").display().to_string())
    }

    /// Checks the types of its SDK and template, where there is a checker for it.
    pub(crate) fn check_types(self, workspace: &Workspace) -> Result<()> {
        let toolchain = self.toolchain(workspace);
        let (checker, arguments): (_, &[&str]) = match self {
            // The C compiler checked them when it built the tests.
            Self::C => return Ok(()),
            // Tests that run operators of `operators` are not among them.
            Self::Python => (
                toolchain.join("bin/mypy"),
                &[
                    "--disable-error-code=annotation-unchecked",
                    "howdah",
                    "template",
                    "tests/test_operators.py",
                ],
            ),
            Self::Js => {
                (toolchain.join(TYPES).join("node_modules/.bin/tsc"), &["--project", TYPES])
            }
        };
        if !checker.is_file() {
            say(&format!(
                "{self:<15} types not checked: `cargo xtask setup --{self}` gets what checks them"
            ));
            return Ok(());
        }
        run_command(
            Command::new(checker)
                .current_dir(self.sdk(workspace))
                .env("MYPY_CACHE_DIR", toolchain.join("mypy-cache"))
                .args(arguments),
        )
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
            Self::C => self.test_c(workspace),
            Self::Js if succeeds(Command::new("node").arg("--version")) => run_command(
                Command::new("node").current_dir(self.sdk(workspace)).args(["--test", "tests/"]),
            ),
            Self::Js => {
                say("js              tests skipped: there is no Node called `node`");
                Ok(())
            }
        }
    }

    /// Each file is a program of its own, which fails by its exit code.
    fn test_c(self, workspace: &Workspace) -> Result<()> {
        if !succeeds(Command::new("cc").arg("--version")) {
            say("c               tests skipped: there is no C compiler called `cc`");
            return Ok(());
        }
        let directory = workspace.target.join("tests-of-c");
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        for source in files(&self.sdk(workspace).join("tests"))? {
            let program = directory.join(source.file_stem().context("a source has a name")?);
            run_command(
                Command::new("cc")
                    .current_dir(self.sdk(workspace))
                    .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I.", "-o"])
                    .arg(&program)
                    .arg(&source)
                    .args(["howdah.c", "howdah_testing.c"]),
            )?;
            run_command(&mut Command::new(&program))?;
        }
        Ok(())
    }

    /// The variable that tells tests where its operators are.
    pub(crate) fn operators_variable(self) -> &'static str {
        match self {
            Self::Python => "HOWDAH_OPERATORS_PYTHON",
            Self::C => "HOWDAH_OPERATORS_C",
            Self::Js => "HOWDAH_OPERATORS_JS",
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
            Self::C => self.build_c(workspace, source, component),
            Self::Js => run_command(
                Command::new("node")
                    .current_dir(self.sdk(workspace))
                    .env("HOWDAH_NODE_MODULES", self.toolchain(workspace).join("node_modules"))
                    .arg("build.mjs")
                    .args([source, component]),
            ),
        }
    }

    /// A core module first, then the component of it: the sources need no tool of ours.
    fn build_c(self, workspace: &Workspace, source: &Path, component: &Path) -> Result<()> {
        let module = component.with_extension("core.wasm");
        let mut compile = Command::new(self.python(workspace));
        compile
            .current_dir(self.sdk(workspace))
            // Its C library, compiled once.
            .env("ZIG_GLOBAL_CACHE_DIR", self.toolchain(workspace).join("cache"))
            .args(["-m", "ziglang", "cc", "-target", "wasm32-wasi", "-mexec-model=reactor"])
            .args([
                "-std=c11",
                "-O3",
                "-flto",
                "-msimd128",
                "-s",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-I.",
                "-o",
            ])
            .arg(&module)
            .arg(source)
            .arg("howdah.c");
        run_command(&mut compile)?;
        let bytes =
            std::fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
        let bytes = encode_component(&workspace.root.join("wit"), bytes)
            .with_context(|| format!("cannot make a component of {}", module.display()))?;
        std::fs::write(component, bytes)
            .with_context(|| format!("cannot write {}", component.display()))
    }

    fn is_set_up(self, workspace: &Workspace) -> bool {
        let stamp = match self {
            Self::Python | Self::C => "requirements.txt",
            Self::Js => INSTALLED,
        };
        self.toolchain(workspace).join(stamp).is_file()
    }

    /// What the names of its sources end in.
    fn extension(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::C => "c",
            Self::Js => "js",
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

/// Installs what the lock file of a package names, with its checksums, unless it is there.
fn install_packages(package: &Path, directory: &Path) -> Result<()> {
    let lock = std::fs::read(package.join("package-lock.json"))
        .with_context(|| format!("there is no package-lock.json in {}", package.display()))?;
    // Written last: a half-made directory has none.
    let stamp = directory.join(INSTALLED);
    if std::fs::read(&stamp).is_ok_and(|made| made == lock) {
        return Ok(());
    }
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(package.join(name), directory.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    run_command(Command::new("npm").current_dir(directory).args(["ci", "--no-audit", "--no-fund"]))
        .context("operators in JavaScript need Node 18 or newer with npm")?;
    std::fs::write(&stamp, lock).with_context(|| format!("cannot write {}", stamp.display()))
}

/// A component of a core module that exports and imports as the contract in `wit` says.
fn encode_component(wit: &Path, mut module: Vec<u8>) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit)?;
    let world = resolve.select_world(&[package], Some("timed-operator"))?;
    wit_component::embed_component_metadata(
        &mut module,
        &resolve,
        world,
        StringEncoding::UTF8,
        false,
    )?;
    ComponentEncoder::default().validate(true).module(&module)?.encode()
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

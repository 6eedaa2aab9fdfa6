//! What the build and the tests need, and how to get it.

use crate::command::{output, run as run_command, say, succeeds};
use crate::languages::Language;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Operators are compiled for this target.
const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Where Debian's packages have their compiler.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// Check everything the build and the tests need, and get what is missing
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Get RocksDB too, which `cargo xtask bench state` compares with; downloads 330 MB
    #[arg(long)]
    rocksdb: bool,
    /// Get Flink too, which `cargo xtask bench pipeline` compares with; downloads 330 MB, and needs a JDK
    #[arg(long)]
    flink: bool,
    #[command(flatten)]
    languages: Chosen,
}

/// Languages of operators whose toolchains are wanted.
#[derive(Debug, clap::Args)]
struct Chosen {
    /// Get what makes components of operators in Python, and checks the types of their SDK
    /// (componentize-py and mypy, 70 MB)
    #[arg(long)]
    python: bool,
    /// Get what compiles operators in C (Zig, as a C compiler, 100 MB)
    #[arg(long)]
    c: bool,
    /// Get what makes components of operators in JavaScript, and checks the types of their SDK
    /// (componentize-qjs and TypeScript, 70 MB)
    #[arg(long)]
    js: bool,
}

impl Chosen {
    fn languages(&self) -> impl Iterator<Item = Language> {
        [(self.python, Language::Python), (self.c, Language::C), (self.js, Language::Js)]
            .into_iter()
            .filter_map(|(chosen, language)| chosen.then_some(language))
    }
}

/// Runs `cargo xtask setup`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    prepare(workspace)?;
    if args.rocksdb {
        say(&format!("RocksDB         {}", get_rocksdb(workspace)?.display()));
    }
    if args.flink {
        say(&format!("Flink           {}", get_flink(workspace)?.display()));
    }
    for language in args.languages.languages() {
        say(&format!("{language:<15} {}", language.set_up(workspace)?));
    }
    Ok(())
}

/// Checks everything and gets what is missing. Quick when nothing is.
pub(crate) fn prepare(workspace: &Workspace) -> Result<()> {
    say(&format!("wasm target     {}", wasm_target()?));
    say(&format!("oracle python   {}", oracle_python(workspace)?));
    say(&format!("other readers   {}", readers_python(workspace)));
    Ok(())
}

/// Makes sure that operators can be compiled; says with what.
fn wasm_target() -> Result<String> {
    if let Some(found) = find_wasm_target() {
        return Ok(found);
    }
    if succeeds(Command::new("rustup").arg("--version")) {
        let mut add = Command::new("rustup");
        if let Err(error) = run_command(add.args(["target", "add", WASM_TARGET])) {
            say(&format!("rustup cannot get it ({error}); trying the system's packages"));
        }
    }
    if find_wasm_target().is_none() {
        let linker = newest_linker_package();
        install(&["rustc-web", "rust-web-src", &linker]);
    }
    find_wasm_target().with_context(|| {
        format!(
            "no Rust compiler here can build for {WASM_TARGET}; get one of: `rustup target add \
             {WASM_TARGET}`, or on Debian `apt-get install rustc-web rust-web-src lld-22` (any \
             recent lld does)"
        )
    })
}

/// The compiler that can build for the target, found as the build script of the operators finds
/// it: the one that cargo uses, with the target installed, or Debian's, which builds the target's
/// standard library from source.
fn find_wasm_target() -> Option<String> {
    if let Some(compiler) = std::env::var_os("HOWDAH_WASM_RUSTC") {
        return Some(format!("{} (HOWDAH_WASM_RUSTC)", compiler.to_string_lossy()));
    }
    let libraries =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", WASM_TARGET]))
            .unwrap_or_default();
    let mut entries = Path::new(&libraries).read_dir().into_iter().flatten().flatten();
    if entries.any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-")) {
        return Some(format!("{WASM_TARGET} of the Rust toolchain"));
    }
    let sysroot = output(Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]))?;
    let sources = Path::new(&sysroot).join("lib/rustlib/src/rust/library");
    let linker = wasm_linker()?;
    sources.is_dir().then(|| format!("{DEBIAN_RUSTC} with {linker}"))
}

/// `wasm-ld`, with or without a version in its name.
fn wasm_linker() -> Option<String> {
    let mut linkers: Vec<String> = Path::new("/usr/bin")
        .read_dir()
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name == "wasm-ld" || name.starts_with("wasm-ld-"))
        .collect();
    linkers.sort();
    linkers.pop()
}

/// `lld-22` or the like: the newest that the system's packages have.
fn newest_linker_package() -> String {
    // Without the lists, apt finds nothing at all.
    run_as_root(&["apt-get", "update"]);
    output(Command::new("apt-cache").args(["search", "--names-only", "^lld-[0-9]+$"]))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| {
            line.strip_prefix("lld-")?.split_whitespace().next()?.parse::<u32>().ok()
        })
        .max()
        .map_or_else(|| "lld".to_owned(), |version| format!("lld-{version}"))
}

/// Installs Debian packages. A failure shows in the check that follows.
fn install(packages: &[&str]) {
    let mut words = vec!["apt-get", "install", "-y", "--no-install-recommends"];
    words.extend(packages);
    run_as_root(&words);
}

/// Runs a command as root: as we are, or else through `sudo`, if that asks for no password.
fn run_as_root(words: &[&str]) {
    let is_root = output(Command::new("id").arg("-u")).is_some_and(|id| id == "0");
    let sudo: &[&str] = if is_root { &[] } else { &["sudo", "-n"] };
    let words = [sudo, words].concat();
    let Some((program, arguments)) = words.split_first() else { return };
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    if let Err(error) = run_command(&mut command) {
        say(&format!("{error:#}"));
    }
}

fn oracle_python(workspace: &Workspace) -> Result<String> {
    environment(&workspace.oracle_python(), &workspace.root.join("tests/oracles/requirements.txt"))
}

/// The tests skip what has no build for this machine.
fn readers_python(workspace: &Workspace) -> String {
    environment(&workspace.readers_python(), &workspace.root.join("tests/oracles/readers.txt"))
        .unwrap_or_else(|error| format!("skipped: {error:#}"))
}

/// A Python with a broker and a client of Kafka.
pub(crate) fn kafka_python(workspace: &Workspace) -> Result<PathBuf> {
    let python = workspace.kafka_python();
    environment(&python, &workspace.root.join("tests/oracles/kafka.txt"))?;
    Ok(python)
}

/// Flink's jars, if they are there.
pub(crate) fn flink_jars(workspace: &Workspace) -> Option<PathBuf> {
    let libraries = workspace.flink_python().ancestors().nth(2)?.join("lib");
    let mut pythons = libraries.read_dir().ok()?.flatten();
    let jars = |python: &Path| python.join("site-packages/pyflink/lib");
    pythons.find_map(|python| Some(jars(&python.path())).filter(|jars| jars.is_dir()))
}

/// Whether Java can run a program from its source.
pub(crate) fn has_java_compiler() -> bool {
    output(Command::new("java").arg("--list-modules"))
        .is_some_and(|modules| modules.lines().any(|line| line.starts_with("jdk.compiler")))
}

fn get_flink(workspace: &Workspace) -> Result<PathBuf> {
    if !has_java_compiler() {
        install(&["default-jdk-headless"]);
    }
    if !has_java_compiler() {
        bail!("Flink needs a JDK; on Debian: `apt-get install default-jdk-headless`");
    }
    let requirements = workspace.root.join("benches/flink/requirements.txt");
    environment(&workspace.flink_python(), &requirements)?;
    flink_jars(workspace).context("the package of Flink has no jars")
}

/// Makes the virtual environment of a Python with these packages, unless it is there with the
/// same.
pub(crate) fn environment(python: &Path, requirements: &Path) -> Result<String> {
    let directory = python.ancestors().nth(2).context("a Python has no environment")?;
    let wanted = std::fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    // Written last: a half-made environment has none.
    let stamp = directory.join("requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(python.display().to_string());
    }
    if directory.exists() {
        std::fs::remove_dir_all(directory)
            .with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    let system = system_python()?;
    let mut create = Command::new(&system);
    create.args(["-m", "venv"]).arg(directory);
    if run_command(&mut create).is_err() {
        // Debian packs the module apart.
        install(&["python3-venv"]);
        run_command(&mut create)
            .context("Python's venv module is needed; on Debian: `apt-get install python3-venv`")?;
    }
    run_command(
        Command::new(python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "-r",
            ])
            .arg(requirements),
    )
    .with_context(|| format!("cannot install the packages of {}", requirements.display()))?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(python.display().to_string())
}

/// A Python that the pinned packages run on.
fn system_python() -> Result<String> {
    let check = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))";
    for name in ["python3", "python3.11", "python3.12", "python3.13"] {
        if succeeds(Command::new(name).args(["-c", check])) {
            return Ok(name.to_owned());
        }
    }
    bail!(
        "the tests need Python 3.11 to 3.13 as `python3`; on Debian: `apt-get install python3 python3-venv`"
    )
}

/// The Python package that carries RocksDB, pinned: Flink's own build of it for Linux on x86-64.
/// Of the builds that package registries have it answers quickest (Debian's 7.8 and the 9.8 that
/// comes with Spark take 10 to 25% more CPU time for the same lookups), and it exports the C API.
const ROCKSDB_PACKAGE: &str = "apache-flink-libraries==2.3.0 \
--hash=sha256:38ece876553286b3a285cf344c2d2038f8a7ca10da5df54d5107250386d64151\n";

/// Takes the library out of the jar in the package, and checks it. Arguments: the directory of
/// the package, the file to write.
const ROCKSDB_UNPACK: &str = r#"
import hashlib, pathlib, sys, zipfile
directory, target = map(pathlib.Path, sys.argv[1:])
[wheel] = directory.glob("apache_flink_libraries-*.whl")
with zipfile.ZipFile(wheel) as package, package.open("pyflink/lib/flink-dist-2.3.0.jar") as jar:
    library = zipfile.ZipFile(jar).read("librocksdbjni-linux64.so")
found = hashlib.sha256(library).hexdigest()
if found != "a042b1d888000a77298eac21cf18da9fa06d8043a59b0c69129d566c9e270bff":
    sys.exit(f"the RocksDB library in {wheel.name} is another one than expected: {found}")
partial = target.with_suffix(".partial")
partial.write_bytes(library)
partial.replace(target)
"#;

/// Where RocksDB's shared library is, once it is there.
pub(crate) fn rocksdb_library(workspace: &Workspace) -> PathBuf {
    workspace.target.join("rocksdb/librocksdb-8.10.0-of-flink-2.3.0.so")
}

fn get_rocksdb(workspace: &Workspace) -> Result<PathBuf> {
    let library = rocksdb_library(workspace);
    if library.is_file() {
        return Ok(library);
    }
    let directory = workspace.target.join("rocksdb");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let requirements = directory.join("requirements.txt");
    std::fs::write(&requirements, ROCKSDB_PACKAGE)
        .with_context(|| format!("cannot write {}", requirements.display()))?;
    let python = workspace.oracle_python();
    run_command(
        Command::new(&python)
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args(["--only-binary=:all:", "--require-hashes", "--dest"])
            .arg(&directory)
            .arg("--requirement")
            .arg(&requirements),
    )
    .context("cannot get the package that carries RocksDB")?;
    let unpack = Command::new(&python)
        .args(["-c", ROCKSDB_UNPACK])
        .args([&directory, &library])
        .status()
        .context("cannot run Python")?;
    if !unpack.success() {
        bail!("cannot take RocksDB out of its package");
    }
    // Large, and not needed any more.
    for entry in directory.read_dir()?.flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "whl") {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(library)
}

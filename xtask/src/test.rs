//! `cargo xtask test`.

use crate::command::{output, run as run_command, say};
use crate::languages::Language;
use crate::measure;
use crate::nexmark;
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::{Command, ExitCode};
use tempfile::TempDir;

/// What proptest takes its seed from.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Tests never need more at a time.
const MEMORY_MIB: u64 = 1024;

/// Set up what is missing and run all tests of the workspace
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Every round and seed, instead of those that fit in a coffee break
    #[arg(long)]
    full: bool,
    /// Set up a broker, too, and run the tests against it
    #[arg(long)]
    kafka: bool,
    /// Passed on to `cargo test`, for instance `-p howdah-state` or `-- a_test`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Runs `cargo xtask test`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    setup::prepare(workspace)?;
    if args.cargo.is_empty() {
        for language in Language::ALL {
            language.test(workspace)?;
            language.check_types(workspace)?;
        }
    }
    let mut command = workspace.cargo();
    command.arg("test");
    if !args.cargo.iter().any(|word| word == "-p" || word == "--package") {
        command.arg("--workspace");
    }
    command.env("HOWDAH_ORACLE_PYTHON", workspace.oracle_python());
    command.env("HOWDAH_READERS_PYTHON", workspace.readers_python());
    if args.kafka {
        command.env("HOWDAH_KAFKA_PYTHON", setup::kafka_python(workspace)?);
    } else {
        say("Tests that need a Kafka broker are skipped: `cargo xtask test --kafka` has one.");
    }
    for language in Language::ALL {
        if let Some(directory) = language.build_operators(workspace)? {
            command.env(language.operators_variable(), directory);
        }
    }
    let memory = memory_directory()?;
    if let Some(directory) = &memory {
        command.env("TMPDIR", directory.path());
    }
    if args.full {
        // It takes long: one run should tell of all that fails.
        command.arg("--no-fail-fast");
        let seed = seed();
        let shown = seed.to_string_lossy();
        say(&format!("Random cases are drawn from seed {shown}: {SEED}={shown} repeats them."));
        command.env("HOWDAH_TEST_FULL", "1").env("PROPTEST_CASES", "1024").env(SEED, seed);
    }
    // Last: behind a `--` all words are for the tests.
    command.args(&args.cargo);
    let seconds = measure::seconds(|| {
        run_command(&mut command)?;
        if args.cargo.is_empty() {
            let directory = memory.as_ref().map_or(workspace.target.as_path(), TempDir::path);
            let exact = nexmark::test(workspace, &directory.join("nexmark"), args.full)?;
            ensure!(
                exact,
                "queries of Nexmark differ: `cargo xtask nexmark verify` keeps what does"
            );
        }
        Ok(())
    })?;
    say(&format!("All tests passed in {seconds:.0} s."));
    Ok(ExitCode::SUCCESS)
}

/// The seed that is asked for, or a new one.
fn seed() -> OsString {
    let new = || RandomState::new().hash_one(0_u64).to_string().into();
    std::env::var_os(SEED).unwrap_or_else(new)
}

/// A directory in memory, where there is room: tests make and remove hundreds of thousands of
/// small files. Besides the time for that itself, ext4 without a journal gives no inode away again
/// for a minute, and passes over all of these, one by one, for each new file.
fn memory_directory() -> Result<Option<TempDir>> {
    let memory = Path::new("/dev/shm");
    let mut free = Command::new("df");
    free.args(["--block-size=1M", "--output=avail"]).arg(memory);
    let free_mib: u64 =
        output(&mut free).and_then(|text| text.lines().last()?.trim().parse().ok()).unwrap_or(0);
    if free_mib < MEMORY_MIB {
        return Ok(None);
    }
    let directory = TempDir::with_prefix_in("howdah-test-", memory);
    Ok(Some(directory.context("cannot make a directory in memory")?))
}

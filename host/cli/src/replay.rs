//! `howdah replay`: what another component would have made of the same input.

use crate::differences::{Differences, Output};
use crate::directories::DirectoryArgs;
use crate::environment;
use crate::failure::{Failure, Result};
use crate::operate::find_operator;
use crate::progress::SharedBar;
use crate::run::{engine, failure};
use crate::wasi;
use anyhow::Context;
use howdah_pipeline::{PipelineConfig, Replay, ReplayFrom, ReplayOptions, replay};
use indicatif::HumanCount;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show what another component would make of the same input: run it again, apart from the pipeline
///
/// From a checkpoint or savepoint on, the input is read again twice: with the component that the
/// pipeline has, and with the new one. Each gets a copy of the state and sinks of its own; rows of
/// output and state that differ are shown. The pipeline may be running: its state and its output are
/// not touched. The end of what is read is the end of event time, so windows close. The clock of
/// processing time stands still. There must be room for a copy of the state.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah replay q18.toml --from 41 --component new.wasm
  howdah replay q18.toml --from 41 --to 45 --component new.wasm --limit 20
  howdah replay q9.toml --from backup/monday --operator winners --component new.wasm --output json

Where rows of several sources, or of several subtasks of an operator, meet, they do in an order that is
another one each time: an operator that depends on it differs from itself.

Exit codes: 0 both ran to the end, whether they differ or not; 1 one of them failed, or does not go on
with the state; 2 wrong arguments.")]
pub(crate) struct Args {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// Where to begin: a checkpoint's number, or the directory of a savepoint
    #[arg(long, value_name = "CHECKPOINT|SAVEPOINT_DIR")]
    from: String,
    /// End about where the sources were at this checkpoint; otherwise at the end of the input
    #[arg(long, value_name = "CHECKPOINT")]
    to: Option<u64>,
    /// The new component
    #[arg(long, value_name = "COMPONENT.wasm")]
    component: PathBuf,
    /// The operator that gets it, where there are several
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Show at most so many rows of each output and state; all are counted
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// How to print what differs
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Keep state and output of both runs in this directory, which must not be there yet; otherwise
    /// they are beside the state directory while it runs
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    directories: DirectoryArgs,
    #[command(flatten)]
    wasi: wasi::WasiArgs,
}

/// A directory that is removed at the end, also when Ctrl-C is the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(state_directory: &Path) -> Result<Self> {
        sweep(state_directory);
        let directory = beside(state_directory, std::process::id());
        let removed = directory.clone();
        let end = move || {
            // While threads still make files in it, some may come up behind.
            for _ in 0..REMOVALS {
                if std::fs::remove_dir_all(&removed).is_ok() {
                    break;
                }
            }
            environment::exit_at_once(130);
        };
        ctrlc::set_handler(end).context("cannot listen for Ctrl-C")?;
        Ok(Self(directory))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What cannot be removed is swept by the next replay.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Attempts to remove a directory.
const REMOVALS: usize = 100;

/// Removes what replays have left that were killed.
fn sweep(state_directory: &Path) {
    let Some(parent) = state_directory.parent() else { return };
    let named = beside(state_directory, 0);
    let prefix = named.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(prefix) = prefix.strip_suffix('0') else { return };
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(prefix).and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Runs `howdah replay`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut config =
        PipelineConfig::load(&args.pipeline).map_err(|error| Failure::Usage(error.into()))?;
    args.directories.grant(&mut config);
    let operator = find_operator(&config, args.operator.as_deref())?.name.clone();
    let from = match args.from.parse() {
        Ok(id) => ReplayFrom::Checkpoint(id),
        Err(_) => ReplayFrom::Savepoint(PathBuf::from(&args.from)),
    };
    let directory = match &args.keep {
        Some(directory) if directory.exists() => {
            let shown = directory.display();
            return Err(Failure::usage(format!(
                "{shown} is there already; name another directory"
            )));
        }
        Some(directory) => directory.clone(),
        None => beside(&config.state_directory, std::process::id()),
    };
    let _removed = match args.keep {
        Some(_) => None,
        None => Some(Temporary::new(&config.state_directory)?),
    };
    let (to, component) = (args.to, args.component.clone());
    let options = ReplayOptions { from, to, operator, component, directory };
    let engine = engine(args.wasi.permission())?;
    let bar = SharedBar::new("copying state");
    let replayed = replay(&config, &engine, &options, &|it| bar.set(it));
    bar.finish();
    print(replayed.map_err(failure)?, args)
}

/// On the same file system: both runs link the files of the one copy of the state.
fn beside(state_directory: &Path, process: u32) -> PathBuf {
    let name = state_directory.file_name().unwrap_or_default().to_string_lossy();
    state_directory.with_file_name(format!("{name}.replay-{process}"))
}

fn print(replayed: Replay, args: &Args) -> Result<()> {
    let Replay { checkpoint, rows_read, rows_out: [old, new], differences } = replayed;
    if args.output == Output::Text {
        writeln!(
            std::io::stdout(),
            "from checkpoint {checkpoint}: {} rows read; {} rows out with the old component, {} with \
             the new one",
            HumanCount(rows_read),
            HumanCount(old),
            HumanCount(new)
        )?;
    }
    let mut printed = Differences::new(args.limit, args.output);
    for (what, rows) in differences {
        printed.begin(&what);
        for rows in rows {
            printed.rows(&rows.map_err(anyhow::Error::from)?)?;
        }
    }
    printed.counts()?;
    if args.output == Output::Text && printed.total() == 0 {
        writeln!(std::io::stdout(), "no difference")?;
    }
    Ok(())
}

//! `howdah checkpoint`: the checkpoints of a pipeline.

mod list;

use crate::failure::{Failure, Result};
use crate::operate::{Output, savepoint_text};
use crate::progress::SharedBar;
use crate::run::failure;
use anyhow::{Context, anyhow};
use howdah_pipeline::{
    Checkpoint, Checkpoints, ControlClient, ControlRequest, Pipeline, PipelineConfig,
    verify_savepoint,
};
use howdah_state::{At, StateReader};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// How long the state of a checkpoint that is verified is kept, at most.
const LEASE_MS: u64 = 3_600_000;

/// List, make, verify, pin and remove the checkpoints of a pipeline, also while it runs
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  howdah checkpoint ls q18.toml
  howdah checkpoint now q18.toml           have a running pipeline make one
  howdah checkpoint pin q18.toml 41        keep it, however many are retained
  howdah checkpoint verify q18.toml        read every file of all of them
  howdah checkpoint verify backup/monday   the same of a savepoint"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the completed checkpoints, with the source position of each
    Ls(list::Args),
    /// Have a running pipeline make a checkpoint, and wait until it is complete
    Now(Of),
    /// Read every file of checkpoints, or of a savepoint, and compare checksums
    Verify {
        /// The pipeline file, or the directory of a savepoint
        #[arg(value_name = "PIPELINE.toml|SAVEPOINT_DIR")]
        place: PathBuf,
        /// These alone
        #[arg(value_name = "ID")]
        checkpoints: Vec<u64>,
        /// How to print what was found
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Keep a checkpoint until it is unpinned, however many are retained
    Pin(One),
    /// Let go of a pinned checkpoint
    Unpin(One),
    /// Remove checkpoints of a pipeline that does not run; the newest stays
    Rm {
        /// The pipeline file
        #[arg(value_name = "PIPELINE.toml")]
        pipeline: PathBuf,
        /// Their numbers
        #[arg(value_name = "ID", required = true)]
        checkpoints: Vec<u64>,
    },
}

#[derive(Debug, clap::Args)]
struct Of {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// The number of the checkpoint
    #[arg(value_name = "ID")]
    checkpoint: u64,
}

/// Runs `howdah checkpoint`.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Ls(args) => list::run(args),
        Command::Now(of) => now(of),
        Command::Verify { place, output, .. } if place.is_dir() => verify_directory(place, *output),
        Command::Verify { place, checkpoints, output } => verify(place, checkpoints, *output),
        Command::Pin(one) => {
            let config = load(&one.pipeline)?;
            Checkpoints::pin(&config.state_directory, one.checkpoint).map_err(failure)?;
            say(&format!("checkpoint {} of `{}` is pinned", one.checkpoint, config.name))
        }
        Command::Unpin(one) => {
            let config = load(&one.pipeline)?;
            let id = one.checkpoint;
            if !Checkpoints::unpin(&config.state_directory, id).map_err(failure)? {
                return Err(Failure::Nothing(format!("checkpoint {id} is not pinned")));
            }
            say(&format!("checkpoint {id} of `{}` is not pinned any more", config.name))
        }
        Command::Rm { pipeline, checkpoints } => {
            let config = load(pipeline)?;
            Pipeline::remove_checkpoints(&config, checkpoints).map_err(failure)?;
            say(&format!("{} checkpoints of `{}` are removed", checkpoints.len(), config.name))
        }
    }
}

fn load(file: &Path) -> Result<PipelineConfig> {
    PipelineConfig::load_alone(file).map_err(|error| Failure::Usage(error.into()))
}

fn say(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

fn now(of: &Of) -> Result<()> {
    let config = load(&of.pipeline)?;
    let Some(client) = ControlClient::connect(&config.state_directory).map_err(failure)? else {
        return Err(Failure::Nothing(format!("pipeline `{}` does not run", config.name)));
    };
    let done: Value = client.order(ControlRequest::Checkpoint).map_err(failure)?;
    match done.get("checkpoint") {
        Some(id) if of.output == Output::Text => say(&format!("checkpoint {id} is complete")),
        _ => say(&done.to_string()),
    }
}

fn verify_directory(place: &Path, output: Output) -> Result<()> {
    let bar = SharedBar::new("verifying");
    let verified = verify_savepoint(place, &|it| bar.set(it));
    bar.finish();
    let verified = verified.map_err(failure)?;
    if output == Output::Json {
        let line = serde_json::to_string(&verified).context("cannot write JSON")?;
        return say(&line);
    }
    say(&format!("{}every file is as it was written", savepoint_text(&verified)))
}

/// Goes through all of them, then fails if one is damaged.
fn verify(file: &Path, wanted: &[u64], output: Output) -> Result<()> {
    let config = load(file)?;
    let entries = Checkpoints::list(&config.state_directory).map_err(failure)?;
    for id in wanted {
        if !entries.iter().any(|entry| entry.id == *id) {
            Checkpoints::find(&config.state_directory, *id).map_err(failure)?;
        }
    }
    let chosen = entries.iter().filter(|entry| wanted.is_empty() || wanted.contains(&entry.id));
    let (mut damaged, mut total) = (0_usize, 0_usize);
    for entry in chosen {
        let verified = match &entry.checkpoint {
            Ok(checkpoint) => verify_tables(&config, checkpoint),
            Err(error) => Err(anyhow!("{error}")),
        };
        // The pipeline may have let go of it since.
        if verified.is_err() && !entry.path.exists() {
            continue;
        }
        total += 1;
        damaged += usize::from(verified.is_err());
        let id = entry.id;
        match (verified, output) {
            (Ok(found), Output::Json) => {
                say(&json!({ "checkpoint": id, "tables": found }).to_string())?;
            }
            (Err(error), Output::Json) => {
                say(&json!({ "checkpoint": id, "damage": format!("{error:#}") }).to_string())?;
            }
            (Ok(found), Output::Text) => {
                let sum = |of: &str| found.iter().filter_map(|it| it.get(of)?.as_u64()).sum();
                let (files, bytes) = (HumanCount(sum("files")), HumanBytes(sum("bytes")));
                say(&format!("checkpoint {id}: whole, {files} files, {bytes}"))?;
            }
            (Err(error), Output::Text) => say(&format!("checkpoint {id}: {error:#}"))?,
        }
    }
    if damaged > 0 {
        return Err(Failure::Failed(anyhow!("{damaged} of {total} checkpoints are damaged")));
    }
    Ok(())
}

fn verify_tables(config: &PipelineConfig, checkpoint: &Checkpoint) -> anyhow::Result<Vec<Value>> {
    let verify = |state: &howdah_pipeline::StatePosition| {
        let reader = StateReader::open(&config.warehouse(), &config.tenant, &state.table)?;
        let at = At::Snapshot(state.snapshot);
        let _lease = reader.hold(&at, LEASE_MS)?;
        let verified = reader.verify(&at)?;
        let mut found = serde_json::to_value(verified)?;
        if let Some(members) = found.as_object_mut() {
            members.insert("table".to_owned(), json!(state.table));
        }
        Ok(found)
    };
    checkpoint.states().map(verify).collect()
}

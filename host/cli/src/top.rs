//! `howdah top`: a running pipeline, watched.

mod frame;

use crate::environment;
use crate::failure::{Failure, Result};
use crate::run::failure;
use anyhow::Context;
use console::Term;
use crossbeam_channel::{Receiver, bounded};
use frame::{Status, frame};
use howdah_pipeline::{ControlClient, ControlRequest, PipelineConfig};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Watch a running pipeline: rows, lag, subtasks, checkpoints, state
///
/// Subtasks come with the busiest first: the one that holds the pipeline up is busy, those before it
/// are blocked, and those behind it idle. Ctrl-C ends it, twice if the pipeline does not answer; the pipeline goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah top q18.toml
  howdah top q18.toml --once        one frame, with the averages since it was started")]
pub(crate) struct Args {
    /// The pipeline file
    #[arg(value_name = "PIPELINE.toml")]
    pipeline: PathBuf,
    /// Print one frame and end
    #[arg(long)]
    once: bool,
    /// Milliseconds between two frames
    #[arg(long, value_name = "MS", default_value = "1000",
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval_ms: u64,
}

/// Runs `howdah top`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let config =
        PipelineConfig::load_alone(&args.pipeline).map_err(|error| Failure::Usage(error.into()))?;
    if args.once {
        let Some(status) = status(&config)? else {
            return Err(Failure::Nothing(format!("pipeline `{}` does not run", config.name)));
        };
        return Ok(write!(std::io::stdout(), "{}", frame(&status, None))?);
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage("standard output is no terminal; say --once for one frame"));
    }
    let (interrupt, interrupted) = bounded(1);
    let ask = move || {
        if interrupt.try_send(()).is_err() {
            // It was asked before, and waits for an answer of the pipeline.
            Screen::close();
            environment::exit_at_once(130);
        }
    };
    ctrlc::set_handler(ask).context("cannot listen for Ctrl-C")?;
    let screen = Screen::open()?;
    screen.watch(&config, Duration::from_millis(args.interval_ms), &interrupted)
}

/// How the pipeline is; `None`: it does not run.
fn status(config: &PipelineConfig) -> Result<Option<Status>> {
    let client = ControlClient::connect(&config.state_directory).map_err(failure)?;
    let Some(client) = client else { return Ok(None) };
    Ok(Some(client.order(ControlRequest::Status).map_err(failure)?))
}

/// The terminal, which is as it was when this is dropped.
struct Screen(Term);

impl Screen {
    fn open() -> Result<Self> {
        let screen = Self(Term::stdout());
        // The other screen of the terminal, so that what is on this one stays.
        screen.0.write_str("\x1b[?1049h")?;
        screen.0.hide_cursor()?;
        Ok(screen)
    }

    /// Gives back the terminal as it was.
    fn close() {
        let terminal = Term::stdout();
        // One that is gone needs nothing.
        let _ = terminal.show_cursor();
        let _ = terminal.write_str("\x1b[?1049l");
    }

    /// Draws a frame now and then, until it is interrupted.
    fn watch(
        &self,
        config: &PipelineConfig,
        interval: Duration,
        interrupted: &Receiver<()>,
    ) -> Result<()> {
        let mut before: Option<Status> = None;
        loop {
            let started = environment::now();
            // A pipeline that starts again, or is busy for a moment, is worth waiting for.
            let now = status(config);
            let text = match &now {
                Ok(Some(status)) => frame(status, before.as_ref()),
                Ok(None) => format!("{}: does not run\n", config.name),
                Err(error) => format!("{}: {}\n", config.name, error.message()),
            };
            self.draw(&text)?;
            before = now.ok().flatten();
            let taken = environment::now().duration_since(started);
            if interrupted.recv_timeout(interval.saturating_sub(taken)).is_ok() {
                return Ok(());
            }
        }
    }

    /// As much of a frame as there is room for.
    fn draw(&self, text: &str) -> Result<()> {
        let (rows, columns) = self.0.size();
        let mut drawn = "\x1b[H".to_owned();
        for line in text.lines().take(usize::from(rows).saturating_sub(1)) {
            drawn.extend(line.chars().take(usize::from(columns)));
            drawn.push_str("\x1b[K\n");
        }
        drawn.push_str("\x1b[J");
        self.0.write_str(&drawn).context("cannot draw")?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        Self::close();
    }
}

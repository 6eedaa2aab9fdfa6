//! Writes what the operator emits: to files that appear when their checkpoint is complete.
//!
//! Each subtask has an open file in a staging directory. At its barrier the file is closed, and
//! made durable; the names go into the checkpoint document. Once the document is written, the
//! files are committed: renamed into the output directory, or printed.

mod encoder;
mod output;
mod staged;

use crate::checkpoint::SinkFile;
use crate::config::Format;
use crate::coordinator::Report;
use crate::error::Result;
use crate::failure::Failure;
use crossbeam_channel::{Receiver, Sender};
pub(crate) use encoder::OP_COLUMN;
use howdah_runtime::{Output, OutputSpec};
pub(crate) use output::{Committer, STDOUT_STAGING};
use staged::StagedFile;
use std::path::PathBuf;

/// What travels to the sink.
#[derive(Debug)]
pub(crate) enum SinkMessage {
    /// Rows that a subtask emitted.
    Rows {
        /// Which one.
        subtask: u32,
        /// Its rows.
        outputs: Vec<Output>,
    },
    /// What the subtask sent before belongs to the checkpoint.
    Barrier {
        /// Which one.
        subtask: u32,
        /// Which checkpoint.
        checkpoint: u64,
    },
}

/// How files are written.
#[derive(Debug, Clone)]
pub(crate) struct Staging {
    /// Where they are until they are committed; `None`: nothing is written.
    pub(crate) directory: Option<PathBuf>,
    /// Their format.
    pub(crate) format: Format,
    /// Whether a CSV file begins with a header: not when its rows are printed after others.
    pub(crate) header: bool,
    /// Whether a file is durable before the checkpoint counts.
    pub(crate) sync: bool,
    /// The checkpoint that the run went on from, 0 for none: with it no staged file has the
    /// name of one that a checkpoint of an earlier run may still have to commit.
    pub(crate) base: u64,
}

/// The thread that writes.
pub(crate) struct Sink {
    /// Which sink it is.
    number: usize,
    staging: Staging,
    output: Option<OutputSpec>,
    /// For each subtask its open file.
    files: Vec<Option<StagedFile>>,
    /// Numbers staged files.
    next_file: u64,
}

impl Sink {
    /// A sink for an output, of so many producers; `None`: there is none.
    pub(crate) fn new(
        number: usize,
        staging: Staging,
        output: Option<OutputSpec>,
        producers: usize,
    ) -> Self {
        let files = (0..producers).map(|_| None).collect();
        Self { number, staging, output, files, next_file: 1 }
    }

    /// Writes until all subtasks have ended.
    pub(crate) fn run(
        mut self,
        messages: &Receiver<SinkMessage>,
        reports: &Sender<Report>,
        failure: &Failure,
    ) -> Result<()> {
        for message in messages {
            if failure.is_raised() {
                break;
            }
            match message {
                SinkMessage::Rows { subtask, outputs } => {
                    for output in &outputs {
                        self.write(subtask, output)?;
                    }
                }
                SinkMessage::Barrier { subtask, checkpoint } => {
                    let file = self.seal(subtask, checkpoint)?;
                    if reports.send(Report::Staged { checkpoint, sink: self.number, file }).is_err()
                    {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, subtask: u32, rows: &Output) -> Result<()> {
        let (Some(directory), Some(output)) = (&self.staging.directory, &self.output) else {
            return Ok(());
        };
        let index = usize::try_from(subtask).unwrap_or(usize::MAX);
        let Some(file) = self.files.get_mut(index).filter(|_| rows.batch.num_rows() > 0) else {
            return Ok(());
        };
        let file = match file {
            Some(file) => file,
            None => {
                let (base, number) = (self.staging.base, self.next_file);
                let name = format!("{base}-{number}-{subtask}.{}", self.staging.format.name());
                self.next_file += 1;
                file.insert(StagedFile::create(directory, name, &self.staging, output)?)
            }
        };
        file.write(rows)
    }

    fn seal(&mut self, subtask: u32, checkpoint: u64) -> Result<Option<SinkFile>> {
        let index = usize::try_from(subtask).unwrap_or(usize::MAX);
        let Some(file) = self.files.get_mut(index).and_then(Option::take) else { return Ok(None) };
        let name = format!("part-{checkpoint}-{subtask}.{}", self.staging.format.name());
        file.seal(name).map(Some)
    }
}

#[cfg(test)]
mod tests;

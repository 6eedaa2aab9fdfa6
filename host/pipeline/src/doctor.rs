//! Looks a state directory over, while its pipeline may be running. Reads only.

mod owner;
mod tables;

use crate::checkpoint::{self, Checkpoint, Checkpoints};
use crate::control::ControlClient;
use crate::directory;
use crate::error::Result;
use crate::pipeline::{LOCK, WAREHOUSE};
use crate::restore::FRESH_START;
use rustix::fs::Access;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; nothing has to be done.
    Note,
    /// Something is broken, or will not run.
    Problem,
}

/// Something that was noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a file, a directory, a table, a checkpoint.
    pub subject: String,
    /// What was noticed.
    pub message: String,
    /// What to do.
    pub advice: String,
}

impl Finding {
    /// Something is broken.
    pub fn problem(
        subject: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Problem, subject, message, advice)
    }

    /// Good to know.
    pub fn note(
        subject: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Note, subject, message, advice)
    }

    fn new(
        severity: Severity,
        subject: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (subject, message, advice) = (subject.into(), message.into(), advice.into());
        Self { severity, subject, message, advice }
    }
}

/// What was looked at, and what was noticed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Examination {
    /// Who runs the pipeline; `None`: nobody.
    pub running: Option<String>,
    /// Completed checkpoints.
    pub checkpoints: u64,
    /// State tables.
    pub tables: u64,
    /// Live rows of their newest versions, each of which was read.
    pub rows: u64,
    /// Data files of all versions that were verified, each as often as it is in one.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// What was noticed.
    pub findings: Vec<Finding>,
}

/// Looks over directories, lock, checkpoint documents, pins, and every file of every table: as of each
/// checkpoint and as of now. `look` hears what is looked at. Takes no lock, no lease, and changes
/// nothing.
pub fn examine(state_directory: &Path, look: &mut dyn FnMut(&str)) -> Examination {
    let mut examination = Examination::default();
    look("directories");
    examination.running = running(state_directory);
    if !examination.directories(state_directory) {
        return examination;
    }
    examination.fresh_start(state_directory);
    let checkpoints = examination.documents(state_directory);
    examination.pins(state_directory);
    tables::examine(&mut examination, state_directory, &checkpoints, look);
    examination
}

/// Who runs the pipeline. One in another container is not among the locks, but answers.
fn running(state_directory: &Path) -> Option<String> {
    let answers = || match ControlClient::connect(state_directory) {
        Ok(Some(_)) => Some("a process that takes orders".to_owned()),
        Ok(None) | Err(_) => None,
    };
    owner::of_lock(&state_directory.join(LOCK)).or_else(answers)
}

impl Examination {
    /// Whether one of the findings is a problem.
    pub fn has_problems(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Problem)
    }

    /// Adds a failure as a problem; hands over what came well.
    fn take<T>(&mut self, subject: &str, advice: &str, result: Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                self.findings.push(Finding::problem(subject, error.to_string(), advice));
            })
            .ok()
    }

    /// Whether there is something to look at.
    fn directories(&mut self, state_directory: &Path) -> bool {
        let shown = state_directory.display().to_string();
        if !state_directory.is_dir() {
            let advice = "run the pipeline, or name the state-directory of one that ran";
            self.findings.push(Finding::note(shown, "there is no such directory", advice));
            return false;
        }
        let within = [checkpoint::DIRECTORY, WAREHOUSE].map(|name| state_directory.join(name));
        let there = within.iter().filter(|path| path.exists());
        let mut readable = true;
        for path in std::iter::once(state_directory).chain(there.map(PathBuf::as_path)) {
            for (access, what) in [
                (Access::READ_OK | Access::EXEC_OK, "cannot be read"),
                (Access::WRITE_OK, "cannot be written to"),
            ] {
                if let Err(error) = rustix::fs::access(path, access) {
                    readable &= access == Access::WRITE_OK;
                    let advice = "give the user that runs howdah the right to read and write it";
                    let (subject, message) =
                        (path.display().to_string(), format!("{what}: {error}"));
                    // Whoever runs the pipeline can; whoever looks need not.
                    let is_problem = access != Access::WRITE_OK || self.running.is_none();
                    self.findings.push(match is_problem {
                        true => Finding::problem(subject, message, advice),
                        false => Finding::note(subject, message, advice),
                    });
                }
            }
        }
        readable
    }

    fn fresh_start(&mut self, state_directory: &Path) {
        let path = state_directory.join(FRESH_START);
        let Ok(how) = std::fs::read_to_string(&path) else { return };
        let subject = path.display().to_string();
        if self.running.is_some() {
            let message = "a start is under way";
            self.findings.push(Finding::note(subject, message, "look again when it is done"));
            return;
        }
        self.findings.push(match how.is_empty() {
            true => {
                let message = "a fresh start was broken off";
                Finding::note(subject, message, "run the pipeline: it goes on with it")
            }
            false => Finding::problem(subject, how, "do so, or run with --fresh"),
        });
    }

    /// The checkpoints that are whole, oldest first.
    fn documents(&mut self, state_directory: &Path) -> Vec<Checkpoint> {
        let directory = state_directory.join(checkpoint::DIRECTORY);
        let shown = directory.display().to_string();
        let listed = Checkpoints::list(state_directory);
        let entries = self.take(&shown, "mend the directory", listed).unwrap_or_default();
        let mut whole = Vec::new();
        for entry in entries {
            match entry.checkpoint {
                Ok(checkpoint) => whole.push(checkpoint),
                // The pipeline may have let go of it since.
                Err(_) if !entry.path.exists() => {}
                Err(error) => {
                    let advice = match whole.last() {
                        Some(Checkpoint { id, .. }) => {
                            format!("if it is the newest, run with --checkpoint {id}")
                        }
                        None => "if it is the newest, run with --fresh".to_owned(),
                    };
                    let subject = entry.path.display().to_string();
                    self.findings.push(Finding::problem(subject, error.to_string(), advice));
                }
            }
        }
        if whole.is_empty() && self.running.is_none() {
            let message = "no checkpoint is complete";
            let advice = "run the pipeline: it begins at the beginning of its input";
            self.findings.push(Finding::note(shown, message, advice));
        }
        self.checkpoints = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        whole
    }

    fn pins(&mut self, state_directory: &Path) {
        let directory = state_directory.join(checkpoint::DIRECTORY);
        let pinned = Checkpoints::pinned(state_directory);
        let shown = directory.display().to_string();
        let Some(pinned) = self.take(&shown, "mend the directory", pinned) else { return };
        let names = directory::names(&directory).unwrap_or_default();
        for id in pinned {
            if !names.contains(&checkpoint::document(id)) {
                let subject = format!("checkpoint {id}");
                let advice = format!("let go of it with `howdah checkpoint unpin … {id}`");
                self.findings.push(Finding::problem(
                    subject,
                    "it is pinned, and there is no such checkpoint",
                    advice,
                ));
            }
        }
    }
}

//! Makes the files of completed checkpoints visible, and takes back what no checkpoint knows.

use crate::checkpoint::SinkFile;
use crate::config::{PipelineConfig, SinkType};
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::Lock;
use crate::sink::encoder;
use howdah_runtime::OutputSpec;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Marks a directory as the output of a pipeline.
const MARKER: &str = ".howdah-sink";
/// Holds the lock of the running pipeline.
const LOCK: &str = ".howdah-lock";
/// Where files are until their checkpoint is complete.
const STAGING: &str = ".staging";

/// What the marker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Marker {
    pipeline: String,
}

/// The output of a pipeline: a directory of its own, or standard output.
#[derive(Debug)]
pub(crate) struct Committer {
    target: Target,
    sync: bool,
}

#[derive(Debug)]
enum Target {
    Files {
        directory: PathBuf,
        _lock: Lock,
    },
    Stdout {
        staging: PathBuf,
        /// Printed before the first rows.
        header: Vec<u8>,
    },
    Null,
}

impl Committer {
    /// Takes possession of the output directory. Refuses one that is in use, another
    /// pipeline's, or has something in it that is not ours.
    pub(crate) fn claim(config: &PipelineConfig, output: Option<&OutputSpec>) -> Result<Self> {
        let target = match (config.sink.sink_type, &config.sink.path) {
            (SinkType::Null, _) => Target::Null,
            (SinkType::Files, Some(path)) => {
                let lock = claim(&path.value, &config.name)?;
                Target::Files { directory: path.value.clone(), _lock: lock }
            }
            (SinkType::Stdout | SinkType::Files, _) => {
                let staging = config.state_directory.join("stdout");
                directory::create(&staging)?;
                let header = output.map(|output| encoder::header(config.sink.format, output));
                Target::Stdout { staging, header: header.transpose()?.unwrap_or_default() }
            }
        };
        Ok(Self { target, sync: config.checkpoint.sync })
    }

    /// Where files are written; `None`: nowhere.
    pub(crate) fn staging(&self) -> Option<PathBuf> {
        match &self.target {
            Target::Files { directory, .. } => Some(directory.join(STAGING)),
            Target::Stdout { staging, .. } => Some(staging.clone()),
            Target::Null => None,
        }
    }

    /// Whether it has output of checkpoints.
    pub(crate) fn has_parts(&self) -> Result<bool> {
        let Target::Files { directory, .. } = &self.target else { return Ok(false) };
        let names = directory::names(directory)?;
        Ok(names.iter().any(|name| checkpoint_of(name).is_some()))
    }

    /// Brings the output to a checkpoint: commits its files, which may be done, and removes
    /// all that came later. `None`: removes everything.
    pub(crate) fn recover(&mut self, checkpoint: Option<(u64, &[SinkFile])>) -> Result<()> {
        if let Some((_, files)) = checkpoint {
            self.commit(files)?;
        }
        if let Some(staging) = self.staging() {
            remove_all(&staging, |_| true)?;
        }
        if let Target::Files { directory, .. } = &self.target {
            let last = checkpoint.map_or(0, |(id, _)| id);
            remove_all(directory, |name| checkpoint_of(name).is_some_and(|id| id > last))?;
            self.sync(directory)?;
        }
        Ok(())
    }

    /// The files of a checkpoint are about to be named in its document: their names must last.
    pub(crate) fn seal(&self, files: &[SinkFile]) -> Result<()> {
        match self.staging().filter(|_| !files.is_empty()) {
            Some(staging) => self.sync(&staging),
            None => Ok(()),
        }
    }

    /// The checkpoint is complete: makes its files visible. Doing it again changes nothing,
    /// but that standard output gets rows twice if it failed half-way.
    pub(crate) fn commit(&mut self, files: &[SinkFile]) -> Result<()> {
        match &mut self.target {
            Target::Null => Ok(()),
            Target::Files { directory, .. } => {
                for file in files {
                    publish(
                        &directory.join(STAGING).join(&file.staged),
                        &directory.join(&file.name),
                    )?;
                }
                if files.is_empty() || !self.sync { Ok(()) } else { directory::sync(directory) }
            }
            Target::Stdout { staging, header } => files.iter().try_for_each(|file| {
                let path = staging.join(&file.staged);
                print(&path, &std::mem::take(header))?;
                directory::remove(&path)
            }),
        }
    }

    fn sync(&self, directory: &Path) -> Result<()> {
        if self.sync { directory::sync(directory) } else { Ok(()) }
    }
}

/// Renames a staged file, unless that is done. If neither is there, it was committed and then
/// taken away by whoever uses the output.
fn publish(staged: &Path, visible: &Path) -> Result<()> {
    match std::fs::rename(staged, visible) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("write", visible, error)),
        Ok(()) => Ok(()),
    }
}

fn print(path: &Path, header: &[u8]) -> Result<()> {
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", path, error)),
    };
    let mut stdout = std::io::stdout().lock();
    let printed = stdout
        .write_all(header)
        .and_then(|()| std::io::copy(&mut file, &mut stdout))
        .and_then(|_| stdout.flush());
    printed.map_err(|error| Error::io("write", Path::new("standard output"), error))
}

fn claim(path: &Path, pipeline: &str) -> Result<Lock> {
    directory::create(path)?;
    let marker = path.join(MARKER);
    let refuse = |reason: String| {
        Error::new(
            ErrorKind::Incompatible,
            format!(
                "the output directory {} {reason}; name another one, or remove it",
                path.display()
            ),
        )
    };
    match std::fs::read(&marker) {
        Ok(bytes) => {
            let found: Marker = serde_json::from_slice(&bytes)
                .map_err(|_| refuse(format!("has a damaged {MARKER}")))?;
            if found.pipeline != pipeline {
                return Err(refuse(format!("belongs to the pipeline `{}`", found.pipeline)));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let foreign = directory::names(path)?.into_iter().find(|name| name != LOCK);
            if let Some(name) = foreign {
                return Err(refuse(format!("has something else in it: `{name}`")));
            }
            let text = serde_json::to_vec(&Marker { pipeline: pipeline.to_owned() })
                .map_err(|error| Error::internal(error.to_string()))?;
            std::fs::write(&marker, text).map_err(|error| Error::io("write", &marker, error))?;
        }
        Err(error) => return Err(Error::io("read", &marker, error)),
    }
    let lock = Lock::acquire(&path.join(LOCK), path, pipeline)?;
    directory::create(&path.join(STAGING))?;
    Ok(lock)
}

/// Removes the files whose names are wanted gone.
fn remove_all(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    for name in directory::names(directory)? {
        if wanted(&name) {
            directory::remove(&directory.join(name))?;
        }
    }
    Ok(())
}

/// The checkpoint of `part-<checkpoint>-<subtask>.<extension>`.
fn checkpoint_of(name: &str) -> Option<u64> {
    let (numbers, extension) = name.strip_prefix("part-")?.split_once('.')?;
    let (checkpoint, subtask) = numbers.split_once('-')?;
    subtask.parse::<u32>().ok()?;
    ["csv", "ndjson", "parquet"].contains(&extension).then_some(())?;
    checkpoint.parse().ok()
}

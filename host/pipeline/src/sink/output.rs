//! Makes the files of completed checkpoints visible, and takes back what no checkpoint knows.

use crate::checkpoint::SinkFile;
use crate::config::{PipelineConfig, SinkConfig, SinkType};
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
/// The marker while it is written.
const MARKER_TEMPORARY: &str = ".howdah-sink.tmp";
/// Holds the lock of the running pipeline.
const LOCK: &str = ".howdah-lock";
/// Where files are until their checkpoint is complete.
const STAGING: &str = ".staging";
/// The same for standard output, in the state directory.
pub(crate) const STDOUT_STAGING: &str = "stdout";

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
    pub(crate) fn claim(
        config: &PipelineConfig,
        sink: &SinkConfig,
        output: Option<&OutputSpec>,
    ) -> Result<Self> {
        let target = match (sink.sink_type, &sink.path) {
            (SinkType::Null, _) => Target::Null,
            (SinkType::Files, Some(path)) => {
                let lock = claim(&path.value, &config.name, config.checkpoint.sync)?;
                Target::Files { directory: path.value.clone(), _lock: lock }
            }
            (SinkType::Stdout | SinkType::Files, _) => {
                let staging = config.state_directory.join(STDOUT_STAGING);
                directory::create(&staging)?;
                let header = output.map(|output| encoder::header(sink.format, output));
                Target::Stdout { staging, header: header.transpose()?.unwrap_or_default() }
            }
        };
        Ok(Self { target, sync: config.checkpoint.sync })
    }

    /// Output that nobody wants.
    #[cfg(test)]
    pub(crate) fn null() -> Self {
        Self { target: Target::Null, sync: false }
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
        has_parts(directory)
    }

    /// Brings the output to a checkpoint: commits its files, which may be done, and removes
    /// all that came later. `None`: removes everything.
    ///
    /// Files go by their names: no document tells of those that a recovery which was broken
    /// off has left. All files that are named as ours are the pipeline's.
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

impl PipelineConfig {
    /// Whether there are output files of an earlier run, which a fresh start would remove.
    ///
    /// Fails when the output directory cannot be listed.
    pub fn has_output(&self) -> Result<bool> {
        for path in self.sinks.iter().filter_map(|sink| sink.path.as_ref()) {
            if has_parts(&path.value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn has_parts(directory: &Path) -> Result<bool> {
    Ok(directory::names(directory)?.iter().any(|name| checkpoint_of(name).is_some()))
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

fn claim(path: &Path, pipeline: &str, sync: bool) -> Result<Lock> {
    directory::create(path)?;
    // Nothing is put into a directory that is not ours, not even the lock.
    check_owner(path, pipeline)?;
    let lock = Lock::acquire(&path.join(LOCK), path, pipeline)?;
    // Another pipeline may have been faster until there was a lock.
    if !check_owner(path, pipeline)? {
        let text = serde_json::to_vec(&Marker { pipeline: pipeline.to_owned() })
            .map_err(|error| Error::internal(error.to_string()))?;
        directory::write(&path.join(MARKER), &path.join(MARKER_TEMPORARY), &text, sync)?;
    }
    directory::create(&path.join(STAGING))?;
    Ok(lock)
}

/// Whether the directory is marked as the pipeline's own. Refuses another pipeline's, and one
/// without a mark that has something in it.
fn check_owner(path: &Path, pipeline: &str) -> Result<bool> {
    let refuse = |reason: String| {
        let shown = path.display();
        let message =
            format!("the output directory {shown} {reason}; name another one, or remove it");
        Err(Error::new(ErrorKind::Incompatible, message))
    };
    let marker = path.join(MARKER);
    let bytes = match std::fs::read(&marker) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io("read", &marker, error)),
    };
    // What a power failure may leave of a file that was not synced.
    if bytes.is_empty() {
        let ours = [LOCK, MARKER, MARKER_TEMPORARY, STAGING];
        let names = directory::names(path)?;
        return match names.iter().find(|name| !ours.contains(&name.as_str())) {
            Some(name) => refuse(format!("has something else in it: `{name}`")),
            None => Ok(false),
        };
    }
    match serde_json::from_slice::<Marker>(&bytes) {
        Ok(found) if found.pipeline == pipeline => Ok(true),
        Ok(found) => refuse(format!("belongs to the pipeline `{}`", found.pipeline)),
        Err(_) => refuse(format!("has a damaged {MARKER}")),
    }
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
    let (checkpoint, subtask): (u64, u32) = (checkpoint.parse().ok()?, subtask.parse().ok()?);
    ["csv", "ndjson", "parquet"].contains(&extension).then_some(())?;
    // `part-007-0.csv` is none of ours.
    (name == format!("part-{checkpoint}-{subtask}.{extension}")).then_some(checkpoint)
}

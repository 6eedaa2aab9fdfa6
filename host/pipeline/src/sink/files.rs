//! Files in a directory, which appear when their checkpoint is complete.
//!
//! Each subtask has an open file in a staging directory. At its barrier the file is closed, and
//! made durable; the names go into the checkpoint document. Once the document is written, the
//! files are renamed into the output directory.

use super::staged::{StagedFile, StagedWriter, Staging};
use super::{Opening, Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::Lock;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const CONNECTOR: &str = "files";
/// Marks a directory as the output of a pipeline.
const MARKER: &str = ".howdah-sink";
/// The marker while it is written.
const MARKER_TEMPORARY: &str = ".howdah-sink.tmp";
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

/// The sink: a directory of its own.
#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
    staging: Staging,
    _lock: Lock,
}

impl Files {
    /// Takes possession of the output directory. Refuses one that is in use, another
    /// pipeline's, or has something in it that is not ours.
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let path = opening.config.path.as_ref();
        let path = path.ok_or_else(|| Error::internal("a files sink without a directory"))?;
        let lock = claim(&path.value, opening.pipeline, opening.sync)?;
        let staging = Staging {
            directory: path.value.join(STAGING),
            format: opening.config.format,
            header: true,
            sync: opening.sync,
            output: opening.output.cloned(),
        };
        Ok(Self { directory: path.value.clone(), staging, _lock: lock })
    }
}

impl Sink for Files {
    fn connector(&self) -> &'static str {
        CONNECTOR
    }

    fn has_output(&self) -> Result<bool> {
        has_parts(&self.directory)
    }

    /// Files go by their names: no document tells of those that a recovery which was broken
    /// off has left. All files that are named as ours are the pipeline's.
    fn recover(&mut self, checkpoint: Option<(u64, &[SinkHandle])>) -> Result<()> {
        if let Some((id, handles)) = checkpoint {
            self.commit(id, handles)?;
        }
        self.staging.clear()?;
        let last = checkpoint.map_or(0, |(id, _)| id);
        for name in directory::names(&self.directory)? {
            if checkpoint_of(&name).is_some_and(|id| id > last) {
                directory::remove(&self.directory.join(name))?;
            }
        }
        if self.staging.sync { directory::sync(&self.directory) } else { Ok(()) }
    }

    fn writer(&self, subtask: u32, base: u64) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(StagedWriter::new(self.staging.clone(), subtask, base)))
    }

    fn seal(&mut self, handles: &[SinkHandle]) -> Result<()> {
        self.staging.seal(handles)
    }

    fn commit(&mut self, _: u64, handles: &[SinkHandle]) -> Result<()> {
        for file in StagedFile::of(CONNECTOR, handles)? {
            publish(&self.staging.directory.join(&file.staged), &self.directory.join(&file.name))?;
        }
        if handles.is_empty() || !self.staging.sync {
            return Ok(());
        }
        directory::sync(&self.directory)
    }
}

/// Whether a directory has output of checkpoints.
pub(super) fn has_parts(directory: &Path) -> Result<bool> {
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

/// The checkpoint of `part-<checkpoint>-<subtask>.<extension>`.
fn checkpoint_of(name: &str) -> Option<u64> {
    let (numbers, extension) = name.strip_prefix("part-")?.split_once('.')?;
    let (checkpoint, subtask) = numbers.split_once('-')?;
    let (checkpoint, subtask): (u64, u32) = (checkpoint.parse().ok()?, subtask.parse().ok()?);
    ["csv", "ndjson", "parquet"].contains(&extension).then_some(())?;
    // `part-007-0.csv` is none of ours.
    (name == format!("part-{checkpoint}-{subtask}.{extension}")).then_some(checkpoint)
}

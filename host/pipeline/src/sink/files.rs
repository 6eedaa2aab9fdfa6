//! Files in a directory, which appear when their checkpoint is complete.
//!
//! Each subtask has an open file in a staging directory. At its barrier the file is closed, and
//! made durable; the names go into the checkpoint document. Once the document is written, the
//! files are renamed into the output directory.

use super::staged::{StagedFile, StagedWriter, Staging};
use super::{Opening, Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::error::{Error, ErrorKind, Result};
use crate::grants::Directories;
use crate::lock::Lock;
use crate::place::{Directory, Open};
use serde::{Deserialize, Serialize};
use std::path::Path;

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
    directory: Directory,
    staging: Staging,
    _lock: Lock,
}

impl Files {
    /// Takes possession of the output directory. Refuses one that is in use, another
    /// pipeline's, or has something in it that is not ours.
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let path = opening.config.path.as_ref();
        let path = path.ok_or_else(|| Error::internal("a files sink without a directory"))?;
        let directory = opening.directories.place(&path.value)?.create_directory()?;
        let lock = claim(&directory, opening.pipeline, opening.sync)?;
        let staging = Staging {
            directory: directory.subdirectory(STAGING)?,
            format: opening.config.format,
            header: true,
            sync: opening.sync,
            output: opening.output.cloned(),
            check: None,
        };
        Ok(Self { directory, staging, _lock: lock })
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
        for name in self.directory.names()? {
            if checkpoint_of(&name).is_some_and(|id| id > last) {
                self.directory.remove(&name)?;
            }
        }
        if self.staging.sync { self.directory.sync() } else { Ok(()) }
    }

    fn writer(&self, subtask: u32, base: u64) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(StagedWriter::new(self.staging.clone(), subtask, base)))
    }

    fn seal(&mut self, handles: &[SinkHandle]) -> Result<()> {
        self.staging.seal(handles)
    }

    fn commit(&mut self, _: u64, handles: &[SinkHandle]) -> Result<()> {
        for file in StagedFile::of(CONNECTOR, handles)? {
            // If it is not there, it was committed before; whoever uses the output may have taken it
            // away since.
            self.staging.directory.rename(&file.staged, &self.directory, &file.name)?;
        }
        if handles.is_empty() || !self.staging.sync {
            return Ok(());
        }
        self.directory.sync()
    }
}

/// Whether a directory has output of checkpoints.
pub(super) fn has_output(path: &Path, directories: &Directories) -> Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    has_parts(&directories.place(path)?.directory()?)
}

fn has_parts(directory: &Directory) -> Result<bool> {
    Ok(directory.names()?.iter().any(|name| checkpoint_of(name).is_some()))
}

fn claim(directory: &Directory, pipeline: &str, sync: bool) -> Result<Lock> {
    // Nothing is put into a directory that is not ours, not even the lock.
    check_owner(directory, pipeline)?;
    let file = directory.file(LOCK);
    let opened = file.open_to(Open::ReadWrite);
    let opened = opened.map_err(|error| Error::io("lock", file.shown(), error))?;
    let lock = Lock::hold(opened, file.shown(), directory.shown(), pipeline)?;
    // Another pipeline may have been faster until there was a lock.
    if !check_owner(directory, pipeline)? {
        let text = serde_json::to_vec(&Marker { pipeline: pipeline.to_owned() })
            .map_err(|error| Error::internal(error.to_string()))?;
        directory.write(MARKER, MARKER_TEMPORARY, &text, sync)?;
    }
    Ok(lock)
}

/// Whether the directory is marked as the pipeline's own. Refuses another pipeline's, and one
/// without a mark that has something in it.
fn check_owner(directory: &Directory, pipeline: &str) -> Result<bool> {
    let refuse = |reason: String| {
        let shown = directory.shown().display();
        let message =
            format!("the output directory {shown} {reason}; name another one, or remove it");
        Err(Error::new(ErrorKind::Incompatible, message))
    };
    let bytes = directory.read(MARKER)?.unwrap_or_default();
    // What a power failure may leave of a file that was not synced.
    if bytes.is_empty() {
        let ours = [LOCK, MARKER, MARKER_TEMPORARY, STAGING];
        let names = directory.names()?;
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

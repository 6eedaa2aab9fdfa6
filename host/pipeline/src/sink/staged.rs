//! Files that are written before their checkpoint is complete.

use super::SinkWriter;
use super::encoder::Encoder;
use crate::checkpoint::SinkHandle;
use crate::config::Format;
use crate::error::{Error, Result};
use crate::place::Directory;
use howdah_runtime::{Output, OutputSpec};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// How files are staged.
#[derive(Debug, Clone)]
pub(super) struct Staging {
    /// Where they are until they are committed.
    pub(super) directory: Directory,
    /// Their format.
    pub(super) format: Format,
    /// Whether a CSV file begins with a header: not when its rows are printed after others.
    pub(super) header: bool,
    /// Whether a file is durable before the checkpoint counts.
    pub(super) sync: bool,
    /// What the operator emits; `None`: nothing.
    pub(super) output: Option<OutputSpec>,
    /// What each row of text must pass; `None`: nothing.
    pub(super) check: Option<RowCheck>,
}

/// Refuses rows that could not be made visible.
#[derive(Clone)]
pub(super) struct RowCheck(Arc<CheckRow>);

type CheckRow = dyn Fn(&[u8]) -> Result<()> + Send + Sync;

impl RowCheck {
    #[cfg(feature = "kafka")]
    pub(super) fn new(check: impl Fn(&[u8]) -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }
}

impl fmt::Debug for RowCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCheck").finish_non_exhaustive()
    }
}

impl Staging {
    /// Removes all files.
    pub(super) fn clear(&self) -> Result<()> {
        for name in self.directory.names()? {
            self.directory.remove(&name)?;
        }
        Ok(())
    }

    /// Makes the names of files durable.
    pub(super) fn seal(&self, handles: &[SinkHandle]) -> Result<()> {
        if handles.is_empty() || !self.sync { Ok(()) } else { self.directory.sync() }
    }
}

/// A file that is closed, as a handle.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StagedFile {
    /// Its name in the staging directory.
    pub(super) staged: String,
    /// Its name once it is committed.
    pub(super) name: String,
}

impl StagedFile {
    /// The files of handles.
    pub(super) fn of(connector: &str, handles: &[SinkHandle]) -> Result<Vec<Self>> {
        handles.iter().map(|handle| handle.read(connector)).collect()
    }
}

/// Writes the rows of a subtask to one file for each checkpoint.
#[derive(Debug)]
pub(super) struct StagedWriter {
    staging: Staging,
    subtask: u32,
    /// The checkpoint that the run went on from: with it no file has the name of one that a
    /// checkpoint of an earlier run may still have to commit.
    base: u64,
    /// Numbers files.
    next_file: u64,
    open: Option<OpenFile>,
}

impl StagedWriter {
    pub(super) fn new(staging: Staging, subtask: u32, base: u64) -> Self {
        Self { staging, subtask, base, next_file: 1, open: None }
    }

    fn open(&mut self) -> Result<Option<&mut OpenFile>> {
        let Some(output) = &self.staging.output else { return Ok(None) };
        if self.open.is_none() {
            let (base, number, subtask) = (self.base, self.next_file, self.subtask);
            let name = format!("{base}-{number}-{subtask}.{}", self.staging.format.name());
            self.next_file += 1;
            self.open = Some(OpenFile::create(&self.staging, name, output)?);
        }
        Ok(self.open.as_mut())
    }
}

impl SinkWriter for StagedWriter {
    fn write(&mut self, rows: &Output) -> Result<()> {
        match self.open()? {
            Some(file) => file.write(rows),
            None => Ok(()),
        }
    }

    fn prepare(&mut self, checkpoint: u64) -> Result<Option<SinkHandle>> {
        let Some(file) = self.open.take() else { return Ok(None) };
        let (subtask, extension) = (self.subtask, self.staging.format.name());
        file.close(format!("part-{checkpoint}-{subtask}.{extension}"), self.staging.sync).map(Some)
    }
}

/// Rows of one subtask since the last barrier.
#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
    name: String,
    encoder: Encoder,
    check: Option<RowCheck>,
    buffer: Vec<u8>,
    rows: u64,
    bytes: u64,
}

impl OpenFile {
    fn create(staging: &Staging, name: String, output: &OutputSpec) -> Result<Self> {
        Ok(Self {
            file: staging.directory.create_new(&name)?,
            path: staging.directory.shown().join(&name),
            name,
            encoder: Encoder::new(staging.format, staging.header, output)?,
            check: staging.check.clone(),
            buffer: Vec::new(),
            rows: 0,
            bytes: 0,
        })
    }

    fn write(&mut self, rows: &Output) -> Result<()> {
        self.rows += u64::try_from(rows.batch.num_rows()).unwrap_or(u64::MAX);
        let before = self.buffer.len();
        self.encoder.encode(rows, &mut self.buffer)?;
        if let Some(RowCheck(check)) = &self.check {
            let encoded = self.buffer.get(before..).unwrap_or_default();
            encoded.split(|byte| *byte == b'\n').try_for_each(|row| check(row))?;
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Closes the file, which is to be called `name` once it is committed.
    fn close(mut self, name: String, sync: bool) -> Result<SinkHandle> {
        self.encoder.finish(&mut self.buffer)?;
        self.flush()?;
        if sync {
            self.file.sync_all().map_err(|error| Error::io("write", &self.path, error))?;
        }
        SinkHandle::new(self.rows, self.bytes, &StagedFile { staged: self.name, name })
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.buffer);
        written.map_err(|error| Error::io("write", &self.path, error))?;
        self.bytes += u64::try_from(self.buffer.len()).unwrap_or(u64::MAX);
        self.buffer.clear();
        Ok(())
    }
}

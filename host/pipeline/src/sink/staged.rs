//! A file that is being written, before its checkpoint is complete.

use super::Staging;
use super::encoder::Encoder;
use crate::checkpoint::SinkFile;
use crate::error::{Error, Result};
use howdah_runtime::{Output, OutputSpec};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Rows of one subtask since the last barrier.
#[derive(Debug)]
pub(super) struct StagedFile {
    file: File,
    path: PathBuf,
    name: String,
    encoder: Encoder,
    sync: bool,
    buffer: Vec<u8>,
    rows: u64,
    bytes: u64,
}

impl StagedFile {
    pub(super) fn create(
        directory: &Path,
        name: String,
        staging: &Staging,
        output: &OutputSpec,
    ) -> Result<Self> {
        let path = directory.join(&name);
        let file = File::create_new(&path).map_err(|error| Error::io("write", &path, error))?;
        Ok(Self {
            file,
            path,
            name,
            encoder: Encoder::new(staging.format, staging.header, output)?,
            sync: staging.sync,
            buffer: Vec::new(),
            rows: 0,
            bytes: 0,
        })
    }

    pub(super) fn write(&mut self, rows: &Output) -> Result<()> {
        self.rows += u64::try_from(rows.batch.num_rows()).unwrap_or(u64::MAX);
        self.encoder.encode(rows, &mut self.buffer)?;
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Closes the file, which is to be called `name` once it is committed.
    pub(super) fn seal(mut self, name: String) -> Result<SinkFile> {
        self.encoder.finish(&mut self.buffer)?;
        self.flush()?;
        if self.sync {
            self.file.sync_all().map_err(|error| Error::io("write", &self.path, error))?;
        }
        Ok(SinkFile { staged: self.name, name, rows: self.rows, bytes: self.bytes })
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.buffer);
        written.map_err(|error| Error::io("write", &self.path, error))?;
        self.bytes += u64::try_from(self.buffer.len()).unwrap_or(u64::MAX);
        self.buffer.clear();
        Ok(())
    }
}

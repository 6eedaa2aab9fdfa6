//! Standard output. Rows are staged in files until their checkpoint is complete, then printed.

use super::encoder;
use super::staged::{StagedFile, StagedWriter, Staging};
use super::{Opening, Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::error::{Error, Result};
use crate::grants::Directories;
use crate::place::Open;
use std::fmt;
use std::io::Write;
use std::path::Path;

/// Where rows are staged, in the state directory.
pub(crate) const STAGING: &str = "stdout";
const CONNECTOR: &str = "stdout";

/// The sink. What is printed cannot be taken back: a commit that a crash broke off prints its
/// rows again, and there is no output that recovery could remove.
pub(super) struct Stdout {
    staging: Staging,
    /// Printed before the first rows.
    header: Vec<u8>,
    out: Box<dyn Write + Send>,
}

impl Stdout {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        Self::open_to(opening, Box::new(std::io::stdout()))
    }

    /// The same, printing elsewhere.
    pub(super) fn open_to(opening: &Opening<'_>, out: Box<dyn Write + Send>) -> Result<Self> {
        let state = opening.state_directory;
        let directory =
            Directories::only([state]).place(&state.join(STAGING))?.create_directory()?;
        let format = opening.config.format;
        let header = opening.output.map(|output| encoder::header(format, output));
        let staging = Staging {
            directory,
            format,
            header: false,
            sync: opening.sync,
            output: opening.output.cloned(),
            check: None,
        };
        Ok(Self { staging, header: header.transpose()?.unwrap_or_default(), out })
    }
}

impl fmt::Debug for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdout").field("staging", &self.staging).finish_non_exhaustive()
    }
}

impl Sink for Stdout {
    fn connector(&self) -> &'static str {
        CONNECTOR
    }

    fn has_output(&self) -> Result<bool> {
        Ok(false)
    }

    fn recover(&mut self, checkpoint: Option<(u64, &[SinkHandle])>) -> Result<()> {
        if let Some((id, handles)) = checkpoint {
            self.commit(id, handles)?;
        }
        self.staging.clear()
    }

    fn writer(&self, subtask: u32, base: u64) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(StagedWriter::new(self.staging.clone(), subtask, base)))
    }

    fn seal(&mut self, handles: &[SinkHandle]) -> Result<()> {
        self.staging.seal(handles)
    }

    fn commit(&mut self, _: u64, handles: &[SinkHandle]) -> Result<()> {
        for file in StagedFile::of(CONNECTOR, handles)? {
            self.print(&file.staged)?;
            self.staging.directory.remove(&file.staged)?;
        }
        Ok(())
    }
}

impl Stdout {
    /// Prints a staged file, unless that is done.
    fn print(&mut self, staged: &str) -> Result<()> {
        let place = self.staging.directory.file(staged);
        let mut file = match place.open_to(Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io("read", place.shown(), error)),
        };
        let out = &mut self.out;
        let printed = out
            .write_all(&std::mem::take(&mut self.header))
            .and_then(|()| std::io::copy(&mut file, out))
            .and_then(|_| out.flush());
        printed.map_err(|error| Error::io("write", Path::new("standard output"), error))
    }
}

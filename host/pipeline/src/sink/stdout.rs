//! Standard output. Rows are staged in files until their checkpoint is complete, then printed.

use super::encoder;
use super::staged::{StagedFile, StagedWriter, Staging};
use super::{Opening, Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::directory;
use crate::error::{Error, Result};
use std::io::Write;
use std::path::Path;

/// Where rows are staged, in the state directory.
pub(crate) const STAGING: &str = "stdout";
const CONNECTOR: &str = "stdout";

/// The sink. What is printed cannot be taken back: a commit that a crash broke off prints its
/// rows again, and there is no output that recovery could remove.
#[derive(Debug)]
pub(super) struct Stdout {
    staging: Staging,
    /// Printed before the first rows.
    header: Vec<u8>,
}

impl Stdout {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let directory = opening.state_directory.join(STAGING);
        directory::create(&directory)?;
        let format = opening.config.format;
        let header = opening.output.map(|output| encoder::header(format, output));
        let staging = Staging {
            directory,
            format,
            header: false,
            sync: opening.sync,
            output: opening.output.cloned(),
        };
        Ok(Self { staging, header: header.transpose()?.unwrap_or_default() })
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
            let path = self.staging.directory.join(&file.staged);
            print(&path, &std::mem::take(&mut self.header))?;
            directory::remove(&path)?;
        }
        Ok(())
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

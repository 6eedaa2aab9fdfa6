//! The dead-letter file: malformed rows with what is wrong with them, one JSON object a line.
//!
//! It is part of every checkpoint by its length: a restart cuts off what came after, and the
//! rows are read, and written, again.

use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::source::Rejected;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Malformed rows are added to it.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    file: File,
    path: PathBuf,
    length: u64,
    synced: u64,
    sync: bool,
}

/// A line of the file.
#[derive(Serialize)]
struct Letter<'a> {
    line: u64,
    error: &'a str,
    row: &'a str,
}

impl DeadLetters {
    /// Whether the file can be brought to the length that a checkpoint has; `None`: empty. A
    /// file with something in it that no checkpoint knows is only taken when `owned` says that
    /// an earlier run made it.
    pub(crate) fn check(path: &Path, length: Option<u64>, owned: bool) -> Result<()> {
        let found = directory::file_length(path)?;
        if length.is_none() && found > 0 && !owned {
            return Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "the dead-letter file {} has something in it that is not from this pipeline; \
                     move it away, or name another file",
                    path.display()
                ),
            ));
        }
        let length = length.unwrap_or(0);
        if found < length {
            return Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "the dead-letter file {} has {found} bytes, fewer than the {length} of the \
                     checkpoint; bring it back, or start afresh with --fresh",
                    path.display()
                ),
            ));
        }
        Ok(())
    }

    /// Opens a file that has been checked, and cuts off what came after `length`.
    pub(crate) fn open(path: &Path, length: u64, sync: bool) -> Result<Self> {
        if let Some(parent) = path.parent() {
            directory::create(parent)?;
        }
        let failed = |error| Error::io("open", path, error);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        file.set_len(length).map_err(failed)?;
        file.seek(SeekFrom::Start(length)).map_err(failed)?;
        Ok(Self { file, path: path.to_owned(), length, synced: length, sync })
    }

    /// Adds rows.
    pub(crate) fn append(&mut self, rows: &[Rejected]) -> Result<()> {
        let mut text = Vec::new();
        for row in rows {
            let raw = String::from_utf8_lossy(&row.raw);
            let letter = Letter { line: row.line, error: &row.reason, row: &raw };
            serde_json::to_writer(&mut text, &letter)
                .map_err(|error| Error::internal(format!("a dead letter is no JSON: {error}")))?;
            text.push(b'\n');
        }
        self.file.write_all(&text).map_err(|error| Error::io("write", &self.path, error))?;
        self.length += u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Makes what was added durable; the length that belongs into the checkpoint.
    pub(crate) fn seal(&mut self) -> Result<u64> {
        if self.sync && self.synced < self.length {
            self.file.sync_all().map_err(|error| Error::io("sync", &self.path, error))?;
            self.synced = self.length;
        }
        Ok(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(line: u64) -> Rejected {
        Rejected { line, raw: b"a,\"b\xff".to_vec(), reason: "column `x` has no value".into() }
    }

    #[test]
    fn a_restart_cuts_off_what_no_checkpoint_knows() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("letters/dead.ndjson");
        let mut letters = DeadLetters::open(&path, 0, true).expect("opened");
        letters.append(&[rejected(2)]).expect("added");
        let length = letters.seal().expect("sealed");
        letters.append(&[rejected(3)]).expect("added");
        drop(letters);

        let mut letters = DeadLetters::open(&path, length, true).expect("opened");
        letters.append(&[rejected(3), rejected(4)]).expect("added");
        let text = std::fs::read_to_string(&path).expect("text");
        let line = |number| {
            let row = "a,\\\"b\u{fffd}";
            format!(r#"{{"line":{number},"error":"column `x` has no value","row":"{row}"}}"#)
        };
        assert_eq!(text, format!("{}\n{}\n{}\n", line(2), line(3), line(4)));
    }

    #[test]
    fn a_file_that_has_shrunk_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("dead.ndjson");
        assert!(DeadLetters::check(&path, None, false).is_ok());
        assert!(DeadLetters::check(&path, Some(1), true).is_err());
    }

    #[test]
    fn a_file_of_somebody_else_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("mine.txt");
        std::fs::write(&path, "precious").expect("written");
        assert!(DeadLetters::check(&path, None, false).is_err());
        assert!(DeadLetters::check(&path, None, true).is_ok());
    }
}

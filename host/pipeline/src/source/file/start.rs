//! How a file starts, to know it again.

use super::FileStart;
use crate::error::{Error, ErrorKind, Result};
use crate::place::Place;
use std::io::Read;
use std::path::Path;

/// How much of a file is looked at.
const LIMIT_BYTES: u64 = 4_096;

/// The first bytes of a file.
#[derive(Debug)]
pub(super) struct Start {
    bytes: Vec<u8>,
}

impl Start {
    /// Reads them.
    pub(super) fn read(place: &Place) -> Result<Self> {
        let mut bytes = Vec::new();
        let read = place.open()?.take(LIMIT_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| Error::io("read", place.shown(), error))?;
        Ok(Self { bytes })
    }

    /// Whether there is a line break in them.
    pub(super) fn has_line(&self) -> bool {
        memchr::memchr(b'\n', &self.bytes).is_some() || self.bytes.len() as u64 == LIMIT_BYTES
    }

    /// The part of them before an offset.
    pub(super) fn before(&self, byte_offset: u64) -> FileStart {
        let length = usize::try_from(byte_offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let bytes = self.bytes.get(..length).unwrap_or_default();
        FileStart {
            bytes: u64::try_from(length).unwrap_or(u64::MAX),
            crc32: crc32fast::hash(bytes),
        }
    }

    /// Refuses a file that starts in another way than the one of the checkpoint.
    pub(super) fn check(&self, path: &Path, checkpoint: FileStart) -> Result<()> {
        if self.before(checkpoint.bytes) == checkpoint {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Incompatible,
            format!(
                "the source {} is another file than at the checkpoint: its first {} bytes differ; \
                 bring the old file back, or start afresh with --fresh",
                path.display(),
                checkpoint.bytes
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_what_was_read_of_its_start() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("rows.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            Start::read(&Place::of(&path)).expect("read")
        };
        let start = read("a,b\n1,2\nx,y\n").before(8);
        assert!(read("a,b\n1,2\n3,4\n5,6\n").check(&path, start).is_ok(), "mended and longer");
        assert!(read("a,b\n1,3\nx,y\n").check(&path, start).is_err(), "another row");
        assert!(read("a,b\n").check(&path, start).is_err(), "shorter");
        let long = "n".repeat(10_000);
        assert_eq!(read(&long).before(9_000).bytes, LIMIT_BYTES);
    }
}

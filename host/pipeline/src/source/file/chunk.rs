//! Reads a file in chunks and keeps what has not been consumed in one piece.

use super::FilePosition;
use crate::config::{FinalNewline, SourceConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::place::Place;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// The longest record.
pub(super) const RECORD_LIMIT_BYTES: usize = 16 << 20;
/// What some programs put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How much is read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A file that is consumed from front to back.
#[derive(Debug)]
pub(super) struct ChunkReader {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    /// What is available is `buffer[start..end]`.
    start: usize,
    end: usize,
    at_end: bool,
    length_bytes: u64,
    /// How far the file was read.
    offset: u64,
}

impl ChunkReader {
    /// Opens a file at an offset.
    pub(super) fn open(place: &Place, offset: u64) -> Result<Self> {
        let path = place.shown();
        let mut file = place.open()?;
        let metadata = file.metadata().map_err(|error| Error::io("read", path, error))?;
        file.seek(SeekFrom::Start(offset)).map_err(|error| Error::io("read", path, error))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            buffer: vec![0; 2 * CHUNK_BYTES],
            start: 0,
            end: 0,
            at_end: false,
            length_bytes: metadata.len(),
            offset,
        })
    }

    pub(super) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// What was read and not consumed.
    pub(super) fn available(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether nothing follows what is available.
    pub(super) fn at_end(&self) -> bool {
        self.at_end
    }

    /// Goes on after `bytes` of what is available.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Skips the byte order mark that a file may start with; returns its length.
    pub(super) fn skip_mark(&mut self) -> Result<usize> {
        while self.available().len() < BYTE_ORDER_MARK.len() && !self.at_end {
            self.fill()?;
        }
        let found = self.available().starts_with(BYTE_ORDER_MARK);
        let length = if found { BYTE_ORDER_MARK.len() } else { 0 };
        self.consume(length);
        Ok(length)
    }

    /// Makes more available, or finds the end. A file that was cut short meanwhile has none.
    pub(super) fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < CHUNK_BYTES {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        loop {
            match self.file.read(free) {
                Ok(0) => {
                    self.at_end = true;
                    return self.check_length();
                }
                Ok(read) => {
                    self.end += read;
                    self.offset += u64::try_from(read).unwrap_or(u64::MAX);
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &self.path, error)),
            }
        }
    }

    /// Refuses an end before that of the file when it was opened, or before what was read.
    fn check_length(&self) -> Result<()> {
        let metadata = self.file.metadata();
        let length = metadata.map_err(|error| Error::io("read", &self.path, error))?.len();
        let known = self.length_bytes.max(self.offset);
        if length >= known && self.offset >= self.length_bytes {
            return Ok(());
        }
        Err(Error::input(format!(
            "{} was cut short while it was read: it had {known} bytes and has {length}; bring the \
             whole file back and run again",
            self.path.display()
        )))
    }

    /// Consumes up to and with the next line break, however far it is. Returns the bytes
    /// consumed and whether there was a line break.
    pub(super) fn skip_line(&mut self) -> Result<(u64, bool)> {
        let mut skipped = 0_u64;
        loop {
            let newline = memchr::memchr(b'\n', self.available());
            let bytes = newline.map_or(self.available().len(), |at| at + 1);
            self.consume(bytes);
            skipped += u64::try_from(bytes).unwrap_or(u64::MAX);
            if newline.is_some() || self.at_end {
                return Ok((skipped, newline.is_some()));
            }
            self.fill()?;
        }
    }
}

/// Opens a text file where a checkpoint left it.
///
/// A checkpoint ends after a line break, or at the end of a file whose last row had none.
/// Such a row may have grown since: when the row was read as whole, that is an error; when
/// it was set aside as cut off, its rest goes the same way, and is counted in what is
/// returned beside the reader.
pub(super) fn resume(
    place: &Place,
    config: &SourceConfig,
    position: FilePosition,
) -> Result<(ChunkReader, u64)> {
    let path = place.shown();
    let changed = |what: String| {
        Error::new(
            ErrorKind::Incompatible,
            format!(
                "{} {what}; bring the old file back, or start afresh with --fresh",
                path.display()
            ),
        )
    };
    let Some(before) = position.byte_offset.checked_sub(1) else {
        return Ok((ChunkReader::open(place, 0)?, 0));
    };
    let mut reader = ChunkReader::open(place, before)?;
    if reader.length_bytes() < position.byte_offset {
        return Err(changed(format!(
            "has {} bytes, fewer than the {} that the checkpoint has read",
            reader.length_bytes(),
            position.byte_offset
        )));
    }
    reader.fill()?;
    let ended = reader.available().first() == Some(&b'\n');
    reader.consume(1);
    if ended {
        return Ok((reader, 0));
    }
    while reader.available().is_empty() && !reader.at_end() {
        reader.fill()?;
    }
    let grown = !matches!(reader.available().first(), None | Some(b'\n' | b'\r'));
    if grown && config.final_newline == FinalNewline::Optional {
        return Err(changed("has a longer last row than the checkpoint has read".to_owned()));
    }
    if reader.available().is_empty() {
        return Ok((reader, 0));
    }
    let (skipped, _) = reader.skip_line()?;
    Ok((reader, skipped))
}

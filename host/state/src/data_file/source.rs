//! Where the bytes of a data file come from: a memory map, or positioned reads.

use super::mapping;
use super::prefetch::prefetch;
use crate::fault::IoKind;
use crate::file_system::FileSystem;
use crate::{Error, Result};
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How data files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Mapped into memory: what a probe touches comes from the page cache without a copy.
    #[default]
    Mmap,
    /// By positioned reads of single pages. Slower; for file systems that cannot be mapped, or
    /// where a file may be cut short under a running process.
    Pread,
}

/// Pages closer to each other than this are read in one go.
const GAP_LIMIT_BYTES: u64 = 4 << 10;
/// Bytes read in one go, unless one page is larger.
const READ_LIMIT_BYTES: u64 = 1 << 20;
/// Bytes of pages that one probe holds on to.
const BUFFER_LIMIT_BYTES: usize = 8 << 20;
/// Bytes that are checked at a time.
const CHECK_BYTES: usize = 1 << 20;

/// The bytes of an open file. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) enum FileBytes {
    Mapped(Bytes),
    Positioned(Arc<PositionedFile>),
}

/// A file that is read by position.
#[derive(Debug)]
pub(super) struct PositionedFile {
    files: FileSystem,
    path: PathBuf,
    file: File,
    length_bytes: u64,
}

impl FileBytes {
    pub(super) fn open(files: &FileSystem, path: &Path) -> Result<Self> {
        let file = files.open(path)?;
        Ok(match files.read_mode() {
            ReadMode::Mmap => Self::Mapped(mapping::map(files, &file, path)?),
            ReadMode::Pread => Self::Positioned(Arc::new(PositionedFile {
                length_bytes: files.size(path)?,
                files: files.clone(),
                path: path.to_owned(),
                file,
            })),
        })
    }

    pub(super) fn length_bytes(&self) -> u64 {
        match self {
            Self::Mapped(bytes) => bytes.len() as u64,
            Self::Positioned(file) => file.length_bytes,
        }
    }

    /// The bytes of a range, which has to lie within the file.
    ///
    /// # Errors
    /// `Corrupt` when it does not; `Storage` when it cannot be read.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let cut_short = || Error::corrupt("the file was cut short");
        let start = usize::try_from(range.start).map_err(|_| cut_short())?;
        let end = usize::try_from(range.end).map_err(|_| cut_short())?;
        if start > end || range.end > self.length_bytes() {
            return Err(cut_short());
        }
        match self {
            Self::Mapped(bytes) => Ok(bytes.slice(start..end)),
            Self::Positioned(opened) => {
                let mut bytes = vec![0; end - start];
                let read = || opened.file.read_exact_at(&mut bytes, range.start);
                opened.files.call(IoKind::Read, "read", &opened.path, read)?;
                Ok(bytes.into())
            }
        }
    }

    /// CRC-32 of the whole file.
    pub(super) fn checksum(&self) -> Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let length = self.length_bytes();
        let mut at = 0;
        while at < length {
            let end = length.min(at + CHECK_BYTES as u64);
            hasher.update(&self.read(at..end)?);
            at = end;
        }
        Ok(hasher.finalize())
    }
}

impl Length for FileBytes {
    fn len(&self) -> u64 {
        self.length_bytes()
    }
}

impl ChunkReader for FileBytes {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(Box::new(std::io::BufReader::new(ReadFrom { file: self.clone(), at: start })))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.read(start..start.saturating_add(length as u64));
        bytes.map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// Reads on from a position.
struct ReadFrom {
    file: FileBytes,
    at: u64,
}

impl Read for ReadFrom {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        let end = self.file.length_bytes().min(self.at.saturating_add(target.len() as u64));
        let bytes = self.file.read(self.at.min(end)..end).map_err(std::io::Error::other)?;
        self.at = end;
        let (filled, _) = target.split_at_mut(bytes.len());
        filled.copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// The bytes of one page.
pub(super) enum PageBytes<'a> {
    Mapped(&'a [u8]),
    Read(Bytes),
}

impl Deref for PageBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Read(bytes) => bytes,
        }
    }
}

/// Reads pages of one file for one probe, each once.
pub(super) struct PageReader<'a> {
    file: &'a FileBytes,
    path: &'a Path,
    /// Pages by offset; stays empty for a mapped file.
    held: HashMap<u64, Bytes>,
    held_bytes: usize,
}

impl<'a> PageReader<'a> {
    pub(super) fn new(file: &'a FileBytes, path: &'a Path) -> Self {
        Self { file, path, held: HashMap::new(), held_bytes: 0 }
    }

    /// Whether pages come from memory, so that there is nothing to read ahead.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self.file, FileBytes::Mapped(_))
    }

    /// Begins to fetch the beginning of a page from memory, if it is mapped.
    pub(super) fn prefetch(&self, offset: u64, length_bytes: usize) {
        if let FileBytes::Mapped(bytes) = self.file
            && let Ok(start) = usize::try_from(offset)
        {
            let end = start.saturating_add(length_bytes).min(bytes.len());
            prefetch(bytes.get(start..end).unwrap_or_default());
        }
    }

    /// One page, header and body.
    ///
    /// # Errors
    /// `Storage` when it cannot be read; `Corrupt` when the file is shorter than it was.
    pub(super) fn page(&mut self, offset: u64, length_bytes: u32) -> Result<PageBytes<'a>> {
        let end = offset + u64::from(length_bytes);
        match self.file {
            FileBytes::Mapped(bytes) => {
                let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
                range
                    .and_then(|(start, end)| bytes.get(start..end))
                    .map(PageBytes::Mapped)
                    .ok_or_else(|| self.cut_short())
            }
            FileBytes::Positioned(_) => {
                if let Some(bytes) = self.held.get(&offset) {
                    return Ok(PageBytes::Read(bytes.clone()));
                }
                let bytes = self.read(offset..end)?;
                self.hold(offset, bytes.clone());
                Ok(PageBytes::Read(bytes))
            }
        }
    }

    /// Reads pages that will be asked for, ascending (offset, bytes), neighbours in one go.
    pub(super) fn read_ahead(&mut self, pages: impl Iterator<Item = (u64, u32)>) -> Result<()> {
        let mut together: Vec<(u64, u64)> = Vec::new();
        for (offset, length_bytes) in pages {
            let end = offset + u64::from(length_bytes);
            if let (Some(&(start, _)), Some(&(_, last_end))) = (together.first(), together.last())
                && (offset > last_end + GAP_LIMIT_BYTES || end > start + READ_LIMIT_BYTES)
            {
                self.read_together(&together)?;
                together.clear();
            }
            if !self.held.contains_key(&offset) {
                together.push((offset, end));
            }
            if self.held_bytes > BUFFER_LIMIT_BYTES / 2 {
                break;
            }
        }
        self.read_together(&together)
    }

    fn read_together(&mut self, pages: &[(u64, u64)]) -> Result<()> {
        let (Some(&(start, _)), Some(&(_, end))) = (pages.first(), pages.last()) else {
            return Ok(());
        };
        let bytes = self.read(start..end)?;
        for &(from, to) in pages {
            let range = usize::try_from(from - start).ok().zip(usize::try_from(to - start).ok());
            if let Some((from_byte, to_byte)) = range {
                self.hold(from, bytes.slice(from_byte..to_byte));
            }
        }
        Ok(())
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.end > self.file.length_bytes() {
            return Err(self.cut_short());
        }
        self.file.read(range)
    }

    fn hold(&mut self, offset: u64, bytes: Bytes) {
        if self.held_bytes > BUFFER_LIMIT_BYTES {
            self.held.clear();
            self.held_bytes = 0;
        }
        self.held_bytes += bytes.len();
        self.held.insert(offset, bytes);
    }

    pub(super) fn path(&self) -> &Path {
        self.path
    }

    fn cut_short(&self) -> Error {
        Error::corrupt(format!("data file {} is damaged: it was cut short", self.path.display()))
    }
}

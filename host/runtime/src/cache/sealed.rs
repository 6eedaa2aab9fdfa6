//! Bytes in memory that nothing can change or cut off.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Copied at once: stays in the cache of the processor between reading, checking and writing.
const CHUNK_BYTES: usize = 128 << 10;

/// A file in memory that nobody can write to any more, nor make shorter or longer.
#[derive(Debug)]
pub(super) struct Sealed(File);

impl Sealed {
    /// Copies what can be read; `see` is given all of it in pieces.
    pub(super) fn copy(mut from: impl Read, mut see: impl FnMut(&[u8])) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("howdah-code", flags)?);
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let piece = match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => chunk.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            see(piece);
            file.write_all(piece)?;
        }
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        Ok(Self(file))
    }

    /// Names the file while this value lives.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

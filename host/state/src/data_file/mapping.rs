//! Memory maps of data files.

use crate::Result;
use crate::fault::IoKind;
use crate::file_system::FileSystem;
use bytes::Bytes;
use std::fs::File;
use std::path::Path;

/// The bytes of a whole file, mapped into memory.
#[expect(unsafe_code, reason = "the one place that maps files")]
pub(super) fn map(files: &FileSystem, file: &File, path: &Path) -> Result<Bytes> {
    // SAFETY: a mapped file must not be cut short or changed. Data files are written whole, under
    // a name of their own, before they are mapped; afterwards they are only ever unlinked, which
    // leaves the mapping whole. Other processes that write into the warehouse are not defended
    // against.
    let map = || unsafe { memmap2::Mmap::map(file) };
    let mapping = files.call(IoKind::Map, "map", path, map)?;
    Ok(Bytes::from_owner(mapping))
}

//! Memory maps of data files.

use crate::{Error, Result};
use bytes::Bytes;
use std::fs::File;
use std::path::Path;

/// The bytes of a whole file, mapped into memory.
#[expect(unsafe_code, reason = "the one place that maps files")]
pub(super) fn map(path: &Path) -> Result<Bytes> {
    let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
    // SAFETY: a mapped file must not be cut short or changed. Data files are written whole, under
    // a name of their own, before they are mapped; afterwards they are only ever unlinked, which
    // leaves the mapping whole. Other processes that write into the warehouse are not defended
    // against.
    let mapping = unsafe { memmap2::Mmap::map(&file) };
    let mapping = mapping.map_err(|error| Error::io("map", path, error))?;
    Ok(Bytes::from_owner(mapping))
}

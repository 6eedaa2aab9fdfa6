//! Data files: sorted rows of one bucket as Parquet, written by us or by another engine.
//!
//! What we write is plain enough to be searched in place: uncompressed PLAIN pages, memory
//! mapped, key columns without nulls. Whatever another engine makes of it later is read
//! through crate `parquet`, slower, with the same answers.

mod chunk;
mod content;
mod decoded;
mod expiry;
mod filter;
mod mapping;
mod page;
mod plain;
mod prefetch;
mod pruning;
mod sidecar;
mod source;
mod statistics;
mod writer;

pub(crate) use content::{Content, ProbeKey, ScannedRows};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use sidecar::Sidecar;
pub(crate) use sidecar::{DamagedSidecar, checksum_of};
pub use source::ReadMode;
pub(crate) use writer::{DataFileWriter, Source, no_statistics};

use paimon::spec::DataFileMeta;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the data files that this process has opened; never given out twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(u64);

impl FileId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// An open data file. Never changes; a reader may keep it after the file is removed.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) id: FileId,
    /// Bucket, which is the subtask that owns it.
    pub(crate) bucket: u32,
    pub(crate) meta: DataFileMeta,
    pub(crate) content: Content,
}

impl DataFile {
    pub(crate) fn new(bucket: u32, meta: DataFileMeta, content: Content) -> Arc<Self> {
        Arc::new(Self { id: FileId::next(), bucket, meta, content })
    }

    pub(crate) fn rows(&self) -> u32 {
        self.content.rows()
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.meta.file_size).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;

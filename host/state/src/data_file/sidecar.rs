//! The file beside a data file: which keys may be in it, and the checksum of its bytes.
//!
//! A missing key is told by a few bytes of it instead of a page of each data file. Readers that
//! know nothing of it pass it over; without it the pages answer alone.
//!
//! The bytes, all numbers little-endian: magic, version, number of partitions, length and CRC-32
//! of the data file; then for each partition its first key group and where its filter lies; the
//! filters; the CRC-32 of all that. A partition has a filter over the hashes of consecutive key
//! groups, so that it can be built while the file is written, in little memory, however large it
//! becomes.

use super::filter;
use super::source::FileBytes;
use crate::file_system::FileSystem;
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use paimon::spec::DataFileMeta;
use std::ops::Range;
use std::path::Path;

/// There are fewer key groups than this.
const GROUPS_LIMIT: usize = 1 << 16;
/// Ends the names of these files, after the name of the data file.
pub(super) const SUFFIX: &str = ".filter";

const MAGIC: [u8; 8] = *b"howdahkf";
const VERSION: u32 = 2;
/// Had filters of another kind: only the checksum of the data file is read.
const VERSION_WITHOUT_FILTERS: u32 = 1;
/// Magic, version, partitions, length and checksum of the data file.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 4;
/// First key group, offset and length of the filter.
const PARTITION_BYTES: usize = 4 + 8 + 4;
/// Filters begin at multiples of this, so that a block of one is in one line of memory.
const ALIGNMENT_BYTES: usize = 64;
const CHECKSUM_BYTES: usize = 4;
/// Keys after which a partition ends with its key group: some 3 MiB while it is built.
const PARTITION_KEYS: usize = 1 << 18;
/// Keys of one key group past which a partition has no filter and any key may be in it.
const PARTITION_KEYS_LIMIT: usize = 1 << 22;
/// A file that is smaller is read instead of mapped.
const READ_LIMIT_BYTES: u64 = 64 << 10;

/// What to do about a sidecar that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DamagedSidecar {
    /// Fail: for a writer, which will build on the file.
    Refuse,
    /// Do without: for a reader, which the pages answer as well.
    PassOver,
}

/// The CRC-32 of a data file, as its sidecar has it; `None` when it has none.
///
/// # Errors
/// `Corrupt` when the sidecar is damaged or of another file; `Storage` when it cannot be read.
pub(crate) fn checksum_of(
    files: &FileSystem,
    directory: &Path,
    meta: &DataFileMeta,
) -> Result<Option<u32>> {
    let sidecar = Sidecar::open(files, directory, meta, DamagedSidecar::Refuse)?;
    Ok(sidecar.map(|sidecar| sidecar.data_checksum))
}

/// An open sidecar.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(super) data_bytes: u64,
    pub(super) data_checksum: u32,
    bytes: Bytes,
    partitions: Vec<Partition>,
    /// The partition of each key group, up to the first group of the last one.
    partition_of: Vec<u16>,
}

#[derive(Debug)]
struct Partition {
    /// Key group with which it begins.
    first_group: u32,
    /// Empty: any key may be in it.
    filter: Range<usize>,
}

impl Sidecar {
    /// The sidecar of a data file; `None` when it has none, or that is gone.
    ///
    /// # Errors
    /// `Corrupt` when it is damaged, `Incompatible` when a newer version wrote it, unless it is to
    /// be passed over; `Storage` when it cannot be read.
    pub(super) fn open(
        files: &FileSystem,
        directory: &Path,
        meta: &DataFileMeta,
        damaged: DamagedSidecar,
    ) -> Result<Option<Self>> {
        let Some(name) = meta.extra_files.iter().find(|name| name.ends_with(SUFFIX)) else {
            return Ok(None);
        };
        let path = directory.join(name);
        if !files.exists(&path)? {
            let path = path.display();
            tracing::warn!(%path, "a filter file is gone; probes look into the pages instead");
            return Ok(None);
        }
        let opened = Self::read(files, &path).and_then(|sidecar| {
            if Some(sidecar.data_bytes) == u64::try_from(meta.file_size).ok() {
                return Ok(sidecar);
            }
            Err(Error::corrupt(format!(
                "filter file {} is of a data file with {} bytes, not {}",
                path.display(),
                sidecar.data_bytes,
                meta.file_size
            )))
        });
        match opened {
            Err(error) if damaged == DamagedSidecar::PassOver && error.is_about_content() => {
                tracing::warn!(%error, "a filter file is passed over");
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn read(files: &FileSystem, path: &Path) -> Result<Self> {
        let bytes = match files.size(path)? {
            small if small <= READ_LIMIT_BYTES => Bytes::from(files.read(path)?),
            large => FileBytes::open(files, path)?.read(0..large)?,
        };
        if bytes.get(..8) == Some(&MAGIC)
            && let Some(version) = number(&bytes, 8)
            && version > VERSION
        {
            return Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "filter file {} is of version {version}; this program knows up to {VERSION}: \
                     use a newer one, or remove the file",
                    path.display()
                ),
            ));
        }
        Self::parse(bytes).ok_or_else(|| {
            Error::corrupt(format!(
                "filter file {} is damaged; restore from an earlier checkpoint, or remove the \
                 file to do without",
                path.display()
            ))
        })
    }

    /// Looks for keys in bytes that need not be a sidecar, but for the checksum.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn fuzz(content: &[u8]) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(content);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        if let Some(sidecar) = Self::parse(bytes.into()) {
            for group in [0, 1, 7, u32::MAX] {
                for shift in 0..64 {
                    sidecar.may_have(group, 0x9e37_79b9_7f4a_7c15_u64.rotate_left(shift));
                }
            }
        }
    }

    fn parse(bytes: Bytes) -> Option<Self> {
        let end = bytes.len().checked_sub(CHECKSUM_BYTES)?;
        let checked = bytes.get(..end)?;
        let version = number(&bytes, 8)?;
        let sound = checked.get(..8)? == MAGIC
            && (version == VERSION || version == VERSION_WITHOUT_FILTERS)
            && number(&bytes, end)? == crc32fast::hash(checked);
        if !sound {
            return None;
        }
        let mut count = usize::try_from(number(&bytes, 12)?).ok()?;
        let mut partitions = Vec::new();
        if version == VERSION_WITHOUT_FILTERS {
            partitions.push(Partition { first_group: 0, filter: 0..0 });
            count = 0;
        }
        for at in 0..count {
            let start = at.checked_mul(PARTITION_BYTES)?.checked_add(HEADER_BYTES)?;
            partitions.push(Partition::parse(checked, start)?);
        }
        let ascending = partitions.is_sorted_by(|a, b| a.first_group < b.first_group);
        let mut partition_of = Vec::new();
        for (at, partition) in (0_u16..).zip(&partitions) {
            let groups = usize::try_from(partition.first_group).ok()?;
            // Before it takes the memory for more.
            (groups < GROUPS_LIMIT).then_some(())?;
            partition_of.resize(groups, at.saturating_sub(1));
        }
        (ascending && count < usize::from(u16::MAX)).then_some(())?;
        Some(Self {
            data_bytes: u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?),
            data_checksum: number(&bytes, 24)?,
            bytes,
            partitions,
            partition_of,
        })
    }

    /// False when a key of this group with this hash is certainly not in the data file.
    pub(super) fn may_have(&self, group: u32, hash: u64) -> bool {
        let last = self.partitions.len().saturating_sub(1);
        let at = self.partition_of.get(group as usize).map_or(last, |&at| usize::from(at));
        let Some(partition) = self.partitions.get(at) else { return false };
        match self.bytes.get(partition.filter.clone()) {
            Some([]) | None => true,
            Some(filter) => filter::may_have(filter, hash),
        }
    }
}

impl Partition {
    fn parse(bytes: &[u8], start: usize) -> Option<Self> {
        let entry = bytes.get(start..start.checked_add(PARTITION_BYTES)?)?;
        let offset =
            usize::try_from(u64::from_le_bytes(entry.get(4..12)?.try_into().ok()?)).ok()?;
        let length = usize::try_from(number(entry, 12)?).ok()?;
        let filter = offset..offset.checked_add(length)?;
        bytes.get(filter.clone())?;
        (length == 0 || filter::is_sound(length))
            .then(|| Some(Self { first_group: number(entry, 0)?, filter }))?
    }
}

/// The 32-bit number at an offset.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Collects the keys of a data file while it is written, in its order.
#[derive(Debug, Default)]
pub(super) struct SidecarBuilder {
    /// First key group of each partition and its filter; empty when any key may be in it.
    partitions: Vec<(u32, Vec<u8>)>,
    /// Of the partition that is being built.
    hashes: Vec<u64>,
    first_group: u32,
    last_group: u32,
    too_many: bool,
}

impl SidecarBuilder {
    pub(super) fn add(&mut self, group: u32, hash: u64) {
        if group != self.last_group && (self.hashes.len() >= PARTITION_KEYS || self.too_many) {
            self.end_partition();
            self.first_group = group;
        }
        self.last_group = group;
        if self.hashes.len() >= PARTITION_KEYS_LIMIT {
            self.too_many = true;
            self.hashes.clear();
        }
        if !self.too_many {
            self.hashes.push(hash);
        }
    }

    fn end_partition(&mut self) {
        let filter = if self.too_many { Vec::new() } else { filter::build(&self.hashes) };
        self.partitions.push((self.first_group, filter));
        self.hashes.clear();
        self.too_many = false;
    }

    /// The bytes of the sidecar of a data file with this length and checksum.
    pub(super) fn finish(mut self, data_bytes: u64, data_checksum: u32) -> Vec<u8> {
        self.end_partition();
        let count = u32::try_from(self.partitions.len()).unwrap_or(u32::MAX);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(data_bytes.to_le_bytes());
        bytes.extend(data_checksum.to_le_bytes());
        let mut offset = HEADER_BYTES + self.partitions.len() * PARTITION_BYTES;
        for (first_group, filter) in &self.partitions {
            offset = offset.next_multiple_of(ALIGNMENT_BYTES);
            bytes.extend(first_group.to_le_bytes());
            bytes.extend((offset as u64).to_le_bytes());
            // A partition has far fewer keys than fit 32 bits.
            bytes.extend(u32::try_from(filter.len()).unwrap_or(u32::MAX).to_le_bytes());
            offset += filter.len();
        }
        for (_, filter) in &self.partitions {
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT_BYTES), 0);
            bytes.extend(filter);
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fuzzer found it: eight gigabytes went to the groups before it.
    #[test]
    fn filter_that_begins_at_a_key_group_beyond_all_is_refused_before_it_takes_memory() {
        let builder = SidecarBuilder {
            partitions: vec![(0, Vec::new())],
            first_group: u32::MAX,
            ..SidecarBuilder::default()
        };
        assert!(Sidecar::parse(builder.finish(9, 9).into()).is_none());
    }
}

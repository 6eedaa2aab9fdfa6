//! Deletion vectors: which rows of a data file are dead.
//!
//! The bytes are Paimon's: an index file begins with version 1; each vector in it is a
//! big-endian length, a magic number, a 32-bit roaring bitmap and the CRC-32 of magic and
//! bitmap.
#![expect(
    clippy::indexing_slicing,
    reason = "every range is checked against the length of the file before it is used"
)]

use crate::file_system::FileSystem;
use crate::{Error, Result};
use indexmap::IndexMap;
use paimon::spec::{DeletionVectorMeta, IndexFileMeta};
use roaring::RoaringBitmap;
use std::path::Path;

const VERSION: u8 = 1;
const MAGIC: u32 = 1_581_511_376;
/// Length and magic before the bitmap, checksum after it.
const HEADER_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;
/// `_INDEX_TYPE` of index files with deletion vectors.
pub(crate) const INDEX_TYPE: &str = "DELETION_VECTORS";

/// Writes one index file that holds these vectors (data file name, dead rows).
pub(crate) fn write(
    files: &FileSystem,
    directory: &Path,
    vectors: &[(&str, &RoaringBitmap)],
) -> Result<IndexFileMeta> {
    let name = format!("index-{}-0", crate::seam::unique_name());
    let path = directory.join(&name);
    let mut bytes = vec![VERSION];
    let mut ranges = IndexMap::new();
    for (data_file, dead) in vectors {
        let offset = bytes.len();
        encode(dead, &mut bytes);
        let bitmap_bytes = bytes.len() - offset - HEADER_BYTES - CHECKSUM_BYTES;
        let too_large = |_| Error::corrupt(format!("{} is too large", path.display()));
        ranges.insert(
            (*data_file).to_owned(),
            DeletionVectorMeta {
                offset: i32::try_from(offset).map_err(too_large)?,
                // Paimon counts the magic number, but neither length nor checksum.
                length: i32::try_from(bitmap_bytes + 4).map_err(too_large)?,
                cardinality: i64::try_from(dead.len()).ok(),
            },
        );
    }
    files.write(&path, &bytes)?;
    Ok(IndexFileMeta {
        index_type: INDEX_TYPE.to_owned(),
        file_name: name,
        file_size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
        row_count: i64::try_from(ranges.len()).unwrap_or(i64::MAX),
        deletion_vectors_ranges: Some(ranges),
        external_path: None,
        global_index_meta: None,
    })
}

fn encode(dead: &RoaringBitmap, bytes: &mut Vec<u8>) {
    let length = u32::try_from(dead.serialized_size() + 4).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    let checked = bytes.len();
    bytes.extend_from_slice(&MAGIC.to_be_bytes());
    // Writing to memory cannot fail.
    let _ = dead.serialize_into(&mut *bytes);
    let checksum = crc32fast::hash(&bytes[checked..]);
    bytes.extend_from_slice(&checksum.to_be_bytes());
}

/// Reads all vectors of an index file.
///
/// # Errors
/// `Corrupt` when the file is cut off, damaged, or of a version that is not known.
pub(crate) fn read(
    files: &FileSystem,
    directory: &Path,
    meta: &IndexFileMeta,
) -> Result<Vec<(String, RoaringBitmap)>> {
    let path = directory.join(&meta.file_name);
    let bytes = files.read(&path)?;
    let corrupt = |why: &str| {
        Error::corrupt(format!("deletion vectors in {} are damaged: {why}", path.display()))
    };
    if bytes.first() != Some(&VERSION) {
        return Err(corrupt("the version is unknown"));
    }
    let ranges = meta.deletion_vectors_ranges.iter().flatten();
    ranges
        .map(|(data_file, range)| {
            let dead = usize::try_from(range.offset)
                .ok()
                .zip(usize::try_from(range.length).ok())
                .and_then(|(offset, length)| decode(&bytes, offset, length))
                .ok_or_else(|| corrupt(&format!("the one of {data_file} does not check out")))?;
            if range.cardinality.is_some_and(|rows| u64::try_from(rows) != Ok(dead.len())) {
                return Err(corrupt(&format!("the one of {data_file} has another size")));
            }
            Ok((data_file.clone(), dead))
        })
        .collect()
}

/// Decodes bytes that need not be a deletion vector, as they are and with the checks before the
/// bitmap passed.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(content: &[u8]) {
    let at = content.first().map_or(0, |&byte| usize::from(byte));
    let length = content.get(1).map_or(0, |&byte| usize::from(byte));
    let _ = decode(content, at, length);
    let mut checked = MAGIC.to_be_bytes().to_vec();
    checked.extend(content);
    let length = u32::try_from(checked.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(&checked);
    bytes.extend(crc32fast::hash(&checked).to_be_bytes());
    if let Some(dead) = decode(&bytes, 0, checked.len()) {
        let _ = (dead.len(), dead.max(), dead.contains(7), dead.iter().take(1000).count());
    }
}

fn decode(bytes: &[u8], offset: usize, length: usize) -> Option<RoaringBitmap> {
    let checked_from = offset.checked_add(4)?;
    let checked_to = checked_from.checked_add(length)?;
    let stored_length = u32::from_be_bytes(bytes.get(offset..checked_from)?.try_into().ok()?);
    let checked = bytes.get(checked_from..checked_to)?;
    let end = checked_to.checked_add(CHECKSUM_BYTES)?;
    let checksum = u32::from_be_bytes(bytes.get(checked_to..end)?.try_into().ok()?);
    let magic = u32::from_be_bytes(checked.get(..4)?.try_into().ok()?);
    if stored_length as usize != length || magic != MAGIC || checksum != crc32fast::hash(checked) {
        return None;
    }
    RoaringBitmap::deserialize_from(&checked[4..]).ok()
}

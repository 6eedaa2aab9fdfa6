//! A filter over hashes: tells that one is certainly not among those that it was made of.
//!
//! A blocked Bloom filter: a hash sets [`BITS_SET`] bits in one block, which is a line of memory,
//! so that a look-up costs one read of it. At [`BITS`] for each hash, one in some 150 others is not
//! told.

/// Bits for each hash.
const BITS: usize = 12;
const BLOCK_BYTES: usize = 64;
/// Nine bits of a number say where in a block one of these is.
const BITS_SET: usize = 6;

/// The bytes of a filter over these hashes; they may repeat.
pub(super) fn build(hashes: &[u64]) -> Vec<u8> {
    let blocks = (hashes.len() * BITS).div_ceil(BLOCK_BYTES * 8).max(1);
    let mut bytes = vec![0; blocks * BLOCK_BYTES];
    let (blocks, _) = bytes.as_chunks_mut::<BLOCK_BYTES>();
    for &hash in hashes {
        let (block, places) = place(hash, blocks.len());
        let Some(block) = blocks.get_mut(block) else { continue };
        for (byte, bit) in places {
            if let Some(byte) = block.get_mut(byte) {
                *byte |= bit;
            }
        }
    }
    bytes
}

/// Whether bytes of this length can be a filter.
pub(super) fn is_sound(length_bytes: usize) -> bool {
    length_bytes > 0 && length_bytes.is_multiple_of(BLOCK_BYTES)
}

/// False when a hash is certainly not in the filter.
pub(super) fn may_have(filter: &[u8], hash: u64) -> bool {
    let (blocks, _) = filter.as_chunks::<BLOCK_BYTES>();
    let (block, places) = place(hash, blocks.len());
    let Some(block) = blocks.get(block) else { return true };
    // Without a branch for each bit: all of them are in the same line of memory.
    places.fold(true, |all, (byte, bit)| all & block.get(byte).is_some_and(|byte| byte & bit != 0))
}

/// The block of a hash among so many, and in which bytes of it the hash sets which bit.
fn place(hash: u64, blocks: usize) -> (usize, impl Iterator<Item = (usize, u8)>) {
    // Hashes of rows of one key share their upper half, those of one key group their remainder.
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let block = ((mixed >> 32) * blocks as u64) >> 32;
    // Less than the number of blocks, which was a `usize`.
    let block = usize::try_from(block).unwrap_or(usize::MAX);
    let mut bits = (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 10;
    let places = (0..BITS_SET).map(move |_| {
        let bit = 1 << (bits & 7);
        let byte = usize::try_from((bits >> 3) & 63).unwrap_or(0);
        bits >>= 9;
        (byte, bit)
    });
    (block, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::row_hash;
    use std::ops::Range;
    use xxhash_rust::xxh3::xxh3_64;

    /// Hashes of keys, and of the rows of one key.
    fn hashes(numbers: Range<u64>) -> [Vec<u64>; 2] {
        let key = |number: u64| xxh3_64(&number.to_le_bytes());
        let keys = numbers.clone().map(key).collect();
        [keys, numbers.map(|number| row_hash(key(7), key(number))).collect()]
    }

    #[test]
    fn every_hash_is_found_and_few_others() {
        for (there, others) in hashes(0..50_000).iter().zip(hashes(50_000..100_000)) {
            let filter = build(there);
            assert!(is_sound(filter.len()));
            assert!(there.iter().all(|&hash| may_have(&filter, hash)));
            let wrong = others.iter().filter(|&&hash| may_have(&filter, hash)).count();
            assert!(wrong < 500, "{wrong} of {}", others.len());
        }
    }

    #[test]
    fn filter_of_nothing_has_nothing() {
        let filter = build(&[]);
        assert!(hashes(0..100).iter().flatten().all(|&hash| !may_have(&filter, hash)));
    }
}

//! Keys, values and the orders in which they are asked for; the same for every store.

use anyhow::Result;
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray, Int64Array, StringArray};
use howdah_state::{Column, ColumnType, KeyBatch, KeyEncoder, KeyGroups, Rows};
use std::sync::Arc;

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 100;

/// What keys look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    Int64,
    TwoInt64,
    /// 24 bytes of text.
    Text24,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int64 => "i64",
            Self::TwoInt64 => "(i64, i64)",
            Self::Text24 => "utf8",
        }
    }

    pub(crate) fn columns(self) -> Vec<Column> {
        match self {
            Self::Int64 => vec![Column::required("id", ColumnType::Int64)],
            Self::TwoInt64 => vec![
                Column::required("customer", ColumnType::Int64),
                Column::required("item", ColumnType::Int64),
            ],
            Self::Text24 => vec![Column::required("name", ColumnType::Utf8)],
        }
    }

    /// The key columns of these numbers.
    fn arrays(self, numbers: &[u64]) -> Vec<ArrayRef> {
        let int64 = |number: &dyn Fn(u64) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(numbers.iter().map(|&n| number(n) as i64)))
        };
        match self {
            Self::Int64 => vec![int64(&|number| number)],
            Self::TwoInt64 => vec![int64(&|number| number / 1000), int64(&|number| number % 1000)],
            Self::Text24 => {
                let names = numbers.iter().map(|number| format!("customer-{number:015}"));
                vec![Arc::new(StringArray::from_iter_values(names))]
            }
        }
    }
}

/// The number in the key of the row `id`: even, so that odd ones are missing keys among them.
pub(crate) fn present(id: u64) -> u64 {
    2 * id
}

/// The number of a key without a row, next to the one of the row `id`.
pub(crate) fn absent(id: u64) -> u64 {
    2 * id + 1
}

/// Turns numbers into keys.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) shape: Shape,
    encoder: KeyEncoder,
    groups: KeyGroups,
}

/// A batch of keys, made ready for every store before the clock starts.
pub(crate) struct Batch {
    /// In the order given, as keys come from a stream.
    pub(crate) numbers: Vec<u64>,
    pub(crate) keys: KeyBatch,
    /// Key group and encoded key of each, sorted, which is what RocksDB's batched lookup likes.
    pub(crate) sorted: SortedKeys,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// Keys as bytes: two bytes of key group, as Flink writes them, and the encoded key.
#[derive(Default)]
pub(crate) struct SortedKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The number of each key.
    pub(crate) numbers: Vec<u64>,
}

impl SortedKeys {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

impl Keys {
    pub(crate) fn new(shape: Shape) -> Result<Self> {
        Ok(Self {
            shape,
            encoder: KeyEncoder::new(&shape.columns())?,
            groups: KeyGroups::new(KeyGroups::DEFAULT_COUNT, 1)?,
        })
    }

    /// A batch for each subtask, together of these numbers, which are distinct.
    pub(crate) fn split(&self, numbers: &[u64], parallelism: u32) -> Result<Vec<Batch>> {
        let groups = KeyGroups::new(KeyGroups::DEFAULT_COUNT, parallelism)?;
        let encoded = self.encoder.encode(&self.shape.arrays(numbers))?;
        let mut split = vec![Vec::new(); parallelism as usize];
        for (&number, &hash) in numbers.iter().zip(encoded.hashes()) {
            split[groups.subtask_of(hash) as usize].push(number);
        }
        split.into_iter().map(|numbers| self.batch(numbers)).collect()
    }

    /// A batch of these numbers, which are distinct.
    pub(crate) fn batch(&self, numbers: Vec<u64>) -> Result<Batch> {
        let keys = KeyBatch::new(&self.encoder, self.shape.arrays(&numbers))?;
        let encoded = keys.encoded();
        let mut order: Vec<(u32, usize)> = encoded
            .hashes()
            .iter()
            .enumerate()
            .map(|(at, &hash)| (self.groups.group_of(hash), at))
            .collect();
        order.sort_by(|a, b| (a.0, encoded.key(a.1)).cmp(&(b.0, encoded.key(b.1))));
        let mut sorted = SortedKeys::default();
        for (group, at) in order {
            sorted.bytes.extend_from_slice(&(group as u16).to_be_bytes());
            sorted.bytes.extend_from_slice(encoded.key(at));
            sorted.ends.push(sorted.bytes.len());
            sorted.numbers.push(numbers[at]);
        }
        Ok(Batch { numbers, keys, sorted })
    }
}

/// The value of a key: a counter, and bytes made from the number of the key.
pub(crate) fn value_of(number: u64, counter: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let (first, rest) = value.split_at_mut(8);
    first.copy_from_slice(&counter.to_le_bytes());
    for (at, chunk) in (1_u64..).zip(rest.chunks_mut(8)) {
        let bytes = mix(number.wrapping_add(at)).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    value
}

/// Values as a column.
pub(crate) fn column<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> ArrayRef {
    Arc::new(BinaryArray::from_iter_values(values))
}

/// What a record does: counts up the value of its key, which begins at 1. Tells what was read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) present: u64,
    /// Of the counters and other bytes read; does not depend on their order.
    pub(crate) checksum: u64,
}

impl Counted {
    pub(crate) fn see(&mut self, number: u64, value: Option<&[u8]>) {
        let Some(value) = value else { return };
        self.present += 1;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&value[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let seen = word(0).wrapping_add(word(VALUE_BYTES - 8).rotate_left(17));
        self.checksum = self.checksum.wrapping_add(seen ^ number.wrapping_mul(GOLDEN));
    }

    pub(crate) fn see_rows(&mut self, numbers: &[u64], rows: &Rows) {
        let values = rows.columns[0].as_binary::<i32>();
        for (at, &number) in numbers.iter().enumerate() {
            self.see(number, rows.present.value(at).then(|| values.value(at)));
        }
    }

    /// The value to write back.
    pub(crate) fn count_up(&mut self, number: u64, value: Option<&[u8]>, new: &mut [u8]) {
        self.see(number, value);
        match value {
            None => new.copy_from_slice(&value_of(number, 1)),
            Some(value) => {
                let mut counter = [0; 8];
                counter.copy_from_slice(&value[..8]);
                new.copy_from_slice(value);
                new[..8].copy_from_slice(&(u64::from_le_bytes(counter) + 1).to_le_bytes());
            }
        }
    }
}

impl std::ops::AddAssign for Counted {
    fn add_assign(&mut self, other: Self) {
        self.present += other.present;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finalizer.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Random numbers that are the same in every run.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Evenly from 0 to `limit`, without it.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// From 0 to `limit`, without it: rank `r` about `1 / (r + 1)` as often as rank 0, and the
    /// ranks scattered over the range.
    pub(crate) fn zipf_below(&mut self, limit: u64) -> u64 {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = ((limit as f64).powf(share) - 1.0) as u64;
        scatter(rank.min(limit - 1), limit)
    }
}

/// A permutation of the numbers from 0 to `limit`, without it.
pub(crate) fn scatter(number: u64, limit: u64) -> u64 {
    // A prime that is larger than every limit.
    const PRIME: u128 = 2_305_843_009_213_693_951;
    ((u128::from(number) * PRIME) % u128::from(limit)) as u64
}

/// Without the duplicates; in no order.
pub(crate) fn distinct(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers.dedup();
    // As good as any order, and not sorted.
    numbers.sort_unstable_by_key(|&number| mix(number));
    numbers
}

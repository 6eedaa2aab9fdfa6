//! Key groups: the unit in which keys move between subtasks.

use crate::{EncodedKeys, Error, Result};
use paimon::spec::{BinaryRow, DataType, Datum, IntType};

/// Which subtask owns which key group, at one parallelism.
///
/// A key group is the upper half of the key's hash modulo the number of key groups. The
/// subtask that owns it is the bucket that Paimon's default bucket function gives the
/// column `kg`, so that the bucket pruning of every Paimon reader stays right.
#[derive(Debug, Clone)]
pub struct KeyGroups {
    subtask_of: std::sync::Arc<[u32]>,
    parallelism: u32,
}

impl KeyGroups {
    /// How many key groups there are unless said otherwise: keeps the largest share of a
    /// subtask under 1.2 times the mean at 16 subtasks.
    pub const DEFAULT_COUNT: u32 = 1024;

    /// The most key groups there may be.
    pub const COUNT_LIMIT: u32 = 1 << 15;

    /// `count` key groups over `parallelism` subtasks.
    ///
    /// # Errors
    /// `InvalidArgument` unless `1 <= parallelism <= count <= COUNT_LIMIT`.
    pub fn new(count: u32, parallelism: u32) -> Result<Self> {
        if parallelism == 0 || parallelism > count || count > Self::COUNT_LIMIT {
            return Err(Error::invalid(format!(
                "parallelism {parallelism} with {count} key groups: parallelism must be from 1 to \
                 the number of key groups, and that at most {}",
                Self::COUNT_LIMIT
            )));
        }
        let subtask_of = (0..count).map(|group| bucket(group, parallelism)).collect();
        Ok(Self { subtask_of, parallelism })
    }

    /// How many key groups.
    pub fn count(&self) -> u32 {
        u32::try_from(self.subtask_of.len()).unwrap_or(u32::MAX)
    }

    /// How many subtasks.
    pub fn parallelism(&self) -> u32 {
        self.parallelism
    }

    /// The key group of a key with this hash (see [`crate::EncodedKeys::hashes`]).
    pub fn group_of(&self, hash: u64) -> u32 {
        let upper = u32::try_from(hash >> 32).unwrap_or(u32::MAX);
        upper % self.count()
    }

    /// The key groups of a subtask, ascending.
    pub fn groups_of(&self, subtask: u32) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(self.subtask_of.iter())
            .filter(move |(_, of)| **of == subtask)
            .map(|(group, _)| group)
    }

    /// The subtask that owns a key group.
    pub(crate) fn subtask_of_group(&self, group: u32) -> u32 {
        self.subtask_of.get(group as usize).copied().unwrap_or(0)
    }

    /// For each subtask, the rows whose keys it owns, ascending: what
    /// [`KeyBatch::select`](crate::KeyBatch::select) and Arrow's `take` take.
    pub fn split(&self, keys: &EncodedKeys) -> Vec<Vec<u32>> {
        let mut rows = vec![Vec::new(); self.parallelism as usize];
        for (row, &hash) in (0..).zip(keys.hashes()) {
            if let Some(of_subtask) = rows.get_mut(self.subtask_of(hash) as usize) {
                of_subtask.push(row);
            }
        }
        rows
    }

    /// The subtask that owns a key with this hash.
    pub fn subtask_of(&self, hash: u64) -> u32 {
        self.subtask_of.get(self.group_of(hash) as usize).copied().unwrap_or(0)
    }
}

/// Paimon's default bucket of a row whose bucket key is `kg`.
fn bucket(group: u32, buckets: u32) -> u32 {
    let datum = Datum::Int(i32::try_from(group).unwrap_or(i32::MAX));
    let data_type = DataType::Int(IntType::with_nullable(false));
    let buckets = i32::try_from(buckets).unwrap_or(i32::MAX);
    let bucket = BinaryRow::compute_bucket_from_datums(&[(Some(&datum), &data_type)], buckets);
    u32::try_from(bucket).unwrap_or(0)
}

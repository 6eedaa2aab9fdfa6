//! Key groups: the unit in which keys move between subtasks.

use crate::{Error, Result};

/// Which subtask owns which key group, at one parallelism.
#[derive(Debug, Clone)]
pub struct KeyGroups {
    subtask_of: Vec<u32>,
    parallelism: u32,
}

impl KeyGroups {
    /// How many key groups there are unless said otherwise.
    pub const DEFAULT_COUNT: u32 = 1024;

    /// `count` key groups over `parallelism` subtasks, by Paimon's default bucket function.
    pub fn new(count: u32, parallelism: u32) -> Result<Self> {
        todo!()
    }
    /// How many key groups.
    pub fn count(&self) -> u32 {
        todo!()
    }
    /// How many subtasks.
    pub fn parallelism(&self) -> u32 {
        self.parallelism
    }
    /// The key group of a key with this hash (see `EncodedKeys::hashes`).
    pub fn group_of(&self, hash: u64) -> u32 {
        todo!()
    }
    /// The subtask that owns a key with this hash.
    pub fn subtask_of(&self, hash: u64) -> u32 {
        todo!()
    }
}

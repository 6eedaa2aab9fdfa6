//! Keys as bytes: one canonical encoding for hashing, comparing and sorting.

use crate::{Column, ColumnType, Error, Result};
use arrow_array::ArrayRef;

/// Turns key columns into bytes whose order is the order of the typed keys.
#[derive(Debug, Clone)]
pub struct KeyEncoder {
    columns: Vec<Column>,
}

impl KeyEncoder {
    /// An encoder for keys of these columns, in this order.
    pub fn new(columns: &[Column]) -> Result<Self> {
        Ok(Self { columns: columns.to_vec() })
    }

    /// The key columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Encodes row by row. Fails on a null, a wrong type or unequal lengths, naming column and row.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<EncodedKeys> {
        todo!()
    }
}

/// Encoded keys with their hashes: one for each row.
#[derive(Debug, Clone, Default)]
pub struct EncodedKeys {}

impl EncodedKeys {
    /// How many keys.
    pub fn len(&self) -> usize {
        todo!()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    /// The bytes of key `row`.
    pub fn key(&self, row: usize) -> &[u8] {
        todo!()
    }
    /// The stable 64-bit hashes, one for each row.
    pub fn hashes(&self) -> &[u64] {
        todo!()
    }
    /// The keys of these rows, in this order.
    pub fn take(&self, rows: &[u32]) -> Self {
        todo!()
    }
    /// Appends the keys of another of the same columns.
    pub fn append(&mut self, other: &Self) {
        todo!()
    }
}

/// Keys of one call: typed columns and encoded bytes side by side.
#[derive(Debug, Clone)]
pub struct KeyBatch {
    columns: Vec<ArrayRef>,
    encoded: EncodedKeys,
}

impl KeyBatch {
    /// Encodes these columns; keys may repeat.
    pub fn new(encoder: &KeyEncoder, columns: Vec<ArrayRef>) -> Result<Self> {
        todo!()
    }

    /// The distinct keys among rows, in order of first appearance, and for each row the index of its key.
    /// `columns` and `encoded` have one entry for each row.
    pub fn distinct(columns: &[ArrayRef], encoded: &EncodedKeys) -> Result<(Self, Vec<u32>)> {
        todo!()
    }

    /// Some of the keys, by index; an index past the end is an `InvalidArgument` error.
    pub fn select(&self, indices: &[u32]) -> Result<Self> {
        todo!()
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.encoded.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The typed key columns.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }
    /// The encoded keys.
    pub fn encoded(&self) -> &EncodedKeys {
        &self.encoded
    }
}

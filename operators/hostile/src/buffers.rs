//! Little helpers for buffers.

use crate::bindings::howdah::operator::types::{Column, Error, ErrorKind};

pub(crate) fn error(message: &str) -> Error {
    Error { kind: ErrorKind::Other, message: message.to_owned() }
}

/// A column of 64-bit integers, or of timestamps.
pub(crate) fn int64s(values: &[i64]) -> Column {
    fixed(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// A boolean column, or any bitmap.
pub(crate) fn bits(values: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| {
        bits.iter().enumerate().fold(0, |byte, (bit, value)| byte | u8::from(*value) << bit)
    };
    values.chunks(8).map(byte).collect()
}

/// A column whose rows all have a value and no offsets.
pub(crate) fn fixed(data: Vec<u8>) -> Column {
    Column { data, offsets: None, validity: None }
}

/// Packed 32-bit integers.
pub(crate) fn u32s(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The values of packed 32-bit integers.
pub(crate) fn read_u32s(buffer: &[u8]) -> impl Iterator<Item = u32> {
    buffer.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

/// The values of packed 64-bit integers.
pub(crate) fn read_i64s(buffer: &[u8]) -> impl Iterator<Item = i64> {
    buffer.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes))
}

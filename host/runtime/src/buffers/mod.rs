//! Columns as they cross the boundary, from and to Arrow arrays.
//!
//! What an operator hands over is not trusted: [`decode`] checks every length, offset and
//! bit before an array is made of it. What the operator is given is borrowed from the arrays
//! wherever Arrow's layout is the contract's ([`encode`]).

mod decode;
mod encode;
mod lend;
#[cfg(test)]
mod tests;

pub(crate) use decode::{BufferError, ColumnBuffers, columns, i64s, row_kinds, timestamps, u32s};
pub(crate) use encode::{Encoded, bitmap, into_result};
pub(crate) use lend::lend;

#[cfg(target_endian = "big")]
compile_error!("the contract's buffers are little-endian and are passed on as they are");

/// Bytes of a bitmap for so many rows.
fn bitmap_bytes(rows: usize) -> usize {
    rows.div_ceil(8)
}

/// The bits of a bitmap's last byte that lie past its last row.
fn bits_past_end(rows: usize) -> u8 {
    match rows % 8 {
        0 => 0,
        used => u8::MAX << used,
    }
}

//! Bytes from anywhere, as the columns that an operator hands over: nothing may panic, and what is
//! taken must be sound.
//!
//! For the target in `fuzz/` and for a test that drives it with a mutator of its own.
#![expect(clippy::expect_used, reason = "only built for tests")]

use crate::bindings::types::ColumnResult;
use crate::buffers;
use arrow_array::ArrayRef;
use howdah_state::{Column, ColumnType};
use std::sync::Arc;

/// One of each type.
const TYPES: [ColumnType; 10] = [
    ColumnType::Boolean,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal128 { precision: 12, scale: 2 },
    ColumnType::Date,
    ColumnType::TimestampMillis,
    ColumnType::Utf8,
    ColumnType::Binary,
];

/// Decodes columns that the bytes describe. Those that are taken hold to what Arrow asks of
/// arrays, and are the same when they have gone to an operator and come back. How many were taken.
pub fn columns(input: &[u8]) -> usize {
    let mut input = Input(input);
    let rows = usize::from(input.byte() % 20);
    let mut taken = 0;
    while !input.0.is_empty() {
        let field = input.field();
        let column = input.column(&field, rows);
        taken += usize::from(decode(&field, rows, column));
        let bytes = input.bytes(rows.saturating_mul(8));
        let _ = buffers::timestamps(rows, bytes.clone());
        let _ = buffers::u32s(bytes);
        let _ = buffers::row_kinds(rows, input.bytes(rows));
    }
    taken
}

/// Whether the column was taken.
fn decode(field: &Column, rows: usize, column: ColumnResult) -> bool {
    let field = std::slice::from_ref(field);
    let Ok(arrays) = buffers::columns(field, rows, vec![column]) else { return false };
    for array in &arrays {
        assert_eq!(array.len(), rows);
        array.to_data().validate_full().expect("an array that Arrow finds sound");
    }
    let sent: Vec<ColumnResult> = arrays
        .iter()
        .map(|array: &ArrayRef| buffers::into_result(Arc::clone(array)).expect("a column"))
        .collect();
    let back = buffers::columns(field, rows, sent).expect("what was taken once");
    assert_eq!(back, arrays);
    true
}

/// What is left of the bytes.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    /// The next byte; 0 when there is none.
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// So many bytes, with zeros for those that are missing.
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// A buffer of mostly the right length.
    fn buffer(&mut self, right: usize) -> Vec<u8> {
        let count = match self.byte() {
            length @ 0..=30 => usize::from(length),
            _ => right,
        };
        self.bytes(count)
    }

    fn field(&mut self) -> Column {
        let kind = usize::from(self.byte());
        let column_type = TYPES.get(kind % TYPES.len()).copied().unwrap_or(ColumnType::Binary);
        let nullable = kind >= 128;
        Column { name: "field".to_owned(), column_type, nullable }
    }

    fn column(&mut self, field: &Column, rows: usize) -> ColumnResult {
        let flags = self.byte();
        let validity = (flags & 1 == 1).then(|| self.buffer(rows.div_ceil(8)));
        let width = match field.column_type {
            ColumnType::Boolean => {
                let data = self.buffer(rows.div_ceil(8));
                return ColumnResult { data, offsets: None, validity };
            }
            ColumnType::Int32 | ColumnType::Float32 | ColumnType::Date => 4,
            ColumnType::Int64 | ColumnType::Float64 | ColumnType::TimestampMillis => 8,
            ColumnType::Decimal128 { .. } => 16,
            ColumnType::Utf8 | ColumnType::Binary => return self.text(flags, rows, validity),
        };
        let data = self.buffer(rows.saturating_mul(width));
        let offsets = (flags & 0b110 == 0b110).then(|| self.buffer(4));
        ColumnResult { data, offsets, validity }
    }

    /// Offsets that mostly ascend by little, with data that mostly fits.
    fn text(&mut self, flags: u8, rows: usize, validity: Option<Vec<u8>>) -> ColumnResult {
        let mut end = 0_i32;
        let mut offsets = vec![0; 4];
        for _ in 0..rows {
            let step = self.byte();
            end = match step {
                250.. => end.wrapping_sub(i32::from(step)),
                _ => end.wrapping_add(i32::from(step % 5)),
            };
            offsets.extend(end.to_le_bytes());
        }
        if flags & 0b1000 != 0 {
            offsets = self.buffer(offsets.len());
        }
        let data = self.buffer(usize::try_from(end).unwrap_or_default());
        let offsets = (flags & 0b110 != 0b110).then_some(offsets);
        ColumnResult { data, offsets, validity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// The numbers of a generator that a seed begins.
    fn random(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }
    }

    #[test]
    fn malformed_columns_never_panic() {
        let mut random = random(5);
        let full = std::env::var_os("HOWDAH_TEST_FULL").is_some();
        let start = crate::clock::now();
        let (mut inputs, mut taken) = (0_usize, 0_usize);
        while inputs < 20_000 || full && start.elapsed() < Duration::from_secs(60) {
            let length = random() % 200;
            // Small bytes make texts that are valid; any byte comes up now and then.
            let ascii = random().is_multiple_of(2);
            let byte = |bits: u64| {
                let byte = bits.to_le_bytes()[0];
                if ascii { byte & 0x7f } else { byte }
            };
            let input: Vec<u8> = (0..length).map(|_| byte(random())).collect();
            taken += columns(&input);
            inputs += 1;
        }
        println!("{inputs} inputs, {taken} columns taken");
        assert!(taken > inputs / 4, "most of the code is not reached: {taken} of {inputs}");
    }
}

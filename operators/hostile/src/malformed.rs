//! Output that is not what its schema says.

use crate::Mode;
use crate::bindings::exports::howdah::operator::operator::Output;
use crate::bindings::howdah::operator::types::{Batch, Column};
use crate::buffers::{bits, fixed, int64s, u32s};

/// Three rows with one thing wrong; `None` if the mode is about something else.
pub(crate) fn output(mode: Mode) -> Option<Output> {
    let rows = 3;
    let mut port = 0;
    let mut batch_rows = rows;
    let mut auctions = int64s(&[1, 2, 3]);
    let mut notes = Column {
        data: b"\xC3\xA9c".to_vec(),
        offsets: Some(u32s(&[0, 2, 2, 3])),
        validity: Some(bits(&[true, false, true])),
    };
    let mut even = fixed(bits(&[true, false, true]));
    let mut timestamps = int64s(&[1, 2, 3]).data;
    let mut row_kinds = None;
    let mut drop_column = false;
    match mode {
        Mode::ShortData => auctions.data.truncate(23),
        Mode::OffsetsDescending => notes.offsets = Some(u32s(&[0, 2, 0, 3])),
        Mode::OffsetsPastEnd => notes.offsets = Some(u32s(&[0, 2, 2, 9])),
        Mode::OffsetsTooShort => notes.offsets = Some(u32s(&[0, 2, 3])),
        Mode::OffsetsMissing => notes.offsets = None,
        Mode::InvalidUtf8 => notes.data = b"\xFF\xFEc".to_vec(),
        Mode::SplitCharacter => notes.offsets = Some(u32s(&[0, 1, 1, 3])),
        Mode::ValidityTooShort => notes.validity = Some(Vec::new()),
        Mode::NullNotNullable => auctions.validity = Some(bits(&[true, false, true])),
        Mode::BitsPastEnd => even.data = vec![0b1111_0101],
        Mode::WrongColumnCount => drop_column = true,
        Mode::HugeRows => batch_rows = u32::MAX,
        Mode::UndeclaredPort => port = 7,
        Mode::TimestampsTooShort => timestamps = int64s(&[1, 2]).data,
        Mode::RowKindsInvalid => row_kinds = Some(vec![0, 9, 0]),
        Mode::RowKindsUndeclared => row_kinds = Some(vec![0, 3, 0]),
        _ => return None,
    }
    let mut columns = vec![auctions, int64s(&[1, 2, 3]), notes, even];
    if drop_column {
        columns.pop();
    }
    Some(Output { port, batch: Batch { rows: batch_rows, columns, row_kinds }, timestamps })
}

/// Rows of timers that fired, with columns that are too short.
pub(crate) fn timers(rows: u32) -> Output {
    let short = || fixed(vec![1, 2, 3]);
    let columns = vec![short(), short(), short(), short()];
    Output { port: 0, batch: Batch { rows, columns, row_kinds: None }, timestamps: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_wrong_with_a_malformed_output() {
        let short = output(Mode::ShortData).unwrap();
        let past_end = output(Mode::OffsetsPastEnd).unwrap();
        let lens = |output: &Output| -> Vec<_> {
            output.batch.columns.iter().map(|column| column.data.len()).collect()
        };
        assert_eq!(lens(&short), [23, 24, 3, 1]);
        assert_eq!(lens(&past_end), [24, 24, 3, 1]);
    }

    #[test]
    fn other_modes_have_no_malformed_output() {
        assert!(output(Mode::None).is_none());
        assert!(output(Mode::Panic).is_none());
    }
}

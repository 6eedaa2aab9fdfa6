//! State calls that the host must refuse.

use crate::Mode;
use crate::bindings::exports::howdah::operator::operator::Error;
use crate::bindings::howdah::operator::state::{Keys, ValueState};
use crate::bindings::howdah::operator::types::KeyColumns;
use crate::buffers::{fixed, int64s, u32s};

/// Makes the call of this mode and returns what the host says; `None` if the mode is about
/// something else.
pub(crate) fn call(mode: Mode, counts: &ValueState, keys: u32) -> Option<Result<(), Error>> {
    let ones = int64s(&vec![1; keys as usize]);
    let explicit = |rows, column| Keys::Explicit(KeyColumns { rows, columns: vec![column] });
    Some(match mode {
        Mode::StateUndeclared => ValueState::open("undeclared").map(drop),
        Mode::StatePutWrongColumns | Mode::StateDropError => {
            counts.put(&Keys::Current, &[ones.clone(), ones])
        }
        Mode::StatePutShortData => counts.put(&Keys::Current, &[fixed(vec![1, 2, 3])]),
        Mode::StateSelectedOutOfRange => counts.delete(&Keys::Selected(u32s(&[keys]))),
        Mode::StateExplicitForeignKey => {
            let auctions: Vec<i64> = (0..1_000).collect();
            counts.get(&explicit(1_000, int64s(&auctions))).map(drop)
        }
        Mode::StateExplicitMalformed => counts.get(&explicit(2, fixed(vec![1, 2, 3]))).map(drop),
        _ => return None,
    })
}

//! Too much of something.

use std::mem;

use crate::bindings::exports::howdah::operator::operator::{Error, Output};
use crate::bindings::howdah::operator::logging::{self, Level};
use crate::bindings::howdah::operator::state::{Keys, ValueState};
use crate::bindings::howdah::operator::types::{Batch, Column};
use crate::buffers::fixed;
use crate::spec;

/// Keeps handles until the host gives no more.
pub(crate) fn leak_handles() -> Result<(), Error> {
    loop {
        mem::forget(ValueState::open(spec::COUNTS)?);
    }
}

/// Makes up a handle.
pub(crate) fn use_forged_handle() -> Result<(), Error> {
    // SAFETY: it is only a number here; what the host makes of it is what is tested.
    let forged = unsafe { ValueState::from_handle(7_777) };
    let got = forged.get(&Keys::Current).map(drop);
    mem::forget(forged);
    got
}

pub(crate) fn log_often() {
    for number in 0..100_000 {
        logging::log(Level::Info, &format!("message {number}"));
    }
}

pub(crate) fn log_much() {
    logging::log(Level::Info, &"m".repeat(16 << 20));
}

/// So many rows, with nothing wrong about them.
pub(crate) fn rows(rows: u32) -> Output {
    let count = rows as usize;
    let columns = vec![
        fixed(vec![1; count * 8]),
        fixed(vec![2; count * 8]),
        Column {
            data: Vec::new(),
            offsets: Some(vec![0; (count + 1) * 4]),
            validity: Some(vec![0; count.div_ceil(8)]),
        },
        fixed(vec![0; count.div_ceil(8)]),
    ];
    Output {
        port: 0,
        batch: Batch { rows, columns, row_kinds: None },
        timestamps: vec![0; count * 8],
    }
}

/// A gibibyte of columns out of one mebibyte.
pub(crate) fn aliased_output() -> Output {
    const BYTES: usize = 1 << 20;
    let shared = vec![1_u8; BYTES].leak().as_mut_ptr();
    let column = || {
        // SAFETY: it is not: the buffer would be freed a thousand times. But the host reads the
        // columns before they are freed, and refuses them, which ends the instance.
        fixed(unsafe { Vec::from_raw_parts(shared, BYTES, BYTES) })
    };
    let columns = (0..1_000).map(|_| column()).collect();
    Output {
        port: 0,
        batch: Batch { rows: 131_072, columns, row_kinds: None },
        timestamps: Vec::new(),
    }
}

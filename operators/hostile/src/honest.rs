//! What the operator does when it behaves: count the rows of each auction.

use crate::bindings::exports::howdah::operator::operator::{Error, Input, Output};
use crate::bindings::howdah::operator::state::{Keys, ValueState};
use crate::bindings::howdah::operator::types::{Batch, Column};
use crate::buffers::{bits, error, fixed, int64s, read_i64s, read_u32s, u32s};

pub(crate) fn count(counts: &ValueState, input: &Input) -> Result<Vec<Output>, Error> {
    let mut bids_by_key = load(counts)?;
    let auction = input.batch.columns.first().ok_or_else(|| error("no column"))?;
    let mut auctions = Vec::new();
    let mut bids_by_row = Vec::new();
    for (auction, key) in read_i64s(&auction.data).zip(read_u32s(&input.row_keys)) {
        let bids = bids_by_key.get_mut(key as usize).ok_or_else(|| error("no such key"))?;
        *bids += 1;
        auctions.push(auction);
        bids_by_row.push(*bids);
    }
    counts.put(&Keys::Current, &[int64s(&bids_by_key)])?;
    Ok(vec![Output {
        port: 0,
        batch: Batch {
            rows: input.batch.rows,
            columns: vec![
                int64s(&auctions),
                int64s(&bids_by_row),
                notes(&bids_by_row),
                fixed(bits(&bids_by_row.iter().map(|bids| bids % 2 == 0).collect::<Vec<_>>())),
            ],
            row_kinds: None,
        },
        timestamps: input.timestamps.clone(),
    }])
}

/// The auction of each row.
pub(crate) fn auctions(input: &Input) -> impl Iterator<Item = i64> {
    input.batch.columns.first().into_iter().flat_map(|column| read_i64s(&column.data))
}

/// The count of each of the batch's keys; 0 for one that has no row yet.
fn load(counts: &ValueState) -> Result<Vec<i64>, Error> {
    let rows = counts.get(&Keys::Current)?;
    let column = rows.columns.first().ok_or_else(|| error("the state has no column"))?;
    let is_present = |key: usize| {
        rows.present
            .as_ref()
            .is_none_or(|bitmap| bitmap.get(key / 8).is_some_and(|byte| byte >> (key % 8) & 1 == 1))
    };
    Ok(read_i64s(&column.data)
        .enumerate()
        .map(|(key, bids)| if is_present(key) { bids } else { 0 })
        .collect())
}

/// `first` for the first row of an auction, nothing for the others.
fn notes(bids_by_row: &[i64]) -> Column {
    let mut column = Column { data: Vec::new(), offsets: None, validity: None };
    let mut offsets = vec![0];
    let is_first: Vec<_> = bids_by_row.iter().map(|bids| *bids == 1).collect();
    for first in &is_first {
        if *first {
            column.data.extend_from_slice(b"first");
        }
        offsets.push(u32::try_from(column.data.len()).unwrap_or(u32::MAX));
    }
    column.offsets = Some(u32s(&offsets));
    column.validity = Some(bits(&is_first));
    column
}

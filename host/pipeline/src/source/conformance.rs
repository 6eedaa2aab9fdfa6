//! The contract of a source as tests that every connector runs.

use super::{Next, Share, Source, SourceBatch, merge};
use crate::checkpoint::SourcePosition;
use crate::error::Result;
use arrow_array::RecordBatch;

/// A connector under test: opens the same input at a position.
pub(super) type Open<'a> = &'a dyn Fn(Option<&SourcePosition>) -> Result<Box<dyn Source>>;

/// A row, as text, with its kind where it is of a changelog; and its event time.
pub(super) type Row = (String, i64);

/// Runs all of it; returns the rows.
pub(super) fn check(open: Open<'_>) -> Vec<Row> {
    let all = rest(&mut *open(None).expect("opened"), 1_000);
    assert!(all.len() > 10, "the input is too short to tell anything");
    for limit in [1, 3, 7] {
        positions_restore_exactly(open, &all, limit);
    }
    all
}

/// A connector under test that can be shared: opens the share of a subtask at a position of all.
pub(super) type OpenShare<'a> =
    &'a dyn Fn(Share, Option<&SourcePosition>) -> Result<Box<dyn Source>>;

/// However many subtasks share a source, and however far each has come when their number changes,
/// together they return all rows once.
pub(super) fn check_shares(open: OpenShare<'_>, all: &[Row]) {
    let mut expected = all.to_vec();
    expected.sort_unstable();
    for numbers in [[1, 3, 1], [3, 2, 5], [2, 7, 3]] {
        let (mut position, mut seen) = (None, Vec::new());
        for (round, of) in numbers.into_iter().enumerate() {
            let mut positions = Vec::new();
            for share in Share::all(of) {
                let mut source = open(share, position.as_ref()).expect("opened");
                // Some come far, some not at all; in the last round all come to the end.
                for _ in 0..(share.subtask * 3 + 1) % 5 {
                    if let Next::Batch(batch) = source.next(all.len() / 9 + 1).expect("read") {
                        seen.extend(rows_of(&batch));
                    }
                }
                if round + 1 == numbers.len() {
                    seen.extend(rest(&mut *source, 1_000));
                }
                positions.push(source.position().expect("a position"));
            }
            let merged = merge(&positions).expect("one position");
            // As it comes out of a document.
            let text = serde_json::to_string(&merged).expect("JSON");
            position = Some(serde_json::from_str(&text).expect("a position"));
        }
        seen.sort_unstable();
        assert_eq!(seen, expected, "{numbers:?}");
        let whole = position.map(|position| position.rows);
        let read = open(Share::WHOLE, None).and_then(|mut source| {
            rest(&mut *source, 1_000);
            source.position()
        });
        assert_eq!(whole, Some(read.expect("a position").rows));
    }
}

/// Rows from where a source is to its end, or until it has none now.
pub(super) fn rest(source: &mut dyn Source, limit: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    loop {
        let before = source.progress().rows;
        match source.next(limit).expect("read") {
            Next::Batch(batch) => {
                assert!(batch.rows.num_rows() <= limit, "a batch has {limit} rows at most");
                assert_eq!(batch.event_times.len(), batch.rows.num_rows());
                let kinds = batch.row_kinds.as_ref();
                assert!(kinds.is_none_or(|kinds| kinds.len() == batch.rows.num_rows()));
                let places = batch.lines.iter().count();
                assert_eq!(places, batch.rows.num_rows(), "every row has its place");
                let kept = u64::try_from(batch.rows.num_rows()).expect("small");
                let read = source.progress().rows - before;
                let rejected = u64::try_from(batch.rejected.len()).expect("small");
                assert_eq!(read, kept + batch.filtered + rejected, "every row is accounted for");
                rows.extend(rows_of(&batch));
            }
            Next::Idle(_) => return rows,
            Next::End => {
                assert!(matches!(source.next(limit).expect("read"), Next::End), "an end lasts");
                return rows;
            }
        }
    }
}

pub(super) fn rows_of(batch: &SourceBatch) -> Vec<Row> {
    let text = |batch: &RecordBatch| {
        let mut text = Vec::new();
        let mut writer = arrow_json::LineDelimitedWriter::new(&mut text);
        writer.write(batch).expect("written");
        writer.finish().expect("written");
        String::from_utf8(text).expect("text")
    };
    let kind = |row: usize| {
        let kind = usize::from(batch.row_kinds.as_ref()?[row]);
        Some(["+I ", "-U ", "+U ", "-D "][kind])
    };
    let row = |row| kind(row).unwrap_or_default().to_owned() + &text(&batch.rows.slice(row, 1));
    let rows = (0..batch.rows.num_rows()).map(row);
    rows.zip(batch.event_times.iter().copied()).collect()
}

/// Whatever position a batch ends at, opening there goes on with exactly the next row.
fn positions_restore_exactly(open: Open<'_>, all: &[Row], limit: usize) {
    let mut source = open(None).expect("opened");
    let mut seen: Vec<Row> = Vec::new();
    loop {
        let position = source.position().expect("a position");
        assert_eq!(position.rows, source.progress().rows);
        // As it comes out of a document.
        let text = serde_json::to_string(&position).expect("JSON");
        let position: SourcePosition = serde_json::from_str(&text).expect("a position");
        let mut restarted = open(Some(&position)).expect("opened");
        assert_eq!(restarted.position().expect("a position").rows, position.rows);
        assert_eq!(rest(&mut *restarted, limit + 1), all[seen.len()..]);
        source.checkpoint_completed(&position).expect("heard");
        match source.next(limit).expect("read") {
            Next::Batch(batch) => seen.extend(rows_of(&batch)),
            Next::Idle(_) | Next::End => break,
        }
    }
    assert_eq!(seen, all);
}

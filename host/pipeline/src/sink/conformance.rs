//! The contract of a sink as tests that every connector runs.

use super::{Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::error::Result;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use howdah_runtime::{Output, OutputSpec};
use howdah_state::{Column, ColumnType};
use std::sync::Arc;

/// What becomes of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    /// They are kept, and taken back with their checkpoint.
    All,
    /// They are gone once they are visible, as what is printed.
    Printed,
    /// Nobody sees them.
    Nothing,
}

/// A connector under test.
pub(super) struct Case<'a> {
    pub(super) keeps: Keeps,
    /// Opens the same place, as another process does.
    pub(super) open: &'a dyn Fn() -> Result<Box<dyn Sink>>,
    /// Forgets what is visible and cannot be taken back.
    pub(super) begin: &'a dyn Fn(),
    /// The ids of the rows that are visible, ascending.
    pub(super) visible: &'a dyn Fn() -> Vec<i64>,
    /// Files that are there and not visible.
    pub(super) hidden: &'a dyn Fn() -> usize,
}

/// What every connector is opened with.
pub(super) fn output_spec(changelog: bool) -> OutputSpec {
    OutputSpec {
        name: "out".into(),
        fields: vec![
            Column::required("id", ColumnType::Int64),
            Column::nullable("name", ColumnType::Utf8),
            Column::required("at", ColumnType::TimestampMillis),
        ],
        changelog,
    }
}

/// Rows with these ids.
pub(super) fn rows(ids: &[i64], row_kinds: Option<Vec<u8>>) -> Output {
    let names = ids.iter().map(|id| (id % 2 == 0).then_some("even"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.to_vec())),
        Arc::new(names.collect::<StringArray>()),
        Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_123; ids.len()])),
    ];
    let batch = RecordBatch::try_new(output_spec(false).schema(), columns).expect("a batch");
    Output { port: 0, batch, timestamps: vec![0; ids.len()], row_kinds }
}

impl Case<'_> {
    /// Whether just these rows are visible.
    fn assert_visible(&self, ids: impl IntoIterator<Item = i64>, why: &str) {
        let ids: Vec<i64> = ids.into_iter().filter(|_| self.keeps != Keeps::Nothing).collect();
        assert_eq!((self.visible)(), ids, "{why}");
    }
}

/// Runs all of it.
pub(super) fn check(case: &Case<'_>) {
    committed_rows_are_visible_once(case);
    what_no_checkpoint_covers_is_gone_after_recovery(case);
    a_commit_that_a_crash_prevented_is_made_up_for(case);
    output_of_later_checkpoints_is_taken_back(case);
    a_checkpoint_without_rows_has_no_handle(case);
    the_beginning_has_no_output(case);
}

/// An opened sink at its beginning, with two writers.
fn fresh(case: &Case<'_>) -> (Box<dyn Sink>, Vec<Box<dyn SinkWriter>>) {
    let mut sink = (case.open)().expect("opened");
    sink.recover(None).expect("recovered");
    // What is printed is read by somebody else each time.
    (case.begin)();
    let writers = writers(&*sink, 0);
    (sink, writers)
}

fn writers(sink: &dyn Sink, base: u64) -> Vec<Box<dyn SinkWriter>> {
    (0..2).map(|subtask| sink.writer(subtask, base).expect("a writer")).collect()
}

/// Ten rows of a checkpoint, from `ten` times its number on; as they come out of a document.
fn prepare(
    case: &Case<'_>,
    writers: &mut [Box<dyn SinkWriter>],
    checkpoint: u64,
) -> Vec<SinkHandle> {
    let first = i64::try_from(checkpoint).expect("small") * 10;
    let mut handles = Vec::new();
    for (subtask, writer) in (0..).zip(writers) {
        let ids: Vec<i64> = (first..first + 10).filter(|id| id % 2 == subtask).collect();
        writer.write(&rows(&ids[..2], None)).expect("written");
        writer.write(&rows(&ids[2..], None)).expect("written");
        let handle = writer.prepare(checkpoint).expect("prepared");
        assert_eq!(handle.is_some(), case.keeps != Keeps::Nothing, "a handle where there are rows");
        assert!(handle.iter().all(|handle| handle.rows == 5));
        handles.extend(handle);
    }
    let text = serde_json::to_string(&handles).expect("JSON");
    serde_json::from_str(&text).expect("handles")
}

fn commit(sink: &mut dyn Sink, checkpoint: u64, handles: &[SinkHandle]) {
    sink.seal(handles).expect("sealed");
    sink.commit(checkpoint, handles).expect("committed");
}

fn committed_rows_are_visible_once(case: &Case<'_>) {
    let (mut sink, mut writers) = fresh(case);
    let handles = prepare(case, &mut writers, 1);
    sink.seal(&handles).expect("sealed");
    case.assert_visible([], "prepared rows are not visible");
    sink.commit(1, &handles).expect("committed");
    sink.commit(1, &handles).expect("committed again");
    case.assert_visible(10..20, "a commit that is repeated");
    let handles = prepare(case, &mut writers, 2);
    case.assert_visible(10..20, "prepared rows are not visible");
    commit(&mut *sink, 2, &handles);
    case.assert_visible(10..30, "two commits");
    assert_eq!(sink.has_output().expect("known"), case.keeps == Keeps::All);
}

fn what_no_checkpoint_covers_is_gone_after_recovery(case: &Case<'_>) {
    let (mut sink, mut before) = fresh(case);
    let first = prepare(case, &mut before, 1);
    commit(&mut *sink, 1, &first);
    prepare(case, &mut before, 2);
    before[0].write(&rows(&[30, 31], None)).expect("written");
    // A crash: nobody aborts.
    before.into_iter().for_each(std::mem::forget);
    drop(sink);
    let mut sink = (case.open)().expect("opened");
    case.assert_visible(10..20, "opening changes nothing");
    sink.recover(Some((1, &first))).expect("recovered");
    case.assert_visible(10..20, "recovered");
    assert_eq!((case.hidden)(), 0, "nothing is left over");
    let mut writers = writers(&*sink, 1);
    let handles = prepare(case, &mut writers, 2);
    commit(&mut *sink, 2, &handles);
    case.assert_visible(10..30, "it goes on");
}

fn a_commit_that_a_crash_prevented_is_made_up_for(case: &Case<'_>) {
    let (mut sink, mut before) = fresh(case);
    let handles = prepare(case, &mut before, 1);
    sink.seal(&handles).expect("sealed");
    drop((sink, before));
    for _ in 0..2 {
        let mut sink = (case.open)().expect("opened");
        sink.recover(Some((1, &handles))).expect("recovered");
        case.assert_visible(10..20, "once, however often it is recovered");
    }
}

fn output_of_later_checkpoints_is_taken_back(case: &Case<'_>) {
    let (mut sink, mut before) = fresh(case);
    let first = prepare(case, &mut before, 1);
    commit(&mut *sink, 1, &first);
    for checkpoint in [2, 3] {
        let handles = prepare(case, &mut before, checkpoint);
        commit(&mut *sink, checkpoint, &handles);
    }
    drop((sink, before));
    let mut sink = (case.open)().expect("opened");
    sink.recover(Some((1, &first))).expect("recovered");
    let kept = if case.keeps == Keeps::All { 10..20 } else { 10..40 };
    case.assert_visible(kept.clone(), "what can be taken back is");
    // Numbers go on.
    let mut writers = writers(&*sink, 1);
    let handles = prepare(case, &mut writers, 4);
    commit(&mut *sink, 4, &handles);
    case.assert_visible(kept.chain(40..50), "it goes on");
}

fn a_checkpoint_without_rows_has_no_handle(case: &Case<'_>) {
    let (mut sink, mut writers) = fresh(case);
    for writer in &mut writers {
        assert_eq!(writer.prepare(1).expect("prepared"), None);
    }
    commit(&mut *sink, 1, &[]);
    case.assert_visible([], "there were no rows");
    let handles = prepare(case, &mut writers, 2);
    commit(&mut *sink, 2, &handles);
    case.assert_visible(20..30, "it goes on");
}

fn the_beginning_has_no_output(case: &Case<'_>) {
    let (sink, _) = fresh(case);
    case.assert_visible([], "the beginning");
    assert!(!sink.has_output().expect("known"));
    assert_eq!((case.hidden)(), 0);
}

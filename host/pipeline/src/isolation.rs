//! Rows and timers that make an operator fail are found and set aside, and the others proceed.
//!
//! So are watermarks, as the next one stands for them too, and news of checkpoints, which changes
//! nothing. A failure of `on-barrier` or `close` is not isolated: what they flush is of rows that were
//! processed already.
//!
//! The rows that were set aside are part of the checkpoint whose barrier follows them: they are
//! held until then and written at the barrier, one file for each checkpoint and subtask that has
//! any. A restart removes the files of checkpoints that were not completed, as it reads those rows
//! again.

use crate::directory;
use crate::error::{Error, Result};
use crate::exchange::Rows;
use crate::sink::TIMESTAMP_FORMAT;
use arrow_array::RecordBatch;
use arrow_json::writer::LineDelimited;
use arrow_schema::{Fields, Schema};
use howdah_runtime::DiscardedTimers;
use howdah_state::Column;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The directory in the state directory that the files are in.
pub(crate) const DIRECTORY: &str = "failed-rows";
/// The longest error that is kept with a row.
const ERROR_LIMIT_BYTES: usize = 4 << 10;

/// Takes rows through an operator, all at once if it can. A batch that it fails on is split until
/// the rows are found that it fails on alone; those are set aside. Rows keep their order.
///
/// The outer error of `process` is an end; the inner one says that the operator failed, and that
/// nothing came of it.
pub(crate) fn isolate<T>(
    rows: Rows,
    mut process: impl FnMut(&Rows) -> Result<Result<Vec<T>>>,
    mut set_aside: impl FnMut(&Rows, Error) -> Result<()>,
) -> Result<Vec<T>> {
    let mut outputs = Vec::new();
    // The next ones are last.
    let mut waiting = vec![rows];
    while let Some(rows) = waiting.pop() {
        match process(&rows)? {
            Ok(emitted) => outputs.extend(emitted),
            Err(error) if rows.batch.num_rows() <= 1 => set_aside(&rows, error)?,
            Err(_) => {
                let middle = rows.batch.num_rows() / 2;
                let (first, second) = rows.split(middle);
                waiting.extend([second, first]);
            }
        }
    }
    Ok(outputs)
}

/// The rows and timers of one subtask that are set aside.
#[derive(Debug)]
pub(crate) struct FailedRows {
    directory: PathBuf,
    /// Part of the names of files; `None`: there is one operator.
    operator: Option<String>,
    subtask: u32,
    sync: bool,
    /// The most of a run, over all subtasks.
    limit: u64,
    /// How many there are in this run, over all subtasks.
    count: Arc<AtomicU64>,
    /// The columns of keys.
    key: Vec<Column>,
    /// Lines of the next file.
    lines: Vec<u8>,
}

impl FailedRows {
    /// One for each subtask of an operator; `None` is the only one of its pipeline. Removes the files
    /// of checkpoints after the one that the run goes on from.
    pub(crate) fn open(
        state_directory: &Path,
        operator: Option<&str>,
        checkpoint: Option<u64>,
        parallelism: u32,
        (limit, sync): (u64, bool),
        key: &[Column],
    ) -> Result<Vec<Self>> {
        let directory = state_directory.join(DIRECTORY);
        for name in directory::names(&directory)? {
            let number = name.split_once('-').and_then(|(number, _)| number.parse::<u64>().ok());
            if number.is_some_and(|number| number > checkpoint.unwrap_or(0)) {
                directory::remove(&directory.join(name))?;
            }
        }
        let count = Arc::new(AtomicU64::new(0));
        let of = |subtask| Self {
            directory: directory.clone(),
            operator: operator.map(str::to_owned),
            subtask,
            sync,
            limit,
            count: Arc::clone(&count),
            key: key.to_vec(),
            lines: Vec::new(),
        };
        Ok((0..parallelism).map(of).collect())
    }

    /// Sets a row aside with the error of the operator; that error, when there are too many.
    pub(crate) fn add_row(&mut self, row: &Rows, error: Error) -> Result<()> {
        let what = || row.lines.describe().unwrap_or_else(|| "a row".to_owned());
        let error = self.admit(error, what)?;
        let mut places = row.lines.iter();
        for json in json(&row.batch)?.lines() {
            let place = match places.next() {
                Some((origin, line)) => {
                    format!("\"source\":{},\"line\":{line},", quoted(origin.name())?)
                }
                None => String::new(),
            };
            self.add(&error, &format!("{place}\"row\":{json}"))?;
        }
        Ok(())
    }

    /// Sets timers aside in the same way.
    pub(crate) fn add_timers(&mut self, timers: &DiscardedTimers, error: Error) -> Result<()> {
        let error = self.admit(error, || format!("timers `{}`", timers.family))?;
        let fields: Fields = self.key.iter().map(Column::to_arrow).collect();
        let columns = timers.keys.columns().to_vec();
        let keys = json(&RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)?;
        let family = quoted(&timers.family)?;
        for (key, time) in keys.lines().zip(&timers.times) {
            let of = format!("\"timer\":{family},\"time\":{time},\"key\":{key}");
            self.add(&error, &of)?;
        }
        Ok(())
    }

    /// Sets a call aside that has neither rows nor timers; `at` is the watermark or checkpoint that it
    /// was told of, called `what`.
    pub(crate) fn add_call(
        &mut self,
        function: &str,
        what: &str,
        at: impl Display,
        error: Error,
    ) -> Result<()> {
        let error = self.admit(error, || function.to_owned())?;
        let of = format!("\"call\":{},\"{what}\":{at}", quoted(function)?);
        self.add(&error, &of)
    }

    /// The error of what is set aside, unless there are too many. The first one is told.
    fn admit(&self, error: Error, what: impl FnOnce() -> String) -> Result<String> {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        if before < self.limit {
            if before == 0 {
                let (what, directory) = (what(), self.directory.display());
                tracing::warn!("set aside in {directory}, as will be others: {what}: {error}");
            }
            return Ok(error.to_string());
        }
        let limit = self.limit;
        Err(error.with_hint(format!(
            "more than {limit} rows make it fail (isolated-rows in [operator.failure])"
        )))
    }

    fn add(&mut self, error: &str, of: &str) -> Result<()> {
        let error = error.get(..error.floor_char_boundary(ERROR_LIMIT_BYTES)).unwrap_or_default();
        let (subtask, error) = (self.subtask, quoted(error)?);
        writeln!(self.lines, "{{\"subtask\":{subtask},\"error\":{error},{of}}}")
            .map_err(|error| no_json(&error))
    }

    /// The barrier of a checkpoint: writes what was set aside before it.
    pub(crate) fn seal(&mut self, checkpoint: u64) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        directory::create(&self.directory)?;
        let name = match &self.operator {
            None => format!("{checkpoint}-{}", self.subtask),
            Some(operator) => format!("{checkpoint}-{operator}-{}", self.subtask),
        };
        let path = self.directory.join(format!("{name}.ndjson"));
        let temporary = self.directory.join(format!("{name}.tmp"));
        directory::write(&path, &temporary, &self.lines, self.sync)?;
        self.lines.clear();
        Ok(())
    }
}

fn quoted(text: &str) -> Result<String> {
    serde_json::to_string(text).map_err(|error| no_json(&error))
}

/// Rows as JSON objects, one a line.
fn json(rows: &RecordBatch) -> Result<String> {
    let mut json = Vec::new();
    arrow_json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .with_timestamp_format(TIMESTAMP_FORMAT.to_owned())
        .build::<_, LineDelimited>(&mut json)
        .write(rows)
        .map_err(|error| no_json(&error))?;
    String::from_utf8(json).map_err(|error| no_json(&error))
}

/// Encoding goes to memory and has no reason to fail.
fn no_json(error: &dyn Display) -> Error {
    Error::internal(format!("what the operator failed on is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::exchange::Exchange;
    use crate::lines::Lines;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array, TimestampMillisecondArray};
    use howdah_state::{ColumnType, KeyGroups};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn key() -> [Column; 1] {
        [Column::required("key", ColumnType::Int64)]
    }

    /// Lines that tell rows apart.
    fn lines(values: &[i64]) -> Lines {
        Lines::of("rows.csv", values.iter().map(|value| value.unsigned_abs() + 2))
    }

    fn rows(values: &[i64]) -> Rows {
        let groups = KeyGroups::new(128, 1).expect("key groups");
        let mut exchange = Exchange::new(&key(), vec![0], groups).expect("an exchange");
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let batch = RecordBatch::try_from_iter([("key", column)]).expect("a batch");
        let mut split = exchange.split(&batch, values, None, &lines(values)).expect("split");
        split.remove(0).expect("rows")
    }

    fn values(rows: &Rows) -> Vec<i64> {
        let values = rows.batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(values, rows.event_times);
        assert_eq!(lines(&values), rows.lines);
        assert_eq!(values.len(), rows.keys.len());
        values
    }

    fn trap(what: &str) -> Error {
        Error::new(ErrorKind::Operator, what)
    }

    proptest! {
        #[test]
        fn good_rows_proceed_in_order_and_bad_ones_are_found(
            all in proptest::collection::vec(0_i64..50, 1..200),
            bad in proptest::collection::btree_set(0_i64..50, 0..10),
        ) {
            // The same operator without isolation, on the good rows alone.
            let expected: Vec<i64> = all.iter().copied().filter(|v| !bad.contains(v)).collect();
            let mut aside = Vec::new();
            let process = |rows: &Rows| match values(rows) {
                values if values.iter().any(|value| bad.contains(value)) => Ok(Err(trap("bad"))),
                values => Ok(Ok(values)),
            };
            let set_aside = |row: &Rows, error: Error| {
                aside.push((values(row), error.to_string()));
                Ok(())
            };
            let outputs = isolate(rows(&all), process, set_aside).expect("isolated");
            prop_assert_eq!(outputs, expected);
            let found: Vec<i64> = all.iter().copied().filter(|v| bad.contains(v)).collect();
            let aside: Vec<i64> = aside.into_iter().flat_map(|(values, _)| values).collect();
            prop_assert_eq!(aside, found);
        }
    }

    #[test]
    fn a_batch_without_bad_rows_is_processed_once() {
        let mut calls = 0;
        let process = |rows: &Rows| {
            calls += 1;
            Ok(Ok(values(rows)))
        };
        isolate(rows(&[1, 2, 3]), process, |_, error| Err(error)).expect("processed");
        assert_eq!(calls, 1);
    }

    #[test]
    fn other_failures_isolate_nothing() {
        let process =
            |_: &Rows| Err::<Result<Vec<()>>, _>(Error::new(ErrorKind::Storage, "disk full"));
        let error = isolate(rows(&[1, 2]), process, |_, _| Ok(())).expect_err("failed");
        assert_eq!(error.kind(), ErrorKind::Storage);
    }

    fn names(directory: &Path) -> BTreeSet<String> {
        directory::names(&directory.join(DIRECTORY)).expect("names").into_iter().collect()
    }

    fn open(directory: &Path, checkpoint: Option<u64>, limit: u64) -> FailedRows {
        let mut all = FailedRows::open(directory, None, checkpoint, 2, (limit, false), &key())
            .expect("opened");
        all.remove(1)
    }

    #[test]
    fn rows_set_aside_are_in_the_file_of_their_checkpoint() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut failed = open(directory.path(), None, 10);
        failed.add_row(&rows(&[7]), trap("a \"trap\"")).expect("added");
        failed.seal(1).expect("sealed");
        failed.seal(2).expect("nothing to seal");
        assert_eq!(names(directory.path()), ["1-1.ndjson".to_owned()].into());
        let text = std::fs::read_to_string(directory.path().join(DIRECTORY).join("1-1.ndjson"));
        let expected =
            r#"{"subtask":1,"error":"a \"trap\"","source":"rows.csv","line":9,"row":{"key":7}}"#;
        assert_eq!(text.expect("text"), format!("{expected}\n"));
    }

    #[test]
    fn times_of_rows_are_written_as_those_that_come_out() {
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_007]));
        let batch = RecordBatch::try_from_iter([("at", times)]).expect("a batch");
        assert_eq!(json(&batch).expect("text"), "{\"at\":\"2023-11-14 22:13:20.007\"}\n");
    }

    #[test]
    fn a_restart_removes_the_files_of_later_checkpoints() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut failed = open(directory.path(), None, 10);
        for checkpoint in [1, 2, 10] {
            failed.add_row(&rows(&[7]), trap("trap")).expect("added");
            failed.seal(checkpoint).expect("sealed");
        }
        open(directory.path(), Some(2), 10);
        let kept = ["1-1.ndjson".to_owned(), "2-1.ndjson".to_owned()];
        assert_eq!(names(directory.path()), kept.into());
        open(directory.path(), None, 10);
        assert_eq!(names(directory.path()), BTreeSet::new());
    }

    #[test]
    fn more_than_the_limit_is_the_failure_of_the_operator() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut all =
            FailedRows::open(directory.path(), None, None, 2, (2, false), &key()).expect("opened");
        let row = rows(&[7]);
        for failed in &mut all {
            failed.add_row(&row, trap("trap")).expect("within the limit");
        }
        let last = all[0].add_row(&row, trap("the last"));
        let error = last.expect_err("past the limit").to_string();
        assert!(error.starts_with("the last; more than 2 rows make it fail"), "{error}");
    }
}

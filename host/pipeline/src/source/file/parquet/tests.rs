use crate::source::file::tests::{Files, as_parquet, parquet_file};
use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use std::sync::Arc;

fn files(columns: Vec<(&str, ArrayRef)>) -> Files {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    Files::new("rows.parquet", &parquet_file(&batch.expect("a batch")))
}

fn name() -> (&'static str, ArrayRef) {
    ("name", Arc::new(StringArray::from(vec![Some("a"), None])))
}

#[test]
fn narrower_columns_and_finer_timestamps_are_read() {
    let files = files(vec![
        ("id", Arc::new(Int32Array::from(vec![1, 2]))),
        name(),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![5_000, 6_000]))),
    ]);
    let (rows, _) = files.read("").expect("read");
    assert_eq!(rows, [(1, Some("a".into()), 5), (2, None, 6)]);
}

#[test]
fn a_timestamp_with_a_time_zone_is_its_instant() {
    let at = TimestampMicrosecondArray::from(vec![5_000, 6_000]).with_timezone("+02:00");
    let files =
        files(vec![("id", Arc::new(Int32Array::from(vec![1, 2]))), name(), ("at", Arc::new(at))]);
    let (rows, _) = files.read("").expect("read");
    assert_eq!(rows, [(1, Some("a".into()), 5), (2, None, 6)]);
}

#[test]
fn a_timestamp_that_would_lose_digits_is_malformed() {
    let files = files(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2]))),
        name(),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![5_000, 6_001]))),
    ]);
    assert_eq!(
        files.refused(""),
        "rows.parquet:2: column `at`: `1970-01-01T00:00:00.006001` is no timestamp-millis; mend \
         the row, or set on-error = \"skip\" or \"dead-letter\" in [source]"
    );
    let (rows, rejected) = files.read("on-error = \"dead-letter\"").expect("read");
    assert_eq!((rows.len(), rejected.len()), (1, 1));
    assert_eq!(rejected[0].raw, b"id=2, name=, at=1970-01-01T00:00:00.006001");
}

#[test]
fn a_null_that_the_operator_cannot_take_is_malformed() {
    let files = files(vec![
        ("id", Arc::new(Int64Array::from(vec![Some(1), None]))),
        name(),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 0]))),
    ]);
    assert!(files.refused("").starts_with("rows.parquet:2: column `id` has no value"));
}

#[test]
fn a_file_without_a_footer_is_refused() {
    let whole = as_parquet(&[(1, None, 5)]);
    let files = Files::new("rows.parquet", &whole[..whole.len() / 2]);
    let message = files.refused("");
    assert!(message.starts_with("rows.parquet is no whole Parquet file: "), "{message}");
    assert!(message.ends_with("; its footer may be cut off"), "{message}");
}

#[test]
fn a_damaged_page_is_an_error_and_never_a_row() {
    let mut bytes = as_parquet(&(0..1_000).map(|id| (id, None, 5)).collect::<Vec<_>>());
    for byte in bytes.iter_mut().skip(4).take(40) {
        *byte = 0xff;
    }
    let files = Files::new("rows.parquet", &bytes);
    let message = files.refused("on-error = \"skip\"");
    assert!(message.starts_with("rows.parquet: the rows from 1 on cannot be read: "), "{message}");
}

//! What all formats have in common, and helpers for their own tests.

use super::*;
use crate::config::PipelineConfig;
use crate::error::Error;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use howdah_runtime::InputSpec;
use howdah_state::{Column, ColumnType};
use proptest::prelude::*;
use std::path::PathBuf;

/// A row as the tests see it: `id`, `name`, `at`.
pub(super) type Row = (i64, Option<String>, i64);

/// A source file and the pipeline file around it.
pub(super) struct Files {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl Files {
    pub(super) fn new(name: &str, content: &[u8]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("written");
        std::fs::write(directory.path().join("o.wasm"), "").expect("written");
        Self { directory, path }
    }

    /// Replaces the content of the file.
    pub(super) fn write(&self, content: &[u8]) {
        std::fs::write(&self.path, content).expect("written");
    }

    /// A pipeline file with these lines in [source].
    pub(super) fn config(&self, source: &str) -> PipelineConfig {
        let text = format!(
            "name = \"q\"\n[source]\npath = \"{}\"\n{source}\n[operator]\nname = \"o\"\n\
             component = \"o.wasm\"\n[sink]\ntype = \"null\"\n",
            self.path.file_name().and_then(|name| name.to_str()).expect("a name")
        );
        let file = self.directory.path().join("q.toml");
        PipelineConfig::parse(&file, &text).expect("a configuration")
    }

    pub(super) fn open(
        &self,
        source: &str,
        position: Option<SourcePosition>,
    ) -> Result<Box<dyn Source>> {
        let config = self.config(source);
        let source = &config.sources[0];
        let shape = inspect(source)?;
        let wanted = |field: &Column| Wanted {
            field: field.clone(),
            column: field.name.clone(),
            line: None,
            node_line: 1,
        };
        let wanted: Vec<Wanted> = input().fields.iter().map(wanted).collect();
        let plan = Plan::resolve(&config.file, source, &wanted, &shape)?;
        open(source, Arc::new(plan), position)
    }

    /// Reads to the end; the kept rows and the rejected ones.
    pub(super) fn read(&self, source: &str) -> Result<(Vec<Row>, Vec<Rejected>)> {
        read(self.open(source, None)?.as_mut(), 100)
    }

    /// The message of the error that reading ends with, without the directory.
    pub(super) fn refused(&self, source: &str) -> String {
        self.shown(&self.read(source).expect_err("refused"))
    }

    pub(super) fn shown(&self, error: &Error) -> String {
        error.to_string().replace(&format!("{}/", self.directory.path().display()), "")
    }
}

fn input() -> InputSpec {
    InputSpec {
        name: "rows".into(),
        fields: vec![
            Column::required("id", ColumnType::Int64),
            Column::nullable("name", ColumnType::Utf8),
            Column::required("at", ColumnType::TimestampMillis),
        ],
        key: vec!["id".into()],
        changelog: false,
    }
}

fn read(source: &mut dyn Source, limit: usize) -> Result<(Vec<Row>, Vec<Rejected>)> {
    let (mut rows, mut rejected) = (Vec::new(), Vec::new());
    while let Some(batch) = source.next_batch(limit)? {
        assert!(batch.rows.num_rows() <= limit.max(1));
        rows.extend(rows_of(&batch));
        rejected.extend(batch.rejected);
    }
    Ok((rows, rejected))
}

fn rows_of(batch: &SourceBatch) -> Vec<Row> {
    let ids = batch.rows.column(0).as_primitive::<Int64Type>();
    let names = batch.rows.column(1).as_string::<i32>();
    let times = arrow_cast::cast(batch.rows.column(2), &arrow_schema::DataType::Int64);
    let times = times.expect("cast");
    let times = times.as_primitive::<Int64Type>();
    let row = |row| {
        let name = names.is_valid(row).then(|| names.value(row).to_owned());
        (ids.value(row), name, times.value(row))
    };
    (0..batch.rows.num_rows()).map(row).collect()
}

/// Whatever position a batch ends at, opening there goes on with exactly the next row.
fn restart_is_exact(files: &Files, rows: &[Row], limit: usize) -> Result<(), TestCaseError> {
    let mut source = files.open("event-time = \"at\"", None).expect("opened");
    let mut seen = Vec::new();
    loop {
        let position = source.position();
        prop_assert_eq!(position.rows, seen.len() as u64);
        let mut restarted = files.open("", Some(position)).expect("opened");
        let (rest, _) = read(restarted.as_mut(), limit).expect("read");
        prop_assert_eq!(&rest, &rows[seen.len()..]);
        prop_assert_eq!(restarted.position().rows, rows.len() as u64);
        let Some(batch) = source.next_batch(limit).expect("read") else { break };
        let read = rows_of(&batch);
        let times: Vec<i64> = read.iter().map(|(_, _, at)| *at).collect();
        prop_assert_eq!(&batch.event_times, &times);
        seen.extend(read);
    }
    prop_assert_eq!(seen, rows);
    Ok(())
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let name = prop::option::of("[a-z,\"\n\u{e9} ]{1,8}");
    let row = (any::<i64>(), name, 0..4_000_000_000_000_i64);
    prop::collection::vec(row, 1..40)
}

fn as_csv(rows: &[Row]) -> Vec<u8> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(["at", "other", "name", "id"]).expect("written");
    for (id, name, at) in rows {
        let name = name.as_deref().unwrap_or("");
        let fields = [&at.to_string(), "x", name, &id.to_string()];
        writer.write_record(fields).expect("written");
    }
    writer.into_inner().expect("written")
}

fn as_ndjson(rows: &[Row]) -> Vec<u8> {
    let line = |(id, name, at): &Row| {
        serde_json::json!({"at": at, "other": [1], "name": name, "id": id}).to_string() + "\n"
    };
    rows.iter().map(line).collect::<String>().into_bytes()
}

/// The name of a file and what makes its content from rows.
type Encoder = (&'static str, fn(&[Row]) -> Vec<u8>);

const ENCODERS: [Encoder; 3] =
    [("rows.csv", as_csv), ("rows.ndjson", as_ndjson), ("rows.parquet", as_parquet)];

pub(super) fn as_parquet(rows: &[Row]) -> Vec<u8> {
    let columns: [(_, ArrayRef); 3] = [
        ("at", Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.2)))),
        ("name", Arc::new(rows.iter().map(|row| row.1.as_deref()).collect::<StringArray>())),
        ("id", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)))),
    ];
    parquet_file(&RecordBatch::try_from_iter(columns).expect("a batch"))
}

/// A Parquet file with small row groups.
pub(super) fn parquet_file(batch: &RecordBatch) -> Vec<u8> {
    let properties = ::parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(7))
        .build();
    let mut file = Vec::new();
    let mut writer =
        ::parquet::arrow::ArrowWriter::try_new(&mut file, batch.schema(), Some(properties))
            .expect("a writer");
    writer.write(batch).expect("written");
    writer.close().expect("closed");
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_csv_file_goes_on_at_any_position(rows in rows(), limit in 1_usize..10) {
        restart_is_exact(&Files::new("rows.csv", &as_csv(&rows)), &rows, limit)?;
    }

    #[test]
    fn an_ndjson_file_goes_on_at_any_position(rows in rows(), limit in 1_usize..10) {
        restart_is_exact(&Files::new("rows.ndjson", &as_ndjson(&rows)), &rows, limit)?;
    }

    #[test]
    fn a_parquet_file_goes_on_at_any_position(rows in rows(), limit in 1_usize..10) {
        restart_is_exact(&Files::new("rows.parquet", &as_parquet(&rows)), &rows, limit)?;
    }
}

#[test]
fn rows_that_the_filter_keeps_out_are_counted_in_every_format() {
    let rows: Vec<Row> = (0..20).map(|id| (id, Some(format!("n{}", id % 2)), id)).collect();
    for (name, content) in [
        ("rows.csv", as_csv(&rows)),
        ("rows.ndjson", as_ndjson(&rows)),
        ("rows.parquet", as_parquet(&rows)),
    ] {
        let files = Files::new(name, &content);
        let mut source = files.open("filter = { name = \"n1\" }", None).expect("opened");
        let batch = source.next_batch(100).expect("read").expect("a batch");
        assert_eq!((batch.filtered, batch.rows.num_rows()), (10, 10), "{name}");
        assert!(rows_of(&batch).iter().all(|row| row.1.as_deref() == Some("n1")), "{name}");
        assert_eq!(source.position().rows, 20, "{name}");
    }
}

#[test]
fn a_file_that_has_shrunk_since_the_checkpoint_is_refused_in_every_format() {
    let rows: Vec<Row> = (0..20).map(|id| (id, None, id)).collect();
    for (name, encode) in ENCODERS {
        let files = Files::new(name, &encode(&rows));
        let mut source = files.open("", None).expect("opened");
        read(source.as_mut(), 100).expect("read");
        files.write(&encode(&rows[..5]));
        let error = files.open("", Some(source.position())).err().expect("refused");
        assert_eq!(error.kind(), crate::ErrorKind::Incompatible, "{name}");
    }
}

#[test]
fn rows_that_were_appended_since_the_checkpoint_are_read() {
    let rows: Vec<Row> = (0..20).map(|id| (id, None, id)).collect();
    for (name, encode) in ENCODERS {
        let files = Files::new(name, &encode(&rows[..15]));
        let mut source = files.open("", None).expect("opened");
        read(source.as_mut(), 100).expect("read");
        files.write(&encode(&rows));
        let mut source = files.open("", Some(source.position())).expect("opened");
        assert_eq!(read(source.as_mut(), 100).expect("read").0, rows[15..], "{name}");
    }
}

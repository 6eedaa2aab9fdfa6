//! What all formats have in common, and helpers for the tests of formats and connectors.

use super::*;
use crate::clock;
use crate::config::PipelineConfig;
use crate::error::Error;
use crate::source::conformance::{check, check_shares, rest};
use crate::source::{Rejected, Wanted};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
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
        let path = match source.contains("connector =") {
            true => String::new(),
            false => {
                let name = self.path.file_name().and_then(|name| name.to_str());
                format!("path = \"{}\"\n", name.expect("a name"))
            }
        };
        let text = format!(
            "name = \"q\"\n[source]\n{path}{source}\n[operator]\nname = \"o\"\n\
             component = \"o.wasm\"\n[sink]\ntype = \"null\"\n"
        );
        let file = self.directory.path().join("q.toml");
        PipelineConfig::parse(&file, &text).expect("a configuration")
    }

    pub(super) fn open(
        &self,
        source: &str,
        position: Option<FilePosition>,
    ) -> Result<Box<dyn FileReader>> {
        let config = self.config(source);
        let source = &config.sources[0];
        let shape = inspect(source, &config.directories)?;
        let plan = plan_of(&config, &input().fields, &shape)?;
        let place = config.directories.place(&source.path.value)?;
        open_reader(&place, source, Arc::new(plan), position, Growth::None)
    }

    /// Opens the source as a pipeline does.
    fn open_source(
        &self,
        source: &str,
        position: Option<&SourcePosition>,
    ) -> Result<Box<dyn Source>> {
        self.open_share(source, Share::WHOLE, position)
    }

    fn open_share(
        &self,
        source: &str,
        share: Share,
        position: Option<&SourcePosition>,
    ) -> Result<Box<dyn Source>> {
        let config = self.config(source);
        let source = &config.sources[0];
        let shape = crate::source::inspect(source, &config.directories)?;
        let plan = plan_of(&config, &input().fields, &shape)?;
        crate::source::open(source, &config.directories, Arc::new(plan), share, position)
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

/// The plan for fields that have the names of their columns.
fn plan_of(config: &PipelineConfig, fields: &[Column], shape: &FileShape) -> Result<Plan> {
    let wanted = |field: &Column| Wanted {
        field: field.clone(),
        column: field.name.clone(),
        line: None,
        node_line: 1,
    };
    let wanted: Vec<Wanted> = fields.iter().map(wanted).collect();
    Plan::resolve(&config.file, &config.sources[0], &wanted, shape)
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

fn read(source: &mut dyn FileReader, limit: usize) -> Result<(Vec<Row>, Vec<Rejected>)> {
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
        // The header of a CSV file is a line too.
        let first = if name == "rows.csv" { 3 } else { 2 };
        let lines = batch.lines.iter().map(|(_, line)| line);
        assert!(lines.eq((first..).step_by(2).take(10)), "{name}");
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

/// Forty rows of which some are of one name.
fn forty() -> Vec<Row> {
    (0..40).map(|id| (id, Some(format!("n{}", id % 3)), 1_000 + id)).collect()
}

#[test]
fn a_file_of_every_format_keeps_the_contract() {
    for (name, encode) in ENCODERS {
        let files = Files::new(name, &encode(&forty()));
        for source in ["event-time = \"at\"", "event-time = \"at\"\nfilter = { name = \"n1\" }"] {
            let rows = check(&|position| files.open_source(source, position));
            assert_eq!(rows[0].1, 1_000 + i64::from(source.contains("filter")), "{name}");
        }
    }
}

/// A directory of files with three times forty rows.
fn directory(name: &str, encode: fn(&[Row]) -> Vec<u8>) -> Files {
    let files = Files::new("in", b"");
    std::fs::remove_file(&files.path).expect("removed");
    std::fs::create_dir(&files.path).expect("made");
    let (_, extension) = name.split_once('.').expect("an extension");
    for part in 0..3 {
        let rows: Vec<Row> =
            forty().into_iter().map(|row| (row.0 + 40 * part, row.1, row.2)).collect();
        let path = files.path.join(format!("part-{part}.{extension}"));
        std::fs::write(path, encode(&rows)).expect("written");
    }
    std::fs::write(files.path.join(".hidden"), "x").expect("written");
    std::fs::write(files.path.join("_done"), "x").expect("written");
    files
}

#[test]
fn a_directory_of_files_of_every_format_keeps_the_contract() {
    for (name, encode) in ENCODERS {
        let files = directory(name, encode);
        let (_, extension) = name.split_once('.').expect("an extension");
        for follow in [false, true] {
            let source =
                format!("format = \"{extension}\"\nevent-time = \"at\"\nfollow = {follow}");
            let rows = check(&|position| files.open_source(&source, position));
            assert_eq!(rows.len(), 120, "{name}");
            check_shares(&|share, position| files.open_share(&source, share, position), &rows);
        }
    }
}

#[test]
fn generated_events_keep_the_contract() {
    let fields =
        [Column::required("seq", ColumnType::Int64), Column::nullable("price", ColumnType::Int64)];
    let files = Files::new("in.csv", b"");
    for source in [
        "connector = \"nexmark\"\nevents = 100\nevent-time = \"date_time\"",
        "connector = \"nexmark\"\nevents = 2000\nfilter = { event_type = 1 }",
    ] {
        let config = files.config(source);
        let shape = crate::source::inspect(&config.sources[0], &config.directories);
        let shape = shape.expect("a shape");
        let plan = Arc::new(plan_of(&config, &fields, &shape).expect("a plan"));
        let open = |share, position: Option<&SourcePosition>| {
            let (directories, plan) = (&config.directories, Arc::clone(&plan));
            crate::source::open(&config.sources[0], directories, plan, share, position)
        };
        let rows = check(&|position| open(Share::WHOLE, position));
        assert_eq!(rows.len(), if source.contains("filter") { 120 } else { 100 });
        check_shares(&open, &rows);
    }
}

#[test]
fn generated_events_are_shared_in_blocks() {
    let fields = [Column::required("seq", ColumnType::Int64)];
    let files = Files::new("in.csv", b"");
    let config = files.config("connector = \"nexmark\"\nevents = 20_000");
    let shape = crate::source::inspect(&config.sources[0], &config.directories);
    let plan = plan_of(&config, &fields, &shape.expect("a shape"));
    let plan = Arc::new(plan.expect("a plan"));
    let open = |share, position: Option<&SourcePosition>| {
        let (directories, plan) = (&config.directories, Arc::clone(&plan));
        crate::source::open(&config.sources[0], directories, plan, share, position)
    };
    let rows = rest(&mut *open(Share::WHOLE, None).expect("opened"), 1_000);
    assert_eq!(rows.len(), 20_000);
    check_shares(&open, &rows);
    let of_one = rest(&mut *open(Share { subtask: 1, of: 3 }, None).expect("opened"), 1_000);
    assert!((5_000..8_000).contains(&of_one.len()), "{}", of_one.len());
}

fn followed(files: &Files) -> Box<dyn Source> {
    files.open_source("format = \"csv\"\nfollow = true", None).expect("opened")
}

/// Asks until the source has looked again.
fn after_a_look(source: &mut dyn Source) -> Vec<crate::source::conformance::Row> {
    let until = clock::now() + std::time::Duration::from_secs(60);
    while clock::now() < until {
        let rows = rest(source, 100);
        if !rows.is_empty() {
            return rows;
        }
        std::thread::yield_now();
    }
    Vec::new()
}

#[test]
fn new_files_and_whole_lines_are_followed() {
    let files = directory("rows.csv", as_csv);
    let mut source = followed(&files);
    assert_eq!(rest(source.as_mut(), 100).len(), 120);
    let append = |name: &str, text: &str| {
        use std::io::Write as _;
        let path = files.path.join(name);
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.expect("opened").write_all(text.as_bytes()).expect("written");
    };
    append("part-0.csv", "7,x,,200\n8,x,,20");
    assert_eq!(after_a_look(source.as_mut()).len(), 1, "a line that is not whole is not there");
    append("part-0.csv", "1\n");
    let rows = after_a_look(source.as_mut());
    assert!(rows[0].0.contains("\"id\":201"), "{rows:?}");
    append("part-9.csv", "at,other,name");
    let position = source.position().expect("a position");
    append("part-9.csv", ",id\n1,x,,300\n");
    assert_eq!(after_a_look(source.as_mut()).len(), 1);
    let source_text = "format = \"csv\"\nfollow = true";
    let mut again = files.open_source(source_text, Some(&position)).expect("opened");
    assert_eq!(rest(again.as_mut(), 100).len(), 1, "the checkpoint has not read the new file");
}

#[test]
fn a_link_that_is_swapped_in_while_it_is_followed_does_not_lead_out() {
    let files = directory("rows.csv", as_csv);
    let mut source = followed(&files);
    rest(source.as_mut(), 100);
    let (part, secret) = (files.path.join("part-0.csv"), files.directory.path().join("secret.csv"));
    // What follows is what the source has not read.
    let mut text = std::fs::read_to_string(&part).expect("text");
    text.push_str("7,x,,200\n");
    std::fs::write(&secret, text).expect("written");
    std::fs::remove_file(&part).expect("removed");
    std::os::unix::fs::symlink(&secret, &part).expect("linked");
    std::os::unix::fs::symlink(&secret, files.path.join("part-9.csv")).expect("linked");
    std::fs::write(files.path.join("part-8.csv"), "at,other,name,id\n1,x,,300\n").expect("written");
    let rows = after_a_look(source.as_mut());
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].0.contains("\"id\":300"), "{rows:?}");
}

#[test]
fn a_source_outside_of_what_is_granted_is_not_opened() {
    let files = Files::new("rows.csv", b"id,name,at\n1,,1\n");
    let mut config = files.config("");
    config.directories = Directories::only([files.directory.path().join("in")]);
    let error = crate::source::inspect(&config.sources[0], &config.directories).err();
    let error = error.expect("refused").to_string();
    assert!(error.contains("--allow-dir"), "{error}");
}

#[test]
fn a_file_that_vanished_before_it_was_read_is_missed() {
    let files = directory("rows.csv", as_csv);
    let source_text = "format = \"csv\"";
    let mut source = files.open_source(source_text, None).expect("opened");
    let Next::Batch(_) = source.next(10).expect("read") else { panic!("rows") };
    let position = source.position().expect("a position");
    std::fs::remove_file(files.path.join("part-0.csv")).expect("removed");
    let error = files.open_source(source_text, Some(&position)).err().expect("refused");
    assert_eq!(error.kind(), crate::ErrorKind::Incompatible);
    assert!(error.to_string().contains("is gone, and was not read to its end"), "{error}");
    rest(source.as_mut(), 100);
    let position = source.position().expect("a position");
    std::fs::remove_file(files.path.join("part-1.csv")).expect("removed");
    assert!(files.open_source(source_text, Some(&position)).is_ok(), "all of it was read");
}

#[test]
fn the_line_of_a_row_is_the_one_it_starts_on() {
    let rows: Vec<Row> = (0..4).map(|id| (id, Some("a\nb\n".to_owned()), id)).collect();
    let files = Files::new("rows.csv", &as_csv(&rows));
    let mut source = files.open("", None).expect("opened");
    let mut lines = Vec::new();
    while let Some(batch) = source.next_batch(2).expect("read") {
        lines.extend(batch.lines.iter().map(|(_, line)| line));
    }
    assert_eq!(lines, [2, 5, 8, 11]);
}

//! Rows of outputs and states, in one form for comparing: each value as text, times as
//! milliseconds since the epoch.

use crate::support::job::Job;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The values of a row.
pub(crate) type Row = Vec<String>;

/// The columns of rows, the first of which may be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Names; `date_time` is a time, `kg` a 32-bit integer, all others are 64-bit integers.
    pub(crate) columns: &'static [&'static str],
    /// Names of the columns of the key.
    pub(crate) key: &'static [&'static str],
}

impl Shape {
    pub(crate) const EMPTY: Self = Self { columns: &[], key: &[] };
    pub(crate) const LAST_BID: Self = Self {
        columns: &["auction", "bidder", "price", "date_time", "seq"],
        key: &["bidder", "auction"],
    };
    pub(crate) const LAST_BID_STATE: Self = Self {
        columns: &["kg", "bidder", "auction", "price", "date_time", "seq"],
        key: &["bidder", "auction"],
    };
    pub(crate) const AUCTION_WINNERS: Self =
        Self { columns: &["auction", "seller", "bidder", "price"], key: &["auction"] };
    pub(crate) const AUCTION_STATS: Self = Self {
        columns: &["auction", "bids", "min_price", "max_price", "sum_price"],
        key: &["auction"],
    };
    pub(crate) const AUCTION_STATS_STATE: Self = Self {
        columns: &["kg", "auction", "bids", "min_price", "max_price", "sum_price"],
        key: &["auction"],
    };

    fn schema(&self) -> SchemaRef {
        let field = |name: &&str| {
            let data_type = match *name {
                "date_time" => DataType::Timestamp(TimeUnit::Millisecond, None),
                "kg" => DataType::Int32,
                _ => DataType::Int64,
            };
            Field::new(*name, data_type, false)
        };
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    fn position(&self, column: &str) -> usize {
        self.columns.iter().position(|name| *name == column).unwrap()
    }

    /// The row with only these columns.
    pub(crate) fn project(&self, row: &Row, columns: &[&str]) -> Row {
        columns.iter().map(|column| row[self.position(column)].clone()).collect()
    }
}

/// A format of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    Csv,
    Ndjson,
}

/// Rows of a CSV text with a header, or of JSON lines.
pub(crate) fn read_text(text: &[u8], format: TextFormat, shape: &Shape) -> Vec<Row> {
    let batches: Vec<RecordBatch> = match format {
        TextFormat::Csv => {
            let header = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            assert_eq!(String::from_utf8_lossy(header), shape.columns.join(","), "the header");
            arrow_csv::ReaderBuilder::new(shape.schema())
                .with_header(true)
                .build(text)
                .unwrap()
                .collect::<Result<_, _>>()
                .unwrap()
        }
        TextFormat::Ndjson => arrow_json::ReaderBuilder::new(shape.schema())
            .build(text)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap(),
    };
    batches.iter().flat_map(rows_of).collect()
}

fn read_parquet(path: &Path, shape: &Shape) -> Vec<Row> {
    let file = std::fs::File::open(path).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 8_192);
    let batches: Vec<RecordBatch> = reader.unwrap().collect::<Result<_, _>>().unwrap();
    for batch in &batches {
        let schema = batch.schema();
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, shape.columns, "{}", path.display());
    }
    batches.iter().flat_map(rows_of).collect()
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let columns: Vec<Vec<String>> = batch.columns().iter().map(|column| texts(column)).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect()
}

fn texts(column: &dyn Array) -> Vec<String> {
    assert_eq!(column.null_count(), 0);
    match column.data_type() {
        DataType::Int32 => {
            column.as_primitive::<Int32Type>().values().iter().map(i32::to_string).collect()
        }
        DataType::Int64 => {
            column.as_primitive::<Int64Type>().values().iter().map(i64::to_string).collect()
        }
        DataType::Timestamp(TimeUnit::Millisecond, None) => column
            .as_primitive::<TimestampMillisecondType>()
            .values()
            .iter()
            .map(i64::to_string)
            .collect(),
        other => panic!("no test has a column of type {other}"),
    }
}

/// All rows that a job has put out, in the order in which a subtask emitted them: the files of a
/// checkpoint come after those of the one before.
pub(crate) fn output(job: &Job) -> Vec<Row> {
    let directory = job.output_directory();
    if !directory.exists() {
        return Vec::new();
    }
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .filter_map(|path| Some((order(path.file_name()?.to_str()?)?, path)))
        .collect();
    files.sort();
    let shape = &job.output_shape;
    let read = |(_, path): &(Vec<u64>, std::path::PathBuf)| match path.extension() {
        Some(extension) if extension == "csv" => {
            read_text(&std::fs::read(path).unwrap(), TextFormat::Csv, shape)
        }
        Some(extension) if extension == "ndjson" => {
            read_text(&std::fs::read(path).unwrap(), TextFormat::Ndjson, shape)
        }
        Some(extension) if extension == "parquet" => read_parquet(path, shape),
        _ => panic!("{} is no part file", path.display()),
    };
    files.iter().flat_map(read).collect()
}

/// The numbers in the name of a part file, the checkpoint first; `None` for a hidden file.
fn order(name: &str) -> Option<Vec<u64>> {
    if name.starts_with(['.', '_']) {
        return None;
    }
    let numbers = name.split(|c: char| !c.is_ascii_digit());
    Some(numbers.filter_map(|digits| digits.parse().ok()).collect())
}

/// The last row of each key, sorted.
pub(crate) fn last_of_each_key(rows: &[Row], shape: &Shape) -> Vec<Row> {
    let mut last = BTreeMap::new();
    for row in rows {
        last.insert(shape.project(row, shape.key), row.clone());
    }
    let mut rows: Vec<_> = last.into_values().collect();
    rows.sort();
    rows
}

/// The rows in another order.
pub(crate) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

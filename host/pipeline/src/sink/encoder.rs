//! Rows as CSV, NDJSON or Parquet bytes.

use crate::config::Format;
use crate::error::{Error, Result};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_json::writer::LineDelimited;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use howdah_runtime::{Output, OutputSpec};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fmt;
use std::sync::Arc;

/// How timestamps are written; the sources read it.
pub(crate) const TIMESTAMP_FORMAT: &str = "%Y-%m-%d %H:%M:%S%.3f";
/// Bytes of a Parquet row group before it is written.
const ROW_GROUP_BYTES: usize = 16 << 20;
/// The column with the row kind.
pub(crate) const OP_COLUMN: &str = "op";

/// Encodes the rows of one file.
pub(super) struct Encoder {
    schema: SchemaRef,
    /// Whether rows carry their kind in a column.
    changelog: bool,
    format: Writer,
}

enum Writer {
    Csv { header: bool },
    Ndjson,
    // The writer is large; one file of a subtask is open at a time.
    Parquet(Option<Box<ArrowWriter<Vec<u8>>>>),
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Encoder {
    pub(super) fn new(format: Format, header: bool, output: &OutputSpec) -> Result<Self> {
        let mut fields = output.schema().fields().to_vec();
        if output.changelog {
            fields.push(Arc::new(Field::new(OP_COLUMN, DataType::Utf8, false)));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let format = match format {
            Format::Csv => Writer::Csv { header },
            Format::Ndjson => Writer::Ndjson,
            Format::Parquet => {
                let properties =
                    WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer =
                    ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties));
                Writer::Parquet(Some(Box::new(writer.map_err(|error| failed(&error))?)))
            }
        };
        Ok(Self { schema, changelog: output.changelog, format })
    }

    /// Appends rows to a buffer, now or later.
    pub(super) fn encode(&mut self, rows: &Output, buffer: &mut Vec<u8>) -> Result<()> {
        let batch = self.with_kinds(rows)?;
        match &mut self.format {
            Writer::Csv { header } => {
                let builder = arrow_csv::WriterBuilder::new()
                    .with_header(std::mem::take(header))
                    .with_timestamp_format(TIMESTAMP_FORMAT.to_owned());
                builder.build(buffer).write(&batch).map_err(|error| failed(&error))
            }
            Writer::Ndjson => {
                let builder = arrow_json::WriterBuilder::new()
                    .with_explicit_nulls(true)
                    .with_timestamp_format(TIMESTAMP_FORMAT.to_owned());
                let mut writer = builder.build::<_, LineDelimited>(buffer);
                writer.write(&batch).map_err(|error| failed(&error))
            }
            Writer::Parquet(writer) => {
                let Some(writer) = writer else { return Err(closed()) };
                writer.write(&batch).map_err(|error| failed(&error))?;
                if writer.in_progress_size() >= ROW_GROUP_BYTES {
                    writer.flush().map_err(|error| failed(&error))?;
                    writer.sync().map_err(|error| failed(&error))?;
                    buffer.append(writer.inner_mut());
                }
                Ok(())
            }
        }
    }

    /// Appends what belongs at the end of the file.
    pub(super) fn finish(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        if let Writer::Parquet(writer) = &mut self.format {
            let writer = writer.take().ok_or_else(closed)?;
            buffer.append(&mut writer.into_inner().map_err(|error| failed(&error))?);
        }
        Ok(())
    }

    /// The rows, with a column for their kinds where the output is a changelog.
    fn with_kinds(&self, rows: &Output) -> Result<RecordBatch> {
        if !self.changelog {
            return Ok(rows.batch.clone());
        }
        let kinds = match &rows.row_kinds {
            Some(kinds) => StringArray::from_iter_values(kinds.iter().map(|kind| name(*kind))),
            None => StringArray::from_iter_values(vec![name(0); rows.batch.num_rows()]),
        };
        let mut columns: Vec<ArrayRef> = rows.batch.columns().to_vec();
        columns.push(Arc::new(kinds));
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| failed(&error))
    }
}

/// What a file of this format begins with, whatever its rows.
pub(super) fn header(format: Format, output: &OutputSpec) -> Result<Vec<u8>> {
    let mut header = Vec::new();
    if format == Format::Csv {
        let none = Output {
            port: 0,
            batch: RecordBatch::new_empty(output.schema()),
            timestamps: Vec::new(),
            row_kinds: None,
        };
        Encoder::new(format, true, output)?.encode(&none, &mut header)?;
    }
    Ok(header)
}

fn name(kind: u8) -> &'static str {
    match kind {
        0 => "+I",
        1 => "-U",
        2 => "+U",
        _ => "-D",
    }
}

/// Encoding goes to memory and has no reason to fail.
fn failed(error: &dyn fmt::Display) -> Error {
    Error::internal(format!("cannot encode rows of the operator's output: {error}"))
}

fn closed() -> Error {
    Error::internal("rows came to a file of the sink that is closed")
}

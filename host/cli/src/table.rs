//! Prints rows: as an aligned table, CSV or JSON lines.

use crate::failure::Result;
use anyhow::Context;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_cast::pretty::pretty_format_batches_with_schema;
use arrow_schema::SchemaRef;
use howdah_runtime::printable;
use std::io::Write;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// An aligned table.
    Text,
    /// Comma-separated, with a header row.
    Csv,
    /// One JSON object a line.
    Json,
}

/// Prints named columns to standard output.
pub(crate) fn list(columns: Vec<(&str, ArrayRef)>, output: Output) -> Result<()> {
    let nullable = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(nullable).context("cannot list")?;
    print(&SchemaRef::clone(batch.schema_ref()), &[batch], output)
}

/// Prints the rows to standard output.
pub(crate) fn print(schema: &SchemaRef, batches: &[RecordBatch], output: Output) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match output {
        Output::Text => {
            let table = pretty_format_batches_with_schema(SchemaRef::clone(schema), batches);
            let table = table.context("cannot show the rows")?.to_string();
            writeln!(out, "{}", printable(&table))?;
        }
        Output::Csv => {
            // An empty result has a header too.
            out.write_all(&csv(&RecordBatch::new_empty(SchemaRef::clone(schema)), true)?)?;
            for batch in batches {
                out.write_all(&csv(batch, false)?)?;
            }
        }
        Output::Json => {
            for batch in batches {
                out.write_all(&json(batch)?)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

// Text is made in memory, batch by batch: an error of standard output then stays what it is, and a
// reader that has gone away can be told from a failure.

fn csv(batch: &RecordBatch, header: bool) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut writer = arrow_csv::WriterBuilder::new().with_header(header).build(&mut text);
    writer.write(batch).context("cannot write CSV")?;
    drop(writer);
    Ok(text)
}

fn json(batch: &RecordBatch) -> anyhow::Result<Vec<u8>> {
    let mut writer = arrow_json::LineDelimitedWriter::new(Vec::new());
    writer.write(batch).and_then(|()| writer.finish()).context("cannot write JSON")?;
    Ok(writer.into_inner())
}

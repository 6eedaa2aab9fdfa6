//! Prints rows: as an aligned table, CSV or JSON lines.

use crate::failure::Result;
use anyhow::Context;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
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

/// Prints the rows to standard output.
pub(crate) fn print(schema: &SchemaRef, batches: &[RecordBatch], output: Output) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    write(schema, batches, output, &mut out)?;
    out.flush()?;
    Ok(())
}

fn write<W: Write>(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    output: Output,
    out: &mut W,
) -> Result<()> {
    match output {
        Output::Text => {
            let table = arrow_cast::pretty::pretty_format_batches_with_schema(
                SchemaRef::clone(schema),
                batches,
            );
            writeln!(out, "{}", table.context("cannot show the rows")?)?;
        }
        Output::Csv => {
            let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(&mut *out);
            let empty = RecordBatch::new_empty(SchemaRef::clone(schema));
            // An empty result has a header too.
            for batch in std::iter::once(&empty).chain(batches) {
                writer.write(batch).context("cannot write CSV")?;
            }
        }
        Output::Json => {
            let mut writer = arrow_json::LineDelimitedWriter::new(&mut *out);
            for batch in batches {
                writer.write(batch).context("cannot write JSON")?;
            }
            writer.finish().context("cannot write JSON")?;
        }
    }
    Ok(())
}

//! `howdah nexmark`: events of the Nexmark benchmark as a flat file.

use crate::failure::{Failure, Result};
use crate::progress::{Bar, Unit};
use anyhow::Context;
use arrow_array::RecordBatch;
use howdah_pipeline::NexmarkEvents;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Events that are turned into columns at once.
const BATCH_EVENTS: usize = 8_192;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Comma-separated, with a header row; a column without a value is empty.
    Csv,
    /// One JSON object a line; a column without a value is left out.
    Ndjson,
    /// Parquet, with typed columns.
    Parquet,
}

/// Write events of the Nexmark auction benchmark to a file
///
/// Of 50 events one is a person, three are auctions and 46 are bids. They share one flat schema:
/// `event_type` says which it is (0, 1, 2), `seq` is the number of the event, `date_time` its event
/// time, and the columns of the other kinds stay empty. The same arguments always give the same
/// file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah nexmark --events 500000 --out events.csv
  howdah nexmark --events 2000000 --format parquet --out events.parquet --force")]
pub(crate) struct Args {
    /// How many events
    #[arg(long, value_name = "N")]
    events: usize,
    /// File to write; it appears once it is whole
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File format
    #[arg(long, value_enum, default_value = "csv")]
    format: Format,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
}

/// Runs `howdah nexmark`.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.out.exists() && !args.force {
        return Err(Failure::usage(format!(
            "{} exists; choose another name, or replace it with --force",
            args.out.display()
        )));
    }
    // Renaming over it would take a pipe or a device away.
    if args.out.exists() && !args.out.is_file() {
        return Err(Failure::usage(format!(
            "{} is no regular file; choose another name",
            args.out.display()
        )));
    }
    let name = args
        .out
        .file_name()
        .ok_or_else(|| Failure::usage(format!("--out {} names no file", args.out.display())))?;
    let temporary =
        args.out.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    let written = write(args, &temporary).and_then(|()| {
        std::fs::rename(&temporary, &args.out)
            .with_context(|| format!("cannot rename {} into place", temporary.display()))
    });
    if let Err(error) = written {
        // Best effort: the error that matters is the one being returned.
        let _ = std::fs::remove_file(&temporary);
        return Err(error.into());
    }
    Ok(())
}

fn write(args: &Args, path: &Path) -> anyhow::Result<()> {
    let action = || format!("cannot write {}", path.display());
    let file = File::create(path).with_context(action)?;
    let bar = Bar::new(args.events as u64, Unit::Count("events"));
    let mut file = write_events(args.events, args.format, BufWriter::new(file), |written| {
        bar.advance(written);
    })
    .with_context(action)?;
    file.flush().with_context(action)?;
    bar.finish();
    Ok(())
}

/// Writes the events to `out` and hands it back, not flushed. `written` hears of each batch.
fn write_events<W: Write + Send>(
    events: usize,
    format: Format,
    out: W,
    written: impl Fn(u64),
) -> anyhow::Result<W> {
    let mut writer = Writer::new(format, out)?;
    let mut generated = NexmarkEvents::from(0);
    let mut left = events;
    while left > 0 {
        let size = left.min(BATCH_EVENTS);
        writer.write(&generated.batch(size)?)?;
        left -= size;
        written(size as u64);
    }
    if events == 0 {
        // The header or the schema all the same.
        writer.write(&generated.batch(0)?)?;
    }
    writer.finish()
}

/// A writer for one of the formats.
enum Writer<W: Write + Send> {
    Csv(Box<arrow_csv::Writer<W>>),
    Ndjson(arrow_json::LineDelimitedWriter<W>),
    Parquet(Box<parquet::arrow::ArrowWriter<W>>),
}

impl<W: Write + Send> Writer<W> {
    fn new(format: Format, out: W) -> anyhow::Result<Self> {
        Ok(match format {
            Format::Csv => Self::Csv(Box::new(
                arrow_csv::WriterBuilder::new()
                    .with_header(true)
                    .with_timestamp_format("%Y-%m-%d %H:%M:%S%.3f".to_owned())
                    .build(out),
            )),
            Format::Ndjson => Self::Ndjson(
                arrow_json::WriterBuilder::new()
                    .with_timestamp_format("%Y-%m-%dT%H:%M:%S%.3f".to_owned())
                    .build(out),
            ),
            Format::Parquet => Self::Parquet(Box::new(parquet::arrow::ArrowWriter::try_new(
                out,
                NexmarkEvents::schema(),
                None,
            )?)),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        match self {
            Self::Csv(writer) => writer.write(batch)?,
            Self::Ndjson(writer) => writer.write(batch)?,
            Self::Parquet(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<W> {
        Ok(match self {
            Self::Csv(writer) => writer.into_inner(),
            Self::Ndjson(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Self::Parquet(writer) => writer.into_inner()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let args =
            Args { events: 1, out: PathBuf::from("/dev/null"), format: Format::Csv, force: true };
        let failure = run(&args).expect_err("refused");
        assert_eq!(failure.message(), "/dev/null is no regular file; choose another name");
    }
    use sha2::{Digest, Sha256};

    fn bytes(events: usize, format: Format) -> Vec<u8> {
        write_events(events, format, Vec::new(), |_| ()).unwrap()
    }

    /// The end-to-end tests compare answers with constants: they hold for this input alone.
    #[test]
    fn csv_of_100_000_events_has_the_pinned_hash() {
        let csv = bytes(100_000, Format::Csv);
        let header_end = csv.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let digest = Sha256::digest(&csv[header_end..]);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "92f558e2564cf995b396e03e3819f2f7b3c7347de5109ed51f70d936b151d01d");
    }

    #[test]
    fn ndjson_leaves_out_columns_without_a_value() {
        let text = String::from_utf8(bytes(200, Format::Ndjson)).unwrap();
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 200);
        let bid = rows.iter().find(|row| row["event_type"] == 2).unwrap().as_object().unwrap();
        assert!(bid.contains_key("price") && !bid.contains_key("p_id"));
    }

    #[test]
    fn parquet_has_typed_columns_and_every_event() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes(20_000, Format::Parquet)).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(
            File::open(file.path()).unwrap(),
        )
        .unwrap();
        assert_eq!(
            reader.schema().field_with_name("date_time").unwrap().data_type(),
            &arrow_schema::DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, None)
        );
        let rows: usize = reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 20_000);
    }
}

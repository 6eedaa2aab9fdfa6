//! `howdah nexmark`: events of the Nexmark benchmark as a flat file.

use crate::failure::Result;
use crate::progress::{Bar, Unit};
use crate::row_file::{self, Format, Writer};
use howdah_pipeline::NexmarkEvents;
use std::io::Write;
use std::path::PathBuf;

/// Events that are turned into columns at once.
const BATCH_EVENTS: usize = 8_192;

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
    row_file::create(&args.out, args.force, |file| {
        let bar = Bar::new(args.events as u64, Unit::Count("events"));
        let file = write_events(args.events, args.format, file, |written| bar.advance(written))?;
        bar.finish();
        Ok(file)
    })
}

/// Writes the events to `out` and hands it back, not flushed. `written` hears of each batch.
fn write_events<W: Write + Send>(
    events: usize,
    format: Format,
    out: W,
    written: impl Fn(u64),
) -> anyhow::Result<W> {
    let mut writer = Writer::new(format, &NexmarkEvents::schema(), out)?;
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
    use std::fs::File;

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

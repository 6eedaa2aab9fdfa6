//! `howdah nexmark`: events of the Nexmark benchmark as a flat file.

use crate::failure::{Failure, Result};
use crate::progress::{Bar, Unit};
use ::nexmark::EventGenerator;
use ::nexmark::config::NexmarkConfig;
use ::nexmark::event::Event;
use anyhow::Context;
use arrow_array::builder::{
    Int32Builder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Event time of the first event: 2023-11-14 22:13:20 UTC. Fixed, so that the same arguments
/// give the same bytes on any day.
const BASE_TIME_MS: u64 = 1_700_000_000_000;

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
    let mut columns = Columns::new();
    let config = NexmarkConfig { base_time: BASE_TIME_MS, ..NexmarkConfig::default() };
    let mut left = events;
    let mut generated = (0_i64..).zip(EventGenerator::new(config));
    while left > 0 {
        let size = left.min(BATCH_EVENTS);
        for (seq, event) in generated.by_ref().take(size) {
            columns.push(seq, event);
        }
        writer.write(&columns.finish()?)?;
        left -= size;
        written(size as u64);
    }
    if events == 0 {
        // The header or the schema all the same.
        writer.write(&columns.finish()?)?;
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
            Format::Parquet => {
                Self::Parquet(Box::new(parquet::arrow::ArrowWriter::try_new(out, schema(), None)?))
            }
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

/// The columns of the flat schema, in order.
fn schema() -> SchemaRef {
    let timestamp = || DataType::Timestamp(TimeUnit::Millisecond, None);
    let required = |name: &str, data_type| Field::new(name, data_type, false);
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    Arc::new(Schema::new(vec![
        required("event_type", DataType::Int32),
        required("seq", DataType::Int64),
        required("date_time", timestamp()),
        number("p_id"),
        text("name"),
        text("email"),
        text("card"),
        text("city"),
        text("state"),
        number("a_id"),
        text("item_name"),
        text("description"),
        number("initial_bid"),
        number("reserve"),
        Field::new("expires", timestamp(), true),
        number("seller"),
        number("category"),
        number("auction"),
        number("bidder"),
        number("price"),
        text("channel"),
        text("url"),
        text("extra"),
    ]))
}

/// Builders of the columns, by kind of event.
struct Columns {
    schema: SchemaRef,
    event_type: Int32Builder,
    seq: Int64Builder,
    date_time: TimestampMillisecondBuilder,
    p_id: Int64Builder,
    /// name, email, card, city, state
    person: [StringBuilder; 5],
    a_id: Int64Builder,
    /// item_name, description
    item: [StringBuilder; 2],
    /// initial_bid, reserve
    money: [Int64Builder; 2],
    expires: TimestampMillisecondBuilder,
    /// seller, category
    listing: [Int64Builder; 2],
    /// auction, bidder, price
    bid: [Int64Builder; 3],
    /// channel, url
    channel: [StringBuilder; 2],
    extra: StringBuilder,
}

/// The generator's numbers are small; the columns are signed.
#[expect(clippy::cast_possible_wrap, reason = "ids, prices and times stay far below 2^63")]
fn signed(value: usize) -> i64 {
    value as i64
}

#[expect(clippy::cast_possible_wrap, reason = "milliseconds since 1970 stay far below 2^63")]
fn millis(value: u64) -> i64 {
    value as i64
}

impl Columns {
    fn new() -> Self {
        Self {
            schema: schema(),
            event_type: Int32Builder::new(),
            seq: Int64Builder::new(),
            date_time: TimestampMillisecondBuilder::new(),
            p_id: Int64Builder::new(),
            person: Default::default(),
            a_id: Int64Builder::new(),
            item: Default::default(),
            money: Default::default(),
            expires: TimestampMillisecondBuilder::new(),
            listing: Default::default(),
            bid: Default::default(),
            channel: Default::default(),
            extra: StringBuilder::new(),
        }
    }

    /// Appends one row.
    fn push(&mut self, seq: i64, event: Event) {
        self.seq.append_value(seq);
        self.date_time.append_value(millis(event.timestamp()));
        let (person, auction, bid) = match event {
            Event::Person(person) => (Some(person), None, None),
            Event::Auction(auction) => (None, Some(auction), None),
            Event::Bid(bid) => (None, None, Some(bid)),
        };
        self.event_type.append_value(match (&person, &auction) {
            (Some(_), _) => 0,
            (None, Some(_)) => 1,
            (None, None) => 2,
        });
        self.p_id.append_option(person.as_ref().map(|p| signed(p.id)));
        let fields =
            person.as_ref().map(|p| [&p.name, &p.email_address, &p.credit_card, &p.city, &p.state]);
        append_texts(&mut self.person, fields);

        self.a_id.append_option(auction.as_ref().map(|a| signed(a.id)));
        append_texts(&mut self.item, auction.as_ref().map(|a| [&a.item_name, &a.description]));
        append_numbers(&mut self.money, auction.as_ref().map(|a| [a.initial_bid, a.reserve]));
        self.expires.append_option(auction.as_ref().map(|a| millis(a.expires)));
        append_numbers(&mut self.listing, auction.as_ref().map(|a| [a.seller, a.category]));

        append_numbers(&mut self.bid, bid.as_ref().map(|b| [b.auction, b.bidder, b.price]));
        append_texts(&mut self.channel, bid.as_ref().map(|b| [&b.channel, &b.url]));

        let extra = person.map(|p| p.extra).or(auction.map(|a| a.extra)).or(bid.map(|b| b.extra));
        self.extra.append_option(extra);
    }

    /// Takes the rows out as a batch.
    fn finish(&mut self) -> anyhow::Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.event_type.finish()),
            Arc::new(self.seq.finish()),
            Arc::new(self.date_time.finish()),
            Arc::new(self.p_id.finish()),
        ];
        columns.extend(self.person.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        columns.push(Arc::new(self.a_id.finish()));
        columns.extend(self.item.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        columns.extend(self.money.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        columns.push(Arc::new(self.expires.finish()));
        columns.extend(self.listing.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        columns.extend(self.bid.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        columns.extend(self.channel.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        columns.push(Arc::new(self.extra.finish()));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// One value for each column, or a null in each.
fn append_texts<const N: usize>(columns: &mut [StringBuilder; N], values: Option<[&String; N]>) {
    match values {
        Some(values) => columns.iter_mut().zip(values).for_each(|(c, v)| c.append_value(v)),
        None => columns.iter_mut().for_each(StringBuilder::append_null),
    }
}

/// One value for each column, or a null in each.
fn append_numbers<const N: usize>(columns: &mut [Int64Builder; N], values: Option<[usize; N]>) {
    match values {
        Some(values) => columns.iter_mut().zip(values).for_each(|(c, v)| c.append_value(signed(v))),
        None => columns.iter_mut().for_each(Int64Builder::append_null),
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
            &DataType::Timestamp(TimeUnit::Millisecond, None)
        );
        let rows: usize = reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 20_000);
    }
}

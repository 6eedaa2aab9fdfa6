//! Events of the Nexmark auction benchmark, generated.
//!
//! Of 50 events one is a person, three are auctions and 46 are bids. They share one flat schema:
//! `event_type` says which it is (0, 1, 2), `seq` is the number of the event, `date_time` its event
//! time, and the columns of the other kinds stay empty. An event depends on its number alone.

use crate::error::Result;
use ::nexmark::EventGenerator;
use ::nexmark::config::NexmarkConfig;
use ::nexmark::event::Event;
use arrow_array::builder::{
    Int32Builder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// Event time of the first event: 2023-11-14 22:13:20 UTC. Fixed, so that the same number is the
/// same event on any day.
const BASE_TIME_MS: u64 = 1_700_000_000_000;

/// Generates events in batches.
pub struct NexmarkEvents {
    next: u64,
    generator: EventGenerator,
    columns: Columns,
}

impl std::fmt::Debug for NexmarkEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NexmarkEvents").field("next", &self.next).finish_non_exhaustive()
    }
}

impl NexmarkEvents {
    /// The events from this number on; the first one is 0.
    pub fn from(number: u64) -> Self {
        let config = NexmarkConfig { base_time: BASE_TIME_MS, ..NexmarkConfig::default() };
        let generator = EventGenerator::new(config).with_offset(number);
        Self { next: number, generator, columns: Columns::new() }
    }

    /// The columns of all batches.
    pub fn schema() -> SchemaRef {
        schema()
    }

    /// The number of the next event.
    pub fn number(&self) -> u64 {
        self.next
    }

    /// The next events, so many of them.
    ///
    /// # Errors
    /// None that is known: columns are built to fit.
    pub fn batch(&mut self, events: usize) -> Result<RecordBatch> {
        self.append(u64::try_from(events).unwrap_or(u64::MAX));
        self.finish()
    }

    /// Goes on with this event.
    pub(crate) fn seek(&mut self, number: u64) {
        if number != self.next {
            self.generator = std::mem::take(&mut self.generator).with_offset(number);
            self.next = number;
        }
    }

    /// Generates the next events, so many of them.
    pub(crate) fn append(&mut self, events: u64) {
        for _ in 0..events {
            let Some(event) = self.generator.next() else { return };
            self.columns.push(i64::try_from(self.next).unwrap_or(i64::MAX), event);
            self.next += 1;
        }
    }

    /// What was generated since the last time, as a batch.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        self.columns.finish()
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
    fn finish(&mut self) -> Result<RecordBatch> {
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
    fn events_from_a_number_on_are_those_of_the_whole_stream() {
        let whole = NexmarkEvents::from(0).batch(300).expect("a batch");
        let mut rest = NexmarkEvents::from(123);
        assert_eq!(rest.batch(177).expect("a batch"), whole.slice(123, 177));
        assert_eq!(rest.number(), 300);
    }
}

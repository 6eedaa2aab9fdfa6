//! Bids with their day and minute, by which a sink may partition them (Nexmark query 10).
//!
//! Works on whole columns. Times are those of UTC.

use howdah_sdk::columns::{ColumnBuilder, ValueType};
use howdah_sdk::prelude::*;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
    extra: String,
}

/// What rows are spread over subtasks by.
#[derive(Key, Debug)]
pub struct Auction {
    auction: i64,
}

/// A bid with the texts of its time.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct DatedBid {
    #[column(flatten)]
    bid: Bid,
    day: String,
    minute: String,
}

/// The operator.
#[derive(States)]
pub struct Dates;

#[operator]
impl Dates {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<DatedBid>,
    ) -> Result<()> {
        let mut days = ColumnBuilder::new(ValueType::Utf8, batch.rows());
        let mut minutes = ColumnBuilder::new(ValueType::Utf8, batch.rows());
        // Most bids are of the same minute as the one before.
        let mut last = Minute::of(Timestamp::default());
        for time in batch.column::<Timestamp>("date_time")?.iter() {
            if last.number != Minute::number(time) {
                last = Minute::of(time);
            }
            days.push_bytes(last.day.as_bytes());
            minutes.push_bytes(last.minute.as_bytes());
        }
        let mut columns = batch.columns().to_vec();
        columns.extend([days.finish(), minutes.finish()]);
        out.emit_columns_of(batch, columns)
    }
}

/// A minute as texts.
struct Minute {
    /// How many minutes after 1970-01-01.
    number: i64,
    /// As `yyyy-MM-dd`.
    day: String,
    /// As `HH:mm`.
    minute: String,
}

impl Minute {
    fn number(time: Timestamp) -> i64 {
        time.millis().div_euclid(60_000)
    }

    fn of(time: Timestamp) -> Self {
        let minute = format!("{:.5}", time.time_of_day());
        Self { number: Self::number(time), day: time.date().to_string(), minute }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    #[test]
    fn a_bid_gets_the_day_and_the_minute_of_its_time() -> Result<()> {
        let mut host = TestHost::<Dates>::new()?;
        let bid = |millis| {
            let date_time = Timestamp::from_millis(millis);
            Bid { auction: 1, bidder: 2, price: 3, date_time, extra: String::new() }
        };
        let dated = |millis, day: &str, minute: &str| {
            let (day, minute) = (day.to_owned(), minute.to_owned());
            Event::insert(DatedBid { bid: bid(millis), day, minute })
        };
        let bids = [0, 59_999, 1_700_000_000_000, 1_700_006_400_000].map(bid);
        let expected = [
            dated(0, "1970-01-01", "00:00"),
            dated(59_999, "1970-01-01", "00:00"),
            dated(1_700_000_000_000, "2023-11-14", "22:13"),
            dated(1_700_006_400_000, "2023-11-15", "00:00"),
        ];
        assert_eq!(host.process(bids)?, expected);
        Ok(())
    }
}

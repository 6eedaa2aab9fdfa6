//! Bids with the day that they are grouped by (first part of Nexmark query 15).
//!
//! Works on whole columns.

use howdah_sdk::columns::column;
use howdah_sdk::prelude::*;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
}

/// What rows are spread over subtasks by.
#[derive(Key, Debug)]
pub struct Auction {
    auction: i64,
}

/// A bid with its day, in UTC.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct DayBid {
    day: Date,
    auction: i64,
    bidder: i64,
    price: i64,
}

/// The operator.
#[derive(States)]
pub struct Days;

#[operator]
impl Days {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<DayBid>,
    ) -> Result<()> {
        let times = batch.column::<Timestamp>("date_time")?.iter();
        let mut columns = vec![column(times.map(Timestamp::date))];
        columns.extend(batch.copy(&["auction", "bidder", "price"])?);
        out.emit_columns_of(batch, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    #[test]
    fn a_bid_gets_the_day_of_its_time() -> Result<()> {
        let mut host = TestHost::<Days>::new()?;
        let bids = [0, 86_399_999, 86_400_000].map(Timestamp::from_millis).map(|date_time| {
            Event::insert(Bid { auction: 1, bidder: 2, price: 3, date_time }).at(date_time)
        });
        let expected = [0, 0, 1].map(Date::from_days);
        let expected = expected.map(|day| DayBid { day, auction: 1, bidder: 2, price: 3 });
        let emitted = host.process_events(bids.clone())?;
        assert!(emitted.iter().map(|event| &event.row).eq(&expected));
        assert!(emitted.iter().map(|event| event.timestamp).eq(bids.map(|bid| bid.timestamp)));
        Ok(())
    }
}

//! Bids with the key of the side input that they are joined with (first part of Nexmark query 13).
//!
//! Works on whole columns.

use howdah_sdk::columns::column;
use howdah_sdk::prelude::*;

/// How many keys the side input has.
const KEYS: i64 = 10_000;

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

/// A bid with its key.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct KeyedBid {
    key: i64,
    #[column(flatten)]
    bid: Bid,
}

/// The operator.
#[derive(States)]
pub struct Keys;

#[operator]
impl Keys {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<KeyedBid>,
    ) -> Result<()> {
        let auctions = batch.column::<i64>("auction")?.iter();
        let mut columns = vec![column(auctions.map(|auction| auction % KEYS))];
        columns.extend_from_slice(batch.columns());
        out.emit_columns_of(batch, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    #[test]
    fn the_key_is_the_end_of_the_auctions_number() -> Result<()> {
        let mut host = TestHost::<Keys>::new()?;
        let date_time = Timestamp::from_millis(5);
        let bid = |auction| Bid { auction, bidder: 2, price: 3, date_time };
        let keyed = |key, auction| Event::insert(KeyedBid { key, bid: bid(auction) });
        let emitted = host.process([bid(9_999), bid(10_000), bid(23_456)])?;
        assert_eq!(emitted, [keyed(9_999, 9_999), keyed(0, 10_000), keyed(3_456, 23_456)]);
        Ok(())
    }
}

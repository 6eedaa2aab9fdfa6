//! Every bid as it came (Nexmark query 0): what it costs to pass rows through.
//!
//! Works on whole columns, so no text becomes a `String` on its way.

use howdah_sdk::prelude::*;

/// A bid, in and out.
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

/// The operator.
#[derive(States)]
pub struct PassThrough;

#[operator]
impl PassThrough {
    fn process_batch(&mut self, batch: &Batch<Bid, Auction>, out: &mut Emitter<Bid>) -> Result<()> {
        out.emit_columns_of(batch, batch.columns().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    #[test]
    fn a_bid_goes_out_as_it_came_at_its_time() -> Result<()> {
        let mut host = TestHost::<PassThrough>::new()?;
        let bid = |auction, millis| {
            let date_time = Timestamp::from_millis(millis);
            let bid = Bid { auction, bidder: 2, price: 30, date_time, extra: "ä".to_owned() };
            Event::insert(bid).at(date_time)
        };
        assert_eq!(host.process_events([bid(1, 5), bid(2, 4)])?, [bid(1, 5), bid(2, 4)]);
        host.crash();
        host.restore()?;
        assert_eq!(host.process_events([bid(1, 6)])?, [bid(1, 6)], "there is nothing to lose");
        Ok(())
    }
}

//! A bad successor of `last-bid`: it takes the same rows and has the same state, so it passes every
//! check, and panics on the first row. Tests swap it in.

use howdah_sdk::prelude::*;

/// A bid, as `last-bid` takes it.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
    seq: i64,
}

/// Whose last bid, on what.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct BidderAuction {
    bidder: i64,
    auction: i64,
}

/// The last bid of a bidder on an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Last {
    price: i64,
    date_time: Timestamp,
    seq: i64,
}

/// The operator.
#[derive(States)]
pub struct FailingBid {
    last: ValueState<BidderAuction, Last>,
}

#[operator]
impl FailingBid {
    fn process(
        &mut self,
        bid: Bid,
        record: &Record<BidderAuction>,
        out: &mut Emitter<Bid>,
    ) -> Result<()> {
        let last = self.last.get(record)?;
        assert!(last.is_none_or(|last| last.seq < 0), "a successor that was not tested");
        assert!(bid.seq < 0, "a successor that was not tested");
        out.emit(&bid);
        Ok(())
    }
}

//! A bad successor of `last-bid`: it takes the same rows and has the same state, so it passes every
//! check, and passes over each bid whose number ends with 07. A replay finds it out.

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
pub struct ForgetfulBid {
    last: ValueState<BidderAuction, Last>,
}

#[operator]
impl ForgetfulBid {
    fn process(
        &mut self,
        bid: Bid,
        record: &Record<BidderAuction>,
        out: &mut Emitter<Bid>,
    ) -> Result<()> {
        let is_last = match self.last.get(record)? {
            None => true,
            Some(last) => (bid.date_time, bid.seq) > (last.date_time, last.seq),
        };
        if is_last && bid.seq % 100 != 7 {
            let Bid { price, date_time, seq, .. } = bid;
            self.last.put(record, Last { price, date_time, seq });
            out.emit(&bid);
        }
        Ok(())
    }
}

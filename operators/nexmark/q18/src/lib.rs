//! The last bid of each bidder on each auction (Nexmark query 18): rows that replace each other.
//!
//! Of bids at the same time, the later event is the last. Emits a changelog.

use howdah_sdk::prelude::*;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewBid {
    auction: i64,
    bidder: i64,
    #[column(flatten)]
    bid: Bid,
    /// The number of the event in its stream.
    seq: i64,
}

/// Who bids, and on what.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct BidderAuction {
    bidder: i64,
    auction: i64,
}

/// What a bid says beside that.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    price: i64,
    channel: String,
    url: String,
    date_time: Timestamp,
    extra: String,
}

/// What is kept of the last one.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Last {
    #[column(flatten)]
    bid: Bid,
    seq: i64,
}

/// The last bid of a bidder on an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct LastBid {
    auction: i64,
    bidder: i64,
    #[column(flatten)]
    bid: Bid,
}

/// The operator.
#[derive(States)]
pub struct LastBids {
    last: ValueState<BidderAuction, Last>,
}

#[operator]
impl LastBids {
    const OUTPUT_CHANGELOG: bool = true;

    fn process(
        &mut self,
        row: NewBid,
        record: &Record<BidderAuction>,
        _: &mut Emitter<LastBid>,
    ) -> Result<()> {
        let NewBid { bid, seq, .. } = row;
        let last = self.last.get(record)?;
        if last.is_none_or(|last| (bid.date_time, seq) > (last.bid.date_time, last.seq)) {
            self.last.put(record, Last { bid, seq });
        }
        Ok(())
    }

    fn finish_batch(
        &mut self,
        keys: &Keys<BidderAuction>,
        out: &mut Emitter<LastBid>,
    ) -> Result<()> {
        self.last.each_change(keys, |key, before, after| {
            let BidderAuction { bidder, auction } = key.key()?;
            let row = |last: &Last| LastBid { auction, bidder, bid: last.bid.clone() };
            out.emit_change(before.map(row).as_ref(), after.map(row).as_ref());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RowKind::{Insert, UpdateAfter, UpdateBefore};
    use howdah_sdk::testing::{Event, TestHost};

    fn bid(price: i64, millis: i64) -> Bid {
        let [channel, url, extra] = ["Apple", "https://", "x"].map(str::to_owned);
        Bid { price, channel, url, date_time: Timestamp::from_millis(millis), extra }
    }

    /// A bid of bidder 1 on an auction.
    fn new_bid(auction: i64, price: i64, millis: i64, seq: i64) -> NewBid {
        NewBid { auction, bidder: 1, bid: bid(price, millis), seq }
    }

    fn last_bid(kind: RowKind, auction: i64, bid: Bid) -> Event<LastBid> {
        Event::new(kind, LastBid { auction, bidder: 1, bid })
    }

    #[test]
    fn a_later_bid_takes_the_place_of_the_one_before() -> Result<()> {
        let mut host = TestHost::<LastBids>::new()?;
        let bids = [new_bid(1, 10, 4, 0), new_bid(2, 9, 5, 2), new_bid(1, 30, 5, 1)];
        let expected = [last_bid(Insert, 1, bid(30, 5)), last_bid(Insert, 2, bid(9, 5))];
        assert_eq!(host.process(bids)?, expected, "once for a batch");
        let changes = host.process([new_bid(1, 20, 6, 3)])?;
        let expected =
            [last_bid(UpdateBefore, 1, bid(30, 5)), last_bid(UpdateAfter, 1, bid(20, 6))];
        assert_eq!(changes, expected);
        Ok(())
    }

    #[test]
    fn of_equal_times_the_later_event_is_the_last() -> Result<()> {
        let mut host = TestHost::<LastBids>::new()?;
        host.process([new_bid(1, 30, 5, 3)])?;
        assert_eq!(host.process([new_bid(1, 20, 5, 2), new_bid(1, 20, 4, 9)])?, []);
        let changes = host.process([new_bid(1, 40, 5, 4)])?;
        assert_eq!(changes.last(), Some(&last_bid(UpdateAfter, 1, bid(40, 5))));
        Ok(())
    }

    #[test]
    fn the_last_bid_comes_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<LastBids>::new()?;
        host.process([new_bid(1, 30, 5, 1)])?;
        host.barrier()?;
        host.process([new_bid(1, 99, 9, 2)])?;
        host.crash();
        host.restore()?;
        let changes = host.process([new_bid(1, 40, 6, 2)])?;
        assert_eq!(changes.first(), Some(&last_bid(UpdateBefore, 1, bid(30, 5))));
        Ok(())
    }
}

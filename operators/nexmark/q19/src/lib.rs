//! The ten highest bids of each auction (Nexmark query 19): a ranking.
//!
//! Of equal bids the earlier one is higher. Emits a changelog with a row for each rank.

use howdah_sdk::prelude::*;
use howdah_sdk::top::TopN;

/// How many ranks there are.
const RANKS: usize = 10;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewBid {
    auction: i64,
    #[column(flatten)]
    bid: Bid,
    /// The number of the event in its stream.
    seq: i64,
}

/// What is bid on.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Auction {
    auction: i64,
}

/// What the bids of an auction are sorted by.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HighestFirst {
    minus_price: i64,
    time: Timestamp,
    seq: i64,
}

/// A bid as it is kept.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    bidder: i64,
    price: i64,
    channel: String,
    url: String,
    date_time: Timestamp,
    extra: String,
}

/// A bid and its rank.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct RankedBid {
    auction: i64,
    #[column(flatten)]
    bid: Bid,
    rank_number: i64,
}

/// The operator.
#[derive(States)]
pub struct HighestBids {
    bids: TopN<Auction, HighestFirst, Bid, RANKS>,
}

#[operator]
impl HighestBids {
    const OUTPUT_CHANGELOG: bool = true;

    fn process(
        &mut self,
        row: NewBid,
        record: &Record<Auction>,
        _: &mut Emitter<RankedBid>,
    ) -> Result<()> {
        let NewBid { bid, seq, .. } = row;
        let minus_price = bid.price.saturating_neg();
        self.bids.add(record, HighestFirst { minus_price, time: bid.date_time, seq }, bid)
    }

    fn finish_batch(&mut self, keys: &Keys<Auction>, out: &mut Emitter<RankedBid>) -> Result<()> {
        self.bids.each_change(keys, |key, rank_number, before, after| {
            let Auction { auction } = key.key()?;
            let row = |bid: &Bid| RankedBid { auction, bid: bid.clone(), rank_number };
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

    /// A bid of the bidder with the number of the event.
    fn bid(price: i64, millis: i64, bidder: i64) -> Bid {
        let [channel, url, extra] = ["Apple", "https://", "x"].map(str::to_owned);
        Bid { bidder, price, channel, url, date_time: Timestamp::from_millis(millis), extra }
    }

    fn new_bid(price: i64, millis: i64, seq: i64) -> NewBid {
        NewBid { auction: 1, bid: bid(price, millis, seq), seq }
    }

    fn ranked(kind: RowKind, bid: Bid, rank_number: i64) -> Event<RankedBid> {
        Event::new(kind, RankedBid { auction: 1, bid, rank_number })
    }

    #[test]
    fn a_higher_bid_moves_the_others_down() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        let changes = host.process([new_bid(20, 1, 1), new_bid(40, 2, 2)])?;
        let expected = [ranked(Insert, bid(40, 2, 2), 1), ranked(Insert, bid(20, 1, 1), 2)];
        assert_eq!(changes, expected, "once for a batch");
        let changes = host.process([new_bid(30, 3, 3)])?;
        let expected = [
            ranked(UpdateBefore, bid(20, 1, 1), 2),
            ranked(UpdateAfter, bid(30, 3, 3), 2),
            ranked(Insert, bid(20, 1, 1), 3),
        ];
        assert_eq!(changes, expected);
        Ok(())
    }

    #[test]
    fn of_equal_bids_the_earlier_one_is_higher() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process([new_bid(30, 5, 5)])?;
        let ranks = |changes: Vec<Event<RankedBid>>| {
            changes.iter().map(|event| event.row.rank_number).collect::<Vec<_>>()
        };
        assert_eq!(ranks(host.process([new_bid(30, 5, 6)])?), [2]);
        assert_eq!(ranks(host.process([new_bid(30, 4, 7)])?), [1, 1, 2, 2, 3]);
        Ok(())
    }

    #[test]
    fn the_eleventh_bid_has_no_rank() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process((1..=10).map(|n| new_bid(n * 10, n, n)))?;
        assert_eq!(host.process([new_bid(9, 11, 11)])?, []);
        let changes = host.process([new_bid(11, 12, 12)])?;
        let expected =
            [ranked(UpdateBefore, bid(10, 1, 1), 10), ranked(UpdateAfter, bid(11, 12, 12), 10)];
        assert_eq!(changes, expected);
        assert_eq!(host.values::<Bid>("bids")?.len(), 10);
        Ok(())
    }

    #[test]
    fn ranks_come_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process([new_bid(30, 1, 1)])?;
        host.barrier()?;
        host.process([new_bid(50, 2, 2)])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([new_bid(20, 3, 3)])?, [ranked(Insert, bid(20, 3, 3), 2)]);
        Ok(())
    }
}

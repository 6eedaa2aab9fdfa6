//! The highest bid of each auction while it was open (first part of Nexmark query 4): a join and a
//! maximum in one.
//!
//! Bids and auctions are both grouped by the auction, and either may come first. Emits a changelog:
//! what is highest may be outbid. `nexmark-q4-average` takes it in.

use howdah_sdk::join::DimensionJoin;
use howdah_sdk::prelude::*;

/// An auction opens.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewAuction {
    a_id: i64,
    date_time: Timestamp,
    expires: Timestamp,
    category: i64,
}

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewBid {
    auction: i64,
    price: i64,
    date_time: Timestamp,
}

/// What comes in.
#[derive(Inputs, Debug, Clone, PartialEq)]
pub enum In {
    /// An auction opens.
    #[input(name = "auctions", key("a_id"))]
    Auction(NewAuction),
    /// A bid.
    #[input(name = "bids", key("auction"))]
    Bid(NewBid),
}

/// What is bid on.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct AuctionId {
    a_id: i64,
}

/// What is kept of a bid that waits for its auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    price: i64,
    bid_time: Timestamp,
}

/// What is kept of an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Auction {
    category: i64,
    opens: Timestamp,
    expires: Timestamp,
    highest: Option<i64>,
}

impl Auction {
    /// Takes a bid in, if it came in time.
    fn bid(&mut self, bid: &Bid) {
        if (self.opens..=self.expires).contains(&bid.bid_time) {
            self.highest = self.highest.max(Some(bid.price));
        }
    }

    fn highest(&self) -> Option<HighestBid> {
        Some(HighestBid { category: self.category, price: self.highest? })
    }
}

/// The highest bid of an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct HighestBid {
    category: i64,
    price: i64,
}

/// The operator.
#[derive(States)]
pub struct HighestBids {
    auctions: DimensionJoin<AuctionId, Bid, Auction>,
}

#[operator]
impl HighestBids {
    const OUTPUT_CHANGELOG: bool = true;

    fn process(
        &mut self,
        row: In,
        record: &Record<AuctionId>,
        _: &mut Emitter<HighestBid>,
    ) -> Result<()> {
        match row {
            In::Auction(NewAuction { date_time, expires, category, .. }) => {
                let mut auction = Auction { category, opens: date_time, expires, highest: None };
                let waiting = self.auctions.dimension(record, auction.clone())?;
                waiting.iter().for_each(|bid| auction.bid(bid));
                self.auctions.update(record, auction);
            }
            In::Bid(NewBid { price, date_time: bid_time, .. }) => {
                let bid = Bid { price, bid_time };
                if let Some(mut auction) = self.auctions.fact(record, &bid)? {
                    auction.bid(&bid);
                    self.auctions.update(record, auction);
                }
            }
        }
        Ok(())
    }

    fn finish_batch(
        &mut self,
        keys: &Keys<AuctionId>,
        out: &mut Emitter<HighestBid>,
    ) -> Result<()> {
        self.auctions.each_change(keys, |_, before, after| {
            let [before, after] = [before, after].map(|auction| auction?.highest());
            out.emit_change(before.as_ref(), after.as_ref());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RowKind::{Insert, UpdateAfter, UpdateBefore};
    use howdah_sdk::testing::{Event, TestHost};

    /// An auction of category 10, open from 100 to 200.
    fn auction(a_id: i64) -> In {
        let [date_time, expires] = [100, 200].map(Timestamp::from_millis);
        In::Auction(NewAuction { a_id, date_time, expires, category: 10 })
    }

    fn bid(auction: i64, price: i64, millis: i64) -> In {
        In::Bid(NewBid { auction, price, date_time: Timestamp::from_millis(millis) })
    }

    fn highest(kind: RowKind, price: i64) -> Event<HighestBid> {
        Event::new(kind, HighestBid { category: 10, price })
    }

    #[test]
    fn a_higher_bid_takes_the_place_of_the_highest() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process([auction(1)])?;
        let changes = host.process([bid(1, 30, 110), bid(1, 40, 120)])?;
        assert_eq!(changes, [highest(Insert, 40)], "once for a batch");
        let changes = host.process([bid(1, 20, 130), bid(1, 50, 140)])?;
        assert_eq!(changes, [highest(UpdateBefore, 40), highest(UpdateAfter, 50)]);
        Ok(())
    }

    #[test]
    fn bids_that_came_before_their_auction_count() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        assert_eq!(host.process([bid(1, 30, 110), bid(1, 70, 201), bid(2, 80, 150)])?, []);
        assert_eq!(host.process([auction(1)])?, [highest(Insert, 30)]);
        assert_eq!(host.list::<Bid>("auctions-waiting", &AuctionId { a_id: 1 })?, []);
        Ok(())
    }

    #[test]
    fn bids_count_from_the_first_to_the_last_moment() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process([auction(1), auction(2)])?;
        assert_eq!(host.process([bid(1, 30, 99), bid(2, 30, 201)])?, []);
        let changes = host.process([bid(1, 10, 100), bid(2, 20, 200)])?;
        assert_eq!(changes, [highest(Insert, 10), highest(Insert, 20)]);
        Ok(())
    }

    #[test]
    fn a_crash_takes_back_what_was_bid_since_the_barrier() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process([auction(1), bid(1, 30, 110)])?;
        host.barrier()?;
        host.process([bid(1, 50, 120)])?;
        host.crash();
        host.restore()?;
        let changes = host.process([bid(1, 40, 120)])?;
        assert_eq!(changes, [highest(UpdateBefore, 30), highest(UpdateAfter, 40)]);
        Ok(())
    }

    #[test]
    fn a_batch_looks_its_auctions_up_once_and_writes_what_changed() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process((0..10).map(auction))?;
        host.process((0..100).map(|n| bid(n % 10, n % 2, 150)))?;
        let calls = host.calls("auctions")?;
        assert_eq!((calls.gets, calls.puts), (2, 2));
        assert_eq!(host.calls("auctions-waiting")?.puts, 0);
        Ok(())
    }
}

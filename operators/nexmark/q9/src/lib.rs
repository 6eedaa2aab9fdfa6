//! The winning bid of each auction so far (Nexmark query 9): a join and the first of a ranking in one.
//!
//! Bids and auctions are both grouped by the auction, and either may come first. Of the bids while the
//! auction was open, the highest wins; of equal ones the earliest. Emits a changelog: who wins may be
//! outbid.

use std::cmp::Reverse;

use howdah_sdk::join::DimensionJoin;
use howdah_sdk::prelude::*;

/// An auction opens.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewAuction {
    a_id: i64,
    #[column(flatten)]
    auction: Auction,
}

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewBid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
    extra: String,
    /// The number of the event in its stream.
    seq: i64,
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

/// What is kept of an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Auction {
    item_name: String,
    description: String,
    initial_bid: i64,
    reserve: i64,
    date_time: Timestamp,
    expires: Timestamp,
    seller: i64,
    category: i64,
    extra: String,
}

impl Auction {
    fn takes(&self, bid: &Bid) -> bool {
        (self.date_time..=self.expires).contains(&bid.bid_time)
    }
}

/// What is kept of a bid: of the winning one, and of those that wait for their auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    bidder: i64,
    price: i64,
    bid_time: Timestamp,
    bid_extra: String,
    seq: i64,
}

impl Bid {
    /// The greatest one wins.
    fn rank(&self) -> impl Ord + use<> {
        (self.price, Reverse(self.bid_time), Reverse(self.seq))
    }
}

/// An auction and the bid that wins it.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Winner {
    id: i64,
    #[column(flatten)]
    listing: Auction,
    auction: i64,
    bidder: i64,
    price: i64,
    bid_time: Timestamp,
    bid_extra: String,
}

impl Winner {
    fn of(id: i64, listing: &Auction, bid: &Bid) -> Self {
        let Bid { bidder, price, bid_time, ref bid_extra, .. } = *bid;
        let (listing, bid_extra) = (listing.clone(), bid_extra.clone());
        Self { id, listing, auction: id, bidder, price, bid_time, bid_extra }
    }
}

/// The operator.
#[derive(States)]
pub struct Winners {
    auctions: DimensionJoin<AuctionId, Bid, Auction>,
    winning: ValueState<AuctionId, Bid>,
}

#[operator]
impl Winners {
    const OUTPUT_CHANGELOG: bool = true;

    fn process(
        &mut self,
        row: In,
        record: &Record<AuctionId>,
        _: &mut Emitter<Winner>,
    ) -> Result<()> {
        match row {
            In::Auction(NewAuction { auction, .. }) => {
                let waiting = self.auctions.dimension(record, auction.clone())?;
                let in_time = waiting.into_iter().filter(|bid| auction.takes(bid));
                if let Some(bid) = in_time.max_by_key(Bid::rank) {
                    self.winning.put(record, bid);
                }
            }
            In::Bid(NewBid { bidder, price, date_time, extra, seq, .. }) => {
                let bid = Bid { bidder, price, bid_time: date_time, bid_extra: extra, seq };
                // Most bids are outbid already: their auction need not be looked at.
                let winning = self.winning.get(record)?;
                if winning.is_some_and(|winning| bid.rank() < winning.rank()) {
                    return Ok(());
                }
                let auction = self.auctions.fact(record, &bid)?;
                if auction.is_some_and(|auction| auction.takes(&bid)) {
                    self.winning.put(record, bid);
                }
            }
        }
        Ok(())
    }

    fn finish_batch(&mut self, keys: &Keys<AuctionId>, out: &mut Emitter<Winner>) -> Result<()> {
        self.winning.each_change(keys, |key, before, after| {
            let AuctionId { a_id } = key.key()?;
            if let Some(auction) = self.auctions.get(key)? {
                let row = |bid: &Bid| Winner::of(a_id, &auction, bid);
                out.emit_change(before.map(row).as_ref(), after.map(row).as_ref());
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RowKind::{Insert, UpdateAfter, UpdateBefore};
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Open from 100 to 200.
    fn auction() -> Auction {
        Auction {
            item_name: "hat".to_owned(),
            description: "old".to_owned(),
            initial_bid: 1,
            reserve: 2,
            date_time: at(100),
            expires: at(200),
            seller: 3,
            category: 10,
            extra: "x".to_owned(),
        }
    }

    fn opens(a_id: i64) -> In {
        In::Auction(NewAuction { a_id, auction: auction() })
    }

    fn bid(bidder: i64, price: i64, millis: i64, seq: i64) -> Bid {
        Bid { bidder, price, bid_time: at(millis), bid_extra: "y".to_owned(), seq }
    }

    /// A bid on auction 1.
    fn bids(bidder: i64, price: i64, millis: i64, seq: i64) -> In {
        let (date_time, extra) = (at(millis), "y".to_owned());
        In::Bid(NewBid { auction: 1, bidder, price, date_time, extra, seq })
    }

    fn winner(kind: RowKind, bid: &Bid) -> Event<Winner> {
        Event::new(kind, Winner::of(1, &auction(), bid))
    }

    #[test]
    fn a_higher_bid_wins_instead() -> Result<()> {
        let mut host = TestHost::<Winners>::new()?;
        let changes = host.process([opens(1), bids(5, 30, 110, 1), bids(6, 20, 120, 2)])?;
        assert_eq!(changes, [winner(Insert, &bid(5, 30, 110, 1))]);
        let changes = host.process([bids(7, 40, 130, 3)])?;
        let expected =
            [winner(UpdateBefore, &bid(5, 30, 110, 1)), winner(UpdateAfter, &bid(7, 40, 130, 3))];
        assert_eq!(changes, expected);
        Ok(())
    }

    #[test]
    fn of_equal_bids_the_earliest_wins_then_the_first_event() -> Result<()> {
        let mut host = TestHost::<Winners>::new()?;
        host.process([opens(1), bids(5, 30, 110, 5)])?;
        assert_eq!(host.process([bids(6, 30, 110, 6), bids(6, 30, 111, 4)])?, []);
        let changes = host.process([bids(7, 30, 110, 4)])?;
        assert_eq!(changes.last(), Some(&winner(UpdateAfter, &bid(7, 30, 110, 4))));
        Ok(())
    }

    #[test]
    fn bids_that_came_before_their_auction_take_part() -> Result<()> {
        let mut host = TestHost::<Winners>::new()?;
        let early =
            [bids(5, 99, 99, 1), bids(6, 30, 100, 2), bids(7, 30, 200, 3), bids(8, 99, 201, 4)];
        assert_eq!(host.process(early)?, []);
        assert_eq!(host.process([opens(1)])?, [winner(Insert, &bid(6, 30, 100, 2))]);
        assert_eq!(host.list::<Bid>("auctions-waiting", &AuctionId { a_id: 1 })?, []);
        Ok(())
    }

    #[test]
    fn a_bid_out_of_time_does_not_win() -> Result<()> {
        let mut host = TestHost::<Winners>::new()?;
        assert_eq!(host.process([opens(1), bids(5, 99, 99, 1), bids(6, 99, 201, 2)])?, []);
        Ok(())
    }

    #[test]
    fn who_wins_comes_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<Winners>::new()?;
        host.process([opens(1), bids(5, 30, 110, 1)])?;
        host.barrier()?;
        host.process([bids(6, 50, 120, 2)])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([bids(7, 20, 130, 3)])?, []);
        assert_eq!(host.process([bids(6, 50, 120, 2)])?.len(), 2);
        Ok(())
    }
}

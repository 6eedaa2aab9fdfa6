//! Bids with their auction, of category 10 (Nexmark query 20): a join that adds columns.
//!
//! Bids and auctions are both grouped by the auction, and either may come first. A bid whose auction is
//! known is not kept.

use howdah_sdk::join::DimensionJoin;
use howdah_sdk::prelude::*;

/// Whose bids are wanted.
const CATEGORY: i64 = 10;

/// An auction opens.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewAuction {
    a_id: i64,
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

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewBid {
    auction: i64,
    bidder: i64,
    price: i64,
    channel: String,
    url: String,
    date_time: Timestamp,
    extra: String,
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
#[derive(Row, Debug, Clone, PartialEq, Default)]
pub struct Auction {
    item_name: String,
    description: String,
    initial_bid: i64,
    reserve: i64,
    auction_time: Timestamp,
    expires: Timestamp,
    seller: i64,
    category: i64,
    auction_extra: String,
}

impl Auction {
    /// Of another category, only that it is known matters: its bids must not wait.
    fn of(row: NewAuction) -> Self {
        let NewAuction { item_name, description, initial_bid, reserve, category, .. } = row;
        let NewAuction { date_time: auction_time, expires, seller, extra: auction_extra, .. } = row;
        if category != CATEGORY {
            return Self { category, ..Self::default() };
        }
        Self {
            item_name,
            description,
            initial_bid,
            reserve,
            auction_time,
            expires,
            seller,
            category,
            auction_extra,
        }
    }
}

/// What is kept of a bid that waits for its auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    bidder: i64,
    price: i64,
    channel: String,
    url: String,
    bid_time: Timestamp,
    bid_extra: String,
}

/// A bid and its auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct AuctionBid {
    auction: i64,
    #[column(flatten)]
    bid: Bid,
    #[column(flatten)]
    listing: Auction,
}

/// The operator.
#[derive(States)]
pub struct AuctionBids {
    auctions: DimensionJoin<AuctionId, Bid, Auction>,
}

#[operator]
impl AuctionBids {
    fn process(
        &mut self,
        row: In,
        record: &Record<AuctionId>,
        out: &mut Emitter<AuctionBid>,
    ) -> Result<()> {
        match row {
            In::Auction(row) => {
                let auction = row.a_id;
                let listing = Auction::of(row);
                let waiting = self.auctions.dimension(record, listing.clone())?;
                if listing.category == CATEGORY {
                    for bid in waiting {
                        out.emit(&AuctionBid { auction, bid, listing: listing.clone() });
                    }
                }
            }
            In::Bid(row) => {
                let NewBid { auction, bidder, price, channel, url, .. } = row;
                let (bid_time, bid_extra) = (row.date_time, row.extra);
                let bid = Bid { bidder, price, channel, url, bid_time, bid_extra };
                let listing = self.auctions.fact(record, &bid)?;
                if let Some(listing) = listing.filter(|listing| listing.category == CATEGORY) {
                    out.emit(&AuctionBid { auction, bid, listing });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn auction(a_id: i64, category: i64) -> NewAuction {
        let [item_name, description, extra] = ["hat", "old", "x"].map(str::to_owned);
        let [date_time, expires] = [100, 200].map(Timestamp::from_millis);
        let (initial_bid, reserve, seller) = (1, 2, 3);
        NewAuction {
            a_id,
            item_name,
            description,
            initial_bid,
            reserve,
            date_time,
            expires,
            seller,
            category,
            extra,
        }
    }

    fn opens(a_id: i64, category: i64) -> In {
        In::Auction(auction(a_id, category))
    }

    fn bids(auction: i64, price: i64) -> In {
        let [channel, url, extra] = ["Apple", "https://", "y"].map(str::to_owned);
        let date_time = Timestamp::from_millis(150);
        In::Bid(NewBid { auction, bidder: 5, price, channel, url, date_time, extra })
    }

    fn auction_bid(id: i64, price: i64) -> Event<AuctionBid> {
        let [channel, url, bid_extra] = ["Apple", "https://", "y"].map(str::to_owned);
        let bid_time = Timestamp::from_millis(150);
        let bid = Bid { bidder: 5, price, channel, url, bid_time, bid_extra };
        Event::insert(AuctionBid { auction: id, bid, listing: Auction::of(auction(id, 10)) })
    }

    #[test]
    fn bids_and_auctions_meet_whichever_comes_first() -> Result<()> {
        let mut host = TestHost::<AuctionBids>::new()?;
        assert_eq!(host.process([bids(1, 30), bids(1, 31), bids(2, 40)])?, []);
        let joined = host.process([opens(1, 10), bids(1, 50)])?;
        assert_eq!(joined, [auction_bid(1, 30), auction_bid(1, 31), auction_bid(1, 50)]);
        assert_eq!(host.values::<Bid>("auctions-waiting")?.len(), 1, "the bid on auction 2");
        Ok(())
    }

    #[test]
    fn bids_of_other_categories_neither_come_nor_wait() -> Result<()> {
        let mut host = TestHost::<AuctionBids>::new()?;
        assert_eq!(host.process([bids(1, 30), opens(1, 11), bids(1, 50)])?, []);
        assert_eq!(host.values::<Bid>("auctions-waiting")?, []);
        let kept = host.value::<Auction>("auctions", &AuctionId { a_id: 1 })?;
        assert_eq!(kept, Some(Auction { category: 11, ..Auction::default() }));
        Ok(())
    }

    #[test]
    fn bids_wait_over_a_crash() -> Result<()> {
        let mut host = TestHost::<AuctionBids>::new()?;
        host.process([bids(1, 30)])?;
        host.barrier()?;
        host.process([opens(1, 10), bids(1, 50)])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([opens(1, 10)])?, [auction_bid(1, 30)]);
        Ok(())
    }
}

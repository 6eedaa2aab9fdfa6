//! Bids with their auction (first part of Nexmark query 23), to be joined with the auction's seller by
//! `nexmark-q23-seller`.

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
    category: i64,
    seller: i64,
}

/// What is kept of a bid that waits for its auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    bidder: i64,
    price: i64,
    bid_time: Timestamp,
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
            In::Auction(NewAuction { a_id: auction, auction: listing }) => {
                for bid in self.auctions.dimension(record, listing.clone())? {
                    out.emit(&AuctionBid { auction, bid, listing: listing.clone() });
                }
            }
            In::Bid(NewBid { auction, bidder, price, date_time: bid_time }) => {
                let bid = Bid { bidder, price, bid_time };
                if let Some(listing) = self.auctions.fact(record, &bid)? {
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

    fn listing() -> Auction {
        Auction { item_name: "hat".to_owned(), category: 10, seller: 3 }
    }

    fn opens(a_id: i64) -> In {
        In::Auction(NewAuction { a_id, auction: listing() })
    }

    fn bids(auction: i64, price: i64) -> In {
        In::Bid(NewBid { auction, bidder: 5, price, date_time: Timestamp::from_millis(150) })
    }

    fn auction_bid(auction: i64, price: i64) -> Event<AuctionBid> {
        let bid = Bid { bidder: 5, price, bid_time: Timestamp::from_millis(150) };
        Event::insert(AuctionBid { auction, bid, listing: listing() })
    }

    #[test]
    fn bids_and_auctions_meet_whichever_comes_first() -> Result<()> {
        let mut host = TestHost::<AuctionBids>::new()?;
        assert_eq!(host.process([bids(1, 30), opens(2)])?, []);
        let joined = host.process([opens(1), bids(2, 40), bids(1, 50)])?;
        assert_eq!(joined, [auction_bid(1, 30), auction_bid(2, 40), auction_bid(1, 50)]);
        Ok(())
    }

    #[test]
    fn bids_wait_over_a_crash() -> Result<()> {
        let mut host = TestHost::<AuctionBids>::new()?;
        host.process([bids(1, 30)])?;
        host.barrier()?;
        host.process([opens(1)])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([opens(1)])?, [auction_bid(1, 30)]);
        Ok(())
    }
}

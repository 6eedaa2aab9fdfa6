//! The winning bid of each auction, when the auction is over (Nexmark query 9).
//!
//! Reads two inputs, auctions and bids, both grouped by the auction. Bids wait in a list until the
//! watermark reaches the end of their auction; the highest that came in time wins, of equal ones
//! the earliest. An auction without one emits nothing.

use howdah_sdk::prelude::*;

/// An auction opens. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewAuction {
    id: i64,
    seller: i64,
    expires: Timestamp,
}

/// A bid on an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
}

/// What comes in.
#[derive(Inputs, Debug, Clone, PartialEq)]
pub enum In {
    /// An auction opens; its key is called otherwise than that of a bid.
    #[input(name = "auctions", key("id"))]
    Auction(NewAuction),
    /// A bid.
    #[input(name = "bids")]
    Bid(Bid),
}

/// What is won.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Auction {
    auction: i64,
}

/// What is kept of an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct OpenAuction {
    seller: i64,
    expires: Timestamp,
}

/// A bid that waits for the end of its auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Waiting {
    bidder: i64,
    price: i64,
    time: Timestamp,
}

/// Who won what from whom.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Winner {
    auction: i64,
    seller: i64,
    bidder: i64,
    price: i64,
}

/// The operator.
#[derive(States)]
pub struct AuctionWinners {
    auctions: ValueState<Auction, OpenAuction>,
    bids: ListState<Auction, Waiting>,
    ends: Timers<Auction>,
}

#[operator]
impl AuctionWinners {
    fn process(
        &mut self,
        row: In,
        record: &Record<Auction>,
        _: &mut Emitter<Winner>,
    ) -> Result<()> {
        match row {
            In::Auction(NewAuction { seller, expires, .. }) => {
                self.auctions.put(record, OpenAuction { seller, expires });
                self.ends.set(record, expires);
            }
            In::Bid(Bid { bidder, price, .. }) => {
                let time = record.timestamp();
                self.bids.append(record, Waiting { bidder, price, time });
            }
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: &Timer<Auction>, out: &mut Emitter<Winner>) -> Result<()> {
        let Some(OpenAuction { seller, expires }) = self.auctions.get(timer)? else {
            return Ok(());
        };
        let bids = self.bids.get(timer)?;
        let in_time = bids.into_iter().filter(|bid| bid.time < expires);
        let Auction { auction } = timer.key()?;
        // Of equal ones, `max_by_key` takes the last.
        if let Some(Waiting { bidder, price, .. }) =
            in_time.rev().max_by_key(|bid| (bid.price, std::cmp::Reverse(bid.time)))
        {
            out.emit(&Winner { auction, seller, bidder, price });
        }
        self.auctions.delete(timer);
        self.bids.clear(timer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn auction(id: i64, expires: i64) -> Event<In> {
        Event::insert(In::Auction(NewAuction { id, seller: 900 + id, expires: at(expires) }))
    }

    fn bid(auction: i64, bidder: i64, price: i64, millis: i64) -> Event<In> {
        Event::insert(In::Bid(Bid { auction, bidder, price })).at(at(millis))
    }

    fn winner(auction: i64, bidder: i64, price: i64, millis: i64) -> Event<Winner> {
        let seller = 900 + auction;
        Event::insert(Winner { auction, seller, bidder, price }).at(at(millis))
    }

    #[test]
    fn the_highest_bid_in_time_wins_when_the_auction_is_over() -> Result<()> {
        let mut host = TestHost::<AuctionWinners>::new()?;
        host.process_events([
            bid(1, 5, 30, 0), // before its auction is known
            auction(1, 100),
            auction(2, 100),
            bid(1, 6, 80, 99),
            bid(1, 7, 90, 100),
        ])?;
        assert_eq!(host.advance_watermark(at(99))?, []);
        assert_eq!(host.advance_watermark(at(100))?, [winner(1, 6, 80, 100)]);
        Ok(())
    }

    #[test]
    fn the_earlier_of_equal_bids_wins() -> Result<()> {
        let mut host = TestHost::<AuctionWinners>::new()?;
        let bids = [bid(1, 5, 30, 20), bid(1, 6, 30, 10), bid(1, 7, 30, 10)];
        host.process_events([auction(1, 100)].into_iter().chain(bids))?;
        assert_eq!(host.advance_watermark(at(100))?, [winner(1, 6, 30, 100)]);
        Ok(())
    }

    #[test]
    fn nothing_is_kept_of_an_auction_that_is_over() -> Result<()> {
        let mut host = TestHost::<AuctionWinners>::new()?;
        host.process_events([auction(1, 100), bid(1, 5, 30, 20)])?;
        host.advance_watermark(at(100))?;
        assert_eq!(host.values::<OpenAuction>("auctions")?, []);
        assert_eq!(host.list::<Waiting>("bids", &Auction { auction: 1 })?, []);
        assert_eq!(host.timers("ends")?, []);
        Ok(())
    }

    #[test]
    fn bids_only_append_and_are_read_once_at_the_end() -> Result<()> {
        let mut host = TestHost::<AuctionWinners>::new()?;
        host.process_events((0..50).map(|n| auction(n, 100)))?;
        host.process_events((0..200).map(|n| bid(n % 50, n, n, 10)))?;
        assert_eq!(host.calls("bids")?.gets, 0);
        assert_eq!(host.advance_watermark(at(100))?.len(), 50);
        let calls = host.calls("bids")?;
        assert_eq!((calls.gets, calls.puts, calls.deletes), (1, 1, 1));
        Ok(())
    }

    #[test]
    fn timers_and_bids_come_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<AuctionWinners>::new()?;
        host.process_events([auction(1, 100), bid(1, 5, 30, 20)])?;
        host.barrier()?;
        host.advance_watermark(at(100))?;
        host.crash();
        host.restore()?;
        assert_eq!(host.advance_watermark(at(100))?, [winner(1, 5, 30, 100)]);
        Ok(())
    }
}

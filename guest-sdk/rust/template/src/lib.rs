//! Emits each bid that is the highest of its auction so far.

use howdah_sdk::prelude::*;

/// A bid: what comes in and, if it is the highest, goes out. The fields are the columns of the
/// source, by name.
#[derive(Row, Clone, Debug, PartialEq)]
pub struct Bid {
    auction: i64,
    price: i64,
    at: Timestamp,
}

/// Rows are grouped by this: those of one auction see the same state.
#[derive(Key)]
pub struct Auction {
    auction: i64,
}

/// The highest bid on an auction: one row of the state table for each.
#[derive(Row, Clone)]
pub struct Highest {
    price: i64,
}

/// The operator. Its state is kept by the host, and there again after a crash.
#[derive(States)]
pub struct HighestBid {
    highest: ValueState<Auction, Highest>,
}

#[operator]
impl HighestBid {
    fn process(
        &mut self,
        bid: Bid,
        record: &Record<Auction>,
        out: &mut Emitter<Bid>,
    ) -> Result<()> {
        let highest = self.highest.get(record)?;
        if highest.is_none_or(|highest| bid.price > highest.price) {
            self.highest.put(record, Highest { price: bid.price });
            out.emit(&bid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn bid(auction: i64, price: i64) -> Bid {
        Bid { auction, price, at: Timestamp::from_millis(1_000) }
    }

    #[test]
    fn a_higher_bid_is_emitted_and_a_lower_one_is_not() -> Result<()> {
        let events = TestHost::<HighestBid>::new()?.process([bid(1, 10), bid(1, 5), bid(1, 20)])?;
        assert_eq!(events, [Event::insert(bid(1, 10)), Event::insert(bid(1, 20))]);
        Ok(())
    }

    #[test]
    fn what_was_kept_survives_a_crash() -> Result<()> {
        let mut host = TestHost::<HighestBid>::new()?;
        host.process([bid(1, 10)])?;
        host.barrier()?; // a crash goes back to here
        host.process([bid(1, 30)])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([bid(1, 20)])?, [Event::insert(bid(1, 20))]);
        Ok(())
    }
}

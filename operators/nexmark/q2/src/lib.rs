//! Bids on every 123rd auction (Nexmark query 2): a filter.

use howdah_sdk::prelude::*;

/// A bid, in and out. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    price: i64,
}

/// What rows are spread over subtasks by.
#[derive(Key, Debug)]
pub struct Auction {
    auction: i64,
}

/// The operator.
#[derive(States)]
pub struct Selection;

#[operator]
impl Selection {
    fn process(&mut self, bid: Bid, _: &Record<Auction>, out: &mut Emitter<Bid>) -> Result<()> {
        if bid.auction % 123 == 0 {
            out.emit(&bid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    #[test]
    fn bids_on_other_auctions_are_left_out() -> Result<()> {
        let mut host = TestHost::<Selection>::new()?;
        let bid = |auction| Bid { auction, price: 7 };
        let selected = host.process([bid(1), bid(123), bid(124), bid(1_230)])?;
        assert_eq!(selected, [bid(123), bid(1_230)].map(Event::insert));
        Ok(())
    }
}

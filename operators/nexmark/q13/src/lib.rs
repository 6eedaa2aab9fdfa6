//! Bids with what a side input says of their key (second part of Nexmark query 13): a join with a
//! bounded table.
//!
//! Takes in what `nexmark-q13-key` emits. Bids that come before their row of the side input wait for it.

use howdah_sdk::join::DimensionJoin;
use howdah_sdk::prelude::*;

/// A bid with its key.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct KeyedBid {
    key: i64,
    #[column(flatten)]
    bid: Bid,
}

/// A row of the side input.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct SideRow {
    key: i64,
    #[column(flatten)]
    side: Side,
}

/// What comes in.
#[derive(Inputs, Debug, Clone, PartialEq)]
pub enum In {
    /// A bid with its key.
    #[input(name = "bids")]
    Bid(KeyedBid),
    /// A row of the side input.
    #[input(name = "side")]
    Side(SideRow),
}

/// What both are grouped by.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct SideKey {
    key: i64,
}

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
}

/// What the side input says.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Side {
    value: String,
}

/// A bid and what the side input says.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct SideBid {
    #[column(flatten)]
    bid: Bid,
    #[column(flatten)]
    side: Side,
}

/// The operator.
#[derive(States)]
pub struct SideBids {
    sides: DimensionJoin<SideKey, Bid, Side>,
}

#[operator]
impl SideBids {
    fn process(
        &mut self,
        row: In,
        record: &Record<SideKey>,
        out: &mut Emitter<SideBid>,
    ) -> Result<()> {
        match row {
            In::Bid(KeyedBid { bid, .. }) => {
                if let Some(side) = self.sides.fact(record, &bid)? {
                    out.emit(&SideBid { bid, side });
                }
            }
            In::Side(SideRow { side, .. }) => {
                for bid in self.sides.dimension(record, side.clone())? {
                    out.emit(&SideBid { bid, side: side.clone() });
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

    fn bid(price: i64) -> Bid {
        Bid { auction: 10_001, bidder: 2, price, date_time: Timestamp::from_millis(5) }
    }

    fn bids(key: i64, price: i64) -> In {
        In::Bid(KeyedBid { key, bid: bid(price) })
    }

    fn side(value: &str) -> Side {
        Side { value: value.to_owned() }
    }

    fn says(key: i64, value: &str) -> In {
        In::Side(SideRow { key, side: side(value) })
    }

    fn side_bid(price: i64, value: &str) -> Event<SideBid> {
        Event::insert(SideBid { bid: bid(price), side: side(value) })
    }

    #[test]
    fn bids_and_the_side_input_meet_whichever_comes_first() -> Result<()> {
        let mut host = TestHost::<SideBids>::new()?;
        assert_eq!(host.process([bids(1, 10), says(2, "two"), bids(3, 30)])?, [], "no key alike");
        let joined = host.process([says(1, "one"), bids(2, 20), bids(1, 11)])?;
        assert_eq!(joined, [side_bid(10, "one"), side_bid(20, "two"), side_bid(11, "one")]);
        Ok(())
    }

    #[test]
    fn bids_wait_over_a_crash() -> Result<()> {
        let mut host = TestHost::<SideBids>::new()?;
        host.process([bids(1, 10)])?;
        host.barrier()?;
        host.process([says(1, "one")])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([says(1, "uno")])?, [side_bid(10, "uno")]);
        Ok(())
    }
}

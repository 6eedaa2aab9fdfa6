//! Bids with their auction and its seller (second part of Nexmark query 23): the second of two joins in
//! a row.
//!
//! Takes in what `nexmark-q23` emits, grouped by the seller.

use howdah_sdk::join::DimensionJoin;
use howdah_sdk::prelude::*;

/// A person registers.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewPerson {
    p_id: i64,
    #[column(flatten)]
    person: Person,
}

/// A bid and its auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct AuctionBid {
    #[column(flatten)]
    bid: Bid,
    seller: i64,
}

/// What comes in.
#[derive(Inputs, Debug, Clone, PartialEq)]
pub enum In {
    /// A person registers.
    #[input(name = "persons", key("p_id"))]
    Person(NewPerson),
    /// A bid and its auction.
    #[input(name = "bids", key("seller"))]
    Bid(AuctionBid),
}

/// Who sells.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Seller {
    p_id: i64,
}

/// What is kept of a person.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Person {
    name: String,
    city: String,
    state: String,
}

/// What is kept of a bid that waits for the person who sells.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    bid_time: Timestamp,
    item_name: String,
    category: i64,
}

/// A bid, its auction, and who sells.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct SellerBid {
    #[column(flatten)]
    bid: Bid,
    seller: i64,
    #[column(flatten)]
    person: Person,
}

/// The operator.
#[derive(States)]
pub struct SellerBids {
    persons: DimensionJoin<Seller, Bid, Person>,
}

#[operator]
impl SellerBids {
    fn process(
        &mut self,
        row: In,
        record: &Record<Seller>,
        out: &mut Emitter<SellerBid>,
    ) -> Result<()> {
        match row {
            In::Person(NewPerson { p_id: seller, person }) => {
                for bid in self.persons.dimension(record, person.clone())? {
                    out.emit(&SellerBid { bid, seller, person: person.clone() });
                }
            }
            In::Bid(AuctionBid { bid, seller }) => {
                if let Some(person) = self.persons.fact(record, &bid)? {
                    out.emit(&SellerBid { bid, seller, person });
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

    fn person() -> Person {
        let [name, city, state] = ["ann", "bend", "or"].map(str::to_owned);
        Person { name, city, state }
    }

    fn registers(p_id: i64) -> In {
        In::Person(NewPerson { p_id, person: person() })
    }

    fn bid(price: i64) -> Bid {
        let bid_time = Timestamp::from_millis(150);
        let item_name = "hat".to_owned();
        Bid { auction: 1, bidder: 5, price, bid_time, item_name, category: 10 }
    }

    fn bids(seller: i64, price: i64) -> In {
        In::Bid(AuctionBid { bid: bid(price), seller })
    }

    fn seller_bid(seller: i64, price: i64) -> Event<SellerBid> {
        Event::insert(SellerBid { bid: bid(price), seller, person: person() })
    }

    #[test]
    fn bids_and_persons_meet_whichever_comes_first() -> Result<()> {
        let mut host = TestHost::<SellerBids>::new()?;
        assert_eq!(host.process([bids(3, 30), registers(4)])?, []);
        let joined = host.process([registers(3), bids(4, 40), bids(3, 50)])?;
        assert_eq!(joined, [seller_bid(3, 30), seller_bid(4, 40), seller_bid(3, 50)]);
        Ok(())
    }

    #[test]
    fn bids_wait_over_a_crash() -> Result<()> {
        let mut host = TestHost::<SellerBids>::new()?;
        host.process([bids(3, 30)])?;
        host.barrier()?;
        host.process([registers(3)])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([registers(3)])?, [seller_bid(3, 30)]);
        Ok(())
    }
}

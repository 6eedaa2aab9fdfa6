//! Who sells in Oregon, Idaho or California in category 10, and what (Nexmark query 3): a join.
//!
//! Persons and auctions are both grouped by the seller, and either may come first.

use howdah_sdk::join::Join;
use howdah_sdk::prelude::*;

/// A person registers.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewPerson {
    p_id: i64,
    #[column(flatten)]
    person: Person,
}

/// An auction opens.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct NewAuction {
    a_id: i64,
    seller: i64,
    category: i64,
}

/// What comes in.
#[derive(Inputs, Debug, Clone, PartialEq)]
pub enum In {
    /// A person registers.
    #[input(name = "persons", key("p_id"))]
    Person(NewPerson),
    /// An auction opens.
    #[input(name = "auctions", key("seller"))]
    Auction(NewAuction),
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

/// What is kept of an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Auction {
    id: i64,
}

/// A seller and an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Sale {
    #[column(flatten)]
    seller: Person,
    #[column(flatten)]
    auction: Auction,
}

/// The operator.
#[derive(States)]
pub struct LocalSellers {
    sales: Join<Seller, Person, Auction>,
}

#[operator]
impl LocalSellers {
    fn process(&mut self, row: In, record: &Record<Seller>, out: &mut Emitter<Sale>) -> Result<()> {
        match row {
            In::Person(NewPerson { person: seller, .. }) if is_local(&seller.state) => {
                for auction in self.sales.left(record, &seller)? {
                    out.emit(&Sale { seller: seller.clone(), auction });
                }
            }
            In::Auction(NewAuction { a_id: id, category: 10, .. }) => {
                for seller in self.sales.right(record, &Auction { id })? {
                    out.emit(&Sale { seller, auction: Auction { id } });
                }
            }
            In::Person(_) | In::Auction(_) => {}
        }
        Ok(())
    }
}

/// The generator of the events writes states in small letters, others in capital ones.
fn is_local(state: &str) -> bool {
    ["OR", "ID", "CA"].iter().any(|local| state.eq_ignore_ascii_case(local))
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn person(state: &str) -> Person {
        Person { name: "ann".to_owned(), city: "bend".to_owned(), state: state.to_owned() }
    }

    fn registers(p_id: i64, state: &str) -> In {
        In::Person(NewPerson { p_id, person: person(state) })
    }

    fn opens(a_id: i64, seller: i64, category: i64) -> In {
        In::Auction(NewAuction { a_id, seller, category })
    }

    fn sale(state: &str, id: i64) -> Event<Sale> {
        Event::insert(Sale { seller: person(state), auction: Auction { id } })
    }

    #[test]
    fn sellers_and_auctions_meet_whichever_comes_first() -> Result<()> {
        let mut host = TestHost::<LocalSellers>::new()?;
        assert_eq!(host.process([opens(10, 1, 10), registers(2, "ca")])?, []);
        let sales = host.process([registers(1, "OR"), opens(20, 2, 10), opens(11, 1, 10)])?;
        assert_eq!(sales, [sale("OR", 10), sale("ca", 20), sale("OR", 11)]);
        Ok(())
    }

    #[test]
    fn other_states_and_categories_are_not_even_kept() -> Result<()> {
        let mut host = TestHost::<LocalSellers>::new()?;
        assert_eq!(host.process([registers(1, "az"), opens(10, 1, 10)])?, []);
        assert_eq!(host.process([registers(2, "id"), opens(20, 2, 11)])?, []);
        assert_eq!(host.values::<Person>("sales-left")?.len(), 1);
        assert_eq!(host.values::<Auction>("sales-right")?.len(), 1);
        Ok(())
    }

    #[test]
    fn both_sides_come_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<LocalSellers>::new()?;
        host.process([registers(1, "or"), opens(20, 2, 10)])?;
        host.barrier()?;
        host.process([opens(10, 1, 10)])?;
        host.crash();
        host.restore()?;
        let sales = host.process([opens(10, 1, 10), registers(2, "id")])?;
        assert_eq!(sales, [sale("or", 10), sale("id", 20)]);
        Ok(())
    }
}

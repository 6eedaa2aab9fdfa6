//! How many different values a key has had, under each of several filters.
//!
//! [`Distinct`] is a state like others. It remembers each value once, with the filters that let it
//! through, however many they are: `COUNT(DISTINCT bidder)` and
//! `COUNT(DISTINCT bidder) FILTER (WHERE price >= 100)` share one.
//!
//! ```
//! use howdah_sdk::distinct::Distinct;
//! use howdah_sdk::prelude::*;
//! use howdah_sdk::testing::{Event, TestHost};
//!
//! #[derive(Row)]
//! struct Bid { auction: i64, bidder: i64, price: i64 }
//! #[derive(Key)]
//! struct Auction { auction: i64 }
//! /// What is counted: the map key of the state.
//! #[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord)]
//! struct Bidder { bidder: i64 }
//!
//! /// Who bids for the first time, and for the first time as much as 100.
//! #[derive(Row, Debug, PartialEq)]
//! struct New { bidder: i64, bids: bool, bids_much: bool }
//!
//! #[derive(States)]
//! struct NewBidders { bidders: Distinct<Auction, Bidder, 2> }
//!
//! #[operator]
//! impl NewBidders {
//!     /// One look-up brings the bidders of all rows of a batch.
//!     fn prepare(&mut self, bid: &Bid, record: &Record<Auction>) -> Result<()> {
//!         self.bidders.want(record, Bidder { bidder: bid.bidder });
//!         Ok(())
//!     }
//!
//!     fn process(&mut self, bid: Bid, record: &Record<Auction>, out: &mut Emitter<New>) -> Result<()> {
//!         let Bid { bidder, price, .. } = bid;
//!         let [bids, bids_much] = self.bidders.add(record, Bidder { bidder }, [true, price >= 100])?;
//!         if bids || bids_much {
//!             out.emit(&New { bidder, bids, bids_much });
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let bid = |bidder, price| Bid { auction: 1, bidder, price };
//! let mut host = TestHost::<NewBidders>::new()?;
//! let new = host.process([bid(7, 10), bid(7, 100), bid(7, 200)])?;
//! let expected = [
//!     New { bidder: 7, bids: true, bids_much: false },
//!     New { bidder: 7, bids: false, bids_much: true },
//! ];
//! assert_eq!(new, expected.map(Event::insert));
//! # Ok(())
//! # }
//! ```
//!
//! The state is a [`MapState`] with the values as its map keys, and one column, `filters`: bit `i` is
//! set if filter `i` has let the value through. Values are added only; a changelog whose rows are
//! taken back needs a [`MapState`] that counts them.

use crate::{CurrentKey, Key, MapState, Open, Result, Row, State, StateOptions};

/// The different values `M` that each key `K` has had, under each of `N` filters: see the
/// [module](self). There are at most 63 filters.
#[derive(Debug)]
pub struct Distinct<K, M, const N: usize> {
    seen: MapState<K, M, Seen>,
}

/// The filters that have let a value through, as bits.
#[derive(Row, Debug, Clone, PartialEq)]
struct Seen {
    filters: i64,
}

impl<K, M, const N: usize> Distinct<K, M, N>
where
    K: Key,
    M: Key + Ord + Clone + 'static,
{
    const FITS: () = assert!(N <= 63, "there are at most 63 filters");

    /// Says that this value will be added: see [`MapState::want`].
    pub fn want(&self, key: &CurrentKey<'_, K>, value: M) {
        self.seen.want(key, value);
    }

    /// Adds a value of the key, which these `filters` let through. Gives for which of them it is
    /// the first time: their counts grow by one.
    pub fn add(
        &mut self,
        key: &CurrentKey<'_, K>,
        value: M,
        filters: [bool; N],
    ) -> Result<[bool; N]> {
        let before = self.seen.get(key, &value)?.map_or(0, |seen| seen.filters);
        let mut after = before;
        let mut bit = 1;
        let is_new = filters.map(|passes| {
            let is_new = passes && before & bit == 0;
            after |= if is_new { bit } else { 0 };
            bit <<= 1;
            is_new
        });
        if after != before {
            self.seen.put(key, value, Seen { filters: after });
        }
        Ok(is_new)
    }
}

impl<K, M, const N: usize> State<K> for Distinct<K, M, N>
where
    K: Key,
    M: Key + Ord + Clone + 'static,
{
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        let () = Self::FITS;
        Ok(Self { seen: open.map_with(name, options)? })
    }
}

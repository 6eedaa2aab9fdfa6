//! The first rows of each key in an order: the ten highest bids of an auction.
//!
//! [`TopN`] is a state like others. It keeps the first `N` rows of a key in the order of their sort
//! keys. [`each_change`](TopN::each_change) tells what a batch made of the ranks: the changes of a
//! changelog with a row for each rank, of which those that were overtaken are taken back.
//!
//! ```
//! use howdah_sdk::prelude::*;
//! use howdah_sdk::testing::{Event, TestHost};
//! use howdah_sdk::top::TopN;
//!
//! #[derive(Row)]
//! struct Bid { auction: i64, price: i64, seq: i64 }
//! #[derive(Key)]
//! struct Auction { auction: i64 }
//!
//! /// What rows are sorted by, ascending; with its last field, no two are equal.
//! #[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord)]
//! struct HighestFirst { minus_price: i64, seq: i64 }
//! #[derive(Row, Clone)]
//! struct Price { price: i64 }
//!
//! #[derive(Row, Debug, PartialEq)]
//! struct Ranked { auction: i64, price: i64, rank: i64 }
//!
//! /// The two highest bids of each auction.
//! #[derive(States)]
//! struct Highest { bids: TopN<Auction, HighestFirst, Price, 2> }
//!
//! #[operator]
//! impl Highest {
//!     const OUTPUT_CHANGELOG: bool = true;
//!
//!     fn process(&mut self, bid: Bid, record: &Record<Auction>, _: &mut Emitter<Ranked>) -> Result<()> {
//!         let Bid { price, seq, .. } = bid;
//!         self.bids.add(record, HighestFirst { minus_price: -price, seq }, Price { price })
//!     }
//!
//!     fn finish_batch(&mut self, keys: &Keys<Auction>, out: &mut Emitter<Ranked>) -> Result<()> {
//!         self.bids.each_change(keys, |key, rank, before, after| {
//!             let Auction { auction } = key.key()?;
//!             let ranked = |bid: &Price| Ranked { auction, price: bid.price, rank };
//!             out.emit_change(before.map(ranked).as_ref(), after.map(ranked).as_ref());
//!             Ok(())
//!         })
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! use RowKind::{Insert, UpdateAfter, UpdateBefore};
//! let bid = |price, seq| Bid { auction: 1, price, seq };
//! let ranked = |kind, price, rank| Event::new(kind, Ranked { auction: 1, price, rank });
//! let mut host = TestHost::<Highest>::new()?;
//! let changes = host.process([bid(50, 1), bid(70, 2), bid(40, 3)])?;
//! assert_eq!(changes, [ranked(Insert, 70, 1), ranked(Insert, 50, 2)]);
//! let changes = host.process([bid(60, 4)])?;
//! assert_eq!(changes, [ranked(UpdateBefore, 50, 2), ranked(UpdateAfter, 60, 2)]);
//! # Ok(())
//! # }
//! ```
//!
//! The state is a [`MapState`] with the sort keys as its map keys. A row that was pushed out is
//! gone, so rows are added only: the input is no changelog.

use crate::{CurrentKey, Key, Keys, MapState, Open, Result, Row, State, StateOptions};

/// The first `N` rows `V` of each key `K`, in the order of their sort keys `S`: see the
/// [module](self).
///
/// The order is that of the fields of `S`, ascending: store `-price` for the highest first. Two rows
/// with the same sort key are one, and the later one counts: end it with a number of the row.
#[derive(Debug)]
pub struct TopN<K, S, V, const N: usize> {
    rows: MapState<K, S, V>,
}

impl<K, S, V, const N: usize> TopN<K, S, V, N>
where
    K: Key,
    S: Key + Ord + Clone + 'static,
    V: Row + Clone + 'static,
{
    /// Adds a row of the key, if it is among the first `N`; the one that it pushes out is gone.
    pub fn add(&mut self, key: &CurrentKey<'_, K>, sort_key: S, row: V) -> Result<()> {
        let (mut before, mut others) = (0, 0);
        self.rows.each(key, |other, _| {
            before += usize::from(*other < sort_key);
            others += usize::from(*other != sort_key);
        })?;
        if before >= N {
            return Ok(());
        }
        if others >= N {
            let mut last = None;
            self.rows.each(key, |other, _| {
                if last.as_ref().is_none_or(|last| other > last) && *other > sort_key {
                    last = Some(other.clone());
                }
            })?;
            last.into_iter().for_each(|last| self.rows.remove(key, last));
        }
        self.rows.put(key, sort_key, row);
        Ok(())
    }

    /// The rows of the key, the first one first.
    pub fn rows(&self, key: &CurrentKey<'_, K>) -> Result<Vec<(S, V)>> {
        self.rows.entries(key)
    }

    /// Calls `each` for each rank of these keys, from 1 on, that has another row than before the
    /// running call: with the row that it had, and the one that it has. For
    /// [`finish_batch`](crate::Operator::finish_batch).
    pub fn each_change(
        &mut self,
        keys: &Keys<'_, K>,
        mut each: impl FnMut(&CurrentKey<'_, K>, i64, Option<&V>, Option<&V>) -> Result<()>,
    ) -> Result<()> {
        self.rows.each_changed_map(keys, |key, before, after| {
            for (rank, index) in (1..).zip(0..before.len().max(after.len())) {
                let before = before.get(index).map(AsRef::as_ref);
                let after = after.get(index).copied();
                let same =
                    before.zip(after).is_some_and(|(before, after)| std::ptr::eq(before, after));
                if !same {
                    each(key, rank, before, after)?;
                }
            }
            Ok(())
        })
    }
}

impl<K, S, V, const N: usize> State<K> for TopN<K, S, V, N>
where
    K: Key,
    S: Key + Ord + Clone + 'static,
    V: Row + Clone + 'static,
{
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        Ok(Self { rows: open.map_with(name, options)? })
    }
}

//! The first rows of each key in an order: the ten highest bids of an auction.
//!
//! [`TopN`] is a state like others. It keeps the first `N` rows of a key in the order of their sort
//! keys, and says what a row that comes among them moves: [`Ranking::changes`] are the changes of a
//! changelog with a row for each rank.
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
//!     fn process(&mut self, bid: Bid, record: &Record<Auction>, out: &mut Emitter<Ranked>) -> Result<()> {
//!         let Bid { auction, price, seq } = bid;
//!         let order = HighestFirst { minus_price: -price, seq };
//!         let ranking = self.bids.add(record, order, Price { price })?;
//!         for (rank, before, after) in ranking.changes() {
//!             let ranked = |bid: &Price| Ranked { auction, price: bid.price, rank };
//!             out.emit_change(before.map(ranked).as_ref(), Some(&ranked(after)));
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! use RowKind::{Insert, UpdateAfter, UpdateBefore};
//! let bid = |price, seq| Bid { auction: 1, price, seq };
//! let ranked = |kind, price, rank| Event::new(kind, Ranked { auction: 1, price, rank });
//! let mut host = TestHost::<Highest>::new()?;
//! let changes = host.process([bid(50, 1), bid(70, 2), bid(40, 3)])?;
//! let expected = [
//!     ranked(Insert, 50, 1),
//!     ranked(UpdateBefore, 50, 1),
//!     ranked(UpdateAfter, 70, 1),
//!     ranked(Insert, 50, 2),
//! ];
//! assert_eq!(changes, expected);
//! # Ok(())
//! # }
//! ```
//!
//! The state is a [`MapState`] with the sort keys as its map keys. A row that was pushed out is
//! gone, so rows are added only: the input is no changelog.

use crate::{CurrentKey, Key, MapState, Open, Result, Row, State, StateOptions};

/// The first `N` rows `V` of each key `K`, in the order of their sort keys `S`: see the
/// [module](self).
///
/// The order is that of the fields of `S`, ascending: store `-price` for the highest first. Two rows
/// with the same sort key are one, and the later one counts: end it with a number of the row.
#[derive(Debug)]
pub struct TopN<K, S, V, const N: usize> {
    rows: MapState<K, S, V>,
}

/// What became of the rows of a key when another was added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "rows that moved have other ranks now"]
pub struct Ranking<V> {
    /// The rank of the row that was added, from 1 on.
    first: usize,
    /// That row and those behind it, with the one that was pushed out.
    rows: Vec<V>,
    /// The last rank that there is.
    last: usize,
}

impl<V> Ranking<V> {
    /// The ranks that have another row now, each with the one before, if it had one, and the one
    /// that it has.
    pub fn changes(&self) -> impl Iterator<Item = (i64, Option<&V>, &V)> {
        let ranks = (self.first..=self.last).zip(0..);
        ranks.filter_map(|(rank, index)| {
            let after = self.rows.get(index)?;
            Some((i64::try_from(rank).ok()?, self.rows.get(index + 1), after))
        })
    }
}

impl<K, S, V, const N: usize> TopN<K, S, V, N>
where
    K: Key,
    S: Key + Ord + Clone + 'static,
    V: Row + Clone + 'static,
{
    /// Adds a row of the key. The ranking has no changes if it is not among the first `N`.
    pub fn add(&mut self, key: &CurrentKey<'_, K>, sort_key: S, row: V) -> Result<Ranking<V>> {
        let mut before = 0;
        self.rows.each(key, |other, _| before += usize::from(*other < sort_key))?;
        let mut ranking = Ranking { first: before + 1, rows: Vec::new(), last: N };
        if before >= N {
            return Ok(ranking);
        }
        let mut pushed_out = None;
        ranking.rows.push(row.clone());
        self.rows.each(key, |other, row| {
            if *other > sort_key {
                ranking.rows.push(row.clone());
                pushed_out = Some(other.clone());
            }
        })?;
        if before + ranking.rows.len() > N
            && let Some(pushed_out) = pushed_out
        {
            self.rows.remove(key, pushed_out);
        }
        self.rows.put(key, sort_key, row);
        Ok(ranking)
    }

    /// The rows of the key, the first one first.
    pub fn rows(&self, key: &CurrentKey<'_, K>) -> Result<Vec<(S, V)>> {
        self.rows.entries(key)
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

//! Joins of two inputs by their key, whichever of two rows comes first.
//!
//! [`Join`] joins each row of the one with each row of the other, as an inner join of SQL does, and
//! takes changelogs. [`DimensionJoin`] is for facts that have one row of a dimension each, such as
//! bids and their auction: it keeps only facts that came too early.
//!
//! ```
//! use howdah_sdk::join::Join;
//! use howdah_sdk::prelude::*;
//! use howdah_sdk::testing::{Event, TestHost};
//!
//! #[derive(Row, Clone, PartialEq)]
//! struct Person { person: i64, name: String }
//! #[derive(Row, Clone, PartialEq)]
//! struct Item { seller: i64, item: String }
//!
//! #[derive(Inputs)]
//! enum In {
//!     #[input(changelog)]
//!     Person(Person),
//!     #[input(key("seller"))]
//!     Item(Item),
//! }
//!
//! #[derive(Key)]
//! struct Seller { person: i64 }
//!
//! // The columns of the state: without the key.
//! #[derive(Row, Clone, PartialEq)]
//! struct Name { name: String }
//! #[derive(Row, Clone, PartialEq)]
//! struct Offer { item: String }
//!
//! #[derive(Row, Debug, PartialEq)]
//! struct Sold { name: String, item: String }
//!
//! #[derive(States)]
//! struct Sellers { offers: Join<Seller, Name, Offer> }
//!
//! #[operator]
//! impl Sellers {
//!     const OUTPUT_CHANGELOG: bool = true;
//!
//!     fn process(&mut self, row: In, record: &Record<Seller>, out: &mut Emitter<Sold>) -> Result<()> {
//!         let kind = record.kind();
//!         let mut emit = |Name { name }, Offer { item }| out.emit_kind(kind, &Sold { name, item });
//!         match row {
//!             In::Person(Person { name, .. }) => {
//!                 let name = Name { name };
//!                 for offer in self.offers.left(record, &name)? {
//!                     emit(name.clone(), offer);
//!                 }
//!             }
//!             In::Item(Item { item, .. }) => {
//!                 let offer = Offer { item };
//!                 for name in self.offers.right(record, &offer)? {
//!                     emit(name, offer.clone());
//!                 }
//!             }
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let ann = || In::Person(Person { person: 1, name: "ann".to_owned() });
//! let hat = In::Item(Item { seller: 1, item: "hat".to_owned() });
//! let sold = || Sold { name: "ann".to_owned(), item: "hat".to_owned() };
//! let mut host = TestHost::<Sellers>::new()?;
//! assert_eq!(host.process([hat, ann()])?, [Event::insert(sold())]);
//! let gone = host.process_events([Event::new(RowKind::Delete, ann())])?;
//! assert_eq!(gone, [Event::new(RowKind::Delete, sold())]);
//! # Ok(())
//! # }
//! ```

use crate::{
    CurrentKey, Error, Key, Keys, ListState, Open, Record, Result, Row, State, StateOptions,
    ValueState,
};

/// An inner join of two inputs: each row `L` of a key `K` with each of its rows `R`. See the
/// [module](self).
///
/// Both inputs may be changelogs. What is emitted is of the kind of the row that came
/// ([`Record::kind`]), so if one of them is, the output is one too.
///
/// The states are two lists, `<name>-left` and `<name>-right`. With a time to live, a row that is taken back
/// after it has expired joins nothing; a row that is taken back renews that of the others of its key.
#[derive(Debug)]
pub struct Join<K, L, R> {
    left: ListState<K, L>,
    right: ListState<K, R>,
    /// Whether rows may be gone that were never taken back.
    expires: bool,
}

impl<K, L, R> Join<K, L, R>
where
    K: Key,
    L: Row + Clone + PartialEq + 'static,
    R: Row + Clone + PartialEq + 'static,
{
    /// Takes a row of the left input in, or out if its kind says so, and gives the rows of the right
    /// one that it joins.
    pub fn left(&mut self, record: &Record<'_, K>, row: &L) -> Result<Vec<R>> {
        let joins = change(&mut self.left, record, row, self.expires)?;
        if joins { self.right.get(record) } else { Ok(Vec::new()) }
    }

    /// The same for a row of the right input.
    pub fn right(&mut self, record: &Record<'_, K>, row: &R) -> Result<Vec<L>> {
        let joins = change(&mut self.right, record, row, self.expires)?;
        if joins { self.left.get(record) } else { Ok(Vec::new()) }
    }
}

/// Adds the row to the list of its key, or removes one that equals it. `false`: there is none any more.
fn change<K: Key, V: Row + Clone + PartialEq + 'static>(
    list: &mut ListState<K, V>,
    record: &Record<'_, K>,
    row: &V,
    expires: bool,
) -> Result<bool> {
    if record.kind().adds() {
        list.append(record, row.clone());
        return Ok(true);
    }
    let mut rows = list.get(record)?;
    let Some(position) = rows.iter().position(|other| other == row) else {
        if expires {
            return Ok(false);
        }
        return Err(Error::new(
            "a join is to take a row back that it has not: its input is no changelog of whole rows",
        ));
    };
    rows.remove(position);
    list.clear(record);
    rows.into_iter().for_each(|row| list.append(record, row));
    Ok(true)
}

impl<K, L, R> State<K> for Join<K, L, R>
where
    K: Key,
    L: Row + Clone + PartialEq + 'static,
    R: Row + Clone + PartialEq + 'static,
{
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        let expires = options.ttl_ms.is_some();
        let left = open.list_with(&format!("{name}-left"), options)?;
        let right = open.list_with(&format!("{name}-right"), options)?;
        Ok(Self { left, right, expires })
    }
}

/// A join of facts `F` with the one row `D` that a dimension has for their key `K`.
///
/// Facts that come before it wait, and are given out when it comes; those that come later are not
/// kept. So the dimension's row is there once and stays, and neither input takes rows back. If it
/// comes again, it replaces the one before for facts to come.
///
/// ```
/// use howdah_sdk::join::DimensionJoin;
/// use howdah_sdk::prelude::*;
/// use howdah_sdk::testing::{Event, TestHost};
///
/// #[derive(Row)]
/// struct Auction { auction: i64, category: i64 }
/// #[derive(Row)]
/// struct Bid { auction: i64, price: i64 }
///
/// #[derive(Inputs)]
/// enum In { Auction(Auction), Bid(Bid) }
///
/// #[derive(Key)]
/// struct Id { auction: i64 }
/// #[derive(Row, Clone)]
/// struct Category { category: i64 }
/// #[derive(Row, Clone)]
/// struct Price { price: i64 }
///
/// #[derive(Row, Debug, PartialEq)]
/// struct Out { category: i64, price: i64 }
///
/// #[derive(States)]
/// struct Prices { categories: DimensionJoin<Id, Price, Category> }
///
/// #[operator]
/// impl Prices {
///     fn process(&mut self, row: In, record: &Record<Id>, out: &mut Emitter<Out>) -> Result<()> {
///         match row {
///             In::Auction(Auction { category, .. }) => {
///                 for Price { price } in self.categories.dimension(record, Category { category })? {
///                     out.emit(&Out { category, price });
///                 }
///             }
///             In::Bid(Bid { price, .. }) => {
///                 if let Some(found) = self.categories.fact(record, &Price { price })? {
///                     out.emit(&Out { category: found.category, price });
///                 }
///             }
///         }
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let bid = |price| In::Bid(Bid { auction: 1, price });
/// let auction = In::Auction(Auction { auction: 1, category: 5 });
/// let mut host = TestHost::<Prices>::new()?;
/// assert_eq!(host.process([bid(10), bid(20)])?, []);
/// let expected = [10, 20, 30].map(|price| Event::insert(Out { category: 5, price }));
/// assert_eq!(host.process([auction, bid(30)])?, expected);
/// # Ok(())
/// # }
/// ```
///
/// The states are a value, `<name>`, and a list, `<name>-waiting`.
#[derive(Debug)]
pub struct DimensionJoin<K, F, D> {
    dimension: ValueState<K, D>,
    waiting: ListState<K, F>,
}

impl<K, F, D> DimensionJoin<K, F, D>
where
    K: Key,
    F: Row + Clone + 'static,
    D: Row + Clone + 'static,
{
    /// Takes the row of the dimension in, and gives the facts that waited for it, oldest first.
    pub fn dimension(&mut self, key: &CurrentKey<'_, K>, row: D) -> Result<Vec<F>> {
        self.dimension.put(key, row);
        let waiting = self.waiting.get(key)?;
        if !waiting.is_empty() {
            self.waiting.clear(key);
        }
        Ok(waiting)
    }

    /// The row of the dimension that the fact belongs to. If there is none yet, the fact waits.
    pub fn fact(&mut self, key: &CurrentKey<'_, K>, fact: &F) -> Result<Option<D>> {
        let dimension = self.dimension.get(key)?;
        if dimension.is_none() {
            self.waiting.append(key, fact.clone());
        }
        Ok(dimension)
    }

    /// The row of the dimension, if there is one yet.
    pub fn get(&self, key: &CurrentKey<'_, K>) -> Result<Option<D>> {
        self.dimension.get(key)
    }

    /// Calls `each` for each of these keys whose row of the dimension the running call wrote: see
    /// [`ValueState::each_change`].
    pub fn each_change(
        &mut self,
        keys: &Keys<'_, K>,
        each: impl FnMut(&CurrentKey<'_, K>, Option<&D>, Option<&D>) -> Result<()>,
    ) -> Result<()> {
        self.dimension.each_change(keys, each)
    }

    /// Writes the row of the dimension anew, for what its facts come to may be part of it.
    pub fn update(&mut self, key: &CurrentKey<'_, K>, row: D) {
        self.dimension.put(key, row);
    }
}

impl<K, F, D> State<K> for DimensionJoin<K, F, D>
where
    K: Key,
    F: Row + Clone + 'static,
    D: Row + Clone + 'static,
{
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        Ok(Self {
            dimension: open.value_with(name, options)?,
            waiting: open.list_with(&format!("{name}-waiting"), options)?,
        })
    }
}

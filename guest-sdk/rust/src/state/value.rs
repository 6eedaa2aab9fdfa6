use std::cell::{Ref, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

use super::{DuringCall, Link, Loaded, explicit};
use crate::columns::{Column, Values};
use crate::{CurrentKey, Key, Keys, Record, Result, Row, Value, columns, host, row};

/// At most one row `V` for each key `K`, kept by the host as a table.
///
/// In [`process`](crate::Operator::process) and [`on_timer`](crate::Operator::on_timer), the
/// record or timer says which key: the first [`get`](Self::get) of a call loads the rows of *all*
/// of its keys at once, the others read from that, and what changed is written back at once when
/// the call ends. Outside of them, the `_many` methods take keys, here and in the other states.
pub struct ValueState<K, V> {
    table: Rc<RefCell<Table<V>>>,
    key: PhantomData<fn(K)>,
}

impl<K: Key, V: Row + Clone + 'static> ValueState<K, V> {
    pub(crate) fn new(name: &str, handle: Option<host::ValueState>) -> (Self, Rc<dyn DuringCall>) {
        let link = Link::new(name, handle);
        let table = Rc::new(RefCell::new(Table { link, loaded: None, slots: Vec::new() }));
        (Self { table: Rc::clone(&table), key: PhantomData }, table)
    }

    /// The row of the key. Fails if the host cannot read its state.
    #[inline]
    pub fn get(&self, key: &CurrentKey<'_, K>) -> Result<Option<V>> {
        self.table.borrow_mut().get(key.index)
    }

    /// Writes the row of the key.
    #[inline]
    pub fn put(&mut self, key: &CurrentKey<'_, K>, row: V) {
        self.table.borrow_mut().set(key.index, Slot::Put(row));
    }

    /// Removes the row of the key; a key without one is fine.
    pub fn delete(&mut self, key: &CurrentKey<'_, K>) {
        self.table.borrow_mut().set(key.index, Slot::Deleted);
    }

    /// Writes the row of the key, or removes it, and gives the one before. With
    /// [`Emitter::emit_change`](crate::Emitter::emit_change), upserts become a changelog.
    pub fn replace(&mut self, key: &CurrentKey<'_, K>, row: Option<V>) -> Result<Option<V>> {
        let before = self.get(key)?;
        match row {
            Some(row) => self.put(key, row),
            None => self.delete(key),
        }
        Ok(before)
    }

    /// Does to the row of the key what a row of a changelog says: +I and +U write it, -D removes
    /// it, -U does nothing, since the +U that comes with it replaces the row.
    pub fn apply(&mut self, record: &Record<'_, K>, row: V) {
        match record.kind() {
            crate::RowKind::Insert | crate::RowKind::UpdateAfter => self.put(record, row),
            crate::RowKind::Delete => self.delete(record),
            crate::RowKind::UpdateBefore => {}
        }
    }

    /// Calls `each` for each of these keys whose row the running call wrote or removed, with the row
    /// before the call and the one that it has now. In
    /// [`finish_batch`](crate::Operator::finish_batch), this makes a changelog of the state:
    ///
    /// ```
    /// # use howdah_sdk::prelude::*;
    /// # use howdah_sdk::testing::{Event, TestHost};
    /// # #[derive(Row)] struct Bid { auction: i64 }
    /// # #[derive(Key)] struct Auction { auction: i64 }
    /// # #[derive(Row, Clone)] struct Count { bids: i64 }
    /// # #[derive(Row, Debug, PartialEq)] struct Bids { auction: i64, bids: i64 }
    /// # #[derive(States)] struct Counts { counts: ValueState<Auction, Count> }
    /// #[operator]
    /// impl Counts {
    ///     const OUTPUT_CHANGELOG: bool = true;
    ///
    ///     fn process(&mut self, _: Bid, record: &Record<Auction>, _: &mut Emitter<Bids>) -> Result<()> {
    ///         let bids = self.counts.get(record)?.map_or(0, |count| count.bids) + 1;
    ///         self.counts.put(record, Count { bids });
    ///         Ok(())
    ///     }
    ///
    ///     fn finish_batch(&mut self, keys: &Keys<Auction>, out: &mut Emitter<Bids>) -> Result<()> {
    ///         self.counts.each_change(keys, |key, before, after| {
    ///             let Auction { auction } = key.key()?;
    ///             let row = |count: &Count| Bids { auction, bids: count.bids };
    ///             out.emit_change(before.map(row).as_ref(), after.map(row).as_ref());
    ///             Ok(())
    ///         })
    ///     }
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let mut host = TestHost::<Counts>::new()?;
    /// let changes = host.process([1, 2, 1, 1].map(|auction| Bid { auction }))?;
    /// let bids = |auction, bids| Event::insert(Bids { auction, bids });
    /// assert_eq!(changes, [bids(1, 3), bids(2, 1)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn each_change(
        &mut self,
        keys: &Keys<'_, K>,
        mut each: impl FnMut(&CurrentKey<'_, K>, Option<&V>, Option<&V>) -> Result<()>,
    ) -> Result<()> {
        let table = &mut *self.table.borrow_mut();
        if table.slots.is_empty() {
            return Ok(());
        }
        table.load()?;
        for (key, slot) in keys.iter().zip(&table.slots) {
            let after = match slot {
                Slot::Put(row) => Some(row),
                Slot::Deleted => None,
                Slot::Untouched => continue,
            };
            let before = match &table.loaded {
                Some(loaded) => loaded.read::<V>(key.index as usize)?,
                None => None,
            };
            each(&key, before.as_ref(), after)?;
        }
        Ok(())
    }

    /// The rows of all keys of the running call, as columns: for
    /// [`process_batch`](crate::Operator::process_batch). It does not see what this call has
    /// `put` or `delete`d.
    pub fn load(&self) -> Result<StateRows<'_>> {
        let mut table = self.table.borrow_mut();
        table.load()?;
        drop(table);
        Ok(StateRows { table: Ref::map(self.table.borrow(), |table| table as &dyn HasLoaded) })
    }

    /// The same, but the columns are the caller's, who can change them where they lie and
    /// [`store_all`](Self::store_all) them: nothing is copied. A later read in this call asks the host
    /// again.
    pub fn take(&mut self) -> Result<TakenRows<V>> {
        let mut table = self.table.borrow_mut();
        table.load()?;
        let keys = table.link.keys.unwrap_or(0) as usize;
        let loaded = table.loaded.take().unwrap_or_else(|| Loaded::all(Vec::new()));
        Ok(TakenRows { loaded, keys, row: PhantomData })
    }

    /// Writes the rows of all keys of the running call at once: row `i` of the columns for the key
    /// with index `i`. As [`store`](Self::store).
    pub fn store_all(&mut self, columns: &[Column]) -> Result<()> {
        let table = self.table.borrow();
        let keys = table.link.keys.unwrap_or(0) as usize;
        row::check::<V>(columns, keys).map_err(|error| table.link.named(error))?;
        table.link.call(|handle| handle.put(&crate::wit::Keys::Current, columns))
    }

    /// Writes the rows of these keys of the running call at once: row `i` of the columns for the
    /// key with index `keys[i]`. What [`load`](Self::load) and [`get`](Self::get) gave or give in
    /// this call does not change by it. Fails if a column does not fit its field.
    pub fn store(&mut self, keys: &[u32], columns: &[Column]) -> Result<()> {
        let table = self.table.borrow();
        row::check::<V>(columns, keys.len()).map_err(|error| table.link.named(error))?;
        if keys.is_empty() {
            return Ok(());
        }
        let in_order = keys.iter().copied().eq((0..).take(keys.len()));
        let keys = if in_order {
            // All of them, or the first ones.
            table.link.selected(keys)
        } else {
            crate::wit::Keys::Selected(super::u32_buffer(keys))
        };
        table.link.call(|handle| handle.put(&keys, columns))
    }

    /// The rows of these keys, one call to the host for all. Only where there is no record and no
    /// timer, as in [`on_barrier`](crate::Operator::on_barrier), and only keys that this subtask
    /// has seen.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let table = self.table.borrow();
        let explicit = explicit(keys.iter())?;
        let rows = table.link.call_between(|handle| handle.get(&explicit))?;
        let loaded = Loaded::new::<V>(rows, keys.len());
        let rows = loaded.and_then(|loaded| loaded.read_all(keys.len()));
        rows.map_err(|error| table.link.named(error))
    }

    /// Writes a row for each key, one call to the host for all. The same conditions hold as
    /// for [`get_many`](Self::get_many); if a key comes twice, its last row counts.
    pub fn put_many(&mut self, rows: &[(K, V)]) -> Result<()> {
        let keys = explicit(rows.iter().map(|(key, _)| key))?;
        let columns = row::encode(rows.iter().map(|(_, row)| row));
        self.table.borrow().link.call_between(|handle| handle.put(&keys, &columns))
    }

    /// Removes the rows of these keys, one call to the host for all. The same conditions
    /// hold as for [`get_many`](Self::get_many).
    pub fn delete_many(&mut self, keys: &[K]) -> Result<()> {
        let keys = explicit(keys.iter())?;
        self.table.borrow().link.call_between(|handle| handle.delete(&keys))
    }
}

/// The rows of the running call's keys in a [`ValueState`], as columns.
pub struct StateRows<'a> {
    table: Ref<'a, dyn HasLoaded + 'a>,
}

impl StateRows<'_> {
    /// Whether the key with this index has a row.
    pub fn has(&self, key: usize) -> bool {
        self.table.loaded().is_some_and(|loaded| loaded.has(key))
    }

    /// A field of the rows. The value of a key without a row means nothing. Fails if there is no
    /// such field, or if it is of another type.
    pub fn column<T: Value>(&self, name: &str) -> Result<Values<'_, T>> {
        let columns = self.table.loaded().map_or(&[][..], Loaded::columns);
        columns::named(self.table.fields(), columns, name)
    }
}

/// The rows that the running call's keys had in a [`ValueState`], as columns.
pub struct TakenRows<V> {
    loaded: Loaded,
    keys: usize,
    row: PhantomData<fn() -> V>,
}

impl<V: Row> TakenRows<V> {
    /// Whether every key has a row.
    pub fn has_all(&self) -> bool {
        self.loaded.has_all(self.keys)
    }

    /// Whether the key with this index has a row.
    pub fn has(&self, key: usize) -> bool {
        self.loaded.has(key)
    }

    /// A field of the rows. The value of a key without a row means nothing. Fails if there is no
    /// such field, or if it is of another type.
    pub fn column<T: Value>(&self, name: &str) -> Result<Values<'_, T>> {
        columns::named(V::FIELDS, self.loaded.columns(), name)
    }

    /// All fields of the rows, in the order of the fields of `V`.
    pub fn into_columns(self) -> Vec<Column> {
        self.loaded.into_columns()
    }
}

/// A table without its type.
trait HasLoaded {
    fn loaded(&self) -> Option<&Loaded>;
    fn fields(&self) -> &'static [row::Field];
}

impl<V: Row> HasLoaded for Table<V> {
    fn loaded(&self) -> Option<&Loaded> {
        self.loaded.as_ref()
    }

    fn fields(&self) -> &'static [row::Field] {
        V::FIELDS
    }
}

/// The rows of the running call's keys in one state.
struct Table<V> {
    link: Link<host::ValueState>,
    /// What the host has for the keys, once the call asked.
    loaded: Option<Loaded>,
    /// What the call did to each key; empty until it does something.
    slots: Vec<Slot<V>>,
}

/// What the running call did to a key.
#[derive(Clone)]
enum Slot<V> {
    Untouched,
    Put(V),
    Deleted,
}

impl<V: Row + Clone> Table<V> {
    #[inline]
    fn get(&mut self, key: u32) -> Result<Option<V>> {
        match self.slots.get(key as usize) {
            Some(Slot::Put(row)) => return Ok(Some(row.clone())),
            Some(Slot::Deleted) => return Ok(None),
            Some(Slot::Untouched) | None => {}
        }
        if self.loaded.is_none() {
            self.load()?;
        }
        self.loaded.as_ref().map_or(Ok(None), |loaded| loaded.read(key as usize))
    }

    #[inline(never)]
    fn load(&mut self) -> Result<()> {
        if self.loaded.is_none() {
            let rows = self.link.call(|handle| handle.get(&crate::wit::Keys::Current))?;
            let keys = self.link.keys.unwrap_or(0) as usize;
            let loaded = Loaded::new::<V>(rows, keys).map_err(|error| self.link.named(error))?;
            self.loaded = Some(loaded);
        }
        Ok(())
    }

    /// The driver has checked that `key` is one of the call's.
    #[inline]
    fn set(&mut self, key: u32, slot: Slot<V>) {
        if self.slots.is_empty() {
            self.make_slots();
        }
        if let Some(place) = self.slots.get_mut(key as usize) {
            *place = slot;
        }
    }

    #[inline(never)]
    fn make_slots(&mut self) {
        self.slots.resize(self.link.keys.unwrap_or(0) as usize, Slot::Untouched);
    }

    /// Writes each key whose row differs from what was loaded. What was not loaded is
    /// written unseen.
    fn commit(&self) -> Result<()> {
        if self.slots.is_empty() {
            return Ok(());
        }
        let mut put = Vec::with_capacity(self.slots.len());
        let mut deleted = Vec::new();
        let mut columns = row::builders::<V>(self.slots.len());
        for (key, slot) in (0_u32..).zip(&self.slots) {
            let loaded = self.loaded.as_ref();
            match slot {
                Slot::Put(row) if !loaded.is_some_and(|rows| rows.holds(key as usize, row)) => {
                    row.write(&mut columns);
                    put.push(key);
                }
                Slot::Deleted if loaded.is_none_or(|rows| rows.has(key as usize)) => {
                    deleted.push(key);
                }
                Slot::Untouched | Slot::Put(_) | Slot::Deleted => {}
            }
        }
        if !put.is_empty() {
            let columns = row::finish(columns);
            self.link.call(|handle| handle.put(&self.link.selected(&put), &columns))?;
        }
        if !deleted.is_empty() {
            self.link.call(|handle| handle.delete(&self.link.selected(&deleted)))?;
        }
        Ok(())
    }
}

impl<V: Row + Clone> DuringCall for RefCell<Table<V>> {
    fn begin(&self, keys: u32) {
        self.borrow_mut().link.keys = Some(keys);
    }

    fn commit(&self) -> Result<()> {
        self.borrow().commit()
    }

    fn end(&self) {
        let mut table = self.borrow_mut();
        table.link.keys = None;
        table.loaded = None;
        table.slots.clear();
    }
}

impl<K, V> std::fmt::Debug for ValueState<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueState").field("name", &self.table.borrow().link.name).finish()
    }
}

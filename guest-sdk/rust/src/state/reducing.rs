use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use super::{DuringCall, Link, Loaded, explicit, recycle, u32_buffer};
use crate::columns::Column;
use crate::reduce::Reduce;
use crate::{CurrentKey, Key, Result, Row, host, row, wit};

/// One row `V` for each key `K`, into which the host folds what is added: sums, minima, counts.
///
/// [`add`](Self::add) reads nothing, whatever the size of the state; what a call adds crosses to
/// the host when it ends. How each field is folded says `#[derive(Reduce)]` on `V`.
pub struct ReducingState<K, V> {
    table: Rc<RefCell<Table<V>>>,
    key: PhantomData<fn(K)>,
}

impl<K: Key, V: Row + Reduce + Clone + 'static> ReducingState<K, V> {
    pub(crate) fn new(
        name: &str,
        handle: Option<host::ReducingState>,
    ) -> (Self, Rc<dyn DuringCall>) {
        let table = Table {
            link: Link::new(name, handle),
            added: Vec::new(),
            cleared: Vec::new(),
            folded: None,
        };
        let table = Rc::new(RefCell::new(table));
        (Self { table: Rc::clone(&table), key: PhantomData }, table)
    }

    /// Folds a row into that of the key. Fails if a sum becomes too large; if nothing has read
    /// the row in this call, the call fails when it ends.
    pub fn add(&mut self, key: &CurrentKey<'_, K>, row: V) -> Result<()> {
        self.table.borrow_mut().add(key.index, row)
    }

    /// The folded row of the key, with what this call added; `None` if nothing was added yet.
    pub fn get(&self, key: &CurrentKey<'_, K>) -> Result<Option<V>> {
        self.table.borrow_mut().get(key.index)
    }

    /// Removes the row of the key.
    pub fn clear(&mut self, key: &CurrentKey<'_, K>) {
        self.table.borrow_mut().clear(key.index);
    }

    /// Folds whole columns: row `i` into that of the key with index `keys[i]`, of the running
    /// call. For [`process_batch`](crate::Operator::process_batch): columns of the input can go in
    /// as they are. [`get`](Self::get) in the same call does not see it.
    pub fn add_columns(&mut self, keys: &[u32], columns: &[Column]) -> Result<()> {
        let table = self.table.borrow();
        row::check::<V>(columns, keys.len()).map_err(|error| table.link.named(error))?;
        let keys = wit::Keys::Selected(u32_buffer(keys));
        table.link.call(|handle| handle.add(&keys, columns))
    }

    /// Folds each row into that of its key, in order, one call to the host for all. Only where
    /// there is no record and no timer, as in [`on_barrier`](crate::Operator::on_barrier), and
    /// only of keys that this subtask has seen. Fails if a sum becomes too large.
    pub fn add_many(&mut self, rows: &[(K, V)]) -> Result<()> {
        let keys = explicit(rows.iter().map(|(key, _)| key))?;
        let columns = row::encode(rows.iter().map(|(_, row)| row));
        self.table.borrow().link.call_between(|handle| handle.add(&keys, &columns))
    }

    /// The folded rows of these keys, one call to the host for all. The same conditions hold as
    /// for [`add_many`](Self::add_many).
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let table = self.table.borrow();
        let explicit = explicit(keys.iter())?;
        let rows = table.link.call_between(|handle| handle.get(&explicit))?;
        let loaded = Loaded::new::<V>(rows, keys.len());
        let rows = loaded.and_then(|loaded| loaded.read_all(keys.len()));
        rows.map_err(|error| table.link.named(error))
    }

    /// Removes the rows of these keys, one call to the host for all. The same conditions hold as
    /// for [`add_many`](Self::add_many).
    pub fn clear_many(&mut self, keys: &[K]) -> Result<()> {
        let keys = explicit(keys.iter())?;
        self.table.borrow().link.call_between(|handle| handle.clear(&keys))
    }
}

/// The rows of the running call's keys.
struct Table<V> {
    link: Link<host::ReducingState>,
    /// What was added, in order.
    added: Vec<(u32, V)>,
    /// For each key, how much of `added` a `clear` did away with; empty without one.
    cleared: Vec<Option<usize>>,
    /// The rows with what was added, once the call asked.
    folded: Option<Vec<Option<V>>>,
}

impl<V: Row + Reduce + Clone> Table<V> {
    fn add(&mut self, key: u32, row: V) -> Result<()> {
        if let Some(folded) = self.folded.as_mut().and_then(|rows| rows.get_mut(key as usize)) {
            fold(folded, &row).map_err(|error| self.link.named(error))?;
        }
        self.added.push((key, row));
        Ok(())
    }

    fn get(&mut self, key: u32) -> Result<Option<V>> {
        if self.folded.is_none() {
            self.folded = Some(self.load().map_err(|error| self.link.named(error))?);
        }
        Ok(self.folded.as_ref().and_then(|rows| rows.get(key as usize)).cloned().flatten())
    }

    /// The rows that the host has, with what was added so far.
    fn load(&self) -> Result<Vec<Option<V>>> {
        let keys = self.link.keys.unwrap_or(0) as usize;
        let rows = self.link.call(|handle| handle.get(&wit::Keys::Current))?;
        let loaded = Loaded::new::<V>(rows, keys)?;
        let mut folded = Vec::with_capacity(keys);
        for key in 0..keys {
            let is_cleared = self.cleared.get(key).is_some_and(Option::is_some);
            folded.push(if is_cleared { None } else { loaded.read(key)? });
        }
        for (key, row) in self.remaining() {
            if let Some(folded) = folded.get_mut(*key as usize) {
                fold(folded, row)?;
            }
        }
        Ok(folded)
    }

    fn clear(&mut self, key: u32) {
        if self.cleared.is_empty() {
            self.cleared.resize(self.link.keys.unwrap_or(0) as usize, None);
        }
        if let Some(cleared) = self.cleared.get_mut(key as usize) {
            *cleared = Some(self.added.len());
        }
        if let Some(folded) = self.folded.as_mut().and_then(|rows| rows.get_mut(key as usize)) {
            *folded = None;
        }
    }

    /// What was added and not cleared afterwards.
    fn remaining(&self) -> impl Iterator<Item = &(u32, V)> {
        self.added.iter().enumerate().filter_map(|(position, added)| {
            let cleared = self.cleared.get(added.0 as usize).copied().flatten();
            (cleared.unwrap_or(0) <= position).then_some(added)
        })
    }

    fn commit(&self) -> Result<()> {
        let cleared: Vec<u32> = (0_u32..)
            .zip(&self.cleared)
            .filter_map(|(key, cleared)| cleared.map(|_| key))
            .collect();
        if !cleared.is_empty() {
            self.link.call(|handle| handle.clear(&self.link.selected(&cleared)))?;
        }
        let mut keys = Vec::with_capacity(self.added.len());
        let mut columns = row::builders::<V>(self.added.len());
        for (key, row) in self.remaining() {
            keys.push(*key);
            row.write(&mut columns);
        }
        if !keys.is_empty() {
            let columns = row::finish(columns);
            let keys = wit::Keys::Selected(u32_buffer(&keys));
            self.link.call(|handle| handle.add(&keys, &columns))?;
        }
        Ok(())
    }
}

fn fold<V: Reduce + Clone>(folded: &mut Option<V>, added: &V) -> Result<()> {
    match folded {
        Some(folded) => folded.fold(added),
        None => {
            *folded = Some(added.first());
            Ok(())
        }
    }
}

impl<V: Row + Reduce + Clone> DuringCall for RefCell<Table<V>> {
    fn begin(&self, keys: u32) {
        self.borrow_mut().link.keys = Some(keys);
    }

    fn commit(&self) -> Result<()> {
        self.borrow().commit()
    }

    fn end(&self) {
        let table = &mut *self.borrow_mut();
        table.link.keys = None;
        // A batch has as many rows as the one before: its room is kept.
        table.added.clear();
        recycle(&mut table.cleared);
        table.folded = None;
    }
}

impl<K, V> std::fmt::Debug for ReducingState<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReducingState").field("name", &self.table.borrow().link.name).finish()
    }
}

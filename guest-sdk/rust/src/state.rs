use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use crate::host::StateHandle;
use crate::{Error, Key, Record, Result, Row, columns, row, wit};

/// At most one row `V` for each key `K`, kept by the host as a table.
///
/// Inside [`process`](crate::Operator::process), the record says which key: the first
/// [`get`](Self::get) of a batch loads the rows of *all* keys of the batch in one call, the
/// others read from that, and what changed is written back in one call when the batch ends.
/// Outside of it, the `_many` methods take keys.
pub struct ValueState<K, V> {
    table: Rc<RefCell<Table<V>>>,
    key: PhantomData<fn(K)>,
}

impl<K: Key, V: Row + Clone> ValueState<K, V> {
    pub(crate) fn new(table: Rc<RefCell<Table<V>>>) -> Self {
        Self { table, key: PhantomData }
    }

    /// The row of the record's key. Fails if the host cannot read its state.
    pub fn get(&self, record: &Record<'_, K>) -> Result<Option<V>> {
        self.table.borrow_mut().get(record.key_index)
    }

    /// Writes the row of the record's key.
    pub fn put(&mut self, record: &Record<'_, K>, row: V) {
        self.table.borrow_mut().set(record.key_index, Slot::Put(row));
    }

    /// Removes the row of the record's key; a key without one is fine.
    pub fn delete(&mut self, record: &Record<'_, K>) {
        self.table.borrow_mut().set(record.key_index, Slot::Deleted);
    }

    /// The rows of these keys, one call to the host for all. Only in
    /// [`on_barrier`](crate::Operator::on_barrier) and [`close`](crate::Operator::close), and
    /// only keys that this subtask has seen.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let table = self.table.borrow();
        let rows = table.outside_of_batch()?.get(&explicit(keys)?)?;
        let loaded = Loaded::new::<V>(&table.name, rows, keys.len())?;
        (0..keys.len()).map(|index| loaded.read(index)).collect()
    }

    /// Writes a row for each key, one call to the host for all. The same conditions hold as
    /// for [`get_many`](Self::get_many); if a key comes twice, its last row counts.
    pub fn put_many(&mut self, rows: &[(K, V)]) -> Result<()> {
        let table = self.table.borrow();
        let handle = table.outside_of_batch()?;
        let keys = key_columns(rows.iter().map(|(key, _)| key))?;
        let columns = row::encode(rows.iter().map(|(_, row)| row));
        handle.put(&wit::Keys::Explicit(keys), &columns)
    }

    /// Removes the rows of these keys, one call to the host for all. The same conditions
    /// hold as for [`get_many`](Self::get_many).
    pub fn delete_many(&mut self, keys: &[K]) -> Result<()> {
        self.table.borrow().outside_of_batch()?.delete(&explicit(keys)?)
    }
}

fn explicit<K: Key>(keys: &[K]) -> Result<wit::Keys> {
    key_columns(keys.iter()).map(wit::Keys::Explicit)
}

fn key_columns<'a, K: Key + 'a>(
    keys: impl ExactSizeIterator<Item = &'a K>,
) -> Result<wit::KeyColumns> {
    let rows = u32::try_from(keys.len()).map_err(|_| Error::new("too many keys for one call"))?;
    Ok(wit::KeyColumns { rows, columns: row::encode(keys) })
}

/// A state, as the driver sees it.
pub(crate) trait BatchState {
    /// A batch with so many keys starts.
    fn begin(&self, keys: usize);

    /// The records of the batch have run: write what changed.
    fn commit(&self) -> Result<()>;

    /// The batch is over, one way or the other: forget it.
    fn end(&self);
}

/// The rows of the running batch's keys in one state.
pub(crate) struct Table<V> {
    name: String,
    /// `None` while the operator describes itself.
    handle: Option<Box<dyn StateHandle>>,
    /// How many keys the running batch has; `None` outside of a batch.
    keys: Option<usize>,
    /// What the host has for the keys, once the batch asked.
    loaded: Option<Loaded>,
    /// What the batch did to each key; empty until it does something.
    slots: Vec<Slot<V>>,
}

/// What the running batch did to a key.
#[derive(Clone)]
enum Slot<V> {
    Untouched,
    Put(V),
    Deleted,
}

impl<V: Row + Clone> Table<V> {
    pub(crate) fn new(name: &str, handle: Option<Box<dyn StateHandle>>) -> Self {
        Self { name: name.to_owned(), handle, keys: None, loaded: None, slots: Vec::new() }
    }

    fn handle(&self) -> Result<&dyn StateHandle> {
        self.handle.as_deref().ok_or_else(|| {
            Error::new(format!("state `{}`: not available before the operator runs", self.name))
        })
    }

    /// The handle, for calls with keys of the caller's.
    fn outside_of_batch(&self) -> Result<&dyn StateHandle> {
        match self.keys {
            None => self.handle(),
            Some(_) => Err(Error::new(format!(
                "state `{}`: in `process`, give the record instead of keys",
                self.name
            ))),
        }
    }

    fn get(&mut self, key: usize) -> Result<Option<V>> {
        match self.slots.get(key) {
            Some(Slot::Put(row)) => return Ok(Some(row.clone())),
            Some(Slot::Deleted) => return Ok(None),
            Some(Slot::Untouched) | None => {}
        }
        if self.loaded.is_none() {
            let rows = self.handle()?.get(&wit::Keys::Current)?;
            self.loaded = Some(Loaded::new::<V>(&self.name, rows, self.keys.unwrap_or(0))?);
        }
        self.loaded.as_ref().map_or(Ok(None), |loaded| loaded.read(key))
    }

    /// The driver has checked that `key` is one of the batch's.
    fn set(&mut self, key: usize, slot: Slot<V>) {
        if self.slots.is_empty() {
            self.slots.resize(self.keys.unwrap_or(0), Slot::Untouched);
        }
        if let Some(place) = self.slots.get_mut(key) {
            *place = slot;
        }
    }

    /// Writes each key whose row differs from what was loaded. What was not loaded is
    /// written unseen.
    fn commit(&self) -> Result<()> {
        let mut put = Vec::new();
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
            self.handle()?.put(&self.selected(&put), &row::finish(columns))?;
        }
        if !deleted.is_empty() {
            self.handle()?.delete(&self.selected(&deleted))?;
        }
        Ok(())
    }

    /// The keys with these ascending indices; all of them need no list.
    fn selected(&self, indices: &[u32]) -> wit::Keys {
        if self.keys == Some(indices.len()) {
            wit::Keys::Current
        } else {
            wit::Keys::Selected(indices.iter().flat_map(|index| index.to_le_bytes()).collect())
        }
    }
}

impl<V: Row + Clone> BatchState for RefCell<Table<V>> {
    fn begin(&self, keys: usize) {
        self.borrow_mut().keys = Some(keys);
    }

    fn commit(&self) -> Result<()> {
        self.borrow().commit()
    }

    fn end(&self) {
        let mut table = self.borrow_mut();
        table.keys = None;
        table.loaded = None;
        table.slots.clear();
    }
}

/// Rows that the host gave for a list of keys.
struct Loaded {
    rows: wit::Rows,
}

impl Loaded {
    fn new<V: Row>(state: &str, rows: wit::Rows, keys: usize) -> Result<Self> {
        let in_state = |error: Error| error.context(format!("state `{state}`"));
        if rows.present.as_ref().is_some_and(|present| present.len() != keys.div_ceil(8)) {
            return Err(in_state(Error::invalid_argument("`present` has the wrong length")));
        }
        // Slots of keys without a row hold anything, so nulls are not checked here.
        row::check_lengths::<V>(&rows.columns, keys).map_err(in_state)?;
        Ok(Self { rows })
    }

    fn has(&self, key: usize) -> bool {
        self.rows.present.as_ref().is_none_or(|present| columns::bit(present, key))
    }

    fn read<V: Row>(&self, key: usize) -> Result<Option<V>> {
        if self.has(key) { V::read(&self.rows.columns, key).map(Some) } else { Ok(None) }
    }

    fn holds<V: Row>(&self, key: usize, row: &V) -> bool {
        self.has(key) && row.matches(&self.rows.columns, key)
    }
}

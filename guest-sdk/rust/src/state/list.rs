use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use super::{
    DuringCall, Link, check_grouped, each_its_own, explicit, recycle, rows_of_each, u32_buffer,
};
use crate::columns::Column;
use crate::{CurrentKey, Error, Key, Result, Row, columns, host, row, wit};

/// Any number of rows `V` for each key `K`, in the order in which they were added.
///
/// [`append`](Self::append) reads nothing: what a call adds crosses to the host when it ends,
/// all keys at once. [`get`](Self::get) loads the lists of many of the call's keys together.
pub struct ListState<K, V> {
    table: Rc<RefCell<Table<V>>>,
    key: PhantomData<fn(K)>,
}

impl<K: Key, V: Row + Clone + 'static> ListState<K, V> {
    pub(crate) fn new(name: &str, handle: Option<host::ListState>) -> (Self, Rc<dyn DuringCall>) {
        let table = Table {
            link: Link::new(name, handle),
            lists: Vec::new(),
            loads: Vec::new(),
            is_changed: false,
        };
        let table = Rc::new(RefCell::new(table));
        (Self { table: Rc::clone(&table), key: PhantomData }, table)
    }

    /// Adds a row to the end of the list of the key.
    pub fn append(&mut self, key: &CurrentKey<'_, K>, row: V) {
        let table = &mut *self.table.borrow_mut();
        table.is_changed = true;
        table.list(key.index).appended.push(row);
    }

    /// The rows of the key, oldest first; what this call appended is among them. Fails if the
    /// host cannot read its state, or if the list is longer than it hands out at a time.
    pub fn get(&self, key: &CurrentKey<'_, K>) -> Result<Vec<V>> {
        self.table.borrow_mut().get(key.index)
    }

    /// Removes all rows of the key.
    pub fn clear(&mut self, key: &CurrentKey<'_, K>) {
        let table = &mut *self.table.borrow_mut();
        table.is_changed = true;
        let list = table.list(key.index);
        list.is_cleared = true;
        list.appended.clear();
    }

    /// Adds each row to the end of the list of its key, in order, one call to the host for all.
    /// Only where there is no record and no timer, as in
    /// [`on_barrier`](crate::Operator::on_barrier), and only to keys that this subtask has seen.
    pub fn append_many(&mut self, rows: &[(K, V)]) -> Result<()> {
        let keys = explicit(rows.iter().map(|(key, _)| key))?;
        let columns = row::encode(rows.iter().map(|(_, row)| row));
        let key_of = each_its_own(rows.len());
        let table = self.table.borrow();
        table.link.call_between(|handle| handle.append(&keys, &key_of, &columns))
    }

    /// The lists of these keys, one call to the host for all. The same conditions hold as for
    /// [`append_many`](Self::append_many). Fails if the lists are longer than the host hands out
    /// at a time.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Vec<V>>> {
        let table = self.table.borrow();
        let explicit = explicit(keys.iter())?;
        let rows = table.link.call_between(|handle| handle.get(&explicit, u32::MAX))?;
        read_lists(&rows, keys.len()).map_err(|error| table.link.named(error))
    }

    /// Removes all rows of these keys, one call to the host for all. The same conditions hold as
    /// for [`append_many`](Self::append_many).
    pub fn clear_many(&mut self, keys: &[K]) -> Result<()> {
        let keys = explicit(keys.iter())?;
        self.table.borrow().link.call_between(|handle| handle.clear(&keys))
    }
}

/// The lists of so many keys, which must be whole.
fn read_lists<V: Row>(rows: &wit::ListRows, keys: usize) -> Result<Vec<Vec<V>>> {
    let key_of = check_grouped::<V>(rows.rows, &rows.key_of, &rows.columns, keys)?;
    let truncated = rows.truncated.as_deref().unwrap_or_default();
    if truncated.iter().any(|keys| *keys != 0) {
        return Err(too_long());
    }
    let mut lists = Vec::new();
    lists.resize_with(keys, Vec::new);
    for (row, key) in key_of.into_iter().enumerate() {
        if let Some(list) = lists.get_mut(key as usize) {
            list.push(V::read(&rows.columns, row)?);
        }
    }
    Ok(lists)
}

fn too_long() -> Error {
    Error::new("the list of a key is too long to be read")
}

/// The lists of the running call's keys.
struct Table<V> {
    link: Link<host::ListState>,
    /// One for each key, and some that longer calls needed.
    lists: Vec<List<V>>,
    /// What the host gave.
    loads: Vec<Vec<Column>>,
    is_changed: bool,
}

/// What is known of a list.
struct List<V> {
    is_cleared: bool,
    /// Which of `loads` has it, and in which rows.
    loaded: Option<(usize, std::ops::Range<usize>)>,
    appended: Vec<V>,
}

impl<V: Row + Clone> Table<V> {
    fn list(&mut self, key: u32) -> &mut List<V> {
        let index = key as usize;
        if self.lists.len() <= index {
            let keys = self.link.keys.unwrap_or(0) as usize;
            self.lists.resize_with(keys.max(index + 1), || List {
                is_cleared: false,
                loaded: None,
                appended: Vec::new(),
            });
        }
        #[expect(clippy::indexing_slicing, reason = "there are more than `index` of them")]
        &mut self.lists[index]
    }

    fn get(&mut self, key: u32) -> Result<Vec<V>> {
        let list = self.list(key);
        if !list.is_cleared && list.loaded.is_none() {
            self.load(key).map_err(|error| self.link.named(error))?;
        }
        let list = self.list(key);
        let added = list.appended.clone();
        let (load, rows) = match &list.loaded {
            Some(loaded) if !list.is_cleared => loaded.clone(),
            _ => return Ok(added),
        };
        let columns = self.loads.get(load).map_or(&[][..], Vec::as_slice);
        let mut all = Vec::with_capacity(rows.len().saturating_add(added.len()));
        for row in rows {
            all.push(V::read(columns, row).map_err(|error| self.link.named(error))?);
        }
        all.extend(added);
        Ok(all)
    }

    /// Loads the list of the key, and those of keys beside it.
    fn load(&mut self, key: u32) -> Result<()> {
        let is_unknown = |key: u32| {
            let list = self.lists.get(key as usize);
            list.is_none_or(|list| !list.is_cleared && list.loaded.is_none())
        };
        let keys = self.link.beside(key, is_unknown);
        for long in self.load_lists(&keys, rows_of_each(keys.len()))? {
            if !self.load_lists(&[long], u32::MAX)?.is_empty() {
                return Err(too_long());
            }
        }
        Ok(())
    }

    /// Loads these lists, and gives the keys of those that are longer than `limit`.
    fn load_lists(&mut self, keys: &[u32], limit: u32) -> Result<Vec<u32>> {
        let selected = self.link.selected(keys);
        let rows = self.link.call(|handle| handle.get(&selected, limit))?;
        let key_of = check_grouped::<V>(rows.rows, &rows.key_of, &rows.columns, keys.len())?;
        let truncated = rows.truncated.unwrap_or_default();
        let load = self.loads.len();
        let mut long = Vec::new();
        let mut start = 0;
        for (position, key) in keys.iter().enumerate() {
            let end = key_of.partition_point(|key| *key as usize <= position);
            if columns::bit(&truncated, position) {
                long.push(*key);
            } else {
                self.list(*key).loaded = Some((load, start..end));
            }
            start = end;
        }
        self.loads.push(rows.columns);
        Ok(long)
    }

    fn commit(&self) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let lists = || (0..self.link.keys.unwrap_or(0)).zip(&self.lists);
        let rows = lists().map(|(_, list)| list.appended.len()).sum();
        let mut cleared = Vec::new();
        let mut key_of = Vec::with_capacity(rows);
        let mut columns = row::builders::<V>(rows);
        for (key, list) in lists() {
            if list.is_cleared {
                cleared.push(key);
            }
            for row in &list.appended {
                row.write(&mut columns);
                key_of.push(key);
            }
        }
        if !cleared.is_empty() {
            self.link.call(|handle| handle.clear(&self.link.selected(&cleared)))?;
        }
        if !key_of.is_empty() {
            let columns = row::finish(columns);
            let key_of = u32_buffer(&key_of);
            self.link.call(|handle| handle.append(&wit::Keys::Current, &key_of, &columns))?;
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
        let table = &mut *self.borrow_mut();
        let keys = table.link.keys.take().unwrap_or(0) as usize;
        for list in table.lists.iter_mut().take(keys) {
            list.is_cleared = false;
            list.loaded = None;
            recycle(&mut list.appended);
        }
        table.loads.clear();
        table.is_changed = false;
    }
}

impl<K, V> std::fmt::Debug for ListState<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListState").field("name", &self.table.borrow().link.name).finish()
    }
}

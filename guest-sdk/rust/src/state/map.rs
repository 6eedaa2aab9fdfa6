use std::borrow::Cow;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;

use super::{
    DuringCall, Link, Loaded, check_grouped, each_its_own, explicit, recycle, rows_of_each,
    u32_buffer,
};
use crate::columns::{Column, ColumnBuilder};
use crate::{CurrentKey, Error, Key, Keys, Result, Row, columns, host, row, wit};

/// How many entries of a map are read at a time.
const PAGE_ROWS: u32 = 4096;

/// Rows `V` for each key `K`, each under a map key `M` of its own, in the order of the map keys.
///
/// Entries are read one by one ([`get`](Self::get)), by range, or all. What was read is cached
/// for the call, and what changed is written when it ends, all keys at once. A `get` of an entry
/// that is not in the cache is a call to the host: say before with [`want`](Self::want), best in
/// [`prepare`](crate::Operator::prepare), which entries the records of a batch will read, and one
/// call brings them all.
///
/// The order of the map keys is that of their fields, from the first to the last: derive `Ord`,
/// and compare no fields in ways of your own.
pub struct MapState<K, M, V> {
    table: Rc<RefCell<Table<M, V>>>,
    key: PhantomData<fn(K)>,
}

impl<K, M, V> MapState<K, M, V>
where
    K: Key,
    M: Key + Ord + Clone + 'static,
    V: Row + Clone + 'static,
{
    pub(crate) fn new(name: &str, handle: Option<host::MapState>) -> (Self, Rc<dyn DuringCall>) {
        let table = Table {
            link: Link::new(name, handle),
            maps: Vec::new(),
            wanted: Vec::new(),
            loads: Vec::new(),
            is_changed: false,
            is_used: false,
        };
        let table = Rc::new(RefCell::new(table));
        (Self { table: Rc::clone(&table), key: PhantomData }, table)
    }

    /// Says that this entry will be read: the next look-up of an entry that is not in the cache
    /// brings all that are wanted, of all keys.
    pub fn want(&self, key: &CurrentKey<'_, K>, map_key: M) {
        self.table.borrow_mut().want(key.index, map_key);
    }

    /// The entry under this map key, if there is one. Fails if the host cannot read its state.
    pub fn get(&self, key: &CurrentKey<'_, K>, map_key: &M) -> Result<Option<V>> {
        self.table.borrow_mut().get(key.index, map_key)
    }

    /// Whether there is an entry under this map key.
    pub fn contains(&self, key: &CurrentKey<'_, K>, map_key: &M) -> Result<bool> {
        Ok(self.get(key, map_key)?.is_some())
    }

    /// Writes an entry, whether or not there was one.
    pub fn put(&mut self, key: &CurrentKey<'_, K>, map_key: M, row: V) {
        self.table.borrow_mut().set(key.index, map_key, Some(row));
    }

    /// Removes an entry; one that is not there is fine.
    pub fn remove(&mut self, key: &CurrentKey<'_, K>, map_key: M) {
        self.table.borrow_mut().set(key.index, map_key, None);
    }

    /// Removes all entries of the key.
    pub fn clear(&mut self, key: &CurrentKey<'_, K>) {
        self.table.borrow_mut().clear(key.index);
    }

    /// All entries of the key, in order. Loads the maps of many of the call's keys together; of
    /// large maps, ask for a [`range`](Self::range).
    pub fn entries(&self, key: &CurrentKey<'_, K>) -> Result<Vec<(M, V)>> {
        let table = &mut *self.table.borrow_mut();
        table.load_whole(key.index).map_err(|error| table.link.named(error))?;
        Ok(table.cached(key.index, &(..), usize::MAX))
    }

    /// The same for the key with this index, in the running call.
    pub(crate) fn want_at(&self, key: u32, map_key: M) {
        self.table.borrow_mut().want(key, map_key);
    }

    /// Whether this is asked for the first time in the running call.
    pub(crate) fn is_first_use(&self) -> bool {
        !std::mem::replace(&mut self.table.borrow_mut().is_used, true)
    }

    /// Calls `each` for all entries of the key, in order, where they lie.
    pub(crate) fn each(&self, key: &CurrentKey<'_, K>, mut each: impl FnMut(&M, &V)) -> Result<()> {
        let table = &mut *self.table.borrow_mut();
        table.load_whole(key.index).map_err(|error| table.link.named(error))?;
        for entry in &table.map(key.index).entries {
            if let Some(value) = &entry.value {
                each(&entry.map_key, value);
            }
        }
        Ok(())
    }

    /// The entries of the key in this range, in order, at most `limit` of them.
    pub fn range(
        &self,
        key: &CurrentKey<'_, K>,
        range: impl RangeBounds<M>,
        limit: usize,
    ) -> Result<Vec<(M, V)>> {
        let table = &mut *self.table.borrow_mut();
        let loaded = table.load_range(key.index, &range, limit);
        loaded.map_err(|error| table.link.named(error))?;
        Ok(table.cached(key.index, &range, limit))
    }

    /// Calls `each` for each entry of these keys that the running call wrote or removed, in order,
    /// with the row before the call and the one that it has now: see
    /// [`ValueState::each_change`](crate::ValueState::each_change). Fails for a key whose map was
    /// [`clear`](Self::clear)ed, for what was in it is not known.
    pub fn each_change(
        &mut self,
        keys: &Keys<'_, K>,
        mut each: impl FnMut(&CurrentKey<'_, K>, &M, Option<&V>, Option<&V>) -> Result<()>,
    ) -> Result<()> {
        let table = &mut *self.table.borrow_mut();
        table.know_written()?;
        for (key, map) in keys.iter().zip(&table.maps) {
            for entry in map.entries.iter().filter(|entry| entry.is_written) {
                let before = table.before(entry)?;
                each(&key, &entry.map_key, before.as_ref(), entry.value.as_ref())?;
            }
        }
        Ok(())
    }

    /// Calls `each` for each of these keys of whose map all is known and the running call changed
    /// something, with its rows before the call and those that it has now, both in order.
    pub(crate) fn each_changed_map(
        &mut self,
        keys: &Keys<'_, K>,
        mut each: impl FnMut(&CurrentKey<'_, K>, &[Cow<'_, V>], &[&V]) -> Result<()>,
    ) -> Result<()> {
        let table = &mut *self.table.borrow_mut();
        table.know_written()?;
        for (key, map) in keys.iter().zip(&table.maps) {
            if !map.entries.iter().any(|entry| entry.is_written) {
                continue;
            }
            let mut before = Vec::with_capacity(map.entries.len());
            for entry in &map.entries {
                match &entry.value {
                    Some(row) if !entry.is_written => before.push(Cow::Borrowed(row)),
                    _ => before.extend(table.before(entry)?.map(Cow::Owned)),
                }
            }
            let after: Vec<_> =
                map.entries.iter().filter_map(|entry| entry.value.as_ref()).collect();
            each(&key, &before, &after)?;
        }
        Ok(())
    }

    /// The entry of each key under its map key, one call to the host for all. Only where there is
    /// no record and no timer, as in [`on_barrier`](crate::Operator::on_barrier), and only of keys
    /// that this subtask has seen.
    pub fn get_many(&self, entries: &[(K, M)]) -> Result<Vec<Option<V>>> {
        let keys = explicit(entries.iter().map(|(key, _)| key))?;
        let map_keys = row::encode(entries.iter().map(|(_, map_key)| map_key));
        let key_of = each_its_own(entries.len());
        let table = self.table.borrow();
        let rows = table.link.call_between(|handle| handle.get(&keys, &key_of, &map_keys))?;
        let loaded = Loaded::new::<V>(rows, entries.len());
        let rows = loaded.and_then(|loaded| loaded.read_all(entries.len()));
        rows.map_err(|error| table.link.named(error))
    }

    /// Writes entries, one call to the host for all. The same conditions hold as for
    /// [`get_many`](Self::get_many); if an entry comes twice, its last row counts.
    pub fn put_many(&mut self, entries: &[(K, M, V)]) -> Result<()> {
        let keys = explicit(entries.iter().map(|(key, ..)| key))?;
        let map_keys = row::encode(entries.iter().map(|(_, map_key, _)| map_key));
        let columns = row::encode(entries.iter().map(|(.., row)| row));
        let key_of = each_its_own(entries.len());
        let table = self.table.borrow();
        table.link.call_between(|handle| handle.put(&keys, &key_of, &map_keys, &columns))
    }

    /// Removes entries, one call to the host for all. The same conditions hold as for
    /// [`get_many`](Self::get_many).
    pub fn remove_many(&mut self, entries: &[(K, M)]) -> Result<()> {
        let keys = explicit(entries.iter().map(|(key, _)| key))?;
        let map_keys = row::encode(entries.iter().map(|(_, map_key)| map_key));
        let key_of = each_its_own(entries.len());
        let table = self.table.borrow();
        table.link.call_between(|handle| handle.delete(&keys, &key_of, &map_keys))
    }

    /// All entries of each key, in order. One call to the host for all but large maps. The same
    /// conditions hold as for [`get_many`](Self::get_many).
    pub fn entries_many(&self, keys: &[K]) -> Result<Vec<Vec<(M, V)>>> {
        let table = self.table.borrow();
        let mut maps = Vec::new();
        maps.resize_with(keys.len(), Vec::new);
        let limit = rows_of_each(keys.len()).min(PAGE_ROWS);
        let unfinished = table.read_page(keys, None, limit, &mut maps)?;
        for position in unfinished {
            let (Some(key), Some(map)) = (keys.get(position), maps.get_mut(position)) else {
                continue;
            };
            // The last entry of a page comes again with the next one.
            while let Some((last, _)) = map.pop() {
                let mut page = [Vec::new()];
                let more = table.read_page(
                    std::slice::from_ref(key),
                    Some(&last),
                    PAGE_ROWS,
                    &mut page,
                )?;
                map.extend(page.into_iter().flatten());
                if more.is_empty() {
                    break;
                }
            }
        }
        Ok(maps)
    }

    /// Removes all entries of these keys, one call to the host for all. The same conditions hold
    /// as for [`get_many`](Self::get_many).
    pub fn clear_many(&mut self, keys: &[K]) -> Result<()> {
        let keys = explicit(keys.iter())?;
        self.table.borrow().link.call_between(|handle| handle.clear(&keys))
    }
}

/// What is known of the maps of the running call's keys.
struct Table<M, V> {
    link: Link<host::MapState>,
    /// One for each key, and some that longer calls needed.
    maps: Vec<Map<M, V>>,
    /// Entries to look up, and the indices of their keys.
    wanted: Vec<(u32, M)>,
    /// What the host gave.
    loads: Vec<Loaded>,
    is_changed: bool,
    is_used: bool,
}

/// What is known of a map.
struct Map<M, V> {
    /// In the order of their map keys.
    entries: Vec<Entry<M, V>>,
    /// All entries are known: what is not among `entries` does not exist.
    is_complete: bool,
    /// What the host has is to be removed.
    is_cleared: bool,
}

struct Entry<M, V> {
    map_key: M,
    /// `None`: there is no such entry.
    value: Option<V>,
    /// What the host has.
    origin: Origin,
    is_written: bool,
}

#[derive(Clone, Copy)]
enum Origin {
    Unknown,
    Absent,
    /// A row of one of `loads`.
    Row {
        load: usize,
        row: usize,
    },
}

impl<M, V> Map<M, V> {
    const fn new() -> Self {
        Self { entries: Vec::new(), is_complete: false, is_cleared: false }
    }
}

impl<M: Ord, V> Map<M, V> {
    fn find(&self, map_key: &M) -> Result<usize, usize> {
        // Entries mostly come in order.
        match self.entries.last() {
            Some(last) if last.map_key < *map_key => Err(self.entries.len()),
            _ => self.entries.binary_search_by(|entry| entry.map_key.cmp(map_key)),
        }
    }

    fn entry(&self, map_key: &M) -> Option<&Entry<M, V>> {
        self.entries.get(self.find(map_key).ok()?)
    }

    /// Whether it is known what the host has under this map key.
    fn is_known(&self, map_key: &M) -> bool {
        self.entry(map_key).is_some_and(|entry| !matches!(entry.origin, Origin::Unknown))
    }

    /// Takes in what the host has; what the call wrote already stays as it is.
    fn loaded(&mut self, map_key: M, value: Option<V>, origin: Origin) {
        match self.find(&map_key) {
            Err(place) => {
                let entry = Entry { map_key, value, origin, is_written: false };
                self.entries.insert(place, entry);
            }
            Ok(place) => {
                if let Some(entry) = self.entries.get_mut(place)
                    && matches!(entry.origin, Origin::Unknown)
                {
                    entry.origin = origin;
                }
            }
        }
    }
}

impl<M: Key + Ord + Clone, V: Row + Clone> Table<M, V> {
    fn map(&mut self, key: u32) -> &mut Map<M, V> {
        let index = key as usize;
        if self.maps.len() <= index {
            let keys = self.link.keys.unwrap_or(0) as usize;
            self.maps.resize_with(keys.max(index + 1), Map::new);
        }
        #[expect(clippy::indexing_slicing, reason = "there are more than `index` of them")]
        &mut self.maps[index]
    }

    fn want(&mut self, key: u32, map_key: M) {
        let map = self.map(key);
        if !map.is_complete && map.entry(&map_key).is_none() {
            self.wanted.push((key, map_key));
        }
    }

    fn get(&mut self, key: u32, map_key: &M) -> Result<Option<V>> {
        let map = self.map(key);
        if let Some(entry) = map.entry(map_key) {
            return Ok(entry.value.clone());
        }
        if map.is_complete {
            return Ok(None);
        }
        self.wanted.push((key, map_key.clone()));
        self.look_up().map_err(|error| self.link.named(error))?;
        Ok(self.map(key).entry(map_key).and_then(|entry| entry.value.clone()))
    }

    fn set(&mut self, key: u32, map_key: M, value: Option<V>) {
        self.is_changed = true;
        let map = self.map(key);
        match map.find(&map_key) {
            Ok(place) => {
                if let Some(entry) = map.entries.get_mut(place) {
                    entry.value = value;
                    entry.is_written = true;
                }
            }
            Err(place) => {
                let origin = if map.is_complete { Origin::Absent } else { Origin::Unknown };
                map.entries.insert(place, Entry { map_key, value, origin, is_written: true });
            }
        }
    }

    fn clear(&mut self, key: u32) {
        self.is_changed = true;
        let map = self.map(key);
        map.entries.clear();
        map.is_complete = true;
        map.is_cleared = true;
    }

    /// Looks up what the host has under the map keys that the call wrote.
    fn know_written(&mut self) -> Result<()> {
        for (key, map) in (0..).zip(&self.maps) {
            if map.is_cleared {
                let error = Error::new("a map that was cleared does not tell its changes");
                return Err(self.link.named(error));
            }
            let unknown =
                map.entries.iter().filter(|entry| matches!(entry.origin, Origin::Unknown));
            self.wanted.extend(unknown.map(|entry| (key, entry.map_key.clone())));
        }
        self.look_up().map_err(|error| self.link.named(error))
    }

    /// The row of an entry before the running call.
    fn before(&self, entry: &Entry<M, V>) -> Result<Option<V>> {
        match entry.origin {
            Origin::Row { load, row } => {
                self.loads.get(load).map_or(Ok(None), |load| load.read(row))
            }
            Origin::Absent | Origin::Unknown => Ok(None),
        }
    }

    /// Looks up all entries that are wanted.
    fn look_up(&mut self) -> Result<()> {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|(key, map_key)| {
            let map = self.maps.get(*key as usize);
            map.is_none_or(|map| !map.is_complete && !map.is_known(map_key))
        });
        if !wanted.is_empty() {
            let mut key_of = Vec::with_capacity(wanted.len().saturating_mul(4));
            let mut map_keys = row::builders::<M>(wanted.len());
            for (key, map_key) in &wanted {
                key_of.extend_from_slice(&key.to_le_bytes());
                map_key.write(&mut map_keys);
            }
            let map_keys = row::finish(map_keys);
            let rows =
                self.link.call(|handle| handle.get(&wit::Keys::Current, &key_of, &map_keys))?;
            let loaded = Loaded::new::<V>(rows, wanted.len())?;
            let load = self.loads.len();
            for (row, (key, map_key)) in wanted.drain(..).enumerate() {
                let value = loaded.read(row)?;
                let origin =
                    if value.is_some() { Origin::Row { load, row } } else { Origin::Absent };
                self.map(key).loaded(map_key, value, origin);
            }
            self.loads.push(loaded);
        }
        wanted.clear();
        self.wanted = wanted; // for its room
        Ok(())
    }

    /// Loads all entries of the key, and those of keys beside it.
    fn load_whole(&mut self, key: u32) -> Result<()> {
        if self.map(key).is_complete {
            return Ok(());
        }
        let is_unknown = |key: u32| self.maps.get(key as usize).is_none_or(|map| !map.is_complete);
        let keys = self.link.beside(key, is_unknown);
        let range = wit::MapRange { from: None, to: None };
        let limit = rows_of_each(keys.len()).min(PAGE_ROWS);
        for key in self.load_page(&keys, &range, limit)?.truncated {
            self.load_range(key, &(..), usize::MAX)?;
        }
        for key in keys {
            self.map(key).is_complete = true;
        }
        Ok(())
    }

    /// Loads the first `limit` entries of the key in the range, or more.
    fn load_range(&mut self, key: u32, range: &impl RangeBounds<M>, limit: usize) -> Result<()> {
        if self.map(key).is_complete {
            return Ok(());
        }
        // Entries that are removed in this call hide as many of the host's.
        let removed = self.map(key).entries.iter().filter(|entry| entry.value.is_none()).count();
        let mut missing = limit.saturating_add(removed);
        let bound = |key: &M| Some(row::encode([key].into_iter()));
        let mut from = match range.start_bound() {
            Bound::Included(from) => bound(from),
            Bound::Excluded(from) => {
                missing = missing.saturating_add(1); // the host takes it in
                bound(from)
            }
            Bound::Unbounded => None,
        };
        let to = match range.end_bound() {
            Bound::Included(to) => {
                // The host leaves it out.
                self.want(key, to.clone());
                self.look_up()?;
                bound(to)
            }
            Bound::Excluded(to) => bound(to),
            Bound::Unbounded => None,
        };
        loop {
            let rows = u32::try_from(missing).unwrap_or(u32::MAX).clamp(1, PAGE_ROWS);
            let host_range = wit::MapRange { from: from.take(), to: to.clone() };
            let page = self.load_page(&[key], &host_range, rows)?;
            missing = missing.saturating_sub(page.rows);
            match page.last {
                Some(last) if !page.truncated.is_empty() && missing > 0 => {
                    missing = missing.saturating_add(1); // `last` comes again
                    from = bound(&last);
                }
                _ => return Ok(()),
            }
        }
    }

    fn load_page(&mut self, keys: &[u32], range: &wit::MapRange, limit: u32) -> Result<Page<M>> {
        let selected = self.link.selected(keys);
        let rows = self.link.call(|handle| handle.entries(&selected, range, limit))?;
        let count = rows.rows as usize;
        row::check::<M>(&rows.map_keys, count).map_err(|error| error.context("map keys"))?;
        let key_of = check_grouped::<V>(rows.rows, &rows.key_of, &rows.columns, keys.len())?;
        let load = self.loads.len();
        let mut last = None;
        for (row, position) in key_of.into_iter().enumerate() {
            let Some(key) = keys.get(position as usize).copied() else { continue };
            let map_key = M::read(&rows.map_keys, row)?;
            let value = V::read(&rows.columns, row)?;
            if row + 1 == count {
                last = Some(map_key.clone());
            }
            self.map(key).loaded(map_key, Some(value), Origin::Row { load, row });
        }
        self.loads.push(Loaded::all(rows.columns));
        let truncated = rows.truncated.unwrap_or_default();
        let truncated =
            keys.iter().enumerate().filter(|(position, _)| columns::bit(&truncated, *position));
        Ok(Page { rows: count, last, truncated: truncated.map(|(_, key)| *key).collect() })
    }

    /// Reads entries of keys of the operator's choice, from a map key on, into their `maps`. Gives
    /// the positions of the keys that may have more.
    fn read_page<K: Key>(
        &self,
        keys: &[K],
        from: Option<&M>,
        limit: u32,
        maps: &mut [Vec<(M, V)>],
    ) -> Result<Vec<usize>> {
        let from = from.map(|from| row::encode([from].into_iter()));
        let range = wit::MapRange { from, to: None };
        let explicit = explicit(keys.iter())?;
        let rows = self.link.call_between(|handle| handle.entries(&explicit, &range, limit))?;
        let mut read = || {
            row::check::<M>(&rows.map_keys, rows.rows as usize)
                .map_err(|error| error.context("map keys"))?;
            let key_of = check_grouped::<V>(rows.rows, &rows.key_of, &rows.columns, keys.len())?;
            for (row, key) in key_of.into_iter().enumerate() {
                if let Some(map) = maps.get_mut(key as usize) {
                    map.push((M::read(&rows.map_keys, row)?, V::read(&rows.columns, row)?));
                }
            }
            let truncated = rows.truncated.as_deref().unwrap_or_default();
            Ok((0..keys.len()).filter(|key| columns::bit(truncated, *key)).collect())
        };
        read().map_err(|error| self.link.named(error))
    }

    /// The entries of the key in the range that are in the cache.
    fn cached(&mut self, key: u32, range: &impl RangeBounds<M>, limit: usize) -> Vec<(M, V)> {
        let entries = &self.map(key).entries;
        let start = match range.start_bound() {
            Bound::Included(from) => entries.partition_point(|entry| entry.map_key < *from),
            Bound::Excluded(from) => entries.partition_point(|entry| entry.map_key <= *from),
            Bound::Unbounded => 0,
        };
        let in_range = entries.iter().skip(start).take_while(|entry| match range.end_bound() {
            Bound::Included(to) => entry.map_key <= *to,
            Bound::Excluded(to) => entry.map_key < *to,
            Bound::Unbounded => true,
        });
        let present =
            in_range.filter_map(|entry| Some((entry.map_key.clone(), entry.value.clone()?)));
        present.take(limit).collect()
    }

    fn commit(&self) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        let maps = || (0..self.link.keys.unwrap_or(0)).zip(&self.maps);
        let cleared: Vec<u32> =
            maps().filter(|(_, map)| map.is_cleared).map(|(key, _)| key).collect();
        if !cleared.is_empty() {
            self.link.call(|handle| handle.clear(&self.link.selected(&cleared)))?;
        }
        let mut put = Changes::<M>::default();
        let mut columns = row::builders::<V>(0);
        let mut removed = Changes::<M>::default();
        for (key, map) in maps() {
            for entry in map.entries.iter().filter(|entry| entry.is_written) {
                match (&entry.value, entry.origin) {
                    (Some(row), Origin::Row { load, row: position })
                        if self.loads.get(load).is_some_and(|load| load.holds(position, row)) => {}
                    (Some(row), _) => {
                        put.push(key, &entry.map_key);
                        row.write(&mut columns);
                    }
                    (None, Origin::Absent) => {}
                    (None, _) => removed.push(key, &entry.map_key),
                }
            }
        }
        if let Some((key_of, map_keys)) = put.finish() {
            let columns = row::finish(columns);
            self.link
                .call(|handle| handle.put(&wit::Keys::Current, &key_of, &map_keys, &columns))?;
        }
        if let Some((key_of, map_keys)) = removed.finish() {
            self.link.call(|handle| handle.delete(&wit::Keys::Current, &key_of, &map_keys))?;
        }
        Ok(())
    }
}

/// Some entries, as the host gave them.
struct Page<M> {
    rows: usize,
    /// The map key of the last one.
    last: Option<M>,
    /// The keys that may have more.
    truncated: Vec<u32>,
}

/// Entries to be written or removed.
struct Changes<M> {
    key_of: Vec<u32>,
    map_keys: Vec<ColumnBuilder>,
    map_key: PhantomData<fn(M)>,
}

impl<M: Row> Default for Changes<M> {
    fn default() -> Self {
        Self { key_of: Vec::new(), map_keys: row::builders::<M>(0), map_key: PhantomData }
    }
}

impl<M: Row> Changes<M> {
    fn push(&mut self, key: u32, map_key: &M) {
        self.key_of.push(key);
        map_key.write(&mut self.map_keys);
    }

    /// The buffers; `None` if there is nothing.
    fn finish(self) -> Option<(Vec<u8>, Vec<Column>)> {
        let is_empty = self.key_of.is_empty();
        (!is_empty).then(|| (u32_buffer(&self.key_of), row::finish(self.map_keys)))
    }
}

impl<M: Key + Ord + Clone, V: Row + Clone> DuringCall for RefCell<Table<M, V>> {
    fn begin(&self, keys: u32) {
        self.borrow_mut().link.keys = Some(keys);
    }

    fn commit(&self) -> Result<()> {
        self.borrow().commit()
    }

    fn end(&self) {
        let table = &mut *self.borrow_mut();
        let keys = table.link.keys.take().unwrap_or(0) as usize;
        for map in table.maps.iter_mut().take(keys) {
            recycle(&mut map.entries);
            map.is_complete = false;
            map.is_cleared = false;
        }
        table.wanted.clear();
        table.loads.clear();
        table.is_changed = false;
        table.is_used = false;
    }
}

impl<K, M, V> std::fmt::Debug for MapState<K, M, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MapState").field("name", &self.table.borrow().link.name).finish()
    }
}

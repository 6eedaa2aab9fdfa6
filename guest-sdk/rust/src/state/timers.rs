use std::cell::RefCell;
use std::cmp::Reverse;
use std::marker::PhantomData;
use std::rc::Rc;

use super::{DuringCall, Link, explicit, u32_buffer};
use crate::{CurrentKey, Key, Result, Timestamp, host};

/// Timers of the keys `K`, of one family: each is a time at which
/// [`on_timer`](crate::Operator::on_timer) is called for its key.
///
/// A key may have timers at several times, but only one at each: setting a timer that is set
/// changes nothing. Like state, timers are part of checkpoints. What a call sets and deletes
/// crosses to the host when it ends; a timer whose time has come already fires right after.
pub struct Timers<K> {
    table: Rc<RefCell<Table>>,
    key: PhantomData<fn(K)>,
}

impl<K: Key> Timers<K> {
    pub(crate) fn new(
        name: &str,
        family: u32,
        handle: Option<host::TimerService>,
    ) -> (Self, Rc<dyn DuringCall>) {
        let link = Link::new(name, handle);
        let table = Table { link, family, orders: Vec::new(), last_set: Vec::new() };
        let table = Rc::new(RefCell::new(table));
        (Self { table: Rc::clone(&table), key: PhantomData }, table)
    }

    /// Sets a timer of the key.
    pub fn set(&mut self, key: &CurrentKey<'_, K>, time: Timestamp) {
        self.table.borrow_mut().order(key.index, time, true);
    }

    /// Deletes a timer of the key; one that is not set is fine.
    pub fn delete(&mut self, key: &CurrentKey<'_, K>, time: Timestamp) {
        self.table.borrow_mut().order(key.index, time, false);
    }

    /// Sets timers of keys of the operator's choice. Only where there is no record and no timer,
    /// as in [`on_barrier`](crate::Operator::on_barrier), and only of keys that this subtask has
    /// seen.
    pub fn set_many(&mut self, timers: &[(K, Timestamp)]) -> Result<()> {
        let (keys, times) = many(timers)?;
        self.table.borrow().link.call_between(|handle| handle.set(&keys, &times))
    }

    /// Deletes timers; the same conditions hold as for [`set_many`](Self::set_many).
    pub fn delete_many(&mut self, timers: &[(K, Timestamp)]) -> Result<()> {
        let (keys, times) = many(timers)?;
        self.table.borrow().link.call_between(|handle| handle.delete(&keys, &times))
    }

    pub(crate) fn family(&self) -> u32 {
        self.table.borrow().family
    }
}

fn many<K: Key>(timers: &[(K, Timestamp)]) -> Result<(crate::wit::Keys, Vec<u8>)> {
    let keys = explicit(timers.iter().map(|(key, _)| key))?;
    Ok((keys, timers.iter().flat_map(|(_, time)| time.millis().to_le_bytes()).collect()))
}

/// What the running call wants of a family of timers.
struct Table {
    link: Link<host::TimerService>,
    family: u32,
    orders: Vec<Order>,
    /// For each key, the time of its last order, if that was to set a timer: most records of a
    /// window want the timer that the one before wanted.
    last_set: Vec<Option<Timestamp>>,
}

/// One timer to be set or deleted.
#[derive(Debug)]
struct Order {
    key: u32,
    time: Timestamp,
    number: usize,
    is_set: bool,
}

impl Table {
    fn order(&mut self, key: u32, time: Timestamp, is_set: bool) {
        if self.last_set.is_empty() {
            self.last_set.resize(self.link.keys.unwrap_or(0) as usize, None);
        }
        if let Some(last_set) = self.last_set.get_mut(key as usize) {
            let wanted = is_set.then_some(time);
            if is_set && *last_set == wanted {
                return;
            }
            *last_set = wanted;
        }
        self.orders.push(Order { key, time, number: self.orders.len(), is_set });
    }

    /// Of the orders for one timer, the last counts.
    fn commit(&mut self) -> Result<()> {
        self.orders.sort_unstable_by_key(|order| (order.key, order.time, Reverse(order.number)));
        self.orders.dedup_by_key(|order| (order.key, order.time));
        for is_set in [false, true] {
            let wanted = || self.orders.iter().filter(|order| order.is_set == is_set);
            let mut indices = Vec::with_capacity(self.orders.len());
            indices.extend(wanted().map(|order| order.key));
            if indices.is_empty() {
                continue;
            }
            let mut times = Vec::with_capacity(indices.len().saturating_mul(8));
            wanted().for_each(|order| times.extend_from_slice(&order.time.millis().to_le_bytes()));
            let keys = crate::wit::Keys::Selected(u32_buffer(&indices));
            self.link.call(|handle| match is_set {
                true => handle.set(&keys, &times),
                false => handle.delete(&keys, &times),
            })?;
        }
        Ok(())
    }
}

impl DuringCall for RefCell<Table> {
    fn begin(&self, keys: u32) {
        self.borrow_mut().link.keys = Some(keys);
    }

    fn commit(&self) -> Result<()> {
        self.borrow_mut().commit()
    }

    fn end(&self) {
        let mut table = self.borrow_mut();
        table.link.keys = None;
        table.orders.clear();
        table.last_set.clear();
    }
}

impl<K> std::fmt::Debug for Timers<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers").field("name", &self.table.borrow().link.name).finish()
    }
}

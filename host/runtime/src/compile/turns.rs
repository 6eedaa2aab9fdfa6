//! How many components are compiled at once, and whose is next.
//!
//! A tenant that compiles much waits behind those that compile little: a turn goes to the tenant that
//! has the fewest running, of those to the one that had its last turn the longest ago.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Gives out turns to compile.
#[derive(Debug)]
pub(crate) struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug)]
struct Queue {
    limit: usize,
    running: usize,
    tenants: BTreeMap<String, Tenant>,
    /// Those who wait, in the order in which they came: number and tenant.
    waiting: Vec<(u64, String)>,
    /// Numbers turns and those who wait.
    next: u64,
}

#[derive(Debug, Default)]
struct Tenant {
    running: usize,
    /// The number of its last turn.
    last: u64,
}

impl Queue {
    fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        Self { limit, running: 0, tenants: BTreeMap::new(), waiting: Vec::new(), next: 1 }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Somebody comes; gives the number that stands for them.
    fn come(&mut self, tenant: &str) -> u64 {
        let number = self.number();
        self.waiting.push((number, tenant.to_owned()));
        number
    }

    /// The number of whoever is next, if there is room for one more.
    fn first(&self) -> Option<u64> {
        if self.running >= self.limit {
            return None;
        }
        let rank = |(number, tenant): &&(u64, String)| {
            let tenant = self.tenants.get(tenant);
            (tenant.map_or(0, |t| t.running), tenant.map_or(0, |t| t.last), *number)
        };
        self.waiting.iter().min_by_key(rank).map(|(number, _)| *number)
    }

    /// Whether this one's turn has begun.
    fn begin(&mut self, number: u64) -> bool {
        if self.first() != Some(number) {
            return false;
        }
        let Some(place) = self.waiting.iter().position(|(waiting, _)| *waiting == number) else {
            return false;
        };
        let (_, tenant) = self.waiting.remove(place);
        let turn = self.number();
        let tenant = self.tenants.entry(tenant).or_default();
        tenant.running += 1;
        tenant.last = turn;
        self.running += 1;
        true
    }

    /// A turn of this tenant has ended.
    fn end(&mut self, tenant: &str) {
        self.running = self.running.saturating_sub(1);
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.running = tenant.running.saturating_sub(1);
        }
        if self.running == 0 && self.waiting.is_empty() {
            // Nobody to be fair to.
            self.tenants.clear();
        }
    }
}

impl Turns {
    /// So many turns at once.
    pub(crate) fn new(limit: usize) -> Self {
        Self { queue: Mutex::new(Queue::new(limit)), changed: Condvar::new() }
    }

    /// Waits for a turn of this tenant, which ends when what is returned is dropped.
    pub(crate) fn wait<'a>(&'a self, tenant: &'a str) -> Turn<'a> {
        let mut queue = self.queue();
        let number = queue.come(tenant);
        while !queue.begin(number) {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        // There may be room for one more.
        self.changed.notify_all();
        Turn { turns: self, tenant }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn to compile.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    tenant: &'a str,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.queue().end(self.tenant);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The tenants in the order of their turns, when each turn ends before the next begins.
    fn order(queue: &mut Queue) -> Vec<String> {
        let mut order = Vec::new();
        while let Some(number) = queue.first() {
            let (_, tenant) = queue.waiting.iter().find(|(n, _)| *n == number).unwrap().clone();
            assert!(queue.begin(number));
            queue.end(&tenant);
            order.push(tenant);
        }
        order
    }

    #[test]
    fn a_tenant_that_comes_late_is_not_behind_all_that_came_before() {
        let mut queue = Queue::new(1);
        ["a", "a", "a", "a", "b", "c", "b"].iter().for_each(|tenant| {
            queue.come(tenant);
        });
        assert_eq!(order(&mut queue), ["a", "b", "c", "a", "b", "a", "a"]);
    }

    #[test]
    fn a_tenant_that_has_one_running_is_behind_one_that_has_none() {
        let mut queue = Queue::new(2);
        let [first, second] = ["a", "a"].map(|tenant| queue.come(tenant));
        assert!(queue.begin(first));
        let other = queue.come("b");
        assert!(!queue.begin(second));
        assert!(queue.begin(other));
        assert!(!queue.begin(second), "there are two already");
        queue.end("b");
        assert!(queue.begin(second));
    }

    #[test]
    fn nothing_is_kept_of_tenants_when_nobody_waits() {
        let mut queue = Queue::new(1);
        queue.come("a");
        order(&mut queue);
        assert!(queue.tenants.is_empty());
    }

    proptest! {
        /// While a tenant waits that has none running, no other begins two turns.
        #[test]
        fn nobody_waits_while_another_begins_two_turns(
            limit in 1_usize..4,
            comes in proptest::collection::vec(0_usize..4, 1..40),
            ends in proptest::collection::vec(0_usize..4, 0..60),
        ) {
            let mut queue = Queue::new(limit);
            let name = |tenant: usize| format!("tenant-{tenant}");
            comes.iter().for_each(|tenant| {
                queue.come(&name(*tenant));
            });
            // For each tenant that waits, the turns of each other since it has none running.
            let mut passed = [[0_usize; 4]; 4];
            let mut running: Vec<String> = Vec::new();
            for end in ends {
                while let Some(number) = queue.first() {
                    let found = queue.waiting.iter().find(|(n, _)| *n == number).unwrap();
                    let tenant = found.1.clone();
                    prop_assert!(queue.begin(number));
                    let index: usize = tenant.trim_start_matches("tenant-").parse().unwrap();
                    running.push(tenant);
                    for (other, passed) in passed.iter_mut().enumerate() {
                        let waits = queue.waiting.iter().any(|(_, t)| *t == name(other));
                        if waits && !running.contains(&name(other)) {
                            passed[index] += 1;
                            prop_assert!(passed[index] < 2, "{index} passed {other} twice");
                        } else {
                            *passed = [0; 4];
                        }
                    }
                }
                prop_assert!(running.len() <= limit);
                if !running.is_empty() {
                    let ended = running.remove(end % running.len());
                    queue.end(&ended);
                }
            }
        }
    }
}

//! How often the disk is asked.

use crate::effort::scratch;
use crate::fixture::{Fixture, eager, keys, rows};
use howdah_state::{Restore, StoreOptions};

#[test]
fn batch_of_unknown_keys_costs_one_probe() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.subtasks[0].get(&keys(&(0..1000).collect::<Vec<_>>())).unwrap();
    assert_eq!(fixture.table.metrics().probes_total, 1);
}

#[test]
fn keys_in_the_write_buffer_cost_no_probe() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    fixture.get(&[1]).unwrap();
    assert_eq!(fixture.table.metrics().probes_total, 0);
}

#[test]
fn second_read_of_a_key_costs_no_probe() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.get(&[1, 2]).unwrap();
    fixture.get(&[2, 1]).unwrap();
    assert_eq!(fixture.table.metrics().probes_total, 1);
}

#[test]
fn hot_keys_cost_no_probe_after_a_checkpoint() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    fixture.checkpoint(1);
    assert_eq!(fixture.get(&[1]).unwrap(), rows(&[(1, 1, "a")]));
    assert_eq!(fixture.table.metrics().probes_total, 0);
}

#[test]
fn keys_on_disk_are_found_without_a_read_cache() {
    let directory = scratch();
    let options = StoreOptions { read_cache_limit_bytes: 0, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a"), (5, 5, "e")])).unwrap();
    fixture.checkpoint(1);
    assert_eq!(fixture.get(&[5, 1, 3]).unwrap(), rows(&[(1, 1, "a"), (5, 5, "e")]));
    assert_eq!(fixture.table.metrics().probes_total, 1);
}

#[test]
fn key_that_is_asked_for_twice_is_answered_twice() {
    let directory = scratch();
    let options = StoreOptions { read_cache_limit_bytes: 0, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    fixture.checkpoint(1);
    let found = fixture.subtasks[0].get(&keys(&[1, 2, 1])).unwrap();
    assert_eq!(found.present.iter().collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn keys_that_were_looked_for_ahead_cost_one_probe() {
    let directory = scratch();
    let options = StoreOptions { read_cache_limit_bytes: 0, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a"), (5, 5, "e")])).unwrap();
    fixture.checkpoint(1);
    fixture.read_ahead(&[1, 3, 5]).unwrap();
    assert_eq!(fixture.get(&[5, 1, 3]).unwrap(), rows(&[(1, 1, "a"), (5, 5, "e")]));
    assert_eq!(fixture.table.metrics().probes_total, 1);
}

#[test]
fn what_is_written_after_a_look_ahead_counts() {
    let directory = scratch();
    let options = StoreOptions { read_cache_limit_bytes: 0, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a"), (5, 5, "e")])).unwrap();
    fixture.checkpoint(1);
    fixture.read_ahead(&[1, 5]).unwrap();
    fixture.put(&rows(&[(1, 2, "b")])).unwrap();
    fixture.subtasks[0].freeze(2).unwrap();
    assert_eq!(fixture.get(&[5, 1]).unwrap(), rows(&[(1, 2, "b"), (5, 5, "e")]));
    fixture.published(2);
}

//! What merges remove and what they leave alone.

use crate::effort::scratch;
use crate::fixture::{Fixture, Model, descriptor, eager, files_in, scan};
use howdah_state::*;
use std::path::Path;

/// Waits for the background part, a minute at most.
fn wait_for(what: &dyn std::fmt::Debug, reached: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if reached() {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(2));
    }
    panic!("it does not get there: {what:?}");
}

fn until(fixture: &Fixture, reached: impl Fn(&TableMetrics) -> bool) {
    wait_for(&fixture.table.metrics(), || reached(&fixture.table.metrics()));
}

fn many(ids: std::ops::Range<i64>, number: i64) -> Model {
    ids.map(|id| (id, (number, Some(format!("text of {id}"))))).collect()
}

#[test]
fn lone_run_with_mostly_dead_rows_is_written_anew() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&many(0..5_000, 1)).unwrap();
    fixture.checkpoint(1);
    fixture.delete(&(0..4_000).collect::<Vec<_>>()).unwrap();
    fixture.checkpoint(2);
    until(&fixture, |metrics| metrics.merges_total > 0);
    // The dead rows are gone: no deletion vector is left.
    assert_eq!(fixture.table.metrics().rows, 1_000);
    assert_eq!(fixture.table.metrics().files, 1);
    assert_eq!(scan(directory.path(), At::Latest).unwrap(), many(4_000..5_000, 1));
}

#[test]
fn table_whose_rows_are_all_deleted_has_no_files() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&many(0..100, 1)).unwrap();
    fixture.checkpoint(1);
    fixture.delete(&(0..100).collect::<Vec<_>>()).unwrap();
    fixture.checkpoint(2);
    until(&fixture, |metrics| metrics.files == 0);
    assert!(fixture.get(&[1, 2, 3]).unwrap().is_empty());
    fixture.put(&many(0..3, 2)).unwrap();
    fixture.checkpoint(3);
    assert_eq!(scan(directory.path(), At::Latest).unwrap(), many(0..3, 2));
}

/// A table whose rows live for a second.
fn open_with_ttl(warehouse: &Path, clock: &Clock) -> Fixture {
    let options = StoreOptions { clock: clock.clone(), merge_trigger_runs: 50, ..eager() };
    let shape = StateDescriptor { ttl_ms: Some(1_000), ..descriptor(1) };
    Fixture::with_descriptor(warehouse, &shape, options, Restore::Fresh).unwrap()
}

#[test]
fn cold_file_is_dropped_when_all_its_rows_have_ended() {
    let directory = scratch();
    let (clock, time) = Clock::manual(10_000);
    let mut fixture = open_with_ttl(directory.path(), &clock);
    fixture.put(&many(0..100, 1)).unwrap();
    fixture.checkpoint(1);
    time.set(10_500);
    fixture.put(&many(100..110, 2)).unwrap();
    fixture.checkpoint(2);
    assert_eq!(fixture.table.metrics().files, 2);
    time.set(11_000);
    until(&fixture, |metrics| metrics.files == 1);
    assert_eq!(fixture.table.metrics().rows, 10);
    assert_eq!(fixture.get(&[1, 105]).unwrap(), many(105..106, 2));
}

#[test]
fn cold_file_is_written_anew_when_most_of_its_rows_have_ended() {
    let directory = scratch();
    let (clock, time) = Clock::manual(10_000);
    let mut fixture = open_with_ttl(directory.path(), &clock);
    for step in 0..10 {
        time.set(10_000 + step * 100);
        fixture.put(&many(step * 10..step * 10 + 10, step)).unwrap();
    }
    fixture.checkpoint(1);
    // The first six steps have ended by now.
    time.set(11_550);
    until(&fixture, |metrics| metrics.merges_total == 1);
    assert_eq!(fixture.table.metrics().rows, 40);
    assert_eq!(fixture.get(&[59, 65]).unwrap(), many(65..66, 6));
}

#[test]
fn row_that_was_written_again_outlives_the_merge_that_removes_its_past() {
    let directory = scratch();
    let (clock, time) = Clock::manual(10_000);
    let mut fixture = open_with_ttl(directory.path(), &clock);
    fixture.put(&many(0..10, 1)).unwrap();
    fixture.checkpoint(1);
    time.set(10_900);
    fixture.put(&many(3..4, 2)).unwrap();
    time.set(11_200);
    let snapshot = fixture.checkpoint(2);
    until(&fixture, |metrics| metrics.rows == 1);
    assert_eq!(fixture.get(&[2, 3]).unwrap(), many(3..4, 2));
    assert!(snapshot > 1);
}

#[test]
fn commits_while_merges_run_lose_nothing() {
    let directory = scratch();
    let options = StoreOptions {
        merge_trigger_runs: 2,
        write_buffer_limit_bytes: 64 << 10,
        snapshot_retained_ms: 60_000,
        ..eager()
    };
    let mut fixture = Fixture::open(directory.path(), 2, options, Restore::Fresh).unwrap();
    let mut model = many(0..20_000, 0);
    fixture.put(&model).unwrap();
    // A linear congruence picks the same keys each time.
    let mut random = 1_u64;
    let mut next = |below: i64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as i64 % below
    };
    let mut seen = Vec::new();
    for checkpoint in 1..=40_u64 {
        let changed: Model = (0..300).map(|_| (next(20_000), (checkpoint as i64, None))).collect();
        let gone: Vec<i64> = (0..100).map(|_| next(20_000)).collect();
        fixture.put(&changed).unwrap();
        model.extend(changed);
        fixture.delete(&gone).unwrap();
        gone.iter().for_each(|id| drop(model.remove(id)));
        let snapshot = fixture.checkpoint(checkpoint);
        if checkpoint % 8 == 0 {
            seen.push((snapshot, model.clone()));
        }
    }
    assert!(fixture.table.metrics().merges_total > 10, "{:?}", fixture.table.metrics());
    let ids: Vec<i64> = (0..20_000).collect();
    assert_eq!(fixture.get(&ids).unwrap(), model);
    assert_eq!(scan(directory.path(), At::Latest).unwrap(), model);
    for (snapshot, model) in seen {
        assert_eq!(scan(directory.path(), At::Snapshot(snapshot)).unwrap(), model);
    }
}

#[test]
fn files_stay_under_twice_what_lives_in_them() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&many(0..20_000, 0)).unwrap();
    fixture.checkpoint(1);
    let once: u64 = fixture.table.metrics().bytes;
    for checkpoint in 2..=60_u64 {
        let start = (checkpoint as i64 * 1_000) % 20_000;
        fixture.put(&many(start..start + 1_000, checkpoint as i64)).unwrap();
        let snapshot = fixture.checkpoint(checkpoint);
        fixture.table.retain(&[(checkpoint, snapshot)]).unwrap();
    }
    until(&fixture, |metrics| metrics.bytes * 5 < once * 10);
    assert_eq!(scan(directory.path(), At::Latest).unwrap().len(), 20_000);
    // Nothing else lies in the bucket once the last snapshot is the only one. A merge may still
    // come after a checkpoint, whose snapshot then keeps what was merged: take another.
    let mut checkpoint = 60;
    let is_clean = (0..10_000).any(|_| {
        checkpoint += 1;
        let last = fixture.checkpoint(checkpoint);
        fixture.table.retain(&[(checkpoint, last)]).unwrap();
        std::thread::park_timeout(std::time::Duration::from_millis(2));
        let files = files_in(directory.path(), "bucket-0").len() as u64;
        files <= 2 * fixture.table.metrics().files
    });
    assert!(is_clean, "{:?}", files_in(directory.path(), "bucket-0"));
    assert_eq!(fixture.get(&[19_999]).unwrap().len(), 1);
}

#[test]
fn writer_waits_when_merges_fall_behind_and_loses_nothing() {
    let directory = scratch();
    // The largest merges there can be, and no patience: a third run stops writers.
    let options = StoreOptions { merge_trigger_runs: 2, merge_stop_runs: 3, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    let mut model = Model::new();
    let mut checkpoint = 0;
    while fixture.table.metrics().stops_total == 0 {
        checkpoint += 1;
        assert!(checkpoint < 1_000, "{:?}", fixture.table.metrics());
        let start = checkpoint as i64 * 500;
        let changed = many(start..start + 1_000, start);
        fixture.put(&changed).unwrap();
        model.extend(changed);
        fixture.subtasks[0].freeze(checkpoint).unwrap();
    }
    for checkpoint in 1..=checkpoint {
        fixture.published(checkpoint);
    }
    assert_eq!(scan(directory.path(), At::Checkpoint(checkpoint)).unwrap(), model);
}

//! Readers that hold a snapshot.

use crate::effort::scratch;
use crate::fixture::{Fixture, TABLE, eager, files_in, rows, scan};
use howdah_state::*;
use std::path::Path;

fn reader(warehouse: &Path) -> StateReader {
    StateReader::open(warehouse, "default", TABLE).unwrap()
}

/// Commits a few times so that everything that may expire does.
fn go_on(fixture: &mut Fixture, checkpoints: std::ops::RangeInclusive<u64>) -> i64 {
    let mut last = 0;
    for checkpoint in checkpoints {
        fixture.put(&rows(&[(1, checkpoint as i64, "later")])).unwrap();
        last = fixture.checkpoint(checkpoint);
        fixture.table.retain(&[(checkpoint, last)]).unwrap();
    }
    last
}

#[test]
fn leased_snapshot_stays_readable_and_goes_when_the_lease_ends() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a"), (2, 2, "b")])).unwrap();
    let first = fixture.checkpoint(1);
    let lease = reader(warehouse).hold(&At::Latest, 60_000).unwrap();
    assert_eq!(lease.snapshot(), first);
    go_on(&mut fixture, 2..=20);
    let held = At::Snapshot(lease.snapshot());
    assert_eq!(scan(warehouse, held).unwrap(), rows(&[(1, 1, "a"), (2, 2, "b")]));
    drop(lease);
    go_on(&mut fixture, 21..=25);
    assert_eq!(scan(warehouse, held).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(files_in(warehouse, "lease").is_empty());
}

#[test]
fn lease_that_is_not_renewed_ends_by_itself() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    fixture.checkpoint(1);
    // As a reader that died leaves it behind.
    let lease = reader(warehouse).hold(&At::Latest, 0).unwrap();
    let first = lease.snapshot();
    std::mem::forget(lease);
    go_on(&mut fixture, 2..=10);
    assert!(scan(warehouse, At::Snapshot(first)).is_err());
    assert!(files_in(warehouse, "lease").is_empty());
}

#[test]
fn lease_survives_a_restart_of_the_writer() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    fixture.checkpoint(1);
    let lease = reader(warehouse).hold(&At::Checkpoint(1), 60_000).unwrap();
    let last = go_on(&mut fixture, 2..=5);
    drop(fixture);
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Snapshot(last)).unwrap();
    go_on(&mut fixture, 6..=12);
    let held = At::Snapshot(lease.snapshot());
    assert_eq!(scan(warehouse, held).unwrap(), rows(&[(1, 1, "a")]));
}

#[test]
fn lease_is_limited_to_a_day() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.checkpoint(1);
    let error = reader(directory.path()).hold(&At::Latest, u64::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(files_in(directory.path(), "lease").is_empty());
}

#[test]
fn file_that_is_no_lease_holds_nothing() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let first = fixture.checkpoint(1);
    drop(reader(warehouse).hold(&At::Latest, 60_000).unwrap());
    let lease = warehouse.join("default.db").join(TABLE).join("lease").join("lease-x");
    std::fs::write(lease, b"{").unwrap();
    go_on(&mut fixture, 2..=10);
    assert!(scan(warehouse, At::Snapshot(first)).is_err());
}

#[test]
fn readers_that_hold_what_they_read_never_fail_while_a_writer_goes_on() {
    let directory = scratch();
    let warehouse = directory.path().to_owned();
    let mut fixture = Fixture::open(&warehouse, 1, eager(), Restore::Fresh).unwrap();
    let all: Vec<(i64, i64, &str)> = (0..50).map(|id| (id, 0, "x")).collect();
    fixture.put(&rows(&all)).unwrap();
    fixture.checkpoint(1);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let reading = std::thread::Builder::new()
        .spawn(move || {
            let reader = reader(&warehouse);
            let mut scans = 0;
            while stopped.try_recv().is_err() {
                let lease = reader.hold(&At::Latest, 60_000).unwrap();
                for _ in 0..3 {
                    let rows = scan(&warehouse, At::Snapshot(lease.snapshot())).unwrap();
                    assert_eq!(rows.len(), 50);
                }
                scans += 1;
            }
            scans
        })
        .unwrap();
    for checkpoint in 2..=150_u64 {
        fixture.put(&rows(&[(checkpoint as i64 % 50, checkpoint as i64, "y")])).unwrap();
        let snapshot = fixture.checkpoint(checkpoint);
        fixture.table.retain(&[(checkpoint, snapshot)]).unwrap();
    }
    stop.send(()).unwrap();
    assert!(reading.join().unwrap() > 0);
}

#[test]
fn orphans_are_named_and_removed_only_when_nobody_has_the_table() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let snapshot = fixture.checkpoint(1);
    let clean = |age_ms, dry_run| remove_orphans(warehouse, "default", TABLE, age_ms, dry_run);
    assert_eq!(clean(0, false).unwrap_err().kind(), ErrorKind::Locked);
    drop(fixture);
    assert!(clean(0, false).unwrap().is_empty());
    let orphan = files_in(warehouse, "bucket-0")[0].with_file_name("data-orphan-0.parquet");
    std::fs::write(&orphan, b"half a file").unwrap();
    assert!(clean(60_000, false).unwrap().is_empty(), "it is young");
    assert_eq!(clean(0, true).unwrap(), std::slice::from_ref(&orphan));
    assert!(orphan.exists());
    clean(0, false).unwrap();
    assert!(!orphan.exists());
    assert_eq!(scan(warehouse, At::Snapshot(snapshot)).unwrap(), rows(&[(1, 1, "a")]));
}

#[test]
fn orphans_are_not_looked_for_when_a_snapshot_cannot_be_read() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    fixture.checkpoint(1);
    drop(fixture);
    let before = files_in(warehouse, "bucket-0");
    for path in files_in(warehouse, "tag") {
        std::fs::write(path, b"").unwrap();
    }
    let error = remove_orphans(warehouse, "default", TABLE, 0, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(files_in(warehouse, "bucket-0"), before);
}

#[test]
fn held_snapshot_that_a_crash_left_aside_is_there_after_the_next_opening() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    let wanted = rows(&[(1, 1, "a")]);
    fixture.put(&wanted).unwrap();
    let first = fixture.checkpoint(1);
    let reader = StateReader::open(warehouse, "default", TABLE).unwrap();
    let _lease = reader.hold(&At::Snapshot(first), 60_000).unwrap();
    fixture.put(&rows(&[(1, 2, "b")])).unwrap();
    let last = fixture.checkpoint(2);
    fixture.table.retain(&[(2, last)]).unwrap();
    fixture.store.close().unwrap();
    // As an expiry leaves it that dies before it looks for leases.
    let snapshots = warehouse.join("default.db").join(TABLE).join("snapshot");
    let aside = snapshots.join(format!(".snapshot-{first}.tmp"));
    std::fs::rename(snapshots.join(format!("snapshot-{first}")), aside).unwrap();
    drop(Fixture::open(warehouse, 1, eager(), Restore::Snapshot(last)).unwrap());
    assert_eq!(scan(warehouse, At::Snapshot(first)).unwrap(), wanted);
}

//! Checkpoints in targets: what they hold, what they share, and what is left when they fail.

use crate::effort::{is_full, scratch};
use crate::failing::FailingService;
use crate::fixture::{Fixture, Model, TABLE, eager, rows, scan};
use howdah_state::*;
use opendal_core::Operator;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub(crate) fn quiet(_: Progress) {}

pub(crate) fn directory(path: &Path) -> CheckpointTarget {
    CheckpointTarget::directory(path, false).unwrap()
}

fn memory() -> Operator {
    Operator::new(opendal_core::services::Memory::default()).unwrap()
}

fn remote(operator: &Operator) -> CheckpointTarget {
    CheckpointTarget::operator(operator.clone(), "some/where").unwrap()
}

/// All files below a directory with their content, by relative path.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(root: &Path, at: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        let Ok(entries) = std::fs::read_dir(at) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else if path.file_name().is_some_and(|name| name != "LOCK") {
                let name = path.strip_prefix(root).unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

fn take(
    store: &mut CheckpointStore,
    warehouse: &Path,
    checkpoint: u64,
    snapshot: i64,
) -> Result<TransferPlan> {
    let tables = [(TABLE.to_owned(), snapshot)];
    store.checkpoint(&request(warehouse, checkpoint, &tables), &quiet)
}

pub(crate) fn request<'a>(
    warehouse: &'a Path,
    checkpoint: u64,
    tables: &'a [(String, i64)],
) -> CheckpointRequest<'a> {
    CheckpointRequest {
        checkpoint,
        warehouse,
        tenant: "default",
        tables,
        payload: b"\xff\x00position",
    }
}

/// A table with some runs and deletion vectors, in two buckets, its snapshot and content.
fn build(warehouse: &Path) -> (Fixture, i64, Model) {
    let options = StoreOptions { merge_trigger_runs: 50, ..eager() };
    let mut fixture = Fixture::open(warehouse, 2, options, Restore::Fresh).unwrap();
    fixture.put(&(0..50).map(|id| (id, (id, Some("a".to_owned())))).collect()).unwrap();
    fixture.checkpoint(1);
    fixture.put(&rows(&[(2, 20, "bb"), (7, 70, "bb")])).unwrap();
    fixture.delete(&[3]).unwrap();
    let snapshot = fixture.checkpoint(2);
    let content = scan(warehouse, At::Latest).unwrap();
    (fixture, snapshot, content)
}

/// Opens a warehouse at a snapshot, reads it through both readers, and writes to it.
fn assert_goes_on(warehouse: &Path, snapshot: i64, wanted: &Model) {
    let restore = Restore::Snapshot(snapshot);
    let mut fixture = Fixture::open(warehouse, 2, eager(), restore).unwrap();
    let ids: Vec<i64> = (0..60).collect();
    assert_eq!(&fixture.get(&ids).unwrap(), wanted);
    fixture.put(&rows(&[(55, 5, "new")])).unwrap();
    fixture.checkpoint(90);
    let mut more = wanted.clone();
    more.extend(rows(&[(55, 5, "new")]));
    assert_eq!(scan(warehouse, At::Latest).unwrap(), more);
}

#[test]
fn checkpoint_in_a_directory_comes_back_in_a_fresh_warehouse() {
    let root = scratch();
    let (warehouse, target, copy) =
        (root.path().join("a"), root.path().join("b"), root.path().join("c"));
    let (fixture, snapshot, wanted) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    // Its files are its own: the warehouse may go.
    drop(fixture);
    std::fs::remove_dir_all(&warehouse).unwrap();
    let seen = Mutex::new(Vec::new());
    let restored = store.restore(2, &copy, &|p: Progress| seen.lock().unwrap().push(p)).unwrap();
    assert_eq!(restored.payload, b"\xff\x00position");
    assert_eq!(restored.tables, [(TABLE.to_owned(), snapshot)]);
    let last = seen.into_inner().unwrap().into_iter().max_by_key(|p| p.files_done).unwrap();
    assert_eq!((last.files_done, last.bytes_done), (last.files_total, last.bytes_total));
    assert_eq!(scan(&copy, At::Checkpoint(2)).unwrap(), wanted);
    assert_goes_on(&copy, snapshot, &wanted);
    store.verify(2, &quiet).unwrap();
}

#[test]
fn checkpoint_behind_an_operator_comes_back_in_a_fresh_warehouse() {
    let root = scratch();
    let fs = opendal_service_fs::Fs::default().root(root.path().join("fs").to_str().unwrap());
    for operator in [memory(), Operator::new(fs).unwrap()] {
        let root = scratch();
        let (warehouse, copy) = (root.path().join("a"), root.path().join("c"));
        let (fixture, snapshot, wanted) = build(&warehouse);
        let mut store = CheckpointStore::open(remote(&operator)).unwrap();
        take(&mut store, &warehouse, 2, snapshot).unwrap();
        drop(fixture);
        // Another process finds it too.
        let store = CheckpointStore::open(remote(&operator)).unwrap();
        store.verify(2, &quiet).unwrap();
        let restored = store.restore(2, &copy, &quiet).unwrap();
        assert_eq!(restored.payload, b"\xff\x00position");
        assert_goes_on(&copy, snapshot, &wanted);
    }
}

#[test]
fn only_files_that_the_target_lacks_are_transferred() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (mut fixture, snapshot, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    let first = take(&mut store, &warehouse, 2, snapshot).unwrap();
    assert_eq!(first.reused_files, 0);
    // The same again: nothing is new, whoever asks.
    let again = take(&mut store, &warehouse, 3, snapshot).unwrap();
    assert_eq!((again.new_files, again.reused_files), (0, first.new_files));
    drop(store);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    let again = take(&mut store, &warehouse, 4, snapshot).unwrap();
    assert_eq!((again.new_files, again.reused_files), (0, first.new_files));
    // One key changed: one data file, index, index manifest, manifest and two lists, and what
    // comes with a data file.
    fixture.put(&rows(&[(7, 71, "c")])).unwrap();
    let snapshot = fixture.checkpoint(3);
    let before = tree(&target).len();
    let plan = take(&mut store, &warehouse, 5, snapshot).unwrap();
    assert!((6..=7).contains(&plan.new_files), "{plan:?}");
    assert_eq!(tree(&target).len(), before + plan.new_files + 1);
}

#[test]
fn checkpoint_under_way_keeps_its_snapshot_from_expiring() {
    let root = scratch();
    let (warehouse, target, copy) =
        (root.path().join("a"), root.path().join("b"), root.path().join("c"));
    let mut fixture = Fixture::open(&warehouse, 2, eager(), Restore::Fresh).unwrap();
    fixture.put(&(0..50).map(|id| (id, (id, None))).collect()).unwrap();
    let snapshot = fixture.checkpoint(1);
    let wanted = scan(&warehouse, At::Latest).unwrap();
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    let tables = [(TABLE.to_owned(), snapshot)];
    store.begin(&request(&warehouse, 1, &tables)).unwrap();
    let go_on = |fixture: &mut Fixture, checkpoints: std::ops::Range<u64>| {
        for checkpoint in checkpoints {
            fixture.put(&(0..50).map(|id| (id, (checkpoint as i64, None))).collect()).unwrap();
            let newest = fixture.checkpoint(checkpoint);
            fixture.table.retain(&[(checkpoint, newest)]).unwrap();
        }
    };
    go_on(&mut fixture, 2..12);
    store.transfer(&quiet).unwrap();
    store.confirm().unwrap();
    store.restore(1, &copy, &quiet).unwrap();
    assert_eq!(scan(&copy, At::Latest).unwrap(), wanted);
    // And then it goes.
    go_on(&mut fixture, 12..22);
    assert_eq!(scan(&warehouse, At::Snapshot(snapshot)).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn removed_checkpoint_leaves_what_others_need_and_nothing_else() {
    let root = scratch();
    let (warehouse, target, copy) =
        (root.path().join("a"), root.path().join("b"), root.path().join("c"));
    let (mut fixture, first, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, first).unwrap();
    fixture.put(&rows(&[(7, 71, "c")])).unwrap();
    let second = fixture.checkpoint(3);
    take(&mut store, &warehouse, 3, second).unwrap();
    let wanted = scan(&warehouse, At::Latest).unwrap();
    store.subsume(3).unwrap();
    assert_eq!(store.list().iter().map(|info| info.checkpoint).collect::<Vec<_>>(), [3]);
    store.verify(3, &quiet).unwrap();
    let files = store.list()[0].files;
    assert_eq!(tree(&target).len(), files + 1);
    store.restore(3, &copy, &quiet).unwrap();
    assert_goes_on(&copy, second, &wanted);
    store.remove(3).unwrap();
    assert_eq!(tree(&target).len(), 0);
}

/// Every step of a checkpoint, and then the abort.
#[test]
fn aborted_checkpoint_leaves_nothing_behind_at_any_step() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (mut fixture, first, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, first).unwrap();
    fixture.put(&rows(&[(7, 71, "c")])).unwrap();
    let second = fixture.checkpoint(3);
    let before = tree(&target);
    let tables = [(TABLE.to_owned(), second)];
    let request = request(&warehouse, 3, &tables);

    store.begin(&request).unwrap();
    store.abort().unwrap();
    assert_eq!(tree(&target), before);

    store.begin(&request).unwrap();
    store.transfer(&quiet).unwrap();
    store.abort().unwrap();
    assert_eq!(tree(&target), before);
    // And a crash instead of the abort.
    store.begin(&request).unwrap();
    store.transfer(&quiet).unwrap();
    drop(store);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    assert_eq!(tree(&target), before);
    store.verify(2, &quiet).unwrap();
    take(&mut store, &warehouse, 3, second).unwrap();
}

/// What it shared with a checkpoint that was removed meanwhile is its own to remove.
#[test]
fn checkpoint_aborted_after_another_was_removed_leaves_nothing_behind() {
    for crash in [false, true] {
        let root = scratch();
        let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
        let (mut fixture, first, _) = build(&warehouse);
        let mut store = CheckpointStore::open(directory(&target)).unwrap();
        take(&mut store, &warehouse, 2, first).unwrap();
        fixture.put(&rows(&[(7, 71, "c")])).unwrap();
        let tables = [(TABLE.to_owned(), fixture.checkpoint(3))];
        let plan = store.begin(&request(&warehouse, 3, &tables)).unwrap();
        assert!(plan.reused_files > 0);
        store.transfer(&quiet).unwrap();
        store.remove(2).unwrap();
        if crash {
            drop(store);
            CheckpointStore::open(directory(&target)).unwrap();
        } else {
            store.abort().unwrap();
        }
        let left = tree(&target);
        assert!(left.is_empty(), "crash {crash}: {:?}", left.keys());
    }
}

#[test]
fn aborted_checkpoint_takes_no_file_of_one_that_cannot_be_read() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (_fixture, snapshot, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    drop(store);
    let path = target.join("checkpoints/checkpoint-2");
    let whole = std::fs::read(&path).unwrap();
    // As a version writes it that is newer than this one.
    let text = String::from_utf8(whole.clone()).unwrap();
    std::fs::write(&path, text.replacen("howdah-checkpoint 1 ", "howdah-checkpoint 2 ", 1))
        .unwrap();
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    let tables = [(TABLE.to_owned(), snapshot)];
    store.begin(&request(&warehouse, 3, &tables)).unwrap();
    store.transfer(&quiet).unwrap();
    store.abort().unwrap();
    drop(store);
    std::fs::write(&path, whole).unwrap();
    let store = CheckpointStore::open(directory(&target)).unwrap();
    store.verify(2, &quiet).unwrap();
    assert_eq!(tree(&target).len(), store.list()[0].files + 1, "and the rest goes then");
}

/// The n-th call of an operator fails, for every n, with and without having done its work.
#[test]
fn target_that_fails_at_any_call_loses_no_confirmed_checkpoint_and_keeps_no_leftovers() {
    let root = scratch();
    let warehouse = root.path().join("a");
    let (mut fixture, first, _) = build(&warehouse);
    fixture.put(&rows(&[(7, 71, "c")])).unwrap();
    let second = fixture.checkpoint(3);
    let wanted = scan(&warehouse, At::Latest).unwrap();
    for after_the_fact in [false, true] {
        let mut calls = 0;
        for n in 0.. {
            let (operator, failures) = FailingService::over_memory();
            let mut store = CheckpointStore::open(remote(&operator)).unwrap();
            take(&mut store, &warehouse, 2, first).unwrap();
            failures.fail_at(n, after_the_fact);
            let taken = take(&mut store, &warehouse, 3, second);
            let removed = taken.as_ref().ok().map(|_| store.subsume(3));
            let failed = failures.reset();
            drop(store);
            // What is there is there as a whole, whatever was reported.
            let store = CheckpointStore::open(remote(&operator)).unwrap();
            let there: Vec<u64> = store.list().iter().map(|info| info.checkpoint).collect();
            for &checkpoint in &there {
                store.verify(checkpoint, &quiet).unwrap();
            }
            match (&taken, &removed) {
                (Ok(_), Some(Ok(()))) => assert_eq!(there, [3]),
                (Ok(_), _) => assert!(there.contains(&3), "{there:?}"),
                (Err(_), _) => assert!(there.contains(&2), "{there:?}"),
            }
            let files: usize = FailingService::names(&operator, "some/where/files/").len();
            let intents = FailingService::names(&operator, "some/where/intents/");
            assert_eq!(intents, Vec::<String>::new(), "call {n}");
            let newest = store.list().pop().unwrap();
            let copy = scratch();
            store.restore(newest.checkpoint, copy.path(), &quiet).unwrap();
            if newest.checkpoint == 3 {
                assert_eq!(scan(copy.path(), At::Latest).unwrap(), wanted);
            }
            if there.len() == 1 {
                assert_eq!(files, newest.files, "call {n}");
            }
            if !failed {
                calls = n;
                break;
            }
        }
        assert!(calls > 10, "only {calls} calls were seen");
    }
}

/// The same of a local directory, with errors and crashes of the file system.
#[test]
fn directory_that_fails_at_any_call_loses_no_confirmed_checkpoint_and_keeps_no_leftovers() {
    let root = scratch();
    let warehouse = root.path().join("a");
    let (mut fixture, first, _) = build(&warehouse);
    fixture.put(&rows(&[(7, 71, "c")])).unwrap();
    let second = fixture.checkpoint(3);
    let stride = if is_full() { 1 } else { 7 };
    let faults = [Fault::Once(28), Fault::Crash(Effect::Nothing), Fault::Crash(Effect::Whole)];
    for (start, fault) in (0..).step_by(2).zip(faults) {
        for call in (start..).step_by(stride) {
            let root = scratch();
            let path = root.path();
            let mut store = CheckpointStore::open(directory(path)).unwrap();
            take(&mut store, &warehouse, 2, first).unwrap();
            drop(store);
            let faults = Faults::at(call, fault);
            let target = directory(path).with_faults(&faults).unwrap();
            let taken = CheckpointStore::open(target).and_then(|mut store| {
                take(&mut store, &warehouse, 3, second)?;
                store.subsume(3)
            });
            let store = CheckpointStore::open(directory(path)).unwrap();
            let there: Vec<u64> = store.list().iter().map(|info| info.checkpoint).collect();
            for &checkpoint in &there {
                store.verify(checkpoint, &quiet).unwrap();
            }
            assert!(!there.is_empty(), "call {call}");
            assert!(taken.is_err() || there == [3], "{there:?}");
            assert_eq!(tree(&path.join("intents")).len(), 0, "call {call}");
            if let [only] = store.list().as_slice() {
                assert_eq!(tree(&path.join("files")).len(), only.files, "call {call}");
            }
            if faults.failed().is_none() {
                assert!(call > 50, "only {call} calls were seen");
                break;
            }
        }
    }
}

#[test]
fn files_are_copied_to_another_file_system() {
    // Where there is none, there is nothing to see.
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (warehouse, target) = (root.path().join("a"), other.path().join("b"));
    let (_fixture, snapshot, wanted) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    store.verify(2, &quiet).unwrap();
    let copy = root.path().join("c");
    store.restore(2, &copy, &quiet).unwrap();
    assert_goes_on(&copy, snapshot, &wanted);
}

#[test]
fn missing_filter_file_keeps_no_checkpoint_from_being_taken() {
    let root = scratch();
    let (warehouse, target, copy) =
        (root.path().join("a"), root.path().join("b"), root.path().join("c"));
    let (fixture, snapshot, wanted) = build(&warehouse);
    drop(fixture);
    let mut removed = 0;
    for path in crate::fixture::files_in(&warehouse, "bucket-0") {
        if path.extension().is_some_and(|extension| extension == "filter") {
            std::fs::remove_file(path).unwrap();
            removed += 1;
        }
    }
    assert!(removed > 0);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    store.restore(2, &copy, &quiet).unwrap();
    assert_goes_on(&copy, snapshot, &wanted);
}

#[test]
fn restore_that_fails_at_any_call_leaves_no_tables() {
    let root = scratch();
    let warehouse = root.path().join("a");
    let (_fixture, snapshot, wanted) = build(&warehouse);
    let (operator, failures) = FailingService::over_memory();
    let mut store = CheckpointStore::open(remote(&operator)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    for n in 0.. {
        let copy = scratch();
        failures.fail_at(n, false);
        let restored = store.restore(2, copy.path(), &quiet);
        if !failures.reset() {
            assert!(n > 10, "only {n} calls were seen");
            restored.unwrap();
            assert_eq!(scan(copy.path(), At::Latest).unwrap(), wanted);
            break;
        }
        restored.unwrap_err();
        assert_eq!(tree(copy.path()).len(), 0);
        // Tried again, it works.
        store.restore(2, copy.path(), &quiet).unwrap();
        assert_eq!(scan(copy.path(), At::Latest).unwrap(), wanted);
    }
}

/// Damages every file of a checkpoint in turn.
fn each_file_damaged(damage: impl Fn(&[u8]) -> Vec<u8>) {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (fixture, snapshot, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    drop(fixture);
    for (name, sound) in tree(&target) {
        let victim = target.join(&name);
        // Under a new inode: it is linked to the warehouse.
        std::fs::remove_file(&victim).unwrap();
        std::fs::write(&victim, damage(&sound)).unwrap();
        let file_name = name.file_name().unwrap().to_str().unwrap();
        let copy = scratch();
        for error in [
            store.verify(2, &quiet).unwrap_err(),
            store.restore(2, copy.path(), &quiet).map(drop).unwrap_err(),
        ] {
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Incompatible),
                "{error}"
            );
            assert!(error.to_string().contains(file_name), "{error} should name {file_name}");
        }
        assert_eq!(tree(copy.path()).len(), 0);
        std::fs::write(&victim, sound).unwrap();
    }
    store.verify(2, &quiet).unwrap();
}

#[test]
fn flipped_bit_in_any_file_of_a_checkpoint_is_named() {
    each_file_damaged(|bytes| {
        let mut bytes = bytes.to_vec();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        bytes
    });
}

#[test]
fn truncated_file_of_a_checkpoint_is_named() {
    each_file_damaged(|bytes| bytes[..bytes.len() - 1].to_vec());
}

#[test]
fn missing_file_of_a_checkpoint_is_named() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (_fixture, snapshot, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    let victim = tree(&target.join("files")).into_keys().next().unwrap();
    std::fs::remove_file(target.join("files").join(&victim)).unwrap();
    let error = store.verify(2, &quiet).unwrap_err().to_string();
    assert!(error.contains(victim.file_name().unwrap().to_str().unwrap()), "{error}");
}

#[test]
fn flipped_bit_anywhere_in_a_document_is_noticed() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (_fixture, snapshot, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    let victim = target.join("checkpoints/checkpoint-2");
    let sound = std::fs::read(&victim).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&victim, bytes).unwrap();
        assert!(store.verify(2, &quiet).is_err(), "byte {at}");
    }
}

#[test]
fn document_of_a_newer_version_is_refused_and_keeps_its_files() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (_fixture, snapshot, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    take(&mut store, &warehouse, 3, snapshot).unwrap();
    drop(store);
    let path = target.join("checkpoints/checkpoint-2");
    let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
    std::fs::write(&path, text.replacen("howdah-checkpoint 1 ", "howdah-checkpoint 2 ", 1))
        .unwrap();
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    let error = store.verify(2, &quiet).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("version 2"), "{error}");
    assert!(store.list()[0].damage.is_some());
    // What it needs is not known, so nothing goes.
    assert!(store.remove(3).is_err());
    store.verify(3, &quiet).unwrap();
}

#[test]
fn restore_over_tables_is_refused() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (fixture, snapshot, wanted) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    take(&mut store, &warehouse, 2, snapshot).unwrap();
    assert_eq!(store.restore(2, &warehouse, &quiet).unwrap_err().kind(), ErrorKind::Locked);
    drop(fixture);
    let error = store.restore(2, &warehouse, &quiet).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(scan(&warehouse, At::Latest).unwrap(), wanted);
}

#[test]
fn second_store_on_a_target_directory_is_refused() {
    let root = scratch();
    let _store = CheckpointStore::open(directory(root.path())).unwrap();
    let error = CheckpointStore::open(directory(root.path())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
}

#[test]
fn steps_out_of_order_are_refused() {
    let root = scratch();
    let (warehouse, target) = (root.path().join("a"), root.path().join("b"));
    let (_fixture, snapshot, _) = build(&warehouse);
    let mut store = CheckpointStore::open(directory(&target)).unwrap();
    let invalid = |result: Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    };
    invalid(store.transfer(&quiet));
    invalid(store.confirm());
    let tables = [(TABLE.to_owned(), snapshot)];
    store.begin(&request(&warehouse, 2, &tables)).unwrap();
    invalid(store.begin(&request(&warehouse, 3, &tables)).map(drop));
    invalid(store.confirm());
    store.transfer(&quiet).unwrap();
    store.confirm().unwrap();
    invalid(store.begin(&request(&warehouse, 2, &tables)).map(drop));
    let missing = [(TABLE.to_owned(), 99)];
    let error = store.begin(&request(&warehouse, 3, &missing)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn savepoint_is_a_warehouse_of_its_own() {
    let root = scratch();
    let (warehouse, savepoint, moved, copy) = (
        root.path().join("a"),
        root.path().join("b"),
        root.path().join("moved"),
        root.path().join("c"),
    );
    let (fixture, snapshot, wanted) = build(&warehouse);
    let tables = [(TABLE.to_owned(), snapshot)];
    write_savepoint(&request(&warehouse, 2, &tables), &savepoint, &quiet).unwrap();
    let error = write_savepoint(&request(&warehouse, 2, &tables), &savepoint, &quiet).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    drop(fixture);
    std::fs::remove_dir_all(&warehouse).unwrap();
    std::fs::rename(&savepoint, &moved).unwrap();
    verify_savepoint(&moved, &quiet).unwrap();
    assert_eq!(scan(&moved, At::Checkpoint(2)).unwrap(), wanted);
    assert_eq!(scan(&moved, At::Latest).unwrap(), wanted);
    let files = tree(&moved.join("default.db").join(TABLE));
    let count = |start: &str| files.keys().filter(|path| path.starts_with(start)).count();
    // Two buckets with dead rows; one manifest, its two lists and the index manifest.
    assert_eq!((count("index"), count("manifest"), count("snapshot/snapshot-3")), (2, 4, 1));
    restore_savepoint(&moved, &copy, &quiet).unwrap();
    assert_goes_on(&copy, snapshot, &wanted);
    // As a warehouse, too.
    assert_goes_on(&moved, snapshot, &wanted);
}

#[test]
fn flipped_bit_in_any_file_of_a_savepoint_is_named() {
    let root = scratch();
    let (warehouse, savepoint) = (root.path().join("a"), root.path().join("b"));
    let (_fixture, snapshot, _) = build(&warehouse);
    let tables = [(TABLE.to_owned(), snapshot)];
    write_savepoint(&request(&warehouse, 2, &tables), &savepoint, &quiet).unwrap();
    let checked = |name: &Path| {
        ["bucket-0", "bucket-1", "manifest", "index", "savepoint"]
            .iter()
            .any(|part| name.components().any(|component| component.as_os_str() == *part))
    };
    let mut damaged = 0;
    for (name, sound) in tree(&savepoint).into_iter().filter(|(name, _)| checked(name)) {
        let mut bytes = sound.clone();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(savepoint.join(&name), bytes).unwrap();
        let error = verify_savepoint(&savepoint, &quiet).unwrap_err().to_string();
        assert!(error.contains(name.file_name().unwrap().to_str().unwrap()), "{error}");
        std::fs::write(savepoint.join(&name), sound).unwrap();
        damaged += 1;
    }
    assert!(damaged > 8);
    verify_savepoint(&savepoint, &quiet).unwrap();
}

//! Opening, restoring, expiring.

use crate::effort::scratch;
use crate::fixture::{Fixture, descriptor, eager, files_in, rows, scan};
use howdah_state::*;

#[test]
fn second_store_on_a_warehouse_is_refused_with_the_owner() {
    let directory = scratch();
    let _first = StateStore::open(directory.path(), "default", eager()).unwrap();
    let error = StateStore::open(directory.path(), "default", eager()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
}

#[test]
fn warehouse_can_be_opened_again_after_a_drop() {
    let directory = scratch();
    drop(StateStore::open(directory.path(), "default", eager()).unwrap());
    StateStore::open(directory.path(), "default", eager()).unwrap();
}

#[test]
fn restore_removes_what_came_after_the_snapshot() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 2, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a"), (2, 2, "b")])).unwrap();
    let first = fixture.checkpoint(1);
    fixture.put(&rows(&[(2, 20, "bb"), (3, 3, "c")])).unwrap();
    fixture.delete(&[1]).unwrap();
    fixture.checkpoint(2);
    drop(fixture);

    let mut fixture = Fixture::open(warehouse, 2, eager(), Restore::Snapshot(first)).unwrap();
    assert_eq!(fixture.get(&[1, 2, 3]).unwrap(), rows(&[(1, 1, "a"), (2, 2, "b")]));
    assert!(scan(warehouse, At::Checkpoint(2)).is_err());
}

#[test]
fn fresh_start_removes_what_was_there() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    fixture.checkpoint(1);
    drop(fixture);
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    assert!(fixture.get(&[1]).unwrap().is_empty());
}

#[test]
fn checkpoint_without_changes_commits_no_snapshot() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let first = fixture.checkpoint(1);
    fixture.get(&[1, 2]).unwrap();
    assert_eq!(fixture.checkpoint(2), first);
}

#[test]
fn checkpoint_holds_what_its_barrier_saw_although_a_fast_subtask_went_on() {
    let directory = scratch();
    let options = StoreOptions { write_buffer_limit_bytes: 1, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 2, options, Restore::Fresh).unwrap();
    let fast = (0..).find(|&id| fixture.owner(id) == 0).unwrap();
    let slow = (0..).find(|&id| fixture.owner(id) == 1).unwrap();
    fixture.put(&rows(&[(fast, 1, "before")])).unwrap();
    fixture.subtasks[0].freeze(1).unwrap();
    // Overflows the buffer at once, while the other subtask is still before the barrier.
    fixture.put(&rows(&[(fast, 2, "after")])).unwrap();
    fixture.put(&rows(&[(slow, 3, "before")])).unwrap();
    fixture.subtasks[1].freeze(1).unwrap();
    fixture.published(1);
    let at_barrier = rows(&[(fast, 1, "before"), (slow, 3, "before")]);
    assert_eq!(scan(directory.path(), At::Checkpoint(1)).unwrap(), at_barrier);
    assert_eq!(fixture.get(&[fast]).unwrap(), rows(&[(fast, 2, "after")]));
}

#[test]
fn merges_bound_the_number_of_runs() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    for checkpoint in 1..=200 {
        let id = checkpoint as i64;
        fixture.put(&rows(&[(id % 50, id, "x")])).unwrap();
        fixture.checkpoint(checkpoint);
    }
    // More than the 61 levels there are, so without merges a flush would have found none.
    assert!(fixture.table.metrics().merges_total > 0);
    assert!(fixture.table.metrics().files < 62);
    assert_eq!(scan(directory.path(), At::Latest).unwrap().len(), 50);
}

#[test]
fn expiry_keeps_retained_checkpoints_readable_and_removes_the_rest() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    let mut snapshots = Vec::new();
    for checkpoint in 1..=20_u64 {
        fixture.put(&rows(&[(1, checkpoint as i64, "x")])).unwrap();
        snapshots.push((checkpoint, fixture.checkpoint(checkpoint)));
        let retained = &snapshots[snapshots.len().saturating_sub(2)..];
        fixture.table.retain(retained).unwrap();
    }
    let (_, last) = snapshots[19];
    drop(fixture);
    // What is left is decided when the table is opened: nothing but what the snapshots name.
    let fixture = Fixture::open(warehouse, 1, eager(), Restore::Snapshot(last)).unwrap();
    assert_eq!(scan(warehouse, At::Checkpoint(19)).unwrap(), rows(&[(1, 19, "x")]));
    assert_eq!(scan(warehouse, At::Checkpoint(20)).unwrap(), rows(&[(1, 20, "x")]));
    assert!(scan(warehouse, At::Checkpoint(18)).is_err());
    let snapshot_files = files_in(warehouse, "snapshot").len();
    assert!(snapshot_files <= 12, "{snapshot_files} snapshot files for 2 checkpoints");
    drop(fixture);
}

#[test]
fn files_that_no_snapshot_names_are_removed_when_the_table_is_opened() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let snapshot = fixture.checkpoint(1);
    drop(fixture);
    let orphan = files_in(warehouse, "bucket-0")[0].with_file_name("data-orphan-0.parquet");
    std::fs::write(&orphan, b"half a file").unwrap();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Snapshot(snapshot)).unwrap();
    assert!(!orphan.exists());
    assert_eq!(fixture.get(&[1]).unwrap(), rows(&[(1, 1, "a")]));
}

#[test]
fn other_shape_is_refused_with_what_differs() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    let snapshot = fixture.checkpoint(1);
    drop(fixture);
    let store = StateStore::open(directory.path(), "default", eager()).unwrap();
    let mut wanted = descriptor(2);
    wanted.value[0].column_type = ColumnType::Utf8;
    let error = store.open_table(&wanted, Restore::Snapshot(snapshot)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    let message = error.to_string();
    assert!(message.contains("parallelism: stored 1, asked for 2"), "{message}");
    assert!(
        message.contains("value column 0: stored `number` int64, asked for `number` utf8"),
        "{message}"
    );
}

#[test]
fn handle_of_a_subtask_is_given_out_once() {
    let directory = scratch();
    let fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    assert_eq!(fixture.table.value_state(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn key_of_another_subtask_is_refused() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 2, eager(), Restore::Fresh).unwrap();
    let foreign = (0..).find(|&id| fixture.owner(id) == 1).unwrap();
    let error = fixture.subtasks[0].get(&crate::fixture::keys(&[foreign])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn snapshot_that_cannot_be_read_is_refused_before_anything_is_removed() {
    let directory = scratch();
    let warehouse = directory.path();
    let options = StoreOptions { snapshot_retained_ms: 60_000, ..eager() };
    let mut fixture = Fixture::open(warehouse, 1, options.clone(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let first = fixture.checkpoint(1);
    let damaged = files_in(warehouse, "bucket-0").remove(0);
    fixture.put(&rows(&[(1, 2, "b"), (2, 2, "b")])).unwrap();
    let second = fixture.checkpoint(2);
    drop(fixture);
    let sound = std::fs::read(&damaged).unwrap();
    std::fs::write(&damaged, b"").unwrap();
    assert!(Fixture::open(warehouse, 1, options.clone(), Restore::Snapshot(first)).is_err());
    std::fs::write(&damaged, sound).unwrap();
    let mut fixture = Fixture::open(warehouse, 1, options, Restore::Snapshot(second)).unwrap();
    assert_eq!(fixture.get(&[1, 2]).unwrap(), rows(&[(1, 2, "b"), (2, 2, "b")]));
}

#[test]
fn levels_never_run_out_when_everything_is_superseded_each_time() {
    let directory = scratch();
    let options = StoreOptions { merge_trigger_runs: 50, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    for checkpoint in 1..=150_u64 {
        // Like a queue: rows come and go, so that whole runs die.
        let id = checkpoint as i64;
        fixture.put(&rows(&[(id, id, "x")])).unwrap();
        fixture.delete(&[id - 3]).unwrap();
        fixture.checkpoint(checkpoint);
    }
    assert_eq!(fixture.get(&(1..=150).collect::<Vec<_>>()).unwrap().len(), 3);
}

#[test]
fn tag_of_somebody_else_keeps_its_snapshot() {
    let directory = scratch();
    let warehouse = directory.path();
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let first = fixture.checkpoint(1);
    let snapshot = files_in(warehouse, "snapshot")
        .into_iter()
        .find(|path| path.ends_with(format!("snapshot-{first}")))
        .unwrap();
    let tags = warehouse.join("default.db").join(crate::fixture::TABLE).join("tag");
    std::fs::copy(&snapshot, tags.join("tag-audit")).unwrap();
    let mut last = first;
    for checkpoint in 2..=10_u64 {
        fixture.put(&rows(&[(1, checkpoint as i64, "b")])).unwrap();
        last = fixture.checkpoint(checkpoint);
        fixture.table.retain(&[(checkpoint, last)]).unwrap();
    }
    drop(fixture);
    drop(Fixture::open(warehouse, 1, eager(), Restore::Snapshot(last)).unwrap());
    assert_eq!(scan(warehouse, At::Snapshot(first)).unwrap(), rows(&[(1, 1, "a")]));
}

#[test]
fn damaged_tag_does_not_keep_a_table_from_opening() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let snapshot = fixture.checkpoint(1);
    drop(fixture);
    for tag in files_in(directory.path(), "tag") {
        std::fs::write(tag, b"").unwrap();
    }
    let restore = Restore::Snapshot(snapshot);
    let mut fixture = Fixture::open(directory.path(), 1, eager(), restore).unwrap();
    assert_eq!(fixture.get(&[1]).unwrap(), rows(&[(1, 1, "a")]));
}

#[test]
fn names_that_could_mean_two_tables_are_refused() {
    let directory = scratch();
    let store = StateStore::open(directory.path(), "default", eager()).unwrap();
    for name in ["a__b", "_a", "a_", "", "a/b", ".."] {
        let wanted = StateDescriptor { pipeline: name.to_owned(), ..descriptor(1) };
        let error = store.open_table(&wanted, Restore::Fresh).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
    }
}

#[test]
fn keys_of_other_types_are_refused() {
    let directory = scratch();
    let mut fixture = Fixture::open(directory.path(), 1, eager(), Restore::Fresh).unwrap();
    let encoder = KeyEncoder::new(&[Column::required("id", ColumnType::Int32)]).unwrap();
    let column = std::sync::Arc::new(arrow_array::Int32Array::from(vec![1]));
    let keys = KeyBatch::new(&encoder, vec![column]).unwrap();
    assert_eq!(fixture.subtasks[0].get(&keys).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn writer_that_waits_for_a_flush_wakes_up_when_the_table_is_aborted() {
    let directory = scratch();
    let options = StoreOptions { write_buffer_limit_bytes: 1, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 2, options, Restore::Fresh).unwrap();
    let id = (0..).find(|&id| fixture.owner(id) == 0).unwrap();
    // The other subtask never reaches the barrier, so nothing after it can be flushed.
    fixture.subtasks[0].freeze(1).unwrap();
    let table = fixture.table.clone();
    let waiting = std::thread::Builder::new()
        .spawn(move || {
            loop {
                if let Err(error) = fixture.put(&rows(&[(id, 1, "x")])) {
                    return error;
                }
            }
        })
        .unwrap();
    while table.metrics().waits_total == 0 {
        std::thread::yield_now();
    }
    table.abort();
    assert_eq!(waiting.join().unwrap().kind(), ErrorKind::Closed);
}

#[test]
fn writer_over_its_share_of_frozen_bytes_waits_while_barriers_do_not() {
    let directory = scratch();
    let options = StoreOptions { frozen_limit_bytes: 1, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 2, options, Restore::Fresh).unwrap();
    let fast = (0..).find(|&id| fixture.owner(id) == 0).unwrap();
    let slow = (0..).find(|&id| fixture.owner(id) == 1).unwrap();
    fixture.put(&rows(&[(fast, 1, "a")])).unwrap();
    for checkpoint in 1..=3 {
        fixture.subtasks[0].freeze(checkpoint).unwrap();
    }
    let table = fixture.table.clone();
    let mut behind = fixture.subtasks.pop().unwrap();
    let waiting = std::thread::Builder::new()
        .spawn(move || {
            fixture.subtasks.truncate(1);
            let written = fixture.put(&rows(&[(fast, 2, "b")]));
            (fixture, written)
        })
        .unwrap();
    while table.metrics().waits_total == 0 {
        std::thread::yield_now();
    }
    // The one that is behind gets on, whatever the other has frozen.
    let columns: [arrow_array::ArrayRef; 2] = [
        std::sync::Arc::new(arrow_array::Int64Array::from(vec![1])),
        std::sync::Arc::new(arrow_array::StringArray::from(vec!["a"])),
    ];
    behind.put(&crate::fixture::keys(&[slow]), &columns).unwrap();
    behind.freeze(1).unwrap();
    let (fixture, written) = waiting.join().unwrap();
    written.unwrap();
    assert_eq!(fixture.published(1), 2);
}

#[test]
fn keys_that_are_only_read_cause_no_flush() {
    let directory = scratch();
    let options = StoreOptions { write_buffer_limit_bytes: 4096, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    for start in (0..10_000).step_by(100) {
        fixture.get(&(start..start + 100).collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(fixture.table.metrics().commits_total, 0);
    assert_eq!(fixture.get(&[1, 2]).unwrap(), rows(&[(1, 1, "a")]));
    let first = fixture.checkpoint(1);
    assert_eq!(scan(directory.path(), At::Snapshot(first)).unwrap(), rows(&[(1, 1, "a")]));
}

#[test]
fn full_buffers_of_several_subtasks_share_a_snapshot_with_those_that_wait() {
    let directory = scratch();
    let options = StoreOptions { background_threads: 3, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 4, options, Restore::Fresh).unwrap();
    let many: Vec<(i64, i64, &str)> = (0..2_000).map(|id| (id, id, "x")).collect();
    fixture.put(&rows(&many)).unwrap();
    let snapshot = fixture.checkpoint(1);
    assert_eq!(snapshot, 2);
    assert_eq!(scan(directory.path(), At::Latest).unwrap(), rows(&many));
    assert_eq!(fixture.table.metrics().files, 4);
}

/// One table may be ahead of another: its snapshots are kept until they are waited for.
#[test]
fn waiting_for_a_checkpoint_returns_its_snapshot_of_every_table() {
    let directory = scratch();
    let store = StateStore::open(directory.path(), "default", eager()).unwrap();
    let open = |state: &str| {
        let descriptor = StateDescriptor {
            pipeline: "p".into(),
            operator: "o".into(),
            state: state.into(),
            key: vec![Column::required("id", ColumnType::Int64)],
            value: vec![Column::required("number", ColumnType::Int64)],
            ..StateDescriptor::default()
        };
        store.open_table(&descriptor, Restore::Fresh).unwrap()
    };
    let tables = [open("ahead"), open("behind")];
    let mut states = tables.each_ref().map(|table| table.value_state(0).unwrap());
    let mut write = |at: usize, checkpoint: u64| {
        let id: arrow_array::ArrayRef =
            std::sync::Arc::new(arrow_array::Int64Array::from(vec![checkpoint as i64]));
        let keys = KeyBatch::new(tables[at].key_encoder(), vec![id.clone()]).unwrap();
        states[at].put(&keys, &[id]).unwrap();
        states[at].freeze(checkpoint).unwrap();
    };
    write(0, 1);
    write(0, 2);
    write(1, 1);
    let first = store.wait_published(1).unwrap();
    let none = store.wait_published_for(2, std::time::Duration::from_millis(1)).unwrap();
    assert_eq!(none, None);
    write(1, 2);
    let second = store.wait_published(2).unwrap();

    for (checkpoint, published) in [(1, first), (2, second)] {
        let names: Vec<&str> = published.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["p__o__ahead", "p__o__behind"]);
        for (name, snapshot) in &published {
            let reader = StateReader::open(directory.path(), "default", name).unwrap();
            assert_eq!(reader.snapshot_id(&At::Checkpoint(checkpoint)).unwrap(), *snapshot);
        }
    }
}

#[test]
fn keys_are_dealt_out_to_the_subtasks_that_own_them() {
    let encoder = KeyEncoder::new(&[Column::required("id", ColumnType::Int64)]).unwrap();
    let ids = arrow_array::Int64Array::from_iter_values(0..1000);
    let keys = encoder.encode(&[std::sync::Arc::new(ids)]).unwrap();
    let groups = KeyGroups::new(64, 3).unwrap();
    let dealt = groups.split(&keys);
    assert_eq!(dealt.len(), 3);
    for (subtask, rows) in (0..).zip(&dealt) {
        assert!(rows.is_sorted());
        assert!(rows.iter().all(|row| groups.subtask_of(keys.hashes()[*row as usize]) == subtask));
    }
    assert_eq!(dealt.iter().map(Vec::len).sum::<usize>(), 1000);
}

//! Tables that earlier versions wrote stay readable: each is kept as that version left it.

use crate::effort::scratch;
use crate::fixture::{Fixture, Model, eager, rows, scan};
use howdah_state::{At, Restore};
use std::path::{Path, PathBuf};

/// `examples/write_table.rs`, as of version 0.1.
fn version_0_1() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-0.1")
}

fn latest() -> Model {
    rows(&[(1, 1, "a"), (2, 20, "bb")])
}

#[test]
fn table_of_version_0_1_is_read_at_each_checkpoint() {
    let mut first = rows(&[(1, 1, "a"), (3, 3, "c")]);
    first.insert(2, (2, None));
    assert_eq!(scan(&version_0_1(), At::Checkpoint(1)).unwrap(), first);
    assert_eq!(scan(&version_0_1(), At::Checkpoint(2)).unwrap(), latest());
}

#[test]
fn table_of_version_0_1_is_opened_and_written_on() {
    let directory = scratch();
    crate::damage::copy_directory(&version_0_1(), directory.path());
    let restore = Restore::Snapshot(3);
    let mut fixture = Fixture::open(directory.path(), 1, eager(), restore).unwrap();
    assert_eq!(fixture.get(&[1, 2, 3]).unwrap(), latest());
    fixture.put(&rows(&[(3, 30, "cc")])).unwrap();
    fixture.checkpoint(3);
    assert_eq!(fixture.get(&[3]).unwrap(), rows(&[(3, 30, "cc")]));
}

//! Damaged files: what is checked is refused by name, and nothing brings the process down.

use crate::fixture::{Fixture, Model, eager, files_in, rows, scan};
use howdah_state::*;
use std::path::{Path, PathBuf};

/// A table with two runs and a deletion vector; returns its latest snapshot.
fn build(warehouse: &Path) -> (i64, Model) {
    let options = StoreOptions { merge_trigger_runs: 50, ..eager() };
    let mut fixture = Fixture::open(warehouse, 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a"), (2, 2, "b"), (3, 3, "c")])).unwrap();
    fixture.checkpoint(1);
    fixture.put(&rows(&[(2, 20, "bb")])).unwrap();
    fixture.delete(&[3]).unwrap();
    (fixture.checkpoint(2), rows(&[(1, 1, "a"), (2, 20, "bb")]))
}

fn open_and_read(warehouse: &Path, snapshot: i64) -> Result<Model> {
    let mut fixture = Fixture::open(warehouse, 1, eager(), Restore::Snapshot(snapshot))?;
    fixture.get(&[1, 2, 3])
}

/// Damages each file of a directory in turn; reading must fail, naming the file, or be right.
fn each_file(directory: &str, damage: impl Fn(&[u8]) -> Vec<u8>) {
    let source = tempfile::tempdir().unwrap();
    let (snapshot, wanted) = build(source.path());
    let mut failures = 0;
    for path in files_in(source.path(), directory) {
        let copy = tempfile::tempdir().unwrap();
        copy_directory(source.path(), copy.path());
        let victim: PathBuf = copy.path().join(path.strip_prefix(source.path()).unwrap());
        std::fs::write(&victim, damage(&std::fs::read(&victim).unwrap())).unwrap();
        match open_and_read(copy.path(), snapshot) {
            Ok(found) => assert_eq!(found, wanted, "{} damaged", victim.display()),
            Err(error) => {
                assert_ne!(error.to_string(), "");
                failures += 1;
            }
        }
        let _ = scan(copy.path(), At::Latest);
    }
    assert!(failures > 0, "damage in {directory} was never noticed");
}

pub(crate) fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_directory(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

fn cut_in_half(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len() / 2].to_vec()
}

fn nothing_left(_: &[u8]) -> Vec<u8> {
    Vec::new()
}

#[test]
fn truncated_data_file_is_refused() {
    each_file("bucket-0", cut_in_half);
}

#[test]
fn empty_data_file_is_refused() {
    each_file("bucket-0", nothing_left);
}

#[test]
fn truncated_manifest_is_refused() {
    each_file("manifest", cut_in_half);
}

#[test]
fn empty_manifest_is_refused() {
    each_file("manifest", nothing_left);
}

#[test]
fn truncated_deletion_vectors_are_refused() {
    each_file("index", cut_in_half);
}

#[test]
fn flipped_bit_in_deletion_vectors_is_refused() {
    each_file("index", |bytes| {
        let mut bytes = bytes.to_vec();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        bytes
    });
}

#[test]
fn truncated_snapshot_is_refused() {
    each_file("snapshot", cut_in_half);
}

#[test]
fn missing_data_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (snapshot, _) = build(directory.path());
    let victim = files_in(directory.path(), "bucket-0").remove(0);
    std::fs::remove_file(&victim).unwrap();
    let error = open_and_read(directory.path(), snapshot).unwrap_err();
    assert!(error.to_string().contains(victim.file_name().unwrap().to_str().unwrap()), "{error}");
}

#[test]
fn missing_snapshot_is_named() {
    let directory = tempfile::tempdir().unwrap();
    build(directory.path());
    let error = open_and_read(directory.path(), 99).unwrap_err();
    assert!(error.to_string().contains("has no snapshot 99"), "{error}");
}

/// Values are not checksummed where they lie, but no damage may bring the host down.
#[test]
fn flipped_byte_anywhere_in_a_data_file_never_panics() {
    let directory = tempfile::tempdir().unwrap();
    build(directory.path());
    let victim = files_in(directory.path(), "bucket-0").remove(0);
    let sound = std::fs::read(&victim).unwrap();
    let mut refused = 0;
    for at in 0..sound.len() {
        for bits in [1, 0x80, 0xff] {
            let mut bytes = sound.clone();
            bytes[at] ^= bits;
            // Under a fresh inode: the file may still be mapped.
            std::fs::remove_file(&victim).unwrap();
            std::fs::write(&victim, bytes).unwrap();
            let read = StateReader::open(directory.path(), "default", crate::fixture::TABLE)
                .and_then(|reader| {
                    reader.get(&At::Latest, &["2".to_owned()])?;
                    reader.scan(&At::Latest, None)
                });
            refused += usize::from(read.is_err());
        }
    }
    assert!(refused > 0, "no damage was ever noticed");
}

//! Damaged files: what is checked is refused by name, and nothing brings the process down.

use crate::effort::{is_full, scratch};
use crate::faults::Acknowledged;
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
    let source = scratch();
    let (snapshot, wanted) = build(source.path());
    let mut failures = 0;
    for path in files_in(source.path(), directory) {
        let copy = scratch();
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
    let directory = scratch();
    let (snapshot, _) = build(directory.path());
    let victim = files_in(directory.path(), "bucket-0").remove(0);
    std::fs::remove_file(&victim).unwrap();
    let error = open_and_read(directory.path(), snapshot).unwrap_err();
    assert!(error.to_string().contains(victim.file_name().unwrap().to_str().unwrap()), "{error}");
}

#[test]
fn missing_snapshot_is_named() {
    let directory = scratch();
    build(directory.path());
    let error = open_and_read(directory.path(), 99).unwrap_err();
    assert!(error.to_string().contains("has no snapshot 99"), "{error}");
}

/// Values are not checksummed where they lie, but no damage may bring the host down.
#[test]
fn flipped_byte_anywhere_in_a_data_file_never_panics() {
    let directory = scratch();
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

/// A table with everything in it: merged and unmerged runs, deletion vectors, several manifests,
/// two retained checkpoints. Returns what they hold.
fn build_rich(warehouse: &Path) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    crate::faults::work(warehouse, &eager(), &mut acknowledged).unwrap();
    acknowledged
}

/// What a damaged file does to those who read the table.
#[derive(Debug, Default)]
struct Tally {
    /// An error that names the file.
    named: usize,
    /// An error that does not.
    unnamed: Vec<String>,
    /// Everything read is right.
    right: usize,
    /// Something read is wrong.
    wrong: Vec<String>,
}

impl Tally {
    fn note<T: PartialEq>(
        &mut self,
        file: &str,
        snapshot: i64,
        what: &str,
        found: Result<T>,
        wanted: &T,
    ) {
        // A tag is a snapshot under another name.
        let is_named = |message: &str| {
            message.contains(file)
                || file.starts_with("tag-") && message.contains(&format!("snapshot-{snapshot} "))
        };
        match found {
            Ok(found) if found == *wanted => self.right += 1,
            Ok(_) => self.wrong.push(format!("{what}: {file}")),
            Err(error) if is_named(&error.to_string()) => self.named += 1,
            Err(error) => self.unnamed.push(format!("{what}: {file}: {error}")),
        }
    }
}

/// Damages a file of the table (by its path within), then reads what can be read.
fn read_damaged(
    sound: &Path,
    acknowledged: &Acknowledged,
    victim: &Path,
    damage: impl Fn(&mut Vec<u8>),
    tally: &mut Tally,
) {
    let copy = scratch();
    copy_directory(sound, copy.path());
    let path = copy.path().join(victim);
    let mut bytes = std::fs::read(&path).unwrap();
    damage(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    let file = path.file_name().unwrap().to_str().unwrap();
    for (checkpoint, (snapshot, model)) in acknowledged {
        let found = scan(copy.path(), At::Checkpoint(*checkpoint));
        tally.note(file, *snapshot, &format!("scan of checkpoint {checkpoint}"), found, model);
    }
    let (checkpoint, (snapshot, model)) = acknowledged.last_key_value().unwrap();
    let parallelism = crate::faults::parallelism(*checkpoint);
    let restored = Fixture::open(copy.path(), parallelism, eager(), Restore::Snapshot(*snapshot))
        .and_then(|mut fixture| fixture.get(&(0..40).collect::<Vec<_>>()));
    tally.note(file, *snapshot, "restore", restored, model);
}

/// Paths within the warehouse of the files of these directories of the table.
fn victims(warehouse: &Path, directories: &[&str]) -> Vec<PathBuf> {
    let all = directories.iter().flat_map(|directory| files_in(warehouse, directory));
    all.map(|path| path.strip_prefix(warehouse).unwrap().to_owned()).collect()
}

/// Numbers below `length`, drawn from `seed`: `some` of them, or many more in a full run.
fn places(length: usize, some: usize, seed: usize) -> Vec<usize> {
    let full = is_full();
    let some = if full { some * 20 } else { some };
    if length <= some {
        return (0..length).collect();
    }
    (0..some).map(|i| (i * length / some + (i * 7919 + seed * 104_729) % 97) % length).collect()
}

const METADATA: [&str; 5] = ["snapshot", "tag", "manifest", "index", "schema"];

#[test]
fn truncated_files_never_lead_to_wrong_data() {
    let directory = scratch();
    let acknowledged = build_rich(directory.path());
    let mut tally = Tally::default();
    for victim in victims(directory.path(), &[&METADATA[..], &["bucket-0"]].concat()) {
        let length = std::fs::metadata(directory.path().join(&victim)).unwrap().len() as usize;
        for length in [0, length / 2, length - 1] {
            let cut = |bytes: &mut Vec<u8>| bytes.truncate(length);
            read_damaged(directory.path(), &acknowledged, &victim, cut, &mut tally);
        }
    }
    println!("{} named, {} right, {:#?}", tally.named, tally.right, tally.unnamed);
    assert!(tally.named > 0 && tally.right > 0);
    assert_eq!(tally.wrong, Vec::<String>::new());
    assert_eq!(tally.unnamed, Vec::<String>::new());
}

#[test]
fn flipped_bits_in_metadata_never_lead_to_wrong_data() {
    let directory = scratch();
    let acknowledged = build_rich(directory.path());
    let mut tally = Tally::default();
    for (number, victim) in victims(directory.path(), &METADATA).into_iter().enumerate() {
        let length = std::fs::metadata(directory.path().join(&victim)).unwrap().len() as usize;
        for at in places(length, 2, number) {
            let bit = 1 << ((at + number) % 8);
            let flip = |bytes: &mut Vec<u8>| bytes[at] ^= bit;
            read_damaged(directory.path(), &acknowledged, &victim, flip, &mut tally);
        }
    }
    println!("{} named, {} right, {:#?}", tally.named, tally.right, tally.unnamed);
    assert!(tally.named > 0 && tally.right > 0);
    assert_eq!(tally.wrong, Vec::<String>::new());
    assert_eq!(tally.unnamed, Vec::<String>::new());
}

#[test]
fn newer_format_of_a_snapshot_is_refused() {
    let directory = scratch();
    let (snapshot, _) = build(directory.path());
    for path in
        files_in(directory.path(), "snapshot").into_iter().chain(files_in(directory.path(), "tag"))
    {
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"version\":3", "\"version\":4")).unwrap();
    }
    let error = open_and_read(directory.path(), snapshot).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert!(error.to_string().contains("has format 4"), "{error}");
}

#[test]
fn newer_format_of_a_schema_is_refused() {
    let directory = scratch();
    let (snapshot, _) = build(directory.path());
    let path = files_in(directory.path(), "schema").remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"version\": 3", "\"version\": 4")).unwrap();
    let error = open_and_read(directory.path(), snapshot).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    assert!(error.to_string().contains("has format 4"), "{error}");
}

/// Another schema than was written, valid as it is, does not pass for a change of the operator.
#[test]
fn schema_whose_columns_were_changed_is_refused_by_name() {
    let directory = scratch();
    let (snapshot, _) = build(directory.path());
    let path = files_in(directory.path(), "schema").remove(0);
    let sound = std::fs::read_to_string(&path).unwrap();
    for (written, damaged) in [
        ("\"id\"", "\"iD\""),
        ("\"BIGINT NOT NULL\"", "\"INT NOT NULL\""),
        ("\"howdah.key-columns\": \"1\"", "\"howdah.key-columns\": \"2\""),
        ("\"howdah.kind\": \"value\"", "\"howdah.kind\": \"list\""),
    ] {
        let text = sound.replace(written, damaged);
        assert_ne!(text, sound, "{written} is not in the schema");
        std::fs::write(&path, text).unwrap();
        let error = open_and_read(directory.path(), snapshot).unwrap_err();
        assert!(error.to_string().contains("schema-0"), "{damaged}: {error}");
    }
}

/// Opens a copy of a table, in which `damage` was done to one file, at its latest snapshot.
fn restore_damaged(victim: &Path, damage: impl FnOnce(&Path)) -> Result<Model> {
    let warehouse = victim.ancestors().nth(4).unwrap();
    let copy = scratch();
    copy_directory(warehouse, copy.path());
    damage(&copy.path().join(victim.strip_prefix(warehouse).unwrap()));
    open_and_read(copy.path(), 3)
}

#[test]
fn flipped_bit_anywhere_in_a_data_file_or_its_filter_is_refused_at_restore() {
    let directory = scratch();
    build(directory.path());
    let full = is_full();
    for victim in files_in(directory.path(), "bucket-0") {
        let sound = std::fs::read(&victim).unwrap();
        for at in (0..sound.len()).step_by(if full { 1 } else { 89 }) {
            let error = restore_damaged(&victim, |path| {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << (at % 8);
                std::fs::write(path, bytes).unwrap();
            })
            .unwrap_err();
            let name = victim.file_name().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(name), "byte {at} of {name}: {error}");
        }
    }
}

#[test]
fn table_without_its_filters_answers_all_the_same() {
    let directory = scratch();
    let (snapshot, wanted) = build(directory.path());
    for path in files_in(directory.path(), "bucket-0") {
        if path.extension().is_some_and(|extension| extension == "filter") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(open_and_read(directory.path(), snapshot).unwrap(), wanted);
}

#[test]
fn reader_passes_over_a_damaged_filter() {
    let directory = scratch();
    let (_, wanted) = build(directory.path());
    for path in files_in(directory.path(), "bucket-0") {
        if path.extension().is_some_and(|extension| extension == "filter") {
            std::fs::write(path, b"howdahkf").unwrap();
        }
    }
    let reader = StateReader::open(directory.path(), "default", crate::fixture::TABLE).unwrap();
    assert_eq!(reader.get(&At::Latest, &["2".to_owned()]).unwrap().len(), 1);
    assert_eq!(scan(directory.path(), At::Latest).unwrap(), wanted);
}

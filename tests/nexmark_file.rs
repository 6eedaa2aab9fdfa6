//! `howdah nexmark` writes whole files, the same each time, and replaces none unasked.

use crate::support::Finished;
use crate::support::job::howdah;
use std::path::Path;

fn nexmark(path: &Path, arguments: &[&str]) -> Finished {
    let mut command = howdah();
    command.args(["nexmark", "--events", "1000", "--out"]).arg(path).args(arguments);
    Finished::of(command.output().unwrap())
}

#[test]
fn a_file_is_replaced_only_when_forced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.csv");
    std::fs::write(&path, "mine").unwrap();
    nexmark(&path, &[]).failed(2, &["events.csv exists", "--force"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");

    nexmark(&path, &["--force"]).success();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1 + 1_000);
    let names = std::fs::read_dir(directory.path()).unwrap();
    assert_eq!(names.count(), 1, "a temporary file was left");
}

#[test]
fn the_same_arguments_give_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    for format in ["csv", "ndjson", "parquet"] {
        let write = |name: &str| {
            let path = directory.path().join(format!("{name}.{format}"));
            nexmark(&path, &["--format", format]).success();
            std::fs::read(path).unwrap()
        };
        assert!(write("a") == write("b"), "{format}");
    }
}

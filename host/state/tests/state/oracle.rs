//! Reads tables with pypaimon.

use crate::effort::scratch;
use crate::fixture::Model;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compares a table at a tag, or its newest snapshot, with rows of the fixture's table: as a
/// whole, and under predicates.
pub(crate) fn compare(warehouse: &Path, table: &str, tag: Option<&str>, wanted: &Model) {
    let mut expected = "id,number,text\n".to_owned();
    for (id, (number, text)) in wanted {
        writeln!(expected, "{id},{number},{}", text.as_deref().unwrap_or_default()).unwrap();
    }
    compare_text(warehouse, table, tag, &expected);
}

/// The same with rows as CSV, under the names of the columns.
pub(crate) fn compare_text(warehouse: &Path, table: &str, tag: Option<&str>, expected: &str) {
    let Some(python) = python() else { return };
    let directory = scratch();
    let file = directory.path().join("expected.csv");
    std::fs::write(&file, expected).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/state_table.py");
    let mut command = Command::new(python);
    command.arg(script).arg(warehouse).arg(format!("default.{table}"));
    command.args(["--expected", file.to_str().unwrap(), "--keys", "id", "--predicates", "4"]);
    if let Some(tag) = tag {
        command.args(["--tag", tag]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// The Python that `cargo xtask setup` made. `cargo xtask test` says where it is; without that
/// and without one in the target directory, there is no second opinion.
fn python() -> Option<PathBuf> {
    if let Some(python) = std::env::var_os("HOWDAH_ORACLE_PYTHON") {
        return Some(PathBuf::from(python));
    }
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../oracles-venv/bin/python");
    if python.exists() {
        return Some(python);
    }
    println!("no pypaimon: run cargo xtask setup");
    None
}

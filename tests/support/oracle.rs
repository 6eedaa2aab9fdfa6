//! Independent answers: DuckDB computes them, pypaimon reads the state tables.

use crate::support::job::{Finished, Job};
use crate::support::rows::{Row, Shape};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An answer to a query over events.
pub(crate) struct Answer {
    path: PathBuf,
    /// Of its lines, sorted by all columns, without the header.
    pub(crate) sha256: String,
}

impl Answer {
    /// Its rows, sorted as texts.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        let rows = text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect());
        let mut rows: Vec<Row> = rows.collect();
        rows.sort();
        rows
    }
}

/// What DuckDB answers over a CSV file of events, or over its first rows.
pub(crate) fn answer(job: &Job, input: &Path, query: &str, first: Option<u64>) -> Answer {
    let first = first.map(|first| first.to_string());
    let name = format!("{query}-{}.csv", first.as_deref().unwrap_or("all"));
    let path = job.directory().join(name);
    let mut command = script("nexmark.py");
    command.arg(input).arg(query).arg("--out").arg(&path);
    if let Some(first) = &first {
        command.args(["--first", first]);
    }
    let printed = run(&mut command);
    Answer { path, sha256: printed["sha256"].as_str().unwrap().to_owned() }
}

/// Reads the state table of a job with pypaimon and fails the test unless it holds exactly the
/// answer; with predicates too. As of a checkpoint, or the newest.
pub(crate) fn check_state(job: &Job, answer: &Answer, checkpoint: Option<u64>) {
    check_state_in(&job.state_directory().join("warehouse"), job, answer, checkpoint);
}

/// The same in another warehouse, as that of a savepoint.
pub(crate) fn check_state_in(
    warehouse: &Path,
    job: &Job,
    answer: &Answer,
    checkpoint: Option<u64>,
) {
    let table = state_table(job);
    check_table(
        warehouse,
        &format!("default.{table}"),
        &answer.path,
        job.state_shape.key,
        checkpoint,
    );
}

/// The same for any table, with the expected rows in a CSV file.
pub(crate) fn check_table(
    warehouse: &Path,
    table: &str,
    expected: &Path,
    key: &[&str],
    checkpoint: Option<u64>,
) {
    let mut command = script("state_table.py");
    command.arg(warehouse).arg(table).arg("--expected").arg(expected);
    command.args(["--keys", &key.join(",")]);
    if let Some(checkpoint) = checkpoint {
        command.args(["--tag", &format!("checkpoint-{checkpoint}")]);
    }
    let printed = run(&mut command);
    assert!(printed["predicates"].as_u64().unwrap() > 0, "{printed}");
}

/// The rows of any table as pypaimon reads them, sorted as texts.
pub(crate) fn table_rows(warehouse: &Path, table: &str, columns: &[&str]) -> Vec<Row> {
    let printed = run(script("table_rows.py").arg(warehouse).arg(table).args(columns));
    let mut rows: Vec<Row> = serde_json::from_value(printed).unwrap();
    rows.sort();
    rows
}

/// Has pypaimon write a table of `id` and `name`, with a commit for each batch.
pub(crate) fn write_table(warehouse: &Path, table: &str, key: &[&str], batches: &Value) {
    let wanted = tempfile::NamedTempFile::new().unwrap();
    let json = serde_json::json!({ "key": key, "batches": batches });
    std::fs::write(wanted.path(), json.to_string()).unwrap();
    run(script("write_table.py").arg(warehouse).arg(table).arg(wanted.path()));
}

fn state_table(job: &Job) -> String {
    let text = job.state("ls", &["--output", "json"]);
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    line["table"].as_str().unwrap().to_owned()
}

/// Fails the test unless rows, in the columns of an answer, are the answer.
pub(crate) fn assert_rows(rows: &[Row], shape: &Shape, columns: &[&str], answer: &Answer) {
    let mut projected: Vec<Row> = rows.iter().map(|row| shape.project(row, columns)).collect();
    projected.sort();
    let expected = answer.rows();
    assert_eq!(projected.len(), expected.len());
    let difference = projected.iter().zip(&expected).find(|(got, expected)| got != expected);
    assert_eq!(difference, None, "the first difference (got, expected)");
}

fn script(name: &str) -> Command {
    script_with(&python(), name)
}

/// A script of the oracles, run by a Python that has what it needs.
pub(crate) fn script_with(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles").join(name));
    command
}

/// The Python that `cargo xtask setup` made.
fn python() -> PathBuf {
    let python = std::env::var_os("HOWDAH_ORACLE_PYTHON").map_or_else(
        // The directory for test files lies in the target directory.
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("../oracles-venv/bin/python"),
        PathBuf::from,
    );
    assert!(python.exists(), "{} is not there: run cargo xtask setup", python.display());
    python
}

/// Runs a script that prints one JSON object.
fn run(command: &mut Command) -> Value {
    let finished = Finished::of(command.output().unwrap());
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    serde_json::from_str(&finished.stdout).unwrap()
}

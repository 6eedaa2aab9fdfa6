//! What independent readers make of the tables: pypaimon, crate `paimon`'s own reader (by way of
//! its Python package) and paimon-cpp (by way of a DuckDB extension). `cargo xtask setup` installs
//! them; a reader that is not there is skipped.

use crate::effort::{is_full, scratch};
use crate::fixture::{Fixture, Model, TABLE, eager, keys, rows, scan};
use crate::kinds::{map_key, numbers, reducers, texts, times};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use howdah_state::*;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pseudo-random numbers (xorshift), never from the seed 0.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn ids(&mut self, count: u64) -> Vec<i64> {
        let mut ids: Vec<i64> = (0..count).map(|_| self.below(60) as i64).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// How many random tables of each kind: more in a full run.
fn rounds() -> u64 {
    if is_full() { 20 } else { 2 }
}

/// A version of a table as the readers' script wants it, with the rows that our scan finds.
fn version(warehouse: &Path, checkpoint: u64, snapshot: i64) -> Value {
    let reader = StateReader::open(warehouse, "default", TABLE).unwrap();
    let columns: Vec<_> =
        reader.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut rows = Vec::new();
    for batch in reader.scan(&At::Checkpoint(checkpoint), None).unwrap() {
        let values: Vec<Vec<Value>> = batch.columns().iter().map(json_column).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| values.iter().map(|column| column[row].clone()).collect::<Vec<_>>()),
        );
    }
    json!({
        "warehouse": warehouse,
        "table": format!("default.{TABLE}"),
        "tag": format!("checkpoint-{checkpoint}"),
        "snapshot": snapshot,
        "columns": columns,
        "keys": ["id"],
        "rows": rows,
    })
}

fn json_column(column: &ArrayRef) -> Vec<Value> {
    let value = |row: usize| match column.data_type() {
        _ if column.is_null(row) => Value::Null,
        DataType::Int32 => json!(column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)),
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::Timestamp(..) => {
            json!(column.as_primitive::<TimestampMillisecondType>().value(row))
        }
        other => panic!("{other} is not compared"),
    };
    (0..column.len()).map(value).collect()
}

/// A value state after random writes, deletes, merges, expiry and rescales; its retained versions, which
/// are right by a plain map through scan and probe.
fn value_table(warehouse: &Path, chance: &mut Chance) -> Vec<Value> {
    let open = |chance: &mut Chance, restore| {
        Fixture::open(warehouse, 1 + chance.below(3) as u32, eager(), restore).unwrap()
    };
    let mut fixture = open(chance, Restore::Fresh);
    let mut model = Model::new();
    let mut kept: Vec<(u64, i64, Model)> = Vec::new();
    for checkpoint in 1..=8 + chance.below(6) {
        for id in chance.ids(25) {
            let text = (chance.below(3) > 0).then(|| "é\0x".repeat(chance.below(4) as usize));
            let row = Model::from([(id, (checkpoint as i64 * 1000 + id, text))]);
            fixture.put(&row).unwrap();
            model.extend(row);
        }
        let deleted = chance.ids(8);
        fixture.delete(&deleted).unwrap();
        deleted.iter().for_each(|id| drop(model.remove(id)));
        let snapshot = fixture.checkpoint(checkpoint);
        kept.push((checkpoint, snapshot, model.clone()));
        kept.drain(..kept.len().saturating_sub(3));
        let retained: Vec<(u64, i64)> =
            kept.iter().map(|(checkpoint, snapshot, _)| (*checkpoint, *snapshot)).collect();
        fixture.table.retain(&retained).unwrap();
        if chance.below(4) == 0 {
            fixture.store.close().unwrap();
            fixture = open(chance, Restore::Rescaled(snapshot));
        }
    }
    fixture.store.close().unwrap();
    let reader = StateReader::open(warehouse, "default", TABLE).unwrap();
    kept.into_iter()
        .map(|(checkpoint, snapshot, model)| {
            let at = At::Checkpoint(checkpoint);
            assert_eq!(scan(warehouse, at).unwrap(), model);
            for id in 0..60 {
                let found = reader.get(&at, &[i64::to_string(&id)]).unwrap();
                let found: usize = found.iter().map(RecordBatch::num_rows).sum();
                assert_eq!(found, usize::from(model.contains_key(&id)), "key {id}");
            }
            version(warehouse, checkpoint, snapshot)
        })
        .collect()
}

/// A state of another kind after random writes; its versions.
fn other_table(warehouse: &Path, kind: &StateKind, chance: &mut Chance) -> Vec<Value> {
    let (store, table) = crate::kinds::open(warehouse, kind.clone(), eager(), Restore::Fresh);
    let mut state = OtherState::new(&table, kind);
    let mut versions = Vec::new();
    for checkpoint in 1..=6 {
        for _ in 0..4 {
            state.write(chance);
        }
        state.freeze(checkpoint);
        let snapshot = crate::kinds::published(&store);
        versions.push((checkpoint, snapshot));
        versions.drain(..versions.len().saturating_sub(2));
        table.retain(&versions).unwrap();
    }
    store.close().unwrap();
    let kept = versions.into_iter();
    kept.map(|(checkpoint, snapshot)| version(warehouse, checkpoint, snapshot)).collect()
}

enum OtherState {
    List(ListState),
    Map(MapState),
    Reducing(ReducingState),
    Timers(Timers),
}

impl OtherState {
    fn new(table: &StateTable, kind: &StateKind) -> Self {
        match kind {
            StateKind::List => Self::List(table.list_state(0).unwrap()),
            StateKind::Map { .. } => Self::Map(table.map_state(0).unwrap()),
            StateKind::Reducing { .. } => Self::Reducing(table.reducing_state(0).unwrap()),
            StateKind::Timers => Self::Timers(table.timers(0).unwrap()),
            StateKind::Value => panic!("value state is no other state"),
        }
    }

    fn write(&mut self, chance: &mut Chance) {
        let ids = chance.ids(12);
        let key_of: Vec<u32> = (0..).take(ids.len()).collect();
        let values: Vec<Option<i64>> =
            ids.iter().map(|_| Some(chance.below(100) as i64).filter(|n| n % 5 > 0)).collect();
        let some = &ids[..ids.len() / 4];
        match self {
            Self::List(state) => {
                state.append(&keys(&ids), &key_of, &[numbers(&values)]).unwrap();
                state.clear(&keys(some)).unwrap();
            }
            Self::Map(state) => {
                let items: Vec<String> =
                    ids.iter().map(|_| format!("item {}", chance.below(5))).collect();
                let items = [texts(&items)];
                state.put(&keys(&ids), &key_of, &items, &[numbers(&values)]).unwrap();
                state.clear(&keys(some)).unwrap();
            }
            Self::Reducing(state) => {
                let columns: Vec<ArrayRef> = (0..6).map(|_| numbers(&values)).collect();
                state.add(&keys(&ids), &columns).unwrap();
                state.clear(&keys(some)).unwrap();
            }
            Self::Timers(state) => {
                let due: Vec<i64> =
                    ids.iter().map(|_| 1_700_000_000_000 + chance.below(9) as i64).collect();
                state.set(&keys(&ids), &times(&due)).unwrap();
                state.take_due(1_700_000_000_001, 5).unwrap();
            }
        }
    }

    fn freeze(&mut self, checkpoint: u64) {
        let frozen = match self {
            Self::List(state) => state.freeze(checkpoint),
            Self::Map(state) => state.freeze(checkpoint),
            Self::Reducing(state) => state.freeze(checkpoint),
            Self::Timers(state) => state.freeze(checkpoint),
        };
        frozen.unwrap();
    }
}

/// The versions of random tables of all kinds, below a directory.
fn random_tables(directory: &Path) -> Vec<Value> {
    let kinds =
        [StateKind::List, StateKind::Map { map_key: map_key() }, reducers(), StateKind::Timers];
    let mut cases = Vec::new();
    for seed in 1..=rounds() {
        println!("seed {seed}");
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        cases.extend(value_table(&directory.join(format!("value-{seed}")), &mut chance));
        for (number, kind) in kinds.iter().enumerate() {
            let warehouse = directory.join(format!("kind-{number}-{seed}"));
            cases.extend(other_table(&warehouse, kind, &mut chance));
        }
    }
    cases
}

/// The Python of a reader, by the variable that `cargo xtask test` sets, or where `cargo xtask
/// setup` makes it; `None`, with a message, when it is not there.
fn python(variable: &str, environment: &str) -> Option<PathBuf> {
    let python = std::env::var_os(variable).map_or_else(
        // The directory for test files lies in the target directory.
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("../{environment}/bin/python")),
        PathBuf::from,
    );
    if python.exists() {
        return Some(python);
    }
    println!("skipped: {} is not there; run cargo xtask setup", python.display());
    None
}

fn pypaimon() -> Option<PathBuf> {
    python("HOWDAH_ORACLE_PYTHON", "oracles-venv")
}

fn other_readers() -> Option<PathBuf> {
    python("HOWDAH_READERS_PYTHON", "readers-venv")
}

fn script(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles").join(name));
    command
}

/// Reads random tables of every kind with a reader, at every kept checkpoint.
fn compare(python: Option<PathBuf>, reader: &str) {
    let Some(python) = python else { return };
    let directory = scratch();
    let cases = random_tables(directory.path());
    let file = directory.path().join("cases.json");
    std::fs::write(&file, serde_json::to_vec(&cases).unwrap()).unwrap();
    let mut command = script(&python, "state_tables.py");
    let output = command.arg(&file).args(["--reader", reader]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        println!("skipped: {error}");
        return;
    }
    assert!(output.status.success(), "{reader}: {error}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{reader}: {summary}");
    assert_eq!(summary["versions"].as_u64().unwrap(), cases.len() as u64);
    assert!(summary["reads"].as_u64().unwrap() > 2 * cases.len() as u64, "{summary}");
}

#[test]
fn pypaimon_reads_every_kept_checkpoint_right() {
    compare(pypaimon(), "pypaimon");
}

#[test]
fn reader_of_crate_paimon_reads_every_kept_checkpoint_right() {
    compare(other_readers(), "paimon-rust");
}

#[test]
fn paimon_cpp_reads_every_kept_checkpoint_right() {
    compare(other_readers(), "paimon-cpp");
}

#[test]
fn pypaimon_that_planned_the_earliest_snapshot_reads_it_while_others_expire() {
    let Some(python) = pypaimon() else { return };
    let directory = scratch();
    let options = StoreOptions { snapshot_retained_ms: 600_000, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a"), (2, 2, "b")])).unwrap();
    let earliest = fixture.checkpoint(1);
    let mut reader = script(&python, "slow_reader.py")
        .arg(directory.path())
        .args([&format!("default.{TABLE}"), &earliest.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "planned");
    for checkpoint in 2..=12_u64 {
        fixture.put(&rows(&[(1, checkpoint as i64, "c")])).unwrap();
        let snapshot = fixture.checkpoint(checkpoint);
        fixture.table.retain(&[(checkpoint, snapshot)]).unwrap();
    }
    reader.stdin.take().unwrap().write_all(b"read\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), r#"[[1, 1, "a"], [2, 2, "b"]]"#);
    assert!(reader.wait().unwrap().success());
}

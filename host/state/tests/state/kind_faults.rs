//! Failures and deaths where all kinds of state work side by side and a table changes its
//! columns: what comes after is what would have come without them.

use crate::effort::{each, scratch};
use crate::faults::sample;
use crate::fixture::{eager, keys};
use crate::kinds::{descriptor, map_key, numbers, reducers, texts, times};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use howdah_state::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Longer than any call takes, however busy the machine.
const HANG: Duration = Duration::from_secs(60);
/// The process starts anew after this checkpoint, with one column more.
const EVOLVES_AFTER: u64 = 2;
const CHECKPOINTS: u64 = 4;
const TABLES: [&str; 5] = ["value", "list", "map", "reducing", "timers"];

fn full_name(state: &str) -> String {
    format!("pipeline__operator__{state}")
}

/// The snapshots of each table, by checkpoint.
type Published = BTreeMap<u64, BTreeMap<String, i64>>;

/// The states of one life of the process.
struct States {
    store: StateStore,
    tables: Vec<StateTable>,
    value: ValueState,
    list: ListState,
    map: MapState,
    reducing: ReducingState,
    timers: Timers,
    evolved: bool,
}

impl States {
    /// Opens all of them as they were at a checkpoint.
    fn open(
        warehouse: &Path,
        options: StoreOptions,
        at: u64,
        snapshots: Option<&BTreeMap<String, i64>>,
    ) -> Result<Self> {
        let evolved = at >= EVOLVES_AFTER;
        let store = StateStore::open(warehouse, "default", options)?;
        let mut tables = Vec::new();
        for name in TABLES {
            let kind = match name {
                "list" => StateKind::List,
                "map" => StateKind::Map { map_key: map_key() },
                "reducing" => reducers(),
                "timers" => StateKind::Timers,
                _ => StateKind::Value,
            };
            let mut wanted = StateDescriptor { state: name.into(), ..descriptor(kind, None) };
            if name == "value" && evolved {
                wanted.value.push(Column::nullable("text", ColumnType::Utf8));
            }
            let snapshot = snapshots.and_then(|snapshots| snapshots.get(&full_name(name)));
            let restore = snapshot.map_or(Restore::Fresh, |&id| Restore::Snapshot(id));
            tables.push(store.open_table(&wanted, restore)?);
        }
        Ok(Self {
            value: tables[0].value_state(0)?,
            list: tables[1].list_state(0)?,
            map: tables[2].map_state(0)?,
            reducing: tables[3].reducing_state(0)?,
            timers: tables[4].timers(0)?,
            store,
            tables,
            evolved,
        })
    }

    /// What is done between two checkpoints: it depends on their number and on what is there.
    fn change(&mut self, checkpoint: u64) -> Result<()> {
        let step = checkpoint as i64;
        let ids: Vec<i64> = (0..6).map(|i| (i * 5 + step * 3) % 16).collect();
        let values: Vec<_> = (0..6).map(|i| (i != step).then_some(step * 100 + i)).collect();
        let values = numbers(&values);
        let mut columns = vec![values.clone()];
        if self.evolved {
            columns.push(texts(&ids.iter().map(|id| format!("{step}-{id}")).collect::<Vec<_>>()));
        }
        self.value.put(&keys(&ids), &columns)?;
        self.value.delete(&keys(&[step * 5 % 16]))?;
        let key_of = [0, 1, 2, 3, 4, 5];
        self.list.append(&keys(&ids), &key_of, std::slice::from_ref(&values))?;
        self.list.clear(&keys(&[step % 16]))?;
        let items =
            [texts(&(0..6).map(|i| format!("item-{}", (i + step) % 4)).collect::<Vec<_>>())];
        self.map.put(&keys(&ids), &key_of, &items, std::slice::from_ref(&values))?;
        self.map.clear(&keys(&[step * 7 % 16]))?;
        self.reducing.add(&keys(&ids), &vec![values; 6])?;
        let due: Vec<i64> = ids.iter().map(|id| step * 10 + id * 3 % 20).collect();
        self.timers.set(&keys(&ids), &times(&due))?;
        self.timers.take_due(step * 10 + 5, 3)?;
        Ok(())
    }

    fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        self.value.freeze(checkpoint)?;
        self.list.freeze(checkpoint)?;
        self.map.freeze(checkpoint)?;
        self.reducing.freeze(checkpoint)?;
        self.timers.freeze(checkpoint)
    }

    /// Changes everything, and waits until that is published.
    fn checkpoint(&mut self, checkpoint: u64, published: &mut Published) -> Result<()> {
        self.change(checkpoint)?;
        self.freeze(checkpoint)?;
        for _ in TABLES {
            match self.store.events().recv_timeout(HANG).expect("the store hangs") {
                StateEvent::Published { table, snapshot, .. } => {
                    published.entry(checkpoint).or_default().insert(table, snapshot);
                }
                StateEvent::Failed { error, .. } => return Err(error),
            }
        }
        for (table, name) in self.tables.iter().zip(TABLES) {
            let name = full_name(name);
            let retained: Vec<(u64, i64)> =
                published.iter().rev().take(2).map(|(id, tables)| (*id, tables[&name])).collect();
            table.retain(&retained)?;
        }
        Ok(())
    }
}

/// Goes on after the last checkpoint that all tables have, until this one.
fn work(
    warehouse: &Path,
    options: &StoreOptions,
    published: &mut Published,
    until: u64,
) -> Result<()> {
    loop {
        published.retain(|_, tables| tables.len() == TABLES.len());
        let (last, snapshots) = match published.last_key_value() {
            Some((last, snapshots)) => (*last, Some(snapshots)),
            None => (0, None),
        };
        if last == until {
            return Ok(());
        }
        let end = if last < EVOLVES_AFTER { EVOLVES_AFTER.min(until) } else { until };
        let mut states = States::open(warehouse, options.clone(), last, snapshots)?;
        for checkpoint in last + 1..=end {
            states.checkpoint(checkpoint, published)?;
        }
        states.store.close()?;
    }
}

/// The rows of a table at a checkpoint, as text.
fn content(warehouse: &Path, table: &str, checkpoint: u64) -> BTreeSet<String> {
    let reader = StateReader::open(warehouse, "default", table).unwrap();
    let options = FormatOptions::default().with_null("null");
    let mut rows = BTreeSet::new();
    for batch in reader.scan(&At::Checkpoint(checkpoint), None).unwrap() {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<_> = columns.iter().map(|c| c.value(row).to_string()).collect();
            assert!(rows.insert(values.join(" ")), "{table}: a row is there twice");
        }
    }
    rows
}

/// What the tables hold at each checkpoint.
type Expected = BTreeMap<(String, u64), BTreeSet<String>>;

/// What the tables hold when nothing fails.
fn expected() -> Expected {
    let (directory, mut published) = (scratch(), Published::new());
    let mut expected = Expected::new();
    for checkpoint in 1..=CHECKPOINTS {
        work(directory.path(), &eager(), &mut published, checkpoint).unwrap();
        for table in TABLES.map(full_name) {
            let rows = content(directory.path(), &table, checkpoint);
            assert!(!rows.is_empty(), "{table}");
            expected.insert((table, checkpoint), rows);
        }
    }
    expected
}

/// The last two checkpoints that all tables have are as they should be.
fn check(warehouse: &Path, published: &Published, expected: &Expected) {
    let complete = published.iter().filter(|(_, tables)| tables.len() == TABLES.len());
    for (checkpoint, _) in complete.rev().take(2) {
        for table in TABLES.map(full_name) {
            let found = content(warehouse, &table, *checkpoint);
            assert_eq!(found, expected[&(table, *checkpoint)], "checkpoint {checkpoint}");
        }
    }
}

/// Has all states work with faults from each of these calls on, then without.
fn fail(some: u64, seed: u64, sync: bool, faults_at: impl Fn(u64) -> Faults) {
    let expected = expected();
    let options = |faults: &Faults| StoreOptions { sync, faults: Some(faults.clone()), ..eager() };
    let count = Faults::recording(u64::MAX, Fault::Once(5));
    work(scratch().path(), &options(&count), &mut Published::new(), CHECKPOINTS).unwrap();
    for call in each(sample(count.calls(), some, seed)) {
        let (directory, mut published) = (scratch(), Published::new());
        let faults = faults_at(call);
        let result = work(directory.path(), &options(&faults), &mut published, CHECKPOINTS);
        println!("failed at call {call}, {:?}: {result:?}", faults.failed());
        faults.lose_power(call / 2).unwrap();
        check(directory.path(), &published, &expected);
        work(directory.path(), &eager(), &mut published, CHECKPOINTS).unwrap();
        check(directory.path(), &published, &expected);
    }
}

#[test]
fn states_of_all_kinds_survive_a_failure() {
    fail(8, 1, false, |call| Faults::at(call, Fault::Once(28)));
}

#[test]
fn states_of_all_kinds_survive_a_death_in_the_middle_of_a_write() {
    fail(8, 2, false, |call| Faults::at(call, Fault::Crash(Effect::Half)));
}

#[test]
fn states_of_all_kinds_survive_a_loss_of_power() {
    fail(8, 3, true, |call| Faults::recording(call, Fault::Crash(Effect::Whole)));
}

//! The state of a small shop: totals, baskets and reminders, from the first order to a restore at
//! another parallelism. `cargo run --release -p howdah-state --example shop`

#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use howdah_state::arrow_array::cast::AsArray as _;
use howdah_state::arrow_array::types::Int64Type;
use howdah_state::arrow_array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use howdah_state::{
    At, CheckpointRequest, CheckpointStore, CheckpointTarget, Column, ColumnType, KeyBatch,
    Restore, StateDescriptor, StateKind, StateReader, StateStore, StoreOptions,
};
use std::sync::Arc;

const HOUR_MS: i64 = 60 * 60 * 1000;

/// All states of the shop have the same key: the customer.
fn descriptor(state: &str, kind: StateKind, value: Vec<Column>) -> StateDescriptor {
    StateDescriptor {
        pipeline: "shop".into(),
        operator: "orders".into(),
        state: state.into(),
        kind,
        key: vec![Column::required("customer", ColumnType::Int64)],
        value,
        ..StateDescriptor::default()
    }
}

fn int64s(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let warehouse = directory.path().join("warehouse");
    let store = StateStore::open(&warehouse, "default", StoreOptions::default())?;

    // One row for each customer; one for each item in a basket, gone a day after it was last
    // written; points in time.
    let totals =
        descriptor("totals", StateKind::Value, vec![Column::required("cents", ColumnType::Int64)]);
    let item = vec![Column::required("item", ColumnType::Utf8)];
    let pieces = vec![Column::required("pieces", ColumnType::Int64)];
    let baskets = StateDescriptor {
        ttl_ms: Some(24 * 60 * 60 * 1000),
        ..descriptor("baskets", StateKind::Map { map_key: item }, pieces)
    };
    let reminders = descriptor("reminders", StateKind::Timers, Vec::new());
    let totals_table = store.open_table(&totals, Restore::Fresh)?;
    let mut total = totals_table.value_state(0)?;
    let mut basket = store.open_table(&baskets, Restore::Fresh)?.map_state(0)?;
    let mut reminder = store.open_table(&reminders, Restore::Fresh)?.timers(0)?;

    // Every call takes a batch of keys; here all states have the same.
    let customers = KeyBatch::new(totals_table.key_encoder(), vec![int64s(&[7, 8])])?;
    total.put(&customers, &[int64s(&[1999, 250])])?;
    // Customer 7 (key 0 of the batch) has two items in the basket, customer 8 (key 1) one.
    let items: ArrayRef = Arc::new(StringArray::from(vec!["pen", "ink", "pen"]));
    basket.put(&customers, &[0, 0, 1], &[items], &[int64s(&[2, 1, 5])])?;
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![HOUR_MS, 3 * HOUR_MS]));
    reminder.set(&customers, &times)?;

    let found = total.get(&customers)?;
    let cents = found.columns.first().ok_or("no column")?.as_primitive::<Int64Type>();
    println!("customer 7 has paid {} cents", cents.value(0));
    println!("{} items in the baskets", basket.entries(&customers, 100)?.key_of.len());
    let due = reminder.take_due(2 * HOUR_MS, 100)?;
    println!("{} reminder is due, the next at {:?}", due.times.len(), reminder.next_ms()?);

    // The barrier of checkpoint 1: each subtask freezes each of its states.
    total.freeze(1)?;
    basket.freeze(1)?;
    reminder.freeze(1)?;
    let tables = store.wait_published(1)?;

    // While the store is open, anybody reads what is published.
    let reader = StateReader::open(&warehouse, "default", &baskets.table_name())?;
    for batch in reader.get(&At::Checkpoint(1), &["7"])? {
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        println!("basket of customer 7: {} rows of {}", batch.num_rows(), names.join(", "));
    }

    // The checkpoint in a place of its own, with what the program wants to find there again.
    let target = CheckpointTarget::directory(&directory.path().join("checkpoints"), true)?;
    let mut checkpoints = CheckpointStore::open(target)?;
    let request = CheckpointRequest {
        checkpoint: 1,
        warehouse: &warehouse,
        tenant: "default",
        tables: &tables,
        payload: b"2 orders read",
    };
    let plan = checkpoints.checkpoint(&request, &|_| {})?;
    println!("{} files, {} bytes in the checkpoint", plan.new_files, plan.new_bytes);
    store.close()?;

    // Elsewhere, later: a fresh warehouse, and two subtasks instead of one.
    let copy = directory.path().join("copy");
    let restored = checkpoints.restore(1, &copy, &|_| {})?;
    println!("restored; {}", String::from_utf8_lossy(&restored.payload));
    let name = totals.table_name();
    let snapshot = restored.tables.iter().find(|(table, _)| *table == name).ok_or("no totals")?.1;
    let store = StateStore::open(&copy, "default", StoreOptions::default())?;
    let wider = StateDescriptor { parallelism: 2, ..totals };
    let table = store.open_table(&wider, Restore::Rescaled(snapshot))?;
    // Each subtask has the keys of its key groups, and refuses others.
    for (subtask, rows) in (0..).zip(table.key_groups().split(customers.encoded())) {
        let found = table.value_state(subtask)?.get(&customers.select(&rows)?)?;
        println!("subtask {subtask} has {} totals", found.present.count_set_bits());
    }
    store.close()?;
    Ok(())
}

//! Keys and values of any size go through all states, up to the limit of a call.

use crate::support::{Running, Start, keys_of, scripted};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use howdah_runtime::{Error, ErrorKind, Input, Limits, Output};
use serde_json::json;
use std::sync::Arc;

const MIB: usize = 1 << 20;
const ROWS: usize = 2;

/// An operator whose rows go this way, with so many bytes for a call.
fn open(way: &str, keys: &str, batch_bytes: usize) -> Running {
    let fields =
        json!([["row", "int64", false], ["text", "utf8", false], ["data", "binary", false]]);
    // A map has its values as keys too.
    let key = if way == "map-key" { json!(["row"]) } else { json!(["row", "text"]) };
    let config = json!({"columns": {"fields": fields, "key": key, "through": way, "keys": keys}});
    // A guest has some copies of what it is given.
    let limits = Limits { batch_bytes, memory_bytes: 256 * MIB, ..Limits::default() };
    Start { config: config.to_string(), limits, ..Start::mode("") }.open(&scripted()).unwrap()
}

/// Rows with texts and bytes of this length, which differ in the last byte alone.
fn process(running: &mut Running, len: usize) -> Result<(RecordBatch, Vec<Output>), Error> {
    let texts = (0..ROWS).map(|row| format!("{}{row}", "k".repeat(len - 1)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..).take(ROWS))),
        Arc::new(StringArray::from_iter_values(texts.clone())),
        Arc::new(BinaryArray::from_iter_values(texts)),
    ];
    let batch = RecordBatch::try_new(running.spec.inputs[0].schema(), columns).unwrap();
    let columns = if running.spec.inputs[0].key.len() == 1 { 1 } else { 2 };
    assert_eq!(running.spec.key_columns().len(), columns);
    let (keys, row_keys) = keys_of(&running.spec, &batch);
    let input = Input {
        port: 0,
        batch: &batch,
        row_kinds: None,
        timestamps: &[0; ROWS],
        keys,
        row_keys: &row_keys,
    };
    let outputs = running.instance.process(input)?;
    Ok((batch, outputs))
}

#[test]
fn keys_and_values_of_a_mebibyte_survive_every_way() {
    for way in ["nothing", "value", "list", "map", "map-key", "reducing"] {
        for keys in ["current", "selected", "explicit"] {
            let mut running = open(way, keys, 64 * MIB);
            for checkpoint in 1..3 {
                let (batch, outputs) =
                    process(&mut running, MIB).unwrap_or_else(|e| panic!("{way}, {keys}: {e}"));
                assert!(outputs[0].batch == batch, "{way}, {keys}");
                running.instance.freeze(checkpoint).unwrap();
            }
        }
    }
}

#[test]
fn what_is_past_the_limit_of_a_call_is_refused_whichever_way_it_goes() {
    for way in ["nothing", "value", "list", "map", "map-key", "reducing"] {
        for keys in ["current", "selected", "explicit"] {
            let mut running = open(way, keys, 4 * MIB);
            let error = process(&mut running, 3 * MIB).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit, "{way}, {keys}: {error}");
            assert!(error.to_string().contains("limits.batch-bytes"), "{way}, {keys}: {error}");
        }
    }
}

//! What an operator hands over does not stay in its memory.

use crate::support::{Start, in_all_languages, keys_of};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use howdah_operator_artifacts::ECHO;
use howdah_runtime::{Input, Limits};
use std::sync::Arc;

const ROWS: usize = 1_000;
const VALUE_BYTES: usize = 64;
/// An interpreter has two thirds of it before it does anything.
const LIMIT_BYTES: usize = 48 << 20;
/// More than the collector of an interpreter waits for.
const WARM_UP_BATCHES: usize = 50;

/// The echo operator stores and emits each value: more than its limit altogether.
#[test]
fn memory_of_an_operator_stays_level_however_much_it_hands_over() {
    let batches = LIMIT_BYTES / (ROWS * VALUE_BYTES * 2) + 2 * WARM_UP_BATCHES;
    let limits = Limits { memory_bytes: LIMIT_BYTES, ..Limits::default() };
    for (language, component) in in_all_languages("echo", ECHO) {
        let start = Start { limits: limits.clone(), config: "{}".to_owned(), ..Start::mode("") };
        let mut running = start.open(&component).unwrap();
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values((0..).take(ROWS)));
        let values: ArrayRef = Arc::new(BinaryArray::from_iter_values([[7; VALUE_BYTES]; ROWS]));
        let batch = RecordBatch::try_new(running.spec.inputs[0].schema(), vec![keys, values]);
        let batch = batch.unwrap();
        let timestamps = vec![0; ROWS];
        let mut warm_bytes = 0;
        for number in 0..batches {
            let (keys, row_keys) = keys_of(&running.spec, &batch);
            let input = Input {
                port: 0,
                batch: &batch,
                row_kinds: None,
                timestamps: &timestamps,
                keys,
                row_keys: &row_keys,
            };
            let done = running.instance.process(input);
            done.unwrap_or_else(|error| panic!("{language}, batch {number}: {error}"));
            if number == WARM_UP_BATCHES {
                warm_bytes = running.instance.metrics().memory_bytes;
            }
        }
        let end_bytes = running.instance.metrics().memory_bytes;
        let grown = end_bytes.saturating_sub(warm_bytes);
        assert!(grown <= 1 << 20, "{language}: {warm_bytes} bytes became {end_bytes}");
    }
}

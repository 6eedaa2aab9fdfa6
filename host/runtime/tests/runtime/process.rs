//! An operator that does what it should.

use crate::support::{Start, hostile, numbers};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use howdah_runtime::{ErrorKind, Input, Instance};
use howdah_state::{KeyBatch, KeyEncoder};
use std::sync::Arc;

#[test]
fn rows_come_out_with_the_schema_that_describe_told() {
    let mut running = Start::mode("none").open(&hostile()).unwrap();
    let outputs = running.process(&[7, 8, 7]).unwrap();
    assert_eq!(outputs.len(), 1);
    let output = &outputs[0];
    assert_eq!(output.port, 0);
    assert_eq!(output.batch.schema(), running.spec.outputs[0].schema());
    assert_eq!(output.timestamps, [0, 1, 2]);
    assert_eq!(output.row_kinds, None);
    assert_eq!(numbers(output, 0), [7, 8, 7]);
    assert_eq!(numbers(output, 1), [1, 1, 2]);
    let notes = output.batch.column(2).as_any().downcast_ref::<StringArray>().unwrap();
    assert_eq!(notes.iter().collect::<Vec<_>>(), [Some("first"), Some("first"), None]);
    let even = output.batch.column(3).as_any().downcast_ref::<BooleanArray>().unwrap();
    assert_eq!(even.iter().collect::<Vec<_>>(), [Some(false), Some(false), Some(true)]);
}

#[test]
fn state_lives_from_batch_to_batch_and_across_a_barrier() {
    let mut running = Start::mode("none").open(&hostile()).unwrap();
    running.process(&[7, 8]).unwrap();
    assert!(running.instance.on_barrier(1).unwrap().is_empty());
    running.instance.freeze(1).unwrap();
    let outputs = running.process(&[9, 8, 8]).unwrap();
    assert_eq!(numbers(&outputs[0], 1), [1, 2, 3]);
    assert!(running.instance.close().unwrap().is_empty());
}

#[test]
fn a_batch_without_rows_does_not_reach_the_operator() {
    let mut running = Start::mode("panic").open(&hostile()).unwrap();
    assert!(running.process(&[]).unwrap().is_empty());
}

#[test]
fn counters_say_what_it_did() {
    let mut running = Start::mode("none").open(&hostile()).unwrap();
    let opened = running.instance.metrics();
    assert_eq!((opened.calls_total, opened.rows_in_total, opened.rows_out_total), (2, 0, 0));
    running.process(&[1, 2, 1]).unwrap();
    let metrics = running.instance.metrics();
    assert_eq!((metrics.calls_total, metrics.rows_in_total, metrics.rows_out_total), (3, 3, 3));
    assert_eq!(metrics.state_calls_total - opened.state_calls_total, 2);
    assert!(metrics.guest_nanos_total > opened.guest_nanos_total);
    assert!(metrics.memory_bytes > 0);
}

#[test]
fn arguments_that_do_not_fit_the_spec_do_not_reach_the_operator() {
    let mut running = Start::mode("none").open(&hostile()).unwrap();
    let batch = RecordBatch::new_empty(running.spec.outputs[0].schema());
    let encoder = KeyEncoder::new(&running.spec.key_columns()).unwrap();
    let none = batch.columns()[..1].to_vec();
    let keys = KeyBatch::new(&encoder, none).unwrap();
    let mut process = |port, timestamps: &[i64]| {
        let keys = keys.clone();
        let input = Input { port, batch: &batch, row_kinds: None, timestamps, keys, row_keys: &[] };
        running.instance.process(input).unwrap_err()
    };
    let wrong_port = process(3, &[]);
    assert_eq!(wrong_port.kind(), ErrorKind::Host);
    assert_eq!(wrong_port.to_string(), "operator counter (subtask 0): it has no input 3");
    assert!(process(0, &[]).to_string().contains("input 0 has other columns than the batch"));
    running.process(&[1]).unwrap();
}

#[test]
fn keys_that_are_in_another_order_than_their_rows_do_not_reach_the_operator() {
    let mut running = Start::mode("none").open(&hostile()).unwrap();
    let encoder = KeyEncoder::new(&running.spec.key_columns()).unwrap();
    let mut process = |auctions: &[i64], row_keys: &[u32]| {
        let column = |numbers: &[i64]| Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef;
        let rows = column(&vec![0; row_keys.len()]);
        let schema = running.spec.inputs[0].schema();
        let batch = RecordBatch::try_new(schema, vec![Arc::clone(&rows), rows]).unwrap();
        let keys = KeyBatch::new(&encoder, vec![column(auctions)]).unwrap();
        let timestamps = vec![0; row_keys.len()];
        let input = Input {
            port: 0,
            batch: &batch,
            row_kinds: None,
            timestamps: &timestamps,
            keys,
            row_keys,
        };
        running.instance.process(input).map(|_| ()).map_err(|error| error.to_string())
    };
    let wrong: [&[u32]; 6] = [&[1, 0], &[0, 2], &[0, 2, 1], &[0, 1, 3], &[0, 0], &[0, 1, u32::MAX]];
    for row_keys in wrong {
        let auctions: &[i64] = if row_keys.len() == 2 { &[5, 6] } else { &[5, 6, 7] };
        let error = process(auctions, row_keys).unwrap_err();
        assert!(error.contains("keys in the order in which rows first have them"), "{error}");
    }
    process(&[5, 6], &[0, 1]).unwrap();
    process(&[5, 6], &[0, 0, 1, 0]).unwrap();
}

#[test]
fn an_instance_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Instance>();
    let mut running = Start::mode("none").open(&hostile()).unwrap();
    running.process(&[7]).unwrap();
    std::thread::scope(|scope| {
        let output = scope.spawn(|| running.process(&[7]).unwrap()).join().unwrap();
        assert_eq!(numbers(&output[0], 1), [2]);
    });
}

//! An operator written with the Rust SDK does in the sandbox, over a real state store, exactly what it
//! does in the SDK's host for tests.

use crate::support::{ENGINE, keys_of};
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, Int64Array, RecordBatch, StringArray};
use howdah_operator_artifacts::OBEDIENT;
use howdah_runtime::{Component, Context, Error, Input, Instance, Limits, OperatorSpec, Output};
use howdah_sdk::Timestamp;
use howdah_sdk::testing::{Event, TestHost};
use howdah_state::{
    Clock, KeyGroups, Restore, StateDescriptor, StateStore, StateTable, StoreOptions,
};
use obedient::{Answer, Obedient, Order, VERBS};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

static COMPONENT: LazyLock<Component> = LazyLock::new(|| ENGINE.load(Path::new(OBEDIENT)).unwrap());

/// A row with its event time.
#[derive(Debug, Clone)]
struct Timed {
    order: Order,
    time: i64,
}

#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<Timed>),
    Watermark(i64),
    Barrier,
    Crash,
}

/// One subtask in the sandbox that can crash and go on.
struct Sandbox {
    directory: TempDir,
    run: Option<Run>,
    checkpoint: u64,
    committed: Option<Checkpoint>,
    watermark: i64,
}

struct Run {
    instance: Instance,
    spec: OperatorSpec,
    store: StateStore,
}

/// The snapshot of each table, and the watermark.
struct Checkpoint {
    snapshots: Vec<(String, i64)>,
    watermark: i64,
}

impl Sandbox {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let mut sandbox =
            Self { directory, run: None, checkpoint: 0, committed: None, watermark: i64::MIN };
        sandbox.start();
        sandbox
    }

    /// Starts again from the last checkpoint, or from the beginning.
    fn start(&mut self) {
        drop(self.run.take());
        let spec = COMPONENT.describe("{}", &Limits::default()).unwrap();
        let options = StoreOptions { sync: false, ..StoreOptions::default() };
        let store = StateStore::open(self.directory.path(), "test", options).unwrap();
        let committed = self.committed.as_ref();
        let open = |descriptor: StateDescriptor| {
            let restore = committed.map_or(Restore::Fresh, |checkpoint| {
                let name = descriptor.table_name();
                let found = checkpoint.snapshots.iter().find(|(table, _)| *table == name);
                Restore::Snapshot(found.unwrap().1)
            });
            store.open_table(&descriptor, restore).unwrap()
        };
        let tables: Vec<StateTable> =
            spec.tables("pipeline", "sdk").into_iter().map(open).collect();
        self.watermark = committed.map_or(i64::MIN, |checkpoint| checkpoint.watermark);
        let context = Context {
            pipeline: "pipeline".to_owned(),
            operator: "sdk".to_owned(),
            subtask: 0,
            parallelism: 1,
            key_groups: KeyGroups::DEFAULT_COUNT,
            config: "{}".to_owned(),
            restored_from: committed.map(|_| self.checkpoint),
            watermark: self.watermark,
            clock: Clock::system(),
        };
        let instance = COMPONENT.instantiate(&spec, context, &Limits::default(), &tables).unwrap();
        self.run = Some(Run { instance, spec, store });
    }

    fn process(&mut self, rows: &[Timed]) -> Result<Vec<(String, i64)>, Error> {
        let number = |value: fn(&Order) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| value(&row.order))))
        };
        let verbs = rows.iter().map(|row| &row.order.verb);
        let columns = vec![
            number(|order| order.key),
            Arc::new(StringArray::from_iter_values(verbs)) as ArrayRef,
            number(|order| order.a),
            number(|order| order.b),
        ];
        let Run { instance, spec, .. } = self.run.as_mut().unwrap();
        let batch = RecordBatch::try_new(spec.inputs[0].schema(), columns).unwrap();
        let (keys, row_keys) = keys_of(spec, &batch);
        let timestamps: Vec<i64> = rows.iter().map(|row| row.time).collect();
        let mut outputs = instance.process(Input {
            port: 0,
            batch: &batch,
            row_kinds: None,
            timestamps: &timestamps,
            keys,
            row_keys: &row_keys,
        })?;
        outputs.extend(self.run_due()?);
        Ok(answers(&outputs))
    }

    fn run_due(&mut self) -> Result<Vec<Output>, Error> {
        let mut outputs = Vec::new();
        while let Some(due) = self.run.as_mut().unwrap().instance.run_due()? {
            outputs.extend(due);
        }
        Ok(outputs)
    }

    fn advance(&mut self, watermark: i64) -> Vec<(String, i64)> {
        self.watermark = self.watermark.max(watermark);
        self.run.as_mut().unwrap().instance.raise_watermark(watermark);
        answers(&self.run_due().unwrap())
    }

    fn barrier(&mut self) {
        self.checkpoint += 1;
        let Run { instance, store, .. } = self.run.as_mut().unwrap();
        assert!(instance.on_barrier(self.checkpoint).unwrap().is_empty());
        instance.freeze(self.checkpoint).unwrap();
        let snapshots = store.wait_published(self.checkpoint).unwrap();
        instance.on_checkpoint_complete(self.checkpoint).unwrap();
        self.committed = Some(Checkpoint { snapshots, watermark: self.watermark });
    }
}

/// Texts and event times.
fn answers(outputs: &[Output]) -> Vec<(String, i64)> {
    let rows = |output: &Output| {
        let texts = output.batch.column(0).as_string::<i32>().clone();
        let texts = (0..texts.len()).map(move |row| texts.value(row).to_owned());
        texts.zip(output.timestamps.clone()).collect::<Vec<_>>()
    };
    outputs.iter().flat_map(rows).collect()
}

fn native(events: Vec<Event<Answer>>) -> Vec<(String, i64)> {
    events.into_iter().map(|event| (event.row.text, event.timestamp.millis())).collect()
}

fn sorted(mut answers: Vec<(String, i64)>) -> Vec<(String, i64)> {
    answers.sort();
    answers
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let verbs: Vec<_> = VERBS.into_iter().filter(|verb| *verb != "fail").collect();
    let verb = prop_oneof![
        150 => proptest::sample::select(verbs),
        1 => Just("fail"),
    ];
    let row =
        (0..5_i64, verb, 0..9_i64, 0..5_i64, 0..90_i64).prop_map(|(key, verb, a, b, time)| Timed {
            order: Order { key, verb: verb.to_owned(), a, b },
            time,
        });
    let step = prop_oneof![
        6 => vec(row, 1..20).prop_map(Step::Batch),
        3 => (0..120_i64).prop_map(Step::Watermark),
        1 => Just(Step::Barrier),
        1 => Just(Step::Crash),
    ];
    vec(step, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 24, // each opens a store many times
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_operator_of_the_rust_sdk_does_what_it_does_in_its_test_host(steps in steps()) {
        let mut sandbox = Sandbox::new();
        let mut host = TestHost::<Obedient>::new().unwrap();
        for step in steps {
            match step {
                Step::Batch(rows) => {
                    let events = rows.iter().map(|row| {
                        Event::insert(row.order.clone()).at(Timestamp::from_millis(row.time))
                    });
                    match (sandbox.process(&rows), host.process_events(events)) {
                        (Ok(answers), Ok(events)) => prop_assert_eq!(answers, native(events)),
                        (Err(error), Err(expected)) => {
                            prop_assert!(error.to_string().contains(expected.message()), "{}", error);
                            sandbox.start();
                            host.restore().unwrap();
                        }
                        (answers, events) => prop_assert!(false, "{answers:?} and {events:?}"),
                    }
                }
                Step::Watermark(watermark) => {
                    let answers = sandbox.advance(watermark);
                    let events = host.advance_watermark(Timestamp::from_millis(watermark)).unwrap();
                    prop_assert_eq!(sorted(answers), sorted(native(events)));
                }
                Step::Barrier => {
                    sandbox.barrier();
                    host.barrier().unwrap();
                }
                Step::Crash => {
                    sandbox.start();
                    host.crash();
                    host.restore().unwrap();
                }
            }
        }
    }
}

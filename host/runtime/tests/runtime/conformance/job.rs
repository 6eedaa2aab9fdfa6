//! One subtask of the operator over a real state store, that can crash and go on.

use super::rows::{Command, Values, commands_batch, commands_of, texts, values_batch};
use crate::support::keys_of;
use arrow_array::RecordBatch;
use howdah_runtime::{Component, Context, Error, Input, Instance, Limits, OperatorSpec, Output};
use howdah_state::{
    At, Clock, KeyGroups, ManualClock, Restore, StateDescriptor, StateReader, StateStore,
    StateTable, StoreOptions,
};
use std::collections::BTreeMap;
use tempfile::TempDir;

pub(super) const CONFIG: &str = r#"{"greeting": "grüß dich"}"#;
pub(super) const START_MS: i64 = 1_000;
const COMMANDS: u32 = 0;
const VALUES: u32 = 1;

/// What happens to a subtask.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Commands(Vec<Command>),
    Values(Vec<(String, Values, i64)>),
    Watermark(i64),
    Clock(i64),
    Barrier,
    Crash,
    /// The end of the input.
    Close,
}

/// What came out, in its order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// What the call itself emitted.
    pub(super) results: Vec<Command>,
    pub(super) echoes: Vec<Echoes>,
    /// What came of that which was due afterwards.
    pub(super) due: Vec<Command>,
    /// The rows of each table at the barrier.
    pub(super) state: BTreeMap<String, Vec<String>>,
}

/// Rows of `echoes`.
#[derive(Debug, PartialEq)]
pub(super) struct Echoes {
    pub(super) batch: RecordBatch,
    pub(super) times: Vec<i64>,
}

/// A subtask, and all that it needs.
pub(super) struct Job {
    /// Each start takes the next.
    components: Vec<Component>,
    starts: usize,
    directory: TempDir,
    manual: ManualClock,
    clock: Clock,
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

struct Checkpoint {
    id: u64,
    snapshots: Vec<(String, i64)>,
    watermark: i64,
}

pub(super) fn limits() -> Limits {
    // Interpreters are slow on machines that do much else.
    Limits { call_timeout_ms: 120_000, ..Limits::default() }
}

impl Job {
    pub(super) fn new(components: &[&Component]) -> Self {
        let (clock, manual) = Clock::manual(START_MS);
        let mut job = Self {
            components: components.iter().map(|component| (*component).clone()).collect(),
            starts: 0,
            directory: TempDir::new().unwrap(),
            manual,
            clock,
            run: None,
            checkpoint: 0,
            committed: None,
            watermark: i64::MIN,
        };
        job.start();
        job
    }

    /// Starts again from the last checkpoint, or from the beginning.
    pub(super) fn start(&mut self) {
        drop(self.run.take());
        let component = &self.components[self.starts % self.components.len()];
        self.starts += 1;
        let spec = component.describe(CONFIG, &limits()).unwrap();
        let options =
            StoreOptions { sync: false, clock: self.clock.clone(), ..StoreOptions::default() };
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
            spec.tables("pipeline", "conformance").into_iter().map(open).collect();
        self.watermark = committed.map_or(i64::MIN, |checkpoint| checkpoint.watermark);
        let context = Context {
            pipeline: "pipeline".to_owned(),
            operator: "conformance".to_owned(),
            subtask: 0,
            parallelism: 1,
            key_groups: KeyGroups::DEFAULT_COUNT,
            config: CONFIG.to_owned(),
            restored_from: committed.map(|checkpoint| checkpoint.id),
            watermark: self.watermark,
            clock: self.clock.clone(),
        };
        let instance = component.instantiate(&spec, context, &limits(), &tables).unwrap();
        self.run = Some(Run { instance, spec, store });
    }

    pub(super) fn run(&mut self) -> &mut Instance {
        &mut self.run.as_mut().unwrap().instance
    }

    pub(super) fn spec(&self) -> &OperatorSpec {
        &self.run.as_ref().unwrap().spec
    }

    /// After an error the instance is of no more use.
    pub(super) fn step(&mut self, step: &Step) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        match step {
            Step::Commands(rows) => outcome.take(self.commands(rows)?),
            Step::Values(rows) => outcome.take(self.values(rows)?),
            Step::Watermark(watermark) => {
                self.watermark = self.watermark.max(*watermark);
                self.run().raise_watermark(*watermark);
            }
            Step::Clock(now) => self.manual.set(*now),
            Step::Barrier => self.barrier(&mut outcome)?,
            Step::Crash => self.start(),
            Step::Close => {
                self.step(&Step::Watermark(i64::MAX))?;
                outcome.take(self.run().close()?);
                self.barrier(&mut outcome)?;
                return Ok(outcome);
            }
        }
        while let Some(outputs) = self.run().run_due()? {
            let mut due = Outcome::default();
            due.take(outputs);
            assert!(due.echoes.is_empty());
            outcome.due.extend(due.results);
        }
        Ok(outcome)
    }

    fn commands(&mut self, rows: &[Command]) -> Result<Vec<Output>, Error> {
        let batch = commands_batch(self.spec().inputs[0].schema(), rows);
        let kinds: Vec<u8> = rows.iter().map(|row| row.kind).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.time).collect();
        self.process(COMMANDS, &batch, Some(&kinds), &times)
    }

    fn values(&mut self, rows: &[(String, Values, i64)]) -> Result<Vec<Output>, Error> {
        let schema = self.spec().inputs[1].schema();
        let batch = values_batch(schema, rows.iter().map(|(key, row, _)| (key, row)));
        let times: Vec<i64> = rows.iter().map(|row| row.2).collect();
        self.process(VALUES, &batch, None, &times)
    }

    fn process(
        &mut self,
        port: u32,
        batch: &RecordBatch,
        row_kinds: Option<&[u8]>,
        timestamps: &[i64],
    ) -> Result<Vec<Output>, Error> {
        let (keys, row_keys) = keys_of(self.spec(), batch);
        let input = Input { port, batch, row_kinds, timestamps, keys, row_keys: &row_keys };
        self.run().process(input)
    }

    fn barrier(&mut self, outcome: &mut Outcome) -> Result<(), Error> {
        self.checkpoint += 1;
        let Run { instance, store, .. } = self.run.as_mut().unwrap();
        outcome.take(instance.on_barrier(self.checkpoint)?);
        instance.freeze(self.checkpoint)?;
        let snapshots = store.wait_published(self.checkpoint).unwrap();
        instance.on_checkpoint_complete(self.checkpoint)?;
        for (table, snapshot) in &snapshots {
            outcome.state.insert(table.clone(), self.rows_of(table, *snapshot));
        }
        let (id, watermark) = (self.checkpoint, self.watermark);
        self.committed = Some(Checkpoint { id, snapshots, watermark });
        Ok(())
    }

    /// The rows of a table, in the order of what they are as text. What else is in a row than what
    /// operators see follows from that.
    fn rows_of(&self, table: &str, snapshot: i64) -> Vec<String> {
        let reader = StateReader::open(self.directory.path(), "test", table).unwrap();
        let batches = reader.scan(&At::Snapshot(snapshot), None).unwrap();
        let mut rows: Vec<String> =
            batches.iter().flat_map(|batch| texts(batch, &["kg"])).collect();
        rows.sort();
        rows
    }
}

impl Outcome {
    fn take(&mut self, outputs: Vec<Output>) {
        for output in outputs.into_iter().filter(|output| output.batch.num_rows() > 0) {
            let Output { port, batch, timestamps, row_kinds } = output;
            if port == 0 {
                self.results.extend(commands_of(&batch, &row_kinds.unwrap(), &timestamps));
            } else {
                assert_eq!(row_kinds, None, "`echoes` is no changelog");
                self.echoes.push(Echoes { batch, times: timestamps });
            }
        }
    }
}

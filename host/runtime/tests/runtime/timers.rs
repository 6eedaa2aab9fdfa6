//! Timers and watermarks, against a model: each timer fires once, those of a key in the order of
//! their times, and all before the watermark passes on.

use crate::support::{keys_of, numbers, scripted};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use howdah_runtime::{Context, ErrorKind, Input, Instance, Limits, OperatorSpec, Output};
use howdah_state::{
    Clock, ManualClock, Restore, StateDescriptor, StateStore, StateTable, StoreOptions,
};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempDir;

const FAMILIES: i64 = 3;
/// The family that waits for the clock; the others wait for the watermark.
const BY_CLOCK: i64 = 2;
/// Stands for the family in the row of a watermark.
const WATERMARK: i64 = -1;
const START_MS: i64 = 1_000;
/// Few, since timers are read from each.
const KEY_GROUPS: u32 = 8;

/// How the operator reacts to a timer.
#[derive(Debug, Clone, Copy, Default)]
struct Script {
    again_every: i64,
    for_ever: bool,
    deletes_next: bool,
}

impl Script {
    fn config(self) -> String {
        let Self { again_every, for_ever, deletes_next } = self;
        let timers = json!({
            "again_every": again_every, "for_ever": for_ever, "deletes_next": deletes_next
        });
        json!({ "timers": timers }).to_string()
    }
}

/// A row: sets or deletes a timer.
#[derive(Debug, Clone, Copy)]
struct Command {
    key: i64,
    family: i64,
    time: i64,
    set: bool,
}

/// A timer that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fired {
    key: i64,
    family: i64,
    time: i64,
    watermark: i64,
    clock: i64,
}

/// What came of the things that were due.
#[derive(Debug, Default, PartialEq, Eq)]
struct Due {
    /// The timers of each key, in the order in which they fired.
    fired: BTreeMap<i64, Vec<Fired>>,
    watermark: Option<i64>,
}

/// One subtask that can crash and go on.
struct Job {
    directory: TempDir,
    script: Script,
    clock: Clock,
    manual: ManualClock,
    timers_in_memory: usize,
    run: Option<Run>,
}

struct Run {
    instance: Instance,
    spec: OperatorSpec,
    store: StateStore,
}

/// A checkpoint: the snapshot of each table, and the watermark.
#[derive(Debug, Clone)]
struct Checkpoint {
    snapshots: Vec<(String, i64)>,
    watermark: i64,
}

impl Job {
    fn new(script: Script, timers_in_memory: usize) -> Self {
        let (clock, manual) = Clock::manual(START_MS);
        let directory = TempDir::new().unwrap();
        let mut job = Self { directory, script, clock, manual, timers_in_memory, run: None };
        job.start(None);
        job
    }

    /// Starts again from a checkpoint, or from the beginning; what ran before has crashed.
    fn start(&mut self, checkpoint: Option<&Checkpoint>) {
        drop(self.run.take());
        let component = scripted();
        let spec = component.describe(&self.script.config(), &Limits::default()).unwrap();
        let options = StoreOptions {
            sync: false,
            timers_in_memory: self.timers_in_memory,
            clock: self.clock.clone(),
            ..StoreOptions::default()
        };
        let store = StateStore::open(self.directory.path(), "test", options).unwrap();
        let open = |descriptor: StateDescriptor| {
            let restore = checkpoint.map_or(Restore::Fresh, |checkpoint| {
                let name = descriptor.table_name();
                let found = checkpoint.snapshots.iter().find(|(table, _)| *table == name);
                Restore::Snapshot(found.unwrap().1)
            });
            let descriptor = StateDescriptor { key_groups: KEY_GROUPS, ..descriptor };
            store.open_table(&descriptor, restore).unwrap()
        };
        let tables: Vec<StateTable> =
            spec.tables("pipeline", "timers").into_iter().map(open).collect();
        let context = Context {
            pipeline: "pipeline".to_owned(),
            operator: "timers".to_owned(),
            subtask: 0,
            parallelism: 1,
            key_groups: KEY_GROUPS,
            config: self.script.config(),
            restored_from: checkpoint.map(|_| 1),
            watermark: checkpoint.map_or(i64::MIN, |checkpoint| checkpoint.watermark),
            clock: self.clock.clone(),
        };
        let instance = component.instantiate(&spec, context, &Limits::default(), &tables).unwrap();
        self.run = Some(Run { instance, spec, store });
    }

    fn run(&mut self) -> &mut Run {
        self.run.as_mut().unwrap()
    }

    fn instance(&mut self) -> &mut Instance {
        &mut self.run().instance
    }

    fn process(&mut self, commands: &[Command]) {
        let column = |value: fn(&Command) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(commands.iter().map(value)))
        };
        let columns = vec![
            column(|command| command.key),
            column(|command| command.family),
            column(|command| command.time),
            column(|command| i64::from(command.set)),
        ];
        let Run { instance, spec, .. } = self.run();
        let batch = RecordBatch::try_new(spec.inputs[0].schema(), columns).unwrap();
        let (keys, row_keys) = keys_of(spec, &batch);
        let outputs = instance.process(Input {
            port: 0,
            batch: &batch,
            row_kinds: None,
            timestamps: &vec![0; commands.len()],
            keys,
            row_keys: &row_keys,
        });
        assert!(outputs.unwrap().is_empty());
    }

    fn barrier(&mut self, id: u64, watermark: i64) -> Checkpoint {
        let Run { instance, store, .. } = self.run();
        assert!(instance.on_barrier(id).unwrap().is_empty());
        instance.freeze(id).unwrap();
        let snapshots = store.wait_published(id).unwrap();
        instance.on_checkpoint_complete(id).unwrap();
        Checkpoint { snapshots, watermark }
    }

    /// Lets all happen that is due; no key comes twice in one call.
    fn run_due(&mut self) -> Due {
        let mut due = Due::default();
        while let Some(outputs) = self.instance().run_due().unwrap() {
            assert_eq!(due.watermark, None, "the watermark passes on last");
            for output in outputs {
                take(&output, &mut due);
            }
        }
        due
    }
}

fn take(output: &Output, due: &mut Due) {
    if numbers(output, 1) == [WATERMARK] {
        due.watermark = Some(numbers(output, 2)[0]);
        return;
    }
    let [keys, families, times, watermarks, clocks] =
        [0, 1, 2, 3, 4].map(|column| numbers(output, column).into_iter());
    let rows = keys.zip(families).zip(times).zip(watermarks).zip(clocks);
    let mut keys = BTreeSet::new();
    for ((((key, family), time), watermark), clock) in rows {
        assert!(keys.insert(key), "key {key} comes twice in one call");
        due.fired.entry(key).or_default().push(Fired { key, family, time, watermark, clock });
    }
}

/// What should happen.
#[derive(Debug, Clone)]
struct Model {
    script: Script,
    /// Key, then time, then family.
    timers: BTreeSet<(i64, i64, i64)>,
    watermark: i64,
    announced: i64,
    clock: i64,
}

impl Model {
    fn new(script: Script) -> Self {
        let timers = BTreeSet::new();
        Self { script, timers, watermark: i64::MIN, announced: i64::MIN, clock: START_MS }
    }

    fn process(&mut self, commands: &[Command]) {
        for Command { key, family, time, set } in commands {
            if *set {
                self.timers.insert((*key, *time, *family));
            } else {
                self.timers.remove(&(*key, *time, *family));
            }
        }
    }

    fn run_due(&mut self) -> Due {
        let mut due = Due::default();
        let (watermark, clock) = (self.watermark, self.clock);
        for by_clock in [false, true] {
            let until = if by_clock { clock } else { watermark };
            let is_due = |(_, time, family): &&(i64, i64, i64)| {
                (*family == BY_CLOCK) == by_clock && *time <= until
            };
            // In the order of keys; what one key does is nothing to others.
            while let Some((key, time, family)) = self.timers.iter().find(is_due).copied() {
                self.timers.remove(&(key, time, family));
                let fired = Fired { key, family, time, watermark, clock };
                due.fired.entry(key).or_default().push(fired);
                if self.script.again_every > 0 && time.rem_euclid(self.script.again_every) == 0 {
                    self.timers.insert((key, time - 1, family));
                }
                if self.script.deletes_next {
                    self.timers.remove(&(key, time + 1, family));
                }
            }
        }
        due.watermark = (self.announced < watermark).then_some(watermark);
        self.announced = watermark;
        due
    }
}

#[derive(Debug, Clone)]
enum Step {
    Rows(Vec<Command>),
    /// So much more than before; less is a regression.
    Watermark(i64),
    Clock(i64),
    Barrier,
    Restore,
    End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let command = (0_i64..6, 0..FAMILIES, -5_i64..60, prop::bool::weighted(0.8));
    // Times are near the watermark, the past included, or near the clock.
    let commands = prop::collection::vec(command, 1..12);
    let step = prop_oneof![
        4 => commands.prop_map(|commands| Step::Rows(commands.into_iter().map(
            |(key, family, time, set)| Command { key, family, time, set }).collect())),
        4 => (-10_i64..30).prop_map(Step::Watermark),
        2 => (0_i64..30).prop_map(Step::Clock),
        1 => Just(Step::Barrier),
        1 => Just(Step::Restore),
    ];
    (prop::collection::vec(step, 1..30), any::<bool>()).prop_map(|(mut steps, ends)| {
        if ends {
            steps.push(Step::End);
        }
        steps
    })
}

fn fires_as_the_model_says(
    script: Script,
    timers_in_memory: usize,
    steps: Vec<Step>,
) -> TestCaseResult {
    let mut job = Job::new(script, timers_in_memory);
    let mut model = Model::new(script);
    let mut completed: Option<(Checkpoint, Model)> = None;
    let mut last_checkpoint = 0;
    let mut highest = 0;
    let mut regressions = 0;
    for step in steps {
        match step {
            Step::Rows(commands) => {
                let near = |command: Command| {
                    let base = if command.family == BY_CLOCK { model.clock } else { highest };
                    Command { time: base + command.time, ..command }
                };
                let commands: Vec<Command> = commands.into_iter().map(near).collect();
                job.process(&commands);
                model.process(&commands);
            }
            Step::Watermark(more) => {
                let watermark = highest + more;
                regressions += u64::from(watermark < model.watermark);
                model.watermark = model.watermark.max(watermark);
                highest = highest.max(watermark);
                job.instance().raise_watermark(watermark);
            }
            Step::Clock(more) => {
                model.clock += more;
                job.manual.set(model.clock);
            }
            Step::Barrier => {
                last_checkpoint += 1;
                let checkpoint = job.barrier(last_checkpoint, model.watermark);
                completed = Some((checkpoint, model.clone()));
            }
            Step::Restore => {
                let clock = model.clock;
                job.start(completed.as_ref().map(|(checkpoint, _)| checkpoint));
                model = completed.as_ref().map_or(Model::new(script), |(_, model)| model.clone());
                // Time goes on.
                model.clock = clock;
                highest = model.watermark.max(0);
                regressions = 0;
            }
            Step::End => {
                model.watermark = i64::MAX;
                job.instance().raise_watermark(i64::MAX);
            }
        }
        prop_assert_eq!(job.run_due(), model.run_due());
        let metrics = job.instance().metrics();
        prop_assert_eq!(metrics.watermark_regressions_total, regressions);
        let next = model.timers.iter().filter(|(_, _, family)| *family == BY_CLOCK);
        let next = next.map(|(_, time, _)| time - model.clock).min();
        let next = next.map(|ms| u64::try_from(ms).unwrap());
        prop_assert_eq!(job.instance().next_timer_in_ms().unwrap(), next);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn timers_fire_as_the_model_says(
        steps in steps(),
        again_every in prop_oneof![Just(0_i64), 2_i64..5],
        deletes_next in any::<bool>(),
        timers_in_memory in 1_usize..8,
    ) {
        let script = Script { again_every, deletes_next, for_ever: false };
        fires_as_the_model_says(script, timers_in_memory, steps)?;
    }
}

fn set(key: i64, family: i64, time: i64) -> Command {
    Command { key, family, time, set: true }
}

/// The times at which timers fire, and the keys, in order.
fn fired(job: &mut Job) -> Vec<(i64, i64)> {
    let mut fired = Vec::new();
    while let Some(outputs) = job.instance().run_due().unwrap() {
        for output in outputs.iter().filter(|output| numbers(output, 1) != [WATERMARK]) {
            fired.extend(numbers(output, 2).into_iter().zip(numbers(output, 0)));
        }
    }
    fired
}

#[test]
fn timers_of_all_families_and_keys_fire_in_the_order_of_their_times() {
    let mut job = Job::new(Script::default(), 1000);
    let times = [7, 3, 9, 1, 8, 2, 6, 4, 5, 0];
    let commands: Vec<Command> =
        (0..).zip(times).map(|(index, time)| set(index % 3, index % 2, time)).collect();
    job.process(&commands);
    job.instance().raise_watermark(8);
    let fired: Vec<i64> = fired(&mut job).into_iter().map(|(time, _)| time).collect();
    assert_eq!(fired, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn timers_of_many_keys_fire_in_one_call() {
    let mut job = Job::new(Script::default(), 1000);
    let commands: Vec<Command> = (0..100).map(|key| set(key, 0, key % 10)).collect();
    job.process(&commands);
    job.instance().raise_watermark(10);
    let before = job.instance().metrics().calls_total;
    assert_eq!(fired(&mut job).len(), 100);
    let calls = job.instance().metrics().calls_total - before;
    assert_eq!(calls, 2, "on-timers and on-watermark");
}

#[test]
fn the_operator_hears_of_completed_checkpoints_and_cannot_write_then() {
    let mut job = Job::new(Script::default(), 1000);
    job.barrier(7, i64::MIN);
    job.instance().raise_watermark(5);
    let outputs = job.instance().run_due().unwrap().unwrap();
    assert_eq!((numbers(&outputs[0], 0), numbers(&outputs[0], 1)), (vec![7], vec![WATERMARK]));
}

#[test]
fn timers_that_set_themselves_again_for_ever_are_stopped() {
    let mut job = Job::new(Script { for_ever: true, ..Script::default() }, 1000);
    job.process(&[set(1, 0, 5)]);
    job.instance().raise_watermark(10);
    let error = loop {
        match job.instance().run_due() {
            Ok(due) => assert!(due.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(
        error
            .to_string()
            .starts_with("operator timers (subtask 0) set timers `first` that were due already"),
        "{error}"
    );
}

//! Calls to the file system that fail: what was acknowledged stays, what was not fails cleanly.

use crate::damage::copy_directory;
use crate::effort::{each, is_full, scratch};
use crate::fixture::{Fixture, Model, TABLE, eager, files_in, rows, scan};
use howdah_state::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// "Input/output error".
const EIO: i32 = 5;
/// "Too many open files".
const EMFILE: i32 = 24;
/// "No space left on device".
const ENOSPC: i32 = 28;

/// The last checkpoint before the job is spread over more subtasks.
const RESCALED_AFTER: u64 = 8;

pub(crate) fn parallelism(checkpoint: u64) -> u32 {
    if checkpoint > RESCALED_AFTER { 3 } else { 2 }
}

/// Longer than any call takes, however busy the machine.
const HANG: Duration = Duration::from_secs(60);

/// Checkpoints that were published and not given up since, with their snapshots and rows.
pub(crate) type Acknowledged = BTreeMap<u64, (i64, Model)>;

/// What a job does to its state: updates, deletes, merges, expiry, a roll-back, a rescale.
/// `acknowledged` is kept up to date all along, so that it is right whenever an error ends the
/// job.
pub(crate) fn work(
    warehouse: &Path,
    options: &StoreOptions,
    acknowledged: &mut Acknowledged,
) -> Result<()> {
    (0..PHASES).try_for_each(|phase| work_in(phase, warehouse, options, acknowledged))
}

/// How often the job is started.
const PHASES: usize = 3;

/// What the job does in one of its lives.
fn work_in(
    phase: usize,
    warehouse: &Path,
    options: &StoreOptions,
    acknowledged: &mut Acknowledged,
) -> Result<()> {
    if phase == 0 {
        let mut model = Model::new();
        return work_on(warehouse, options, Restore::Fresh, 1..=5, &mut model, acknowledged);
    }
    if phase == 1 {
        // Goes back by one.
        acknowledged.pop_last();
    }
    let Some((&checkpoint, (snapshot, model))) = acknowledged.last_key_value() else {
        return Ok(());
    };
    let (snapshot, mut model) = (*snapshot, model.clone());
    let (restore, checkpoints) = match phase {
        1 => (Restore::Snapshot(snapshot), 4),
        _ => {
            assert_eq!(checkpoint, RESCALED_AFTER);
            (Restore::Rescaled(snapshot), 3)
        }
    };
    let checkpoints = checkpoint + 1..=checkpoint + checkpoints;
    work_on(warehouse, options, restore, checkpoints, &mut model, acknowledged)
}

fn work_on(
    warehouse: &Path,
    options: &StoreOptions,
    restore: Restore,
    checkpoints: RangeInclusive<u64>,
    model: &mut Model,
    acknowledged: &mut Acknowledged,
) -> Result<()> {
    let parallelism = parallelism(*checkpoints.end());
    let mut fixture = Fixture::open(warehouse, parallelism, options.clone(), restore)?;
    for checkpoint in checkpoints {
        let done = change(&mut fixture, model, checkpoint)
            .and_then(|()| acknowledge(&mut fixture, model, checkpoint, acknowledged));
        match done {
            // What stopped the background part says more.
            Err(error) if error.kind() == ErrorKind::Closed => {
                return fixture.store.close().and(Err(error));
            }
            other => other?,
        }
    }
    await_merges(&fixture, options);
    fixture.store.close()
}

pub(crate) fn change(fixture: &mut Fixture, model: &mut Model, checkpoint: u64) -> Result<()> {
    let step = checkpoint as i64;
    let changed: Model =
        (0..12).map(|i| ((i * 7 + step * 5) % 40, (step * 100 + i, Some("x".repeat(9))))).collect();
    fixture.put(&changed)?;
    model.extend(changed);
    let deleted = [step * 5 % 40, step * 3 % 40];
    fixture.delete(&deleted)?;
    deleted.iter().for_each(|id| drop(model.remove(id)));
    let ids: Vec<i64> = (0..40).collect();
    assert_eq!(&fixture.get(&ids)?, model);
    Ok(())
}

pub(crate) fn acknowledge(
    fixture: &mut Fixture,
    model: &Model,
    checkpoint: u64,
    acknowledged: &mut Acknowledged,
) -> Result<()> {
    for subtask in &mut fixture.subtasks {
        subtask.freeze(checkpoint)?;
    }
    match fixture.store.events().recv_timeout(HANG).expect("the store hangs") {
        StateEvent::Published { snapshot, .. } => {
            acknowledged.insert(checkpoint, (snapshot, model.clone()));
        }
        StateEvent::Failed { error, .. } => return Err(error),
    }
    while acknowledged.len() > 2 {
        acknowledged.pop_first();
    }
    let retained: Vec<(u64, i64)> =
        acknowledged.iter().map(|(checkpoint, (snapshot, _))| (*checkpoint, *snapshot)).collect();
    fixture.table.retain(&retained)
}

/// Lets the merges that are due end, unless a fault may have ended them.
fn await_merges(fixture: &Fixture, options: &StoreOptions) {
    let failed = || options.faults.as_ref().is_some_and(|faults| faults.failed().is_some());
    while fixture.table.metrics().merges_total == 0 && !failed() {
        std::thread::yield_now();
    }
}

/// Opens the table without faults: every acknowledged checkpoint is there, work can go on, and no
/// file is left that nothing names.
pub(crate) fn check(warehouse: &Path, acknowledged: &Acknowledged) {
    let ids: Vec<i64> = (0..40).collect();
    let restore = acknowledged
        .last_key_value()
        .map_or(Restore::Fresh, |(_, (snapshot, _))| Restore::Snapshot(*snapshot));
    let mut model =
        acknowledged.last_key_value().map_or_else(Model::new, |(_, (_, model))| model.clone());
    let parallelism = acknowledged.last_key_value().map_or(2, |(last, _)| parallelism(*last));
    let open = |options, restore| Fixture::open(warehouse, parallelism, options, restore).unwrap();
    // Merges and expiry would change the files while they are looked at.
    let at_rest =
        || StoreOptions { merge_trigger_runs: 50, snapshot_retained_ms: 600_000, ..eager() };
    let mut fixture = open(at_rest(), restore);
    assert_eq!(fixture.get(&ids).unwrap(), model);
    // Closed, since runs without a live row are dropped even at rest, by a commit.
    fixture.store.close().unwrap();
    assert_no_orphans(warehouse);
    for (checkpoint, (_, model)) in acknowledged {
        assert_eq!(&scan(warehouse, At::Checkpoint(*checkpoint)).unwrap(), model);
    }
    let mut fixture = open(eager(), restore);
    let next = acknowledged.last_key_value().map_or(1, |(checkpoint, _)| checkpoint + 1);
    change(&mut fixture, &mut model, next).unwrap();
    let snapshot = fixture.checkpoint(next);
    fixture.store.close().unwrap();
    let mut fixture = open(at_rest(), Restore::Snapshot(snapshot));
    assert_eq!(fixture.get(&ids).unwrap(), model);
    fixture.store.close().unwrap();
    assert_no_orphans(warehouse);
}

/// Every file of the table is one that a snapshot or a tag names, and every such file is there.
pub(crate) fn assert_no_orphans(warehouse: &Path) {
    let reader = StateReader::open(warehouse, "default", TABLE).unwrap();
    let mut named = BTreeSet::new();
    let number = |path: &PathBuf, prefix: &str| -> Option<i64> {
        path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()
    };
    for path in files_in(warehouse, "snapshot") {
        if let Some(id) = number(&path, "snapshot-") {
            named.extend(reader.files(&At::Snapshot(id)).unwrap());
        } else {
            assert!(path.ends_with("LATEST"), "{} is left", path.display());
        }
    }
    for path in files_in(warehouse, "tag") {
        let checkpoint = number(&path, "tag-checkpoint-").expect("only tags are left");
        named.extend(reader.files(&At::Checkpoint(checkpoint as u64)).unwrap());
    }
    let mut found = BTreeSet::new();
    for directory in files_in(warehouse, "") {
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        if !["snapshot", "tag", "schema"].contains(&name.as_str()) {
            found.extend(files_in(warehouse, &name));
        }
    }
    assert_eq!(found, named);
}

/// The job, taken apart, so that a failure in one of its lives costs that one only.
pub(crate) struct Job {
    options: StoreOptions,
    phases: Vec<Phase>,
}

struct Phase {
    /// The table as it is before.
    before: TempDir,
    acknowledged: Acknowledged,
    /// The number of calls that the phase makes when nothing fails.
    calls: u64,
}

/// A life of the job in which a call is to fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    phase: usize,
    pub(crate) call: u64,
}

impl Job {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        let warehouse = scratch();
        let mut acknowledged = Acknowledged::new();
        let mut phases = Vec::new();
        for phase in 0..PHASES {
            let before = scratch();
            copy_directory(warehouse.path(), before.path());
            let had = acknowledged.clone();
            // Nothing is synced in earnest while it is recorded.
            let faults = Faults::recording(u64::MAX, Fault::Once(EIO));
            let counting = StoreOptions { faults: Some(faults.clone()), ..options.clone() };
            work_in(phase, warehouse.path(), &counting, &mut acknowledged).unwrap();
            phases.push(Phase { before, acknowledged: had, calls: faults.calls() });
        }
        check(warehouse.path(), &acknowledged);
        Self { options: options.clone(), phases }
    }

    /// Some of the places where a call can fail, or all of them in a full run.
    pub(crate) fn places(&self, some: u64, seed: u64) -> Vec<Place> {
        let in_phase = |(phase, Phase { calls, .. }): (usize, &Phase)| {
            (0..*calls).map(move |call| Place { phase, call }).collect::<Vec<_>>()
        };
        let all: Vec<Place> = self.phases.iter().enumerate().flat_map(in_phase).collect();
        sample(all.len() as u64, some, seed).into_iter().map(|at| all[at as usize]).collect()
    }

    /// Runs one life of the job with faults; `after` is what happens before the table is checked.
    pub(crate) fn run(&self, place: Place, faults: &Faults, after: impl FnOnce()) -> Result<()> {
        let phase = &self.phases[place.phase];
        let warehouse = scratch();
        copy_directory(phase.before.path(), warehouse.path());
        let mut acknowledged = phase.acknowledged.clone();
        let options = StoreOptions { faults: Some(faults.clone()), ..self.options.clone() };
        let result = work_in(place.phase, warehouse.path(), &options, &mut acknowledged);
        println!("failed at {place:?}, {:?}: {result:?}", faults.failed());
        after();
        check(warehouse.path(), &acknowledged);
        result
    }
}

/// Some of the numbers up to `calls`, or all of them in a full run.
pub(crate) fn sample(calls: u64, some: u64, seed: u64) -> Vec<u64> {
    if is_full() {
        return (0..calls).collect();
    }
    // A step without a common divisor visits different places for each seed.
    (0..some).map(|i| (i * calls / some + seed * 13) % calls).collect()
}

/// Runs the job with a failure at each of these calls, then checks what is left.
fn fail(some: u64, seed: u64, fault: Fault) {
    fail_each(&eager(), some, seed, |call| Faults::at(call, fault));
}

fn fail_each(options: &StoreOptions, some: u64, seed: u64, faults_at: impl Fn(u64) -> Faults) {
    let job = Job::new(options);
    for place in each(job.places(some, seed)) {
        if let Err(error) = job.run(place, &faults_at(place.call), || ()) {
            assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
        }
    }
}

#[test]
fn job_survives_a_full_disk() {
    fail(10, 1, Fault::Always(ENOSPC));
}

#[test]
fn job_survives_a_disk_that_is_full_for_a_moment() {
    fail(10, 2, Fault::Once(ENOSPC));
}

#[test]
fn job_survives_an_input_output_error() {
    fail(10, 3, Fault::Once(EIO));
}

#[test]
fn job_survives_an_error_where_files_are_synced() {
    let synced = StoreOptions { sync: true, ..eager() };
    fail_each(&synced, 15, 6, |call| Faults::recording(call, Fault::Once(EIO)));
}

#[test]
fn job_survives_a_lack_of_file_handles() {
    fail(10, 4, Fault::Once(EMFILE));
}

/// One checkpoint of a table that has no merges and no expiry, with these faults from its
/// barrier on.
fn take_checkpoint(warehouse: &Path, faults: &Faults) -> Model {
    let options = StoreOptions {
        merge_trigger_runs: 50,
        snapshot_retained_ms: 600_000,
        faults: Some(faults.clone()),
        ..eager()
    };
    let mut model = Model::new();
    let mut fixture = Fixture::open(warehouse, 2, options, Restore::Fresh).unwrap();
    change(&mut fixture, &mut model, 1).unwrap();
    fixture.checkpoint(1);
    change(&mut fixture, &mut model, 2).unwrap();
    fixture.checkpoint(2);
    fixture.store.close().unwrap();
    model
}

#[test]
fn checkpoint_that_meets_a_transient_failure_is_published_and_leaves_nothing_else_behind() {
    let calls = |directory: &Path| {
        let faults = Faults::none();
        take_checkpoint(directory, &faults);
        faults.calls()
    };
    // From where the table is there; what fails before is refused to the caller.
    let created = {
        let directory = scratch();
        let faults = Faults::none();
        let options = StoreOptions { faults: Some(faults.clone()), ..eager() };
        drop(Fixture::open(directory.path(), 2, options, Restore::Fresh).unwrap());
        faults.calls()
    };
    let all = calls(scratch().path());
    assert!(all > created + 50, "{created} of {all} calls create the table");
    for call in each(sample(all - created, 12, 5)) {
        let directory = scratch();
        let faults = Faults::at(created + call, Fault::Once(EMFILE));
        let model = take_checkpoint(directory.path(), &faults);
        println!("failed at call {call}, {:?}", faults.failed());
        assert_no_orphans(directory.path());
        assert_eq!(scan(directory.path(), At::Checkpoint(2)).unwrap(), model);
    }
}

/// Whether a merge is waiting, at work or done but not published.
#[test]
fn store_that_is_closed_during_merges_leaves_nothing_behind() {
    for checkpoints in 4..20 {
        let directory = scratch();
        let options = StoreOptions { snapshot_retained_ms: 600_000, ..eager() };
        let mut fixture = Fixture::open(directory.path(), 2, options, Restore::Fresh).unwrap();
        let mut model = Model::new();
        for checkpoint in 1..=checkpoints {
            change(&mut fixture, &mut model, checkpoint).unwrap();
            fixture.checkpoint(checkpoint);
        }
        fixture.store.close().unwrap();
        assert_no_orphans(directory.path());
    }
}

#[test]
fn every_call_to_the_file_system_is_counted() {
    let directory = scratch();
    let faults = Faults::none();
    let options = StoreOptions { faults: Some(faults.clone()), ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let before = faults.calls();
    fixture.checkpoint(1);
    assert!(faults.calls() > before);
    assert_eq!(faults.failed(), None);
}

#[test]
fn failed_call_is_named_in_the_error() {
    let mut refused = 0;
    for call in 0..20 {
        let directory = scratch();
        let faults = Faults::at(call, Fault::Once(ENOSPC));
        let options = StoreOptions { faults: Some(faults.clone()), ..eager() };
        let Err(error) = Fixture::open(directory.path(), 1, options, Restore::Fresh) else {
            continue;
        };
        let failed = faults.failed().unwrap();
        assert_eq!(error.kind(), ErrorKind::Storage, "{failed:?}: {error}");
        assert!(error.to_string().contains(failed.path.to_str().unwrap()), "{failed:?}: {error}");
        assert!(error.to_string().contains("No space left on device"), "{failed:?}: {error}");
        refused += 1;
    }
    assert!(refused > 10, "{refused} of 20 faults were noticed");
}

#[test]
fn table_stops_when_writes_wait_for_a_merge_that_cannot_be_written() {
    let directory = scratch();
    let never = StoreOptions { merge_trigger_runs: 50, ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, never.clone(), Restore::Fresh).unwrap();
    let mut snapshot = 0;
    for checkpoint in 1..=6 {
        let id = checkpoint as i64;
        fixture.put(&rows(&[(id, id, "x")])).unwrap();
        snapshot = fixture.checkpoint(checkpoint);
    }
    drop(fixture);
    let restore = Restore::Snapshot(snapshot);
    let faults = Faults::none();
    let count = StoreOptions { faults: Some(faults.clone()), ..never };
    let fixture = Fixture::open(directory.path(), 1, count, restore).unwrap();
    let calls = faults.calls();
    drop(fixture);
    // Everything after the opening is the merge's.
    let full = Some(Faults::at(calls + 1, Fault::Always(ENOSPC)));
    let eager = StoreOptions { merge_trigger_runs: 2, merge_stop_runs: 3, faults: full, ..eager() };
    let fixture = Fixture::open(directory.path(), 1, eager, restore).unwrap();
    match fixture.store.events().recv_timeout(HANG).unwrap() {
        StateEvent::Failed { error, .. } => assert_eq!(error.kind(), ErrorKind::Storage),
        StateEvent::Published { .. } => panic!("nothing was to be published"),
    }
}

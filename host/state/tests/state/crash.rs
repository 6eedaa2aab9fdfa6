//! The death of the process, and of the machine, at any call to the file system.

use crate::checkpoints::{directory, quiet, request};
use crate::effort::{each, scratch};
use crate::faults::{Acknowledged, Job, acknowledge, change, sample};
use crate::fixture::{Fixture, Model, TABLE, eager, scan};
use howdah_state::*;
use std::collections::BTreeMap;
use std::path::Path;

/// Runs the job until it dies at each of these calls, then checks what is left.
fn die(some: u64, seed: u64, effect: Effect) {
    let job = Job::new(&eager());
    for place in each(job.places(some, seed)) {
        let _ = job.run(place, &Faults::at(place.call, Fault::Crash(effect)), || ());
    }
}

#[test]
fn death_before_a_call_loses_nothing() {
    die(10, 1, Effect::Nothing);
}

#[test]
fn death_in_the_middle_of_a_write_loses_nothing() {
    die(10, 2, Effect::Half);
}

#[test]
fn death_after_a_call_loses_nothing() {
    die(10, 3, Effect::Whole);
}

/// The same, and what was not synced is lost, all of it or by chance.
fn lose_power(some: u64, seed: u64, chance: impl Fn(u64) -> u64) {
    let job = Job::new(&StoreOptions { sync: true, ..eager() });
    for place in each(job.places(some, seed)) {
        let faults = Faults::recording(place.call, Fault::Crash(Effect::Whole));
        let _ = job.run(place, &faults, || faults.lose_power(chance(place.call)).unwrap());
    }
}

#[test]
fn loss_of_power_that_undoes_all_that_was_not_synced_loses_nothing() {
    lose_power(12, 4, |_| 0);
}

#[test]
fn loss_of_power_that_undoes_some_of_what_was_not_synced_loses_nothing() {
    lose_power(12, 5, |call| call.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
}

/// Checkpoints whose confirmation was reported and whose removal was not asked for, with the rows
/// of the table.
type Confirmed = BTreeMap<u64, Model>;

/// Takes checkpoints to a directory, removes older ones, restores the newest.
fn keep(root: &Path, faults: &Faults, confirmed: &mut Confirmed) -> Result<()> {
    let warehouse = root.join("warehouse");
    let mut fixture = Fixture::open(&warehouse, 2, eager(), Restore::Fresh)?;
    let target = CheckpointTarget::directory(&root.join("target"), true)?.with_faults(faults)?;
    let mut store = CheckpointStore::open(target)?;
    let (mut model, mut acknowledged) = (Model::new(), Acknowledged::new());
    for checkpoint in 1..=4 {
        change(&mut fixture, &mut model, checkpoint)?;
        acknowledge(&mut fixture, &model, checkpoint, &mut acknowledged)?;
        let tables = [(TABLE.to_owned(), acknowledged[&checkpoint].0)];
        store.checkpoint(&request(&warehouse, checkpoint, &tables), &quiet)?;
        confirmed.insert(checkpoint, model.clone());
        if checkpoint > 2 {
            *confirmed = confirmed.split_off(&(checkpoint - 1));
            store.subsume(checkpoint - 1)?;
        }
    }
    let restored = root.join("restored");
    store.restore(4, &restored, &quiet)?;
    assert_eq!(scan(&restored, At::Checkpoint(4))?, model);
    Ok(())
}

/// Opens the target without faults: what was confirmed can be restored, and no file is left that
/// no checkpoint has.
fn check_target(root: &Path, confirmed: &Confirmed) {
    let mut store = CheckpointStore::open(directory(&root.join("target"))).unwrap();
    let listed: Vec<u64> = store.list().iter().map(|info| info.checkpoint).collect();
    for (checkpoint, model) in confirmed {
        assert!(listed.contains(checkpoint), "{checkpoint} is not among {listed:?}");
        let restored = tempfile::tempdir_in(root).unwrap();
        store.restore(*checkpoint, restored.path(), &quiet).unwrap();
        assert_eq!(&scan(restored.path(), At::Checkpoint(*checkpoint)).unwrap(), model);
    }
    for checkpoint in &listed {
        store.verify(*checkpoint, &quiet).unwrap();
    }
    // A restore that was interrupted is done anew in the same place.
    let restored = root.join("restored");
    if let Some(model) = confirmed.get(&4) {
        if !restored.join("default.db").exists() {
            store.restore(4, &restored, &quiet).unwrap();
        }
        assert_eq!(&scan(&restored, At::Checkpoint(4)).unwrap(), model);
    }
    for checkpoint in listed {
        store.remove(checkpoint).unwrap();
    }
    let left: Vec<_> = files_below(&root.join("target"));
    assert!(left.is_empty(), "{left:?} are left");
}

fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in directory.read_dir().into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false if path.ends_with("LOCK") => {}
            false => files.push(path),
        }
    }
    files
}

/// Has checkpoints taken to a target with a failure at each of these calls.
fn fail_target(some: u64, seed: u64, faults_at: impl Fn(u64) -> Faults) {
    let calls = {
        let root = scratch();
        let (faults, mut confirmed) = (Faults::none(), Confirmed::new());
        keep(root.path(), &faults, &mut confirmed).unwrap();
        let calls = faults.calls();
        check_target(root.path(), &confirmed);
        calls
    };
    for call in each(sample(calls, some, seed)) {
        let root = scratch();
        let (faults, mut confirmed) = (faults_at(call), Confirmed::new());
        let result = keep(root.path(), &faults, &mut confirmed);
        println!("failed at call {call}, {:?}: {result:?}", faults.failed());
        faults.lose_power(call / 2).unwrap();
        check_target(root.path(), &confirmed);
    }
}

#[test]
fn target_survives_a_death_in_the_middle_of_a_write() {
    fail_target(8, 6, |call| Faults::at(call, Fault::Crash(Effect::Half)));
}

#[test]
fn target_survives_a_death_after_a_call() {
    fail_target(8, 7, |call| Faults::at(call, Fault::Crash(Effect::Whole)));
}

#[test]
fn target_survives_a_loss_of_power() {
    fail_target(12, 8, |call| Faults::recording(call, Fault::Crash(Effect::Whole)));
}

#[test]
fn target_survives_a_full_disk() {
    fail_target(8, 9, |call| Faults::at(call, Fault::Always(28)));
}

//! The death of the process, and of the machine, at any call to the file system.

use crate::faults::{Acknowledged, calls, check, sample, work};
use crate::fixture::eager;
use howdah_state::*;

/// Runs the job until it dies at each of these calls, then checks what is left.
fn die(some: u64, seed: u64, effect: Effect) {
    for call in sample(calls(&eager()), some, seed) {
        let directory = tempfile::tempdir().unwrap();
        let faults = Faults::at(call, Fault::Crash(effect));
        let options = StoreOptions { faults: Some(faults.clone()), ..eager() };
        let mut acknowledged = Acknowledged::new();
        let result = work(directory.path(), &options, &mut acknowledged);
        println!("died at call {call}, {:?}: {result:?}", faults.failed());
        check(directory.path(), &acknowledged);
    }
}

#[test]
fn death_before_a_call_loses_nothing() {
    die(15, 1, Effect::Nothing);
}

#[test]
fn death_in_the_middle_of_a_write_loses_nothing() {
    die(15, 2, Effect::Half);
}

#[test]
fn death_after_a_call_loses_nothing() {
    die(15, 3, Effect::Whole);
}

/// The same, and what was not synced is lost, all of it or by chance.
fn lose_power(some: u64, seed: u64, chance: impl Fn(u64) -> u64) {
    let synced = StoreOptions { sync: true, ..eager() };
    for call in sample(calls(&synced), some, seed) {
        let directory = tempfile::tempdir().unwrap();
        let faults = Faults::recording(call, Fault::Crash(Effect::Whole));
        let options = StoreOptions { faults: Some(faults.clone()), ..synced.clone() };
        let mut acknowledged = Acknowledged::new();
        let result = work(directory.path(), &options, &mut acknowledged);
        println!("power lost at call {call}, {:?}: {result:?}", faults.failed());
        faults.lose_power(chance(call)).unwrap();
        check(directory.path(), &acknowledged);
    }
}

#[test]
fn loss_of_power_that_undoes_all_that_was_not_synced_loses_nothing() {
    lose_power(20, 4, |_| 0);
}

#[test]
fn loss_of_power_that_undoes_some_of_what_was_not_synced_loses_nothing() {
    lose_power(20, 5, |call| call.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
}

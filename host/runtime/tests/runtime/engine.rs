//! What the instances of one process share.

use crate::support::{Start, hostile};
use howdah_operator_artifacts::{HOSTILE, LAST_BID};
use howdah_runtime::{Engine, EngineOptions, ErrorKind, Limits};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn engine(instances_limit: u32) -> Engine {
    Engine::new(EngineOptions { instances_limit, ..EngineOptions::default() }).unwrap()
}

#[test]
fn no_more_instances_than_the_limit() {
    let component = engine(2).load(Path::new(HOSTILE)).unwrap();
    let first = Start::mode("none").open(&component).unwrap();
    let _second = Start::mode("none").open(&component).unwrap();
    let error = component.describe("{}", &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(
        error.to_string().contains("already runs as many operator instances as it may"),
        "{error}"
    );
    drop(first);
    component.describe("{}", &Limits::default()).unwrap();
}

#[test]
fn an_instance_that_failed_makes_room_for_another() {
    let component = engine(2).load(Path::new(HOSTILE)).unwrap();
    let mut failed = Start::mode("panic").open(&component).unwrap();
    let _other = Start::mode("none").open(&component).unwrap();
    failed.process(&[1]).unwrap_err();
    component.describe("{}", &Limits::default()).unwrap();
}

#[test]
fn deadlines_outlive_the_engines_handle() {
    let limits = Limits { call_timeout_ms: 30, ..Limits::default() };
    let start = Start { limits, ..Start::mode("loop") };
    let mut running = {
        let engine = engine(2);
        start.open(&engine.load(Path::new(HOSTILE)).unwrap()).unwrap()
    };
    assert_eq!(running.process(&[1]).unwrap_err().kind(), ErrorKind::Limit);
}

#[test]
fn operators_on_many_threads_do_not_disturb_each_other() {
    let modes = ["none", "panic", "none", "recurse", "none", "short-data", "none", "error"];
    std::thread::scope(|scope| {
        for mode in modes {
            scope.spawn(move || {
                let mut running = Start::mode(mode).open(&hostile()).unwrap();
                for batch in 0..20 {
                    let outputs = running.process(&[1, 2, 1]);
                    assert_eq!(outputs.is_ok(), mode == "none", "{mode}, batch {batch}");
                }
            });
        }
    });
}

#[test]
fn more_loops_than_cores_are_all_stopped_and_a_neighbour_loses_no_row() {
    let loops = 4 * std::thread::available_parallelism().unwrap().get();
    let component = engine(u32::try_from(loops).unwrap() + 2).load(Path::new(HOSTILE)).unwrap();
    let limits = Limits { call_timeout_ms: 200, ..Limits::default() };
    std::thread::scope(|scope| {
        let looping = |_| {
            let start = Start { limits: limits.clone(), ..Start::mode("loop") };
            let mut running = start.open(&component).unwrap();
            scope.spawn(move || running.process(&[1]).unwrap_err())
        };
        let loops: Vec<_> = (0..loops).map(looping).collect();
        let mut neighbour = Start::mode("none").open(&component).unwrap();
        for batch in 1..=20 {
            let outputs = neighbour.process(&[1, 2, 3]).unwrap();
            assert_eq!(crate::support::numbers(&outputs[0], 1), [batch; 3]);
        }
        for stopped in loops {
            assert_eq!(stopped.join().unwrap().kind(), ErrorKind::Limit);
        }
    });
}

#[cfg(unix)]
#[test]
fn a_component_that_is_being_compiled_holds_up_no_other() {
    let directory = tempfile::TempDir::new().unwrap();
    let options = |compile_worker| EngineOptions {
        cache_directory: Some(directory.path().to_owned()),
        instances_limit: 4,
        compile_worker,
        ..EngineOptions::default()
    };
    Engine::new(options(None)).unwrap().load(Path::new(HOSTILE)).unwrap();
    // It says that it runs, and then takes longer than anybody waits.
    let begun = directory.path().join("begun");
    let script = format!("echo > {}; exec sleep 600", begun.display());
    let arguments = vec!["-c".into(), script.into()];
    let worker = howdah_runtime::CompileWorker { executable: "/bin/sh".into(), arguments };
    let engine = Engine::new(options(Some(worker))).unwrap();
    let limits = Limits { compile_timeout_ms: 1_000, ..Limits::default() };
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| engine.load_with_limits(Path::new(LAST_BID), &limits));
        while !begun.exists() {
            std::thread::yield_now();
        }
        let component = engine.load(Path::new(HOSTILE)).unwrap();
        let mut running = Start::mode("none").open(&component).unwrap();
        assert_eq!(running.process(&[1]).unwrap().len(), 1);
        assert_eq!(stuck.join().unwrap().unwrap_err().kind(), ErrorKind::Limit);
    });
}

/// The median time of a batch, in nanoseconds.
#[expect(clippy::disallowed_methods, reason = "this test is about time")]
fn median_nanos(running: &mut crate::support::Running, auctions: &[i64]) -> u128 {
    let mut nanos: Vec<u128> = (0..200)
        .map(|_| {
            let start = std::time::Instant::now();
            running.process(auctions).unwrap();
            start.elapsed().as_nanos()
        })
        .collect();
    nanos.sort_unstable();
    nanos[nanos.len() / 2]
}

/// A figure, so only in a full run, where nothing else should use the cores.
#[test]
fn a_batch_takes_at_most_three_times_as_long_beside_hostile_neighbours() {
    if std::env::var_os("HOWDAH_TEST_FULL").is_none() {
        return;
    }
    let cores = std::thread::available_parallelism().unwrap().get();
    let component = engine(64).load(Path::new(HOSTILE)).unwrap();
    let auctions: Vec<i64> = (0..1_000).collect();
    let mut neighbour = Start::mode("none").open(&component).unwrap();
    let stop = AtomicBool::new(false);
    // Others may use the machine at the same time: the best of some rounds counts.
    let best = (0..10).map(|_| {
        let alone = median_nanos(&mut neighbour, &auctions);
        stop.store(false, Ordering::SeqCst);
        let beside = std::thread::scope(|scope| {
            for _ in 1..cores {
                scope.spawn(|| {
                    let modes = ["loop", "allocate", "recurse", "panic", "short-data", "log-flood"];
                    for mode in modes.iter().cycle() {
                        let limits = Limits { call_timeout_ms: 50, ..Limits::default() };
                        let start = Start { limits, ..Start::mode(mode) };
                        // Where the cores are busy, its limit may end `open` already.
                        let opened = start.open(&component);
                        let _ = opened.map(|mut hostile| hostile.process(&[1]));
                        if stop.load(Ordering::SeqCst) {
                            return;
                        }
                    }
                });
            }
            let beside = median_nanos(&mut neighbour, &auctions);
            stop.store(true, Ordering::SeqCst);
            beside
        });
        println!("{alone} ns alone, {beside} ns beside hostile neighbours");
        beside * 100 / alone.max(1)
    });
    let best = best.min().unwrap();
    assert!(best <= 300, "{best} % of the time alone");
}

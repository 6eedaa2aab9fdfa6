//! What the instances of one process share.

use crate::support::{Start, hostile};
use howdah_operator_artifacts::HOSTILE;
use howdah_runtime::{Engine, EngineOptions, ErrorKind, Limits};
use std::path::Path;

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

//! A component that was built against an older version of the contract runs as it did.

use crate::support::{ENGINE, Start, numbers};
use howdah_operator_artifacts::BUILT_FOR_0_1_0;
use howdah_runtime::{Component, Handlers, Inspection, Limits};
use std::path::Path;

fn component() -> Component {
    ENGINE.load(Path::new(BUILT_FOR_0_1_0)).unwrap()
}

#[test]
fn it_is_of_the_first_version() {
    let inspection = Inspection::read(Path::new(BUILT_FOR_0_1_0)).unwrap();
    let interfaces = [inspection.imports, inspection.exports].concat();
    assert!(interfaces.contains(&"howdah:operator/state@0.1.0".to_owned()), "{interfaces:?}");
    assert!(interfaces.iter().all(|name| name.ends_with("@0.1.0")), "{interfaces:?}");
}

#[test]
fn it_has_no_handlers() {
    assert_eq!(component().handlers(), Handlers::default());
    assert!(component().describe("{}", &Limits::default()).unwrap().timers.is_empty());
}

#[test]
fn it_keeps_state_across_batches_watermarks_and_barriers() {
    let start = Start { config: "{}".to_owned(), ..Start::mode("") };
    let mut running = start.open(&component()).unwrap();
    // Each row has the value 1.
    assert_eq!(numbers(&running.process(&[7, 8, 7]).unwrap()[0], 1), [1, 1, 2]);
    running.instance.raise_watermark(100);
    assert!(running.instance.run_due().unwrap().is_none());
    assert!(running.instance.on_barrier(1).unwrap().is_empty());
    running.instance.freeze(1).unwrap();
    running.instance.on_checkpoint_complete(1).unwrap();
    assert_eq!(numbers(&running.process(&[8, 7]).unwrap()[0], 1), [2, 3]);
    assert!(running.instance.close().unwrap().is_empty());
}

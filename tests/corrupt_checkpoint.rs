//! A damaged checkpoint document is refused, and the one before is offered and works.

use crate::support::rows::{output, sorted};
use crate::support::{Job, input};

#[test]
fn a_damaged_document_is_refused_and_the_one_before_works() {
    let events = input::events(100_000);
    let undisturbed = Job::last_bid(&events);
    undisturbed.run_to_end();

    let job = Job::last_bid(&events).set("source", "rate-limit-rows-per-second", 10_000);
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 4);
    running.terminate().success();
    let checkpoints = job.checkpoints();
    let [.., before, newest] = &checkpoints[..] else { panic!("{checkpoints:?}") };

    let name = format!("checkpoint-{}.json", newest.id);
    let document = job.state_directory().join("checkpoints").join(&name);
    let mut bytes = std::fs::read(&document).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&document, bytes).unwrap();

    let offered = format!("--checkpoint {}", before.id);
    job.run(&[]).failed(1, &[&name, &offered]);
    let listed = job.command(&["checkpoint", "ls"], &[]).success().stdout;
    assert!(listed.contains("checksum"), "{listed}");

    let job = job.set("source", "rate-limit-rows-per-second", 0);
    let summary = job.run(&["--checkpoint", &before.id.to_string()]).summary();
    assert_eq!(summary["restored_from"], before.id);
    assert_eq!(sorted(output(&job)), sorted(output(&undisturbed)));
    assert_eq!(job.state_rows(None), undisturbed.state_rows(None));
}

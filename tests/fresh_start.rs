//! `--fresh` starts over, and never without being asked twice.

use crate::support::rows::output;
use crate::support::{Job, input};

const EVENTS: u32 = 20_000;

#[test]
fn without_a_terminal_fresh_needs_yes() {
    let job = Job::last_bid(&input::events(EVENTS));
    job.run_to_end();
    job.run(&["--fresh"]).failed(2, &["--yes", "`job`"]);
    // Nothing was removed.
    assert!(!job.checkpoints().is_empty());
    assert!(!output(&job).is_empty());
}

#[test]
fn fresh_starts_over_with_another_input() {
    let job = Job::last_bid(&input::events(50_000));
    job.run_to_end();
    let job = job.set("source", "path", format!("'{}'", input::events(EVENTS).display()));
    let summary = job.run(&["--fresh", "--yes"]).summary();
    assert_eq!(summary["restored_from"], serde_json::Value::Null, "{summary}");

    let once = Job::last_bid(&input::events(EVENTS));
    once.run_to_end();
    assert_eq!(output(&job).len(), output(&once).len());
    assert_eq!(job.state_rows(None), once.state_rows(None));
}

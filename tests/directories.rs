//! A pipeline reads and writes in the directories that it was granted, and nowhere else.

use crate::support::{Finished, Job};
use std::path::Path;

/// A job whose events are in a directory of their own.
fn job(events: &Path) -> Job {
    let rows = "event_type,auction,bidder,price,date_time,seq\n2,1,1,5,1700000000000,0\n";
    std::fs::write(events.join("events.csv"), rows).unwrap();
    Job::last_bid(&events.join("events.csv"))
}

/// Runs it with nothing granted by the environment.
fn run(job: &Job, arguments: &[&str]) -> Finished {
    let mut command = job.run_command(arguments);
    Finished::of(command.env_remove("HOWDAH_ALLOW_DIRS").output().unwrap())
}

#[test]
fn what_is_outside_is_refused_until_it_is_granted() {
    let events = tempfile::tempdir().unwrap();
    let directory = events.path().to_str().unwrap();
    let job = job(events.path());
    let hint = format!("grant its directory with --allow-dir {directory}");
    run(&job, &[]).failed(2, &["pipeline.toml:", &hint]);
    assert!(!job.state_directory().exists(), "something was made");
    run(&job, &["--allow-dir", directory]).summary();
    let mut command = job.run_command(&[]);
    command.env("HOWDAH_ALLOW_DIRS", format!("/nowhere:{directory}"));
    Finished::of(command.output().unwrap()).summary();
}

#[test]
fn a_host_may_grant_nothing_but_what_it_names() {
    let events = tempfile::tempdir().unwrap();
    let directory = events.path().to_str().unwrap();
    let job = job(events.path());
    let only = ["--only-allowed-dirs", "--allow-dir", directory];
    let said = [job.state_directory(), job.output_directory()]
        .map(|path| format!("{} is in no directory", path.display()));
    run(&job, &only).failed(2, &[&said[0], &said[1]]);
    let own = job.directory().to_str().unwrap();
    run(&job, &[&only[..], &["--allow-dir", own]].concat()).summary();
}

#[test]
fn no_link_leads_out_of_what_is_granted() {
    let events = tempfile::tempdir().unwrap();
    let job = job(events.path()).set("source", "path", "'link/events.csv'");
    std::os::unix::fs::symlink(events.path(), job.directory().join("link")).unwrap();
    run(&job, &[]).failed(2, &["link/events.csv leads to ", "is in no directory"]);
    let name = events.path().file_name().unwrap().to_str().unwrap();
    let job = job.set("source", "path", format!("'../{name}/events.csv'"));
    run(&job, &[]).failed(2, &["is in no directory"]);
}

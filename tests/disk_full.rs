//! A disk that fills up fails the run with a clear error; once there is space, it goes on.

use crate::support::disk::Disk;
use crate::support::job::howdah;
use crate::support::rows::{output, sorted};
use crate::support::{Finished, Job, input, job};
use std::path::Path;
use std::process::Command;

const EVENTS: u32 = 50_000;

fn undisturbed() -> Job {
    let job = Job::last_bid(&input::events(EVENTS));
    job.run_to_end();
    job
}

fn assert_same(job: &Job, undisturbed: &Job) {
    assert_eq!(sorted(output(job)), sorted(output(undisturbed)));
    assert_eq!(job.state_rows(None), undisturbed.state_rows(None));
}

#[test]
fn a_full_disk_is_named_and_with_more_space_the_run_goes_on() {
    let job = Job::last_bid(&input::events(EVENTS))
        .set("", "state-directory", job::quoted("small/state"))
        .set("sink", "path", job::quoted("small/output"))
        .set("checkpoint", "interval-ms", 30);
    let Some(disk) = Disk::mount(job.directory().join("small"), "2m") else {
        // Without the right to mount, the limit on the size of a file has to do.
        return a_file_that_may_not_grow_is_named_and_the_run_goes_on();
    };
    let failed = job.run(&[]).failed(1, &["make space", "howdah run"]);
    assert!(failed.stderr.to_lowercase().contains("no space left"), "{}", failed.stderr);
    disk.enlarge("200m");
    job.run_to_end();
    // The helpers look for them where jobs have them.
    for name in ["state", "output"] {
        std::os::unix::fs::symlink(disk.path().join(name), job.directory().join(name)).unwrap();
    }
    assert_same(&job, &undisturbed());
}

/// Runs the job with a limit on the size of each file that it writes.
fn run_with_file_limit(pipeline: &Path, kib: u32) -> Finished {
    let limited = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$0\" run \"$1\" --output json");
    let howdah = howdah();
    let mut shell = Command::new("bash");
    shell.args(["-c", &limited]).arg(howdah.get_program()).arg(pipeline);
    for (name, value) in howdah.get_envs() {
        shell.env(name, value.unwrap());
    }
    Finished::of(shell.output().unwrap())
}

#[test]
fn a_file_that_may_not_grow_is_named_and_the_run_goes_on() {
    let job = Job::last_bid(&input::events(EVENTS)).set("checkpoint", "interval-ms", 1_000);
    run_with_file_limit(&job.file(), 64).failed(1, &["cannot", "howdah run"]);
    job.run_to_end();
    assert_same(&job, &undisturbed());
}

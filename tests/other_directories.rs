//! Directories that cannot be written to, or belong to somebody else: named, and left as they are.

use crate::support::disk::Disk;
use crate::support::job::{howdah, quoted};
use crate::support::{Finished, Job, input};
use std::path::Path;

fn job() -> Job {
    Job::last_bid(&input::events(20_000))
}

/// A disk that has these directories and can only be read. Without the right to mount one, there is
/// nothing to test: whoever may not mount is stopped by permissions, which are told the same way.
fn read_only(job: &Job, directories: &[&str]) -> Option<Disk> {
    let disk = Disk::mount(job.directory().join("disk"), "64m")?;
    for directory in directories {
        std::fs::create_dir_all(disk.path().join(directory)).unwrap();
    }
    disk.make_read_only();
    Some(disk)
}

#[test]
fn a_state_directory_that_cannot_be_made_is_named_with_where_it_is_stated() {
    let job = job().set("", "state-directory", quoted("disk/state"));
    let Some(_disk) = read_only(&job, &[]) else { return };
    job.run(&[]).failed(1, &["disk/state", "Read-only file system", "`state-directory`"]);
}

#[test]
fn an_output_directory_that_cannot_be_written_to_is_named() {
    let job = job().set("sink", "path", quoted("disk/output"));
    let Some(_disk) = read_only(&job, &["output"]) else { return };
    job.run(&[]).failed(1, &["disk/output", "Read-only file system"]);
}

#[test]
fn compiled_code_that_cannot_be_kept_keeps_nobody_from_running() {
    let job = job();
    let Some(disk) = read_only(&job, &["cache"]) else { return };
    let mut command = job.run_command(&[]);
    command.env("HOWDAH_CACHE_DIR", disk.path().join("cache"));
    let summary = Finished::of(command.output().unwrap()).summary();
    assert_eq!(summary["finished"], true, "{summary}");
}

#[test]
fn state_that_cannot_be_written_to_can_be_read() {
    let job = job().set("", "state-directory", quoted("disk/state"));
    let Some(disk) = Disk::mount(job.directory().join("disk"), "64m") else { return };
    job.run_to_end();
    let rows = job.state_rows(None);
    disk.make_read_only();
    assert!(!rows.is_empty());
    assert_eq!(job.state_rows(None), rows);
    job.run(&[]).failed(1, &["disk/state/LOCK", "Read-only file system"]);
}

#[test]
fn the_state_of_another_pipeline_is_refused() {
    let job = job();
    job.run_to_end();
    let state = job.state_rows(None);
    let other = job.set("", "name", quoted("other")).set("sink", "path", quoted("other-output"));
    other.run(&[]).failed(1, &["is of another pipeline: of `job`", "name another state-directory"]);
    assert!(!other.directory().join("other-output").exists(), "something was started");
    let job = other.set("", "name", quoted("job")).set("sink", "path", quoted("output"));
    assert_eq!(job.state_rows(None), state);
}

/// All files below a directory that are called `mine`.
fn mine(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| match path.is_dir() {
        true => mine(&path),
        false => usize::from(path.ends_with("mine")),
    };
    entries.map(count).sum()
}

#[test]
fn what_another_program_keeps_in_the_state_directory_outlives_a_fresh_start() {
    let job = job();
    let state = job.state_directory();
    let places =
        ["", "checkpoints", "warehouse", "warehouse/default.db", "warehouse/default.db/table"];
    for place in places {
        std::fs::create_dir_all(state.join(place)).unwrap();
        std::fs::write(state.join(place).join("mine"), "not howdah's").unwrap();
    }
    job.run_to_end();
    assert_eq!(mine(&state), places.len());
    job.run(&["--fresh", "--yes"]).success();
    assert_eq!(mine(&state), places.len());
}

#[test]
fn a_state_directory_that_is_a_file_is_named() {
    let job = job();
    std::fs::write(job.state_directory(), "").unwrap();
    job.run(&[]).failed(1, &["cannot create", "state", "`state-directory`"]);
    let mut status = howdah();
    status.arg("status").arg(job.file());
    assert_ne!(Finished::of(status.output().unwrap()).code, None);
}

//! The same operator in several languages: the same output and state, byte for byte, and each goes
//! on from the checkpoint of another. A language whose toolchain is not set up is left out.

use crate::support::job::quoted;
use crate::support::{Job, input};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const EVENTS: u32 = 20_000;

/// The languages, and the variables that `cargo xtask test` sets to where their operators are. It
/// says which it leaves out.
const LANGUAGES: [(&str, &str); 3] = [
    ("python", "HOWDAH_OPERATORS_PYTHON"),
    ("c", "HOWDAH_OPERATORS_C"),
    ("js", "HOWDAH_OPERATORS_JS"),
];

/// An operator in each language that is set up.
fn operators(name: &str) -> Vec<(&'static str, PathBuf)> {
    LANGUAGES
        .into_iter()
        .filter_map(|(language, variable)| {
            let directory = PathBuf::from(std::env::var_os(variable)?);
            Some((language, directory.join(name).with_extension("wasm")))
        })
        .collect()
}

fn last_bid(component: &Path) -> Job {
    Job::last_bid(&input::events(EVENTS))
        .set("operator", "component", quoted(&component.to_string_lossy()))
        // An interpreter takes its time to compile.
        .set("operator.limits", "call-timeout-ms", 60_000)
}

/// What each subtask wrote: the bytes of its files, in the order of their checkpoints.
fn output_of_subtasks(job: &Job) -> BTreeMap<String, Vec<u8>> {
    let mut parts = Vec::new();
    for entry in job.output_directory().read_dir().unwrap() {
        let path = entry.unwrap().path();
        // part-<checkpoint>-<subtask>
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let [_, checkpoint, subtask] = name.split('-').collect::<Vec<_>>()[..] else {
            continue;
        };
        parts.push((subtask.to_owned(), checkpoint.parse::<u64>().unwrap(), path));
    }
    parts.sort();
    let mut outputs = BTreeMap::<_, Vec<u8>>::new();
    for (subtask, _, path) in parts {
        outputs.entry(subtask).or_default().extend(std::fs::read(path).unwrap());
    }
    outputs
}

/// The rows of the state table as text. Their order is that of its files, so it is set aside.
fn state(job: &Job) -> Vec<String> {
    let text = job.state("scan", &[job.state, "--output", "csv"]);
    let mut rows: Vec<_> = text.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

fn assert_same(job: &Job, expected: &Job, what: &str) {
    assert!(output_of_subtasks(job) == output_of_subtasks(expected), "another output: {what}");
    assert!(state(job) == state(expected), "another state: {what}");
}

#[test]
fn the_same_operator_in_each_language_gives_the_same_output_and_state() {
    let rust = Job::last_bid(&input::events(EVENTS));
    rust.run_to_end();
    for (language, component) in operators("last-bid") {
        let job = last_bid(&component);
        job.run_to_end();
        assert_same(&job, &rust, language);
    }
}

/// Stops a job at a checkpoint, and lets another component go on from there.
fn hand_over(first: &Path, second: &Path) -> Job {
    let job = last_bid(first).set("source", "rate-limit-rows-per-second", 8_000);
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 2);
    let summary = running.terminate().summary();
    assert_eq!(summary["finished"], false, "{summary}");
    let job = job.set("source", "rate-limit-rows-per-second", 0).set(
        "operator",
        "component",
        quoted(&second.to_string_lossy()),
    );
    job.run_to_end();
    job
}

#[test]
fn each_language_goes_on_from_the_checkpoint_of_another() {
    let rust = Path::new(howdah_operator_artifacts::LAST_BID);
    let undisturbed = last_bid(rust);
    undisturbed.run_to_end();
    // In a ring, so that each hands over and takes over once.
    let mut components = operators("last-bid");
    components.push(("rust", rust.to_owned()));
    let (mut from, mut first) = ("rust", rust.to_owned());
    for (to, second) in components {
        let job = hand_over(&first, &second);
        assert_same(&job, &undisturbed, &format!("from {from} to {to}"));
        (from, first) = (to, second);
    }
}

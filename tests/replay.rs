//! `howdah replay` shows in which rows of output and state another component would differ, and touches
//! nothing of the pipeline.

use crate::support::rows::{output, sorted};
use crate::support::{Finished, Job, input, wait_for};
use howdah_operator_artifacts::{FORGETFUL_BID, LAST_BID};
use serde_json::Value;
use std::collections::BTreeSet;

const EVENTS: u32 = 60_000;

/// A job at its end that has many checkpoints, all kept.
fn finished(job: Job) -> Job {
    let job = job.set("checkpoint", "interval-ms", 50).set("checkpoint", "retained", 1_000);
    let job = job.set("source", "rate-limit-rows-per-second", EVENTS / 2);
    job.run_to_end();
    job
}

fn replay(job: &Job, arguments: &[&str]) -> Finished {
    job.command(&["replay"], &[arguments, &["--output", "json"]].concat())
}

/// The rows that differ, and the counts of each table.
fn found(finished: Finished) -> (Vec<Value>, Vec<Value>) {
    let text = finished.success().stdout;
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.partition(|line| line.get("change").is_some())
}

fn none(table: &str) -> Value {
    serde_json::json!({ "table": table, "added": 0, "removed": 0, "changed": 0 })
}

const OUTPUT: &str = "output sink";
const STATE: &str = "state job__last-bid__last";

/// The numbers of the events of these rows of the output, which end with 07.
fn forgotten(rows: &[Vec<String>]) -> BTreeSet<u64> {
    let seq = rows.iter().map(|row| row.last().unwrap().parse::<u64>().unwrap());
    seq.filter(|seq| seq % 100 == 7).collect()
}

/// How many directories of replays are there.
fn left(job: &Job) -> usize {
    let entries = std::fs::read_dir(job.directory()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".replay-")).count()
}

#[test]
fn a_planted_change_is_found_row_by_row_and_the_job_is_left_as_it_is() {
    let job = finished(Job::last_bid(&input::events(EVENTS)));
    let checkpoints = job.checkpoints();
    let from = checkpoints[checkpoints.len() / 2];
    let (before, state) = (sorted(output(&job)), job.state_rows(None));
    let later: Vec<Vec<String>> = before
        .iter()
        .filter(|row| row.last().unwrap().parse::<u64>().unwrap() >= from.source_rows)
        .cloned()
        .collect();

    let id = from.id.to_string();
    let (rows, counts) = found(replay(&job, &["--from", &id, "--component", FORGETFUL_BID]));
    let of = |table: &str| rows.iter().filter(|row| row["table"] == table).collect::<Vec<_>>();
    let missing: BTreeSet<u64> = of(OUTPUT)
        .iter()
        .map(|line| {
            assert_eq!((&line["change"], &line["before"]["times"]), (&"removed".into(), &1.into()));
            let row: Value = serde_json::from_str(line["key"]["row"].as_str().unwrap()).unwrap();
            row["seq"].as_u64().unwrap()
        })
        .collect();
    assert!(!missing.is_empty());
    assert_eq!(missing, forgotten(&later));
    // The last bid of a key is another one, or there is none.
    let last: BTreeSet<u64> = forgotten(&state).intersection(&missing).copied().collect();
    let differing = of(STATE).into_iter().map(|line| line["before"]["seq"].as_u64().unwrap());
    assert_eq!(differing.collect::<BTreeSet<u64>>(), last);
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert_eq!(counts[0]["removed"], missing.len(), "{counts:?}");

    assert_eq!(sorted(output(&job)), before);
    assert_eq!(job.state_rows(None), state);
    assert_eq!(job.checkpoints(), checkpoints);
    assert_eq!(left(&job), 0);
    assert_eq!(job.run_to_end()["rows_in"], 0);
}

#[test]
fn equal_components_make_no_difference() {
    let job = finished(Job::last_bid(&input::events(EVENTS)));
    let checkpoints = job.checkpoints();
    let (first, last) = (checkpoints[0].id.to_string(), checkpoints.last().unwrap().id.to_string());
    let same = (Vec::new(), vec![none(OUTPUT), none(STATE)]);
    assert_eq!(found(replay(&job, &["--from", &first, "--component", LAST_BID])), same);
    let part = ["--from", &first, "--to", &last, "--component", LAST_BID];
    assert_eq!(found(replay(&job, &part)), same);
    // From a savepoint; what is compared can be kept.
    job.command(&["savepoint"], &["backup", "--checkpoint", &first]).success();
    let kept = ["--from", "backup", "--component", LAST_BID, "--keep", "kept"];
    assert_eq!(found(replay(&job, &kept)), same);
    assert!(job.directory().join("kept/new/state/warehouse").is_dir());
    replay(&job, &kept).failed(2, &["kept is there already"]);
}

#[test]
fn a_replay_that_is_broken_off_leaves_nothing() {
    let job = Job::last_bid(&input::events(400_000));
    let job = job.set("checkpoint", "interval-ms", 50).set("checkpoint", "retained", 1_000);
    job.run_to_end();
    let first = job.checkpoints()[0].id.to_string();
    let arguments = ["--from", &first, "--component", LAST_BID];
    let started = || {
        let running = job.start_command("replay", &arguments);
        wait_for("the copy of the state", || (left(&job) > 0).then_some(()));
        running
    };
    assert_eq!(started().signal("INT").code, Some(130));
    assert_eq!(left(&job), 0);
    // Whoever is killed can remove nothing: the next replay does.
    assert_eq!(started().kill().code, None);
    assert_eq!(left(&job), 1);
    replay(&job, &arguments).success();
    assert_eq!(left(&job), 0);
}

#[test]
fn a_running_job_goes_on_beside_a_replay() {
    let events = input::events(400_000);
    let job = Job::last_bid(&events).set("source", "rate-limit-rows-per-second", 2_000);
    let job = job.set("checkpoint", "retained", 1_000);
    let mut running = job.start();
    let from = job.wait_for_checkpoint(&mut running, 2).id;
    let to = job.wait_for_checkpoint(&mut running, from + 3).id;
    let (from, to) = (from.to_string(), to.to_string());
    let part = ["--from", &from, "--to", &to, "--component", FORGETFUL_BID];
    let (_, counts) = found(replay(&job, &part));
    assert_eq!(counts.len(), 2, "{counts:?}");
    assert!(running.is_running());
    running.terminate().success();
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let job = finished(Job::last_bid(&input::events(EVENTS)));
    let first = job.checkpoints()[0].id.to_string();
    let stats = howdah_operator_artifacts::AUCTION_STATS;
    let refused = |arguments: &[&str], code, said: &[&str]| {
        replay(&job, arguments).failed(code, said);
    };
    refused(&["--from", &first, "--component", stats], 1, &["state `last`"]);
    refused(&["--from", "77777", "--component", LAST_BID], 2, &["no checkpoint 77777"]);
    let back = ["--from", &first, "--to", &first, "--component", LAST_BID];
    refused(&back, 2, &["is not after checkpoint"]);
    let other = ["--from", &first, "--component", LAST_BID, "--operator", "first-bid"];
    refused(&other, 2, &["it has last-bid"]);
}

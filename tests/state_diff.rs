//! `howdah state diff` shows the rows that differ between two checkpoints, a savepoint and a
//! checkpoint, or a checkpoint and now; and nothing else.

use crate::support::rows::Row;
use crate::support::{Job, input, is_full};
use serde_json::Value;
use std::collections::BTreeMap;

/// Rows of the state by key, without the key group.
type State = BTreeMap<Row, Row>;

fn state(job: &Job, checkpoint: Option<u64>) -> State {
    let shape = &job.state_shape;
    let values = ["price", "seq"];
    let rows = job.state_rows(checkpoint).into_iter();
    rows.map(|row| (shape.project(&row, shape.key), shape.project(&row, &values))).collect()
}

/// What `howdah state diff` prints as JSON, as rows before and after; checks its counts.
fn diff(job: &Job, before: &str, after: &str) -> BTreeMap<Row, (Option<Row>, Option<Row>)> {
    let text = job.state("diff", &[before, after, "--output", "json"]);
    let mut lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let counts = lines.pop().unwrap();
    let of = |change: &str| lines.iter().filter(|line| line["change"] == change).count();
    for change in ["added", "removed", "changed"] {
        assert_eq!(counts[change], of(change), "{counts}");
    }
    let pick = |object: &Value, columns: &[&str]| -> Row {
        columns.iter().map(|column| object[*column].to_string()).collect()
    };
    let side =
        |line: &Value, side: &str| line.get(side).map(|values| pick(values, &["price", "seq"]));
    let key = |line: &Value| pick(&line["key"], job.state_shape.key);
    let rows = lines.iter().map(|line| (key(line), (side(line, "before"), side(line, "after"))));
    rows.collect()
}

fn expected(before: &State, after: &State) -> BTreeMap<Row, (Option<Row>, Option<Row>)> {
    let keys = before.keys().chain(after.keys());
    let sides = keys.map(|key| (key.clone(), (before.get(key).cloned(), after.get(key).cloned())));
    sides.filter(|(_, (before, after))| before != after).collect()
}

/// A job with several checkpoints, all kept, with rows between them.
fn job() -> Job {
    let events = if is_full() { 500_000 } else { 60_000 };
    let job = Job::last_bid(&input::events(events));
    let job = job.set("checkpoint", "interval-ms", 20).set("checkpoint", "retained", 1_000);
    let job = job.set("source", "rate-limit-rows-per-second", events / 2);
    job.run_to_end();
    job
}

#[test]
fn two_checkpoints_differ_in_the_rows_between_them() {
    let job = job();
    let ids: Vec<u64> = job.checkpoints().iter().map(|checkpoint| checkpoint.id).collect();
    let (first, middle, last) = (ids[0], ids[ids.len() / 2], ids[ids.len() - 1]);
    for (from, to) in [(first, middle), (middle, last), (last, first), (middle, middle)] {
        let found = diff(&job, &from.to_string(), &to.to_string());
        assert_eq!(found, expected(&state(&job, Some(from)), &state(&job, Some(to))));
    }
    let now = diff(&job, &middle.to_string(), "now");
    assert_eq!(now, expected(&state(&job, Some(middle)), &state(&job, None)));

    job.command(&["savepoint"], &["backup", "--checkpoint", &middle.to_string()]).success();
    assert_eq!(diff(&job, "backup", "now"), now);
    assert_eq!(diff(&job, "backup", &middle.to_string()), BTreeMap::new());
}

#[test]
fn differences_are_shown_up_to_a_limit_and_all_are_counted() {
    let job = job();
    let ids = job.checkpoints();
    let (first, last) = (ids[0].id.to_string(), ids[ids.len() - 1].id.to_string());
    let text = job.state("diff", &[&first, &last, "--limit", "3", "--state", "last"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(lines[0], "job__last-bid__last");
    assert!(lines[1..4].iter().all(|line| line.starts_with(['+', '~'])), "{text}");
    assert!(lines[1].contains("bidder=") && lines[1].contains("auction="), "{text}");
    let all = diff(&job, &first, &last).len();
    let counted = lines[4].split_once(": ").unwrap().1.split(", ");
    let numbers = counted.map(|it| it.split(' ').next().unwrap().replace(',', ""));
    assert_eq!(numbers.map(|it| it.parse::<usize>().unwrap()).sum::<usize>(), all, "{text}");

    let failed = |arguments: &[&str]| job.command(&["state", "diff"], arguments);
    failed(&["77777", "now"]).failed(2, &["there is no checkpoint 77777"]);
    failed(&["tuesday", "now"]).failed(2, &["tuesday is no number of a checkpoint"]);
    failed(&[&first, "now", "--state", "lost"]).failed(2, &["there is no table `lost`"]);
}

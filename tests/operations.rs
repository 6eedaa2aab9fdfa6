//! Operations on a running pipeline, by the commands for them: what comes of it is as if nothing had
//! been done.

use crate::support::job::{Running, howdah, quoted};
use crate::support::rows::{output, sorted};
use crate::support::{Finished, Job, Random, clock, input, is_full, oracle, wait_for};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const EVENTS: u32 = 50_000;

/// A job that takes its time.
fn slow() -> Job {
    let job = Job::last_bid(&input::events(EVENTS));
    job.set("source", "rate-limit-rows-per-second", 5_000)
}

/// The same job at full speed.
fn fast(job: Job) -> Job {
    job.set("source", "rate-limit-rows-per-second", 0)
}

fn command(words: &[&str], job: &Job) -> Command {
    let mut command = howdah();
    let (verb, rest) = words.split_first().unwrap();
    // `checkpoint pin FILE ...`, but `stop FILE ...`.
    let (subverb, rest) = match rest.split_first() {
        Some((subverb, rest)) if *verb == "checkpoint" => (Some(*subverb), rest),
        _ => (None, rest),
    };
    command.arg(verb).args(subverb).arg(job.directory().join("pipeline.toml")).args(rest);
    command.current_dir(job.directory());
    command
}

/// What a command on the job says.
fn order(words: &[&str], job: &Job) -> Finished {
    Finished::of(command(words, job).output().unwrap())
}

/// Starts it and waits until it has a checkpoint.
fn started(job: &Job) -> Running {
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 2);
    running
}

/// Checks that output and state are those of a run that nothing happened to.
fn check(job: &Job) {
    let undisturbed = Job::last_bid(&input::events(EVENTS));
    undisturbed.run_to_end();
    assert_eq!(sorted(output(job)), sorted(output(&undisturbed)));
    assert_eq!(job.state_rows(None), undisturbed.state_rows(None));
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_running_job_says_how_it_is_and_stops_when_it_is_told() {
    let job = slow();
    let running = started(&job);
    let status = json(&order(&["status", "--output", "json"], &job).success().stdout);
    assert_eq!(status["running"], true, "{status}");
    assert!(status["progress"]["rows_in"].as_u64().unwrap() > 0, "{status}");

    let made = order(&["checkpoint", "now"], &job).success().stdout;
    assert!(made.starts_with("checkpoint "), "{made}");
    let stopped = order(&["stop"], &job).success().stdout;
    assert!(stopped.starts_with("job: stopped at checkpoint "), "{stopped}");
    assert_eq!(running.wait().summary()["finished"], false);

    order(&["stop"], &job).failed(3, &["pipeline `job` does not run"]);
    let status = order(&["status"], &job).success().stdout;
    assert!(status.starts_with("job: does not run\n"), "{status}");
    let job = fast(job);
    job.run_to_end();
    check(&job);
}

/// What the HTTP port of a job answers.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// What ends the name of a figure: what it counts or measures, in which unit.
const UNITS: [&str; 9] = [
    "_total",
    "_seconds",
    "_bytes",
    "_rows",
    "_files",
    "_runs",
    "_snapshots",
    "_manifests",
    "_last_checkpoint",
];

/// Labels of figures; `le` is the bound of a bucket.
const LABELS: [&str; 6] = ["tenant", "pipeline", "operator", "subtask", "state", "le"];

/// Each figure has its unit in its name, and labels of which there are few.
fn check_names(figures: &str) {
    for line in figures.lines().filter(|line| line.starts_with("howdah_")) {
        let (name, labels) = line.split_once('{').unwrap();
        let parts = ["_bucket", "_sum", "_count"];
        let name = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        assert!(UNITS.iter().any(|unit| name.ends_with(unit)), "{name} has no unit");
        for label in labels.split('}').next().unwrap().split(',') {
            let label = label.split('=').next().unwrap();
            assert!(LABELS.contains(&label), "{name} has the label {label}");
        }
    }
}

/// The dashboard asks for figures and labels that are there.
fn check_dashboard(figures: &str) {
    let dashboard = json(include_str!("../docs/grafana.json"));
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked = 0;
    for expression in targets.map(|target| target["expr"].as_str().unwrap()) {
        let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let words = expression.split(|it: char| !is_part(it));
        for name in words.filter(|word| word.starts_with("howdah_")) {
            assert!(figures.contains(&format!("\n{name}{{")), "there is no {name} in {figures}");
            asked += 1;
        }
        for labels in expression.split("by (").skip(1) {
            for label in labels.split(')').next().unwrap().split(", ") {
                assert!(LABELS.contains(&label), "{expression}: {label}");
            }
        }
    }
    assert!(asked > 20, "{asked}");
}

#[test]
fn a_running_job_is_watched() {
    let job = slow();
    let running = started(&job);
    let frame = order(&["top", "--once"], &job).success().stdout;
    for shown in ["job: runs for ", " rows in/s ", "last-bid ", "source ", "job__last-bid__last "] {
        assert!(frame.contains(shown), "{shown} is not in {frame}");
    }
    let completed = frame.lines().skip_while(|line| !line.contains("checkpoint ")).count();
    assert!(completed > 1, "{frame}");
    order(&["top"], &job).failed(2, &["--once"]);
    order(&["stop"], &job).success();
    running.wait().success();
    order(&["top", "--once"], &job).failed(3, &["does not run"]);
}

#[test]
fn a_running_job_answers_whoever_collects_figures() {
    let job = slow().set("source", "event-time", "'date_time'");
    let mut command = job.run_command(&["--http-port", "0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let listening = json(&lines.next().unwrap());
    let address = listening["address"].as_str().unwrap();
    wait_for("a checkpoint", || {
        lines.next().filter(|line| json(line)["event"] == "checkpoint_completed")
    });
    assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(get(address, "/readyz").starts_with("HTTP/1.1 200 "));
    assert!(get(address, "/else").starts_with("HTTP/1.1 404 "));
    let figures = wait_for("all figures", || {
        let figures = get(address, "/metrics");
        figures.contains("howdah_state_rows{").then_some(figures)
    });
    for figure in [
        "# HELP howdah_pipeline_rows_read_total Rows read from sources",
        "howdah_pipeline_rows_read_total{tenant=\"default\",pipeline=\"job\"} ",
        "howdah_pipeline_checkpoint_duration_seconds_bucket{tenant=\"default\",pipeline=\"job\",le=\"",
        "howdah_pipeline_latency_seconds_bucket{tenant=\"default\",pipeline=\"job\",le=\"",
        "howdah_pipeline_busy_microseconds_total{tenant=\"default\",pipeline=\"job\",\
         operator=\"last-bid\",subtask=\"0\"} ",
        "howdah_state_rows{tenant=\"default\",pipeline=\"job\",operator=\"last-bid\",state=\"last\"} ",
    ] {
        assert!(figures.contains(figure), "{figure} is not in {figures}");
    }
    check_names(&figures);
    check_dashboard(&figures);
    order(&["stop"], &job).success();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_job_goes_on_from_a_savepoint_in_another_directory() {
    let first = slow();
    let running = started(&first);
    let backup = first.directory().join("backup");
    let written = order(&["savepoint", "backup", "--output", "json"], &first).success().stdout;
    let written = json(&written);
    order(&["savepoint", "backup"], &first).failed(2, &["is there already"]);
    // The job goes on, and its savepoint stays what it is.
    first.wait_for_checkpoint(&mut { running }, written["checkpoint"].as_u64().unwrap() + 3);
    let moved = first.directory().join("moved");
    std::fs::rename(&backup, &moved).unwrap();
    let mut verify = howdah();
    verify.args(["checkpoint", "verify"]).arg(&moved);
    let verified = Finished::of(verify.output().unwrap()).success().stdout;
    assert!(verified.contains("every file is as it was written"), "{verified}");

    let second = Job::last_bid(&input::events(EVENTS));
    let from = moved.to_str().unwrap();
    let summary = second.run(&["--from", from]).summary();
    assert_eq!(summary["restored_from"], written["checkpoint"], "{summary}");
    let undisturbed = Job::last_bid(&input::events(EVENTS));
    undisturbed.run_to_end();
    assert_eq!(second.state_rows(None), undisturbed.state_rows(None));
    second.run(&["--from", from]).failed(2, &["removes what was made after checkpoint", "--yes"]);
    second.run(&["--from", from, "--yes"]).failed(1, &["has state of its own", "--fresh"]);
    let summary = second.run(&["--from", from, "--fresh", "--yes"]).summary();
    assert_eq!(summary["restored_from"], written["checkpoint"], "{summary}");
    assert_eq!(second.state_rows(None), undisturbed.state_rows(None));
}

#[test]
fn a_savepoint_that_was_moved_is_opened_by_pypaimon() {
    let events = input::events(EVENTS);
    let job = Job::last_bid(&events);
    job.run_to_end();
    let written = json(&order(&["savepoint", "a", "--output", "json"], &job).success().stdout);
    let moved = job.directory().join("b");
    std::fs::rename(job.directory().join("a"), &moved).unwrap();
    // Nothing of it is where it came from.
    let answer = oracle::answer(&job, &events, "last-bid", None);
    for checkpoint in [None, written["checkpoint"].as_u64()] {
        oracle::check_state_in(&moved, &job, &answer, checkpoint);
    }
}

#[test]
fn killed_at_any_time_around_a_rescale_a_job_goes_on() {
    let mut random = Random::new(7);
    let mut job = slow();
    for round in 0..if is_full() { 30 } else { 6 } {
        let running = started(&job);
        let parallelism = (1 + random.below(4)).to_string();
        let mut rescale = command(&["rescale", &parallelism], &job);
        let rescale = rescale.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        clock::let_run(Duration::from_millis(random.below(250)));
        running.kill();
        // It is told, or hears that nobody is there; the file says which parallelism it was left at.
        rescale.unwrap().wait().unwrap();
        let text = std::fs::read_to_string(job.directory().join("pipeline.toml")).unwrap();
        let left_at = ["1", "2", "3", "4"].into_iter().find(|it| {
            text.split("[operator]").nth(1).unwrap().contains(&format!("parallelism = {it}"))
        });
        println!("round {round}: to {parallelism}, left at {left_at:?}");
        if let Some(parallelism) = left_at {
            job = job.set("operator", "parallelism", parallelism);
        }
    }
    let job = fast(job);
    job.run_to_end();
    check(&job);
}

#[test]
fn a_damaged_savepoint_is_refused_and_leaves_what_is_there() {
    let job = slow();
    let running = started(&job);
    order(&["stop", "--savepoint", "backup"], &job).success();
    running.wait().success();
    let document = job.directory().join("backup/savepoint");
    let mut bytes = std::fs::read(&document).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&document, bytes).unwrap();
    let before = job.checkpoints();
    job.run(&["--from", "backup", "--fresh", "--yes"]).failed(2, &["backup"]);
    let backup = job.directory().join("backup");
    let refused = job.run(&["--from", backup.to_str().unwrap(), "--fresh", "--yes"]);
    refused.failed(1, &["savepoint", "damaged"]);
    assert_eq!(job.checkpoints(), before);
    let job = fast(job);
    job.run_to_end();
    check(&job);
}

#[test]
fn a_job_is_rescaled_while_it_runs() {
    let job = slow();
    let running = started(&job);
    for parallelism in ["4", "1", "3"] {
        order(&["rescale", parallelism], &job).success();
        let status = json(&order(&["status", "--output", "json"], &job).success().stdout);
        assert_eq!(status["operators"][0]["parallelism"].to_string(), parallelism);
    }
    let text = std::fs::read_to_string(job.directory().join("pipeline.toml")).unwrap();
    assert!(text.contains("parallelism = 3"), "{text}");
    order(&["stop"], &job).success();
    running.wait().success();
    let job = fast(job).set("operator", "parallelism", 3);
    job.run_to_end();
    check(&job);
}

#[test]
fn a_pinned_checkpoint_is_kept_and_can_be_gone_back_to() {
    let job = slow();
    let running = started(&job);
    let made = json(&order(&["checkpoint", "now", "--output", "json"], &job).success().stdout);
    let id = made["checkpoint"].as_u64().unwrap();
    order(&["checkpoint", "pin", &id.to_string()], &job).success();
    job.wait_for_checkpoint(&mut { running }, id + 6);
    let kept: Vec<u64> = job.checkpoints().iter().map(|checkpoint| checkpoint.id).collect();
    assert!(kept.contains(&id) && !kept.contains(&(id + 1)), "{kept:?}");
    let listed = order(&["checkpoint", "ls", "--output", "json"], &job).success().stdout;
    let first = json(listed.lines().next().unwrap());
    assert_eq!((&first["checkpoint"], &first["pinned"]), (&json!(id), &json!(true)), "{listed}");
    order(&["checkpoint", "verify"], &job).success();

    let job = fast(job);
    job.file();
    order(&["checkpoint", "rm", &id.to_string()], &job).failed(1, &["is pinned"]);
    job.run(&["--fresh", "--yes"]).failed(1, &["is pinned"]);
    let summary = job.run(&["--checkpoint", &id.to_string(), "--yes"]).summary();
    assert_eq!(summary["restored_from"], id);
    check(&job);
    order(&["checkpoint", "unpin", &id.to_string()], &job).success();
    order(&["checkpoint", "rm", &id.to_string()], &job).success();
    order(&["checkpoint", "unpin", &id.to_string()], &job).failed(3, &["is not pinned"]);
}

#[test]
fn a_damaged_file_of_a_checkpoint_is_named() {
    let job = Job::last_bid(&input::events(EVENTS));
    job.run_to_end();
    let table = job.state_directory().join("warehouse/default.db/job__last-bid__last");
    let files =
        |directory: &Path| std::fs::read_dir(directory).unwrap().map(|it| it.unwrap().path());
    let data = files(&table.join("bucket-0"))
        .find(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .unwrap();
    let mut bytes = std::fs::read(&data).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let verified = order(&["checkpoint", "verify"], &job);
    let name = data.file_name().unwrap().to_str().unwrap();
    assert!(verified.stdout.contains(name), "{}", verified.stdout);
    verified.failed(1, &["checkpoints are damaged"]);
}

#[test]
fn a_component_is_swapped_while_its_job_runs() {
    let job = slow();
    // The same operator with another digest: a custom section more.
    let mut bytes = std::fs::read(howdah_operator_artifacts::LAST_BID).unwrap();
    bytes.extend(b"\0\x03\x01a!");
    std::fs::write(job.directory().join("other.wasm"), bytes).unwrap();
    let running = started(&job);
    order(&["swap", "last-bid", "other.wasm", "--policy", "reject"], &job).success();
    let status = json(&order(&["status", "--output", "json"], &job).success().stdout);
    let component = status["operators"][0]["component"].as_str().unwrap();
    assert!(component.ends_with("other.wasm"), "{status}");
    order(&["swap", "last-bid", "other.wasm"], &job).failed(2, &["another name"]);
    order(&["stop"], &job).success();
    running.wait().success();
    let job = fast(job).set("operator", "component", quoted("other.wasm"));
    job.run_to_end();
    check(&job);
}

#[test]
fn a_component_that_does_not_fit_is_refused_before_anything_stops() {
    let job = slow();
    let mut running = started(&job);
    let other = howdah_operator_artifacts::AUCTION_STATS;
    order(&["swap", "last-bid", other], &job).failed(1, &["does not fit", "state `last`"]);
    order(&["swap", "first-bid", other], &job).failed(2, &["it has last-bid"]);
    assert!(running.is_running());
    order(&["stop"], &job).success();
    assert_eq!(running.wait().summary()["restored_from"], Value::Null, "it was never stopped");
    let job = fast(job);
    job.run_to_end();
    check(&job);
}

#[test]
fn a_component_that_fails_at_once_gives_way_to_the_one_before() {
    let job = slow();
    let running = started(&job);
    let failing = howdah_operator_artifacts::FAILING_BID;
    let refused = order(&["swap", "last-bid", failing], &job);
    refused.failed(1, &["a successor that was not tested", "goes on as it was before"]);
    let text = std::fs::read_to_string(job.directory().join("pipeline.toml")).unwrap();
    assert!(text.contains(howdah_operator_artifacts::LAST_BID), "{text}");
    wait_for("a checkpoint after it", || {
        order(&["checkpoint", "now"], &job).code.filter(|code| *code == 0)
    });
    order(&["stop"], &job).success();
    running.wait().success();
    let job = fast(job);
    job.run_to_end();
    check(&job);
}

#[test]
fn a_drained_job_closes_its_windows() {
    let events = input::events(EVENTS);
    let job = Job::auction_winners(&events);
    let limited = |job: Job, rate| {
        let job = job.set("source.auctions", "rate-limit-rows-per-second", rate);
        job.set("source.bids", "rate-limit-rows-per-second", rate)
    };
    let job = limited(job, 5_000);
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 3);
    let stopped = order(&["stop", "--drain"], &job).success().stdout;
    assert!(stopped.starts_with("job: drained at checkpoint "), "{stopped}");
    let summary = running.wait().summary();
    assert_eq!(summary["finished"], true, "{summary}");
    // No auction waits for its end any more.
    for table in job.state("ls", &["--output", "csv"]).lines().skip(1) {
        let name = table.split(',').next().unwrap();
        if name.contains("__winners__") {
            let rows = job.state("scan", &[name, "--output", "csv"]).lines().count() - 1;
            assert_eq!(rows, 0, "{name} has rows left");
        }
    }
}

//! Rows that an operator fails on are told with their lines, and set aside where that is asked for.

use crate::support::{Finished, Job, input, job, wait_for};
use serde_json::Value;
use std::path::Path;

const EVENTS: u32 = 2_000;

/// An operator that counts the bids on each auction, and panics on auctions divisible by seven.
fn failing() -> Job {
    Job::hostile(&input::events(EVENTS))
        .set("operator.config", "mode", job::quoted("panic-on-sevens"))
        .set("operator.failure", "restarts", 0)
}

fn isolating() -> Job {
    failing().set("operator.failure", "policy", job::quoted("isolate")).set(
        "operator.failure",
        "isolated-rows",
        EVENTS,
    )
}

/// What was set aside, without the number of the subtask.
fn set_aside(job: &Job) -> Vec<Value> {
    let Ok(files) = std::fs::read_dir(job.state_directory().join("failed-rows")) else {
        return Vec::new();
    };
    let text = |file: std::fs::DirEntry| std::fs::read_to_string(file.path()).unwrap();
    let texts: Vec<String> = files.map(|file| text(file.unwrap())).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let mut rows: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.sort_by_key(|row| row["line"].as_u64());
    rows
}

/// The lines of all output files, sorted.
fn output(job: &Job) -> Vec<String> {
    let files = std::fs::read_dir(job.output_directory()).unwrap().map(|file| file.unwrap());
    let parts = files.filter(|file| file.file_name().to_string_lossy().starts_with("part-"));
    let text = |part: std::fs::DirEntry| std::fs::read_to_string(part.path()).unwrap();
    let texts: Vec<String> = parts.map(text).collect();
    let mut lines: Vec<String> =
        texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_failure_says_which_lines_the_operator_was_given_and_how_to_go_on() {
    let said = ["told to panic", "it was given", "from line ", "policy = \"isolate\""];
    failing().run(&[]).failed(1, &said);
}

#[test]
fn what_is_set_aside_is_told_at_the_first_and_at_the_end_with_its_place() {
    let job = isolating();
    let mut command = job::howdah();
    let finished = Finished::of(command.arg("run").arg(job.file()).output().unwrap()).success();
    let place = job.state_directory().join("failed-rows");
    let warned = format!("set aside in {}", place.display());
    assert_eq!(finished.stderr.matches(&warned).count(), 1, "{}", finished.stderr);
    assert!(finished.stderr.contains("told to panic"), "{}", finished.stderr);
    let rows = set_aside(&job);
    let closing =
        format!("{} failed in the operator, set aside in {}", rows.len(), place.display());
    assert!(finished.stdout.contains(&closing), "{}", finished.stdout);
    let events = std::fs::read_to_string(input::events(EVENTS)).unwrap();
    for row in rows {
        let line = usize::try_from(row["line"].as_u64().unwrap()).unwrap();
        let text = events.lines().nth(line - 1).unwrap();
        let auction = row["row"]["auction"].to_string();
        assert!(
            text.split(',').any(|field| field == auction),
            "{row} is not of line {line}: {text}"
        );
    }
}

#[test]
fn killed_while_rows_are_set_aside_each_is_there_once() {
    let undisturbed = isolating();
    undisturbed.run_to_end();
    let slow = isolating().set("source", "rate-limit-rows-per-second", 2_000);
    let slow = slow.set("checkpoint", "interval-ms", 20);
    for checkpoint in [2, 6, 10] {
        let mut running = slow.start();
        wait_for("a checkpoint or the end", || {
            let newest = slow.checkpoints().pop().map_or(0, |newest| newest.id);
            (newest >= checkpoint || !running.is_running()).then_some(())
        });
        let killed = running.kill();
        assert!(killed.code.is_none() || killed.code == Some(0), "{}", killed.stderr);
    }
    let fast = slow.set("source", "rate-limit-rows-per-second", 0);
    fast.run_to_end();
    let told = |job: &Job| -> Vec<(Value, Value)> {
        set_aside(job).into_iter().map(|row| (row["line"].clone(), row["row"].clone())).collect()
    };
    assert!(!told(&fast).is_empty());
    assert_eq!(told(&fast), told(&undisturbed));
    assert_eq!(output(&fast), output(&undisturbed));
}

#[test]
fn rows_that_end_an_operator_with_wasi_are_set_aside_and_the_others_use_their_files() {
    let job = Job::with_wasi(Path::new("orders.csv"));
    let verbs =
        ["read,file", "exit,now", "append,new", "complain,no more", "nonsense,x", "read,file"];
    let orders: String = verbs.iter().map(|order| format!("1,{order}\n")).collect();
    std::fs::write(job.directory().join("orders.csv"), format!("key,verb,path\n{orders}")).unwrap();
    std::fs::create_dir(job.directory().join("rates")).unwrap();
    std::fs::write(job.directory().join("rates/file"), "some rates").unwrap();
    let directory = "{ path = \"rates\", access = \"read-write\" }";
    let job = job.set("operator.wasi.directories", "\"/rates\"", directory).set(
        "operator.failure",
        "policy",
        job::quoted("isolate"),
    );
    let place = job.directory().display().to_string();
    job.run(&["--allow-wasi", "--allow-write", &place]).summary();
    let answers = [
        r#"{"text":"done"}"#,
        r#"{"text":"error: no idea what nonsense is"}"#,
        r#"{"text":"some rates"}"#,
        r#"{"text":"some rates"}"#,
    ];
    assert_eq!(output(&job), answers);
    let lines: Vec<u64> = set_aside(&job).iter().map(|row| row["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [3, 5], "{:?}", set_aside(&job));
    // Files are no state: what a call wrote that was done again is there again.
    let written = std::fs::read_to_string(job.directory().join("rates/new")).unwrap();
    assert!(written.starts_with("appended"), "{written}");
}

#[test]
fn what_fails_at_a_barrier_stops_the_pipeline_and_says_why_it_is_not_set_aside() {
    let job = isolating().set("operator.config", "mode", job::quoted("barrier-panic"));
    let said = ["trapped in on-barrier", "policy = \"isolate\" does not hold here"];
    job.run(&[]).failed(1, &said);
    assert_eq!(set_aside(&job), Vec::<Value>::new());
}

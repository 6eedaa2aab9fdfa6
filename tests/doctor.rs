//! `howdah doctor` finds nothing wrong with a pipeline that is well, running or not, and names what
//! is broken, with a way out. It changes nothing.

use crate::support::job::quoted;
use crate::support::{Finished, Job, input, job};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

fn finished() -> Job {
    let job = Job::last_bid(&input::events(20_000));
    job.run_to_end();
    job
}

fn doctor(place: &Path) -> Finished {
    let mut command = job::howdah();
    Finished::of(command.args(["doctor", "--output", "json"]).arg(place).output().unwrap())
}

/// The findings, and the summary.
fn found(finished: &Finished) -> (Vec<Value>, Value) {
    let lines = finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<Value> = lines.collect();
    let summary = lines.pop().unwrap();
    (lines, summary)
}

/// Every file below a directory, and when it was written.
fn files(directory: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::metadata(&path).unwrap();
        match metadata.is_dir() {
            true => files.extend(self::files(&path)),
            false => drop(files.insert(path, (metadata.len(), metadata.modified().unwrap()))),
        }
    }
    files
}

/// Checks that there is one problem, about this, and what it says.
fn check_problem(finished: Finished, subject: &str, said: &[&str]) {
    let (findings, summary) = found(&finished);
    finished.failed(1, &["problem"]);
    assert_eq!(summary["healthy"], false);
    let of_subject = |it: &&Value| it["subject"].as_str().unwrap().contains(subject);
    let finding = findings.iter().find(of_subject).unwrap_or_else(|| panic!("{findings:?}"));
    assert_eq!(finding["severity"], "problem");
    let text = finding.to_string();
    said.iter().for_each(|words| assert!(text.contains(words), "`{words}` is not in {text}"));
}

fn data_file(job: &Job) -> PathBuf {
    let table = job.state_directory().join("warehouse/default.db/job__last-bid__last/bucket-0");
    let files = std::fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|it| it == "parquet")).max().unwrap()
}

#[test]
fn a_job_that_is_well_has_no_problem_and_is_left_as_it_is() {
    let job = finished();
    let before = files(&job.state_directory());
    for place in [job.file(), job.state_directory()] {
        let finished = doctor(&place).success();
        let (findings, summary) = found(&finished);
        assert_eq!(findings, Vec::<Value>::new());
        assert_eq!((&summary["healthy"], &summary["running"]), (&true.into(), &Value::Null));
        assert_eq!(summary["rows"], job.state_rows(None).len());
        assert_eq!(summary["checkpoints"], job.checkpoints().len());
    }
    assert_eq!(files(&job.state_directory()), before);
}

#[test]
fn a_running_job_is_well_and_its_process_is_named() {
    let job =
        Job::last_bid(&input::events(400_000)).set("source", "rate-limit-rows-per-second", 2_000);
    let mut running = job.start();
    job.wait_for_checkpoint(&mut running, 2);
    for _ in 0..5 {
        let (findings, summary) = found(&doctor(&job.file()).success());
        assert_eq!(findings, Vec::<Value>::new());
        let owner = summary["running"].as_str().unwrap_or_default();
        assert!(owner.starts_with(&format!("process {} ", running.process())), "{summary}");
    }
    assert!(running.is_running());
    running.terminate().success();
}

#[test]
fn damaged_and_missing_files_are_named_with_a_way_out() {
    let job = finished();
    let data = data_file(&job);
    let whole = std::fs::read(&data).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let name = data.file_name().unwrap().to_str().unwrap();
    check_problem(doctor(&job.file()), "job__last-bid__last", &[name, "checksum", "--checkpoint"]);
    std::fs::remove_file(&data).unwrap();
    check_problem(doctor(&job.file()), "job__last-bid__last", &[name]);
    std::fs::write(&data, whole).unwrap();
    doctor(&job.file()).success();

    let newest = job.checkpoints().pop().unwrap().id;
    let document = format!("checkpoints/checkpoint-{newest}.json");
    let document = job.state_directory().join(document);
    let mut bytes = std::fs::read(&document).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&document, bytes).unwrap();
    let name = document.file_name().unwrap().to_str().unwrap();
    check_problem(doctor(&job.state_directory()), name, &["damaged", "if it is the newest"]);
}

#[test]
fn what_a_crash_leaves_is_a_note() {
    let job = finished();
    let orphan = data_file(&job).with_file_name("data-orphan.parquet");
    std::fs::write(&orphan, "nothing").unwrap();
    let (findings, summary) = found(&doctor(&job.file()).success());
    assert_eq!((findings.len(), &summary["healthy"]), (1, &true.into()), "{findings:?}");
    let text = findings[0].to_string();
    for words in ["\"note\"", "1 files of 7 bytes", "data-orphan.parquet", "its next start removes"]
    {
        assert!(text.contains(words), "`{words}` is not in {text}");
    }
}

#[test]
fn a_pin_of_nothing_a_start_that_was_broken_off_and_a_wrong_file_are_problems() {
    let job = finished();
    let pin = job.state_directory().join("checkpoints/checkpoint-9999.pin");
    std::fs::write(&pin, "").unwrap();
    check_problem(doctor(&job.file()), "checkpoint 9999", &["there is no such", "unpin"]);
    std::fs::remove_file(&pin).unwrap();
    let mark = job.state_directory().join("fresh-start");
    std::fs::write(&mark, "a start from the savepoint x was broken off").unwrap();
    check_problem(doctor(&job.state_directory()), "fresh-start", &["broken off", "--fresh"]);
    std::fs::remove_file(&mark).unwrap();
    let job = job.set("operator", "component", quoted("gone.wasm"));
    check_problem(doctor(&job.file()), "pipeline.toml", &["gone.wasm"]);
    let job = job.set("source", "pathh", quoted("x"));
    check_problem(doctor(&job.file()), "pipeline.toml", &["pathh"]);
    doctor(Path::new("nowhere.toml")).failed(2, &["there is no nowhere.toml"]);
}

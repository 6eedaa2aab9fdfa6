//! The same operator in several languages: the same output and state, byte for byte, and each goes
//! on from the checkpoint of another. A language whose toolchain is not set up is left out.

use crate::support::job::quoted;
use crate::support::{Job, input};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

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

/// A row of `every-kind`: key, verb, number, time.
type Word = (&'static str, &'static str, i64, i64);

/// When their times begin.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// Rows that do everything, and always the same.
fn words(rows: i64) -> Vec<Word> {
    const KEYS: [&str; 4] = ["a", "b", "c", "naïve"];
    const VERBS: [&str; 14] = [
        "put", "get", "delete", "append", "list", "enter", "remove", "entry", "entries", "add",
        "total", "clear", "timer", "get",
    ];
    let mut random = 1_u64;
    let mut below = |limit: u64| {
        // Knuth's generator; its upper bits are good enough.
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((random >> 33) % limit).unwrap()
    };
    (0..rows)
        .map(|row| {
            let number = i64::try_from(below(10)).unwrap();
            (KEYS[below(4)], VERBS[below(14)], number, EPOCH_MS + row)
        })
        .collect()
}

/// What one key has in every kind of state.
#[derive(Default)]
struct Model {
    value: Option<i64>,
    list: Vec<i64>,
    map: BTreeMap<i64, i64>,
    total: Option<(i64, i64, i64)>,
}

/// Numbers folded into one.
fn digits(numbers: impl Iterator<Item = i64>) -> i64 {
    numbers.fold(0, |folded, number| (folded * 10 + number) % 1_000_000_007)
}

impl Model {
    /// What is emitted for a row. Timers fire for its time, sooner or later.
    fn take(&mut self, (_, verb, number, at): Word) -> Option<i64> {
        match verb {
            "put" => self.value = Some(number),
            "get" => return Some(self.value.unwrap_or(-1)),
            "delete" => self.value = None,
            "append" => self.list.push(number),
            "list" => return Some(digits(self.list.iter().copied())),
            "enter" => drop(self.map.insert(number, 2 * number)),
            "remove" => drop(self.map.remove(&number)),
            "entry" => return Some(self.map.get(&number).copied().unwrap_or(-1)),
            "entries" => {
                return Some(digits(self.map.range(number..).take(3).map(|entry| *entry.0)));
            }
            "add" => {
                let (sum, least, count) = self.total.unwrap_or((0, number, 0));
                self.total = Some((sum + number, least.min(number), count + 1));
            }
            "total" => {
                let folded = |(sum, least, count)| sum * 10_000 + least * 1_000 + count;
                return Some(self.total.map_or(-1, folded));
            }
            "clear" => *self = Self { value: self.value, ..Self::default() },
            "timer" => return Some(at + 5_000),
            _ => panic!("no verb {verb}"),
        }
        None
    }
}

/// A job over these rows, which are in a file of a directory that lives as long as they.
fn every_kind(component: &Path, words: &[Word]) -> (Job, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let events = directory.path().join("words.csv");
    let mut text = "key,verb,number,at\n".to_owned();
    for (key, verb, number, at) in words {
        writeln!(text, "{key},{verb},{number},{at}").unwrap();
    }
    std::fs::write(&events, text).unwrap();
    let job = last_bid(component)
        .set("operator", "name", quoted("every-kind"))
        .set("source", "path", quoted(&events.to_string_lossy()))
        .set("source", "event-time", quoted("at"))
        .without("source.filter", "event_type");
    (job, directory)
}

#[test]
fn every_kind_of_state_and_timers_answer_as_a_model_in_each_language() {
    let words = words(3_000);
    let mut models = BTreeMap::<_, Model>::new();
    let answer_to = |word: &Word| {
        let (key, verb, ..) = *word;
        let answer = models.entry(key).or_default().take(*word)?;
        Some(format!(r#"{{"key":"{key}","verb":"{verb}","answer":{answer}}}"#))
    };
    let mut expected: Vec<String> = words.iter().filter_map(answer_to).collect();
    // Timers fire between batches, and where those end is a matter of luck.
    expected.sort();
    for (language, component) in operators("every-kind") {
        let (job, _events) = every_kind(&component, &words);
        job.run_to_end();
        let text = output_of_subtasks(&job).into_values().collect::<Vec<_>>().concat();
        let text = String::from_utf8(text).unwrap();
        let mut answers: Vec<&str> = text.lines().collect();
        answers.sort_unstable();
        let first = answers.iter().zip(&expected).find(|(answer, expected)| answer != expected);
        assert_eq!(first, None, "{language}");
        assert_eq!(answers.len(), expected.len(), "{language}");
    }
}

#[test]
fn a_failure_arrives_with_its_message_and_where_it_was() {
    let words = [("a", "put", 1, EPOCH_MS), ("a", "fail", 7, EPOCH_MS + 1)];
    for (language, component) in operators("every-kind") {
        let (job, _events) = every_kind(&component, &words);
        let failed =
            job.set("operator.failure", "restarts", 0).run(&[]).failed(1, &["cannot take 7"]);
        let (exception, place) = match language {
            "python" => ("ValueError", "every_kind.py"),
            "js" => ("RangeError", "every-kind.js"),
            _ => ("", ""),
        };
        for words in [exception, place] {
            assert!(failed.stderr.contains(words), "{language}: {}", failed.stderr);
        }
    }
}

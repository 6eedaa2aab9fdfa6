//! One operator, written in the language of each SDK, does everything that the contract has, and is
//! compared with a model; and the languages with each other, in all that they emit and store.
//!
//! A language whose toolchain is not set up is left out; `cargo xtask test` says which.

mod cases;
mod job;
mod model;
mod random;
mod rows;

use crate::support::in_all_languages;
use howdah_operator_artifacts::CONFORMANCE;
use howdah_runtime::Component;
use job::{CONFIG, Job, Outcome, Step, limits};
use model::{Model, sort_timers};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use rows::Command;
use std::sync::LazyLock;

/// The operator in each language that is set up; Rust first.
static OPERATORS: LazyLock<Vec<(&str, Component)>> =
    LazyLock::new(|| in_all_languages("conformance", CONFORMANCE));

/// The jobs that a sequence of steps is for: one in each language, and one that goes on in the next
/// language after each crash.
fn jobs() -> Vec<(&'static str, Job)> {
    let mut jobs: Vec<_> =
        OPERATORS.iter().map(|(language, component)| (*language, Job::new(&[component]))).collect();
    if OPERATORS.len() > 1 {
        let all: Vec<_> = OPERATORS.iter().map(|(_, component)| component).collect();
        jobs.push(("all in turns", Job::new(&all)));
    }
    jobs
}

/// What a model says of the order of timers, and a job does not.
fn check_due(due: &mut Vec<Command>) -> TestCaseResult {
    let announced = due.pop_if(|last| last.command == "on-watermark");
    for family in ["event", "processing"] {
        let times = due.iter().filter(|row| row.command == family).map(|row| row.number);
        prop_assert!(times.is_sorted(), "{family}: {due:?}");
    }
    sort_timers(due);
    due.extend(announced);
    Ok(())
}

/// Runs the steps in all languages. Their states and outputs are as the model says, and the same.
fn check(steps: &[Step]) -> TestCaseResult {
    let mut jobs = jobs();
    let mut model = Model::new(jobs[0].1.spec().inputs[1].schema());
    for (number, step) in steps.iter().enumerate() {
        let expected = model.step(step);
        let mut first: Option<Outcome> = None;
        for (language, job) in &mut jobs {
            let at = format!("{language}, step {number}");
            match (job.step(step), &expected) {
                (Ok(mut outcome), Ok(expected)) => {
                    // In the same order in all languages.
                    if let Some(first) = &first {
                        prop_assert_eq!(&outcome, first, "{}", &at);
                    } else {
                        let again = Outcome {
                            results: outcome.results.clone(),
                            due: outcome.due.clone(),
                            state: outcome.state.clone(),
                            ..Outcome::default()
                        };
                        check_due(&mut outcome.due)?;
                        without_positions(&mut outcome);
                        prop_assert_eq!(&outcome, expected, "{}", &at);
                        first = Some(Outcome { echoes: outcome.echoes, ..again });
                    }
                }
                (Err(error), Err(message)) => {
                    let error = error.to_string();
                    prop_assert!(error.contains(message.as_str()), "{}: {}", at, error);
                    job.start();
                }
                (outcome, expected) => {
                    prop_assert!(false, "{at}: {outcome:?}, but the model says {expected:?}");
                }
            }
        }
        if expected.is_err() {
            model.crash();
        }
    }
    Ok(())
}

/// The model does not know the positions of a list's elements, which rise, but not by one.
fn without_positions(outcome: &mut Outcome) {
    for (table, rows) in &mut outcome.state {
        if table.ends_with("__list") {
            for row in rows.iter_mut() {
                let cells = row.split(' ').filter(|cell| !cell.starts_with("position="));
                *row = cells.collect::<Vec<_>>().join(" ");
            }
            rows.sort();
        }
    }
}

/// So many cases; `HOWDAH_TEST_FULL=1` asks for more.
fn cases(cases: u32) -> ProptestConfig {
    let times = if std::env::var_os("HOWDAH_TEST_FULL").is_some() { 10 } else { 1 };
    ProptestConfig { cases: cases * times, max_shrink_iters: 200, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn random_commands_are_obeyed_alike_in_all_languages(steps in random::steps()) {
        check(&steps)?;
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn random_columns_come_back_through_all_languages(rows in random::values(60)) {
        let steps = [
            Step::Values(rows.clone()),
            Step::Values(rows.clone()),
            Step::Barrier,
            Step::Crash,
            Step::Values(rows),
            Step::Close,
        ];
        check(&steps)?;
    }
}

#[test]
fn what_describe_says_is_the_same_in_all_languages() {
    let specs: Vec<_> = OPERATORS
        .iter()
        .map(|(language, component)| (language, component.describe(CONFIG, &limits()).unwrap()))
        .collect();
    for (language, spec) in &specs {
        assert_eq!(spec, &specs[0].1, "{language}");
    }
}

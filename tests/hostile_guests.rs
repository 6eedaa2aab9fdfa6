//! An operator that misbehaves stops its own pipeline with a clear error; another pipeline in the
//! same process, on the same engine, finishes correctly meanwhile.

use crate::support::rows::{last_of_each_key, output};
use crate::support::{Job, input, job, oracle};
use howdah_pipeline::{ErrorKind, Pipeline, PipelineConfig, StartOptions, Summary};
use howdah_runtime::{Engine, EngineOptions};

const EVENTS: u32 = 50_000;

/// How to misbehave, and what the error must say.
const MODES: [(&str, &str); 14] = [
    ("loop", "time"),
    ("allocate", "memory"),
    ("panic", "told to panic"),
    ("recurse", "stack"),
    ("error", "told to fail"),
    ("short-data", "column"),
    ("offsets-past-end", "offset"),
    ("invalid-utf8", "UTF-8"),
    ("wrong-column-count", "columns"),
    ("huge-rows", "rows"),
    ("undeclared-port", "output"),
    ("leak-handles", "limits.handles"),
    ("forged-handle", "unknown handle"),
    ("aliased-output", "limits.batch-bytes"),
];

fn hostile(mode: &str) -> Job {
    Job::hostile(&input::events(EVENTS))
        .set("operator.config", "mode", job::quoted(mode))
        .set("operator.config", "after_batches", 2)
        .set("operator.limits", "call-timeout-ms", 300)
        .set("operator.limits", "memory-bytes", 16 << 20)
}

/// Its events are where all tests share them.
fn load(job: &Job) -> howdah_pipeline::Result<PipelineConfig> {
    let mut config = PipelineConfig::load(&job.file())?;
    config.directories.allow([job::scratch()]);
    Ok(config)
}

fn run(job: &Job, engine: &Engine) -> howdah_pipeline::Result<Summary> {
    Pipeline::prepare(load(job)?, engine)?.start(StartOptions::default())?.wait()
}

#[test]
fn a_hostile_operator_stops_only_its_own_pipeline() {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let honest = Job::auction_stats(&input::events(EVENTS)).set(
        "source",
        "rate-limit-rows-per-second",
        20_000,
    );
    let running = Pipeline::prepare(load(&honest).unwrap(), &engine)
        .unwrap()
        .start(StartOptions::default())
        .unwrap();

    for (mode, said) in MODES {
        let job = hostile(mode);
        let error = run(&job, &engine).expect_err(mode);
        assert_eq!(error.kind(), ErrorKind::Operator, "{mode}: {error}");
        let message = error.to_string();
        assert!(message.contains(said), "{mode}: `{said}` is not in: {message}");
        assert!(message.contains("hostile"), "{mode}: the operator is not named: {message}");
    }

    let summary = running.wait().unwrap();
    assert!(summary.finished);
    let answer = oracle::answer(&honest, &input::events(EVENTS), "auction-stats", None);
    let shape = honest.output_shape;
    let rows = last_of_each_key(&output(&honest), &shape);
    oracle::assert_rows(&rows, &shape, shape.columns, &answer);
}

#[test]
fn an_honest_hostile_operator_finishes() {
    // Or the other test would pass for the wrong reason.
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let summary = run(&hostile("none"), &engine).unwrap();
    assert!(summary.finished);
    assert_eq!(summary.rows_out, 46_000);
}

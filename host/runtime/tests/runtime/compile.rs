//! Compiling in a worker: whatever becomes of the worker, the host gets an error and goes on. The
//! workers here are shell scripts; the tests of the command line have the real one.
#![cfg(unix)]

use howdah_operator_artifacts::HOSTILE;
use howdah_runtime::{CompileWorker, Engine, EngineOptions, Error, ErrorKind, Limits, LoadOptions};
use std::path::Path;

fn worker(script: &str) -> CompileWorker {
    let arguments = ["-c", script].map(Into::into).to_vec();
    CompileWorker { executable: "/bin/sh".into(), arguments }
}

/// What loading a component says when it is compiled by this worker.
fn refused_by(worker: CompileWorker, limits: &Limits) -> Error {
    let options = EngineOptions {
        instances_limit: 1,
        compile_worker: Some(worker),
        ..EngineOptions::default()
    };
    Engine::new(options).unwrap().load_with_limits(Path::new(HOSTILE), limits).unwrap_err()
}

#[track_caller]
fn fails(script: &str, limits: &Limits, kind: ErrorKind, message: &str) {
    let error = refused_by(worker(script), limits);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().starts_with(&format!("{HOSTILE} {message}")), "{error}");
}

#[test]
fn a_worker_that_takes_too_long_is_ended() {
    let limits = Limits { compile_timeout_ms: 100, ..Limits::default() };
    let message = "takes more than 100 ms to compile (limits.compile-timeout-ms): raise the limit \
                   if you trust the component, or build a smaller one";
    fails("exec sleep 600", &limits, ErrorKind::Limit, message);
}

#[test]
fn no_more_are_compiled_at_once_than_the_limit() {
    let directory = tempfile::TempDir::new().unwrap();
    // Fails where another one runs.
    let running = directory.path().join("running");
    let script = format!(
        "mkdir {0} || {{ echo two at once >&2; exit 3; }}; sleep 0.02; rmdir {0}; exit 4",
        running.display()
    );
    let options = EngineOptions {
        instances_limit: 1,
        compile_worker: Some(worker(&script)),
        compile_workers_limit: 1,
        ..EngineOptions::default()
    };
    let engine = Engine::new(options).unwrap();
    std::thread::scope(|scope| {
        let load = |tenant: usize| {
            let options = LoadOptions { tenant: format!("{}", tenant % 2), ..Default::default() };
            let engine = &engine;
            scope.spawn(move || engine.load_with(Path::new(HOSTILE), &options).unwrap_err())
        };
        let loads: Vec<_> = (0..6).map(load).collect();
        for load in loads {
            let error = load.join().unwrap().to_string();
            assert!(error.contains("exit status: 4"), "{error}");
        }
    });
}

#[test]
fn a_worker_that_used_up_its_processor_time_took_too_long() {
    let message = "takes more than 300000 ms to compile (limits.compile-timeout-ms)";
    fails("kill -XCPU $$", &Limits::default(), ErrorKind::Limit, message);
}

#[test]
fn a_worker_without_memory_says_so() {
    let message = "takes more than 2 GiB of memory to compile (limits.compile-memory-bytes)";
    let script = "echo memory allocation of 99 bytes failed >&2; kill -ABRT $$";
    fails(script, &Limits::default(), ErrorKind::Limit, message);
}

#[test]
fn a_compiler_that_crashes_is_told_with_its_last_words() {
    let message = "cannot be compiled: the process that compiled it ended with exit status: 3; it \
                   said: out of ideas";
    let script = "echo out of ideas >&2; exit 3";
    fails(script, &Limits::default(), ErrorKind::Component, message);
}

#[test]
fn a_worker_that_answers_nonsense_is_refused() {
    let message = "cannot be compiled: ";
    fails("echo nonsense", &Limits::default(), ErrorKind::Component, message);
}

#[test]
fn only_the_first_of_many_last_words_are_kept() {
    let error = refused_by(worker("yes | head -c 3000000 >&2; exit 1"), &Limits::default());
    assert!(error.to_string().len() < 8 << 10, "{} bytes", error.to_string().len());
}

#[test]
fn a_worker_that_is_not_there_is_named() {
    let missing = CompileWorker { executable: "no/such/worker".into(), arguments: Vec::new() };
    let error = refused_by(missing, &Limits::default());
    assert_eq!(error.kind(), ErrorKind::Host);
    assert!(error.to_string().starts_with("cannot start no/such/worker, "), "{error}");
}

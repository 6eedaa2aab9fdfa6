//! Components that are built to hurt whoever compiles them: the worker ends, the host does not.

use crate::support::job::howdah;
use crate::support::{Job, input};
use howdah_operator_artifacts::LAST_BID;
use howdah_runtime::{CompileWorker, Engine, EngineOptions, ErrorKind, Limits};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

fn engine() -> Engine {
    let worker = CompileWorker {
        executable: env!("CARGO_BIN_EXE_howdah").into(),
        arguments: vec!["compile-worker".into()],
    };
    let options = EngineOptions {
        instances_limit: 4,
        compile_worker: Some(worker),
        ..EngineOptions::default()
    };
    Engine::new(options).unwrap()
}

/// A number as WebAssembly writes it.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        if number == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

fn section(number: u8, content: &[u8]) -> Vec<u8> {
    [vec![number], leb128(content.len()), content.to_vec()].concat()
}

/// A component with so many functions, each of some million bytes of arithmetic.
fn bomb(functions: usize, body_bytes: usize) -> Vec<u8> {
    // local 0 = local 0 * 77 + local 0 rotated by 3
    const STEP: [u8; 13] = [0x20, 0, 0x41, 0xcd, 0, 0x6c, 0x20, 0, 0x41, 3, 0x77, 0x6a, 0x21];
    let steps = [STEP.as_slice(), &[0]].concat().repeat(body_bytes / 14);
    let body = [vec![0], steps, vec![0x20, 0, 0x0b]].concat();
    let body = [leb128(body.len()), body].concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f]),
        section(3, &[leb128(functions), vec![0; functions]].concat()),
        section(10, &[leb128(functions), body.repeat(functions)].concat()),
    ];
    [b"\0asm\x0d\0\x01\0".to_vec(), section(1, &module.concat())].concat()
}

fn file(directory: &TempDir, component: &[u8]) -> PathBuf {
    let path = directory.path().join("bomb.wasm");
    std::fs::write(&path, component).unwrap();
    path
}

#[test]
fn a_component_that_takes_too_long_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &bomb(400, 100_000));
    let limits = Limits { compile_timeout_ms: 500, ..Limits::default() };
    let error = engine().load_with_limits(&path, &limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let expected = "bomb.wasm takes more than 500 ms to compile (limits.compile-timeout-ms): ";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_component_that_takes_too_much_memory_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &bomb(1, 5_000_000));
    let limits = Limits { compile_memory_bytes: 128 << 20, ..Limits::default() };
    let error = engine().load_with_limits(&path, &limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let expected = "bomb.wasm takes more than 128 MiB of memory to compile \
                    (limits.compile-memory-bytes): ";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_component_compiled_by_a_worker_runs() {
    let engine = engine();
    let fuel = Limits { call_fuel: Some(1_000_000), ..Limits::default() };
    for limits in [Limits::default(), fuel] {
        let component = engine.load_with_limits(Path::new(LAST_BID), &limits).unwrap();
        assert_eq!(component.describe("{}", &limits).unwrap().states.len(), 1);
    }
}

#[test]
fn a_component_that_a_worker_cannot_compile_is_refused_as_without_one() {
    let directory = TempDir::new().unwrap();
    let whole = std::fs::read(LAST_BID).unwrap();
    let path = file(&directory, &whole[..whole.len() / 2]);
    let refused = |engine: Engine| engine.load(&path).unwrap_err();
    let error = refused(engine());
    assert_eq!(error.kind(), ErrorKind::Component);
    let without = refused(Engine::new(EngineOptions::default()).unwrap());
    assert_eq!(error.to_string(), without.to_string());
}

#[test]
fn a_pipeline_states_the_limits_of_compiling() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &bomb(400, 100_000));
    let job = Job::last_bid(&input::events(1_000))
        .set("operator", "component", crate::support::job::quoted(&path.to_string_lossy()))
        .set("operator.limits", "compile-timeout-ms", 300);
    job.run(&[]).failed(1, &["takes more than 300 ms to compile", "compile-timeout-ms"]);
}

#[test]
fn a_worker_that_is_asked_nothing_sensible_says_so() {
    let mut command = howdah();
    command.arg("compile-worker").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut worker = command.stderr(Stdio::piped()).spawn().unwrap();
    worker.stdin.take().unwrap().write_all(&[7; 100]).unwrap();
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("asked in another way than this one knows"), "{said}");
}

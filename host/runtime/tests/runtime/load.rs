//! What a file that is not a fitting operator is told.

use howdah_operator_artifacts::{CONFORMANCE, LAST_BID};
use howdah_runtime::{Component, Engine, EngineOptions, Error, ErrorKind, Inspection};
use std::sync::LazyLock;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::new(EngineOptions { instances_limit: 4, ..EngineOptions::default() }).unwrap()
});

fn load(bytes: &[u8]) -> Result<Component, Error> {
    ENGINE.load_bytes("op.wasm", bytes)
}

#[track_caller]
fn refused(text: &str) -> String {
    refused_bytes(&wat::parse_str(text).unwrap())
}

#[track_caller]
fn refused_bytes(bytes: &[u8]) -> String {
    let error = load(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Component);
    error.to_string()
}

/// A component that exports these functions of an interface, all without parameters.
fn exporting(interface: &str, functions: &[&str], imports: &str) -> String {
    let exports: String =
        functions.iter().map(|name| format!("(export \"{name}\" (func $f))")).collect();
    format!(
        "(component {imports}
           (core module $m (func (export \"f\")))
           (core instance $m (instantiate $m))
           (func $f (canon lift (core func $m \"f\")))
           (instance $i {exports})
           (export \"{interface}\" (instance $i)))"
    )
}

const ALL: [&str; 5] = ["describe", "open", "process", "on-barrier", "close"];
const OPERATOR: &str = "howdah:operator/operator@0.1.0";

#[test]
fn an_empty_file() {
    assert_eq!(refused_bytes(b""), "op.wasm is empty");
}

#[test]
fn a_file_that_is_no_wasm() {
    assert_eq!(refused_bytes(b"#!/bin/sh"), "op.wasm is no WebAssembly file");
}

#[test]
fn a_text_file() {
    assert_eq!(
        refused_bytes(b"\n (component)"),
        "op.wasm is WebAssembly text: turn it into a binary with `wasm-tools parse`"
    );
}

#[test]
fn a_core_module() {
    let error = refused("(module)");
    let expected = "op.wasm is a core module, not a component: `howdah build` makes one";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_file_that_is_cut_off() {
    let bytes = wat::parse_str(exporting(OPERATOR, &ALL, "")).unwrap();
    for len in [5, 7, 9, bytes.len() - 1] {
        let error = refused_bytes(&bytes[..len]);
        assert!(error.starts_with("op.wasm is cut off: build or copy it again"), "{len}: {error}");
    }
}

/// Where the sections of a component end. Cut there it is another component, which lacks what follows.
fn section_ends(component: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (vec![8], 8);
    while at < component.len() {
        // A byte for its kind, then its length, seven bits a byte.
        let length = component[at + 1..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let bytes = component[at + 1..].iter().take(length).enumerate();
        let size: usize = bytes.map(|(index, byte)| usize::from(byte & 0x7f) << (7 * index)).sum();
        at += 1 + length + size;
        ends.push(at);
    }
    ends
}

/// With a prefix of every length that is a whole number of these.
fn assert_refused_when_cut(path: &str, step: usize) {
    let whole = std::fs::read(path).unwrap();
    let ends = section_ends(&whole);
    assert_eq!(ends.last(), Some(&whole.len()));
    for len in (0..whole.len()).step_by(step) {
        let error = refused_bytes(&whole[..len]);
        if ends.contains(&len) {
            assert!(error.starts_with("op.wasm does not export"), "{len} bytes: {error}");
            continue;
        }
        let said = match len {
            0 => "op.wasm is empty",
            _ => "op.wasm is cut off: build or copy it again",
        };
        assert!(error.starts_with(said), "{len} bytes: {error}");
        let inspected = Inspection::of("op.wasm", &whole[..len]);
        assert!(inspected.is_err(), "{len} bytes were inspected");
    }
}

#[test]
fn operators_that_are_cut_off_anywhere() {
    for path in [LAST_BID, CONFORMANCE] {
        assert_refused_when_cut(path, 1 << 10);
    }
}

#[test]
fn interpreters_that_are_cut_off_anywhere() {
    for (variable, step) in
        [("HOWDAH_OPERATORS_JS", 40 << 10), ("HOWDAH_OPERATORS_PYTHON", 1 << 20)]
    {
        let Some(directory) = std::env::var_os(variable) else { continue };
        let path = std::path::Path::new(&directory).join("last-bid.wasm");
        assert_refused_when_cut(path.to_str().unwrap(), step);
    }
}

#[test]
fn a_damaged_file() {
    let mut bytes = wat::parse_str(exporting(OPERATOR, &ALL, "")).unwrap();
    bytes[8] = 0x7f;
    let error = refused_bytes(&bytes);
    assert!(error.starts_with("op.wasm is no component that this host can compile ("), "{error}");
}

#[test]
fn a_proposal_that_is_off() {
    let error = refused("(component (core module (memory i64 1)))");
    assert!(error.contains("memory64"), "{error}");
    let error = refused("(component (core module (memory 1 1 shared)))");
    assert!(error.contains("threads"), "{error}");
    let error = refused("(component (core module (func $f (return_call $f))))");
    assert!(error.contains("tail calls"), "{error}");
}

#[test]
fn a_module_with_two_memories_of_its_own() {
    let error = refused("(component (core module (memory 1) (memory 1)))");
    assert!(error.contains("memories count of 2 exceeds the per-instance limit"), "{error}");
}

#[test]
fn a_component_that_exports_no_operator() {
    assert_eq!(
        refused("(component)"),
        "op.wasm does not export howdah:operator/operator@0.1.1: build it for world \
         howdah:operator/stateful-operator"
    );
}

#[test]
fn a_component_that_lacks_a_function() {
    assert_eq!(
        refused(&exporting(OPERATOR, &["describe", "open", "on-barrier", "close"], "")),
        "op.wasm lacks the function `process` of howdah:operator/operator@0.1.1"
    );
}

#[test]
fn a_component_with_another_signature() {
    let error = refused(&exporting(OPERATOR, &ALL, ""));
    let expected = "op.wasm has a function `describe` with another signature than that of \
                    howdah:operator/operator@0.1.1: ";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_component_built_for_another_version() {
    assert_eq!(
        refused(&exporting("howdah:operator/operator@0.2.0", &ALL, "")),
        "op.wasm was built for howdah:operator@0.2.0, but this host has howdah:operator@0.1.1: \
         build it with the SDK of that version"
    );
}

#[test]
fn a_component_that_imports_another_version() {
    let import = "(import \"howdah:operator/state@0.2.1\" (instance))";
    let error = refused(&exporting("howdah:operator/operator@0.2.1", &ALL, import));
    assert!(error.contains("was built for howdah:operator@0.2.1"), "{error}");
}

#[test]
fn a_component_that_imports_wasi() {
    let import = "(import \"wasi:cli/environment@0.2.3\" (instance))";
    let error = refused(&exporting(OPERATOR, &ALL, import));
    assert!(
        error.starts_with(
            "op.wasm imports wasi:cli/environment@0.2.3: an operator has it where both grant it: add \
             [operator.wasi] to the pipeline file, and --allow-wasi to the command line; or build a \
             pure component"
        ),
        "{error}"
    );
}

#[test]
fn a_component_that_imports_something_unknown() {
    let import = "(import \"acme:queue/push@1.0.0\" (instance))";
    assert_eq!(
        refused(&exporting(OPERATOR, &ALL, import)),
        "op.wasm imports acme:queue/push@1.0.0, which this host does not have: an operator may \
         import state, timers, clock, logging and metrics of howdah:operator"
    );
    let error = refused("(component (import \"now\" (func)))");
    assert!(error.contains("imports now, which this host does not have"), "{error}");
}

#[test]
fn a_component_that_imports_an_interface_from_the_future() {
    let import = "(import \"howdah:operator/joins@0.1.3\" (instance))";
    assert_eq!(
        refused(&exporting(OPERATOR, &ALL, import)),
        "op.wasm imports howdah:operator/joins@0.1.3, which this host (0.1.1) does not have"
    );
}

#[test]
fn a_component_that_imports_a_function_from_the_future() {
    let import = "(import \"howdah:operator/logging@0.1.0\" (instance (export \"flush\" (func))))";
    let error = refused(&exporting(OPERATOR, &ALL, import));
    assert!(
        error.contains("wants something else from howdah:operator")
            && error.contains("`flush`")
            && error.contains("0.1.1"),
        "{error}"
    );
}

#[test]
fn a_component_that_imports_a_function_with_another_signature() {
    let import = "(import \"howdah:operator/logging@0.1.0\" \
                  (instance (export \"log\" (func (param \"message\" string)))))";
    let error = refused(&exporting(OPERATOR, &ALL, import));
    assert!(
        error.contains("wants something else from howdah:operator") && error.contains("`log`"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_there() {
    let error = ENGINE.load("no/such.wasm".as_ref()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Host);
    assert!(error.to_string().starts_with("cannot read component no/such.wasm: "), "{error}");
}

//! `howdah inspect` shows what is in a component, without running it.

use crate::support::{Finished, job};
use serde_json::Value;
use std::path::Path;

fn inspect(component: &Path, arguments: &[&str]) -> Finished {
    let mut command = job::howdah();
    Finished::of(command.arg("inspect").arg(component).args(arguments).output().unwrap())
}

#[test]
fn it_shows_where_bytes_go_and_the_contract_as_wit() {
    let component = Path::new(howdah_operator_artifacts::LAST_BID);
    let text = inspect(component, &[]).success().stdout;
    for words in ["language      Rust", "memory from 1", "process: func(input: input)"] {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
    let facts = inspect(component, &["--output", "json"]).success().stdout;
    let facts: Value = serde_json::from_str(&facts).unwrap();
    assert_eq!(facts["bytes"], std::fs::metadata(component).unwrap().len());
    assert_eq!(facts["differences"], Value::Array(Vec::new()));
    let wit = inspect(component, &["--wit"]).success().stdout;
    assert!(wit.starts_with("package root:component;"), "{wit}");
}

#[test]
fn a_file_that_is_no_component_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("core.wasm");
    std::fs::write(&file, b"\0asm\x01\0\0\0").unwrap();
    inspect(&file, &[]).failed(1, &["core.wasm is a core module", "howdah build"]);
    inspect(&directory.path().join("none.wasm"), &[]).failed(2, &["none.wasm"]);
}

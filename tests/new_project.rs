//! `howdah new` makes a project that passes its own test, builds, and runs.

use crate::support::{Finished, is_full, job};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `howdah` in a directory.
fn howdah(directory: &Path, arguments: &[&str]) -> Finished {
    Finished::of(job::howdah().current_dir(directory).args(arguments).output().unwrap())
}

/// Builds that tests share, so that only the first compiles what projects stand on.
fn shared_target() -> PathBuf {
    job::scratch().join("new-project")
}

/// A command in a project, as its author types it; nothing may be downloaded.
fn typed(project: &Path, program: &str, arguments: &[&str]) -> Finished {
    let mut command = Command::new(program);
    command.current_dir(project).args(arguments);
    command.env("CARGO_TARGET_DIR", shared_target()).env("CARGO_NET_OFFLINE", "true");
    Finished::of(command.output().unwrap())
}

/// Builds a project and runs its pipeline; the highest bids are in its output and its state.
fn build_and_run(project: &Path) {
    let mut build = job::howdah();
    build.arg("build").current_dir(project);
    build.env("CARGO_TARGET_DIR", shared_target()).env("CARGO_NET_OFFLINE", "true");
    let built = Finished::of(build.output().unwrap()).success();
    assert!(built.stderr.contains("made my-first.wasm"), "{}", built.stderr);
    assert!(built.stdout.contains("it runs on this host"), "{}", built.stdout);
    howdah(project, &["run", "pipeline.toml"]).success();
    let output = std::fs::read_dir(project.join("output")).unwrap();
    let files = output.map(|entry| entry.unwrap());
    let parts = files.filter(|file| file.file_name().to_string_lossy().starts_with("part-"));
    let rows: Vec<String> = parts
        .map(|part| std::fs::read_to_string(part.path()).unwrap())
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let arguments = ["state", "get", "pipeline.toml", "highest", "auction=2", "--output", "csv"];
    let state = howdah(project, &arguments).success().stdout;
    assert!(state.lines().any(|line| line.ends_with(",2,71")), "{state}");
}

#[test]
fn a_rust_project_passes_its_test_builds_and_runs() {
    if !is_full() {
        return; // It compiles the SDK twice.
    }
    let directory = tempfile::tempdir().unwrap();
    howdah(directory.path(), &["new", "--lang", "rust", "my-first"]).success();
    let project = directory.path().join("my-first");
    let tested = typed(&project, "cargo", &["test"]).success();
    assert!(tested.stdout.contains("2 passed"), "{}", tested.stdout);
    build_and_run(&project);
}

#[test]
fn a_python_project_passes_its_test_builds_and_runs() {
    let binary = Path::new(env!("CARGO_BIN_EXE_howdah"));
    let toolchain = binary.ancestors().nth(2).unwrap().join("toolchains/python/bin");
    if !is_full() || !toolchain.join("componentize-py").is_file() {
        return; // `cargo xtask setup --python` gets what it needs.
    }
    let directory = tempfile::tempdir().unwrap();
    howdah(directory.path(), &["new", "--lang", "python", "my-first"]).success();
    let project = directory.path().join("my-first");
    let python = toolchain.join("python");
    typed(&project, python.to_str().unwrap(), &["-m", "unittest"]).success();
    build_and_run(&project);
}

#[test]
fn a_c_project_passes_its_test_builds_and_runs() {
    let binary = Path::new(env!("CARGO_BIN_EXE_howdah"));
    let toolchain = binary.ancestors().nth(2).unwrap().join("toolchains/c/bin/python");
    if !is_full() || !toolchain.is_file() {
        return; // `cargo xtask setup --c` gets what it needs.
    }
    let directory = tempfile::tempdir().unwrap();
    howdah(directory.path(), &["new", "--lang", "c", "my-first"]).success();
    let project = directory.path().join("my-first");
    let test = "cc -I howdah -o my_first_test my_first_test.c howdah/*.c && ./my_first_test";
    typed(&project, "sh", &["-c", test]).success();
    build_and_run(&project);
}

#[test]
fn a_javascript_project_passes_its_test_builds_and_runs() {
    let binary = Path::new(env!("CARGO_BIN_EXE_howdah"));
    let toolchain = binary.ancestors().nth(2).unwrap().join("toolchains/js/node_modules");
    if !is_full() || !toolchain.is_dir() {
        return; // `cargo xtask setup --js` gets what it needs.
    }
    let directory = tempfile::tempdir().unwrap();
    howdah(directory.path(), &["new", "--lang", "js", "my-first"]).success();
    let project = directory.path().join("my-first");
    typed(&project, "node", &["--test"]).success();
    build_and_run(&project);
}

#[test]
fn a_project_has_an_operator_its_test_a_pipeline_and_events_under_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let made = howdah(directory.path(), &["new", "--lang", "rust", "my-first"]).success();
    assert!(made.stdout.contains("howdah build"), "{}", made.stdout);
    let text =
        |file: &str| std::fs::read_to_string(directory.path().join("my-first").join(file)).unwrap();
    assert!(text("Cargo.toml").contains("name = \"my-first\""));
    assert!(text("pipeline.toml").contains("component = \"my-first.wasm\""));
    assert!(text("src/lib.rs").contains("#[test]"));
    assert!(text("README.md").contains("howdah run pipeline.toml"));
    assert!(text("events.csv").lines().count() > 3);
}

#[test]
fn nothing_is_overwritten_and_names_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("taken")).unwrap();
    let refused = |name: &str, said: &str| {
        howdah(directory.path(), &["new", "--lang", "rust", name]).failed(2, &[said]);
    };
    refused("taken", "is there already");
    refused("My_First", "`my-first` would do");
    refused("struct", "`my-struct`");
    let arguments = ["new", "--lang", "rust", "my-first", "--sdk", "/no-such"];
    howdah(directory.path(), &arguments).failed(2, &["/no-such", "--sdk"]);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "something was made");
}

#[test]
fn what_is_no_project_is_not_built() {
    let directory = tempfile::tempdir().unwrap();
    howdah(directory.path(), &["build"]).failed(2, &["no project of an operator", "howdah new"]);
    howdah(directory.path(), &["build", "none"]).failed(2, &["none is no directory"]);
}

#[test]
fn what_the_compiler_says_comes_through() {
    let directory = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"a\"\n[lib]\nname = \"no name\"\n[workspace]\n";
    std::fs::write(directory.path().join("Cargo.toml"), manifest).unwrap();
    howdah(directory.path(), &["build"]).failed(1, &["no name", "cargo build failed"]);
}

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
fn an_operator_that_could_not_run_is_refused_and_what_was_built_before_stays() {
    let binary = Path::new(env!("CARGO_BIN_EXE_howdah"));
    let toolchain = binary.ancestors().nth(2).unwrap().join("toolchains/js/node_modules");
    if !toolchain.is_dir() {
        return; // `cargo xtask setup --js` gets what it needs.
    }
    let directory = tempfile::tempdir().unwrap();
    howdah(directory.path(), &["new", "--lang", "js", "my-first"]).success();
    let project = directory.path().join("my-first");
    let file = |name: &str| project.join(name);
    let source = std::fs::read_to_string(file("my-first.js")).unwrap();
    let clashing = source.replace("valueState({ price:", "valueState({ Auction:");
    assert_ne!(source, clashing);
    std::fs::write(file("my-first.js"), clashing).unwrap();
    std::fs::write(file("my-first.wasm"), "built before").unwrap();
    let built = howdah(&project, &["build"]).failed(1, &["is called like a key field: rename it"]);
    assert!(!built.stderr.contains("made my-first.wasm"), "{}", built.stderr);
    assert_eq!(std::fs::read_to_string(file("my-first.wasm")).unwrap(), "built before");

    std::fs::write(file("my-first.js"), source.replace("static key", "static ? key")).unwrap();
    howdah(&project, &["build"]).failed(1, &["my-first.js:", "SyntaxError"]);
    assert!(!file("my-first.unchecked.wasm").exists());
}

#[test]
fn an_operator_in_rust_that_needs_files_is_built_with_wasi() {
    let installed = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "wasm32-wasip2"])
        .output()
        .is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir());
    if !is_full() || !installed {
        return; // It compiles the SDK; `rustup target add wasm32-wasip2` gets what it needs.
    }
    let directory = tempfile::tempdir().unwrap();
    howdah(directory.path(), &["new", "--lang", "rust", "my-files"]).success();
    let project = directory.path().join("my-files");
    let source = project.join("src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    let with_file = text.replacen(
        "        let ",
        "        assert_eq!(std::fs::read_to_string(\"/rates/rate\").unwrap(), \"1\");\n        let ",
        1,
    );
    assert_ne!(text, with_file);
    std::fs::write(&source, with_file).unwrap();
    let build = |arguments: &[&str]| {
        let mut build = job::howdah();
        build.arg("build").args(arguments).current_dir(&project);
        build.env("CARGO_TARGET_DIR", shared_target()).env("CARGO_NET_OFFLINE", "true");
        Finished::of(build.output().unwrap()).success()
    };
    let without = build(&[]);
    assert!(without.stderr.contains("src/lib.rs uses std::fs"), "{}", without.stderr);
    let with = build(&["--wasi"]);
    assert!(
        with.stdout.contains("where [operator.wasi] and --allow-wasi grant it"),
        "{}",
        with.stdout
    );

    std::fs::create_dir(project.join("rates")).unwrap();
    std::fs::write(project.join("rates/rate"), "1").unwrap();
    let pipeline = std::fs::read_to_string(project.join("pipeline.toml")).unwrap();
    let granted = "\n[operator.wasi.directories]\n\"/rates\" = \"rates\"\n";
    std::fs::write(project.join("pipeline.toml"), pipeline + granted).unwrap();
    // The section says it too.
    assert!(!build(&[]).stderr.contains("uses std::fs"));
    howdah(&project, &["run", "pipeline.toml", "--allow-wasi", "--allow-read", "."]).success();
}

/// The page of its SDK is in the project, or the project says where it is.
#[test]
fn a_project_has_the_page_of_its_sdk() {
    let directory = tempfile::tempdir().unwrap();
    for (language, said) in
        [("python", "@bids.each"), ("js", "static states"), ("c", "howdah_timer_set")]
    {
        howdah(directory.path(), &["new", "--lang", language, language]).success();
        let project = directory.path().join(language);
        let text = |file: &str| std::fs::read_to_string(project.join(file)).unwrap();
        assert!(text("README.md").contains("(howdah/README.md)"), "{language}");
        assert!(text("howdah/README.md").contains(said), "{language}");
    }
    howdah(directory.path(), &["new", "--lang", "rust", "my-rust"]).success();
    let readme = std::fs::read_to_string(directory.path().join("my-rust/README.md")).unwrap();
    let page = readme.split('`').find(|part| part.ends_with("/guest-sdk/rust/README.md"));
    assert!(Path::new(page.unwrap()).is_file(), "{readme}");
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

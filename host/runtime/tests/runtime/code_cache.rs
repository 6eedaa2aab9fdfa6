//! Compiled code that is kept between runs.

use howdah_operator_artifacts::HOSTILE;
use howdah_runtime::{Component, Engine, EngineOptions, Limits};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn load(directory: &Path) -> Component {
    let options = EngineOptions {
        cache_directory: Some(directory.to_owned()),
        instances_limit: 1,
        ..EngineOptions::default()
    };
    Engine::new(options).unwrap().load(Path::new(HOSTILE)).unwrap()
}

/// The only file in the cache.
fn file(directory: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

#[test]
fn a_component_from_the_cache_is_the_component() {
    let directory = TempDir::new().unwrap();
    let compiled = load(directory.path());
    let name = file(directory.path()).file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with(compiled.digest()) && name.ends_with(".cwasm"), "{name}");
    let cached = load(directory.path());
    assert_eq!(cached.digest(), compiled.digest());
    let describe = |component: &Component| component.describe("{}", &Limits::default()).unwrap();
    assert_eq!(describe(&cached), describe(&compiled));
}

#[test]
fn a_second_start_reads_the_file_and_leaves_it_alone() {
    let directory = TempDir::new().unwrap();
    load(directory.path());
    let path = file(directory.path());
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    load(directory.path());
    assert_eq!(fs::metadata(file(directory.path())).unwrap().modified().unwrap(), written);
}

#[test]
fn a_damaged_file_is_compiled_anew_and_mended() {
    let directory = TempDir::new().unwrap();
    load(directory.path());
    let path = file(directory.path());
    let whole = fs::metadata(&path).unwrap().len();
    fs::write(&path, &fs::read(&path).unwrap()[..1000]).unwrap();
    let component = load(directory.path());
    component.describe("{}", &Limits::default()).unwrap();
    assert_eq!(fs::metadata(file(directory.path())).unwrap().len(), whole);
}

#[test]
fn a_cache_directory_that_cannot_be_made_does_no_harm() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, b"in the way").unwrap();
    load(&path).describe("{}", &Limits::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"in the way");
}

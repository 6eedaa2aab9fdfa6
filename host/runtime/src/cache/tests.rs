use super::*;
use tempfile::TempDir;

const DIGEST: &str = "00ff";

fn engine() -> Engine {
    Engine::default()
}

fn compiled(engine: &Engine) -> Component {
    Component::from_binary(engine, &wat::parse_str("(component (core module))").unwrap()).unwrap()
}

/// A cache with one component in it, and the path of its file.
fn filled(engine: &Engine) -> (TempDir, CodeCache, PathBuf) {
    let directory = TempDir::new().unwrap();
    let cache = CodeCache::new(directory.path().join("not/yet/there"));
    cache.put(engine, DIGEST, &compiled(engine));
    let path = cache.path(engine, DIGEST);
    (directory, cache, path)
}

#[test]
fn what_was_put_is_found_again() {
    let engine = engine();
    let (_directory, cache, _) = filled(&engine);
    assert!(cache.get(&engine, DIGEST).is_some());
    assert!(cache.get(&engine, "0100").is_none());
}

#[test]
fn no_temporary_file_stays() {
    let (_directory, _, path) = filled(&engine());
    let names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names, [path]);
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_not_loaded() {
    let engine = engine();
    let (_directory, cache, path) = filled(&engine);
    let whole = fs::read(&path).unwrap();
    for len in [0, 7, 8, 23, 24, 25, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(cache.get(&engine, DIGEST).is_none(), "cut off after {len} bytes");
    }
}

#[test]
fn a_file_with_one_wrong_bit_is_not_loaded() {
    let engine = engine();
    let (_directory, cache, path) = filled(&engine);
    let whole = fs::read(&path).unwrap();
    for position in [0, 8, 23, 24, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[position] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(cache.get(&engine, DIGEST).is_none(), "bit in byte {position} flipped");
    }
}

/// What runs is what was checked, even if the file is cut off meanwhile.
#[test]
fn a_file_that_is_cut_off_once_it_is_loaded_does_no_harm() {
    let engine = engine();
    let (_directory, cache, path) = filled(&engine);
    let component = cache.get(&engine, DIGEST).unwrap();
    fs::write(&path, b"").unwrap();
    let linker = wasmtime::component::Linker::new(&engine);
    let mut store = wasmtime::Store::new(&engine, ());
    linker.instantiate(&mut store, &component).unwrap();
    assert!(cache.get(&engine, DIGEST).is_none());
}

#[test]
fn nobody_can_change_what_is_sealed() {
    let sealed = Sealed::copy(&b"code"[..], |_| ()).unwrap();
    assert_eq!(fs::read(sealed.path()).unwrap(), b"code");
    assert!(fs::write(sealed.path(), b"").is_err());
    let mut again = fs::OpenOptions::new().write(true).open(sealed.path()).unwrap();
    assert!(again.write_all(b"edoc").is_err());
    assert!(again.set_len(2).is_err());
    assert_eq!(fs::read(sealed.path()).unwrap(), b"code");
}

#[test]
fn a_file_of_another_component_is_not_loaded() {
    let engine = engine();
    let (_directory, cache, path) = filled(&engine);
    fs::copy(&path, cache.path(&engine, "0100")).unwrap();
    assert!(cache.get(&engine, "0100").is_none());
}

#[test]
fn code_that_wasmtime_refuses_is_not_loaded() {
    let engine = engine();
    let (_directory, cache, path) = filled(&engine);
    let code = b"no compiled code";
    cache.write(&path, &[MAGIC, &checksum(DIGEST, code), code]).unwrap();
    assert!(cache.get(&engine, DIGEST).is_none());
}

#[test]
fn a_damaged_file_is_replaced() {
    let engine = engine();
    let (_directory, cache, path) = filled(&engine);
    fs::write(&path, b"damaged").unwrap();
    cache.put(&engine, DIGEST, &compiled(&engine));
    assert!(cache.get(&engine, DIGEST).is_some());
}

#[test]
fn a_directory_that_cannot_be_written_does_no_harm() {
    let engine = engine();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    let cache = CodeCache::new(file);
    cache.put(&engine, DIGEST, &compiled(&engine));
    assert!(cache.get(&engine, DIGEST).is_none());
}

#[test]
fn engines_that_compile_differently_do_not_share_files() {
    let (_directory, cache, path) = filled(&engine());
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let other = Engine::new(&config).unwrap();
    assert_ne!(cache.path(&other, DIGEST), path);
    assert_eq!(cache.path(&engine(), DIGEST), path);
    assert!(cache.get(&other, DIGEST).is_none());
}

//! States of many rows that are loaded once and linked into each run.

use crate::ours::Ours;
use crate::rocksdb::{Compaction, Library, RocksDb};
use crate::workload::{Keys, Shape, VALUE_BYTES, present, value_of};
use anyhow::{Context, Result};
use howdah_state::{Restore, StoreOptions};
use std::fs;
use std::path::{Path, PathBuf};

/// Rows written at a time while loading.
const BATCH_ROWS: u64 = 50_000;

/// A directory with loaded states, and one to work in.
pub(crate) struct Bases {
    directory: PathBuf,
    /// Tells one build of this program from another.
    build: String,
}

/// A loaded state of ours.
pub(crate) struct Base {
    pub(crate) directory: PathBuf,
    pub(crate) snapshot: i64,
}

impl Bases {
    pub(crate) fn new(directory: &Path) -> Result<Self> {
        let program = std::env::current_exe()?;
        let metadata = fs::metadata(&program)?;
        let modified = metadata.modified()?.duration_since(std::time::UNIX_EPOCH)?;
        let build = format!("{} {}", metadata.len(), modified.as_nanos());
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let directory = std::path::absolute(directory)?;
        Ok(Self { directory, build })
    }

    /// An empty directory to work in.
    pub(crate) fn work(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join("work").join(name);
        remove(&path)?;
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Removes what was worked on.
    pub(crate) fn clean(&self) -> Result<()> {
        remove(&self.directory.join("work"))
    }

    /// A state of ours with these rows in one sorted run, in a directory to work in.
    pub(crate) fn ours(&self, shape: Shape, rows: u64) -> Result<Base> {
        self.ours_parallel(shape, rows, 1)
    }

    /// The same with several subtasks, and one sorted run for each.
    pub(crate) fn ours_parallel(&self, shape: Shape, rows: u64, parallelism: u32) -> Result<Base> {
        self.ours_named("howdah", shape, rows, parallelism)
    }

    /// The same under a name of its own, so that several can be worked on at once.
    pub(crate) fn ours_named(
        &self,
        name: &str,
        shape: Shape,
        rows: u64,
        parallelism: u32,
    ) -> Result<Base> {
        let loaded = self.directory.join(format!("howdah-{shape:?}-{rows}-{parallelism}"));
        let stamp = loaded.join("stamp");
        let snapshot = match read_stamp(&stamp, &self.build) {
            Some(snapshot) => snapshot,
            None => {
                remove(&loaded)?;
                let snapshot = load_ours(&loaded.join("warehouse"), shape, rows, parallelism)?;
                fs::write(&stamp, format!("{}\n{snapshot}", self.build))?;
                snapshot
            }
        };
        let work = self.work(name)?;
        copy(&loaded.join("warehouse"), &work)?;
        Ok(Base { directory: work, snapshot })
    }

    /// A database of RocksDB with these rows in one sorted run, in a directory to work in.
    pub(crate) fn rocksdb(&self, library: &Library, shape: Shape, rows: u64) -> Result<PathBuf> {
        let loaded = self.directory.join(format!("{}-{shape:?}-{rows}", library.name));
        if !loaded.exists() {
            let directory = self.work("load-rocksdb")?;
            load_rocksdb(library, &directory, &loaded, shape, rows)?;
        }
        let work = self.work("rocksdb")?;
        copy(&loaded, &work)?;
        Ok(work)
    }
}

fn read_stamp(stamp: &Path, build: &str) -> Option<i64> {
    let text = fs::read_to_string(stamp).ok()?;
    let (of_build, snapshot) = text.split_once('\n')?;
    (of_build == build).then(|| snapshot.trim().parse().ok())?
}

/// What all rows begin with.
pub(crate) fn first_value(number: u64) -> [u8; VALUE_BYTES] {
    value_of(number, 1)
}

fn load_ours(directory: &Path, shape: Shape, rows: u64, parallelism: u32) -> Result<i64> {
    fs::create_dir_all(directory)?;
    let options = StoreOptions {
        sync: false,
        // Everything in one flush is one sorted run.
        write_buffer_limit_bytes: 1 << 30,
        read_cache_limit_bytes: 0,
        merge_trigger_runs: 50,
        ..StoreOptions::default()
    };
    let keys = Keys::new(shape)?;
    let mut ours = Ours::open_parallel(directory, shape, parallelism, options, Restore::Fresh)?;
    for start in (0..rows).step_by(BATCH_ROWS as usize) {
        let numbers: Vec<u64> = (start..rows.min(start + BATCH_ROWS)).map(present).collect();
        for (subtask, batch) in keys.split(&numbers, parallelism)?.iter().enumerate() {
            let values: Vec<_> = batch.numbers.iter().map(|&number| first_value(number)).collect();
            ours.put_in(subtask, batch, values.iter().map(<[u8; VALUE_BYTES]>::as_slice))?;
        }
    }
    let snapshot = ours.checkpoint()?.snapshot;
    ours.expect_runs(u64::from(parallelism))?;
    ours.close()?;
    Ok(snapshot)
}

fn load_rocksdb(
    library: &Library,
    directory: &Path,
    loaded: &Path,
    shape: Shape,
    rows: u64,
) -> Result<()> {
    let keys = Keys::new(shape)?;
    let mut rocksdb = RocksDb::open(library, directory, Compaction::Off)?;
    for start in (0..rows).step_by(BATCH_ROWS as usize) {
        let batch = keys.batch((start..rows.min(start + BATCH_ROWS)).map(present).collect())?;
        let values: Vec<_> =
            batch.sorted.numbers.iter().map(|&number| first_value(number)).collect();
        rocksdb.put(&batch.sorted, values.iter().map(<[u8; VALUE_BYTES]>::as_slice))?;
    }
    rocksdb.flush()?;
    rocksdb.compact();
    rocksdb.checkpoint(loaded)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Copies a directory; large files, which neither store ever changes, are linked.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let never_changed = matches!(
            entry.path().extension().and_then(std::ffi::OsStr::to_str),
            Some("parquet" | "sst")
        );
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if never_changed {
            fs::hard_link(entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

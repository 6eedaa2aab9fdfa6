//! Checkpoints outside the warehouse, and opening what is on disk.

use super::{Setting, short};
use crate::SUITE;
use crate::base::first_value;
use crate::ours::{Ours, TENANT};
use crate::workload::{Batch, Counted, Keys, Random, Shape, absent, distinct, present};
use anyhow::{Context, Result, ensure};
use howdah_bench_figures::{Bar, Figure};
use howdah_bench_figures::{Stopwatch, median};
use howdah_state::{CheckpointRequest, CheckpointStore, CheckpointTarget, Restore, StoreOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Keys of a batch.
const KEYS: u64 = 5000;
/// Sorted runs of the state that is restored; all but the first have deletion vectors upon them.
const RUNS: u64 = 5;

/// Restores a state in place, and from a checkpoint directory.
pub(crate) fn restore(
    setting: &Setting,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let rows = setting.most_rows();
    let mut state = State::open(setting, rows, "howdah")?;
    (1..RUNS).try_for_each(|_| state.change_rows())?;
    let probe = state.batch()?;
    let expected = state.ours.count(&probe)?;
    let (checkpoint, snapshot) = state.ours.newest();
    let target = setting.bases.work("checkpoints")?;
    let mut checkpoints = CheckpointStore::open(CheckpointTarget::directory(&target, false)?)?;
    state.keep(&mut checkpoints)?;
    let State { ours, warehouse, .. } = state;
    ours.close()?;

    let (mut in_place, mut elsewhere) = (Vec::new(), Vec::new());
    for _ in 0..setting.rounds(9) {
        let watch = Stopwatch::start();
        open_and_check(&warehouse, snapshot, &probe, expected)?.close()?;
        in_place.push(watch.cost().wall_s);
        let fresh = setting.bases.work("restored")?;
        let watch = Stopwatch::start();
        let restored = checkpoints.restore(checkpoint, &fresh, &|_| {})?;
        let (_, snapshot) = restored.tables.first().context("no table was restored")?;
        open_and_check(&fresh, *snapshot, &probe, expected)?.close()?;
        elsewhere.push(watch.cost().wall_s);
    }
    let figure = |how: &str, samples: &[f64]| {
        Figure::new(SUITE, format!("restore {}: {how}", short(rows)), "s", median(samples))
            .bar(Bar::AtMost(1.0))
            .detail(format!("{RUNS} runs, with a first probe; files in the page cache"))
    };
    report(figure("aligned, in place", &in_place))?;
    report(figure("aligned, checkpoint directory", &elsewhere))?;
    rescale(setting, rows, report)
}

/// Opens a state with another number of subtasks.
fn rescale(
    setting: &Setting,
    rows: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    const FROM: u32 = 2;
    const TO: u32 = 3;
    let keys = Keys::new(Shape::Int64)?;
    let mut random = Random(rows);
    let numbers = distinct((0..KEYS).map(|_| present(random.below(rows))).collect());
    let expected = numbers.iter().fold(Counted::default(), |mut counted, &number| {
        counted.see(number, Some(&first_value(number)));
        counted
    });
    let probes = keys.split(&numbers, TO)?;
    let mut samples = Vec::new();
    let mut rewritten_bytes = 0;
    for _ in 0..setting.rounds(5) {
        let base = setting.bases.ours_parallel(Shape::Int64, rows, FROM)?;
        let before = data_files(&base.directory)?;
        let watch = Stopwatch::start();
        let restore = Restore::Rescaled(base.snapshot);
        let mut ours = Ours::open_parallel(&base.directory, Shape::Int64, TO, options(), restore)?;
        let mut found = Counted::default();
        for (subtask, probe) in probes.iter().enumerate() {
            found += ours.count_in(subtask, probe)?;
        }
        samples.push(watch.cost().wall_s);
        ensure!(found == expected, "{found:?} found after the restore, {expected:?} before");
        let live = ours.table.metrics().rows;
        ensure!(live == rows, "{live} rows are there after the restore, {rows} before");
        let after = data_files(&base.directory)?;
        rewritten_bytes += after
            .iter()
            .filter(|(inode, _)| !before.contains_key(inode))
            .map(|(_, bytes)| bytes)
            .sum::<u64>();
        ours.close()?;
    }
    report(
        Figure::new(
            SUITE,
            format!("restore {}: rescale {FROM} -> {TO}", short(rows)),
            "s",
            median(&samples),
        )
        .bar(Bar::AtMost(2.0))
        .detail("with a first probe"),
    )?;
    let case = format!("restore {}: rescale, rewritten", short(rows));
    report(Figure::new(SUITE, case, "bytes", rewritten_bytes as f64).bar(Bar::AtMost(0.0)))
}

/// Bytes of each data file, by inode: a hard link is the same file.
fn data_files(directory: &Path) -> Result<BTreeMap<u64, u64>> {
    let mut files = BTreeMap::new();
    for path in files_in(directory)? {
        if path.extension().is_some_and(|extension| extension == "parquet") {
            let metadata = std::fs::metadata(&path)?;
            files.insert(metadata.ino(), metadata.len());
        }
    }
    Ok(files)
}

/// What a checkpoint outside the warehouse costs, with few files and with many. The two states
/// take turns: what a new file costs the file system changes with what was removed before.
pub(crate) fn checkpoints(
    setting: &Setting,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    const FEW_RUNS: u64 = 2;
    const MANY_RUNS: u64 = 39;
    const ROUNDS: usize = 10;
    let rows = setting.rows.first().copied().context("no number of rows")?;
    let mut few = Kept::open(setting, rows, FEW_RUNS)?;
    let mut many = Kept::open(setting, rows, MANY_RUNS)?;
    for _ in 0..ROUNDS {
        few.add_and_keep()?;
        many.add_and_keep()?;
    }
    few.state.ours.close()?;
    many.state.ours.close()?;
    let linked: Vec<f64> = few.linked.iter().chain(&many.linked).copied().collect();
    let new: Vec<f64> = few.new.iter().chain(&many.new).copied().collect();
    report(
        Figure::new(
            SUITE,
            format!("checkpoint {}: files linked", short(rows)),
            "files",
            median(&linked),
        )
        .against("new files of the table", Some(median(&new)))
        .bar(Bar::RatioAtMost(1.0))
        .detail("5,000 new rows"),
    )?;
    let case = format!("checkpoint {}: listing, {MANY_RUNS}-49 sorted runs", short(rows));
    report(
        Figure::new(SUITE, case, "ms", median(&many.listed_ms))
            .against("2-12 sorted runs, in turns", Some(median(&few.listed_ms)))
            .bar(Bar::RatioAtMost(1.3)),
    )
}

/// A state whose checkpoints are kept in a directory of their own, and what that took.
struct Kept {
    state: State,
    checkpoints: CheckpointStore,
    files: BTreeSet<PathBuf>,
    listed_ms: Vec<f64>,
    linked: Vec<f64>,
    /// Files that came to the table.
    new: Vec<f64>,
}

impl Kept {
    fn open(setting: &Setting, rows: u64, runs: u64) -> Result<Self> {
        let mut state = State::open(setting, rows, &format!("howdah-{runs}-runs"))?;
        let target = setting.bases.work(&format!("checkpoints-{runs}-runs"))?;
        let mut checkpoints = CheckpointStore::open(CheckpointTarget::directory(&target, false)?)?;
        (state.runs..runs).try_for_each(|_| state.add_rows())?;
        state.keep(&mut checkpoints)?;
        let files = files_in(&state.warehouse)?;
        let (listed_ms, linked, new) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { state, checkpoints, files, listed_ms, linked, new })
    }

    fn add_and_keep(&mut self) -> Result<()> {
        self.state.add_rows()?;
        let files = files_in(&self.state.warehouse)?;
        let (listing_s, linked) = self.state.keep(&mut self.checkpoints)?;
        self.listed_ms.push(listing_s * 1e3);
        self.linked.push(linked as f64);
        self.new.push(files.difference(&self.files).count() as f64);
        self.files = files;
        Ok(())
    }
}

fn options() -> StoreOptions {
    StoreOptions { sync: false, merge_trigger_runs: 50, ..StoreOptions::default() }
}

fn open_and_check(
    warehouse: &Path,
    snapshot: i64,
    probe: &Batch,
    expected: Counted,
) -> Result<Ours> {
    let mut ours = Ours::open(warehouse, Shape::Int64, options(), Restore::Snapshot(snapshot))?;
    let found = ours.count(probe)?;
    ensure!(found == expected, "{found:?} found after the restore, {expected:?} before");
    Ok(ours)
}

/// A state whose sorted runs are not merged.
struct State {
    ours: Ours,
    warehouse: PathBuf,
    keys: Keys,
    random: Random,
    rows: u64,
    runs: u64,
}

impl State {
    fn open(setting: &Setting, rows: u64, name: &str) -> Result<Self> {
        let base = setting.bases.ours_named(name, Shape::Int64, rows, 1)?;
        let restore = Restore::Snapshot(base.snapshot);
        let ours = Ours::open(&base.directory, Shape::Int64, options(), restore)?;
        let (warehouse, keys) = (base.directory, Keys::new(Shape::Int64)?);
        Ok(Self { ours, warehouse, keys, random: Random(rows), rows, runs: 1 })
    }

    fn batch(&mut self) -> Result<Batch> {
        let numbers = (0..KEYS).map(|_| present(self.random.below(self.rows))).collect();
        self.keys.batch(distinct(numbers))
    }

    /// Adds a sorted run with rows that take the place of others.
    fn change_rows(&mut self) -> Result<()> {
        let batch = self.batch()?;
        self.add_run(&batch)
    }

    /// Adds a sorted run with rows of keys that had none.
    fn add_rows(&mut self) -> Result<()> {
        let first = self.runs * KEYS;
        let batch = self.keys.batch((first..first + KEYS).map(absent).collect())?;
        self.add_run(&batch)
    }

    fn add_run(&mut self, batch: &Batch) -> Result<()> {
        self.runs += 1;
        self.ours.count_up(batch)?;
        self.ours.checkpoint()?;
        Ok(())
    }

    /// Brings the newest checkpoint to a target, and removes older ones there. Returns the
    /// seconds in which the files were listed, and how many were linked.
    fn keep(&mut self, checkpoints: &mut CheckpointStore) -> Result<(f64, usize)> {
        let (checkpoint, snapshot) = self.ours.newest();
        let watch = Stopwatch::start();
        let plan = checkpoints.begin(&CheckpointRequest {
            checkpoint,
            warehouse: &self.warehouse,
            tenant: TENANT,
            tables: &[(self.ours.table.name().to_owned(), snapshot)],
            payload: &[],
        })?;
        let listing_s = watch.cost().thread_cpu_s;
        checkpoints.transfer(&|_| {})?;
        checkpoints.confirm()?;
        checkpoints.subsume(checkpoint)?;
        Ok((listing_s, plan.new_files))
    }
}

/// Every file of a directory.
fn files_in(directory: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(files_in(&entry.path())?);
        } else {
            files.insert(entry.path());
        }
    }
    Ok(files)
}

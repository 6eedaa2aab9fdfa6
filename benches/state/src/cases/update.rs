//! The loop of a stateful operator: read the state of a batch of keys, count it up, write it back;
//! a checkpoint after every 100,000 records.

use super::{Setting, short};
use crate::SUITE;
use crate::base::first_value;
use crate::hash_map::HashMapStore;
use crate::ours::Ours;
use crate::rocksdb::{Compaction, RocksDb};
use crate::workload::{Batch, Counted, Keys, Random, Shape, absent, distinct, present, scatter};
use anyhow::{Result, ensure};
use howdah_bench_figures::{Bar, Figure};
use howdah_bench_figures::{Cost, Stopwatch, median, wait_until_idle};
use howdah_state::{Restore, StoreOptions};
use std::fs;
use std::path::PathBuf;

/// Records of a batch, before keys that repeat are put together.
const BATCH_RECORDS: u64 = 5000;
/// Batches between two checkpoints.
const CHECKPOINT_BATCHES: u64 = 20;

/// Checkpoints of a round: so many that merges and compactions are under way, and that the wait
/// for the last of them is a small part.
const CHECKPOINTS: u64 = 10;

/// Checkpoints of the hash map in a round: with many rows it takes seconds for each.
fn checkpoints_of_hash_map(rows: u64) -> u64 {
    if rows > 2_000_000 { 3 } else { 5 }
}

/// Records between two checkpoints.
const CHECKPOINT_RECORDS: u64 = CHECKPOINT_BATCHES * BATCH_RECORDS;

/// Which keys the records have.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Hit,
    Miss,
    Zipf,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Hit, Self::Miss, Self::Zipf];

    fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "90% miss",
            Self::Zipf => "zipf",
        }
    }
}

pub(crate) fn run(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    for &rows in &setting.rows {
        for kind in Kind::ALL {
            run_kind(setting, kind, rows, report)?;
        }
    }
    Ok(())
}

/// One of the stores, with a loop under way.
trait Store {
    fn count_up(&mut self, batch: &Batch) -> Result<Counted>;
    /// Begins a checkpoint, or does all of it.
    fn checkpoint(&mut self) -> Result<()>;
    /// Until the last checkpoint is complete.
    fn finish(&mut self) -> Result<()>;
}

fn run_kind(
    setting: &Setting,
    kind: Kind,
    rows: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let rounds = setting.rounds(3);
    let mut stream = Stream::new(kind, rows)?;
    let base = setting.bases.ours(Shape::Int64, rows)?;
    let options = StoreOptions::default();
    let sync = options.sync;
    let mut ours = OurStore(Ours::open(
        &base.directory,
        Shape::Int64,
        options,
        Restore::Snapshot(base.snapshot),
    )?);
    let mut rocksdb = match &setting.rocksdb {
        None => None,
        Some(library) => {
            let directory = setting.bases.rocksdb(library, Shape::Int64, rows)?;
            let database = RocksDb::open(library, &directory, Compaction::Automatic)?;
            Some(RocksDbStore { database, checkpoints: 0, previous: None })
        }
    };
    let mut hash_map = match setting.alone {
        true => None,
        false => {
            let mut hash_map = HashMapStore::new(&setting.bases.work("hash-map")?, sync);
            (0..rows).map(present).for_each(|number| hash_map.put(number, first_value(number)));
            Some(hash_map)
        }
    };

    let hash_map_checkpoints = checkpoints_of_hash_map(rows);
    let mut costs: [Vec<Cost>; 3] = Default::default();
    for _ in 0..rounds {
        let batches = stream.round()?;
        let (answers, cost) = time(&mut ours, &batches)?;
        costs[0].push(cost);
        if let Some(rocksdb) = &mut rocksdb {
            let (theirs, cost) = time(rocksdb, &batches)?;
            ensure!(answers == theirs, "howdah read {answers:?}, RocksDB {theirs:?}");
            costs[1].push(cost);
        }
        if let Some(hash_map) = &mut hash_map {
            let timed = (hash_map_checkpoints * CHECKPOINT_BATCHES) as usize;
            let (timed, rest) = batches.split_at(timed.min(batches.len()));
            let (mut theirs, cost) = time(hash_map, timed)?;
            for batch in rest {
                theirs += hash_map.count_up(batch);
            }
            ensure!(answers == theirs, "howdah read {answers:?}, the hash map {theirs:?}");
            costs[2].push(cost);
        }
    }
    ours.0.close()?;

    let records = |store: usize| {
        let checkpoints = if store == 2 { hash_map_checkpoints } else { CHECKPOINTS };
        (checkpoints * CHECKPOINT_RECORDS) as f64
    };
    let of = |store: usize, figure: &dyn Fn(&Cost) -> f64| {
        let figures: Vec<f64> = costs[store].iter().map(figure).collect();
        (!figures.is_empty()).then(|| median(&figures))
    };
    let speed = |store: usize| of(store, &|cost| records(store) / cost.wall_s / 1e3);
    let cpu_of = |store: usize| {
        let us = |time_s: f64| time_s / records(store) * 1e6;
        let [all, own] =
            [of(store, &|cost| us(cost.cpu_s)), of(store, &|cost| us(cost.thread_cpu_s))]
                .map(|us| us.unwrap_or(f64::NAN));
        format!("{all:.2} (caller {own:.2})")
    };
    let detail = |store: usize| match costs[store].is_empty() {
        false => format!("CPU {} / {} us", cpu_of(0), cpu_of(store)),
        true => format!("CPU {} us", cpu_of(0)),
    };
    let figure = |store: usize, name: &'static str, bar: Bar| {
        let case = format!("update {}: {}", short(rows), kind.name());
        Figure::new(SUITE, case, "K rec/s", speed(0).unwrap_or(f64::NAN))
            .against(name, speed(store))
            .bar(bar)
            .detail(detail(store))
    };
    report(figure(1, "RocksDB", Bar::RatioAtLeast(4.0)))?;
    let bar = if rows >= 5_000_000 { Bar::RatioAtLeast(2.0) } else { Bar::None };
    report(figure(2, "hash map", bar))
}

/// Runs a round and waits for its last checkpoint. CPU time goes on until the background is idle,
/// so that work that is put off is not work that is saved.
fn time(store: &mut dyn Store, batches: &[Batch]) -> Result<(Counted, Cost)> {
    let mut counted = Counted::default();
    let watch = Stopwatch::start();
    for (at, batch) in (1..).zip(batches) {
        counted += store.count_up(batch)?;
        if at % CHECKPOINT_BATCHES == 0 {
            store.checkpoint()?;
        }
    }
    store.finish()?;
    let cost = watch.cost();
    wait_until_idle();
    Ok((counted, Cost { cpu_s: watch.cost().cpu_s, ..cost }))
}

/// The records.
struct Stream {
    kind: Kind,
    rows: u64,
    keys: Keys,
    random: Random,
    /// New keys so far.
    new: u64,
}

impl Stream {
    fn new(kind: Kind, rows: u64) -> Result<Self> {
        let keys = Keys::new(Shape::Int64)?;
        Ok(Self { kind, rows, keys, random: Random(rows), new: 0 })
    }

    fn number(&mut self) -> u64 {
        match self.kind {
            Kind::Hit => present(self.random.below(self.rows)),
            Kind::Zipf => present(self.random.zipf_below(self.rows)),
            Kind::Miss if self.random.below(10) == 0 => present(self.random.below(self.rows)),
            Kind::Miss => {
                self.new += 1;
                // Each once.
                absent(scatter(self.new % self.rows, self.rows) + self.new / self.rows * self.rows)
            }
        }
    }

    fn round(&mut self) -> Result<Vec<Batch>> {
        (0..CHECKPOINTS * CHECKPOINT_BATCHES)
            .map(|_| {
                let numbers = (0..BATCH_RECORDS).map(|_| self.number()).collect();
                self.keys.batch(distinct(numbers))
            })
            .collect()
    }
}

struct OurStore(Ours);

impl Store for OurStore {
    fn count_up(&mut self, batch: &Batch) -> Result<Counted> {
        self.0.count_up(batch)
    }

    /// One is under way at a time, as in a pipeline.
    fn checkpoint(&mut self) -> Result<()> {
        self.0.wait_until_published()?;
        self.0.freeze()
    }

    fn finish(&mut self) -> Result<()> {
        self.0.wait_until_published().map(|_| ())
    }
}

struct RocksDbStore {
    database: RocksDb,
    checkpoints: u64,
    previous: Option<PathBuf>,
}

impl Store for RocksDbStore {
    fn count_up(&mut self, batch: &Batch) -> Result<Counted> {
        self.database.count_up(&batch.sorted)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.checkpoints += 1;
        let name = format!("checkpoint-{}", self.checkpoints);
        let directory = self.database.directory().join(name);
        self.database.checkpoint(&directory)?;
        if let Some(previous) = self.previous.replace(directory) {
            fs::remove_dir_all(previous)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Store for HashMapStore {
    fn count_up(&mut self, batch: &Batch) -> Result<Counted> {
        Ok(Self::count_up(self, batch))
    }

    fn checkpoint(&mut self) -> Result<()> {
        Self::checkpoint(self)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

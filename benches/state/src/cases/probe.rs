//! Lookups of 1,000 keys that no buffer knows.

use super::{Setting, short};
use crate::SUITE;
use crate::ours::Ours;
use crate::rocksdb::{Compaction, RocksDb};
use crate::workload::{
    Batch, Counted, Keys, Random, Shape, VALUE_BYTES, absent, distinct, present, value_of,
};
use anyhow::{Result, ensure};
use howdah_bench_figures::{Bar, Figure};
use howdah_bench_figures::{Cost, Stopwatch, median};
use howdah_state::{Restore, StoreOptions};

/// Keys of a batch.
const KEYS: u64 = 1000;
/// Batches between two changes from one store to the other.
const BATCHES: usize = 20;
/// Sorted runs after rows were superseded.
const RUNS: u64 = 5;
/// One row of so many is superseded by each of the newer runs: 10% by all four.
const SUPERSEDED_EACH: u64 = 40;

/// Which keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Evenly from all rows.
    UniformHit,
    /// From the newest tenth.
    ClusteredHit,
    /// Keys without a row, among those with one.
    Miss,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::UniformHit => "uniform hit",
            Self::ClusteredHit => "clustered hit",
            Self::Miss => "miss",
        }
    }

    fn number(self, rows: u64, random: &mut Random) -> u64 {
        match self {
            Self::UniformHit => present(random.below(rows)),
            Self::ClusteredHit => present(rows - 1 - random.below(rows / 10)),
            Self::Miss => absent(random.below(rows)),
        }
    }
}

/// Cases of one kind of key and size: kind, bar in one run, bar over several.
type Bars = &'static [(Kind, f64, Option<f64>)];

const INT64_BARS: Bars = &[
    (Kind::UniformHit, 0.5, Some(0.8)),
    (Kind::ClusteredHit, 0.4, Some(0.8)),
    (Kind::Miss, 1.0, Some(1.0)),
];
const OTHER_BARS: Bars = &[(Kind::UniformHit, 0.8, None)];

pub(crate) fn run(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    for &rows in &setting.rows {
        run_shape(setting, Shape::Int64, rows, INT64_BARS, report)?;
    }
    if let Some(&rows) = setting.rows.first() {
        run_shape(setting, Shape::TwoInt64, rows, OTHER_BARS, report)?;
        run_shape(setting, Shape::Text24, rows, OTHER_BARS, report)?;
    }
    Ok(())
}

/// Both stores with the same rows.
struct Pair {
    ours: Ours,
    rocksdb: Option<RocksDb>,
    keys: Keys,
    rows: u64,
    runs: u64,
}

fn run_shape(
    setting: &Setting,
    shape: Shape,
    rows: u64,
    bars: Bars,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let mut pair = Pair::load(setting, shape, rows)?;
    pair.warm()?;
    for &(kind, bar, _) in bars {
        report(pair.measure(setting, kind, bar)?)?;
    }
    if bars.iter().any(|(_, _, over_runs)| over_runs.is_some()) {
        pair.supersede()?;
        pair.warm()?;
        for &(kind, _, bar) in bars {
            if let Some(bar) = bar {
                report(pair.measure(setting, kind, bar)?)?;
            }
        }
    }
    pair.ours.close()
}

impl Pair {
    fn load(setting: &Setting, shape: Shape, rows: u64) -> Result<Self> {
        let base = setting.bases.ours(shape, rows)?;
        let options = StoreOptions {
            sync: false,
            read_cache_limit_bytes: 0,
            // A buffer that only holds what was read is thrown away at the end of each call, so
            // that each call probes the disk.
            write_buffer_limit_bytes: 1,
            merge_trigger_runs: 50,
            ..StoreOptions::default()
        };
        let ours = Ours::open(&base.directory, shape, options, Restore::Snapshot(base.snapshot))?;
        let rocksdb = match &setting.rocksdb {
            None => None,
            Some(library) => {
                let directory = setting.bases.rocksdb(library, shape, rows)?;
                Some(RocksDb::open(library, &directory, Compaction::Off)?)
            }
        };
        Ok(Self { ours, rocksdb, keys: Keys::new(shape)?, rows, runs: 1 })
    }

    /// Adds sorted runs whose rows take the place of some of the first one's.
    fn supersede(&mut self) -> Result<()> {
        for run in 1..RUNS {
            let ids = (0..self.rows).filter(|id| id % SUPERSEDED_EACH == run);
            let batch = self.keys.batch(ids.map(present).collect())?;
            let values = |numbers: &[u64]| -> Vec<_> {
                numbers.iter().map(|&number| value_of(number, run + 1)).collect()
            };
            let new = values(&batch.numbers);
            self.ours.put(&batch, new.iter().map(<[u8; VALUE_BYTES]>::as_slice))?;
            self.ours.checkpoint()?;
            if let Some(rocksdb) = &mut self.rocksdb {
                let new = values(&batch.sorted.numbers);
                rocksdb.put(&batch.sorted, new.iter().map(<[u8; VALUE_BYTES]>::as_slice))?;
                rocksdb.flush()?;
            }
        }
        self.runs = RUNS;
        Ok(())
    }

    /// What a probe has to find.
    fn expected(&self, batch: &Batch) -> Counted {
        let mut counted = Counted::default();
        for &number in &batch.numbers {
            let run = (number / 2) % SUPERSEDED_EACH;
            let counter = if run > 0 && run < self.runs { run + 1 } else { 1 };
            let value = value_of(number, counter);
            counted.see(number, (number % 2 == 0).then_some(&value));
        }
        counted
    }

    fn measure(&mut self, setting: &Setting, kind: Kind, bar: f64) -> Result<Figure> {
        self.ours.expect_runs(self.runs)?;
        self.check(kind)?;
        let mut random = Random(self.rows ^ kind as u64);
        let mut ours = Vec::new();
        let mut peer = Vec::new();
        for _ in 0..setting.rounds(15) {
            let batches = self.batches(kind, BATCHES, &mut random)?;
            ours.push(self.probe_ours(&batches)?);
            if self.rocksdb.is_some() {
                peer.push(self.probe_rocksdb(&batches)?);
            }
        }
        let of = |costs: &[Cost], figure: fn(&Cost) -> f64| {
            median(&costs.iter().map(figure).collect::<Vec<_>>()) * 1e3
        };
        let has_peer = self.rocksdb.is_some();
        let peer_of = |figure| has_peer.then(|| of(&peer, figure));
        let wall = match peer_of(|cost| cost.wall_s) {
            Some(peer) => format!("wall {:.3} / {peer:.3} ms", of(&ours, |cost| cost.wall_s)),
            None => format!("wall {:.3} ms", of(&ours, |cost| cost.wall_s)),
        };
        let runs = if self.runs == 1 { "1 run".to_owned() } else { format!("{} runs", self.runs) };
        let case = format!(
            "probe {} {}, {runs}: {}",
            short(self.rows),
            self.keys.shape.name(),
            kind.name()
        );
        Ok(Figure::new(SUITE, case, "CPU ms", of(&ours, |cost| cost.cpu_s))
            .against("RocksDB", peer_of(|cost| cost.cpu_s))
            .bar(Bar::RatioAtMost(bar))
            .detail(wall))
    }

    fn batches(&self, kind: Kind, count: usize, random: &mut Random) -> Result<Vec<Batch>> {
        (0..count)
            .map(|_| {
                let numbers = (0..KEYS).map(|_| kind.number(self.rows, random)).collect();
                self.keys.batch(distinct(numbers))
            })
            .collect()
    }

    /// Reads enough keys to have nearly every page and block in memory.
    fn warm(&mut self) -> Result<()> {
        // The blocks of RocksDB and our pages hold about 40 rows.
        let batches =
            self.batches(Kind::UniformHit, (self.rows / 8 / KEYS) as usize, &mut Random(0))?;
        self.count(&batches)
    }

    /// Checks that both stores find what they should.
    fn check(&mut self, kind: Kind) -> Result<()> {
        let batches = self.batches(kind, BATCHES, &mut Random(!self.rows))?;
        self.count(&batches)
    }

    fn count(&mut self, batches: &[Batch]) -> Result<()> {
        for batch in batches {
            let expected = self.expected(batch);
            ensure!(self.ours.count(batch)? == expected, "howdah gave wrong answers");
            if let Some(rocksdb) = &mut self.rocksdb {
                ensure!(rocksdb.count(&batch.sorted)? == expected, "RocksDB gave wrong answers");
            }
        }
        Ok(())
    }

    /// What a batch costs.
    fn probe_ours(&mut self, batches: &[Batch]) -> Result<Cost> {
        let probes = self.ours.table.metrics().probes_total;
        let (mut present, mut expected) = (0, 0);
        let watch = Stopwatch::start();
        for batch in batches {
            present += self.ours.get(&batch.keys)?.present.count_set_bits() as u64;
        }
        let cost = watch.cost();
        for batch in batches {
            expected += self.expected(batch).present;
        }
        ensure!(present == expected, "howdah found {present} keys of {expected}");
        let probed = self.ours.table.metrics().probes_total - probes;
        ensure!(probed == batches.len() as u64, "{probed} batches of {BATCHES} went to the disk");
        Ok(cost.each(batches.len()))
    }

    fn probe_rocksdb(&mut self, batches: &[Batch]) -> Result<Cost> {
        let Some(rocksdb) = &mut self.rocksdb else { return Ok(Cost::default()) };
        let (mut present, mut expected) = (0, 0);
        let mut values = Vec::new();
        let watch = Stopwatch::start();
        for batch in batches {
            present += rocksdb.get(&batch.sorted, &mut values)?;
        }
        let cost = watch.cost();
        for batch in batches {
            expected += self.expected(batch).present;
        }
        ensure!(present == expected, "RocksDB found {present} keys of {expected}");
        Ok(cost.each(batches.len()))
    }
}

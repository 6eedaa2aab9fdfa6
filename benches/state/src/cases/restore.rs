//! Opening a state that is on disk.

use super::{Setting, short};
use crate::figure::{Bar, Figure};
use crate::measure::{Stopwatch, median};
use crate::ours::Ours;
use crate::workload::{Counted, Keys, Random, Shape, distinct, present};
use anyhow::{Result, ensure};
use howdah_state::{Restore, StoreOptions};

/// Checkpoints after the state was loaded, each a sorted run with deletion vectors.
const CHECKPOINTS: u64 = 4;
const KEYS: u64 = 5000;

pub(crate) fn run(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    let rows = setting.most_rows();
    let base = setting.bases.ours(Shape::Int64, rows)?;
    let keys = Keys::new(Shape::Int64)?;
    let mut random = Random(rows);
    let mut batch =
        || keys.batch(distinct((0..KEYS).map(|_| present(random.below(rows))).collect()));
    let options = StoreOptions { sync: false, merge_trigger_runs: 50, ..StoreOptions::default() };
    let open = |snapshot| {
        Ours::open(&base.directory, Shape::Int64, options.clone(), Restore::Snapshot(snapshot))
    };
    let mut ours = open(base.snapshot)?;
    let mut snapshot = base.snapshot;
    for _ in 0..CHECKPOINTS {
        for _ in 0..20 {
            ours.count_up(&batch()?)?;
        }
        snapshot = ours.checkpoint()?.snapshot;
    }
    let probe = batch()?;
    let expected = ours.count(&probe)?;
    ours.close()?;
    let mut samples = Vec::new();
    for _ in 0..setting.rounds(9) {
        let watch = Stopwatch::start();
        let mut ours = open(snapshot)?;
        let found: Counted = ours.count(&probe)?;
        samples.push(watch.cost().wall_s);
        ensure!(found == expected, "{found:?} found after the restore, {expected:?} before");
        ours.close()?;
    }
    let case = format!("restore {}: aligned, with the first probe", short(rows));
    report(
        Figure::new(case, "s", median(&samples))
            .bar(Bar::AtMost(1.0))
            .detail(format!("{} runs, files in the page cache", CHECKPOINTS + 1)),
    )
}

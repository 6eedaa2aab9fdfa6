//! What a barrier costs: the part that the operator waits for, and the part in the background.

use super::{Setting, short};
use crate::SUITE;
use crate::ours::Ours;
use crate::workload::{Batch, Keys, Random, Shape, VALUE_BYTES, present, scatter, value_of};
use anyhow::Result;
use howdah_bench_figures::{Bar, Figure};
use howdah_bench_figures::{Cost, Stopwatch, median, percentile};
use howdah_state::{Restore, StoreOptions};

/// Keys of a batch.
const BATCH_KEYS: u64 = 5000;
/// Rows that change between two barriers of [`synchronous`].
const MANY_ROWS: u64 = 100_000;
/// Rows that change between two barriers of [`background`].
const FEW_ROWS: u64 = 10_000;
/// Checkpoints at both ends of a long run that are compared.
const ENDS: usize = 100;

/// The part that the operator waits for, at two sizes of the state.
pub(crate) fn synchronous(
    setting: &Setting,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    for rows in [MANY_ROWS, setting.most_rows().max(MANY_ROWS)] {
        let mut ours = open(setting, rows, StoreOptions::default())?;
        let mut random = Random(rows);
        let mut samples = Vec::new();
        for round in 0..setting.rounds(100) as u64 {
            for batch in changed(rows, MANY_ROWS, &mut random)? {
                let values: Vec<_> =
                    batch.numbers.iter().map(|&number| value_of(number, round)).collect();
                ours.put(&batch, values.iter().map(<[u8; VALUE_BYTES]>::as_slice))?;
            }
            let watch = Stopwatch::start();
            ours.freeze()?;
            samples.push(watch.cost());
            ours.wait_until_published()?;
        }
        ours.close()?;
        let of = |figure: fn(&Cost) -> f64| -> Vec<f64> {
            samples.iter().map(|cost| figure(cost) * 1e3).collect()
        };
        let wall = of(|cost| cost.wall_s);
        // On a machine that is busy otherwise, the thread that is woken may take the core.
        let cpu_p99 = percentile(&of(|cost| cost.thread_cpu_s), 0.99);
        let case = format!("barrier {}: 100K changed rows, p99", short(rows));
        let detail = format!("median {:.3}, its CPU p99 {cpu_p99:.3}", median(&wall));
        report(
            Figure::new(SUITE, case, "ms", percentile(&wall, 0.99))
                .bar(Bar::AtMost(1.0))
                .detail(detail),
        )?;
    }
    Ok(())
}

/// From the barrier to the snapshot, and whether it stays as quick.
pub(crate) fn background(
    setting: &Setting,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let rows = setting.most_rows();
    let options = StoreOptions { sync: false, ..StoreOptions::default() };
    let mut ours = open(setting, rows, options)?;
    let mut random = Random(rows);
    let mut samples = Vec::new();
    for _ in 0..if setting.quick { 4 * ENDS } else { 20 * ENDS } {
        for batch in changed(rows, FEW_ROWS, &mut random)? {
            ours.count_up(&batch)?;
        }
        samples.push(ours.checkpoint()?.background_s * 1e3);
    }
    ours.close()?;
    let case = format!("background {}: 10K changed rows, median", short(rows));
    report(
        Figure::new(SUITE, case, "ms", median(&samples))
            .bar(Bar::AtMost(30.0))
            .detail(format!("no fsync, p99 {:.1}", percentile(&samples, 0.99))),
    )?;
    let first = median(&samples[..ENDS]);
    let last = median(&samples[samples.len() - ENDS..]);
    let case = format!("background {}: after {} checkpoints", short(rows), samples.len());
    report(
        Figure::new(SUITE, case, "ms", last)
            .against("its first 100", Some(first))
            .bar(Bar::RatioAtMost(1.3)),
    )
}

fn open(setting: &Setting, rows: u64, options: StoreOptions) -> Result<Ours> {
    let base = setting.bases.ours(Shape::Int64, rows)?;
    Ours::open(&base.directory, Shape::Int64, options, Restore::Snapshot(base.snapshot))
}

/// Batches of rows all over the state, each row once.
fn changed(rows: u64, count: u64, random: &mut Random) -> Result<Vec<Batch>> {
    let keys = Keys::new(Shape::Int64)?;
    let start = random.below(rows);
    (0..count.min(rows))
        .step_by(BATCH_KEYS as usize)
        .map(|from| {
            let at = |n| present(scatter((start + from + n) % rows, rows));
            keys.batch((0..BATCH_KEYS).map(at).collect())
        })
        .collect()
}

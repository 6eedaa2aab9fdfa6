//! What a state takes: heap, and bytes on disk.

use super::{Setting, short};
use crate::SUITE;
use crate::heap;
use crate::ours::Ours;
use crate::workload::{Batch, Keys, Random, Shape, distinct, present};
use anyhow::{Context, Result};
use howdah_bench_figures::wait_until_idle;
use howdah_bench_figures::{Bar, Figure};
use howdah_state::{Restore, StoreOptions};
use std::path::Path;

const MIB: f64 = (1 << 20) as f64;
/// Keys of a batch.
const KEYS: u64 = 5000;
/// Batches between two checkpoints.
const CHECKPOINT_BATCHES: usize = 20;
/// Checkpoints of steady updates.
const CHECKPOINTS: usize = 40;

/// Heap without and with updates under way.
pub(crate) fn memory(
    setting: &Setting,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let rows = setting.most_rows();
    let batches = batches(rows, 3 * CHECKPOINT_BATCHES)?;
    let base = setting.bases.ours(Shape::Int64, rows)?;
    let open = |options| {
        Ours::open(&base.directory, Shape::Int64, options, Restore::Snapshot(base.snapshot))
    };
    heap::start();
    // A buffer that only holds what was read is thrown away.
    let mut ours = open(StoreOptions { write_buffer_limit_bytes: 1, ..StoreOptions::default() })?;
    for batch in &batches {
        ours.count(batch)?;
    }
    let at_rest = heap::bytes() as f64 / MIB;
    ours.close()?;
    let leaked = heap::bytes() as f64 / MIB;
    report(
        Figure::new(
            SUITE,
            format!("memory {}: heap, write buffer empty", short(rows)),
            "MiB",
            at_rest,
        )
        .bar(Bar::AtMost(64.0))
        .detail(format!("{leaked:.1} MiB when closed")),
    )?;
    let options = StoreOptions::default();
    let limit = options.write_buffer_limit_bytes as f64 / MIB;
    let cache = options.read_cache_limit_bytes as f64 / MIB;
    let mut ours = open(options)?;
    heap::take_peak_bytes();
    for (at, batch) in (1..).zip(&batches) {
        ours.count_up(batch)?;
        if at % CHECKPOINT_BATCHES == 0 {
            ours.checkpoint()?;
        }
    }
    let peak = heap::take_peak_bytes() as f64 / MIB;
    ours.close()?;
    heap::stop();
    report(
        Figure::new(SUITE, format!("memory {}: heap, peak of updates", short(rows)), "MiB", peak)
            .bar(Bar::AtMost(64.0 + limit))
            .detail(format!("write buffer up to {limit:.0} MiB, read cache up to {cache:.0} MiB")),
    )
}

/// Bytes on disk after steady updates.
pub(crate) fn disk(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    let rows = setting.rows.first().copied().context("no number of rows")?;
    let base = setting.bases.ours(Shape::Int64, rows)?;
    // Files outlive their snapshot for the sake of readers; there are none.
    let options = StoreOptions { sync: false, snapshot_retained_ms: 0, ..StoreOptions::default() };
    let mut ours =
        Ours::open(&base.directory, Shape::Int64, options, Restore::Snapshot(base.snapshot))?;
    // One sorted run without a dead row.
    let live = ours.table.metrics().bytes as f64;
    let mut most = 0_f64;
    for _ in 0..setting.rounds(CHECKPOINTS) {
        for batch in batches(rows, CHECKPOINT_BATCHES)? {
            ours.count_up(&batch)?;
        }
        ours.checkpoint()?;
        most = most.max(ours.table.metrics().bytes as f64);
    }
    wait_until_idle();
    // What has expired goes with the next look.
    let batch = batches(rows, 1)?;
    ours.count_up(&batch[0])?;
    ours.checkpoint()?;
    wait_until_idle();
    let on_disk = bytes_in(&base.directory)? as f64;
    ours.close()?;
    report(
        Figure::new(
            SUITE,
            format!("disk {}: after steady updates", short(rows)),
            "MiB",
            on_disk / MIB,
        )
        .against("live data", Some(live / MIB))
        .bar(Bar::RatioAtMost(2.0))
        .detail(format!("data files of a snapshot: {:.2}x at most", most / live)),
    )
}

fn batches(rows: u64, count: usize) -> Result<Vec<Batch>> {
    let keys = Keys::new(Shape::Int64)?;
    let mut random = Random(rows);
    (0..count)
        .map(|_| keys.batch(distinct((0..KEYS).map(|_| present(random.below(rows))).collect())))
        .collect()
}

/// The bytes of all files below a directory.
fn bytes_in(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            bytes_in(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}

//! What a table reports through the `metrics` facade, beside [`crate::TableMetrics`].
//!
//! Every figure has the label `table`. Counters and gauges are set by the table's worker, so
//! that reads and writes do not pay for them; they lag by a second at most. Install a recorder
//! before the table is opened: what has no recorder then reports to nobody.

use crate::view::{Counters, SharedView};
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// The figures of one table.
pub(crate) struct Instruments {
    pub(crate) probe_seconds: Histogram,
    pub(crate) flush_seconds: Histogram,
    pub(crate) merge_seconds: Histogram,
    pub(crate) commit_seconds: Histogram,
    pub(crate) checkpoint_seconds: Histogram,
    pub(crate) flushed_rows: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) merged_rows: Counter,
    pub(crate) merged_bytes: Counter,
    pub(crate) expired_snapshots: Counter,
    probes: Counter,
    keys_read: Counter,
    keys_written: Counter,
    commits: Counter,
    merges: Counter,
    waits: Counter,
    stops: Counter,
    frozen_bytes: Gauge,
    cached_bytes: Gauge,
    rows: Gauge,
    bytes: Gauge,
    files: Gauge,
    runs: Gauge,
    snapshots: Gauge,
    unneeded_files: Gauge,
    manifests: Gauge,
}

impl std::fmt::Debug for Instruments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Instruments")
    }
}

/// What only the worker knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnDisk {
    pub(crate) snapshots: usize,
    /// Files that only superseded snapshots name.
    pub(crate) superseded_files: usize,
    pub(crate) manifests: usize,
}

impl Instruments {
    pub(crate) fn new(table: &str) -> Self {
        describe();
        let table = || table.to_owned();
        Self {
            probe_seconds: histogram!("howdah_state_probe_duration_seconds", "table" => table()),
            flush_seconds: histogram!("howdah_state_flush_duration_seconds", "table" => table()),
            merge_seconds: histogram!("howdah_state_merge_duration_seconds", "table" => table()),
            commit_seconds: histogram!("howdah_state_commit_duration_seconds", "table" => table()),
            checkpoint_seconds: histogram!(
                "howdah_state_checkpoint_duration_seconds", "table" => table()
            ),
            flushed_rows: counter!("howdah_state_flushed_rows_total", "table" => table()),
            flushed_bytes: counter!("howdah_state_flushed_bytes_total", "table" => table()),
            merged_rows: counter!("howdah_state_merged_rows_total", "table" => table()),
            merged_bytes: counter!("howdah_state_merged_bytes_total", "table" => table()),
            expired_snapshots: counter!("howdah_state_expired_snapshots_total", "table" => table()),
            probes: counter!("howdah_state_probes_total", "table" => table()),
            keys_read: counter!("howdah_state_keys_read_total", "table" => table()),
            keys_written: counter!("howdah_state_keys_written_total", "table" => table()),
            commits: counter!("howdah_state_commits_total", "table" => table()),
            merges: counter!("howdah_state_merges_total", "table" => table()),
            waits: counter!("howdah_state_write_waits_total", "table" => table()),
            stops: counter!("howdah_state_write_stops_total", "table" => table()),
            frozen_bytes: gauge!("howdah_state_frozen_bytes", "table" => table()),
            cached_bytes: gauge!("howdah_state_cached_bytes", "table" => table()),
            rows: gauge!("howdah_state_rows", "table" => table()),
            bytes: gauge!("howdah_state_data_bytes", "table" => table()),
            files: gauge!("howdah_state_files", "table" => table()),
            runs: gauge!("howdah_state_runs", "table" => table()),
            snapshots: gauge!("howdah_state_snapshots", "table" => table()),
            unneeded_files: gauge!("howdah_state_superseded_files", "table" => table()),
            manifests: gauge!("howdah_state_manifests", "table" => table()),
        }
    }

    /// Sets what is not reported as it happens.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn report(&self, view: &SharedView, on_disk: OnDisk) {
        let Counters { probes, keys_read, keys_written, commits, merges, waits, stops, .. } =
            &view.counters;
        for (to, from) in [
            (&self.probes, probes),
            (&self.keys_read, keys_read),
            (&self.keys_written, keys_written),
            (&self.commits, commits),
            (&self.merges, merges),
            (&self.waits, waits),
            (&self.stops, stops),
        ] {
            to.absolute(AtomicU64::load(from, Ordering::Relaxed));
        }
        let (frozen_bytes, cached_bytes) = view.buffered_bytes();
        self.frozen_bytes.set(frozen_bytes as f64);
        self.cached_bytes.set(cached_bytes as f64);
        let pin = view.pin();
        let (mut rows, mut bytes, mut files) = (0, 0, 0);
        for pinned in pin.files() {
            rows += pinned.live_rows();
            bytes += pinned.file.meta.file_size;
            files += 1;
        }
        self.rows.set(rows as f64);
        self.bytes.set(bytes as f64);
        self.files.set(f64::from(files));
        self.runs.set(pin.buckets.iter().map(Vec::len).max().unwrap_or(0) as f64);
        self.snapshots.set(on_disk.snapshots as f64);
        self.unneeded_files.set(on_disk.superseded_files as f64);
        self.manifests.set(on_disk.manifests as f64);
    }
}

/// Says once what the figures mean.
fn describe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (name, what) in [
            (
                "howdah_state_probe_duration_seconds",
                "One look into the files of a snapshot for the keys of a batch",
            ),
            ("howdah_state_flush_duration_seconds", "From frozen buffers to a published snapshot"),
            (
                "howdah_state_merge_duration_seconds",
                "One merge of sorted runs, without its publication",
            ),
            ("howdah_state_commit_duration_seconds", "Publication of a merge"),
            (
                "howdah_state_checkpoint_duration_seconds",
                "From the last subtask's barrier to the published snapshot",
            ),
        ] {
            describe_histogram!(name, Unit::Seconds, what);
        }
        for (name, unit, what) in [
            ("howdah_state_flushed_rows_total", Unit::Count, "Rows that flushes wrote"),
            (
                "howdah_state_flushed_bytes_total",
                Unit::Bytes,
                "Bytes of data files that flushes wrote",
            ),
            ("howdah_state_merged_rows_total", Unit::Count, "Rows that merges wrote"),
            (
                "howdah_state_merged_bytes_total",
                Unit::Bytes,
                "Bytes of data files that merges wrote",
            ),
            (
                "howdah_state_expired_snapshots_total",
                Unit::Count,
                "Snapshots removed after their time",
            ),
            ("howdah_state_probes_total", Unit::Count, "Batches with a key that no buffer knew"),
            ("howdah_state_keys_read_total", Unit::Count, "Keys looked up"),
            ("howdah_state_keys_written_total", Unit::Count, "Keys written or deleted"),
            ("howdah_state_commits_total", Unit::Count, "Flushes committed"),
            ("howdah_state_merges_total", Unit::Count, "Merges published"),
            (
                "howdah_state_write_waits_total",
                Unit::Count,
                "Writes that waited for frozen buffers to be flushed",
            ),
            (
                "howdah_state_write_stops_total",
                Unit::Count,
                "Writes that waited for merges to catch up",
            ),
        ] {
            describe_counter!(name, unit, what);
        }
        for (name, unit, what) in [
            ("howdah_state_frozen_bytes", Unit::Bytes, "Frozen write buffers on their way to disk"),
            (
                "howdah_state_cached_bytes",
                Unit::Bytes,
                "Published write buffers kept as a read cache",
            ),
            ("howdah_state_rows", Unit::Count, "Live rows of the latest snapshot"),
            ("howdah_state_data_bytes", Unit::Bytes, "Data files of the latest snapshot"),
            ("howdah_state_files", Unit::Count, "Data files of the latest snapshot"),
            ("howdah_state_runs", Unit::Count, "Sorted runs of the bucket that has most"),
            ("howdah_state_snapshots", Unit::Count, "Snapshots on disk"),
            (
                "howdah_state_superseded_files",
                Unit::Count,
                "Files that only superseded snapshots name",
            ),
            ("howdah_state_manifests", Unit::Count, "Manifests that the latest snapshot names"),
        ] {
            describe_gauge!(name, unit, what);
        }
    });
}

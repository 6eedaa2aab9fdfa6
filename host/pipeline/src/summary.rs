//! What a run did, while it runs and when it is over.

use howdah_state::TableMetrics;
use serde::Serialize;

/// Counters of a running pipeline, for a progress display.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Bytes of the source that have been read, over all runs.
    pub bytes_read: u64,
    /// Bytes that the source has.
    pub bytes_total: u64,
    /// Rows handed to the operator in this run: read, not filtered out, not malformed.
    pub rows_in: u64,
    /// Rows that the operator emitted in this run.
    pub rows_out: u64,
    /// Rows read that the filter kept out.
    pub rows_filtered: u64,
    /// Malformed rows left out (`on-error = "skip"`).
    pub rows_skipped: u64,
    /// Malformed rows written to the dead-letter file.
    pub rows_dead_lettered: u64,
    /// Milliseconds since the Unix epoch; `None` before the first row or without an
    /// event-time column.
    pub watermark: Option<i64>,
    /// The last completed checkpoint.
    pub checkpoint: Option<u64>,
}

/// What a thread of a source or operator has done in this run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// The source or operator.
    pub node: String,
    /// Which of its subtasks, from 0.
    pub subtask: usize,
    /// Microseconds at work.
    pub busy_us: u64,
    /// Microseconds without anything to do.
    pub idle_us: u64,
    /// Microseconds behind those who take its rows.
    pub blocked_us: u64,
    /// Rows that it read, or that came in.
    pub rows_in: u64,
    /// Rows that it handed on.
    pub rows_out: u64,
    /// Milliseconds since the Unix epoch; `None`: it has none yet.
    pub watermark: Option<i64>,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The name of the pipeline.
    pub pipeline: String,
    /// Whether the input was read to its end; `false`: it was stopped, and goes on where
    /// it was when it is run again.
    pub finished: bool,
    /// The checkpoint that the run went on from; `None`: it began at the beginning.
    pub restored_from: Option<u64>,
    /// Rows handed to the operator.
    pub rows_in: u64,
    /// Rows that the operator emitted.
    pub rows_out: u64,
    /// Rows read that the filter kept out.
    pub rows_filtered: u64,
    /// Malformed rows left out.
    pub rows_skipped: u64,
    /// Malformed rows written to the dead-letter file.
    pub rows_dead_lettered: u64,
    /// Rows that the operator failed on, which were set aside.
    pub rows_isolated: u64,
    /// Wall time from start to end.
    pub elapsed_ms: u64,
    /// Rows that the source read, filtered ones included, for each second of wall time.
    pub rows_per_second: f64,
    /// Calls of the operator's `process`.
    pub batches: u64,
    /// Probes of the state on disk, over all states: at most one for each batch and state.
    pub probes: u64,
    /// Keys looked up in state, over all batches and states.
    pub keys: u64,
    /// How long rows took to the sinks.
    pub latency: LatencySummary,
    /// What the checkpoints cost.
    pub checkpoints: CheckpointSummary,
    /// One for each state of the operator.
    pub states: Vec<StateSummary>,
}

/// How long rows took from a source to a sink: from when it began to read the batch that they come of,
/// or the first of several, to when they were written. Output is visible only with its checkpoint, which
/// is not in this; nor are rows that timers, barriers and the end of the input made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// Rows that were measured.
    pub rows: u64,
    /// Microseconds that half of them took at most. This and what follows: up to a sixteenth more.
    pub median_us: u64,
    /// Microseconds that 99 of 100 took at most.
    pub p99_us: u64,
    /// Microseconds that all of them took at most.
    pub max_us: u64,
}

/// The checkpoints of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckpointSummary {
    /// Completed ones.
    pub completed: u64,
    /// Begun and not completed.
    pub failed: u64,
    /// The last completed one, of this run or an earlier one.
    pub last: Option<u64>,
    /// From the order to insert the barrier to the written document: median.
    pub duration_median_ms: u64,
    /// The same: longest.
    pub duration_max_ms: u64,
    /// Bytes of the documents and of the output files that they made visible.
    pub bytes: u64,
}

/// One state table at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateSummary {
    /// The name that the operator declared.
    pub state: String,
    /// The name of its table.
    pub table: String,
    /// Its counters and sizes.
    #[serde(flatten)]
    pub metrics: TableMetrics,
}

//! What an instance did so far.

/// Counters of one instance, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InstanceMetrics {
    /// Calls into the operator.
    pub calls_total: u64,
    /// Rows given to `process`.
    pub rows_in_total: u64,
    /// Rows that it emitted.
    pub rows_out_total: u64,
    /// State calls that it made.
    pub state_calls_total: u64,
    /// Wall time spent in its calls, without `state_nanos_total`.
    pub guest_nanos_total: u64,
    /// Wall time that its state calls took in the host.
    pub state_nanos_total: u64,
    /// Log messages that were dropped because one call wrote too many.
    pub log_messages_dropped_total: u64,
    /// Values that it measured and that were dropped: their name is none, there are too many
    /// names, or the name is that of a figure of another kind.
    pub figures_dropped_total: u64,
    /// Watermarks that it was given and that were lower than one before.
    pub watermark_regressions_total: u64,
    /// Fuel that its calls used, where fuel is counted: about one unit for each WebAssembly
    /// instruction.
    pub fuel_total: u64,
    /// Linear memory that it holds now.
    pub memory_bytes: u64,
}

use crate::Result;
use arrow_array::RecordBatch;
use howdah_state::{KeyBatch, ValueState};

/// Where an instance finds itself; passed to the operator's `open`.
#[derive(Debug, Clone)]
pub struct Context {
    pub pipeline: String,
    pub operator: String,
    pub subtask: u32,
    pub parallelism: u32,
    /// A JSON object.
    pub config: String,
    pub restored_from: Option<u64>,
}

/// What an instance may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of the instance.
    pub memory_bytes: usize,
    /// Time of one call, in wall time.
    pub call_timeout_ms: u64,
    /// Bytes that one call may make the host copy out of guest memory.
    pub batch_bytes: usize,
    /// Rows that one call may emit.
    pub batch_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            call_timeout_ms: 10_000,
            batch_bytes: 64 << 20,
            batch_rows: 1 << 20,
        }
    }
}

/// One subtask's operator, with its state. Used by one thread at a time; after an error it is of no more use.
pub struct Instance {}

/// Rows that an operator emitted on one output.
#[derive(Debug, Clone)]
pub struct Output {
    /// Index into `OperatorSpec::outputs`.
    pub port: u32,
    /// Has the schema of the output (`OutputSpec::schema`).
    pub batch: RecordBatch,
    /// Event time of each row.
    pub timestamps: Vec<i64>,
    /// 0 +I, 1 -U, 2 +U, 3 -D; `None`: all inserts.
    pub row_kinds: Option<Vec<u8>>,
}

impl Instance {
    /// `batch` has the input's fields in its order (`InputSpec::schema`).
    pub fn process(
        &mut self,
        port: u32,
        batch: &RecordBatch,
        timestamps: &[i64],
        watermark: i64,
        keys: KeyBatch,
        row_keys: &[u32],
    ) -> Result<Vec<Output>> {
        todo!()
    }
    /// The barrier of this checkpoint has reached the operator. Does not freeze the states: call `freeze` next.
    pub fn on_barrier(&mut self, checkpoint: u64) -> Result<Vec<Output>> {
        todo!()
    }
    /// Freezes the states at this checkpoint's barrier.
    pub fn freeze(&mut self, checkpoint: u64) -> Result<()> {
        todo!()
    }
    /// The input has ended.
    pub fn close(&mut self) -> Result<Vec<Output>> {
        todo!()
    }
}

//! Runs a pipeline: a graph of sources, operators and sinks, with keyed exchanges to the subtasks of
//! operators, aligned barriers, checkpoints, and sinks whose files appear when their checkpoint is
//! complete.
//!
//! ```no_run
//! use howdah_pipeline::{Pipeline, PipelineConfig, StartOptions};
//! use howdah_runtime::{Engine, EngineOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(EngineOptions::default())?;
//! let config = PipelineConfig::load("q18.toml".as_ref())?;
//! // Everything that can be refused is refused here, before anything starts.
//! let pipeline = Pipeline::prepare(config, &engine)?;
//! let summary = pipeline.start(StartOptions::default())?.wait()?;
//! println!("{} rows in, {} rows out", summary.rows_in, summary.rows_out);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! Source position, state and sink files move together, at completed checkpoints. A run that
//! is killed, or fails, leaves them at the last completed checkpoint; the next run goes on
//! from there. The files sink is exactly-once; the stdout sink prints the rows of a checkpoint
//! once it is complete, and may print those of the last one again after a crash.
//!
//! # Traces
//!
//! A checkpoint, from its order to the output that it makes visible, is a `tracing` span (`checkpoint`);
//! what each subtask does at its barrier (`barrier`), the flush of each state and the `commit` are below
//! it. So is a start from a checkpoint (`restore`). They are of level debug; none is made for rows or
//! batches.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod bootstrap;
mod checkpoint;
mod clock;
mod config;
mod connector;
mod control;
mod coordinator;
mod dead_letter;
mod directory;
mod doctor;
mod dropped;
mod error;
mod exchange;
mod failure;
mod fit;
mod gate;
mod grants;
mod graph;
mod handle;
mod isolation;
#[cfg(feature = "kafka")]
mod kafka;
mod latency;
mod launch;
mod lines;
mod lock;
mod meter;
mod nexmark;
mod outlet;
mod paths;
mod pipeline;
mod place;
mod progress;
mod reader;
mod replay;
mod restart;
mod restore;
mod savepoint;
mod sink;
mod source;
mod subtask;
mod summary;
mod trace;
mod watermark;

pub use bootstrap::{ColumnFit, Imported, ImportedTable, StateImport};
pub use checkpoint::{
    Checkpoint, CheckpointEntry, Checkpoints, DeadLetterPosition, InputShape, OperatorCheckpoint,
    OperatorShape, Shape, SinkCheckpoint, SinkHandle, SinkShape, SourceCheckpoint, SourcePosition,
    SourceShape, StatePosition, StateShape,
};
pub use config::{
    Acknowledge, BatchConfig, CheckpointConfig, Delivery, FilterValue, FinalNewline, Format,
    HttpConfig, KafkaConfig, KafkaFormat, KafkaStart, Located, OnError, OperatorConfig,
    PipelineConfig, SinkConfig, SinkTopicConfig, SinkType, SourceConfig, SourceConnector,
    TableConfig, TableName, TopicConfig, pipeline_file_reference, pipeline_file_schema,
};
pub use control::{ControlClient, ControlRequest, ControlServer, Responder};
pub use coordinator::HeldCheckpoint;
pub use doctor::{Examination, Finding, Severity, examine};
pub use error::{Error, ErrorKind, Result};
pub use fit::{CheckpointFit, PipelineFit, StateFit, check_pipeline, check_state};
pub use grants::Directories;
pub use handle::{Event, Handle, Stopper};
pub use nexmark::NexmarkEvents;
pub use pipeline::{Components, Pipeline, StartFrom, StartOptions};
pub use replay::{Replay, ReplayFrom, ReplayOptions, replay};
pub use restart::{RestartPolicy, Restarts};
pub use savepoint::{Savepoint, read_savepoint, verify_savepoint, write_savepoint};
pub use summary::{Activity, CheckpointSummary, LatencySummary, Progress, StateSummary, Summary};

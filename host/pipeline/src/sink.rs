//! Where rows go to: the contract of a sink, the connectors that keep it, and the thread that
//! writes.

#[cfg(test)]
mod conformance;
mod encoder;
mod files;
#[cfg(feature = "kafka")]
mod kafka;
mod null;
mod staged;
mod stdout;
mod table;

use crate::checkpoint::SinkHandle;
use crate::config::{PipelineConfig, SinkConfig, SinkType};
use crate::coordinator::Report;
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::grants::Directories;
use crate::latency::LatencyMeter;
use crossbeam_channel::{Receiver, Sender};
pub(crate) use encoder::{OP_COLUMN, TIMESTAMP_FORMAT};
use howdah_runtime::{Output, OutputSpec};
use std::path::Path;
use std::time::Instant;
pub(crate) use stdout::STAGING as STDOUT_STAGING;
pub(crate) use table::granted as granted_table;

/// A place that rows go to, each of them once.
///
/// What a checkpoint covers becomes visible when it is complete, in two phases: a
/// [`SinkWriter`] of each subtask prepares at the barrier, and once the checkpoint document
/// with all handles is durable, [`commit`](Self::commit) makes them visible. The contract, which
/// `conformance` tests for every connector:
///
/// - *Opening* takes possession: another pipeline's place, and one in use, are refused. It
///   changes nothing that is visible.
/// - *Handles* say all by themselves what is to be committed, to another process after a crash,
///   too.
/// - *Commit* may be called again for the same checkpoint, in another process, and when some of
///   its handles were committed before the crash: everything is visible once.
/// - *Recover* is called once, before any writer is made: the handles of the checkpoint that the
///   run goes on from are committed, and everything that no checkpoint up to it covers is gone,
///   be it prepared, half written, or visible. Without a checkpoint all output of the pipeline
///   is gone. What is not the pipeline's stays.
/// - *Errors* end the run; the next one recovers.
pub(crate) trait Sink: Send {
    /// The name of the connector, which handles are tagged with.
    fn connector(&self) -> &'static str;

    /// Whether it has output of checkpoints.
    fn has_output(&self) -> Result<bool>;

    /// Brings the output to a checkpoint and its handles; `None`: to the beginning.
    fn recover(&mut self, checkpoint: Option<(u64, &[SinkHandle])>) -> Result<()>;

    /// A writer for the rows of a subtask. `base` is the checkpoint that the run went on from, 0
    /// for none.
    fn writer(&self, subtask: u32, base: u64) -> Result<Box<dyn SinkWriter>>;

    /// The handles are about to be named in the document of their checkpoint: what they stand
    /// for must last from here on. Costs that all subtasks share belong here.
    fn seal(&mut self, handles: &[SinkHandle]) -> Result<()> {
        let _ = handles;
        Ok(())
    }

    /// The checkpoint is complete: makes its output visible.
    fn commit(&mut self, checkpoint: u64, handles: &[SinkHandle]) -> Result<()>;
}

/// Writes what a subtask emits; nobody sees it before it is committed.
pub(crate) trait SinkWriter: Send {
    /// Rows, in their order.
    fn write(&mut self, rows: &Output) -> Result<()>;

    /// The subtask's barrier: what was written since the one before belongs to this checkpoint.
    /// It is durable but for what [`Sink::seal`] does; `None`: there were no rows. A writer that
    /// is dropped before leaves nothing visible.
    fn prepare(&mut self, checkpoint: u64) -> Result<Option<SinkHandle>>;
}

/// What a sink is opened with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening<'a> {
    /// The tenant of the pipeline.
    #[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "names producers of Kafka"))]
    pub(crate) tenant: &'a str,
    /// The name of the pipeline.
    pub(crate) pipeline: &'a str,
    /// Its state directory, for what is nowhere visible.
    pub(crate) state_directory: &'a Path,
    /// Whether what is prepared must outlast a power failure.
    pub(crate) sync: bool,
    /// What the pipeline may use.
    pub(crate) directories: &'a Directories,
    pub(crate) config: &'a SinkConfig,
    /// The operator's output; `None`: it has none.
    pub(crate) output: Option<&'a OutputSpec>,
}

/// Opens the sink of a pipeline.
pub(crate) fn open(opening: &Opening<'_>) -> Result<Box<dyn Sink>> {
    Ok(match opening.config.sink_type {
        SinkType::Files => Box::new(files::Files::open(opening)?),
        SinkType::Paimon => Box::new(table::Table::open(opening)?),
        SinkType::Stdout => Box::new(stdout::Stdout::open(opening)?),
        SinkType::Null => Box::new(null::Null),
        SinkType::Kafka => return open_topic(opening),
    })
}

/// Whether the sink could be opened, as far as nothing is taken possession of.
#[cfg(feature = "kafka")]
pub(crate) fn check(config: &SinkConfig) -> Result<()> {
    config.topic.as_ref().map_or(Ok(()), kafka::check)
}

/// Whether the sink could be opened, as far as nothing is taken possession of.
#[cfg(not(feature = "kafka"))]
pub(crate) fn check(_: &SinkConfig) -> Result<()> {
    Ok(())
}

#[cfg(feature = "kafka")]
fn open_topic(opening: &Opening<'_>) -> Result<Box<dyn Sink>> {
    let topic = opening.config.topic.as_ref();
    let topic = topic.ok_or_else(|| Error::internal("a Kafka sink has no topic"))?;
    Ok(Box::new(kafka::Kafka::open(opening, topic)?))
}

/// The configuration has refused it before.
#[cfg(not(feature = "kafka"))]
fn open_topic(_: &Opening<'_>) -> Result<Box<dyn Sink>> {
    Err(Error::internal("a Kafka sink in a build without Kafka"))
}

/// A sink that keeps nothing.
#[cfg(test)]
pub(crate) fn null() -> Box<dyn Sink> {
    Box::new(null::Null)
}

impl PipelineConfig {
    /// Whether there is output of an earlier run, which a fresh start would remove.
    ///
    /// Fails when the output directory, or the table, cannot be read.
    pub fn has_output(&self) -> Result<bool> {
        for sink in &self.sinks {
            let has_output = match (&sink.path, &sink.table) {
                (Some(path), Some(table)) => {
                    table::has_output(&path.value, table, &self.name, &self.directories)?
                }
                (Some(path), None) => files::has_output(&path.value, &self.directories)?,
                (None, _) => false,
            };
            if has_output {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What travels to the sink.
#[derive(Debug)]
pub(crate) enum SinkMessage {
    /// Rows that a subtask emitted.
    Rows {
        /// Which one.
        subtask: u32,
        /// Its rows.
        outputs: Vec<Output>,
        /// When a source began to read what they come of; `None`: they come of no rows.
        read_at: Option<Instant>,
    },
    /// What the subtask sent before belongs to the checkpoint.
    Barrier {
        /// Which one.
        subtask: u32,
        /// Which checkpoint.
        checkpoint: u64,
    },
}

/// The thread that writes.
pub(crate) struct SinkThread {
    /// Which sink it is.
    number: usize,
    /// One for each that writes to it.
    writers: Vec<Box<dyn SinkWriter>>,
}

impl SinkThread {
    /// A thread for a sink that so many write to.
    pub(crate) fn new(number: usize, sink: &dyn Sink, producers: usize, base: u64) -> Result<Self> {
        let writers = (0..).zip(0..producers).map(|(subtask, _)| sink.writer(subtask, base));
        Ok(Self { number, writers: writers.collect::<Result<_>>()? })
    }

    /// Writes until all subtasks have ended.
    pub(crate) fn run(
        mut self,
        messages: &Receiver<SinkMessage>,
        reports: &Sender<Report>,
        latency: &LatencyMeter,
        failure: &Failure,
    ) -> Result<()> {
        for message in messages {
            if failure.is_raised() {
                break;
            }
            match message {
                SinkMessage::Rows { subtask, outputs, read_at } => {
                    let writer = self.writer(subtask)?;
                    let some = outputs.iter().filter(|output| output.batch.num_rows() > 0);
                    for output in some {
                        writer.write(output)?;
                        latency.arrived(output.batch.num_rows(), read_at);
                    }
                }
                SinkMessage::Barrier { subtask, checkpoint } => {
                    let handle = self.writer(subtask)?.prepare(checkpoint)?;
                    let sink = self.number;
                    let report = Report::Staged { checkpoint, sink, subtask, handle };
                    if reports.send(report).is_err() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn writer(&mut self, subtask: u32) -> Result<&mut dyn SinkWriter> {
        let index = usize::try_from(subtask).unwrap_or(usize::MAX);
        match self.writers.get_mut(index) {
            Some(writer) => Ok(writer.as_mut()),
            None => Err(Error::internal(format!("the sink has no subtask {subtask}"))),
        }
    }
}

#[cfg(test)]
mod tests;

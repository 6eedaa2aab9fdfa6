//! Runs a part of a pipeline's input again, apart from the pipeline, with two components for one of its
//! operators, and compares what comes of it.

mod outputs;
mod until;

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::config::{Format, Located, OnError, PipelineConfig, SinkType, SourceConnector};
use crate::error::{Error, ErrorKind, Result};
use crate::fit::StoredTables;
use crate::pipeline::{Pipeline, StartOptions};
use crate::{directory, restore, savepoint};
use howdah_runtime::{Access, Engine};
use howdah_state::{At, Clock, OnProgress, StateDiff, StateReader, list_tables};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
pub(crate) use until::Until;

/// No checkpoint but the last one: nothing is to be gone back to.
const INTERVAL_MS: u64 = 365 * 24 * 3_600_000;

/// Where a replay begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayFrom {
    /// A checkpoint of the pipeline.
    Checkpoint(u64),
    /// A savepoint.
    Savepoint(PathBuf),
}

/// What is to be run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Where to begin.
    pub from: ReplayFrom,
    /// Sources end about where they were at this checkpoint; `None`: at their end.
    pub to: Option<u64>,
    /// The operator that gets another component.
    pub operator: String,
    /// The component.
    pub component: PathBuf,
    /// Where state and output of both runs go; must not be there yet. It is the caller's to remove.
    pub directory: PathBuf,
}

/// What two runs over the same input came to.
#[derive(Debug)]
pub struct Replay {
    /// The checkpoint that both went on from.
    pub checkpoint: u64,
    /// Rows that each of them read.
    pub rows_read: u64,
    /// Rows that the sinks got, with the old component and with the new one.
    pub rows_out: [u64; 2],
    /// What differs: the rows of each sink, then the tables of states. A row of a sink is a key, the
    /// value is how often it is there.
    pub differences: Vec<(String, StateDiff)>,
}

/// One of the two runs.
struct Side {
    config: PipelineConfig,
    rows_read: u64,
    rows_out: u64,
}

/// Runs the pipeline from a checkpoint to the end of its input, or to about another checkpoint, first
/// with the component that it has, then with another one: with copies of its state, and sinks of its
/// own, in `options.directory`. The end of what is read is the end of event time, so windows close.
/// The clock stands still at the time of the checkpoint. The pipeline may be running; nothing of it is
/// touched.
///
/// Each source is read by one subtask. Rows of several sources, or of several subtasks of an operator
/// before, meet in an order that is another one each time: an operator that depends on it differs
/// from itself.
///
/// # Errors
/// [`ErrorKind::Config`] when there is no such checkpoint or operator, a source never ends, or the
/// operator may write files; [`ErrorKind::Incompatible`] when the new component does not go on with
/// the state; otherwise as a run of the pipeline.
pub fn replay(
    config: &PipelineConfig,
    engine: &Engine,
    options: &ReplayOptions,
    progress: OnProgress<'_>,
) -> Result<Replay> {
    refuse_writers(config)?;
    refuse_endless(config, options.to.is_some())?;
    let checkpoint = match &options.from {
        ReplayFrom::Checkpoint(id) => Checkpoints::find(&config.state_directory, *id)?,
        ReplayFrom::Savepoint(path) => savepoint::read(path)?,
    };
    let until = until(config, &checkpoint, options.to)?;
    let root = &options.directory;
    std::fs::create_dir(root).map_err(|error| Error::io("create", root, error))?;
    let start = match &options.from {
        ReplayFrom::Savepoint(path) => path.clone(),
        ReplayFrom::Checkpoint(_) => {
            let start = root.join("start");
            savepoint::write_savepoint(&config.warehouse(), &checkpoint, &start, progress)?;
            start
        }
    };
    let run = |name: &str, component: Option<&Path>| {
        let config = apart(config, &root.join(name), &options.operator, component)?;
        run(config, engine, &checkpoint, &start, &until, progress)
    };
    // What may be refused comes first.
    let new = run("new", Some(&options.component))?;
    let old = run("old", None)?;
    let mut differences = outputs::differences(&old.config, &new.config, root)?;
    differences.extend(states(&old.config, &new.config)?);
    Ok(Replay {
        checkpoint: checkpoint.id,
        rows_read: new.rows_read,
        rows_out: [old.rows_out, new.rows_out],
        differences,
    })
}

/// What an operator writes to files is no part of the state, and could not be kept apart.
fn refuse_writers(config: &PipelineConfig) -> Result<()> {
    for operator in &config.operators {
        let mut granted = operator.wasi.iter().flat_map(|grant| &grant.directories);
        if let Some(directory) = granted.find(|it| it.access == Access::ReadWrite) {
            let message = format!(
                "the operator `{}` may write to {}, which a replay would do once more; replay a \
                 pipeline file without that",
                operator.name,
                directory.path.display()
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
    }
    Ok(())
}

/// What cannot be read again, or comes to no end.
fn refuse_endless(config: &PipelineConfig, has_end: bool) -> Result<()> {
    for source in &config.sources {
        let reason = if source.connector == SourceConnector::Http {
            "was sent its rows, which are not there to be read again; replay a pipeline file that \
             reads them from elsewhere"
        } else if !source.is_bounded() && !has_end {
            "comes to no end; say up to which checkpoint it is to be read"
        } else {
            continue;
        };
        let message = format!("the source `{}` {reason}", source.name);
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

/// The rows of each source at which it ends.
fn until(
    config: &PipelineConfig,
    from: &Checkpoint,
    to: Option<u64>,
) -> Result<BTreeMap<String, u64>> {
    let Some(to) = to else { return Ok(BTreeMap::new()) };
    if to <= from.id {
        let message = format!("checkpoint {to} is not after checkpoint {}", from.id);
        return Err(Error::new(ErrorKind::Config, message));
    }
    let to = Checkpoints::find(&config.state_directory, to)?;
    Ok(to.sources.into_iter().map(|source| (source.name, source.position.rows)).collect())
}

/// The pipeline with a state directory and sinks of its own.
fn apart(
    config: &PipelineConfig,
    directory: &Path,
    operator: &str,
    component: Option<&Path>,
) -> Result<PipelineConfig> {
    let mut apart = config.clone();
    apart.state_directory = directory.join("state");
    apart.directories.allow([directory]);
    apart.checkpoint.interval_ms = INTERVAL_MS;
    apart.checkpoint.timeout_ms = INTERVAL_MS;
    apart.checkpoint.sync = false;
    for source in &mut apart.sources {
        // Where it ends is known of all of it, not of each share.
        source.parallelism = 1;
        source.rate_limit_rows_per_second = 0;
        if matches!(source.on_error, OnError::DeadLetter(_)) {
            source.on_error = OnError::Skip;
        }
    }
    for sink in &mut apart.sinks {
        let path = outputs::directory(directory, &sink.name);
        sink.stated_path = Some(path.display().to_string());
        sink.path = Some(Located { value: path, line: sink.line });
        (sink.sink_type, sink.format, sink.table) = (SinkType::Files, Format::Ndjson, None);
    }
    let chosen = apart.operators.iter_mut().find(|it| it.name == operator).ok_or_else(|| {
        let message = format!("the pipeline `{}` has no operator `{operator}`", config.name);
        Error::new(ErrorKind::Config, message)
    })?;
    if let Some(component) = component {
        chosen.component.value = component.to_owned();
    }
    Ok(apart)
}

/// Runs it from the savepoint, which is of the checkpoint, to the end.
fn run(
    config: PipelineConfig,
    engine: &Engine,
    checkpoint: &Checkpoint,
    savepoint: &Path,
    until: &BTreeMap<String, u64>,
    progress: OnProgress<'_>,
) -> Result<Side> {
    directory::create(&config.state_directory)?;
    let mut pipeline = Pipeline::prepare(config.clone(), engine)?;
    pipeline.until.clone_from(until);
    let shape = pipeline.graph.shape(&config);
    let mut begins = checkpoint.clone();
    begins.shape.sinks.clone_from(&shape.sinks);
    begins.sinks.clear();
    begins.sources.iter_mut().for_each(|source| source.dead_letters = None);
    let tables = StoredTables::of_savepoint(&config, &pipeline.graph, savepoint);
    restore::compare(&begins, &shape, &tables, &[])?;
    howdah_state::restore_savepoint(savepoint, &config.warehouse(), progress)?;
    Checkpoints::open(&config.state_directory, false)?.write(&begins)?;
    let (clock, _) = Clock::manual(i64::try_from(begins.time_ms).unwrap_or(i64::MAX));
    let handle = pipeline.start(StartOptions { clock, ..StartOptions::default() })?;
    let summary = handle.wait()?;
    let rows_read = Checkpoints::newest(&config.state_directory)?.rows();
    let rows_read = rows_read.saturating_sub(checkpoint.rows());
    Ok(Side { config, rows_read, rows_out: summary.rows_out })
}

/// What differs in the state of both runs.
fn states(old: &PipelineConfig, new: &PipelineConfig) -> Result<Vec<(String, StateDiff)>> {
    let tables = |config: &PipelineConfig| -> Result<BTreeSet<String>> {
        let tables = list_tables(&config.warehouse(), &config.tenant)?.into_iter();
        Ok(tables.filter(|table| table.snapshot.is_some()).map(|table| table.name).collect())
    };
    let (of_old, of_new) = (tables(old)?, tables(new)?);
    let at = At::Latest;
    let compare = |table: &String| {
        let open = |config: &PipelineConfig, known: &BTreeSet<String>| {
            let reader = || StateReader::open(&config.warehouse(), &config.tenant, table);
            known.contains(table).then(reader).transpose()
        };
        let (old, new) = (open(old, &of_old)?, open(new, &of_new)?);
        let old = old.as_ref().map(|reader| (reader, &at));
        let diff = StateDiff::between(old, new.as_ref().map(|reader| (reader, &at)))?;
        Ok((format!("state {table}"), diff))
    };
    of_old.union(&of_new).map(compare).collect()
}

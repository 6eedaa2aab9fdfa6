//! The store of a pipeline: its state tables and the threads behind them.

use crate::committer::{self, Committer};
use crate::evolution;
use crate::file_system::{FileSystem, resolve};
use crate::lock::Lock;
use crate::metadata::TableDirectory;
use crate::pool::Pool;
use crate::rescale;
use crate::rows::{SubtaskLinks, SubtaskRows};
use crate::schema::{EXPIRES_COLUMN, TableSchema, paimon_schema};
use crate::view::{SharedView, ViewLimits};
use crate::worker::{Command, Worker, WorkerLinks};
use crate::{
    Clock, Column, ColumnType, Error, ErrorKind, Faults, KeyEncoder, KeyGroups, ListState,
    MapState, ReadMode, ReducingState, Result, StateKind, Timers, ValueState,
};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long [`StateStore::wait_published`] waits at a time.
const WAIT: Duration = Duration::from_secs(3600);

/// How a store behaves. The defaults suit a pipeline on one machine; change one with
/// `StoreOptions { sync: false, ..StoreOptions::default() }`.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Fsync files and directories before a checkpoint counts as published. Without it, state
    /// survives the death of the process, but not that of the machine. Default: true.
    pub sync: bool,
    /// Bytes in the write buffer of one subtask of one state at which it is flushed early; at
    /// most 1 GiB. Default: 64 MiB.
    pub write_buffer_limit_bytes: usize,
    /// Bytes of full or frozen write buffers of one state that may be on their way to disk. Each
    /// subtask has an equal share; above it, its next write waits. A barrier never waits, so one
    /// write buffer for each subtask can come on top. Default: 256 MiB.
    pub frozen_limit_bytes: usize,
    /// Bytes of published write buffers that a subtask of a state keeps as a read cache. The
    /// memory of one more, of at most half of that, is kept for the next write buffer.
    /// Default: 32 MiB.
    pub read_cache_limit_bytes: usize,
    /// How long a snapshot, and the files that only it names, outlive the moment that they were
    /// superseded at least, so that readers without a lease can finish. Default: 60,000.
    pub snapshot_retained_ms: u64,
    /// Sorted runs of a bucket that start a merge; 2 to 50. Default: 8. More make writes cheaper
    /// and reads a little dearer: missing keys cost a look into the filter of each run.
    pub merge_trigger_runs: usize,
    /// Sorted runs of a bucket at which writes to it wait for a merge; up to 60. Never less than
    /// one more than `merge_trigger_runs`. Default: 20.
    pub merge_stop_runs: usize,
    /// Timers that a subtask of a state holds in memory, the next to be due; the others are read
    /// when their time comes. At least 1. Default: 65,536.
    pub timers_in_memory: usize,
    /// Threads that merge and help to flush, for all states together; 1 to 64. Default: as
    /// many as there are cores, at most 2.
    pub background_threads: usize,
    /// How data files are read. Default: mapped into memory.
    pub read_mode: ReadMode,
    /// The clock that times to live go by. Default: that of the machine.
    pub clock: Clock,
    /// For tests: makes calls to the file system fail; what failed is tried again without a
    /// pause. Default: none.
    pub faults: Option<Faults>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            sync: true,
            write_buffer_limit_bytes: 64 << 20,
            frozen_limit_bytes: 256 << 20,
            read_cache_limit_bytes: 32 << 20,
            snapshot_retained_ms: 60_000,
            merge_trigger_runs: 8,
            merge_stop_runs: 20,
            timers_in_memory: 1 << 16,
            background_threads: default_threads(),
            read_mode: ReadMode::default(),
            clock: Clock::system(),
            faults: None,
        }
    }
}

impl StoreOptions {
    /// Sorted runs of a bucket at which writes to it wait for a merge.
    pub(crate) fn stop_runs(&self) -> usize {
        self.merge_stop_runs.max(self.merge_trigger_runs + 1)
    }
}

/// Merges get at most two threads: subtasks need the others.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get().min(2))
}

/// What a state table is to look like. The default is value state without a time to live, of one
/// subtask; names and key columns have none, they must be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDescriptor {
    /// Name of the pipeline; first part of the table name.
    pub pipeline: String,
    /// Name of the operator; second part of the table name.
    pub operator: String,
    /// Name of the state; last part of the table name.
    pub state: String,
    /// What the rows of a key are.
    pub kind: StateKind,
    /// Key columns.
    pub key: Vec<Column>,
    /// Value columns; none for timers.
    pub value: Vec<Column>,
    /// How long a row lives after it was last written, in milliseconds, at least 1; `None`: until
    /// it is deleted. Reading does not prolong it. The time of its end is in the table, as its
    /// last column, `expires_at`.
    pub ttl_ms: Option<u64>,
    /// Number of subtasks, which is the number of buckets; 1 to `key_groups`.
    pub parallelism: u32,
    /// Number of key groups, at most [`KeyGroups::COUNT_LIMIT`]; fixed for the life of the table.
    pub key_groups: u32,
}

impl Default for StateDescriptor {
    fn default() -> Self {
        Self {
            pipeline: String::new(),
            operator: String::new(),
            state: String::new(),
            kind: StateKind::Value,
            key: Vec::new(),
            value: Vec::new(),
            ttl_ms: None,
            parallelism: 1,
            key_groups: KeyGroups::DEFAULT_COUNT,
        }
    }
}

impl StateDescriptor {
    /// `<pipeline>__<operator>__<state>`.
    pub fn table_name(&self) -> String {
        format!("{}__{}__{}", self.pipeline, self.operator, self.state)
    }

    /// Whether kind, columns and time to live go together.
    fn check(&self) -> Result<()> {
        let invalid = |why: String| Err(Error::invalid(format!("state {}: {why}", self.state)));
        match &self.kind {
            StateKind::Reducing { reducers } => {
                if reducers.len() != self.value.len() {
                    return invalid(format!(
                        "{} reducers for {} value columns",
                        reducers.len(),
                        self.value.len()
                    ));
                }
                for (reducer, column) in reducers.iter().zip(&self.value) {
                    if !reducer.can_fold(column.column_type) {
                        return invalid(format!(
                            "column `{}` is {}, which has no {reducer}",
                            column.name, column.column_type
                        ));
                    }
                }
            }
            StateKind::Timers if !self.value.is_empty() => {
                return invalid("timers have no value columns".to_owned());
            }
            StateKind::Map { map_key } if map_key.is_empty() => {
                return invalid("a map needs at least one column of the map key".to_owned());
            }
            _ => {}
        }
        match self.ttl_ms {
            Some(0) => invalid("the time to live must be at least 1 ms".to_owned()),
            _ => Ok(()),
        }
    }

    /// Value columns as stored: with the one that says when a row ends, if it does.
    pub(crate) fn stored_value(&self) -> Vec<Column> {
        let mut value = self.value.clone();
        if self.ttl_ms.is_some() {
            value.push(Column::required(EXPIRES_COLUMN, ColumnType::TimestampMillis));
        }
        value
    }
}

/// Where a table starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restore {
    /// Empty: what is there is removed.
    Fresh,
    /// The table as it was at this snapshot: what came after is removed. Columns may have
    /// changed: there may be new nullable value columns after the others, wider types, nullable
    /// columns that were not, a time to live. Snapshots from before are read in their own shape.
    Snapshot(i64),
    /// The same, spread over the subtasks that are asked for, however many there were. No row is
    /// rewritten. Snapshots and tags from before stay as they are, and so does the way back to
    /// them, with their parallelism.
    Rescaled(i64),
}

/// What the background part of a store reports.
#[derive(Debug)]
pub enum StateEvent {
    /// All subtasks' writes up to this checkpoint's barrier are in this snapshot, durable.
    Published {
        /// `<pipeline>__<operator>__<state>`.
        table: String,
        /// Which checkpoint.
        checkpoint: u64,
        /// The snapshot that holds exactly what the barrier saw.
        snapshot: i64,
        /// How long the background part worked on it.
        duration: Duration,
    },
    /// The table can't go on.
    Failed {
        /// `<pipeline>__<operator>__<state>`.
        table: String,
        /// Why.
        error: Error,
    },
}

/// The state of one pipeline on local disk: a Paimon warehouse. One process at a time.
#[derive(Debug)]
pub struct StateStore {
    warehouse: PathBuf,
    tenant: String,
    options: StoreOptions,
    files: FileSystem,
    tables: Mutex<BTreeMap<String, OpenTable>>,
    events: (Sender<StateEvent>, Receiver<StateEvent>),
    /// Snapshots that were published while another checkpoint was waited for.
    published: Mutex<BTreeMap<(u64, String), i64>>,
    pool: Pool,
    cancelled: Arc<AtomicBool>,
    _lock: Lock,
}

/// The worker of an open table.
#[derive(Debug)]
struct OpenTable {
    commands: Sender<Command>,
    worker: Option<JoinHandle<()>>,
}

impl StateStore {
    /// Opens (creates) a warehouse directory; `tenant` names the database, `<tenant>.db`.
    ///
    /// # Errors
    /// `Locked` when another process has it open; `InvalidArgument` for a name that cannot be a
    /// directory; `Storage` when it cannot be created.
    pub fn open(warehouse: &Path, tenant: &str, options: StoreOptions) -> Result<Self> {
        check_name("tenant", tenant)?;
        if !(2..=50).contains(&options.merge_trigger_runs) {
            return Err(Error::invalid("merge_trigger_runs must be from 2 to 50"));
        }
        if options.merge_stop_runs > 60 {
            return Err(Error::invalid("merge_stop_runs must be at most 60"));
        }
        if !(1..=64).contains(&options.background_threads) {
            return Err(Error::invalid("background_threads must be from 1 to 64"));
        }
        if options.write_buffer_limit_bytes > 1 << 30 {
            return Err(Error::invalid("write_buffer_limit_bytes must be at most 1 GiB"));
        }
        let files = FileSystem::new(options.sync, options.faults.clone())?
            .with_read_mode(options.read_mode);
        let warehouse = resolve(warehouse)?;
        files.create_root(&warehouse)?;
        let lock = Lock::take(&files, &warehouse)?;
        let pool = Pool::start(options.background_threads)?;
        Ok(Self {
            warehouse,
            tenant: tenant.to_owned(),
            options,
            files,
            tables: Mutex::default(),
            events: unbounded(),
            published: Mutex::default(),
            pool,
            cancelled: Arc::default(),
            _lock: lock,
        })
    }

    /// Opens (creates) the table of a state. A table is opened once in the life of a store.
    ///
    /// # Errors
    /// `Incompatible` when the table on disk has other columns, parallelism or key groups than can
    /// be had from it;
    /// `NotFound` when the snapshot is gone; `Corrupt` when files are damaged; `Storage` when they
    /// cannot be read or written.
    pub fn open_table(&self, descriptor: &StateDescriptor, restore: Restore) -> Result<StateTable> {
        descriptor.check()?;
        for (what, name) in [
            ("pipeline", &descriptor.pipeline),
            ("operator", &descriptor.operator),
            ("state", &descriptor.state),
        ] {
            check_name(what, name)?;
        }
        let name = descriptor.table_name();
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.contains_key(&name) {
            return Err(Error::invalid(format!(
                "table {name} is open already: keep its handles, or close the store before it is \
                 opened again"
            )));
        }
        let table = table_directory(&self.warehouse, &self.tenant, &name);
        let committer = match restore {
            Restore::Fresh => create(&self.files, table, descriptor)?,
            Restore::Snapshot(snapshot) => open(&self.files, table, descriptor, snapshot, false)?,
            Restore::Rescaled(snapshot) => open(&self.files, table, descriptor, snapshot, true)?,
        };
        let schema = committer.schema.clone();
        let next_position = committer.next_sequence_number();
        let subtasks = schema.key_groups.parallelism();
        let view = Arc::new(SharedView::new(
            &name,
            committer.pin().clone(),
            subtasks as usize,
            ViewLimits {
                cache_bytes: self.options.read_cache_limit_bytes,
                frozen_bytes: self.options.frozen_limit_bytes / subtasks.max(1) as usize,
                stop_runs: self.options.stop_runs(),
            },
        ));
        let commands = unbounded();
        let worker = Worker::new(
            committer,
            WorkerLinks {
                view: view.clone(),
                options: self.options.clone(),
                commands: commands.clone(),
                events: self.events.0.clone(),
                pool: self.pool.queue(),
                cancelled: self.cancelled.clone(),
            },
        );
        let worker = spawn_worker(&name, worker, view.clone(), self.events.0.clone())?;
        tables
            .insert(name.clone(), OpenTable { commands: commands.0.clone(), worker: Some(worker) });
        let name: Arc<str> = name.into();
        let links = SubtaskLinks {
            table: name.clone(),
            schema: schema.clone(),
            view: view.clone(),
            commands: commands.0.clone(),
            pool: self.pool.queue(),
            clock: self.options.clock.clone(),
            ttl_ms: descriptor.ttl_ms,
            write_buffer_limit_bytes: self.options.write_buffer_limit_bytes,
            next_position,
            timers_in_memory: self.options.timers_in_memory.max(1),
        };
        let handles = (0..subtasks).map(|subtask| Some(SubtaskRows::new(subtask, links.clone())));
        Ok(StateTable {
            schema,
            handles: Arc::new(Mutex::new(handles.collect())),
            name,
            view,
            commands: commands.0,
        })
    }

    /// Reports from the background, of all tables. A report goes to one receiver.
    pub fn events(&self) -> Receiver<StateEvent> {
        self.events.1.clone()
    }

    /// Waits until every open table has published this checkpoint. Returns their full names, each
    /// with the snapshot, as [`CheckpointRequest::tables`](crate::CheckpointRequest::tables) and
    /// [`Restore::Snapshot`] take them.
    ///
    /// Call it when every subtask of every table has frozen its state at the checkpoint: it waits
    /// until that is so. It takes reports from [`StateStore::events`]; use one or the other.
    ///
    /// # Errors
    /// The error that stopped a table meanwhile.
    pub fn wait_published(&self, checkpoint: u64) -> Result<Vec<(String, i64)>> {
        loop {
            if let Some(snapshots) = self.wait_published_for(checkpoint, WAIT)? {
                return Ok(snapshots);
            }
        }
    }

    /// The same, for so long at most; `None` when the time is over. What was reported meanwhile
    /// is kept, so it may be called again.
    ///
    /// # Errors
    /// The error that stopped a table meanwhile.
    pub fn wait_published_for(
        &self,
        checkpoint: u64,
        timeout: Duration,
    ) -> Result<Option<Vec<(String, i64)>>> {
        let start = crate::seam::now();
        let names: Vec<String> =
            self.tables.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let snapshots: Vec<(String, i64)> = names
                .iter()
                .filter_map(|name| {
                    Some((name.clone(), *published.get(&(checkpoint, name.clone()))?))
                })
                .collect();
            if snapshots.len() == names.len() {
                published.retain(|(other, _), _| *other > checkpoint);
                return Ok(Some(snapshots));
            }
            match self.events.1.recv_timeout(timeout.saturating_sub(start.elapsed())) {
                Ok(StateEvent::Published { table, checkpoint, snapshot, .. }) => {
                    published.insert((checkpoint, table), snapshot);
                }
                Ok(StateEvent::Failed { error, .. }) => return Err(error),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(closed()),
            }
        }
    }

    /// Stops the background work and closes: checkpoints that all subtasks have reached are
    /// published first, all else that is not yet is dropped.
    ///
    /// # Errors
    /// The first error that stopped a table and was not yet taken from [`StateStore::events`].
    pub fn close(mut self) -> Result<()> {
        self.stop();
        for event in self.events.1.try_iter() {
            if let StateEvent::Failed { error, .. } = event {
                return Err(error);
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        for table in tables.values() {
            let _ = table.commands.send(Command::Close);
        }
        for table in tables.values_mut() {
            if let Some(worker) = table.worker.take() {
                let _ = worker.join();
            }
        }
    }
}

impl Drop for StateStore {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One state: a Paimon table and the write buffers before it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StateTable {
    name: Arc<str>,
    schema: TableSchema,
    view: Arc<SharedView>,
    commands: Sender<Command>,
    handles: Arc<Mutex<Vec<Option<SubtaskRows>>>>,
}

impl StateTable {
    /// `<pipeline>__<operator>__<state>`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Encodes keys of this state, for [`KeyBatch::new`](crate::KeyBatch::new).
    pub fn key_encoder(&self) -> &KeyEncoder {
        &self.schema.key_encoder
    }

    /// Which subtask owns which key: a state refuses the keys of another subtask. See
    /// [`KeyGroups::split`].
    pub fn key_groups(&self) -> &KeyGroups {
        &self.schema.key_groups
    }

    /// Value state of one subtask, counted from 0; each handle can be taken once. It may go to a
    /// thread of its own.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such subtask, its handle is taken, or the state is of
    /// another kind.
    pub fn value_state(&self, subtask: u32) -> Result<ValueState> {
        let fits = matches!(self.schema.kind, StateKind::Value);
        self.take_rows(subtask, fits, "value").map(ValueState::new)
    }

    /// List state of one subtask; as [`StateTable::value_state`].
    ///
    /// # Errors
    /// As [`StateTable::value_state`].
    pub fn list_state(&self, subtask: u32) -> Result<ListState> {
        let fits = matches!(self.schema.kind, StateKind::List);
        self.take_rows(subtask, fits, "list").map(ListState::new)
    }

    /// Map state of one subtask; as [`StateTable::value_state`].
    ///
    /// # Errors
    /// As [`StateTable::value_state`].
    pub fn map_state(&self, subtask: u32) -> Result<MapState> {
        let fits = matches!(self.schema.kind, StateKind::Map { .. });
        self.take_rows(subtask, fits, "map").and_then(MapState::new)
    }

    /// Reducing state of one subtask; as [`StateTable::value_state`].
    ///
    /// # Errors
    /// As [`StateTable::value_state`].
    pub fn reducing_state(&self, subtask: u32) -> Result<ReducingState> {
        let fits = matches!(self.schema.kind, StateKind::Reducing { .. });
        self.take_rows(subtask, fits, "reducing").map(ReducingState::new)
    }

    /// Timers of one subtask; as [`StateTable::value_state`].
    ///
    /// # Errors
    /// As [`StateTable::value_state`].
    pub fn timers(&self, subtask: u32) -> Result<Timers> {
        let fits = matches!(self.schema.kind, StateKind::Timers);
        self.take_rows(subtask, fits, "timers").and_then(Timers::new)
    }

    /// The rows of one subtask, whatever their kind.
    pub(crate) fn rows_of(&self, subtask: u32) -> Result<SubtaskRows> {
        self.take_rows(subtask, true, "")
    }

    pub(crate) fn shape(&self) -> &TableSchema {
        &self.schema
    }

    fn take_rows(&self, subtask: u32, fits: bool, wanted: &str) -> Result<SubtaskRows> {
        if !fits {
            return Err(Error::invalid(format!(
                "state {} is of kind {}, not {wanted}",
                self.name, self.schema.kind
            )));
        }
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let subtasks = handles.len();
        let handle = handles.get_mut(subtask as usize).ok_or_else(|| {
            Error::invalid(format!(
                "state {} has no subtask {subtask}: it has {subtasks}, counted from 0",
                self.name
            ))
        })?;
        handle.take().ok_or_else(|| {
            Error::invalid(format!(
                "the handle of subtask {subtask} of state {} was taken before; each is taken once",
                self.name
            ))
        })
    }

    /// Says which checkpoints are to be kept, each with its snapshot, the newest included. Until
    /// this is called all are kept, with all files that they need. The
    /// tags `checkpoint-<id>` of the table become exactly these; others may expire. A checkpoint
    /// newer than all of them is under way and stays.
    ///
    /// # Errors
    /// `Closed` after the background part has stopped.
    pub fn retain(&self, checkpoints: &[(u64, i64)]) -> Result<()> {
        self.commands.send(Command::Retain(checkpoints.to_vec())).map_err(|_| closed())
    }

    /// Stops the table: whoever waits in one of its subtasks wakes up with an error, and so does
    /// every later call. For a pipeline that fails elsewhere.
    pub fn abort(&self) {
        self.view.fail(&format!("state table {} was aborted", self.name));
    }

    /// What it did so far and how large it is.
    pub fn metrics(&self) -> TableMetrics {
        let counters = &self.view.counters;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let pin = self.view.pin();
        let mut metrics = TableMetrics {
            probes_total: count(&counters.probes),
            gets_total: count(&counters.gets),
            keys_read_total: count(&counters.keys_read),
            keys_written_total: count(&counters.keys_written),
            commits_total: count(&counters.commits),
            merges_total: count(&counters.merges),
            waits_total: count(&counters.waits),
            stops_total: count(&counters.stops),
            runs: pin.buckets.iter().map(Vec::len).max().unwrap_or(0) as u64,
            ..TableMetrics::default()
        };
        let (frozen_bytes, cached_bytes) = self.view.buffered_bytes();
        metrics.frozen_bytes = frozen_bytes as u64;
        metrics.cached_bytes = cached_bytes as u64;
        for pinned in pin.files() {
            metrics.rows += pinned.live_rows();
            metrics.bytes += u64::try_from(pinned.file.meta.file_size).unwrap_or(0);
            metrics.files += 1;
        }
        metrics
    }
}

/// Counters and sizes of a state table.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableMetrics {
    /// Calls of `get` with a key that no buffer knew: each is one probe of the pinned snapshot.
    pub probes_total: u64,
    /// Calls of `get`.
    pub gets_total: u64,
    /// Keys looked up.
    pub keys_read_total: u64,
    /// Keys written or deleted.
    pub keys_written_total: u64,
    /// Live rows in the latest snapshot.
    pub rows: u64,
    /// Bytes of the data files in the latest snapshot.
    pub bytes: u64,
    /// Data files in the latest snapshot.
    pub files: u64,
    /// Flushes committed.
    pub commits_total: u64,
    /// Merges published.
    pub merges_total: u64,
    /// Times that a write waited because too many frozen buffers, or bytes of them, were on their
    /// way to disk.
    pub waits_total: u64,
    /// Times that a write waited because its bucket had too many sorted runs.
    pub stops_total: u64,
    /// Sorted runs of the bucket that has most.
    pub runs: u64,
    /// Bytes of frozen write buffers on their way to disk.
    pub frozen_bytes: u64,
    /// Bytes of published write buffers kept as a read cache.
    pub cached_bytes: u64,
}

pub(crate) fn table_directory(warehouse: &Path, tenant: &str, name: &str) -> TableDirectory {
    TableDirectory {
        name: name.to_owned(),
        root: warehouse.join(format!("{tenant}.db")).join(name),
    }
}

fn create(
    files: &FileSystem,
    table: TableDirectory,
    descriptor: &StateDescriptor,
) -> Result<Committer> {
    let groups = KeyGroups::new(descriptor.key_groups, descriptor.parallelism)?;
    let schema =
        TableSchema::new(&descriptor.kind, &descriptor.key, &descriptor.stored_value(), groups, 0)?;
    let stored = paimon::spec::TableSchema::new(0, &paimon_schema(descriptor, schema.digest())?);
    let bytes = serde_json::to_vec_pretty(&stored)
        .map_err(|error| Error::invalid(format!("table {}: {error}", table.name)))?;
    // Nothing goes before it is sure that something can take its place.
    files.remove_directory(&table.root)?;
    files.create_directory(&table.schemas())?;
    files.replace(&table.schemas().join("schema-0"), &bytes)?;
    let committer = Committer::create(files.clone(), table, schema)?;
    let root = &committer.table.root;
    files.sync_directory(root)?;
    for parent in root.ancestors().skip(1).take(2) {
        files.sync_directory(parent)?;
    }
    Ok(committer)
}

/// Opens a table at a snapshot; with `rescale`, with the parallelism that is asked for.
fn open(
    files: &FileSystem,
    table: TableDirectory,
    descriptor: &StateDescriptor,
    snapshot: i64,
    rescale: bool,
) -> Result<Committer> {
    let groups = KeyGroups::new(descriptor.key_groups, descriptor.parallelism)?;
    // Whatever cannot be is refused before anything is touched.
    let stored = committer::snapshot_to_restore(files, &table, snapshot)?;
    let next = evolution::plan(files, &table, stored.schema_id(), descriptor, rescale)?;
    let mut committer = Committer::restore(files.clone(), table, next.schema.clone(), snapshot)?;
    if next.schema.key_groups.parallelism() == groups.parallelism() {
        next.write(files, &committer.table)?;
    } else {
        rescale::rescale(&mut committer, next, &groups)?;
    }
    Ok(committer)
}

/// Names become parts of a directory's name, joined by `__`: nothing but letters, digits, `-`
/// and single `_` within, and no more than 64 of them.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let ambiguous = name.contains("__") || name.starts_with('_') || name.ends_with('_');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || ambiguous {
        return Err(Error::invalid(format!(
            "`{name}` cannot name a {what}: use 1 to 64 letters, digits, `-` and `_`, the last \
             neither doubled nor at an end"
        )));
    }
    Ok(())
}

/// The same for each part of the full name of a table.
pub(crate) fn check_table_name(name: &str) -> Result<()> {
    name.split("__").try_for_each(|part| check_name("part of a table's name", part))
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the state store is closed; open it again")
}

/// Starts a thread of the background.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let work = || {
        crate::seam::let_others_go_first();
        work();
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| {
        let message = format!("cannot start thread {name}: {error}; raise the limit of threads");
        Error::with_source(ErrorKind::Storage, message, error)
    })
}

/// Runs a worker so that even a panic is reported.
fn spawn_worker(
    name: &str,
    worker: Worker,
    view: Arc<SharedView>,
    events: Sender<StateEvent>,
) -> Result<JoinHandle<()>> {
    let table = name.to_owned();
    spawn("howdah-state", move || {
        let work = std::panic::AssertUnwindSafe(|| worker.run());
        if std::panic::catch_unwind(work).is_err() {
            let reason = format!("the background part of state table {table} panicked");
            view.fail(&reason);
            let error = Error::new(ErrorKind::Closed, reason);
            let _ = events.send(StateEvent::Failed { table, error });
        }
    })
}

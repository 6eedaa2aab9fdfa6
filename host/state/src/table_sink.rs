//! A Paimon table that a pipeline writes its output to: rows are appended, or changes applied.
//!
//! What a writer prepares is data files that no snapshot names; the handle names them. A commit
//! publishes handles in one snapshot whose commit identifier is the caller's number of the commit,
//! under a commit user of the sink's own: so a commit that is asked for again finds itself done.
//! Files have the sink's name in theirs, so what a crash left can be told from what other
//! writers of the table are about to commit.

use crate::committer::{files_of, roll_back};
use crate::file_system::{FileSystem, resolve};
use crate::lock::Lock;
use crate::metadata::{
    SnapshotReader, TableDirectory, newest_paimon_schema, read_snapshot, snapshot_ids,
    tagged_snapshots, write_error,
};
use crate::schema::{from_paimon, to_paimon};
use crate::store::{check_name, table_directory};
use crate::{Column, Error, ErrorKind, Result};
use arrow_array::{ArrayRef, Int8Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use paimon::catalog::Identifier;
use paimon::spec::{Schema, Snapshot, TableSchema};
use paimon::table::{CommitMessage, Table, TableWrite};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The serialized form of a commit message: Paimon's number of it.
const MESSAGE_VERSION: i32 = 14;
/// The column of a batch with the kinds of its rows.
const VALUE_KIND_COLUMN: &str = "_VALUE_KIND";
/// Paimon's option for the beginning of the names of data files.
const PREFIX_OPTION: &str = "data-file.prefix";

/// Which table, and of what shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSinkDescriptor {
    /// The warehouse directory.
    pub warehouse: PathBuf,
    /// The database.
    pub database: String,
    /// The table; it is made if it is not there.
    pub table: String,
    /// Names the sink among the writers of the table: one that is opened again must have the same.
    pub sink: String,
    /// The columns of the rows.
    pub columns: Vec<Column>,
    /// Columns of the primary key; empty: rows are appended.
    pub primary_key: Vec<String>,
    /// Buckets of a table with a primary key that is made.
    pub buckets: u32,
    /// Whether what is prepared and committed must outlast a power failure.
    pub sync: bool,
}

/// Whether a table has a snapshot of a sink. Takes no lock; a table that is not there has none.
///
/// # Errors
/// `Corrupt` or `Storage` when a snapshot cannot be read.
pub fn has_output(warehouse: &Path, database: &str, table: &str, sink: &str) -> Result<bool> {
    let files = FileSystem::new(false, None)?;
    let directory = table_directory(&resolve(warehouse)?, database, table);
    let user = commit_user(sink);
    Ok(snapshots(&files, &directory)?.iter().any(|snapshot| snapshot.commit_user() == user))
}

fn commit_user(sink: &str) -> String {
    format!("howdah-{sink}")
}

/// The snapshots of a table, ascending.
fn snapshots(files: &FileSystem, directory: &TableDirectory) -> Result<Vec<Snapshot>> {
    let ids = snapshot_ids(files, directory)?;
    ids.into_iter().map(|id| read_snapshot(files, directory, id)).collect()
}

/// The sink. One at a time has its name, held by a lock file in the table's directory.
pub struct TableSink {
    files: FileSystem,
    directory: TableDirectory,
    table: Table,
    /// The commit user; also in the names of data files.
    user: String,
    runtime: Runtime,
    _lock: Lock,
}

impl std::fmt::Debug for TableSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableSink").field("table", &self.directory.root).finish_non_exhaustive()
    }
}

impl TableSink {
    /// Opens a table, or makes it.
    ///
    /// # Errors
    /// `InvalidArgument` for names and columns that no table can have; `Incompatible` when the
    /// table has other columns, or a shape that cannot be written to; `Locked` while another
    /// process has this sink; `Corrupt` when the table is damaged.
    pub fn open(descriptor: &TableSinkDescriptor) -> Result<Self> {
        check_name("database", &descriptor.database)?;
        check_name("table", &descriptor.table)?;
        check_name("sink", &descriptor.sink)?;
        let files = FileSystem::new(descriptor.sync, None)?;
        let warehouse = resolve(&descriptor.warehouse)?;
        let directory = table_directory(&warehouse, &descriptor.database, &descriptor.table);
        files.create_directory(&directory.root)?;
        let lock = Lock::take_file(
            &files,
            &directory.root,
            &format!(".howdah-sink-{}.lock", descriptor.sink),
        )?;
        let schema = match newest_paimon_schema(&files, &directory)? {
            Some(schema) => schema,
            None => create(&files, &directory, descriptor)?,
        };
        check(&directory.name, &schema, descriptor)?;
        let user = commit_user(&descriptor.sink);
        let identifier = Identifier::new(&descriptor.database, &descriptor.table);
        let location = directory.root.to_string_lossy().into_owned();
        let table = Table::new(files.file_io.clone(), identifier, location, schema, None);
        let prefix = HashMap::from([(PREFIX_OPTION.to_owned(), format!("{user}-"))]);
        let table = table.copy_with_options(prefix);
        Ok(Self { files, directory, table, user, runtime: runtime()?, _lock: lock })
    }

    /// Whether there is a snapshot of this sink.
    ///
    /// # Errors
    /// `Corrupt` or `Storage` when a snapshot cannot be read.
    pub fn has_output(&self) -> Result<bool> {
        Ok(self.snapshots()?.iter().any(|snapshot| snapshot.commit_user() == self.user))
    }

    /// A writer. Several write at the same time; where the table has a primary key, all changes
    /// of one key must come from the same one, or their order is lost.
    ///
    /// # Errors
    /// `Incompatible` when the table is one that cannot be written to.
    pub fn writer(&self) -> Result<TableSinkWriter> {
        let builder = self.table.new_write_builder().with_commit_user(&self.user);
        let write = builder.and_then(|builder| builder.new_write());
        Ok(TableSinkWriter {
            write: write.map_err(|error| self.refused(error))?,
            keyed: !self.table.schema().primary_keys().is_empty(),
            root: self.directory.root.clone(),
            files: self.files.clone(),
            runtime: runtime()?,
        })
    }

    /// Publishes what handles stand for, in one snapshot. A commit that is done changes nothing.
    /// Numbers ascend.
    ///
    /// # Errors
    /// `Corrupt` for handles that are none, or whose files are gone; `Storage` when the snapshot
    /// cannot be written: then the commit can be tried again.
    pub fn commit(&mut self, number: u64, handles: &[Vec<u8>]) -> Result<()> {
        let mut messages = Vec::new();
        for handle in handles {
            messages.extend(read_handle(handle)?);
        }
        if messages.is_empty() {
            return Ok(());
        }
        let number = i64::try_from(number)
            .map_err(|_| Error::invalid(format!("{number} is too large for a commit")))?;
        let builder = self.table.new_write_builder().with_commit_user(&self.user);
        let commit = builder.and_then(|builder| builder.try_new_commit());
        let commit = commit.map_err(|error| self.refused(error))?;
        self.runtime
            .block_on(commit.filter_and_commit_with_identifier(messages, number))
            .map_err(|error| write_error(&self.directory.root, error))?;
        self.files.sync_directory(&self.directory.manifests())?;
        self.files.sync_directory(&self.directory.snapshots())
    }

    /// Brings the table to a commit: takes back the sink's snapshots that came later, and removes
    /// the files that it has prepared and that neither a snapshot nor one of the handles names.
    /// 0: before the first commit. The handles are those of that commit, which may still have to be
    /// made.
    ///
    /// # Errors
    /// `Incompatible` when somebody else has written to the table after a snapshot that is to be
    /// taken back, or the snapshot before it is gone.
    pub fn recover(&mut self, number: u64, handles: &[Vec<u8>]) -> Result<()> {
        let taken_back = self.take_back(number)?;
        self.commit(number, handles)?;
        self.remove_leftovers(taken_back)
    }

    /// Removes the sink's snapshots after a commit; returns what they named.
    fn take_back(&self, number: u64) -> Result<Vec<PathBuf>> {
        let snapshots = self.snapshots()?;
        let later = |snapshot: &Snapshot| {
            snapshot.commit_user() == self.user
                && u64::try_from(snapshot.commit_identifier()).is_ok_and(|id| id > number)
        };
        let Some(first) = snapshots.iter().position(later) else {
            return Ok(Vec::new());
        };
        let refuse = |reason: &str| {
            let table = self.directory.root.display();
            Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "the output of later checkpoints cannot be taken back from the table {table}: \
                     {reason}; restore the table by hand, or write to another one"
                ),
            ))
        };
        let (kept, gone) = snapshots.split_at(first);
        if gone.iter().any(|snapshot| snapshot.commit_user() != self.user) {
            return refuse("others have written to it since");
        }
        let last = match (kept.last(), gone.first().map_or(0, Snapshot::id)) {
            (Some(last), _) => last.id(),
            (None, 1) => 0,
            (None, _) => return refuse("the snapshot before has expired"),
        };
        let named = self.named(gone)?;
        // Others make it for the first tag.
        self.files.create_directory(&self.directory.tags())?;
        roll_back(&self.files, &self.directory, last)?;
        if last == 0 {
            // A hint at no snapshot would mislead others.
            self.files.remove(&self.directory.snapshots().join("LATEST"))?;
            self.files.remove(&self.directory.snapshots().join("EARLIEST"))?;
        }
        Ok(named)
    }

    /// Every file that snapshots name.
    fn named(&self, snapshots: &[Snapshot]) -> Result<Vec<PathBuf>> {
        let mut reader = SnapshotReader::new(&self.files, &self.directory);
        let mut named = Vec::new();
        for snapshot in snapshots {
            named.extend(files_of(&self.directory, snapshot, &reader.read(snapshot)?));
        }
        Ok(named)
    }

    fn snapshots(&self) -> Result<Vec<Snapshot>> {
        snapshots(&self.files, &self.directory)
    }

    /// Removes this sink's data files that no snapshot names, and of the other files those that
    /// none names any more.
    fn remove_leftovers(&self, mut leftovers: Vec<PathBuf>) -> Result<()> {
        let mut snapshots = self.snapshots()?;
        snapshots.extend(tagged_snapshots(&self.files, &self.directory)?);
        let used: HashSet<PathBuf> = self.named(&snapshots)?.into_iter().collect();
        let prefix = format!("{}-", self.user);
        for bucket in self.files.list(&self.directory.root)? {
            if !bucket.starts_with("bucket-") {
                continue;
            }
            let bucket = self.directory.root.join(bucket);
            let names = self.files.list(&bucket)?.into_iter();
            let own = names.filter(|name| name.starts_with(&prefix));
            leftovers.extend(own.map(|name| bucket.join(name)));
        }
        leftovers.retain(|path| !used.contains(path));
        self.files.remove_all(&leftovers)
    }

    fn refused(&self, error: paimon::Error) -> Error {
        let message = format!("table {} cannot be written to: {error}", self.directory.name);
        Error::with_source(ErrorKind::Incompatible, message, error)
    }
}

/// Writes rows to data files that no snapshot names.
pub struct TableSinkWriter {
    write: TableWrite,
    keyed: bool,
    root: PathBuf,
    files: FileSystem,
    runtime: Runtime,
}

impl std::fmt::Debug for TableSinkWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableSinkWriter").field("table", &self.root).finish_non_exhaustive()
    }
}

impl TableSinkWriter {
    /// Writes rows. Each may have a kind: 0 insert, 1 the value before an update, 2 the value
    /// after it, 3 delete. After an error the writer is of no use.
    ///
    /// # Errors
    /// `InvalidArgument` for rows with kinds where the table has no primary key, or with other
    /// columns; `Storage` when they cannot be written.
    pub fn write(&mut self, rows: &RecordBatch, kinds: Option<&[u8]>) -> Result<()> {
        let with_kinds;
        let rows = match kinds {
            None => rows,
            Some(_) if !self.keyed => {
                return Err(Error::invalid("a table without a primary key takes no changes"));
            }
            Some(kinds) => {
                with_kinds = add_kinds(rows, kinds)?;
                &with_kinds
            }
        };
        let written = self.runtime.block_on(self.write.write_arrow_batch(rows));
        written.map_err(|error| write_error(&self.root, error))
    }

    /// Closes the files, and makes them durable; the handle of what was written since the last
    /// time, and its bytes. `None`: there were no rows.
    ///
    /// # Errors
    /// `Storage` when they cannot be written.
    pub fn prepare(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        let messages = self.runtime.block_on(self.write.prepare_commit());
        let messages = messages.map_err(|error| write_error(&self.root, error))?;
        if messages.is_empty() {
            return Ok(None);
        }
        let mut buckets: Vec<PathBuf> = messages
            .iter()
            .map(|message| self.root.join(format!("bucket-{}", message.bucket)))
            .collect();
        buckets.sort_unstable();
        buckets.dedup();
        for bucket in &buckets {
            self.files.sync_directory(bucket)?;
        }
        self.files.sync_directory(&self.root)?;
        let files = messages.iter().flat_map(|message| &message.new_files);
        let bytes = files.map(|file| u64::try_from(file.file_size).unwrap_or(0)).sum();
        Ok(Some((write_handle(&messages)?, bytes)))
    }
}

impl Drop for TableSinkWriter {
    fn drop(&mut self) {
        self.runtime.block_on(self.write.close());
    }
}

/// Messages one after the other, each behind its length.
fn write_handle(messages: &[CommitMessage]) -> Result<Vec<u8>> {
    let mut handle = Vec::new();
    for message in messages {
        let bytes = message.serialize().map_err(|error| {
            Error::internal(format!("a commit message cannot be written: {error}"))
        })?;
        let length = u32::try_from(bytes.len())
            .map_err(|_| Error::internal("a commit message is longer than 4 GiB"))?;
        handle.extend_from_slice(&length.to_be_bytes());
        handle.extend_from_slice(&bytes);
    }
    Ok(handle)
}

fn read_handle(mut handle: &[u8]) -> Result<Vec<CommitMessage>> {
    let damaged = || Error::corrupt("the handle of a commit is damaged");
    let mut messages = Vec::new();
    while !handle.is_empty() {
        let (length, rest) = handle.split_first_chunk::<4>().ok_or_else(damaged)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| damaged())?;
        let (message, rest) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let message = CommitMessage::deserialize(MESSAGE_VERSION, message);
        messages.push(message.map_err(|error| {
            Error::corrupt(format!("the handle of a commit cannot be read: {error}"))
        })?);
        handle = rest;
    }
    Ok(messages)
}

fn add_kinds(rows: &RecordBatch, kinds: &[u8]) -> Result<RecordBatch> {
    let kinds: Int8Array = kinds.iter().map(|kind| i8::try_from(*kind).ok()).collect();
    let mut fields = rows.schema().fields().to_vec();
    fields.push(Arc::new(Field::new(VALUE_KIND_COLUMN, DataType::Int8, false)));
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    columns.push(Arc::new(kinds));
    RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), columns)
        .map_err(|error| Error::invalid(format!("rows do not fit their kinds: {error}")))
}

/// What crate `paimon` waits on.
pub(crate) fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::io("start a runtime for", Path::new("a table"), error))
}

fn create(
    files: &FileSystem,
    directory: &TableDirectory,
    descriptor: &TableSinkDescriptor,
) -> Result<TableSchema> {
    let invalid =
        |error: paimon::Error| Error::invalid(format!("the output cannot be a table: {error}"));
    let mut builder = Schema::builder();
    for column in &descriptor.columns {
        let key = descriptor.primary_key.contains(&column.name);
        let column = Column { nullable: column.nullable && !key, ..column.clone() };
        builder = builder.column(&column.name, to_paimon(&column)?);
    }
    if !descriptor.primary_key.is_empty() {
        builder = builder
            .primary_key(descriptor.primary_key.clone())
            .option("bucket", descriptor.buckets.to_string());
    }
    let schema = builder.option("file.format", "parquet").build().map_err(invalid)?;
    let schema = TableSchema::new(0, &schema);
    let bytes = serde_json::to_vec_pretty(&schema)
        .map_err(|error| Error::invalid(format!("table {}: {error}", directory.name)))?;
    files.create_directory(&directory.schemas())?;
    files.replace(&directory.schema(0), &bytes)?;
    for parent in directory.root.ancestors().take(3) {
        files.sync_directory(parent)?;
    }
    Ok(schema)
}

/// Refuses a table of another shape.
fn check(name: &str, schema: &TableSchema, descriptor: &TableSinkDescriptor) -> Result<()> {
    let refuse = |reason: String| {
        let message = format!("table {name} {reason}; name another table");
        Err(Error::new(ErrorKind::Incompatible, message))
    };
    let mut columns = Vec::new();
    for field in schema.fields() {
        columns.push(from_paimon(name, field.name(), field.data_type())?);
    }
    let describe = |columns: &[Column]| {
        let column = |column: &Column| format!("{} {}", column.name, column.column_type);
        columns.iter().map(column).collect::<Vec<_>>().join(", ")
    };
    let (stored, wanted) = (describe(&columns), describe(&descriptor.columns));
    if stored != wanted {
        return refuse(format!("has the columns ({stored}), and the output has ({wanted})"));
    }
    let strict = columns.iter().zip(&descriptor.columns).find(|(stored, wanted)| {
        !stored.nullable && wanted.nullable && !descriptor.primary_key.contains(&stored.name)
    });
    if let Some((column, _)) = strict {
        return refuse(format!("takes no null for `{}`, and the output may have it", column.name));
    }
    if schema.primary_keys() != descriptor.primary_key {
        let list = |key: &[String]| match key {
            [] => "no primary key".to_owned(),
            key => format!("the primary key ({})", key.join(", ")),
        };
        return refuse(format!(
            "has {}, and the pipeline wants {}",
            list(schema.primary_keys()),
            list(&descriptor.primary_key)
        ));
    }
    if !schema.partition_keys().is_empty() {
        return refuse("is partitioned, which is not supported yet".to_owned());
    }
    let bucket = schema.options().get("bucket").map_or("-1", String::as_str);
    let fixed = bucket.parse::<u32>().is_ok_and(|bucket| bucket > 0);
    let unaware = bucket == "-1" && descriptor.primary_key.is_empty();
    if !fixed && !unaware {
        return refuse(format!("has bucket = {bucket}, which is not supported yet"));
    }
    Ok(())
}

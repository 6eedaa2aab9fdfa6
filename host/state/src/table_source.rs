//! The rows of any Paimon table, and what changes from snapshot to snapshot, as crate `paimon` reads
//! them.
//!
//! What is read of one snapshot, or from one to another, is always the same in the same order: so a
//! reader that was broken off goes on after as many rows. That is why splits are put in order, and
//! read one after the other.

use crate::file_system::{FileSystem, resolve};
use crate::metadata::{
    TableDirectory, newest_paimon_schema, read_error, read_snapshot, snapshot_ids,
};
use crate::store::{check_name, table_directory};
use crate::table_sink::runtime;
use crate::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::SchemaRef;
use futures::StreamExt as _;
use paimon::catalog::Identifier;
use paimon::spec::{CommitKind, DataType, Snapshot};
use paimon::table::{
    ArrowRecordBatchStream, DataSplit, IncrementalPlan, IncrementalScanMode, IncrementalSplit,
    Table, TableRead,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A table that is read.
pub struct TableSource {
    files: FileSystem,
    directory: TableDirectory,
    table: Table,
    schema: SchemaRef,
    runtime: Arc<Runtime>,
}

/// A snapshot of a table, and what tells it from another one with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableVersion {
    /// The number of the snapshot.
    pub snapshot: i64,
    /// CRC-32 of its file.
    pub crc32: u32,
}

impl std::fmt::Debug for TableSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableSource").field("table", &self.directory.root).finish_non_exhaustive()
    }
}

impl TableSource {
    /// Opens a table.
    ///
    /// # Errors
    /// `NotFound` when there is none; `Corrupt` when its schema is damaged; `InvalidArgument` for
    /// names that no table can have.
    pub fn open(warehouse: &Path, database: &str, table: &str) -> Result<Self> {
        check_name("database", database)?;
        check_name("table", table)?;
        let files = FileSystem::new(false, None)?;
        let directory = table_directory(&resolve(warehouse)?, database, table);
        let schema = newest_paimon_schema(&files, &directory)?.ok_or_else(|| {
            Error::not_found(format!("there is no table {}", directory.root.display()))
        })?;
        let location = directory.root.to_string_lossy().into_owned();
        let identifier = Identifier::new(database, table);
        let table = Table::new(files.file_io.clone(), identifier, location, schema, None);
        let schema = paimon::arrow::build_target_arrow_schema(table.schema().fields())
            .map_err(|error| read_error(&directory.root, error))?;
        Ok(Self { files, directory, table, schema, runtime: Arc::new(runtime()?) })
    }

    /// The columns, by the schema that was the newest when the table was opened.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether rows have a primary key, so that they can change.
    pub fn is_keyed(&self) -> bool {
        !self.table.schema().primary_keys().is_empty()
    }

    /// Why what changes in the table cannot be read; `None`: it can.
    pub fn no_changes_because(&self) -> Option<String> {
        let options = self.table.schema().options();
        let engine = options.get("merge-engine").map_or("deduplicate", String::as_str);
        if !self.is_keyed() {
            return None;
        }
        if !engine.eq_ignore_ascii_case("deduplicate") {
            return Some(format!(
                "it has merge-engine = {engine}, whose changes cannot be told from snapshots; those of \
                 tables with merge-engine = deduplicate, and of tables without a primary key, can"
            ));
        }
        let is_plain = |data_type: &DataType| {
            !matches!(data_type, DataType::Array(_) | DataType::Map(_) | DataType::Row(_))
        };
        let mut fields = self.table.schema().fields().iter();
        let nested = fields.find(|field| !is_plain(field.data_type()))?;
        Some(format!("its column `{}` is nested, which cannot be compared", nested.name()))
    }

    /// The newest snapshot; `None`: there is none yet.
    ///
    /// # Errors
    /// `Storage` when the table cannot be listed.
    pub fn newest(&self) -> Result<Option<TableVersion>> {
        let mut ids = snapshot_ids(&self.files, &self.directory)?;
        while let Some(id) = ids.pop() {
            if let Some(version) = self.version(id)? {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// A snapshot by its number; `None`: it is not there, or no more.
    ///
    /// # Errors
    /// `Storage` when it cannot be read.
    pub fn version(&self, snapshot: i64) -> Result<Option<TableVersion>> {
        let path = self.directory.snapshot(snapshot);
        if !self.files.exists(&path)? {
            return Ok(None);
        }
        match self.files.read(&path) {
            Ok(bytes) => Ok(Some(TableVersion { snapshot, crc32: crc32fast::hash(&bytes) })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All rows of a snapshot.
    ///
    /// # Errors
    /// `NotFound` when the snapshot has expired; `Corrupt` or `Storage` when it cannot be read.
    pub fn rows(&self, snapshot: i64) -> Result<TableRows> {
        let table = self.table.copy_with_pinned_snapshot(&self.snapshot(snapshot)?);
        let plan = self.runtime.block_on(table.new_read_builder().new_scan().plan());
        let plan = plan.map_err(|error| self.failed(error))?;
        let splits = in_order(plan.into_splits()).into_iter().map(Unit::Rows);
        Ok(self.read(table, splits.collect(), false))
    }

    /// What is new in a snapshot of a table without a primary key. Compaction changes nothing.
    ///
    /// # Errors
    /// As [`TableSource::rows`]; `Incompatible` when the snapshot does more than to append.
    pub fn appended(&self, snapshot: i64) -> Result<TableRows> {
        let found = self.snapshot(snapshot)?;
        let refuse = |what: &str| {
            let message = format!(
                "snapshot {snapshot} of table {} {what}, which a source of appended rows cannot \
                 follow; begin anew with --fresh",
                self.directory.name
            );
            Err(Error::new(ErrorKind::Incompatible, message))
        };
        match found.commit_kind() {
            CommitKind::APPEND if found.delta_record_count().is_some_and(|rows| rows < 0) => {
                return refuse("removes rows");
            }
            CommitKind::APPEND if self.has_other_index(&found)? => return refuse("deletes rows"),
            CommitKind::APPEND => {}
            CommitKind::OVERWRITE => return refuse("overwrites rows"),
            CommitKind::COMPACT | CommitKind::ANALYZE => {
                return Ok(self.read(self.table.clone(), VecDeque::new(), false));
            }
        }
        let plan = self.changes_between(IncrementalScanMode::Delta, snapshot - 1, snapshot)?;
        let splits = in_order(plan.data_splits()).into_iter().map(Unit::Rows);
        Ok(self.read(self.table.clone(), splits.collect(), false))
    }

    /// Whether a snapshot has other deletion vectors than the one before it, if that is known.
    fn has_other_index(&self, snapshot: &Snapshot) -> Result<bool> {
        match read_snapshot(&self.files, &self.directory, snapshot.id() - 1) {
            Ok(before) => Ok(before.index_manifest() != snapshot.index_manifest()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What changed from one snapshot to a later one in a table with a primary key: the
    /// difference of both, whatever lies between. Reads the buckets of both.
    ///
    /// # Errors
    /// As [`TableSource::rows`]; `Incompatible` when the table has other buckets now.
    pub fn changed(&self, from: i64, to: i64) -> Result<TableRows> {
        let plan = self.changes_between(IncrementalScanMode::Diff, from, to)?;
        let mut units = VecDeque::new();
        for split in plan.splits() {
            let IncrementalSplit::DiffPair { before, after } = split else {
                return Err(Error::internal("a difference of snapshots is no pair"));
            };
            let (before, after) = (in_order(before.clone()), in_order(after.clone()));
            // Files that both have say nothing new.
            if files_of(&before) != files_of(&after) {
                units.push_back(Unit::Change(IncrementalSplit::DiffPair { before, after }));
            }
        }
        Ok(self.read(self.table.clone(), units, true))
    }

    fn changes_between(
        &self,
        mode: IncrementalScanMode,
        from: i64,
        to: i64,
    ) -> Result<IncrementalPlan> {
        for id in [from, to] {
            if mode == IncrementalScanMode::Diff || id == to {
                self.snapshot(id)?;
            }
        }
        let builder = self.table.new_read_builder();
        let plan = self.runtime.block_on(builder.new_incremental_scan(mode, from, to).plan());
        plan.map_err(|error| self.failed(error))
    }

    fn snapshot(&self, id: i64) -> Result<Snapshot> {
        read_snapshot(&self.files, &self.directory, id)
    }

    fn read(&self, table: Table, units: VecDeque<Unit>, changes: bool) -> TableRows {
        TableRows {
            table,
            name: self.directory.clone(),
            units,
            open: None,
            changes,
            skipped: 0,
            runtime: Arc::clone(&self.runtime),
        }
    }

    fn failed(&self, error: paimon::Error) -> Error {
        read_error(&self.directory.root, error)
    }
}

/// Splits by partition, bucket, and the names of their files: the same each time.
fn in_order(mut splits: Vec<DataSplit>) -> Vec<DataSplit> {
    splits.sort_by_cached_key(|split| {
        (split.partition().to_serialized_bytes(), split.bucket(), names_of(split))
    });
    splits
}

fn names_of(split: &DataSplit) -> Vec<String> {
    split.data_files().iter().map(|file| file.file_name.clone()).collect()
}

/// Every file of splits, with its deleted rows.
fn files_of(splits: &[DataSplit]) -> Vec<(String, String)> {
    let of_split = |split: &DataSplit| {
        let named = split.data_files().iter().enumerate().map(|(index, file)| {
            let deleted = format!("{:?}", split.deletion_file_for_data_file_index(index));
            (file.file_name.clone(), deleted)
        });
        named.collect::<Vec<_>>()
    };
    let mut files: Vec<(String, String)> = splits.iter().flat_map(of_split).collect();
    files.sort_unstable();
    files
}

/// What is read in one piece.
enum Unit {
    Rows(DataSplit),
    Change(IncrementalSplit),
}

/// Rows of a table, batch after batch.
pub struct TableRows {
    table: Table,
    name: TableDirectory,
    units: VecDeque<Unit>,
    open: Option<ArrowRecordBatchStream>,
    changes: bool,
    /// Rows that are passed over.
    skipped: u64,
    runtime: Arc<Runtime>,
}

impl std::fmt::Debug for TableRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableRows").field("table", &self.name).finish_non_exhaustive()
    }
}

impl TableRows {
    /// Without the first rows, which were read before.
    #[must_use]
    pub fn skip(self, rows: u64) -> Self {
        Self { skipped: rows, ..self }
    }

    /// The next rows, and of changes the kind of each: 0 insert, 1 the value before an update, 2
    /// the value after it, 3 delete. `None`: there are no more.
    ///
    /// # Errors
    /// `NotFound` when the snapshot has expired meanwhile; `Corrupt` or `Storage` when its files
    /// cannot be read.
    pub fn next_batch(&mut self) -> Result<Option<(RecordBatch, Option<Vec<u8>>)>> {
        loop {
            if self.open.is_none() {
                let Some(unit) = self.units.pop_front() else { return Ok(None) };
                let builder = self.table.new_read_builder();
                let opened = builder.new_read().and_then(|read| open(&read, unit));
                self.open = Some(opened.map_err(|error| self.failed(error))?);
            }
            let Some(stream) = &mut self.open else { continue };
            match self.runtime.block_on(stream.next()) {
                None => self.open = None,
                Some(Err(error)) => return Err(self.failed(error)),
                Some(Ok(batch)) => {
                    let skipped = usize::try_from(self.skipped).unwrap_or(usize::MAX);
                    let skipped = skipped.min(batch.num_rows());
                    self.skipped -= u64::try_from(skipped).unwrap_or(u64::MAX);
                    let batch = batch.slice(skipped, batch.num_rows() - skipped);
                    match self.changes {
                        _ if batch.num_rows() == 0 => {}
                        true => return self.split(&batch).map(Some),
                        false => return Ok(Some((batch, None))),
                    }
                }
            }
        }
    }

    /// Rows, and the kinds that come in the first column.
    fn split(&self, batch: &RecordBatch) -> Result<(RecordBatch, Option<Vec<u8>>)> {
        let damaged = || Error::corrupt(format!("the changes of {} have no kinds", self.name.name));
        let names = batch.columns().first().and_then(|column| column.as_string_opt::<i32>());
        let kind = |name: Option<&str>| {
            Some(match name? {
                "+I" => 0,
                "-U" => 1,
                "+U" => 2,
                "-D" => 3,
                _ => return None,
            })
        };
        let kinds: Option<Vec<u8>> = names.ok_or_else(damaged)?.iter().map(kind).collect();
        let columns: Vec<usize> = (1..batch.num_columns()).collect();
        let rows = batch.project(&columns).map_err(|_| damaged())?;
        Ok((rows, Some(kinds.ok_or_else(damaged)?)))
    }

    fn failed(&self, error: paimon::Error) -> Error {
        read_error(&self.name.root, error)
    }
}

fn open(read: &TableRead<'_>, unit: Unit) -> paimon::Result<ArrowRecordBatchStream> {
    match unit {
        Unit::Rows(split) => read.to_arrow(&[split]),
        Unit::Change(pair) => {
            let plan = IncrementalPlan::try_new(IncrementalScanMode::Diff, vec![pair])?;
            read.to_audit_log_arrow(&plan)
        }
    }
}

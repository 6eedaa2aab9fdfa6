//! Reads state tables without the lock, while a pipeline may be running.

use crate::committer::files_of;
use crate::data_file::{DamagedSidecar, ScannedRows};
use crate::evolution::{self, SchemaChange, read_newest_schema, read_schema};
use crate::file_system::{FileSystem, resolve};
use crate::lease::SnapshotLease;
use crate::metadata::{
    SnapshotReader, TableDirectory, open_pin, read_snapshot, read_snapshot_file, snapshot_ids,
    tagged_checkpoints,
};
use crate::ordered::{self, OrderedRows, RowKeys, whole};
use crate::pin::{FileHits, Pin, Want};
use crate::range::{FoundRow, RangeCursors};
use crate::rows::after;
use crate::schema::TableSchema;
use crate::store::{check_name, check_table_name, table_directory};
use crate::value_column::ValueColumn;
use crate::{Column, EncodedKeys, Error, ErrorKind, KeyBatch, Result, StateDescriptor, StateKind};
use arrow_array::{ArrayRef, Int32Array, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use paimon::spec::Snapshot;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows that are put together at a time.
const BATCH_ROWS: usize = 8192;
/// Bytes of values after which a batch ends.
const BATCH_BYTES: usize = 16 << 20;
/// Attempts to read the latest snapshot while a pipeline moves on.
const ATTEMPTS: usize = 5;

/// Which version of a table to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The newest snapshot.
    Latest,
    /// The snapshot with this number.
    Snapshot(i64),
    /// The snapshot of this checkpoint, by the tag `checkpoint-<id>`.
    Checkpoint(u64),
}

/// A state table in a warehouse.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TableInfo {
    /// `<pipeline>__<operator>__<state>`.
    pub name: String,
    /// The directory of the table.
    pub path: PathBuf,
    /// Newest snapshot, if there is one.
    pub snapshot: Option<i64>,
    /// Live rows in it.
    pub rows: u64,
    /// Bytes of its data files.
    pub bytes: u64,
    /// Data files in it.
    pub files: u64,
    /// Checkpoints that can be read with [`At::Checkpoint`].
    pub checkpoints: Vec<u64>,
}

/// A version of a table, every file of which is as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct VerifiedTable {
    /// Its snapshot.
    pub snapshot: i64,
    /// Live rows in it.
    pub rows: u64,
    /// Data files in it.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// All state tables of a tenant in a warehouse, by name.
///
/// # Errors
/// `InvalidArgument` for a name that no tenant can have; `Storage` when the warehouse cannot be
/// read; `Corrupt` when a table is damaged.
pub fn list_tables(warehouse: &Path, tenant: &str) -> Result<Vec<TableInfo>> {
    check_name("tenant", tenant)?;
    let files = FileSystem::new(false, None)?;
    let warehouse = resolve(warehouse)?;
    let database = warehouse.join(format!("{tenant}.db"));
    let names = files.list(&database)?;
    let mut tables = Vec::new();
    for name in &names {
        let table = table_directory(&warehouse, tenant, name);
        // One that is being made has no snapshot yet; a stray file is no table.
        if files.is_directory(&table.snapshots())? {
            tables.push(describe(&files, table)?);
        }
    }
    Ok(tables)
}

fn describe(files: &FileSystem, table: TableDirectory) -> Result<TableInfo> {
    let reader = StateReader::of(files.clone(), table)?;
    let pin = match snapshot_ids(files, &reader.table)?.last() {
        Some(_) => Some(reader.pin(&At::Latest, |_| None)?.1),
        None => None,
    };
    let mut info = TableInfo {
        name: reader.table.name.clone(),
        path: reader.table.root.clone(),
        snapshot: pin.as_ref().map(|pin| pin.snapshot),
        rows: 0,
        bytes: 0,
        files: 0,
        checkpoints: tagged_checkpoints(files, &reader.table)?.into_keys().collect(),
    };
    for pinned in pin.iter().flat_map(Pin::files) {
        info.rows += pinned.live_rows();
        info.bytes += u64::try_from(pinned.file.meta.file_size).unwrap_or(0);
        info.files += 1;
    }
    Ok(info)
}

/// Reads one table. It takes no lock. A snapshot stays readable for a while after it is
/// superseded; [`StateReader::hold`] keeps it for longer.
#[derive(Debug)]
pub struct StateReader {
    files: FileSystem,
    table: TableDirectory,
    schema: TableSchema,
}

impl StateReader {
    /// Opens a table for reading; `table` is its full name, `<pipeline>__<operator>__<state>`.
    ///
    /// # Errors
    /// `NotFound` when there is no such table; `Incompatible` when it is no state table;
    /// `InvalidArgument` for a name that no table can have.
    pub fn open(warehouse: &Path, tenant: &str, table: &str) -> Result<Self> {
        check_name("tenant", tenant)?;
        check_table_name(table)?;
        let warehouse = resolve(warehouse)?;
        Self::of(FileSystem::new(false, None)?, table_directory(&warehouse, tenant, table))
    }

    fn of(files: FileSystem, table: TableDirectory) -> Result<Self> {
        let schema = read_newest_schema(&files, &table)?;
        Ok(Self { files, table, schema })
    }

    /// What the rows of a key are.
    pub fn kind(&self) -> &StateKind {
        &self.schema.kind
    }

    /// Columns of the row key: of a list with `position`, of a map with its map key, of timers
    /// with `time`.
    pub fn key(&self) -> &[Column] {
        self.schema.key()
    }

    /// Value columns.
    pub fn value(&self) -> &[Column] {
        &self.schema.value
    }

    /// Arrow schema of the rows: `kg` (key group), key columns, value columns. That of the
    /// newest version; an older one may have fewer columns and narrower types.
    pub fn schema(&self) -> SchemaRef {
        self.schema.rows.clone()
    }

    /// Arrow schema of the rows of a version.
    ///
    /// # Errors
    /// As [`StateReader::scan`].
    pub fn schema_at(&self, at: &At) -> Result<SchemaRef> {
        Ok(self.schema_of(&self.snapshot(at)?)?.rows)
    }

    /// How a version differs from the state that is asked for. Nothing that is refused: a store
    /// opens the table so, from that version on. With `rescale`, the parallelism may differ.
    ///
    /// # Errors
    /// As [`StateReader::scan`].
    pub fn compare(
        &self,
        at: &At,
        wanted: &StateDescriptor,
        rescale: bool,
    ) -> Result<Vec<SchemaChange>> {
        Ok(evolution::compare(&self.schema_of(&self.snapshot(at)?)?, wanted, rescale))
    }

    /// The number of the snapshot of a version, as [`Restore::Snapshot`](crate::Restore::Snapshot)
    /// takes it.
    ///
    /// # Errors
    /// `NotFound` when there is no such version; `Corrupt` when its file is damaged.
    pub fn snapshot_id(&self, at: &At) -> Result<i64> {
        Ok(self.snapshot(at)?.id())
    }

    /// The shape of a version.
    pub(crate) fn schema_version(&self, at: &At) -> Result<TableSchema> {
        self.schema_of(&self.snapshot(at)?)
    }

    /// A version, open, read with the columns of another one.
    pub(crate) fn open_as(&self, at: &At, columns: &TableSchema) -> Result<(TableSchema, Pin)> {
        self.pin_as(
            at,
            |schema| TableSchema { key_groups: schema.key_groups, ..columns.clone() },
            |_| None,
        )
    }

    /// The schema that a snapshot was written under.
    fn schema_of(&self, snapshot: &Snapshot) -> Result<TableSchema> {
        if snapshot.schema_id() == self.schema.schema_id {
            return Ok(self.schema.clone());
        }
        read_schema(&self.files, &self.table, snapshot.schema_id())
    }

    /// Takes a lease of a version: its snapshot stays readable, with [`At::Snapshot`] and for
    /// other engines, for `duration_ms` milliseconds or until it is renewed or dropped. Needs
    /// write access to the table's directory.
    ///
    /// # Errors
    /// `NotFound` when there is no such version; `InvalidArgument` for more than a day; `Storage`
    /// when the lease cannot be written.
    pub fn hold(&self, at: &At, duration_ms: u64) -> Result<SnapshotLease> {
        let mut attempt = 1;
        loop {
            let id = self.snapshot(at)?.id();
            let lease = SnapshotLease::take(&self.files, &self.table, id, duration_ms)?;
            // Had it been removed before the lease was there, it would have been too late.
            if self.files.exists(&self.table.snapshot(id))? {
                return Ok(lease);
            }
            if *at != At::Latest || attempt == ATTEMPTS {
                return Err(Error::not_found(format!(
                    "snapshot {id} of table {} was removed just now; choose a newer one",
                    self.table.name
                )));
            }
            attempt += 1;
        }
    }

    /// Reads every data file of a version, with what is beside it, and compares the checksums that
    /// were taken when it was written.
    ///
    /// # Errors
    /// `Corrupt` names the file that is damaged or gone; `NotFound` when there is no such version.
    pub fn verify(&self, at: &At) -> Result<VerifiedTable> {
        let snapshot = self.snapshot(at)?;
        let (_, pin) =
            self.open_snapshot(&snapshot, |schema| schema, |_| None, DamagedSidecar::Refuse)?;
        let mut verified = VerifiedTable { snapshot: pin.snapshot, rows: 0, files: 0, bytes: 0 };
        for pinned in pin.files() {
            pinned.file.content.verify()?;
            verified.rows += pinned.live_rows();
            verified.files += 1;
            verified.bytes += pinned.file.bytes();
        }
        Ok(verified)
    }

    /// Rows of the table, at most `limit`, by bucket, file and key; [`StateReader::schema_at`]
    /// has their columns. All rows that are on disk: of a state with a time to live also those
    /// that have ended (`expires_at`) and are not merged away yet; never what is not published.
    ///
    /// # Errors
    /// `NotFound` when there is no such snapshot or checkpoint; `Corrupt` when files are damaged.
    pub fn scan(&self, at: &At, limit: Option<usize>) -> Result<Vec<RecordBatch>> {
        let (schema, pin) = self.pin(at, |_| None)?;
        let mut left = limit.unwrap_or(usize::MAX);
        let mut batches = Vec::new();
        for pinned in pin.files() {
            for rows in pinned.file.content.scan(&pinned.dead)? {
                if left == 0 {
                    return Ok(batches);
                }
                let batch = self.batch(&schema, rows?)?;
                let batch = batch.slice(0, batch.num_rows().min(left));
                left -= batch.num_rows();
                batches.push(batch);
            }
        }
        Ok(batches)
    }

    /// Hands out all rows of a version, a few thousand at a time, by key group and row key: elements
    /// of a list in their order. Otherwise as [`StateReader::scan`], but a few rows of each file are
    /// in memory at a time. Returns how many there were.
    ///
    /// # Errors
    /// As [`StateReader::scan`], and what `take` returns.
    pub fn read_ordered<E: From<Error>>(
        &self,
        at: &At,
        mut take: impl FnMut(RecordBatch) -> Result<(), E>,
    ) -> Result<u64, E> {
        let (schema, pin) = self.pin(at, |_| None)?;
        let mut rows = OrderedRows::new(schema.clone(), pin);
        let mut total = 0;
        loop {
            let mut keys = RowKeys::default();
            let mut values: Vec<ValueColumn> = schema.value.iter().map(ValueColumn::new).collect();
            let mut bytes = 0;
            while keys.len() < BATCH_ROWS
                && bytes < BATCH_BYTES
                && let Some((group, FoundRow { key, hash, values: from, row, .. })) = rows.next()?
            {
                keys.push(group, &key, hash)?;
                for (column, from) in values.iter_mut().zip(from.iter()) {
                    column.push_from(from, row)?;
                }
                bytes = values.iter().map(ValueColumn::memory_bytes).sum();
            }
            if keys.len() == 0 {
                return Ok(total);
            }
            total += u64::try_from(keys.len()).unwrap_or(0);
            let mut columns = keys.columns(&schema)?;
            for column in &values {
                columns.push(whole(column)?);
            }
            take(self.record_batch(&schema, columns)?)?;
        }
    }

    /// Reads the keys of all rows of a version: each is there once, and in its own key group. Returns
    /// how many rows there are.
    ///
    /// # Errors
    /// `Corrupt` names the key that is there twice or in a wrong place; otherwise as
    /// [`StateReader::scan`].
    pub fn check_keys(&self, at: &At) -> Result<u64> {
        let (schema, pin) = self.pin(at, |_| None)?;
        ordered::check_keys(&self.table.name, schema, pin)
    }

    /// The rows with this key, in the order of their row keys; `key` has one text for each key
    /// column, in order. Of a list or map, the whole row key (with position or map key) names a
    /// single row. Timers are looked up by key, or by time and key.
    ///
    /// # Errors
    /// `InvalidArgument` when a text is no value of its column; otherwise as
    /// [`StateReader::scan`].
    pub fn get(&self, at: &At, key: &[impl AsRef<str>]) -> Result<Vec<RecordBatch>> {
        let key: Vec<&str> = key.iter().map(AsRef::as_ref).collect();
        let key = key.as_slice();
        let of_operator = self.schema.key_encoder.columns().len();
        match self.schema.kind {
            _ if key.len() == self.schema.key().len() => self.get_row(at, key),
            StateKind::Timers if key.len() == of_operator => self.find_timers(at, key),
            _ => self.get_rows(at, key),
        }
    }

    fn get_row(&self, at: &At, key: &[&str]) -> Result<Vec<RecordBatch>> {
        let keys = self.schema.encoder.parse(key)?;
        let hash = keys.encoded().hashes().first().copied().unwrap_or(0);
        let bucket = |schema: &TableSchema| schema.key_groups.subtask_of(hash);
        let (schema, pin) = self.pin(at, |schema| Some(bucket(schema)))?;
        let hits = pin.probe(&schema, bucket(&schema), keys.encoded(), &[0], Want::Values)?;
        hits.into_iter()
            .map(|FileHits { values, .. }| {
                let mut columns = keys.columns().to_vec();
                for column in &values {
                    columns.push(column.gather(&[Some(0)])?);
                }
                self.rows_of_group(&schema, hash, columns)
            })
            .collect()
    }

    /// The rows of a list or map.
    fn get_rows(&self, at: &At, key: &[&str]) -> Result<Vec<RecordBatch>> {
        let keys = self.schema.key_encoder.parse(key)?;
        let hash = keys.encoded().hashes().first().copied().unwrap_or(0);
        let group = self.schema.key_groups.group_of(hash);
        let bucket = |schema: &TableSchema| schema.key_groups.subtask_of(hash);
        let (schema, pin) = self.pin(at, |schema| Some(bucket(schema)))?;
        let (from, to) = (keys.encoded().key(0), after(keys.encoded().key(0)));
        let ranges = pin.range(&schema, bucket(&schema), group, from, to.as_deref())?;
        let mut cursors = RangeCursors::open(&schema, ranges)?;
        let mut batches = Vec::new();
        loop {
            let mut row_keys = EncodedKeys::default();
            let mut values: Vec<ValueColumn> = schema.value.iter().map(ValueColumn::new).collect();
            while row_keys.len() < BATCH_ROWS
                && let Some(found) = cursors.next(&schema)?
            {
                row_keys.push(&found.key, found.hash)?;
                for (column, from) in values.iter_mut().zip(found.values.iter()) {
                    column.push_from(from, found.row)?;
                }
            }
            if row_keys.is_empty() {
                return Ok(batches);
            }
            let rows: Vec<Option<u32>> = (0..).map(Some).take(row_keys.len()).collect();
            let mut columns = schema.encoder.decode(&row_keys)?;
            for column in &values {
                columns.push(column.gather(&rows)?);
            }
            batches.push(self.rows_of_group(&schema, hash, columns)?);
        }
    }

    /// The timers of a key: on disk they are ordered by time.
    fn find_timers(&self, at: &At, key: &[&str]) -> Result<Vec<RecordBatch>> {
        let wanted = self.schema.key_encoder.parse(key)?;
        let key_columns = wanted.columns().len();
        let mut batches = Vec::new();
        for batch in self.scan(at, None)? {
            let columns = batch.columns().iter().skip(2).take(key_columns).cloned().collect();
            let keys = KeyBatch::new(&self.schema.key_encoder, columns)?;
            let same = |row: &u32| keys.encoded().key(*row as usize) == wanted.encoded().key(0);
            let rows: Vec<u32> = (0..).take(keys.len()).filter(same).collect();
            if !rows.is_empty() {
                let rows = UInt32Array::from(rows);
                let taken = arrow_select::take::take_record_batch(&batch, &rows);
                batches.push(taken.map_err(|error| {
                    Error::corrupt(format!("table {}: {error}", self.table.name))
                })?);
            }
        }
        Ok(batches)
    }

    /// Rows of one key group: its column goes before the others.
    fn rows_of_group(
        &self,
        schema: &TableSchema,
        hash: u64,
        columns: Vec<ArrayRef>,
    ) -> Result<RecordBatch> {
        let rows = columns.first().map_or(0, arrow_array::Array::len);
        let group = i32::try_from(schema.key_groups.group_of(hash)).unwrap_or(i32::MAX);
        let mut all: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![group; rows]))];
        all.extend(columns);
        self.record_batch(schema, all)
    }

    /// The files that a version consists of, besides the schema: what has to be copied to have
    /// it elsewhere, and what must not be removed while it is kept. Without the files of the
    /// snapshot and the tag themselves.
    ///
    /// # Errors
    /// As [`StateReader::scan`].
    pub fn files(&self, at: &At) -> Result<Vec<PathBuf>> {
        let snapshot = self.snapshot(at)?;
        let content = SnapshotReader::new(&self.files, &self.table).read(&snapshot)?;
        Ok(files_of(&self.table, &snapshot, &content))
    }

    fn batch(&self, schema: &TableSchema, rows: ScannedRows) -> Result<RecordBatch> {
        let mut columns = vec![rows.key_groups];
        columns.extend(rows.key);
        columns.extend(rows.value);
        self.record_batch(schema, columns)
    }

    fn record_batch(&self, schema: &TableSchema, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        RecordBatch::try_new(schema.rows.clone(), columns)
            .map_err(|error| Error::corrupt(format!("table {}: {error}", self.table.name)))
    }

    /// A version, open, and its shape; or only one bucket of it. When the newest snapshot is
    /// removed while it is read, the then newest one.
    fn pin(
        &self,
        at: &At,
        bucket: impl Fn(&TableSchema) -> Option<u32>,
    ) -> Result<(TableSchema, Pin)> {
        self.pin_as(at, |schema| schema, bucket)
    }

    /// The same, read with the shape that `shape` makes of its own.
    fn pin_as(
        &self,
        at: &At,
        shape: impl Fn(TableSchema) -> TableSchema,
        bucket: impl Fn(&TableSchema) -> Option<u32>,
    ) -> Result<(TableSchema, Pin)> {
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot(at)?;
            let id = snapshot.id();
            let opened = self.open_snapshot(&snapshot, &shape, &bucket, DamagedSidecar::PassOver);
            match opened {
                Err(_)
                    if *at == At::Latest
                        && attempt < ATTEMPTS
                        && !self.files.exists(&self.table.snapshot(id))? =>
                {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn snapshot(&self, at: &At) -> Result<Snapshot> {
        match at {
            At::Snapshot(id) => read_snapshot(&self.files, &self.table, *id),
            At::Checkpoint(checkpoint) => {
                let path = self.table.tag(*checkpoint);
                if !self.files.exists(&path)? {
                    let known = tagged_checkpoints(&self.files, &self.table)?;
                    let known: Vec<String> = known.keys().map(u64::to_string).collect();
                    return Err(Error::not_found(format!(
                        "table {} has no checkpoint {checkpoint}; there are: {}",
                        self.table.name,
                        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                    )));
                }
                read_snapshot_file(&self.files, &path)
            }
            At::Latest => self.latest(),
        }
    }

    fn latest(&self) -> Result<Snapshot> {
        let mut attempt = 1;
        loop {
            let id = snapshot_ids(&self.files, &self.table)?.pop().ok_or_else(|| {
                Error::not_found(format!("table {} has no snapshot yet", self.table.name))
            })?;
            match read_snapshot(&self.files, &self.table, id) {
                Err(error) if error.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn open_snapshot(
        &self,
        snapshot: &Snapshot,
        shape: impl Fn(TableSchema) -> TableSchema,
        bucket: impl Fn(&TableSchema) -> Option<u32>,
        damaged: DamagedSidecar,
    ) -> Result<(TableSchema, Pin)> {
        let schema = shape(self.schema_of(snapshot)?);
        let only = bucket(&schema);
        let content = SnapshotReader::new(&self.files, &self.table).read(snapshot)?;
        let id = snapshot.id();
        let pin = open_pin(&self.files, &self.table, &schema, id, &content, only, damaged)?;
        Ok((schema, pin))
    }
}

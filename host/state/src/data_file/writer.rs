//! Writes data files in the layout that the probe searches in place.

use super::chunk::RowGroup;
use super::sidecar::{SUFFIX, SidecarBuilder};
use super::statistics::{ColumnRange, binary_row, datum};
use super::{Content, DamagedSidecar, DataFile};
use crate::file_system::{FileSystem, OutputFile};
use crate::schema::{KEY_GROUP_COLUMN, LEADING_COLUMNS, TableSchema, to_paimon};
use crate::{Column, ColumnType, Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch};
use paimon::spec::{DataFileMeta, DataType, Datum};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows in a page of a key column: small enough to be read for one key.
const PAGE_ROWS: usize = 1024;
/// Bytes of rows that are held in memory before they are written out.
const ROW_GROUP_BYTES: usize = 16 << 20;
/// Bytes of one write, at a multiple of this in the file: Linux keeps them in few large pages then.
/// With 2 MiB it could map each as one, but in a virtual machine such pages cost more to get than
/// they saved.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes in a page of a column in which a value is found by walking over those before it.
const WALKED_PAGE_BYTES: usize = 1536;
/// Rows after which a page is looked at: a page has no fewer, however long its values are.
const PAGE_STEP_ROWS: usize = 16;

/// What made a file: `_FILE_SOURCE` of its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A flush.
    Append,
    /// A merge.
    Compact,
}

/// Writes the rows of one file, in key order.
pub(crate) struct DataFileWriter<'a> {
    files: &'a FileSystem,
    schema: &'a TableSchema,
    path: PathBuf,
    unfinished: Unfinished<'a>,
    writer: SerializedFileWriter<Checksummed>,
    row_group: RowGroup,
    sidecar: SidecarBuilder,
    rows: usize,
    /// Of `kg` and the key columns.
    ranges: Vec<ColumnRange>,
    first_key: Vec<Option<Datum>>,
    last_key: Vec<Option<Datum>>,
    sequence_numbers: Option<(i64, i64)>,
}

impl<'a> DataFileWriter<'a> {
    /// Starts a file with a name of its own in the directory of a bucket.
    pub(crate) fn create(
        files: &'a FileSystem,
        schema: &'a TableSchema,
        directory: &Path,
    ) -> Result<Self> {
        let path = directory.join(format!("data-{}-0.parquet", crate::seam::unique_name()));
        let file = Checksummed::new(files.create(&path)?, files.is_synced());
        let start = || {
            let parquet_schema = ArrowSchemaConverter::new().convert(&schema.file)?;
            let root = parquet_schema.root_schema_ptr();
            let writer = SerializedFileWriter::new(file, root, Arc::new(properties(schema)))?;
            let row_group = RowGroup::new(&writer, &schema.file)?;
            Ok((writer, row_group))
        };
        let (writer, row_group) = start().map_err(|error| write_error(&path, error))?;
        let ranges = key_row(schema).map(|column| ColumnRange::new(&column)).collect();
        Ok(Self {
            files,
            schema,
            unfinished: Unfinished { files, paths: vec![path.clone()] },
            path,
            writer,
            row_group,
            sidecar: SidecarBuilder::default(),
            rows: 0,
            ranges,
            first_key: Vec::new(),
            last_key: Vec::new(),
            sequence_numbers: None,
        })
    }

    /// Appends rows in key order; `hashes` are those of their keys, and `columns` the key columns,
    /// then the value columns.
    pub(crate) fn write(
        &mut self,
        hashes: &[u64],
        key_groups: Vec<i32>,
        sequence_numbers: Vec<i64>,
        columns: Vec<ArrayRef>,
    ) -> Result<()> {
        let rows = key_groups.len();
        if hashes.len() != rows {
            return Err(Error::internal(
                "rows of a data file come without the hashes of their keys",
            ));
        }
        for &hash in hashes {
            self.sidecar.add(self.schema.key_groups.group_of(hash), hash);
        }
        let mut all: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(sequence_numbers)),
            Arc::new(Int8Array::from(vec![0; rows])),
            Arc::new(Int32Array::from(key_groups)),
        ];
        all.extend(columns);
        let batch = RecordBatch::try_new(self.schema.file.clone(), all).map_err(|error| {
            Error::corrupt(format!(
                "rows for {} do not fit its schema: {error}",
                self.path.display()
            ))
        })?;
        self.note(&batch);
        self.encode(batch.columns()).map_err(|error| write_error(&self.path, error))
    }

    /// Takes rows into the row group, and begins another one whenever it is full.
    fn encode(&mut self, columns: &[ArrayRef]) -> parquet::errors::Result<()> {
        let rows = columns.first().map_or(0, Array::len);
        let bytes: usize = columns.iter().map(array_bytes).sum();
        let row_bytes = bytes.checked_div(rows).unwrap_or(0).max(1);
        let mut at = 0;
        while at < rows {
            let room = ROW_GROUP_BYTES.saturating_sub(self.row_group.bytes());
            let end = rows.min(at + (room / row_bytes).max(1));
            self.row_group.write(columns, at..end)?;
            at = end;
            if self.row_group.bytes() + row_bytes > ROW_GROUP_BYTES {
                self.end_row_group()?;
            }
        }
        Ok(())
    }

    fn end_row_group(&mut self) -> parquet::errors::Result<()> {
        std::mem::replace(&mut self.row_group, RowGroup::new(&self.writer, &self.schema.file)?)
            .finish(&mut self.writer)
    }

    /// Rows written so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    fn note(&mut self, batch: &RecordBatch) {
        if batch.num_rows() == 0 {
            return;
        }
        let keys = batch.columns().get(LEADING_COLUMNS - 1..).unwrap_or_default();
        for (range, array) in self.ranges.iter_mut().zip(keys) {
            range.update(array);
        }
        let key_at = |row| {
            key_row(self.schema)
                .zip(keys)
                .map(|(column, array)| datum(&column, array, row))
                .collect()
        };
        if self.rows == 0 {
            self.first_key = key_at(0);
        }
        self.last_key = key_at(batch.num_rows() - 1);
        for &number in batch.column(0).as_primitive::<Int64Type>().values() {
            let (least, greatest) = self.sequence_numbers.get_or_insert((number, number));
            *least = (*least).min(number);
            *greatest = (*greatest).max(number);
        }
        self.rows += batch.num_rows();
    }

    /// Completes the file, durable if the store is set so, and opens it for reading.
    pub(crate) fn finish(
        mut self,
        bucket: u32,
        level: i32,
        source: Source,
    ) -> Result<Arc<DataFile>> {
        self.end_row_group().map_err(|error| write_error(&self.path, error))?;
        let Self { files, schema, path, mut unfinished, writer, sidecar, rows, ranges, .. } = self;
        let file = writer.into_inner().map_err(|error| write_error(&path, error))?;
        let (file, checksum) = file.finish().map_err(|error| Error::io("write", &path, error))?;
        files.sync_file(&file)?;
        let file_size = file.size()?;
        drop(file);
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sidecar_name = format!("{file_name}{SUFFIX}");
        unfinished.paths.push(directory.join(&sidecar_name));
        let sidecar = sidecar.finish(file_size, checksum);
        files.write(&directory.join(&sidecar_name), &sidecar)?;

        let key: Vec<Column> = key_row(schema).collect();
        let key_types: Vec<DataType> = key.iter().map(to_paimon).collect::<Result<_>>()?;
        let value_types: Vec<DataType> =
            schema.value.iter().map(to_paimon).collect::<Result<_>>()?;
        let (least, greatest): (Vec<_>, Vec<_>) = ranges.iter().map(ColumnRange::bounds).unzip();
        // Readers expect one entry for each column of the table, known or not.
        let all_types: Vec<DataType> = key_types.iter().chain(&value_types).cloned().collect();
        let padded = |bounds: &[Option<Datum>]| {
            let mut all = bounds.to_vec();
            all.resize(all_types.len(), None);
            binary_row(&all, &all_types)
        };
        let null_counts = |columns: usize| -> Vec<Option<i64>> {
            let known = least.iter().map(|bound| bound.is_some().then_some(0));
            known.chain(std::iter::repeat(None)).take(columns).collect()
        };
        let (first_sequence, last_sequence) = self.sequence_numbers.unwrap_or((0, 0));
        let meta = DataFileMeta {
            file_name,
            file_size: i64::try_from(file_size).unwrap_or(i64::MAX),
            row_count: i64::try_from(rows).unwrap_or(i64::MAX),
            min_key: binary_row(&self.first_key, &key_types),
            max_key: binary_row(&self.last_key, &key_types),
            key_stats: statistics(
                &binary_row(&least, &key_types),
                &binary_row(&greatest, &key_types),
                &null_counts(key_types.len()),
            )?,
            value_stats: statistics(
                &padded(&least),
                &padded(&greatest),
                &null_counts(all_types.len()),
            )?,
            min_sequence_number: first_sequence,
            max_sequence_number: last_sequence,
            schema_id: schema.schema_id,
            level,
            extra_files: vec![sidecar_name],
            creation_time: chrono::DateTime::from_timestamp_millis(
                i64::try_from(crate::seam::wall_clock_ms()).unwrap_or(i64::MAX),
            ),
            // A raw read needs to know that there are no delete rows.
            delete_row_count: Some(0),
            embedded_index: None,
            file_source: Some(match source {
                Source::Append => 0,
                Source::Compact => 1,
            }),
            value_stats_cols: None,
            external_path: None,
            first_row_id: None,
            write_cols: None,
            column_max_sequence_numbers: None,
        };
        let content = Content::open(files, &directory, &meta, schema, DamagedSidecar::Refuse)?;
        unfinished.paths.clear();
        Ok(DataFile::new(bucket, meta, content))
    }
}

/// Writes a file in pieces of [`WRITE_BYTES`] and keeps the checksum of them.
struct Checksummed {
    file: OutputFile,
    /// Whether the file will be synced.
    sync: bool,
    hasher: crc32fast::Hasher,
    buffer: Vec<u8>,
}

impl Checksummed {
    fn new(file: OutputFile, sync: bool) -> Self {
        Self { file, sync, hasher: crc32fast::Hasher::new(), buffer: Vec::new() }
    }

    fn write_out(&mut self) -> std::io::Result<()> {
        self.file.write_all(&self.buffer)?;
        if self.sync {
            self.file.begin_to_sync();
        }
        self.hasher.update(&self.buffer);
        self.buffer.clear();
        Ok(())
    }

    /// The file and the checksum of all that was written.
    fn finish(mut self) -> std::io::Result<(OutputFile, u32)> {
        self.write_out()?;
        Ok((self.file, self.hasher.finalize()))
    }
}

impl Write for Checksummed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = WRITE_BYTES - self.buffer.len();
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.buffer.extend_from_slice(taken);
        if self.buffer.len() == WRITE_BYTES {
            self.write_out()?;
        }
        Ok(taken.len())
    }

    /// Only [`Checksummed::finish`] writes what does not fill a piece.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Files that go again unless they are finished.
struct Unfinished<'a> {
    files: &'a FileSystem,
    paths: Vec<PathBuf>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        for path in &self.paths {
            // What is left is removed when the table is next opened.
            let _ = self.files.remove(path);
        }
    }
}

/// The columns of the primary key: `kg`, then the key.
fn key_row(schema: &TableSchema) -> impl Iterator<Item = Column> + '_ {
    std::iter::once(Column::required(KEY_GROUP_COLUMN, ColumnType::Int32))
        .chain(schema.key().iter().cloned())
}

/// Statistics have no name outside crate `paimon`, but are what `serde` makes them.
fn statistics<T: serde::de::DeserializeOwned>(
    least: &[u8],
    greatest: &[u8],
    null_counts: &[Option<i64>],
) -> Result<T> {
    serde_json::from_value(serde_json::json!({
        "_MIN_VALUES": least, "_MAX_VALUES": greatest, "_NULL_COUNTS": null_counts,
    }))
    .map_err(|error| Error::corrupt(format!("cannot build column statistics: {error}")))
}

/// Statistics of no columns.
pub(crate) fn no_statistics<T: serde::de::DeserializeOwned>() -> Result<T> {
    let empty = binary_row(&[], &[]);
    statistics(&empty, &empty, &[])
}

fn properties(schema: &TableSchema) -> WriterProperties {
    let path = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    let mut builder = WriterProperties::builder()
        // Stock readers of the 0.9 line know no newer encodings.
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::UNCOMPRESSED)
        .set_encoding(Encoding::PLAIN)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_STEP_ROWS)
        .set_column_dictionary_enabled(path("_VALUE_KIND"), true)
        .set_column_dictionary_enabled(path(KEY_GROUP_COLUMN), true)
        .set_column_statistics_enabled(path(KEY_GROUP_COLUMN), EnabledStatistics::Page);
    for column in schema.key() {
        builder =
            builder.set_column_statistics_enabled(path(&column.name), EnabledStatistics::Page);
    }
    if let Some(ends) = schema.expires_column().and_then(|column| schema.value.get(column)) {
        builder = builder.set_column_statistics_enabled(path(&ends.name), EnabledStatistics::Chunk);
    }
    for column in schema.key().iter().chain(schema.value.iter()) {
        if column.nullable || column.column_type.width_bytes().is_none() {
            builder =
                builder.set_column_data_page_size_limit(path(&column.name), WALKED_PAGE_BYTES);
        }
    }
    builder.build()
}

/// Bytes of the values of an array.
fn array_bytes(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_default()
}

fn write_error(path: &Path, error: parquet::errors::ParquetError) -> Error {
    if let parquet::errors::ParquetError::External(inner) = error {
        return match inner.downcast::<std::io::Error>() {
            Ok(io) => Error::io("write", path, *io),
            Err(other) => {
                Error::new(ErrorKind::Storage, format!("cannot write {}: {other}", path.display()))
            }
        };
    }
    Error::with_source(
        ErrorKind::Storage,
        format!("cannot write {}: {error}", path.display()),
        error,
    )
}

//! The rows of a Parquet file or a Paimon table.

use crate::error::{Error, ErrorKind, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use howdah_state::{TableRows, TableSource};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 8_192;

pub(super) struct RowFile {
    path: PathBuf,
    rows: Rows,
}

enum Rows {
    File(Box<ParquetRecordBatchReaderBuilder<File>>),
    /// Its columns; and its rows, if it has a snapshot.
    Table(SchemaRef, Option<Box<TableRows>>),
}

impl RowFile {
    /// A directory is that of a Paimon table, as it is now.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let rows = if path.is_dir() { table(path)? } else { file(path)? };
        Ok(Self { path: path.to_owned(), rows })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn schema(&self) -> SchemaRef {
        Arc::clone(match &self.rows {
            Rows::File(builder) => builder.schema(),
            Rows::Table(schema, _) => schema,
        })
    }

    pub(super) fn batches(self) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>> {
        let path = self.path;
        match self.rows {
            Rows::Table(_, rows) => Ok(Box::new(rows.into_iter().flat_map(|mut rows| {
                let next = move || rows.next_batch().map_err(Error::from).transpose();
                std::iter::from_fn(next).map(|batch| batch.map(|(rows, _)| rows))
            }))),
            Rows::File(builder) => {
                let reader = builder.with_batch_size(BATCH_ROWS).build();
                let reader = reader.map_err(|error| damaged(&path, &error))?;
                Ok(Box::new(reader.map(move |batch| batch.map_err(|error| damaged(&path, &error)))))
            }
        }
    }
}

fn file(path: &Path) -> Result<Rows> {
    // Before anything is changed: as wrong as a wrong argument.
    let open =
        |error| Error::new(ErrorKind::Config, format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(open)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file);
    Ok(Rows::File(Box::new(builder.map_err(|error| damaged(path, &error))?)))
}

fn damaged(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::input(format!("{} is no whole Parquet file: {error}", path.display()))
}

/// `<warehouse>/<database>.db/<table>`.
fn table(path: &Path) -> Result<Rows> {
    let absolute = std::fs::canonicalize(path).map_err(|error| Error::io("find", path, error))?;
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let place = || {
        let database = absolute.parent()?;
        let warehouse = database.parent()?.to_owned();
        Some((warehouse, name(database)?.strip_suffix(".db")?.to_owned(), name(&absolute)?))
    };
    let (warehouse, database, table) = place().ok_or_else(|| {
        let message = format!(
            "{} is no Parquet file, and no directory of a Paimon table: \
             <warehouse>/<database>.db/<table>",
            path.display()
        );
        Error::new(ErrorKind::Config, message)
    })?;
    let source = TableSource::open(&warehouse, &database, &table)?;
    let newest = source.newest()?.map(|newest| source.rows(newest.snapshot)).transpose()?;
    Ok(Rows::Table(Arc::clone(source.schema()), newest.map(Box::new)))
}

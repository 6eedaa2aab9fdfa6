//! A Paimon table: rows are appended, or applied as changes of a primary key.
//!
//! A subtask's writer writes data files that no snapshot names; its handle is what names them. The
//! commit is one snapshot whose commit identifier is the number of the checkpoint.

use super::{Opening, Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::config::{TableConfig, TableName};
use crate::connector::Kept;
use crate::error::{Error, ErrorKind, Result};
use crate::grants::Directories;
use howdah_runtime::Output;
use howdah_state::{TableSink, TableSinkDescriptor, TableSinkWriter};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const CONNECTOR: &str = "paimon";

/// The sink. What is the pipeline's in a table is told by its commit user, so others may write to
/// the table at the same time; but what they have built upon cannot be taken back.
#[derive(Debug)]
pub(super) struct Table {
    sink: TableSink,
}

/// A handle in the checkpoint document.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Stored {
    /// Paimon's commit messages, in hexadecimal digits.
    messages: String,
}

impl Table {
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::Config, message));
        let (Some(path), Some(config)) = (&opening.config.path, &opening.config.table) else {
            return Err(Error::internal("a table sink without a table"));
        };
        let Some(output) = opening.output else {
            return refuse("the operator has no output, so there is nothing for a table");
        };
        if output.changelog && config.primary_key.is_empty() {
            return refuse(
                "the operator's output is a changelog, which a table takes by its primary key \
                 alone; add `primary-key` to the sink",
            );
        }
        Ok(Self {
            sink: TableSink::open(&TableSinkDescriptor {
                warehouse: granted(&path.value, &config.name, opening.directories)?,
                database: config.name.database.clone(),
                table: config.name.table.clone(),
                sink: opening.pipeline.to_owned(),
                columns: output.fields.clone(),
                primary_key: config.primary_key.clone(),
                buckets: config.buckets,
                sync: opening.sync,
            })?,
        })
    }
}

/// Whether a table has output of a pipeline.
pub(super) fn has_output(
    warehouse: &Path,
    config: &TableConfig,
    pipeline: &str,
    directories: &Directories,
) -> Result<bool> {
    let warehouse = granted(warehouse, &config.name, directories)?;
    let TableName { database, table } = &config.name;
    Ok(howdah_state::has_output(&warehouse, database, table, pipeline)?)
}

/// Where the warehouse is. It must be granted, and the table in it, too.
pub(crate) fn granted(
    warehouse: &Path,
    name: &TableName,
    directories: &Directories,
) -> Result<PathBuf> {
    directories.check(&name.within(warehouse))?;
    directories.check(warehouse)
}

impl Sink for Table {
    fn connector(&self) -> &'static str {
        CONNECTOR
    }

    fn has_output(&self) -> Result<bool> {
        Ok(self.sink.has_output()?)
    }

    fn recover(&mut self, checkpoint: Option<(u64, &[SinkHandle])>) -> Result<()> {
        let (id, handles) = checkpoint.unwrap_or_default();
        Ok(self.sink.recover(id, &messages(handles)?)?)
    }

    fn writer(&self, _: u32, _: u64) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Writer { writer: self.sink.writer()?, rows: 0 }))
    }

    fn commit(&mut self, checkpoint: u64, handles: &[SinkHandle]) -> Result<()> {
        Ok(self.sink.commit(checkpoint, &messages(handles)?)?)
    }
}

struct Writer {
    writer: TableSinkWriter,
    /// Since the last barrier.
    rows: u64,
}

impl SinkWriter for Writer {
    fn write(&mut self, rows: &Output) -> Result<()> {
        self.rows += u64::try_from(rows.batch.num_rows()).unwrap_or(u64::MAX);
        Ok(self.writer.write(&rows.batch, rows.row_kinds.as_deref())?)
    }

    fn prepare(&mut self, _: u64) -> Result<Option<SinkHandle>> {
        let rows = std::mem::take(&mut self.rows);
        let Some((messages, bytes)) = self.writer.prepare()? else { return Ok(None) };
        let digits = messages.iter().map(|byte| format!("{byte:02x}"));
        SinkHandle::new(rows, bytes, &Stored { messages: digits.collect() }).map(Some)
    }
}

fn messages(handles: &[SinkHandle]) -> Result<Vec<Vec<u8>>> {
    let message = |handle: &SinkHandle| {
        let stored: Stored = handle.read(CONNECTOR)?;
        let bytes = stored.messages.as_bytes().chunks(2).map(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let digits = "it has other digits than hexadecimal ones";
        bytes.ok_or_else(|| Kept::Output.unreadable(CONNECTOR, digits))
    };
    handles.iter().map(message).collect()
}

//! Files that are read from front to back: CSV, NDJSON or Parquet. One, or those of a directory.

mod chunk;
mod csv;
mod many;
mod ndjson;
mod parquet;
mod pattern;
mod start;

use super::plan::{FileShape, Plan};
use super::{Next, Progress, Share, Source, SourceBatch};
use crate::checkpoint::SourcePosition;
use crate::config::{Format, SourceConfig};
use crate::error::{Error, Result};
use crate::grants::Directories;
use crate::place::Place;
#[cfg(feature = "kafka")]
pub(super) use csv::record::{Record, Split, split};
pub(super) use many::{CONNECTOR as DIRECTORY, merge};
use many::{Files, FilesSource};
use serde::{Deserialize, Serialize};
use start::Start;
use std::path::Path;
use std::sync::Arc;

/// The name of the connector for one file.
const CONNECTOR: &str = "file";

/// Where the next row of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FilePosition {
    /// Offset of the first byte that was not read. For Parquet an estimate.
    byte_offset: u64,
    /// Rows before it: all that were read, filtered and malformed ones included, the header
    /// not.
    rows: u64,
    /// Line breaks before it; 0 for Parquet.
    lines: u64,
}

/// The first bytes of a file, to notice that it is another one: their checksum must be the
/// same. They are no more than what was read, so that the rest may be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileStart {
    /// How many bytes.
    bytes: u64,
    /// CRC-32 of them.
    crc32: u32,
}

/// What a checkpoint keeps beside the number of rows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Stored {
    byte_offset: u64,
    lines: u64,
    start: FileStart,
}

/// What a file without a line break at its end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// As the configuration says.
    None,
    /// About to be longer: the line is not there yet.
    Awaited,
}

/// Rows of a file in one format.
trait FileReader: Send {
    /// The next rows, `rows_limit` at most; `None` at the end of the file. A batch may be
    /// empty.
    fn next_batch(&mut self, rows_limit: usize) -> Result<Option<SourceBatch>>;

    /// Where the next row is.
    fn position(&self) -> FilePosition;

    /// The size of the file when it was opened.
    fn length_bytes(&self) -> u64;
}

/// Whether a path means the files of a directory.
pub(super) fn has_many(path: &Path) -> bool {
    Files::pattern(path).is_some()
}

/// What columns the files have, and of what types they seem to be: those of the first one.
pub(super) fn inspect(config: &SourceConfig, directories: &Directories) -> Result<FileShape> {
    let place = match Files::of(&config.path.value, directories, Share::WHOLE)? {
        Some(files) => files.first(config)?,
        None => directories.place(&config.path.value)?,
    };
    match config.format {
        Format::Csv => csv::inspect(&place),
        Format::Ndjson => ndjson::inspect(&place),
        Format::Parquet => parquet::inspect(&place),
    }
}

/// Opens what the path means at a position of a checkpoint; `None`: at the first row.
pub(super) fn open(
    config: &SourceConfig,
    directories: &Directories,
    plan: Arc<Plan>,
    share: Share,
    position: Option<&SourcePosition>,
) -> Result<Box<dyn Source>> {
    Ok(match Files::of(&config.path.value, directories, share)? {
        Some(files) => Box::new(FilesSource::open(files, config, plan, position)?),
        None if share == Share::WHOLE => {
            let place = directories.place(&config.path.value)?;
            Box::new(FileSource::open(&place, config, plan, position)?)
        }
        // A directory that the configuration knew, and that is gone since.
        None => {
            let shown = config.path.value.display();
            let message = format!("{shown} is one file, which cannot be read by several subtasks");
            return Err(Error::input(message));
        }
    })
}

fn open_reader(
    place: &Place,
    config: &SourceConfig,
    plan: Arc<Plan>,
    position: Option<FilePosition>,
    growth: Growth,
) -> Result<Box<dyn FileReader>> {
    Ok(match config.format {
        Format::Csv => Box::new(csv::CsvSource::open(place, config, plan, position, growth)?),
        Format::Ndjson => {
            Box::new(ndjson::NdjsonSource::open(place, config, plan, position, growth)?)
        }
        Format::Parquet => Box::new(parquet::ParquetSource::open(place, config, plan, position)?),
    })
}

/// The source for one file.
struct FileSource {
    reader: Box<dyn FileReader>,
    start: Start,
}

impl FileSource {
    /// Opens the file at a position of a checkpoint; `None`: at its first row. Refuses a file
    /// that starts in another way than the one of the checkpoint.
    fn open(
        place: &Place,
        config: &SourceConfig,
        plan: Arc<Plan>,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let stored = position.map(|position| {
            let Stored { byte_offset, lines, start } = position.read(CONNECTOR)?;
            Ok::<_, Error>((FilePosition { byte_offset, rows: position.rows, lines }, start))
        });
        let stored = stored.transpose()?;
        let position = stored.map(|(position, _)| position);
        let reader = open_reader(place, config, plan, position, Growth::None)?;
        let start = Start::read(place)?;
        if let Some((_, stored)) = stored {
            start.check(place.shown(), stored)?;
        }
        Ok(Self { reader, start })
    }
}

impl Source for FileSource {
    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        Ok(self.reader.next_batch(rows_limit)?.map_or(Next::End, Next::Batch))
    }

    fn progress(&self) -> Progress {
        let position = self.reader.position();
        Progress {
            rows: position.rows,
            bytes_read: position.byte_offset,
            bytes_total: self.reader.length_bytes(),
        }
    }

    fn position(&self) -> Result<SourcePosition> {
        let FilePosition { byte_offset, rows, lines } = self.reader.position();
        let start = self.start.before(byte_offset);
        SourcePosition::new(CONNECTOR, rows, &Stored { byte_offset, lines, start })
    }
}

#[cfg(test)]
pub(super) mod tests;

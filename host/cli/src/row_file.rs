//! Writes rows to a file, which appears once it is whole.

use crate::failure::{Failure, Result};
use anyhow::Context;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated, with a header row; a column without a value is empty.
    Csv,
    /// One JSON object a line; a column without a value is left out.
    Ndjson,
    /// Parquet, with typed columns.
    Parquet,
}

impl Format {
    /// What the extension of a file says.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("ndjson" | "jsonl") => Ok(Self::Ndjson),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Failure::usage(format!(
                "the name {} does not say a format: let it end with .parquet, .csv or .ndjson",
                path.display()
            ))),
        }
    }
}

/// Makes a file: `write` gets it, and hands it back. With `force`, one that is there is replaced.
pub(crate) fn create(
    path: &Path,
    force: bool,
    write: impl FnOnce(BufWriter<File>) -> anyhow::Result<BufWriter<File>>,
) -> Result<()> {
    let shown = path.display();
    if path.exists() && !force {
        return Err(Failure::usage(format!(
            "{shown} exists; choose another name, or replace it with --force"
        )));
    }
    // Renaming over it would take a pipe or a device away.
    if path.exists() && !path.is_file() {
        return Err(Failure::usage(format!("{shown} is no regular file; choose another name")));
    }
    let name = path.file_name().with_context(|| format!("{shown} names no file"));
    let name = name.map_err(Failure::Usage)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let action = || format!("cannot write {}", temporary.display());
    let written = File::create(&temporary).with_context(action).and_then(|file| {
        let mut file = write(BufWriter::new(file)).with_context(action)?;
        file.flush().and_then(|()| file.get_ref().sync_all()).with_context(action)?;
        put_in_place(&temporary, path, force)
    });
    if let Err(error) = written {
        // Best effort: the error that matters is the one being returned.
        let _ = std::fs::remove_file(&temporary);
        return Err(error.into());
    }
    Ok(())
}

/// Gives a file that is whole its name, which lasts. Without `force` none of that name may have come up.
fn put_in_place(temporary: &Path, path: &Path, force: bool) -> anyhow::Result<()> {
    let placed = if force {
        std::fs::rename(temporary, path)
    } else {
        std::fs::hard_link(temporary, path).and_then(|()| std::fs::remove_file(temporary))
    };
    placed.with_context(|| format!("cannot give {} its name", path.display()))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or(Path::new(".")));
    directory.and_then(|it| it.sync_all()).context("cannot sync the directory")
}

/// A writer for one of the formats.
pub(crate) enum Writer<W: Write + Send> {
    Csv(Box<arrow_csv::Writer<W>>),
    Ndjson(arrow_json::LineDelimitedWriter<W>),
    Parquet(Box<parquet::arrow::ArrowWriter<W>>),
}

impl<W: Write + Send> Writer<W> {
    pub(crate) fn new(format: Format, schema: &SchemaRef, out: W) -> anyhow::Result<Self> {
        Ok(match format {
            Format::Csv => Self::Csv(Box::new(
                arrow_csv::WriterBuilder::new()
                    .with_header(true)
                    .with_timestamp_format("%Y-%m-%d %H:%M:%S%.3f".to_owned())
                    .build(out),
            )),
            Format::Ndjson => Self::Ndjson(
                arrow_json::WriterBuilder::new()
                    .with_timestamp_format("%Y-%m-%dT%H:%M:%S%.3f".to_owned())
                    .build(out),
            ),
            Format::Parquet => Self::Parquet(Box::new(parquet::arrow::ArrowWriter::try_new(
                out,
                SchemaRef::clone(schema),
                None,
            )?)),
        })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        match self {
            Self::Csv(writer) => writer.write(batch)?,
            Self::Ndjson(writer) => writer.write(batch)?,
            Self::Parquet(writer) => writer.write(batch)?,
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> anyhow::Result<W> {
        Ok(match self {
            Self::Csv(writer) => writer.into_inner(),
            Self::Ndjson(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Self::Parquet(writer) => writer.into_inner()?,
        })
    }
}

//! CSV with a header line.

pub(super) mod record;

use super::chunk::{ChunkReader, RECORD_LIMIT_BYTES, resume};
use super::{FilePosition, FileReader, Growth};
use crate::config::{FinalNewline, SourceConfig};
use crate::error::{Error, Result};
use crate::place::Place;
use crate::source::SourceBatch;
use crate::source::column_builder::Value;
use crate::source::infer::{Guess, SAMPLE_ROWS};
use crate::source::plan::{FileColumn, FileShape, Plan};
use crate::source::reject::Rejects;
use crate::source::rows::Rows;
use record::{Record, Split, split};
use std::path::Path;
use std::sync::Arc;

/// The header says what the columns are called; a sample says what they seem to be.
pub(super) fn inspect(place: &Place) -> Result<FileShape> {
    let path = place.shown();
    let mut reader = ChunkReader::open(place, 0)?;
    let header = Header::read(&mut reader, path)?;
    let mut guesses: Vec<Guess> = header.names.iter().map(|_| Guess::new()).collect();
    let mut record = Record::default();
    for _ in 0..SAMPLE_ROWS {
        let split = split_more(&mut reader, &mut record)?;
        let Split::Record { length, .. } = split else { break };
        for (index, guess) in guesses.iter_mut().enumerate() {
            guess.observe(record.value(reader.available(), index));
        }
        reader.consume(length);
    }
    let columns = header.names.into_iter().zip(guesses);
    let columns =
        columns.map(|(name, guess)| FileColumn { name, column_type: guess.column_type() });
    Ok(FileShape::guessed(columns.collect(), false))
}

/// Splits the next record, reading more where needed.
fn split_more(reader: &mut ChunkReader, record: &mut Record) -> Result<Split> {
    loop {
        match split(reader.available(), reader.at_end(), record) {
            Split::More if reader.available().len() > RECORD_LIMIT_BYTES => {
                return Ok(Split::TooLong);
            }
            Split::More => reader.fill()?,
            Split::Record { length, .. } if length > RECORD_LIMIT_BYTES => {
                return Ok(Split::TooLong);
            }
            split => return Ok(split),
        }
    }
}

/// The first record of a file.
struct Header {
    names: Vec<String>,
    /// Bytes and line breaks up to the first row.
    bytes: usize,
    lines: u64,
}

impl Header {
    fn read(reader: &mut ChunkReader, path: &Path) -> Result<Self> {
        let wrong = |reason: &str| Error::input(format!("{}:1: {reason}", path.display()));
        let mark = reader.skip_mark()?;
        let mut record = Record::default();
        let mut bytes = mark;
        let mut lines = 0;
        loop {
            match split_more(reader, &mut record)? {
                Split::Blank { length, .. } => {
                    reader.consume(length);
                    bytes += length;
                    lines += 1;
                }
                Split::End => {
                    return Err(wrong("the file is empty; a CSV file starts with a header line"));
                }
                Split::Record { length, lines: header_lines, terminated } => {
                    if !terminated {
                        return Err(wrong(
                            "the header line has no line break: the file is cut off",
                        ));
                    }
                    let names = record.texts(reader.available());
                    let names = names.ok_or_else(|| wrong("the header line is no UTF-8 text"))?;
                    reader.consume(length);
                    return Ok(Self { names, bytes: bytes + length, lines: lines + header_lines });
                }
                Split::Malformed { reason, .. } => return Err(wrong(reason)),
                Split::Unclosed | Split::More | Split::TooLong => {
                    return Err(wrong("the header line does not end"));
                }
            }
        }
    }
}

/// Reads a CSV file.
pub(super) struct CsvSource {
    reader: ChunkReader,
    position: FilePosition,
    /// Fields that each record has.
    fields: usize,
    /// For each column of the plan, its field in the record.
    places: Vec<usize>,
    final_newline: FinalNewline,
    growth: Growth,
    plan: Arc<Plan>,
    rejects: Rejects,
    record: Record,
}

impl CsvSource {
    pub(super) fn open(
        place: &Place,
        config: &SourceConfig,
        plan: Arc<Plan>,
        position: Option<FilePosition>,
        growth: Growth,
    ) -> Result<Self> {
        let path = place.shown();
        let mut reader = ChunkReader::open(place, 0)?;
        let header = Header::read(&mut reader, path)?;
        let index_of = |column: &howdah_state::Column| {
            let mut found =
                header.names.iter().enumerate().filter(|(_, name)| **name == column.name);
            let (first, _) = found.next().ok_or_else(|| {
                Error::input(format!("{}:1: there is no column `{}`", path.display(), column.name))
            })?;
            if found.next().is_some() {
                return Err(Error::input(format!(
                    "{}:1: there are two columns `{}`; rename one",
                    path.display(),
                    column.name
                )));
            }
            Ok(first)
        };
        let places = plan.columns().iter().map(index_of).collect::<Result<_>>()?;
        let position = match position {
            Some(mut position) => {
                let (resumed, skipped) = resume(place, config, position)?;
                reader = resumed;
                position.byte_offset += skipped;
                position.lines += u64::from(skipped > 0);
                position
            }
            None => FilePosition {
                byte_offset: u64::try_from(header.bytes).unwrap_or(u64::MAX),
                rows: 0,
                lines: header.lines,
            },
        };
        Ok(Self {
            reader,
            position,
            fields: header.names.len(),
            places,
            final_newline: config.final_newline,
            growth,
            plan,
            rejects: Rejects::new(config),
            record: Record::default(),
        })
    }

    /// Appends the record at the front to the rows, or sets it aside.
    fn take_record(&mut self, rows: &mut Rows, length: usize, terminated: bool) -> Result<()> {
        let available = self.reader.available();
        let raw = available.get(..length).unwrap_or_default();
        let refused = if !terminated && self.final_newline == FinalNewline::Required {
            Some(
                "the last row has no line break, so the file may be cut off; complete it, or set \
                 final-newline = \"optional\" in [source]"
                    .to_owned(),
            )
        } else if memchr::memchr(0, raw).is_some() {
            Some("the row has a NUL byte, so the file may be damaged".to_owned())
        } else if self.record.len() != self.fields {
            Some(format!(
                "the row has {} fields, the header has {}",
                self.record.len(),
                self.fields
            ))
        } else {
            let (record, places) = (&self.record, &self.places);
            let value = |column: usize| match places.get(column) {
                Some(place) => record.value(available, *place),
                None => Value::Null,
            };
            rows.append(self.position.lines + 1, value).err().map(|bad| bad.reason)
        };
        match refused {
            Some(reason) => self.set_aside(rows, length, reason),
            None => Ok(()),
        }
    }

    fn set_aside(&mut self, rows: &mut Rows, length: usize, reason: String) -> Result<()> {
        let raw = self.reader.available().get(..length).unwrap_or_default();
        let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        self.rejects.add(self.position.lines + 1, raw, reason)?;
        rows.reject();
        Ok(())
    }

    fn advance(&mut self, bytes: usize, rows: u64, lines: u64) {
        self.reader.consume(bytes);
        self.position.byte_offset += u64::try_from(bytes).unwrap_or(u64::MAX);
        self.position.rows += rows;
        self.position.lines += lines;
    }
}

impl FileReader for CsvSource {
    fn next_batch(&mut self, rows_limit: usize) -> Result<Option<SourceBatch>> {
        let mut rows = Rows::new(Arc::clone(&self.plan), rows_limit);
        while !rows.is_full(rows_limit) && !self.rejects.is_full() {
            let split = split_more(&mut self.reader, &mut self.record)?;
            // What is not whole may become so.
            let split = match split {
                Split::Record { terminated: false, .. } | Split::Unclosed
                    if self.growth == Growth::Awaited =>
                {
                    Split::End
                }
                split => split,
            };
            match split {
                Split::Record { length, lines, terminated } => {
                    self.take_record(&mut rows, length, terminated)?;
                    self.advance(length, 1, lines);
                }
                Split::Blank { length, lines } => self.advance(length, 0, lines),
                Split::Malformed { length, lines, reason } => {
                    self.set_aside(&mut rows, length, reason.to_owned())?;
                    self.advance(length, 1, lines);
                }
                Split::End if rows.is_empty() => return Ok(None),
                Split::End => break,
                // An inner line could pass for a row, so it cannot be skipped.
                Split::TooLong => {
                    let reason = format!(
                        "the row is longer than {} MiB, so where it ends cannot be told, and it \
                         cannot be skipped either; a quoted field may lack its closing quote: mend \
                         the row",
                        RECORD_LIMIT_BYTES >> 20
                    );
                    return Err(self.rejects.error(self.position.lines + 1, &reason));
                }
                Split::Unclosed | Split::More => {
                    let reason = "a quoted field has no closing quote, or the file is cut off";
                    // Only this line is lost: the next one may be whole.
                    let available = self.reader.available();
                    let line = memchr::memchr(b'\n', available).unwrap_or(available.len());
                    self.set_aside(&mut rows, line, reason.to_owned())?;
                    let (skipped, terminated) = self.reader.skip_line()?;
                    self.position.byte_offset += skipped;
                    self.position.rows += 1;
                    self.position.lines += u64::from(terminated);
                }
            }
        }
        rows.finish(&mut self.rejects).map(Some)
    }

    fn position(&self) -> FilePosition {
        self.position
    }

    fn length_bytes(&self) -> u64 {
        self.reader.length_bytes()
    }
}

#[cfg(test)]
mod tests;

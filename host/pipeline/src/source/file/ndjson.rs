//! One JSON object a line.

use super::chunk::{ChunkReader, RECORD_LIMIT_BYTES, resume};
use super::{FilePosition, FileReader, Growth};
use crate::config::{FinalNewline, SourceConfig};
use crate::error::{Error, Result};
use crate::place::Place;
use crate::source::SourceBatch;
use crate::source::infer::{Guess, SAMPLE_ROWS};
use crate::source::object::{self, Object};
use crate::source::plan::{FileColumn, FileShape, Plan};
use crate::source::reject::Rejects;
use crate::source::rows::Rows;
use std::sync::Arc;

/// The objects of a sample say what the columns are called and what they seem to be.
pub(super) fn inspect(place: &Place) -> Result<FileShape> {
    let path = place.shown();
    let mut reader = ChunkReader::open(place, 0)?;
    reader.skip_mark()?;
    let mut columns: Vec<(String, Guess)> = Vec::new();
    let mut lines = 0;
    while lines < SAMPLE_ROWS {
        let (line, length) = match next_line(&mut reader)? {
            Line::Whole { text, length, .. } => (text, length),
            Line::End | Line::TooLong => break,
        };
        lines += 1;
        // What is malformed is dealt with when it is read.
        object::for_each(line, |name, value| {
            let found = columns.iter().position(|(known, _)| known == name);
            let index = found.unwrap_or_else(|| {
                columns.push((name.to_owned(), Guess::new()));
                columns.len() - 1
            });
            if let Some((_, guess)) = columns.get_mut(index) {
                guess.observe(value);
            }
        });
        reader.consume(length);
    }
    if lines == 0 {
        return Err(Error::input(format!(
            "{}:1: the file is empty; an NDJSON file has one JSON object a line",
            path.display()
        )));
    }
    let column =
        |(name, guess): (String, Guess)| FileColumn { name, column_type: guess.column_type() };
    Ok(FileShape::guessed(columns.into_iter().map(column).collect(), true))
}

/// What is at the front of a reader.
enum Line<'a> {
    /// A line with its length, line break included.
    Whole { text: &'a [u8], length: usize, terminated: bool },
    /// A line longer than a record may be.
    TooLong,
    /// The end of the file.
    End,
}

fn next_line(reader: &mut ChunkReader) -> Result<Line<'_>> {
    let (newline, terminated) = loop {
        let available = reader.available();
        let newline = memchr::memchr(b'\n', available);
        if newline.unwrap_or(available.len()) > RECORD_LIMIT_BYTES {
            return Ok(Line::TooLong);
        }
        if let Some(newline) = newline {
            break (newline, true);
        }
        if reader.at_end() {
            if available.is_empty() {
                return Ok(Line::End);
            }
            break (available.len(), false);
        }
        reader.fill()?;
    };
    let text = reader.available().get(..newline).unwrap_or_default();
    Ok(Line::Whole { text, length: newline + usize::from(terminated), terminated })
}

/// Reads an NDJSON file.
pub(super) struct NdjsonSource {
    reader: ChunkReader,
    position: FilePosition,
    /// Length of the byte order mark before the first line, which counts with that line: a
    /// position is always after a line break.
    mark: usize,
    final_newline: FinalNewline,
    growth: Growth,
    plan: Arc<Plan>,
    rejects: Rejects,
    object: Object,
}

impl NdjsonSource {
    pub(super) fn open(
        place: &Place,
        config: &SourceConfig,
        plan: Arc<Plan>,
        position: Option<FilePosition>,
        growth: Growth,
    ) -> Result<Self> {
        let mut position = position.unwrap_or_default();
        let (mut reader, skipped) = resume(place, config, position)?;
        position.byte_offset += skipped;
        let mark = if position.byte_offset == 0 { reader.skip_mark()? } else { 0 };
        position.lines += u64::from(skipped > 0);
        let names = plan.columns().iter().map(|column| column.name.clone()).collect();
        Ok(Self {
            reader,
            position,
            mark,
            final_newline: config.final_newline,
            growth,
            object: Object::new(names),
            plan,
            rejects: Rejects::new(config),
        })
    }
}

impl FileReader for NdjsonSource {
    fn next_batch(&mut self, rows_limit: usize) -> Result<Option<SourceBatch>> {
        let mut rows = Rows::new(Arc::clone(&self.plan), rows_limit);
        while !rows.is_full(rows_limit) && !self.rejects.is_full() {
            let number = self.position.lines + 1;
            let length = match next_line(&mut self.reader)? {
                // What is not whole may become so.
                Line::Whole { terminated: false, .. }
                    if self.growth == Growth::Awaited && rows.is_empty() =>
                {
                    return Ok(None);
                }
                Line::Whole { terminated: false, .. } if self.growth == Growth::Awaited => break,
                Line::End if rows.is_empty() => return Ok(None),
                Line::End => break,
                Line::Whole { text, length, terminated } => {
                    if !text.trim_ascii().is_empty() {
                        let object = &mut self.object;
                        let refused = match object.parse(text) {
                            Ok(()) => {
                                let appended = rows.append(number, |column| object.value(column));
                                appended.err().map(|bad| bad.reason)
                            }
                            Err(reason) if terminated => Some(reason),
                            Err(reason) => Some(cut_off(&reason, self.final_newline)),
                        };
                        if let Some(reason) = refused {
                            self.rejects.add(number, text, reason)?;
                            rows.reject();
                        }
                        self.position.rows += 1;
                    }
                    self.position.lines += u64::from(terminated);
                    length
                }
                Line::TooLong => {
                    let reason =
                        format!("the line is longer than {} MiB", RECORD_LIMIT_BYTES >> 20);
                    let available = self.reader.available();
                    let line = memchr::memchr(b'\n', available).unwrap_or(available.len());
                    let line = available.get(..line).unwrap_or_default();
                    self.rejects.add(number, line, reason)?;
                    rows.reject();
                    let (skipped, terminated) = self.reader.skip_line()?;
                    self.position.byte_offset += skipped;
                    self.position.rows += 1;
                    self.position.lines += u64::from(terminated);
                    0
                }
            };
            self.reader.consume(length);
            let length = length + std::mem::take(&mut self.mark);
            self.position.byte_offset += u64::try_from(length).unwrap_or(u64::MAX);
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

fn cut_off(reason: &str, final_newline: FinalNewline) -> String {
    match final_newline {
        FinalNewline::Required => {
            format!("the last line is not a whole JSON object, the file is cut off: {reason}")
        }
        FinalNewline::Optional => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;

//! The columns of a row group while it is written.
//!
//! Columns without nulls whose values are stored as they are in memory are encoded here: a copy of
//! the bytes, with page headers between. Crate `parquet` does the others, at some ten times the
//! cost, and writes the metadata of all of them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, FieldRef, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{BoundaryOrder, Compression, Encoding, EncodingMask, Type as PhysicalType};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;
use std::ops::Range;

/// The columns of one row group, in memory until it is whole.
pub(super) struct RowGroup {
    columns: Vec<(FieldRef, ColumnChunk)>,
    rows: usize,
}

enum ColumnChunk {
    Plain(Box<PlainChunk>),
    Runs(Box<RunChunk>),
    Other(Box<ArrowColumnWriter>),
}

impl RowGroup {
    /// An empty row group, the next one of `writer`.
    pub(super) fn new<W: Write + Send>(
        writer: &SerializedFileWriter<W>,
        schema: &SchemaRef,
    ) -> Result<Self> {
        let number = writer.flushed_row_groups().len();
        let factory = ArrowRowGroupWriterFactory::new(writer, schema.clone());
        let others = factory.create_column_writers(number)?;
        let descriptors = writer.schema_descr().columns();
        if others.len() != schema.fields().len() || descriptors.len() != others.len() {
            return Err(ParquetError::General("a column of a data file is nested".to_owned()));
        }
        let columns = schema.fields().iter().zip(descriptors).zip(others);
        let columns = columns.map(|((field, descriptor), other)| {
            let chunk = ColumnChunk::new(field, descriptor, writer.properties(), other);
            (field.clone(), chunk)
        });
        Ok(Self { columns: columns.collect(), rows: 0 })
    }

    /// Appends some rows of these columns.
    pub(super) fn write(&mut self, columns: &[ArrayRef], rows: Range<usize>) -> Result<()> {
        self.rows += rows.len();
        for ((field, chunk), array) in self.columns.iter_mut().zip(columns) {
            let array = array.slice(rows.start, rows.len());
            match chunk {
                ColumnChunk::Plain(plain) => plain.write(&array)?,
                ColumnChunk::Runs(runs) => runs.write(&array)?,
                ColumnChunk::Other(other) => {
                    for leaf in compute_leaves(field, &array)? {
                        other.write(&leaf)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// About how many bytes there are so far.
    pub(super) fn bytes(&self) -> usize {
        let bytes = self.columns.iter().map(|(_, chunk)| match chunk {
            ColumnChunk::Plain(plain) => plain.bytes.len() + plain.page.len(),
            ColumnChunk::Runs(_) => 0,
            ColumnChunk::Other(other) => other.get_estimated_total_bytes(),
        });
        bytes.sum()
    }

    /// Writes the row group, unless it is empty.
    pub(super) fn finish<W: Write + Send>(
        self,
        writer: &mut SerializedFileWriter<W>,
    ) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut row_group = writer.next_row_group()?;
        for (_, chunk) in self.columns {
            let (bytes, close) = match chunk {
                ColumnChunk::Plain(plain) => plain.finish()?,
                ColumnChunk::Runs(runs) => runs.finish()?,
                ColumnChunk::Other(other) => {
                    other.close()?.append_to_row_group(&mut row_group)?;
                    continue;
                }
            };
            row_group.append_column(&bytes, close)?;
        }
        row_group.close().map(drop)
    }
}

impl ColumnChunk {
    fn new(
        field: &FieldRef,
        descriptor: &ColumnDescPtr,
        properties: &WriterProperties,
        other: ArrowColumnWriter,
    ) -> Self {
        let path = descriptor.path();
        let statistics = properties.statistics_enabled(path);
        let is_integer = matches!(
            (field.data_type(), descriptor.physical_type()),
            (DataType::Int64 | DataType::Timestamp(..), PhysicalType::INT64)
                | (DataType::Int32 | DataType::Date32, PhysicalType::INT32)
        );
        let is_other_plain = matches!(
            (field.data_type(), descriptor.physical_type()),
            (DataType::Float32, PhysicalType::FLOAT)
                | (DataType::Float64, PhysicalType::DOUBLE)
                | (DataType::Utf8 | DataType::Binary, PhysicalType::BYTE_ARRAY)
        );
        let is_small = matches!(field.data_type(), DataType::Int8 | DataType::Int32);
        if field.is_nullable() {
            return Self::Other(Box::new(other));
        }
        let pages = || Pages::new(descriptor, statistics);
        if is_small && properties.dictionary_enabled(path) {
            let page_row_limit = properties.data_page_row_count_limit().max(1);
            return Self::Runs(Box::new(RunChunk::new(pages(), page_row_limit)));
        }
        if is_integer || is_other_plain && statistics == EnabledStatistics::None {
            return Self::Plain(Box::new(PlainChunk {
                pages: pages(),
                page_row_limit: properties.data_page_row_count_limit().max(1),
                page_limit_bytes: properties.column_data_page_size_limit(path),
                step_rows: properties.write_batch_size().max(1),
                bytes: Vec::new(),
                page: Vec::new(),
                page_rows: 0,
                page_range: None,
            }));
        }
        Self::Other(Box::new(other))
    }
}

/// A column whose pages are its values, one after the other.
struct PlainChunk {
    pages: Pages,
    page_row_limit: usize,
    page_limit_bytes: usize,
    /// Rows after which the size of a page is looked at.
    step_rows: usize,
    /// The pages that are whole.
    bytes: Vec<u8>,
    /// The values of the one that is not.
    page: Vec<u8>,
    page_rows: usize,
    page_range: Option<(i64, i64)>,
}

impl PlainChunk {
    fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let data = array.to_data();
        let wrong = || ParquetError::General("an array is not of the type of its column".into());
        if data.null_count() > 0 {
            return Err(ParquetError::General("a value is missing and may not be".into()));
        }
        let buffer = |at: usize| data.buffers().get(at).map(Buffer::as_slice).ok_or_else(wrong);
        let mut row = 0;
        while row < data.len() {
            let to_step = self.step_rows - self.page_rows % self.step_rows;
            let to_limit = self.page_row_limit.saturating_sub(self.page_rows).max(1);
            let rows = row..data.len().min(row + to_step.min(to_limit));
            match data.data_type().primitive_width() {
                Some(width) => {
                    // Fixed widths: there is no need to look in between.
                    let rows = row..data.len().min(row + to_limit);
                    let start = (data.offset() + rows.start) * width;
                    let values = buffer(0)?.get(start..start + rows.len() * width);
                    self.take_fixed(values.ok_or_else(wrong)?, width);
                    row = rows.end;
                    self.page_rows += rows.len();
                }
                None => {
                    let (offsets, bytes) = (buffer(0)?, buffer(1)?);
                    for at in rows.clone() {
                        let at = (data.offset() + at) * 4;
                        let start = number(offsets, at).ok_or_else(wrong)?;
                        let end = number(offsets, at + 4).ok_or_else(wrong)?;
                        let value = bytes.get(start..end).ok_or_else(wrong)?;
                        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
                        self.page.extend_from_slice(&length.to_le_bytes());
                        self.page.extend_from_slice(value);
                    }
                    row = rows.end;
                    self.page_rows += rows.len();
                }
            }
            if self.page_rows >= self.page_row_limit
                || self.page_rows.is_multiple_of(self.step_rows)
                    && self.page.len() >= self.page_limit_bytes
            {
                self.end_page();
            }
        }
        Ok(())
    }

    fn take_fixed(&mut self, values: &[u8], width: usize) {
        self.page.extend_from_slice(values);
        if self.pages.statistics == EnabledStatistics::None {
            return;
        }
        let range = match width {
            4 => range_of(values.as_chunks().0.iter().map(|v| i64::from(i32::from_le_bytes(*v)))),
            _ => range_of(values.as_chunks().0.iter().map(|v| i64::from_le_bytes(*v))),
        };
        self.page_range = together(self.page_range, range);
    }

    fn end_page(&mut self) {
        let offset = self.bytes.len();
        write_page(&mut self.bytes, PLAIN, self.page_rows, &self.page);
        let size = self.bytes.len() - offset;
        self.pages.end_page(offset, size, self.page_rows, self.page_range.take());
        self.page.clear();
        self.page_rows = 0;
    }

    fn finish(mut self) -> Result<(Bytes, ColumnCloseResult)> {
        if self.page_rows > 0 {
            self.end_page();
        }
        let close = self.pages.finish(self.bytes.len(), None, &[Encoding::PLAIN, Encoding::RLE])?;
        Ok((self.bytes.into(), close))
    }
}

/// A column of small integers with long runs of the same one: a dictionary, and runs of its
/// entries.
struct RunChunk {
    pages: Pages,
    page_row_limit: usize,
    dictionary: Vec<i32>,
    /// For each page, the runs in it: number of the entry, and how often.
    runs: Vec<Vec<(u32, usize)>>,
    /// Rows of the last page.
    page_rows: usize,
}

impl RunChunk {
    fn new(pages: Pages, page_row_limit: usize) -> Self {
        Self { pages, page_row_limit, dictionary: Vec::new(), runs: Vec::new(), page_rows: 0 }
    }

    fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let wrong = || ParquetError::General("an array is not of the type of its column".into());
        match array.data_type() {
            DataType::Int8 => {
                let values = array.as_primitive_opt::<Int8Type>().ok_or_else(wrong)?.values();
                self.push_all(values);
            }
            _ => {
                let values = array.as_primitive_opt::<Int32Type>().ok_or_else(wrong)?.values();
                self.push_all(values);
            }
        }
        Ok(())
    }

    fn push_all<T: Copy + PartialEq + Into<i32>>(&mut self, values: &[T]) {
        for run in values.chunk_by(|a, b| a == b) {
            if let Some(&value) = run.first() {
                self.push(value.into(), run.len());
            }
        }
    }

    fn push(&mut self, value: i32, mut count: usize) {
        if self.dictionary.last() != Some(&value) {
            // Of sorted values, each is a new one; of others, an entry may be there twice.
            self.dictionary.push(value);
        }
        let entry = u32::try_from(self.dictionary.len() - 1).unwrap_or(u32::MAX);
        while count > 0 {
            if self.page_rows == self.page_row_limit || self.runs.is_empty() {
                self.runs.push(Vec::new());
                self.page_rows = 0;
            }
            let rows = count.min(self.page_row_limit - self.page_rows);
            self.page_rows += rows;
            count -= rows;
            if let Some(page) = self.runs.last_mut() {
                match page.last_mut() {
                    Some((last, of_last)) if *last == entry => *of_last += rows,
                    _ => page.push((entry, rows)),
                }
            }
        }
    }

    fn finish(mut self) -> Result<(Bytes, ColumnCloseResult)> {
        let mut bytes = Vec::new();
        let dictionary: Vec<u8> = self.dictionary.iter().flat_map(|v| v.to_le_bytes()).collect();
        write_dictionary(&mut bytes, self.dictionary.len(), &dictionary);
        let data_offset = bytes.len();
        let greatest = self.dictionary.len().saturating_sub(1);
        let bit_width = (usize::BITS - greatest.leading_zeros()).max(1);
        let mut body = Vec::new();
        for page in &self.runs {
            body.clear();
            body.push(u8::try_from(bit_width).unwrap_or(u8::MAX));
            let mut rows = 0;
            let mut range = None;
            for &(entry, count) in page {
                rows += count;
                // The lowest bit says that it is a run, and not single values.
                write_varint(&mut body, (count as u64) << 1);
                let entry_bytes = entry.to_le_bytes();
                body.extend(entry_bytes.iter().take(bit_width.div_ceil(8) as usize));
                let value = self.dictionary.get(entry as usize).copied().map(i64::from);
                range = together(range, value.map(|value| (value, value)));
            }
            let offset = bytes.len();
            write_page(&mut bytes, PLAIN_DICTIONARY, rows, &body);
            self.pages.end_page(offset, bytes.len() - offset, rows, range);
        }
        let encodings = [Encoding::PLAIN_DICTIONARY, Encoding::RLE];
        let close = self.pages.finish(bytes.len(), Some(data_offset), &encodings)?;
        Ok((bytes.into(), close))
    }
}

/// What the metadata says of the pages of a column.
struct Pages {
    descriptor: ColumnDescPtr,
    statistics: EnabledStatistics,
    offset_index: OffsetIndexBuilder,
    column_index: ColumnIndexBuilder,
    range: Option<(i64, i64)>,
    rows: usize,
}

impl Pages {
    fn new(descriptor: &ColumnDescPtr, statistics: EnabledStatistics) -> Self {
        Self {
            descriptor: descriptor.clone(),
            statistics,
            offset_index: OffsetIndexBuilder::new(),
            column_index: ColumnIndexBuilder::new(descriptor.physical_type()),
            range: None,
            rows: 0,
        }
    }

    /// A value as it is stored.
    fn stored(&self, value: i64) -> Vec<u8> {
        let width = if self.descriptor.physical_type() == PhysicalType::INT32 { 4 } else { 8 };
        value.to_le_bytes().get(..width).unwrap_or_default().to_vec()
    }

    fn end_page(&mut self, offset: usize, size: usize, rows: usize, range: Option<(i64, i64)>) {
        self.rows += rows;
        self.offset_index.append_offset_and_size(signed(offset), int(size));
        self.offset_index.append_row_count(signed(rows));
        if let Some((least, greatest)) = range {
            let (least, greatest) = (self.stored(least), self.stored(greatest));
            self.column_index.append(false, least, greatest, 0);
        }
        self.range = together(self.range, range);
    }

    /// `data_offset` is where the data pages begin when a dictionary comes before them.
    fn finish(
        mut self,
        bytes: usize,
        data_offset: Option<usize>,
        encodings: &[Encoding],
    ) -> Result<ColumnCloseResult> {
        let mut metadata = ColumnChunkMetaData::builder(self.descriptor.clone())
            .set_compression(Compression::UNCOMPRESSED)
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
            .set_total_compressed_size(signed(bytes))
            .set_total_uncompressed_size(signed(bytes))
            .set_num_values(signed(self.rows))
            .set_data_page_offset(signed(data_offset.unwrap_or(0)))
            .set_dictionary_page_offset(data_offset.map(|_| 0));
        if let Some((least, greatest)) = self.range
            && self.statistics != EnabledStatistics::None
        {
            metadata = metadata.set_statistics(match self.descriptor.physical_type() {
                PhysicalType::INT32 => {
                    let [least, greatest] =
                        [least, greatest].map(|value| i32::try_from(value).ok());
                    Statistics::int32(least, greatest, None, Some(0), false)
                }
                _ => Statistics::int64(Some(least), Some(greatest), None, Some(0), false),
            });
        }
        let column_index = match self.statistics {
            EnabledStatistics::Page => {
                // Rows are sorted by key group and key: each page has its place in the first only.
                if data_offset.is_some() {
                    self.column_index.set_boundary_order(BoundaryOrder::ASCENDING);
                }
                Some(self.column_index.build()?)
            }
            EnabledStatistics::Chunk | EnabledStatistics::None => None,
        };
        Ok(ColumnCloseResult {
            bytes_written: bytes as u64,
            rows_written: self.rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index,
            offset_index: Some(self.offset_index.build()),
        })
    }
}

const DATA_PAGE: usize = 0;
const DICTIONARY_PAGE: usize = 2;
const PLAIN: usize = 0;
const PLAIN_DICTIONARY: usize = 2;
const RLE: usize = 3;

/// Thrift's compact protocol: a field of this number after the last one, and its type.
const NEXT_INTEGER: u8 = 0x15;
const NEXT_BUT_ONE_STRUCTURE: u8 = 0x2c;
const FOURTH_NEXT_STRUCTURE: u8 = 0x4c;
const STOP: u8 = 0;

/// A data page: its header and its body.
fn write_page(out: &mut Vec<u8>, encoding: usize, values: usize, body: &[u8]) {
    for number in [DATA_PAGE, body.len(), body.len()] {
        write_integer(out, number);
    }
    out.push(NEXT_BUT_ONE_STRUCTURE);
    for number in [values, encoding, RLE, RLE] {
        write_integer(out, number);
    }
    out.extend_from_slice(&[STOP, STOP]);
    out.extend_from_slice(body);
}

/// A dictionary page.
fn write_dictionary(out: &mut Vec<u8>, values: usize, body: &[u8]) {
    for number in [DICTIONARY_PAGE, body.len(), body.len()] {
        write_integer(out, number);
    }
    out.push(FOURTH_NEXT_STRUCTURE);
    for number in [values, PLAIN_DICTIONARY] {
        write_integer(out, number);
    }
    out.extend_from_slice(&[STOP, STOP]);
    out.extend_from_slice(body);
}

fn write_integer(out: &mut Vec<u8>, number: usize) {
    out.push(NEXT_INTEGER);
    // Zigzag: the lowest bit is the sign.
    write_varint(out, (number as u64) << 1);
}

fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f | 0x80).to_le_bytes()[0]);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// An offset of an Arrow array.
fn number(offsets: &[u8], at: usize) -> Option<usize> {
    let bytes = offsets.get(at..)?.first_chunk()?;
    usize::try_from(i32::from_le_bytes(*bytes)).ok()
}

fn range_of(values: impl Iterator<Item = i64>) -> Option<(i64, i64)> {
    let ends = values.fold((i64::MAX, i64::MIN), |(a, b), value| (a.min(value), b.max(value)));
    (ends.0 <= ends.1).then_some(ends)
}

fn together(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    }
}

/// A row group is far smaller than either.
fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn int(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

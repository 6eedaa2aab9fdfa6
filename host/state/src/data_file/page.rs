//! Pages of a column chunk: where they lie, and what is in one.
//!
//! Only what a probe needs: data pages of both versions, uncompressed, PLAIN, of columns that are
//! not nested. A page is looked at when a key may be in it, never before.

use super::source::{PageBytes, PageReader};
use crate::{Error, Result};
use parquet::file::metadata::ParquetMetaData;
use std::ops::Range;

/// Parquet's numbers in a page header.
const DATA_PAGE: i64 = 0;
const DATA_PAGE_V2: i64 = 3;
const PLAIN: i64 = 0;
/// Structures within structures in a page header; statistics are the deepest.
const DEPTH_LIMIT: usize = 4;

/// Where the pages of one column lie in a file: 16 bytes for each page.
#[derive(Debug)]
pub(super) struct PageDirectory {
    /// First row of each page, ascending from 0.
    first_rows: Vec<u32>,
    /// Where in the file each page begins.
    offsets: Vec<u64>,
    /// Bytes of each page, header and body.
    lengths: Vec<u32>,
    /// Rows of the file.
    rows: u32,
}

impl PageDirectory {
    /// The pages of column `index`; `None` without an offset index, or when it makes no sense.
    pub(super) fn new(metadata: &ParquetMetaData, index: usize, file_bytes: u64) -> Option<Self> {
        let rows = u32::try_from(metadata.file_metadata().num_rows()).ok()?;
        let offset_index = metadata.offset_index()?;
        let mut pages =
            Self { first_rows: Vec::new(), offsets: Vec::new(), lengths: Vec::new(), rows };
        let mut first_of_group = 0_i64;
        for (group, locations) in metadata.row_groups().iter().zip(offset_index) {
            for page in locations.get(index)?.page_locations() {
                let first = first_of_group.checked_add(page.first_row_index)?;
                let first = u32::try_from(first).ok().filter(|&first| first < rows)?;
                if page.first_row_index >= group.num_rows()
                    || pages.first_rows.last().map_or(first != 0, |&last| last >= first)
                {
                    return None;
                }
                let offset = u64::try_from(page.offset).ok()?;
                let length = u32::try_from(page.compressed_page_size).ok()?;
                if offset.checked_add(u64::from(length))? > file_bytes {
                    return None;
                }
                pages.first_rows.push(first);
                pages.offsets.push(offset);
                pages.lengths.push(length);
            }
            first_of_group = first_of_group.checked_add(group.num_rows())?;
        }
        let whole = first_of_group == i64::from(rows) && (rows == 0) == pages.offsets.is_empty();
        pages.first_rows.shrink_to_fit();
        pages.offsets.shrink_to_fit();
        pages.lengths.shrink_to_fit();
        whole.then_some(pages)
    }

    /// How many pages.
    pub(super) fn len(&self) -> usize {
        self.first_rows.len()
    }

    /// The page that a row is in. Pages have about the same number of rows, so the place is
    /// guessed and then mended.
    pub(super) fn page_of(&self, row: u32) -> usize {
        let pages = self.first_rows.len();
        let guess = (u64::from(row) * pages as u64).checked_div(u64::from(self.rows)).unwrap_or(0);
        let guess = usize::try_from(guess).unwrap_or(0).min(pages.saturating_sub(1));
        let begins_after = |page: usize| self.first_rows.get(page).is_none_or(|&first| first > row);
        let (mut low, mut high) = (guess, guess + 1);
        let mut step = 1;
        while low > 0 && begins_after(low) {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
        while !begins_after(high) {
            low = high;
            high += step;
            step *= 2;
        }
        high = high.min(pages);
        let between = self.first_rows.get(low..high).unwrap_or_default();
        (low + between.partition_point(|&first| first <= row)).saturating_sub(1)
    }

    /// The rows of a page; none past the last page.
    pub(super) fn rows(&self, page: usize) -> Range<u32> {
        let start = self.first_rows.get(page).copied().unwrap_or(self.rows);
        start..self.first_rows.get(page + 1).copied().unwrap_or(self.rows)
    }

    /// Offset and bytes of a page.
    pub(super) fn location(&self, page: usize) -> (u64, u32) {
        let offset = self.offsets.get(page).copied().unwrap_or_default();
        (offset, self.lengths.get(page).copied().unwrap_or_default())
    }

    /// The first page of each run of pages, for a look at how they are encoded: every page, when
    /// there are few.
    pub(super) fn samples(&self) -> impl Iterator<Item = usize> + '_ {
        const SAMPLES: usize = 16;
        let step = (self.first_rows.len() / SAMPLES).max(1);
        (0..self.first_rows.len()).step_by(step)
    }

    /// Bytes held in memory.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.first_rows.capacity() * 4 + self.offsets.capacity() * 8 + self.lengths.capacity() * 4
    }
}

/// One data page, opened.
pub(super) struct Page<'a> {
    /// Rows of the file.
    pub(super) rows: Range<u32>,
    bytes: PageBytes<'a>,
    /// Definition levels, for a nullable column.
    levels: Range<usize>,
    values: usize,
}

impl<'a> Page<'a> {
    /// Opens a page of values that take `width` bytes each, none null: they are the end of it.
    pub(super) fn of_fixed_width(
        pages: &PageDirectory,
        page: usize,
        width: usize,
        reader: &mut PageReader<'a>,
    ) -> Result<Self> {
        let rows = pages.rows(page);
        let (offset, length) = pages.location(page);
        let bytes = reader.page(offset, length)?;
        let values = rows.len().checked_mul(width).and_then(|taken| bytes.len().checked_sub(taken));
        let values = values.ok_or_else(|| reader.broken("a page is too short"))?;
        Ok(Self { rows, bytes, levels: 0..0, values })
    }

    /// Opens any page; `nullable` columns have definition levels.
    pub(super) fn open(
        pages: &PageDirectory,
        page: usize,
        nullable: bool,
        reader: &mut PageReader<'a>,
    ) -> Result<Self> {
        let rows = pages.rows(page);
        let (offset, length) = pages.location(page);
        let bytes = reader.page(offset, length)?;
        let layout = Layout::parse(&bytes, rows.len(), nullable);
        let Layout { levels, values } =
            layout.ok_or_else(|| reader.broken("a page header makes no sense"))?;
        Ok(Self { rows, bytes, levels, values })
    }

    pub(super) fn values(&self) -> &[u8] {
        self.bytes.get(self.values..).unwrap_or_default()
    }

    pub(super) fn levels(&self) -> &[u8] {
        self.bytes.get(self.levels.clone()).unwrap_or_default()
    }
}

impl PageReader<'_> {
    /// The error of a file whose pages are not what they should be.
    pub(super) fn broken(&self, why: &str) -> Error {
        Error::corrupt(format!("data file {} is damaged: {why}", self.path().display()))
    }
}

/// Where in the bytes of a page its parts are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    levels: Range<usize>,
    values: usize,
}

impl Layout {
    /// Reads the header of a page that should have this many rows.
    fn parse(bytes: &[u8], rows: usize, nullable: bool) -> Option<Self> {
        let mut thrift = Thrift { bytes, at: 0 };
        let header = thrift.page_header()?;
        let body = thrift.at;
        let encoded_plain = header.encoding == PLAIN && usize::try_from(header.values) == Ok(rows);
        if !encoded_plain || usize::try_from(header.body_bytes).ok()? != bytes.len() - body {
            return None;
        }
        match header.page_type {
            DATA_PAGE if nullable => {
                let length = bytes.get(body..body + 4)?.try_into().ok()?;
                let length = usize::try_from(u32::from_le_bytes(length)).ok()?;
                let start = body + 4;
                let end = start.checked_add(length).filter(|&end| end <= bytes.len())?;
                Some(Self { levels: start..end, values: end })
            }
            DATA_PAGE => Some(Self { levels: 0..0, values: body }),
            DATA_PAGE_V2 => {
                let start = body.checked_add(usize::try_from(header.repetition_bytes).ok()?)?;
                let end = start.checked_add(usize::try_from(header.definition_bytes).ok()?)?;
                if end > bytes.len() || header.repetition_bytes != 0 {
                    return None;
                }
                Some(Self { levels: start..end, values: end })
            }
            _ => None,
        }
    }
}

/// Whether the bytes begin with a page that can be read in place.
pub(super) fn is_plain(bytes: &[u8], rows: usize, nullable: bool) -> bool {
    Layout::parse(bytes, rows, nullable).is_some()
}

/// What is read of a page header.
#[derive(Debug, Default)]
struct PageHeader {
    page_type: i64,
    body_bytes: i64,
    values: i64,
    encoding: i64,
    definition_bytes: i64,
    repetition_bytes: i64,
}

/// Reads Thrift's compact protocol, as far as page headers use it.
struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Thrift<'_> {
    fn page_header(&mut self) -> Option<PageHeader> {
        let mut header = PageHeader { page_type: -1, encoding: -1, ..PageHeader::default() };
        let mut field = 0;
        while let Some(kind) = self.field(&mut field)? {
            match (field, kind) {
                (1, INTEGER) => header.page_type = self.integer()?,
                (3, INTEGER) => header.body_bytes = self.integer()?,
                (5, STRUCTURE) => self.data_page_header(&mut header, [1, 2, 0, 0])?,
                (8, STRUCTURE) => self.data_page_header(&mut header, [1, 4, 5, 6])?,
                (_, other) => self.skip(other, 0)?,
            }
        }
        Some(header)
    }

    /// The numbers of the fields with the count of values, the encoding, and the bytes of
    /// definition and repetition levels depend on the version.
    fn data_page_header(
        &mut self,
        header: &mut PageHeader,
        [values, encoding, definition, repetition]: [i64; 4],
    ) -> Option<()> {
        let mut field = 0;
        while let Some(kind) = self.field(&mut field)? {
            match kind {
                INTEGER if field == values => header.values = self.integer()?,
                INTEGER if field == encoding => header.encoding = self.integer()?,
                INTEGER if field == definition => header.definition_bytes = self.integer()?,
                INTEGER if field == repetition => header.repetition_bytes = self.integer()?,
                other => self.skip(other, 0)?,
            }
        }
        Some(())
    }

    /// Goes on to the next field of a structure; the inner `None` is its end.
    #[expect(clippy::option_option, reason = "end of the structure, or end of the bytes")]
    fn field(&mut self, field: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        let (delta, kind) = (byte >> 4, byte & 0x0f);
        if kind == STOP {
            return Some(None);
        }
        *field = match delta {
            0 => self.integer()?,
            delta => field.checked_add(i64::from(delta))?,
        };
        Some(Some(kind))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEPTH_LIMIT {
            return None;
        }
        match kind {
            // Booleans are in the type.
            1 | 2 => {}
            BYTE => drop(self.byte()?),
            SHORT | INTEGER | LONG => drop(self.varint()?),
            DOUBLE => self.advance(8)?,
            BINARY => {
                let length = self.varint()?;
                self.advance(usize::try_from(length).ok()?)?;
            }
            LIST | SET => {
                let byte = self.byte()?;
                let count = match byte >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                for _ in 0..count {
                    // A boolean takes a byte in a list.
                    match byte & 0x0f {
                        1 | 2 => drop(self.byte()?),
                        other => self.skip(other, depth + 1)?,
                    }
                }
            }
            STRUCTURE => {
                let mut field = 0;
                while let Some(kind) = self.field(&mut field)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn advance(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|&at| at <= self.bytes.len())?;
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        varint(self.bytes, &mut self.at)
    }

    /// A zigzag number.
    fn integer(&mut self) -> Option<i64> {
        let raw = self.varint()?;
        Some((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }
}

const STOP: u8 = 0;
const BYTE: u8 = 3;
const SHORT: u8 = 4;
const INTEGER: u8 = 5;
const LONG: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCTURE: u8 = 12;

/// A number of up to 64 bits, seven bits a byte, the least first.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Walks over the definition levels of a page of a nullable column: one bit for each row, in
/// runs of Parquet's hybrid encoding.
#[derive(Debug, Default)]
pub(super) struct Levels {
    at: usize,
    /// Rows left in the run.
    left: usize,
    run: Run,
}

#[derive(Debug, Default, Clone, Copy)]
enum Run {
    #[default]
    AllNull,
    AllValid,
    /// One bit for each row, from this bit of the levels on.
    Bits(usize),
}

impl Levels {
    /// Goes on by `rows` rows; returns how many of them have a value. `None` when the levels end
    /// before, or make no sense.
    pub(super) fn skip(&mut self, levels: &[u8], mut rows: usize) -> Option<usize> {
        let mut valid = 0;
        while rows > 0 {
            if self.left == 0 {
                self.next_run(levels)?;
                continue;
            }
            let taken = rows.min(self.left);
            valid += match &mut self.run {
                Run::AllNull => 0,
                Run::AllValid => taken,
                Run::Bits(from) => {
                    let ones = count_ones(levels, *from, taken)?;
                    *from += taken;
                    ones
                }
            };
            rows -= taken;
            self.left -= taken;
        }
        Some(valid)
    }

    fn next_run(&mut self, levels: &[u8]) -> Option<()> {
        let header = usize::try_from(varint(levels, &mut self.at)?).ok()?;
        let length = header >> 1;
        if length == 0 {
            return None;
        }
        if header & 1 == 1 {
            // Groups of eight rows.
            self.left = length.checked_mul(8)?;
            self.run = Run::Bits(self.at.checked_mul(8)?);
            // The last group may be cut short of bytes that no row needs.
            self.at = self.at.checked_add(length)?;
        } else {
            self.left = length;
            self.run = match *levels.get(self.at)? {
                0 => Run::AllNull,
                1 => Run::AllValid,
                _ => return None,
            };
            self.at += 1;
        }
        Some(())
    }
}

/// How many of `count` bits from bit `from` on are set.
fn count_ones(bytes: &[u8], from: usize, count: usize) -> Option<usize> {
    let (first, end) = (from / 8, (from + count).div_ceil(8));
    let mut ones = 0;
    for (byte, value) in (first..end).zip(bytes.get(first..end)?) {
        let low = from.saturating_sub(byte * 8).min(8);
        let high = (from + count - byte * 8).min(8);
        let mask = (0xff_u32 << low) & !(0xff_u32.checked_shl(u32::try_from(high).ok()?)?) & 0xff;
        ones += (u32::from(*value) & mask).count_ones() as usize;
    }
    Some(ones)
}

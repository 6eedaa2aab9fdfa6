//! Columns whose values lie PLAIN and uncompressed in the file: searched and read in place.

use super::page::{Levels, Page, PageDirectory, is_plain};
use super::source::{FileBytes, PageBytes, PageReader};
use crate::key::{write_bytes, write_eight, write_four, write_sixteen};
use crate::value_column::ValueColumn;
use crate::{Column, ColumnType, Result};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// A column of a file that can be read in place.
#[derive(Debug)]
pub(super) struct PlainColumn {
    pages: PageDirectory,
    stored: Stored,
    conversion: Conversion,
    nullable: bool,
    /// The first value of each page of an integer column, once it has been searched: then a
    /// search need not touch all the pages on its way. Eight bytes for 1,024 rows.
    page_starts: OnceLock<Vec<i64>>,
}

/// How values lie in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    /// A bit each.
    Bits,
    /// This many bytes each, little-endian, but for decimals of that length: big-endian.
    Fixed(usize),
    /// Each with its length before it, in four bytes.
    Variable,
}

/// From a stored value to one of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    None,
    IntToLong,
    FloatToDouble,
    DateToMillis,
    /// Little-endian, of the stored width.
    SmallDecimal,
    /// Big-endian, of the stored width.
    LargeDecimal,
}

/// Pages of values that are fetched from memory ahead of the one that is read.
const PAGES_AHEAD: usize = 6;
/// About what a page header takes.
const PAGE_HEADER_BYTES: usize = 32;
/// More of a page than this is not fetched ahead.
const PREFETCH_LIMIT_BYTES: usize = 2 << 10;
/// Keys that are searched for in step, so that their reads overlap.
const LANES: usize = 16;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

impl PlainColumn {
    /// Column `index` of a file, if it can be read in place as this column of the table: not
    /// compressed, PLAIN, flat, with an offset index, of the same type or one that can be widened.
    pub(super) fn new(
        metadata: &ArrowReaderMetadata,
        bytes: &FileBytes,
        path: &Path,
        index: usize,
        column: &Column,
    ) -> Option<Self> {
        let descriptor = metadata.parquet_schema().columns().get(index)?;
        if descriptor.max_rep_level() != 0 || descriptor.max_def_level() > 1 {
            return None;
        }
        let nullable = descriptor.max_def_level() == 1;
        // The logical type decides the unit of times and the scale of decimals.
        let data_type = metadata.schema().fields().get(index)?.data_type();
        let stored_type = ColumnType::from_arrow(data_type)?;
        let stored = match descriptor.physical_type() {
            PhysicalType::BOOLEAN => Stored::Bits,
            PhysicalType::INT32 | PhysicalType::FLOAT => Stored::Fixed(4),
            PhysicalType::INT64 | PhysicalType::DOUBLE => Stored::Fixed(8),
            PhysicalType::FIXED_LEN_BYTE_ARRAY => {
                let width = usize::try_from(descriptor.type_length()).ok()?;
                Stored::Fixed(width).filter((1..=16).contains(&width))?
            }
            PhysicalType::BYTE_ARRAY => Stored::Variable,
            PhysicalType::INT96 => return None,
        };
        let conversion = conversion(stored_type, column.column_type, descriptor.physical_type())?;
        if !stored.fits(stored_type) || !is_uncompressed(metadata, index) {
            return None;
        }
        let pages = PageDirectory::new(metadata.metadata(), index, bytes.length_bytes())?;
        let mut reader = PageReader::new(bytes, path);
        for page in pages.samples() {
            let (offset, length) = pages.location(page);
            let rows = pages.rows(page).len();
            let sample = reader.page(offset, length).ok()?;
            if !is_plain(&sample, rows, nullable) {
                return None;
            }
        }
        Some(Self { pages, stored, conversion, nullable, page_starts: OnceLock::new() })
    }

    /// Whether it can be searched: a key has a value in each row, and of its own type.
    pub(super) fn is_key(&self) -> bool {
        let own_type = matches!(
            self.conversion,
            Conversion::None | Conversion::SmallDecimal | Conversion::LargeDecimal
        );
        !self.nullable && own_type
    }

    fn open<'a>(&self, page: usize, reader: &mut PageReader<'a>) -> Result<Page<'a>> {
        match self.stored {
            Stored::Fixed(width) if !self.nullable => {
                Page::of_fixed_width(&self.pages, page, width, reader)
            }
            _ => Page::open(&self.pages, page, self.nullable, reader),
        }
    }

    /// The first of these rows whose value is not less than `key`, or, with `after`, greater; the
    /// end of the range when there is none. The values of the rows ascend.
    fn bound(
        &self,
        rows: Range<u32>,
        key: &KeyPart<'_>,
        after: bool,
        reader: &mut PageReader<'_>,
    ) -> Result<Bound> {
        let goes_before = |order: Ordering| match order {
            Ordering::Less => true,
            Ordering::Equal => after,
            Ordering::Greater => false,
        };
        let Some(last_row) = rows.end.checked_sub(1).filter(|&last| last >= rows.start) else {
            return Ok(Bound { row: rows.start, equal: false });
        };
        // The last page of the range whose first value goes before the bound.
        let (mut low, mut high) = (self.pages.page_of(rows.start), self.pages.page_of(last_row));
        let mut opened = None;
        while low < high {
            let middle = high - (high - low) / 2;
            let page = self.open(middle, reader)?;
            if goes_before(self.compare(&page, 0, key, reader)?) {
                low = middle;
                opened = Some((middle, page));
            } else {
                high = middle - 1;
            }
        }
        let page = match opened {
            Some((number, page)) if number == low => page,
            _ => self.open(low, reader)?,
        };
        let in_page = |row: u32| (row - page.rows.start) as usize;
        let from = in_page(rows.start.max(page.rows.start));
        let to = in_page(rows.end.min(page.rows.end));
        let (at, equal) = self.bound_in_page(&page, from..to, key, after, reader)?;
        // No more rows than the page has.
        let row = page.rows.start + u32::try_from(at).unwrap_or(u32::MAX);
        if at < to || row == rows.end || after {
            return Ok(Bound { row, equal });
        }
        // The first row of the next page.
        let next = self.open(low + 1, reader)?;
        let equal = self.compare(&next, 0, key, reader)? == Ordering::Equal;
        Ok(Bound { row, equal })
    }

    /// Compares the value of a row of a page with a key.
    fn compare(
        &self,
        page: &Page<'_>,
        row: usize,
        key: &KeyPart<'_>,
        reader: &PageReader<'_>,
    ) -> Result<Ordering> {
        let compared = match (self.stored, key) {
            (Stored::Bits, KeyPart::Boolean(key)) => bit(page.values(), row).map(|v| v.cmp(key)),
            (Stored::Fixed(4), KeyPart::Integer(key)) => {
                four(page.values(), row).map(|value| i64::from(value).cmp(key))
            }
            (Stored::Fixed(8), KeyPart::Integer(key)) => {
                eight(page.values(), row).map(|value| value.cmp(key))
            }
            (Stored::Fixed(width), KeyPart::Decimal(key)) => {
                self.decimal(page.values(), row, width).map(|value| value.cmp(key))
            }
            (Stored::Variable, KeyPart::Bytes(key)) => {
                let mut walk = Walk { values: page.values(), at: 0 };
                walk.skip(row).and_then(|()| walk.next()).map(|value| value.cmp(key.as_ref()))
            }
            _ => None,
        };
        compared.ok_or_else(|| reader.broken("a page is too short"))
    }

    /// [`PlainColumn::bound`] within these rows of a page, and whether the value there is the
    /// key.
    fn bound_in_page(
        &self,
        page: &Page<'_>,
        rows: Range<usize>,
        key: &KeyPart<'_>,
        after: bool,
        reader: &PageReader<'_>,
    ) -> Result<(usize, bool)> {
        let values = page.values();
        let found = match (self.stored, key) {
            (Stored::Bits, KeyPart::Boolean(key)) => {
                search(rows, after, |row| Some(bit(values, row)?.cmp(key)))
            }
            (Stored::Fixed(4), KeyPart::Integer(key)) => {
                search(rows, after, |row| Some(i64::from(four(values, row)?).cmp(key)))
            }
            (Stored::Fixed(8), KeyPart::Integer(key)) => {
                search(rows, after, |row| Some(eight(values, row)?.cmp(key)))
            }
            (Stored::Fixed(width), KeyPart::Decimal(key)) => {
                search(rows, after, |row| Some(self.decimal(values, row, width)?.cmp(key)))
            }
            (Stored::Variable, KeyPart::Bytes(key)) => walk_to(values, rows, key, after),
            _ => None,
        };
        found.ok_or_else(|| reader.broken("a page is too short"))
    }

    fn decimal(&self, values: &[u8], row: usize, width: usize) -> Option<i128> {
        let value = values.get(row * width..row * width + width)?;
        Some(match self.conversion {
            Conversion::LargeDecimal => big_endian(value),
            _ if width == 4 => i128::from(i32::from_le_bytes(value.try_into().ok()?)),
            _ => i128::from(i64::from_le_bytes(value.try_into().ok()?)),
        })
    }

    /// Reads the values of these rows, which ascend, into a column of the table.
    pub(super) fn read(
        &self,
        rows: &[u32],
        reader: &mut PageReader<'_>,
        target: &mut ValueColumn,
    ) -> Result<()> {
        let mut pages: Vec<usize> = rows.iter().map(|&row| self.pages.page_of(row)).collect();
        pages.dedup();
        if !reader.is_mapped() {
            reader.read_ahead(pages.iter().map(|&page| self.pages.location(page)))?;
        }
        let mut ahead = rows.iter().peekable();
        let mut rest = rows;
        for (at, &page) in pages.iter().enumerate() {
            if let Some(&soon) = pages.get(at + PAGES_AHEAD) {
                self.prefetch(soon, &mut ahead, reader);
            }
            let page = self.open(page, reader)?;
            let in_page = rest.iter().take_while(|&&row| row < page.rows.end).count();
            let (these, following) = rest.split_at(in_page);
            let read = match self.stored {
                Stored::Fixed(width) if !self.nullable => {
                    self.read_fixed(&page, these, width, target)
                }
                _ => self.read_any(&page, these, target),
            };
            if !read? {
                return Err(reader.broken("a page is too short"));
            }
            rest = following;
        }
        if !rest.is_empty() {
            return Err(reader.broken("it has fewer rows than it should"));
        }
        Ok(())
    }

    /// Begins to fetch a page up to the first of the rows in it that are wanted; `ahead` goes over
    /// all rows that are.
    fn prefetch<'a>(
        &self,
        page: usize,
        ahead: &mut Peekable<impl Iterator<Item = &'a u32>>,
        reader: &PageReader<'_>,
    ) {
        let rows = self.pages.rows(page);
        while ahead.next_if(|&&row| row < rows.start).is_some() {}
        let Some(&&wanted) = ahead.peek() else { return };
        let (offset, length) = self.pages.location(page);
        let before = wanted.saturating_sub(rows.start) as usize;
        let each = (length as usize).checked_div(rows.len()).unwrap_or(0);
        match self.stored {
            Stored::Fixed(width) if !self.nullable => {
                let end = offset + u64::from(length);
                let after = (rows.len() - before.min(rows.len())) * width;
                reader.prefetch(end.saturating_sub(after as u64), width);
            }
            // A header, then the values up to the one that is wanted, and that one.
            _ => {
                let bytes = (before + 1) * each + PAGE_HEADER_BYTES;
                reader.prefetch(offset, bytes.min(PREFETCH_LIMIT_BYTES));
            }
        }
    }

    /// False when the page is too short.
    fn read_fixed(
        &self,
        page: &Page<'_>,
        rows: &[u32],
        width: usize,
        target: &mut ValueColumn,
    ) -> Result<bool> {
        let values = page.values();
        for &row in rows {
            let start = (row - page.rows.start) as usize * width;
            let Some(value) = values.get(start..start + width) else { return Ok(false) };
            self.push(value, target)?;
        }
        Ok(true)
    }

    /// False when the page is too short.
    fn read_any(&self, page: &Page<'_>, rows: &[u32], target: &mut ValueColumn) -> Result<bool> {
        let values = page.values();
        let mut levels = Levels::default();
        let mut walk = Walk { values, at: 0 };
        // Rows of the page, and values of it, that are behind.
        let (mut row_at, mut value_at) = (0, 0);
        for &row in rows {
            let row = (row - page.rows.start) as usize;
            let mut skipped = row - row_at;
            let mut valid = true;
            if self.nullable {
                let Some(before) = levels.skip(page.levels(), skipped) else { return Ok(false) };
                let Some(here) = levels.skip(page.levels(), 1) else { return Ok(false) };
                (skipped, valid) = (before, here == 1);
            }
            row_at = row + 1;
            value_at += skipped;
            let moved = match self.stored {
                Stored::Variable => walk.skip(skipped),
                _ => Some(()),
            };
            if moved.is_none() {
                return Ok(false);
            }
            if !valid {
                target.push_empty();
                continue;
            }
            let value = match self.stored {
                Stored::Variable => walk.next().map(Cow::Borrowed),
                Stored::Fixed(width) => {
                    let start = value_at * width;
                    values.get(start..start + width).map(Cow::Borrowed)
                }
                Stored::Bits => bit(values, value_at).map(|value| Cow::Owned(vec![value.into()])),
            };
            let Some(value) = value else { return Ok(false) };
            value_at += 1;
            self.push(&value, target)?;
        }
        Ok(true)
    }

    fn push(&self, value: &[u8], target: &mut ValueColumn) -> Result<()> {
        let four = || <[u8; 4]>::try_from(value).unwrap_or_default();
        match self.conversion {
            Conversion::None => target.push_value(value),
            Conversion::IntToLong => {
                target.push_value(&i64::from(i32::from_le_bytes(four())).to_le_bytes())
            }
            Conversion::FloatToDouble => {
                target.push_value(&f64::from(f32::from_le_bytes(four())).to_le_bytes())
            }
            Conversion::DateToMillis => {
                let days = i64::from(i32::from_le_bytes(four()));
                target.push_value(&(days * DAY_MS).to_le_bytes())
            }
            Conversion::SmallDecimal | Conversion::LargeDecimal => {
                let decimal = self.decimal(value, 0, value.len()).unwrap_or_default();
                target.push_value(&decimal.to_le_bytes())
            }
        }
    }

    /// Bytes held in memory.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        self.pages.memory_bytes()
    }
}

impl Stored {
    fn filter(self, keep: bool) -> Option<Self> {
        keep.then_some(self)
    }

    /// Whether values of this type may lie so.
    fn fits(self, column_type: ColumnType) -> bool {
        match column_type {
            ColumnType::Boolean => self == Self::Bits,
            ColumnType::Utf8 | ColumnType::Binary => self == Self::Variable,
            ColumnType::Decimal128 { .. } => matches!(self, Self::Fixed(_)),
            other => other.width_bytes().is_some_and(|width| self == Self::Fixed(width)),
        }
    }
}

/// How to widen what is stored to the type of the table; `None` when that cannot be.
fn conversion(from: ColumnType, to: ColumnType, physical: PhysicalType) -> Option<Conversion> {
    use ColumnType as T;
    Some(match (from, to) {
        (
            T::Decimal128 { precision, scale },
            T::Decimal128 { precision: wanted, scale: wanted_scale },
        ) if precision <= wanted && scale == wanted_scale => match physical {
            PhysicalType::FIXED_LEN_BYTE_ARRAY => Conversion::LargeDecimal,
            PhysicalType::INT32 | PhysicalType::INT64 => Conversion::SmallDecimal,
            _ => return None,
        },
        (from, to) if from == to => Conversion::None,
        (T::Int32, T::Int64) => Conversion::IntToLong,
        (T::Float32, T::Float64) => Conversion::FloatToDouble,
        (T::Date, T::TimestampMillis) => Conversion::DateToMillis,
        _ => return None,
    })
}

fn is_uncompressed(metadata: &ArrowReaderMetadata, index: usize) -> bool {
    metadata.metadata().row_groups().iter().all(|group| {
        group.columns().get(index).is_some_and(|chunk| {
            chunk.compression() == Compression::UNCOMPRESSED
                && chunk.dictionary_page_offset().is_none()
                && chunk
                    .encodings()
                    .all(|encoding| matches!(encoding, Encoding::PLAIN | Encoding::RLE))
        })
    })
}

/// A row that was looked for in a column.
struct Bound {
    row: u32,
    /// Whether its value is the key.
    equal: bool,
}

/// The rows among these whose key is `key`, an encoded key of these columns: one or none, since
/// keys are unique. The rows ascend by key.
pub(super) fn find(
    columns: &[(&PlainColumn, ColumnType)],
    mut rows: Range<u32>,
    key: &[u8],
    reader: &mut PageReader<'_>,
) -> Result<Option<u32>> {
    let mut rest = key;
    for (at, (column, column_type)) in columns.iter().enumerate() {
        if rows.is_empty() {
            return Ok(None);
        }
        let Some((part, following)) = KeyPart::split(*column_type, rest) else { return Ok(None) };
        rest = following;
        let first = column.bound(rows.clone(), &part, false, reader)?;
        if !first.equal || first.row >= rows.end {
            return Ok(None);
        }
        let last_column = at + 1 == columns.len();
        let end = match last_column {
            true => first.row + 1,
            false => column.bound(first.row..rows.end, &part, true, reader)?.row,
        };
        rows = first.row..end;
    }
    Ok((!rows.is_empty() && rest.is_empty()).then_some(rows.start))
}

/// Whether the key of a row, which is in these columns, comes before `bound`, the beginning of an
/// encoded key. `scratch` is room to work in.
pub(super) fn is_before(
    columns: &[(&PlainColumn, ColumnType)],
    row: u32,
    bound: &[u8],
    reader: &mut PageReader<'_>,
    scratch: &mut Vec<u8>,
) -> Result<bool> {
    scratch.clear();
    for (column, column_type) in columns {
        column.encode(row, *column_type, reader, scratch)?;
        // Most rows differ from the bound in the first column.
        let both = scratch.len().min(bound.len());
        if scratch.get(..both) != bound.get(..both) || both == bound.len() {
            break;
        }
    }
    Ok(scratch.as_slice() < bound)
}

/// A search in an integer column that goes on in step with others.
#[derive(Clone, Copy)]
struct Lane<'a> {
    key: i64,
    /// Number of the key.
    index: u32,
    /// Pages that the key may be in.
    pages: (usize, usize),
    rows: (u32, u32),
    values: &'a [u8],
    /// Row of the first of `values`.
    first_row: u32,
    /// Where in `values` to look, and at how many.
    low: usize,
    count: usize,
}

/// The rows of these keys (rows to look in, encoded key, number of the key), as (number, row), in
/// an integer column that is all of the key. `None` for any other column, or when it is not mapped.
///
/// A search waits for memory at each of its steps. Many searches at a time wait together.
pub(super) fn find_integers<'k>(
    column: &PlainColumn,
    column_type: ColumnType,
    keys: impl Iterator<Item = (Range<u32>, &'k [u8], u32)>,
    reader: &mut PageReader<'_>,
) -> Result<Option<Vec<(u32, u32)>>> {
    let Stored::Fixed(width @ (4 | 8)) = column.stored else { return Ok(None) };
    if !reader.is_mapped() || column.conversion != Conversion::None || !column.is_key() {
        return Ok(None);
    }
    let mut found = Vec::new();
    let mut lanes = Vec::with_capacity(LANES);
    for (rows, key, index) in keys {
        let Some((KeyPart::Integer(key), [])) = KeyPart::split(column_type, key) else { continue };
        let Some(last) = rows.end.checked_sub(1).filter(|&last| last >= rows.start) else {
            continue;
        };
        lanes.push(Lane {
            key,
            index,
            pages: (column.pages.page_of(rows.start), column.pages.page_of(last)),
            rows: (rows.start, rows.end),
            values: &[],
            first_row: 0,
            low: 0,
            count: 0,
        });
        if lanes.len() == LANES {
            column.search_lanes(&mut lanes, width, reader, &mut found)?;
            lanes.clear();
        }
    }
    column.search_lanes(&mut lanes, width, reader, &mut found)?;
    Ok(Some(found))
}

impl PlainColumn {
    /// Appends the value of a row as it is in an encoded key.
    fn encode(
        &self,
        row: u32,
        column_type: ColumnType,
        reader: &mut PageReader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let page = self.open(self.pages.page_of(row), reader)?;
        let at = row.saturating_sub(page.rows.start) as usize;
        let values = page.values();
        let written = match (self.stored, column_type) {
            (Stored::Bits, _) => bit(values, at).map(|value| out.push(u8::from(value))),
            (Stored::Fixed(width), ColumnType::Decimal128 { .. }) => {
                self.decimal(values, at, width).map(|value| write_sixteen(value, out))
            }
            (Stored::Fixed(4), _) => four(values, at).map(|value| write_four(value, out)),
            (Stored::Fixed(_), _) => eight(values, at).map(|value| write_eight(value, out)),
            (Stored::Variable, _) => {
                let mut walk = Walk { values, at: 0 };
                walk.skip(at).and_then(|()| walk.next()).map(|value| write_bytes(value, out))
            }
        };
        written.ok_or_else(|| reader.broken("a page is too short"))
    }

    fn search_lanes<'a>(
        &self,
        lanes: &mut [Lane<'a>],
        width: usize,
        reader: &mut PageReader<'a>,
        found: &mut Vec<(u32, u32)>,
    ) -> Result<()> {
        let integer = |values: &[u8], at: usize| match width {
            4 => four(values, at).map(i64::from),
            _ => eight(values, at),
        };
        let page_starts = match self.page_starts.get() {
            Some(starts) => starts,
            None => {
                let starts = (0..self.pages.len()).map(|page| {
                    let values = self.mapped_values(page, width, reader)?;
                    Ok(integer(values, 0).unwrap_or(i64::MAX))
                });
                let starts = starts.collect::<Result<Vec<_>>>()?;
                self.page_starts.get_or_init(|| starts)
            }
        };
        // The last page whose first value is not greater than the key.
        for lane in lanes.iter_mut() {
            let (low, high) = lane.pages;
            let behind = page_starts.get(low + 1..=high).unwrap_or_default();
            lane.pages.0 = low + behind.partition_point(|&first| first <= lane.key);
        }
        for lane in lanes.iter_mut() {
            let page = lane.pages.0;
            let rows = self.pages.rows(page);
            let (from, to) = (lane.rows.0.max(rows.start), lane.rows.1.min(rows.end));
            lane.values = self.mapped_values(page, width, reader)?;
            lane.first_row = rows.start;
            lane.low = from.saturating_sub(rows.start) as usize;
            lane.count = to.saturating_sub(from) as usize;
        }
        // The last value that is not greater than the key.
        let mut steps = lanes.iter().map(|lane| lane.count).max().unwrap_or(0);
        while steps > 1 {
            for lane in lanes.iter_mut() {
                let half = lane.count / 2;
                let middle = integer(lane.values, lane.low + half).unwrap_or(i64::MAX);
                lane.low += if middle <= lane.key { half } else { 0 };
                lane.count -= half;
            }
            steps -= steps / 2;
        }
        for lane in lanes.iter().filter(|lane| lane.count > 0) {
            if integer(lane.values, lane.low) == Some(lane.key) {
                // No more values than rows, which are counted in 32 bits.
                let at = u32::try_from(lane.low).unwrap_or(u32::MAX);
                found.push((lane.index, lane.first_row.saturating_add(at)));
            }
        }
        Ok(())
    }

    /// The values of a page of a mapped file, each of this many bytes.
    fn mapped_values<'a>(
        &self,
        page: usize,
        width: usize,
        reader: &mut PageReader<'a>,
    ) -> Result<&'a [u8]> {
        let taken = self.pages.rows(page).len() * width;
        let (offset, length) = self.pages.location(page);
        match reader.page(offset, length)? {
            PageBytes::Mapped(bytes) if bytes.len() >= taken => {
                Ok(bytes.get(bytes.len() - taken..).unwrap_or_default())
            }
            _ => Err(reader.broken("a page is too short")),
        }
    }
}

/// One column of an encoded key.
#[derive(Debug, PartialEq, PartialOrd)]
pub(super) enum KeyPart<'a> {
    Boolean(bool),
    Integer(i64),
    Decimal(i128),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> KeyPart<'a> {
    /// Takes the first column off an encoded key; `None` when the bytes are no such key.
    pub(super) fn split(column_type: ColumnType, key: &'a [u8]) -> Option<(Self, &'a [u8])> {
        Some(match column_type {
            ColumnType::Boolean => {
                let (&byte, rest) = key.split_first()?;
                (Self::Boolean(byte != 0), rest)
            }
            ColumnType::Int32 | ColumnType::Date => {
                let (bytes, rest) = key.split_first_chunk()?;
                (Self::Integer(i64::from(i32::from_be_bytes(*bytes) ^ i32::MIN)), rest)
            }
            ColumnType::Int64 | ColumnType::TimestampMillis => {
                let (bytes, rest) = key.split_first_chunk()?;
                (Self::Integer(i64::from_be_bytes(*bytes) ^ i64::MIN), rest)
            }
            ColumnType::Decimal128 { .. } => {
                let (bytes, rest) = key.split_first_chunk()?;
                (Self::Decimal(i128::from_be_bytes(*bytes) ^ i128::MIN), rest)
            }
            ColumnType::Utf8 | ColumnType::Binary => {
                let (value, rest) = split_bytes(key)?;
                (Self::Bytes(value), rest)
            }
            ColumnType::Float32 | ColumnType::Float64 => return None,
        })
    }
}

/// Undoes the escapes of text and bytes in a key: 0 255 is 0, 0 0 the end.
fn split_bytes(key: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let zero = key.iter().position(|&byte| byte == 0)?;
    let (value, rest) = key.split_at(zero);
    if let [0, 0, rest @ ..] = rest {
        return Some((Cow::Borrowed(value), rest));
    }
    let mut value = value.to_vec();
    let mut rest = rest;
    loop {
        match rest {
            [0, 0, following @ ..] => return Some((Cow::Owned(value), following)),
            [0, 255, following @ ..] => {
                value.push(0);
                rest = following;
            }
            [0, ..] | [] => return None,
            [byte, following @ ..] => {
                value.push(*byte);
                rest = following;
            }
        }
    }
}

/// The first of these rows that does not compare `Less` (with `after`: nor `Equal`), and whether
/// it compares `Equal`. `None` when a comparison fails.
fn search(
    rows: Range<usize>,
    after: bool,
    compare: impl Fn(usize) -> Option<Ordering>,
) -> Option<(usize, bool)> {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        let order = compare(middle)?;
        if order == Ordering::Less || (after && order == Ordering::Equal) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let equal = low < rows.end && compare(low)? == Ordering::Equal;
    Some((low, equal))
}

/// [`search`] over values of any length, from the first to the last.
fn walk_to(values: &[u8], rows: Range<usize>, key: &[u8], after: bool) -> Option<(usize, bool)> {
    let mut walk = Walk { values, at: 0 };
    walk.skip(rows.start)?;
    for row in rows.clone() {
        let order = walk.next()?.cmp(key);
        if order == Ordering::Greater || (!after && order == Ordering::Equal) {
            return Some((row, order == Ordering::Equal));
        }
    }
    Some((rows.end, false))
}

/// Goes over values that each have their length before them.
struct Walk<'a> {
    values: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn length(&self) -> Option<usize> {
        let rest = self.values.get(self.at..)?;
        let bytes = rest.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    }

    fn skip(&mut self, values: usize) -> Option<()> {
        for _ in 0..values {
            self.at = self.at.checked_add(4)?.checked_add(self.length()?)?;
        }
        Some(())
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.at.checked_add(4)?;
        let end = start.checked_add(self.length()?)?;
        let value = self.values.get(start..end)?;
        self.at = end;
        Some(value)
    }
}

fn bit(values: &[u8], at: usize) -> Option<bool> {
    Some(values.get(at / 8)? >> (at % 8) & 1 == 1)
}

fn four(values: &[u8], at: usize) -> Option<i32> {
    let bytes = values.get(at * 4..at * 4 + 4)?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}

fn eight(values: &[u8], at: usize) -> Option<i64> {
    let bytes = values.get(at * 8..at * 8 + 8)?;
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

/// A big-endian number of at most 16 bytes.
fn big_endian(value: &[u8]) -> i128 {
    let negative = value.first().is_some_and(|&byte| byte & 0x80 != 0);
    let start = if negative { -1_i128 } else { 0 };
    value.iter().fold(start, |number, &byte| (number << 8) | i128::from(byte))
}

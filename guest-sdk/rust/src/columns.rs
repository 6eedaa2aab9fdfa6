//! Columns in Arrow's layout: what crosses the boundary between operator and host.
//!
//! An operator rarely needs this module: `#[derive(Row)]` reads and writes columns. It is
//! here for types that implement [`Value`] themselves, and for operators that work on whole columns
//! ([`process_batch`](crate::Operator::process_batch)).

#[doc(inline)]
pub use crate::bindings::howdah::operator::types::{Column, Decimal as DecimalType, ValueType};

use std::marker::PhantomData;

use crate::{Date, Error, Field, Primitive, Result, Timestamp, Value};

/// The values of a column, with their type.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a, T> {
    column: &'a Column,
    value: PhantomData<fn() -> T>,
}

impl<'a, T: Value> Values<'a, T> {
    /// The value of a row. Fails past the last row.
    #[inline]
    pub fn get(&self, row: usize) -> Result<T> {
        T::read(self.column, row)
    }

    /// The bytes of the row's value in a `utf8` or `binary` column, where they lie.
    #[inline]
    pub fn bytes(&self, row: usize) -> Result<&'a [u8]> {
        self.column.bytes(row)
    }

    /// The column itself.
    pub fn column(&self) -> &'a Column {
        self.column
    }
}

impl<'a> Values<'a, String> {
    /// The text of a row, where it lies. Fails past the last row, and if it is no UTF-8.
    #[inline]
    pub fn text(&self, row: usize) -> Result<&'a str> {
        text(self.column, row)
    }
}

impl<'a, T: FixedWidth> Values<'a, T> {
    /// All values in order: a loop over them costs no more than one over a slice.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + Clone + 'a {
        T::all(&self.column.data)
    }
}

/// A type whose values lie side by side in a column, each in the same number of bytes.
pub trait FixedWidth: Primitive {
    /// The values of a column.
    fn all(data: &[u8]) -> impl ExactSizeIterator<Item = Self> + Clone + '_;
}

macro_rules! fixed_width {
    ($($type:ty, $width:literal, |$bytes:ident| $read:expr;)*) => {$(
        impl FixedWidth for $type {
            #[inline]
            fn all(data: &[u8]) -> impl ExactSizeIterator<Item = Self> + Clone + '_ {
                data.as_chunks::<$width>().0.iter().map(|bytes| {
                    let $bytes = *bytes;
                    $read
                })
            }
        }
    )*};
}

fixed_width! {
    i32, 4, |bytes| Self::from_le_bytes(bytes);
    i64, 8, |bytes| Self::from_le_bytes(bytes);
    f32, 4, |bytes| Self::from_le_bytes(bytes);
    f64, 8, |bytes| Self::from_le_bytes(bytes);
    Date, 4, |bytes| Self::from_days(i32::from_le_bytes(bytes));
    Timestamp, 8, |bytes| Self::from_millis(i64::from_le_bytes(bytes));
}

/// A column with these values.
pub fn column<T: Value>(values: impl IntoIterator<Item = T>) -> Column {
    let values = values.into_iter();
    let mut builder = ColumnBuilder::new(T::TYPE, values.size_hint().0);
    values.for_each(|value| value.write(&mut builder));
    builder.finish()
}

/// A `utf8` column with these texts, or with none in some rows. Nothing is copied twice.
pub fn texts<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> Column {
    let values = values.into_iter();
    let mut builder = ColumnBuilder::new(ValueType::Utf8, values.size_hint().0);
    values.for_each(|value| match value {
        Some(value) => builder.push_bytes(value.as_bytes()),
        None => builder.push_null(),
    });
    builder.finish()
}

/// The column of the field with this name.
pub(crate) fn find<'f, 'a>(
    fields: &'f [Field],
    columns: &'a [Column],
    name: &str,
) -> Result<(&'f Field, &'a Column)> {
    let found = fields.iter().zip(columns).find(|(field, _)| field.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = fields.iter().map(|field| field.name).collect();
        let names = names.join(", ");
        Error::new(format!("there is no column `{name}`; there are {names}"))
    })
}

/// The column of the field with this name, if it is of this type.
pub(crate) fn named<'a, T: Value>(
    fields: &[Field],
    columns: &'a [Column],
    name: &str,
) -> Result<Values<'a, T>> {
    let (field, column) = find(fields, columns, name)?;
    if field.value_type != T::TYPE || (field.nullable && !T::NULLABLE) {
        let nullable = if field.nullable { " and may be null" } else { "" };
        return Err(Error::new(format!(
            "column `{name}` is {:?}{nullable}, not {:?}",
            field.value_type,
            T::TYPE
        )));
    }
    Ok(Values { column, value: PhantomData })
}

/// How the values of a column lie in its `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// A bit a row.
    Bits,
    /// So many bytes a row.
    Fixed(usize),
    /// Any number of bytes a row, with offsets.
    Variable,
}

impl Layout {
    fn of(value_type: ValueType) -> Self {
        match value_type {
            ValueType::Boolean => Self::Bits,
            ValueType::Int32 | ValueType::Float32 | ValueType::Date => Self::Fixed(4),
            ValueType::Int64 | ValueType::Float64 | ValueType::TimestampMillis => Self::Fixed(8),
            ValueType::Decimal128(_) => Self::Fixed(16),
            ValueType::Utf8 | ValueType::Binary => Self::Variable,
        }
    }
}

impl Column {
    /// Checks that the buffers have the lengths that `rows` values of the type take, that
    /// offsets ascend inside `data`, and, unless the column is `nullable`, that every row has
    /// its value. A column that passes is safe to read; of one that does not, the other methods
    /// give, at worst, an error or a wrong value.
    pub fn check(&self, value_type: ValueType, nullable: bool, rows: usize) -> Result<()> {
        self.check_lengths(value_type, rows)?;
        match &self.validity {
            Some(validity) if !nullable && !all_set(validity, rows) => {
                Err(Error::invalid_argument("a row lacks its value, but must have one"))
            }
            _ => Ok(()),
        }
    }

    /// The same as [`check`](Self::check), but any row may lack its value.
    pub(crate) fn check_lengths(&self, value_type: ValueType, rows: usize) -> Result<()> {
        let layout = Layout::of(value_type);
        let data_len = match layout {
            Layout::Bits => rows.div_ceil(8),
            Layout::Fixed(width) => rows.saturating_mul(width),
            Layout::Variable => self.data.len(),
        };
        check_len("data", &self.data, data_len, rows)?;
        match (layout, &self.offsets) {
            (Layout::Variable, Some(offsets)) => check_offsets(offsets, rows, self.data.len())?,
            (Layout::Variable, None) => {
                return Err(Error::invalid_argument("there are no offsets"));
            }
            (_, Some(_)) => {
                return Err(Error::invalid_argument("offsets beside values of fixed width"));
            }
            (_, None) => {}
        }
        match &self.validity {
            Some(validity) => check_len("validity", validity, rows.div_ceil(8), rows),
            None => Ok(()),
        }
    }

    /// Whether the row lacks a value.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.validity.as_ref().is_some_and(|validity| !bit(validity, row))
    }

    /// The row's value in a `boolean` column.
    #[inline]
    pub fn boolean(&self, row: usize) -> Result<bool> {
        match self.data.get(row / 8) {
            Some(_) => Ok(bit(&self.data, row)),
            None => Err(no_row(row)),
        }
    }

    /// The little-endian bytes of the row's value in a column whose values take `N` bytes.
    #[inline]
    pub fn fixed<const N: usize>(&self, row: usize) -> Result<[u8; N]> {
        match chunk(&self.data, row) {
            Some(value) => Ok(value),
            None => Err(no_row(row)),
        }
    }

    /// A column of the same type with the values of these rows alone. Fails past the last row.
    pub(crate) fn select(&self, value_type: ValueType, rows: &[u32]) -> Result<Self> {
        let mut selected = ColumnBuilder::new(value_type, rows.len());
        for row in rows.iter().map(|row| *row as usize) {
            if self.is_null(row) {
                selected.push_null();
                continue;
            }
            match selected.layout {
                Layout::Bits => selected.push_boolean(self.boolean(row)?),
                Layout::Fixed(4) => selected.push_fixed(self.fixed::<4>(row)?),
                Layout::Fixed(8) => selected.push_fixed(self.fixed::<8>(row)?),
                Layout::Fixed(_) => selected.push_fixed(self.fixed::<16>(row)?),
                Layout::Variable => selected.push_bytes(self.bytes(row)?),
            }
        }
        Ok(selected.finish())
    }

    /// The bytes of the row's value in a `utf8` or `binary` column.
    #[inline]
    pub fn bytes(&self, row: usize) -> Result<&[u8]> {
        self.variable(row).ok_or_else(|| no_row(row))
    }

    fn variable(&self, row: usize) -> Option<&[u8]> {
        let offsets = self.offsets.as_ref()?;
        let start = u32::from_le_bytes(chunk(offsets, row)?) as usize;
        let end = u32::from_le_bytes(chunk(offsets, row.checked_add(1)?)?) as usize;
        self.data.get(start..end)
    }
}

/// The bit of a row in a bitmap; a missing byte reads as zeros.
#[inline]
pub(crate) fn bit(bitmap: &[u8], row: usize) -> bool {
    bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

/// Whether the bits of all `rows` rows of a bitmap are 1; the bytes are those of as many rows.
pub(crate) fn all_set(bitmap: &[u8], rows: usize) -> bool {
    let (whole, last) = bitmap.split_at(bitmap.len().min(rows / 8));
    whole.iter().all(|byte| *byte == u8::MAX)
        && (rows / 8 * 8..rows)
            .all(|row| last.first().is_some_and(|byte| byte >> (row % 8) & 1 == 1))
}

/// The `index`-th `N` bytes of a packed buffer.
#[inline]
pub(crate) fn chunk<const N: usize>(buffer: &[u8], index: usize) -> Option<[u8; N]> {
    buffer.as_chunks().0.get(index).copied()
}

fn check_len(what: &str, buffer: &[u8], wanted: usize, rows: usize) -> Result<()> {
    if buffer.len() == wanted {
        return Ok(());
    }
    let len = buffer.len();
    Err(Error::invalid_argument(format!("{len} bytes of {what} for {rows} rows, not {wanted}")))
}

fn check_offsets(offsets: &[u8], rows: usize, data_len: usize) -> Result<()> {
    check_len("offsets", offsets, rows.saturating_add(1).saturating_mul(4), rows)?;
    let values = |from: usize| u32s(offsets.get(from..).unwrap_or_default());
    // Looks at all of them without a branch, so that the compiler takes several at a time.
    let ascend =
        values(0).zip(values(4)).fold(true, |ascend, (start, end)| ascend & (start <= end));
    if !ascend {
        return Err(Error::invalid_argument("the offsets do not ascend"));
    }
    if values(0).next() != Some(0) || values(0).next_back().unwrap_or(0) as usize != data_len {
        return Err(Error::invalid_argument("the offsets do not span the data"));
    }
    Ok(())
}

/// The values of a packed buffer.
pub(crate) fn u32s(
    buffer: &[u8],
) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + Clone {
    buffer.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

/// The text of a row of a `utf8` column.
#[inline]
pub(crate) fn text(column: &Column, row: usize) -> Result<&str> {
    std::str::from_utf8(column.bytes(row)?).map_err(|error| {
        Error::invalid_argument(format!("the text of row {row} is no UTF-8: {error}"))
    })
}

#[cold]
fn no_row(row: usize) -> Error {
    Error::invalid_argument(format!("no row {row} in a column"))
}

/// Builds a [`Column`] one row after the other. Every `push` adds one row; the caller
/// pushes only what fits the type.
#[derive(Debug)]
pub struct ColumnBuilder {
    layout: Layout,
    /// Rows, if each is a bit; else the buffers tell.
    bits: usize,
    /// How many rows it was made for.
    capacity: usize,
    data: Vec<u8>,
    offsets: Vec<u8>,
    /// Made when the first null comes.
    validity: Option<Validity>,
}

/// Which rows of a builder have a value. Those after the last null are not here until they must be:
/// values are added without it.
#[derive(Debug)]
struct Validity {
    bitmap: Vec<u8>,
    rows: usize,
}

impl ColumnBuilder {
    /// An empty column with room for `capacity` rows.
    pub fn new(value_type: ValueType, capacity: usize) -> Self {
        let layout = Layout::of(value_type);
        let (data, offsets) = match layout {
            Layout::Bits => (Vec::with_capacity(capacity.div_ceil(8)), Vec::new()),
            Layout::Fixed(width) => {
                (Vec::with_capacity(capacity.saturating_mul(width)), Vec::new())
            }
            Layout::Variable => {
                let mut offsets = Vec::with_capacity(capacity.saturating_add(1).saturating_mul(4));
                offsets.extend_from_slice(&0_u32.to_le_bytes());
                (Vec::new(), offsets)
            }
        };
        Self { layout, bits: 0, capacity, data, offsets, validity: None }
    }

    /// Adds a value of a `boolean` column.
    #[inline]
    pub fn push_boolean(&mut self, value: bool) {
        push_bit(&mut self.data, self.bits, value);
        self.bits += 1;
    }

    /// Adds a value of a column of fixed width, as its little-endian bytes.
    #[inline]
    pub fn push_fixed<const N: usize>(&mut self, value: [u8; N]) {
        self.data.extend_from_slice(&value);
    }

    /// Adds a value of a `utf8` or `binary` column.
    #[inline]
    pub fn push_bytes(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.push_offset();
    }

    /// Adds a row without a value.
    pub fn push_null(&mut self) {
        let row = self.rows();
        match self.layout {
            Layout::Bits => self.push_boolean(false),
            Layout::Fixed(width) => self.data.resize(self.data.len().saturating_add(width), 0),
            Layout::Variable => self.push_offset(),
        }
        let room = self.capacity.max(row).div_ceil(8).saturating_add(1);
        let validity = self.validity.get_or_insert_with(|| Validity::with_capacity(room));
        validity.fill(row);
        validity.push(false);
    }

    /// The column of all rows that were added.
    pub fn finish(mut self) -> Column {
        let rows = self.rows();
        if let Some(validity) = &mut self.validity {
            validity.fill(rows);
        }
        Column {
            data: self.data,
            offsets: (self.layout == Layout::Variable).then_some(self.offsets),
            validity: self.validity.map(|validity| validity.bitmap),
        }
    }

    /// How many rows there are.
    fn rows(&self) -> usize {
        match self.layout {
            Layout::Bits => self.bits,
            Layout::Fixed(width) => self.data.len() / width.max(1),
            Layout::Variable => (self.offsets.len() / 4).saturating_sub(1),
        }
    }

    /// The address space of a guest has 32 bits, so every offset fits.
    fn push_offset(&mut self) {
        let end = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
        self.offsets.extend_from_slice(&end.to_le_bytes());
    }
}

impl Validity {
    fn with_capacity(bytes: usize) -> Self {
        Self { bitmap: Vec::with_capacity(bytes), rows: 0 }
    }

    /// All rows that were added since have a value.
    fn fill(&mut self, rows: usize) {
        while self.rows < rows && !self.rows.is_multiple_of(8) {
            self.push(true);
        }
        self.bitmap.resize(self.bitmap.len().max(rows / 8), 0xFF);
        self.rows = self.rows.max(rows / 8 * 8);
        while self.rows < rows {
            self.push(true);
        }
    }

    fn push(&mut self, valid: bool) {
        push_bit(&mut self.bitmap, self.rows, valid);
        self.rows += 1;
    }
}

/// Adds bit number `row` to a bitmap that has `row` bits.
#[inline]
fn push_bit(bitmap: &mut Vec<u8>, row: usize, value: bool) {
    if row.is_multiple_of(8) {
        bitmap.push(u8::from(value));
    } else if let Some(byte) = bitmap.last_mut() {
        *byte |= u8::from(value) << (row % 8);
    }
}

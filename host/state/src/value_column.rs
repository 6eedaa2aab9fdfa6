//! Value columns that grow row by row and can be overwritten in place.
//!
//! Fixed-width values are kept as the bytes that Arrow and Parquet's PLAIN encoding both use,
//! so one shape serves the write buffer, the probe and the files.
#![expect(clippy::indexing_slicing, reason = "rows are pushed here before they are read")]

use crate::write_buffer::and_an_eighth;
use crate::{Column, ColumnType, Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, make_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayDataBuilder;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// The values of one column for the rows of a buffer.
#[derive(Debug, Clone)]
pub(crate) struct ValueColumn {
    column: Column,
    validity: Vec<bool>,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    /// Booleans take a byte each.
    Fixed { width: usize, bytes: Vec<u8> },
    /// Where each row's bytes are in `arena`.
    Variable { slots: Vec<(u32, u32)>, arena: Vec<u8>, dead_bytes: usize },
}

/// An array whose rows can be copied one by one.
pub(crate) struct SourceColumn<'a> {
    nulls: Option<&'a NullBuffer>,
    values: SourceValues<'a>,
}

enum SourceValues<'a> {
    Boolean(&'a BooleanArray),
    Fixed { width: usize, bytes: &'a [u8] },
    Variable { offsets: &'a OffsetBuffer<i32>, bytes: &'a [u8] },
}

impl<'a> SourceColumn<'a> {
    /// # Errors
    /// `InvalidArgument` for another type than the column's, or a null where there may be none.
    pub(crate) fn new(column: &Column, array: &'a ArrayRef) -> Result<Self> {
        if array.data_type() != &column.column_type.to_arrow() {
            return Err(Error::invalid(format!(
                "column `{}` is {}, got {}",
                column.name,
                column.column_type,
                array.data_type()
            )));
        }
        if !column.nullable && array.null_count() > 0 {
            let row = (0..array.len()).find(|&row| array.is_null(row)).unwrap_or(0);
            return Err(Error::invalid(format!(
                "column `{}` has no value in row {row} and is not nullable",
                column.name
            )));
        }
        check_precision(column, array)?;
        let values = match column.column_type {
            ColumnType::Boolean => SourceValues::Boolean(array.as_boolean()),
            ColumnType::Utf8 => {
                let array = array.as_string::<i32>();
                SourceValues::Variable { offsets: array.offsets(), bytes: array.value_data() }
            }
            ColumnType::Binary => {
                let array = array.as_binary::<i32>();
                SourceValues::Variable { offsets: array.offsets(), bytes: array.value_data() }
            }
            other => SourceValues::Fixed {
                width: other.width_bytes().unwrap_or(0),
                bytes: fixed_bytes(array, other)?,
            },
        };
        Ok(Self { nulls: array.nulls(), values })
    }
}

/// Files store a decimal in as few bytes as its precision needs: a larger one would be cut.
pub(crate) fn check_precision(column: &Column, array: &ArrayRef) -> Result<()> {
    let ColumnType::Decimal128 { precision, .. } = column.column_type else { return Ok(()) };
    array
        .as_primitive::<arrow_array::types::Decimal128Type>()
        .validate_decimal_precision(precision)
        .map_err(|error| Error::invalid(format!("column `{}`: {error}", column.name)))
}

/// The packed little-endian bytes of a fixed-width array.
fn fixed_bytes(array: &ArrayRef, column_type: ColumnType) -> Result<&[u8]> {
    use arrow_array::types as t;
    Ok(match column_type {
        ColumnType::Int32 => array.as_primitive::<t::Int32Type>().values().inner().as_slice(),
        ColumnType::Int64 => array.as_primitive::<t::Int64Type>().values().inner().as_slice(),
        ColumnType::Float32 => array.as_primitive::<t::Float32Type>().values().inner().as_slice(),
        ColumnType::Float64 => array.as_primitive::<t::Float64Type>().values().inner().as_slice(),
        ColumnType::Date => array.as_primitive::<t::Date32Type>().values().inner().as_slice(),
        ColumnType::Decimal128 { .. } => {
            array.as_primitive::<t::Decimal128Type>().values().inner().as_slice()
        }
        ColumnType::TimestampMillis => {
            array.as_primitive::<t::TimestampMillisecondType>().values().inner().as_slice()
        }
        ColumnType::Boolean | ColumnType::Utf8 | ColumnType::Binary => {
            return Err(Error::internal(format!("{column_type} has no fixed width")));
        }
    })
}

impl ValueColumn {
    pub(crate) fn new(column: &Column) -> Self {
        let values = match column.column_type {
            ColumnType::Utf8 | ColumnType::Binary => {
                Values::Variable { slots: Vec::new(), arena: Vec::new(), dead_bytes: 0 }
            }
            other => Values::Fixed { width: other.width_bytes().unwrap_or(1), bytes: Vec::new() },
        };
        Self { column: column.clone(), validity: Vec::new(), values }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.validity.len()
    }

    /// Adds a row without a value.
    pub(crate) fn push_empty(&mut self) {
        self.validity.push(false);
        match &mut self.values {
            Values::Fixed { width, bytes } => bytes.resize(bytes.len() + *width, 0),
            Values::Variable { slots, .. } => slots.push((0, 0)),
        }
    }

    /// Adds a row with this value.
    ///
    /// # Errors
    /// `InvalidArgument` when the column would pass 2 GiB.
    pub(crate) fn push_value(&mut self, value: &[u8]) -> Result<()> {
        self.check_room_for(value)?;
        self.validity.push(true);
        match &mut self.values {
            Values::Fixed { width, bytes } => {
                let value = value.get(..*width).unwrap_or_default();
                bytes.extend_from_slice(value);
                bytes.resize(bytes.len() + *width - value.len(), 0);
            }
            Values::Variable { slots, arena, .. } => {
                slots.push((narrow(arena.len()), narrow(value.len())));
                arena.extend_from_slice(value);
            }
        }
        Ok(())
    }

    /// Whether a row lacks a value.
    pub(crate) fn has_nulls(&self) -> bool {
        self.validity.contains(&false)
    }

    fn check_room_for(&self, value: &[u8]) -> Result<()> {
        if self.has_room_for(value.len()) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "column `{}` would take more than 2 GiB of memory; use smaller batches",
            self.column.name
        )))
    }

    /// Writes row `from` of an array over row `row`.
    pub(crate) fn set(&mut self, row: usize, source: &SourceColumn<'_>, from: usize) {
        let valid = source.nulls.is_none_or(|nulls| nulls.is_valid(from));
        self.validity[row] = valid;
        if !valid {
            self.store(row, &[]);
            return;
        }
        match &source.values {
            SourceValues::Boolean(array) => self.store(row, &[u8::from(array.value(from))]),
            SourceValues::Fixed { width, bytes } => {
                self.store(row, &bytes[from * width..(from + 1) * width]);
            }
            SourceValues::Variable { offsets, bytes } => {
                let range = offset(offsets[from])..offset(offsets[from + 1]);
                self.store(row, &bytes[range]);
            }
        }
    }

    /// Whether row `row` has the value of row `from` of an array.
    pub(crate) fn equals(&self, row: usize, source: &SourceColumn<'_>, from: usize) -> bool {
        let valid = source.nulls.is_none_or(|nulls| nulls.is_valid(from));
        if self.validity[row] != valid || !valid {
            return self.validity[row] == valid;
        }
        match &source.values {
            SourceValues::Boolean(array) => self.bytes(row) == [u8::from(array.value(from))],
            SourceValues::Fixed { width, bytes } => {
                self.bytes(row) == &bytes[from * width..(from + 1) * width]
            }
            SourceValues::Variable { offsets, bytes } => {
                self.bytes(row) == &bytes[offset(offsets[from])..offset(offsets[from + 1])]
            }
        }
    }

    /// Whether row `row` has the value of a row of another column of the same type.
    pub(crate) fn is_same(&self, row: usize, other: &Self, other_row: usize) -> bool {
        match (self.validity[row], other.validity[other_row]) {
            (true, true) => self.bytes(row) == other.bytes(other_row),
            (valid, other_valid) => valid == other_valid,
        }
    }

    /// Adds the value of a row to a hash, so that rows with other values have other hashes.
    pub(crate) fn hash(&self, row: usize, hasher: &mut Xxh3) {
        let value = if self.validity[row] { self.bytes(row) } else { &[] };
        hasher.update(&[u8::from(self.validity[row])]);
        hasher.update(&(value.len() as u64).to_le_bytes());
        hasher.update(value);
    }

    /// The value of a row of a timestamp column.
    pub(crate) fn timestamp_ms(&self, row: usize) -> Option<i64> {
        let value = <[u8; 8]>::try_from(self.bytes(row)).ok()?;
        self.validity[row].then_some(i64::from_le_bytes(value))
    }

    /// Adds row `from` of another column of the same type.
    ///
    /// # Errors
    /// `InvalidArgument` when the column would pass 2 GiB.
    pub(crate) fn push_from(&mut self, other: &Self, from: usize) -> Result<()> {
        let value = other.bytes(from);
        self.check_room_for(value)?;
        self.push_empty();
        let row = self.validity.len() - 1;
        self.validity[row] = other.validity[from];
        self.store(row, value);
        Ok(())
    }

    /// Makes room for as many rows as another column has.
    pub(crate) fn make_room_of(&mut self, other: &Self) {
        self.validity.reserve(and_an_eighth(other.validity.len()));
        match (&mut self.values, &other.values) {
            (Values::Fixed { bytes, .. }, Values::Fixed { bytes: other, .. }) => {
                bytes.reserve(and_an_eighth(other.len()));
            }
            (
                Values::Variable { slots, arena, .. },
                Values::Variable { slots: other_slots, arena: other_arena, .. },
            ) => {
                slots.reserve(and_an_eighth(other_slots.len()));
                arena.reserve(and_an_eighth(other_arena.len()));
            }
            _ => {}
        }
    }

    /// Whether all rows of another column can be added.
    ///
    /// # Errors
    /// `InvalidArgument` when the column would pass 2 GiB.
    pub(crate) fn check_room_for_all(&self, other: &Self) -> Result<()> {
        match &other.values {
            Values::Fixed { .. } => Ok(()),
            Values::Variable { arena, .. } => self.check_room_for(arena),
        }
    }

    /// Adds all rows of another column of the same type, for which there is room.
    pub(crate) fn append(&mut self, other: &Self) {
        self.validity.extend_from_slice(&other.validity);
        match (&mut self.values, &other.values) {
            (Values::Fixed { bytes, .. }, Values::Fixed { bytes: other, .. }) => {
                bytes.extend_from_slice(other);
            }
            (
                Values::Variable { slots, arena, dead_bytes },
                Values::Variable { slots: added, arena: bytes, dead_bytes: dead },
            ) => {
                let base = narrow(arena.len());
                slots.extend(added.iter().map(|&(start, length)| (base + start, length)));
                arena.extend_from_slice(bytes);
                *dead_bytes += dead;
            }
            _ => {}
        }
    }

    /// A column of the same type without rows.
    pub(crate) fn empty_like(&self) -> Self {
        Self::new(&self.column)
    }

    /// Writes row `from` of another column of the same type over row `row`.
    pub(crate) fn set_from(&mut self, row: usize, other: &Self, from: usize) {
        self.validity[row] = other.validity[from];
        self.store(row, other.bytes(from));
    }

    /// Removes all rows; the memory that they took stays, for the next ones.
    pub(crate) fn clear(&mut self) {
        self.validity.clear();
        match &mut self.values {
            Values::Fixed { bytes, .. } => bytes.clear(),
            Values::Variable { slots, arena, dead_bytes } => {
                slots.clear();
                arena.clear();
                *dead_bytes = 0;
            }
        }
    }

    /// Removes the rows from this one on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.validity.truncate(rows);
        match &mut self.values {
            Values::Fixed { width, bytes } => bytes.truncate(rows * *width),
            Values::Variable { slots, dead_bytes, .. } => {
                let removed = slots.drain(rows.min(slots.len())..);
                *dead_bytes += removed.map(|(_, length)| length as usize).sum::<usize>();
            }
        }
    }

    /// The bytes of a row's value; for a row without one they mean nothing.
    fn bytes(&self, row: usize) -> &[u8] {
        match &self.values {
            Values::Fixed { width, bytes } => &bytes[row * width..(row + 1) * width],
            Values::Variable { slots, arena, .. } => {
                let (start, length) = slots[row];
                &arena[start as usize..start as usize + length as usize]
            }
        }
    }

    fn store(&mut self, row: usize, value: &[u8]) {
        match &mut self.values {
            Values::Fixed { width, bytes } => {
                if value.len() == *width {
                    bytes[row * *width..(row + 1) * *width].copy_from_slice(value);
                }
            }
            Values::Variable { slots, arena, dead_bytes } => {
                let (start, length) = slots[row];
                if value.len() <= length as usize {
                    // In place: the rest of the old value is dead.
                    *dead_bytes += length as usize - value.len();
                    let start_at = start as usize;
                    arena[start_at..start_at + value.len()].copy_from_slice(value);
                    slots[row] = (start, narrow(value.len()));
                    return;
                }
                *dead_bytes += length as usize;
                slots[row] = (narrow(arena.len()), narrow(value.len()));
                arena.extend_from_slice(value);
                if *dead_bytes > arena.len() / 2 + 4096 {
                    compact(slots, arena, dead_bytes);
                }
            }
        }
    }

    /// Whether the rows fit the 32-bit offsets of an Arrow array, with room for one more value.
    pub(crate) fn has_room_for(&self, more_bytes: usize) -> bool {
        match &self.values {
            Values::Fixed { .. } => true,
            Values::Variable { arena, .. } => {
                arena.len().saturating_add(more_bytes) <= i32::MAX as usize
            }
        }
    }

    /// Bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Fixed { bytes, .. } => bytes.len(),
            Values::Variable { slots, arena, .. } => slots.len() * 8 + arena.len(),
        };
        values + self.validity.len()
    }

    fn too_large(&self, limit_bytes: usize) -> Error {
        let name = &self.column.name;
        if i32::try_from(limit_bytes).is_err() {
            return Error::invalid(format!(
                "column `{name}` takes more than 2 GiB in one batch; use smaller batches"
            ));
        }
        Error::new(
            ErrorKind::LimitExceeded,
            format!("column `{name}` takes more than {limit_bytes} bytes; ask for less"),
        )
    }

    /// These rows, in this order, as an array. `None` and rows without a value are null; in a
    /// column that is not nullable they are zero or empty.
    pub(crate) fn gather(&self, rows: &[Option<u32>]) -> Result<ArrayRef> {
        self.gather_within(rows, usize::MAX)
    }

    /// The same, unless the values take more than `limit_bytes`.
    pub(crate) fn gather_within(
        &self,
        rows: &[Option<u32>],
        limit_bytes: usize,
    ) -> Result<ArrayRef> {
        let valid = |row: &Option<u32>| row.is_some_and(|row| self.validity[row as usize]);
        let nulls = self.column.nullable.then(|| rows.iter().map(valid).collect::<NullBuffer>());
        let builder = ArrayDataBuilder::new(self.column.column_type.to_arrow())
            .len(rows.len())
            .nulls(nulls.filter(|nulls| nulls.null_count() > 0))
            .align_buffers(true);
        let builder = match &self.values {
            Values::Fixed { bytes, .. } if self.column.column_type == ColumnType::Boolean => {
                let bits = rows.iter().map(|row| row.is_some_and(|row| bytes[row as usize] != 0));
                return Ok(Arc::new(BooleanArray::new(
                    bits.collect(),
                    self.column.nullable.then(|| rows.iter().map(valid).collect()),
                )));
            }
            Values::Fixed { width, .. } if rows.len().saturating_mul(*width) > limit_bytes => {
                return Err(self.too_large(limit_bytes));
            }
            Values::Fixed { width, .. } => {
                let mut gathered = Vec::with_capacity(rows.len() * width);
                for row in rows {
                    match row {
                        Some(row) => gathered.extend_from_slice(self.bytes(*row as usize)),
                        None => gathered.resize(gathered.len() + width, 0),
                    }
                }
                builder.add_buffer(Buffer::from_vec(gathered))
            }
            Values::Variable { .. } => {
                let mut len = 0;
                let mut offsets: Vec<i32> = Vec::with_capacity(rows.len() + 1);
                offsets.push(0);
                for row in rows {
                    len += row.map_or(0, |row| self.bytes(row as usize).len());
                    match i32::try_from(len) {
                        Ok(end) if len <= limit_bytes => offsets.push(end),
                        _ => return Err(self.too_large(limit_bytes)),
                    }
                }
                // Of the right size at once: values are copied once, not again as it grows.
                let mut gathered = Vec::with_capacity(len);
                for row in rows.iter().flatten() {
                    gathered.extend_from_slice(self.bytes(*row as usize));
                }
                builder.add_buffer(Buffer::from_vec(offsets)).add_buffer(Buffer::from_vec(gathered))
            }
        };
        builder
            .build()
            .map(make_array)
            .map_err(|error| Error::corrupt(format!("column `{}`: {error}", self.column.name)))
    }
}

/// Arrow's offsets are never negative.
fn offset(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

/// `ValueColumn::has_room_for` keeps arenas under 2 GiB.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn compact(slots: &mut [(u32, u32)], arena: &mut Vec<u8>, dead_bytes: &mut usize) {
    let mut packed = Vec::with_capacity(arena.len().saturating_sub(*dead_bytes));
    for (start, length) in slots.iter_mut() {
        let from = *start as usize;
        let value = &arena[from..from + *length as usize];
        *start = narrow(packed.len());
        packed.extend_from_slice(value);
    }
    *arena = packed;
    *dead_bytes = 0;
}

//! Keys as bytes: one canonical encoding for hashing, comparing and sorting.
//!
//! The encoding is part of the format on disk, since the hash of the encoded key decides
//! the key group: it must never change. Column after column:
//!
//! * boolean: one byte, 0 or 1;
//! * integers, dates, timestamps, decimals: big-endian with the sign bit flipped;
//! * text and bytes: the bytes with each 0 written as 0 255, then 0 0.
//!
//! So the order of the bytes is the order of the typed key, and no key is a prefix of
//! another.
#![expect(
    clippy::indexing_slicing,
    reason = "offsets are built here and always ascend up to the length of the bytes"
)]

use crate::write_buffer::and_an_eighth;
use crate::{Column, ColumnType, Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMillisecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Int32Array,
    Int64Array, StringArray, TimestampMillisecondArray, UInt32Array,
};
use hashbrown::HashTable;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Turns key columns into bytes whose order is the order of the typed keys.
#[derive(Debug, Clone)]
pub struct KeyEncoder {
    columns: Arc<[Column]>,
    /// Which of the columns decide the key group.
    grouping: Range<usize>,
}

impl KeyEncoder {
    /// An encoder for keys of these columns, in this order.
    ///
    /// # Errors
    /// `InvalidArgument` without a column, or for one that is nullable or a float.
    pub fn new(columns: &[Column]) -> Result<Self> {
        if columns.is_empty() {
            return Err(Error::invalid("a key needs at least one column"));
        }
        for column in columns {
            if column.nullable || !column.column_type.is_key_type() {
                return Err(Error::invalid(format!(
                    "column `{}` ({}{}) cannot be part of a key: use a type other than float \
                     and declare it without nulls",
                    column.name,
                    column.column_type,
                    if column.nullable { ", nullable" } else { "" },
                )));
            }
        }
        Ok(Self { columns: columns.into(), grouping: 0..columns.len() })
    }

    /// An encoder for row keys: the columns `grouping` are the key of the operator, and they
    /// alone decide the key group.
    pub(crate) fn for_rows(columns: &[Column], grouping: Range<usize>) -> Result<Self> {
        if grouping.is_empty() || grouping.end > columns.len() {
            return Err(Error::invalid("a row key needs at least one column of the key"));
        }
        Ok(Self { grouping, ..Self::new(columns)? })
    }

    /// The key columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Where in an encoded row key the columns lie that decide the key group.
    pub(crate) fn grouping_bytes(&self, key: &[u8]) -> Range<usize> {
        let mut ends = vec![0];
        let mut position = 0;
        for column in self.columns.iter().take(self.grouping.end) {
            position = match column.column_type {
                ColumnType::Boolean => position + 1,
                ColumnType::Utf8 | ColumnType::Binary => end_of_bytes(key, position),
                other => position + other.width_bytes().unwrap_or(0),
            };
            ends.push(position.min(key.len()));
        }
        ends[self.grouping.start]..ends[self.grouping.end]
    }

    /// Encodes the key of each row.
    ///
    /// # Errors
    /// `InvalidArgument` for a null, a wrong type or unequal lengths; names column and row.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<EncodedKeys> {
        let rows = self.check(columns)?;
        let views: Vec<_> = columns.iter().map(KeyView::new).collect();
        let all = self.grouping == (0..columns.len());
        if let Some(widths) = self.widths().filter(|_| all) {
            return encode_fixed(&views, &widths, rows);
        }
        self.encode_rows(&views, rows)
    }

    /// Encodes keys row by row, as those of any width need it.
    fn encode_rows(&self, views: &[KeyView<'_>], rows: usize) -> Result<EncodedKeys> {
        let all = self.grouping == (0..views.len());
        let mut keys = EncodedKeys::with_capacity(rows, rows * 16);
        for row in 0..rows {
            let start = keys.bytes.len();
            let (mut from, mut to) = (start, start);
            for (at, view) in views.iter().enumerate() {
                if at == self.grouping.start {
                    from = keys.bytes.len();
                }
                view.write(row, &mut keys.bytes);
                if at + 1 == self.grouping.end {
                    to = keys.bytes.len();
                }
            }
            let whole = xxh3_64(&keys.bytes[start..]);
            let hash = if all { whole } else { row_hash(xxh3_64(&keys.bytes[from..to]), whole) };
            keys.finish_key(hash)?;
        }
        Ok(keys)
    }

    /// The typed columns of encoded keys.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are no key of these columns.
    pub(crate) fn decode(&self, keys: &EncodedKeys) -> Result<Vec<ArrayRef>> {
        let mut positions: Vec<usize> =
            keys.offsets[..keys.len()].iter().map(|&offset| offset as usize).collect();
        self.columns
            .iter()
            .map(|column| decode_column(column, &keys.bytes, &mut positions))
            .collect()
    }

    /// One key from texts, one for each column, as a person types it.
    ///
    /// # Errors
    /// `InvalidArgument` when the number of texts is wrong or one cannot be parsed.
    pub(crate) fn parse(&self, texts: &[&str]) -> Result<KeyBatch> {
        if texts.len() != self.columns.len() {
            let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
            return Err(Error::invalid(format!(
                "the key has {} columns ({}), {} given",
                names.len(),
                names.join(", "),
                texts.len()
            )));
        }
        let columns = self.columns.iter().zip(texts).map(|(column, text)| {
            let array: ArrayRef = Arc::new(StringArray::from(vec![*text]));
            let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
            arrow_cast::cast_with_options(&array, &column.column_type.to_arrow(), &options).map_err(
                |_| {
                    Error::invalid(format!(
                        "`{text}` is no {} (key column `{}`)",
                        column.column_type, column.name
                    ))
                },
            )
        });
        KeyBatch::new(self, columns.collect::<Result<_>>()?)
    }

    /// The bytes of each column in a key; `None`: not every key has the same.
    fn widths(&self) -> Option<Vec<usize>> {
        let width = |column: &Column| match column.column_type {
            ColumnType::Boolean => Some(1),
            other => other.width_bytes(),
        };
        self.columns.iter().map(width).collect()
    }

    fn check(&self, columns: &[ArrayRef]) -> Result<usize> {
        if columns.len() != self.columns.len() {
            return Err(Error::invalid(format!(
                "the key has {} columns, {} given",
                self.columns.len(),
                columns.len()
            )));
        }
        let rows = columns.first().map_or(0, Array::len);
        for (column, array) in self.columns.iter().zip(columns) {
            if array.data_type() != &column.column_type.to_arrow() {
                return Err(Error::invalid(format!(
                    "key column `{}` is {}, got {}",
                    column.name,
                    column.column_type,
                    array.data_type()
                )));
            }
            if array.len() != rows {
                return Err(Error::invalid(format!(
                    "key column `{}` has {} rows, the first one {rows}",
                    column.name,
                    array.len()
                )));
            }
            crate::value_column::check_precision(column, array)?;
            if array.null_count() > 0 {
                let row = (0..rows).find(|&row| array.is_null(row)).unwrap_or(0);
                return Err(Error::invalid(format!(
                    "key column `{}` has no value in row {row}; keys cannot be null",
                    column.name
                )));
            }
        }
        Ok(rows)
    }
}

/// Encodes keys of columns with these widths, column by column: the same bytes as row by row.
fn encode_fixed(views: &[KeyView<'_>], widths: &[usize], rows: usize) -> Result<EncodedKeys> {
    let width = widths.iter().sum();
    let bytes = rows.checked_mul(width).filter(|bytes| *bytes <= u32::MAX as usize);
    let mut bytes = vec![0; bytes.ok_or_else(too_many_keys)?];
    let mut at = 0;
    for (view, column_width) in views.iter().zip(widths) {
        view.write_all(&mut bytes, at, width);
        at += column_width;
    }
    let hashes = match width {
        8 => hash_each::<8>(&bytes),
        16 => hash_each::<16>(&bytes),
        _ => bytes.chunks_exact(width).map(xxh3_64).collect(),
    };
    Ok(EncodedKeys { bytes, offsets: offsets(rows, width), hashes })
}

/// The hash of each key of so many bytes. A length that the compiler knows saves half of the time.
fn hash_each<const WIDTH: usize>(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<WIDTH>().0.iter().map(|key| xxh3_64(key)).collect()
}

/// Where so many keys of a width begin and end, which are no more bytes than fit.
fn offsets(keys: usize, width: usize) -> Vec<u32> {
    (0..=keys).map(|key| u32::try_from(key * width).unwrap_or(u32::MAX)).collect()
}

fn too_many_keys() -> Error {
    Error::invalid("the keys of one batch take more than 4 GiB; use smaller batches")
}

/// The first eight bytes of a key, as a number of the same order: comparing numbers is cheaper
/// than comparing slices, and most keys differ early.
pub(crate) fn beginning(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        // No key is the beginning of another, so what is filled up changes no order.
        None => {
            key.iter().fold(0, |number, &byte| (number << 8) | u64::from(byte))
                << (8 * (8 - key.len().max(1)))
        }
    }
}

/// The hash of a row key: its upper half, which decides the key group, is that of the key
/// which the row belongs to.
pub(crate) fn row_hash(key: u64, row: u64) -> u64 {
    (key & (u64::MAX << 32)) | (row & u64::from(u32::MAX))
}

/// A typed key column, resolved once for a batch.
enum KeyView<'a> {
    Boolean(&'a BooleanArray),
    Four(&'a [i32]),
    Eight(&'a [i64]),
    Sixteen(&'a [i128]),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    /// `KeyEncoder::check` refuses every other type before.
    Nothing,
}

impl<'a> KeyView<'a> {
    fn new(array: &'a ArrayRef) -> Self {
        match ColumnType::from_arrow(array.data_type()) {
            Some(ColumnType::Boolean) => Self::Boolean(array.as_boolean()),
            Some(ColumnType::Int32) => Self::Four(array.as_primitive::<Int32Type>().values()),
            Some(ColumnType::Date) => Self::Four(array.as_primitive::<Date32Type>().values()),
            Some(ColumnType::Int64) => Self::Eight(array.as_primitive::<Int64Type>().values()),
            Some(ColumnType::TimestampMillis) => {
                Self::Eight(array.as_primitive::<TimestampMillisecondType>().values())
            }
            Some(ColumnType::Decimal128 { .. }) => {
                Self::Sixteen(array.as_primitive::<Decimal128Type>().values())
            }
            Some(ColumnType::Utf8) => Self::Text(array.as_string()),
            Some(ColumnType::Binary) => Self::Bytes(array.as_binary()),
            Some(ColumnType::Float32 | ColumnType::Float64) | None => Self::Nothing,
        }
    }

    /// Writes the values of a column of a fixed width into keys of `width` bytes, from byte `at` of each
    /// on.
    fn write_all(&self, keys: &mut [u8], at: usize, width: usize) {
        match self {
            Self::Boolean(array) => {
                let values = array.values().iter().map(|value| [u8::from(value)]);
                write_strided(keys, at, width, values);
            }
            Self::Four(values) => {
                let values = values.iter().map(|value| (value ^ i32::MIN).to_be_bytes());
                write_strided(keys, at, width, values);
            }
            Self::Eight(values) => {
                let values = values.iter().map(|value| (value ^ i64::MIN).to_be_bytes());
                write_strided(keys, at, width, values);
            }
            Self::Sixteen(values) => {
                let values = values.iter().map(|value| (value ^ i128::MIN).to_be_bytes());
                write_strided(keys, at, width, values);
            }
            // They have no width.
            Self::Text(_) | Self::Bytes(_) | Self::Nothing => {}
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Boolean(array) => out.push(u8::from(array.value(row))),
            Self::Four(values) => write_four(values[row], out),
            Self::Eight(values) => write_eight(values[row], out),
            Self::Sixteen(values) => write_sixteen(values[row], out),
            Self::Text(array) => write_bytes(array.value(row).as_bytes(), out),
            Self::Bytes(array) => write_bytes(array.value(row), out),
            Self::Nothing => {}
        }
    }
}

/// Writes a value into each key of `width` bytes, from byte `at` of it on.
fn write_strided<const N: usize>(
    keys: &mut [u8],
    at: usize,
    width: usize,
    values: impl Iterator<Item = [u8; N]>,
) {
    for (key, value) in keys.chunks_exact_mut(width).zip(values) {
        key[at..at + N].copy_from_slice(&value);
    }
}

pub(crate) fn write_four(value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
}

pub(crate) fn write_eight(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
}

pub(crate) fn write_sixteen(value: i128, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value ^ i128::MIN).to_be_bytes());
}

pub(crate) fn write_bytes(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(zero) = rest.iter().position(|&byte| byte == 0) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[0, 255]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
}

/// The end of text or bytes that begin at `position`.
fn end_of_bytes(key: &[u8], mut position: usize) -> usize {
    while position + 1 < key.len() {
        match (key[position], key[position + 1]) {
            (0, 0) => return position + 2,
            (0, _) => position += 2,
            _ => position += 1,
        }
    }
    key.len()
}

fn decode_column(column: &Column, bytes: &[u8], positions: &mut [usize]) -> Result<ArrayRef> {
    let broken = || {
        Error::corrupt(format!(
            "an encoded key is damaged in column `{}`; restore from an earlier checkpoint",
            column.name
        ))
    };
    let reader = |width: usize, position: &mut usize| -> Result<usize> {
        let start = *position;
        *position = start + width;
        if *position > bytes.len() { Err(broken()) } else { Ok(start) }
    };
    macro_rules! fixed {
        ($array:ty, $native:ty, $width:literal) => {{
            let mut values: Vec<$native> = Vec::with_capacity(positions.len());
            for position in positions.iter_mut() {
                let start = reader($width, position)?;
                let mut value = [0u8; $width];
                value.copy_from_slice(&bytes[start..start + $width]);
                values.push(<$native>::from_be_bytes(value) ^ <$native>::MIN);
            }
            <$array>::from(values)
        }};
    }
    Ok(match column.column_type {
        ColumnType::Boolean => {
            let mut values = Vec::with_capacity(positions.len());
            for position in positions.iter_mut() {
                values.push(bytes[reader(1, position)?] != 0);
            }
            Arc::new(BooleanArray::from(values))
        }
        ColumnType::Int32 => Arc::new(fixed!(Int32Array, i32, 4)),
        ColumnType::Date => Arc::new(fixed!(Date32Array, i32, 4)),
        ColumnType::Int64 => Arc::new(fixed!(Int64Array, i64, 8)),
        ColumnType::TimestampMillis => Arc::new(fixed!(TimestampMillisecondArray, i64, 8)),
        ColumnType::Decimal128 { .. } => Arc::new(
            fixed!(Decimal128Array, i128, 16).with_data_type(column.column_type.to_arrow()),
        ),
        ColumnType::Utf8 | ColumnType::Binary => {
            let mut values: Vec<Vec<u8>> = Vec::with_capacity(positions.len());
            for position in positions.iter_mut() {
                values.push(read_bytes(bytes, position).ok_or_else(broken)?);
            }
            if column.column_type == ColumnType::Binary {
                return Ok(Arc::new(BinaryArray::from_iter_values(values)));
            }
            let texts: Option<Vec<String>> =
                values.into_iter().map(|value| String::from_utf8(value).ok()).collect();
            Arc::new(StringArray::from_iter_values(texts.ok_or_else(broken)?))
        }
        ColumnType::Float32 | ColumnType::Float64 => return Err(broken()),
    })
}

fn read_bytes(bytes: &[u8], position: &mut usize) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    loop {
        let byte = *bytes.get(*position)?;
        *position += 1;
        if byte != 0 {
            value.push(byte);
            continue;
        }
        let next = *bytes.get(*position)?;
        *position += 1;
        match next {
            255 => value.push(0),
            0 => return Some(value),
            _ => return None,
        }
    }
}

/// Encoded keys with their hashes: one for each row.
#[derive(Debug, Clone)]
pub struct EncodedKeys {
    bytes: Vec<u8>,
    /// One more than there are keys; the first is 0.
    offsets: Vec<u32>,
    hashes: Vec<u64>,
}

impl Default for EncodedKeys {
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl EncodedKeys {
    pub(crate) fn with_capacity(keys: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(keys + 1);
        offsets.push(0);
        Self { bytes: Vec::with_capacity(bytes), offsets, hashes: Vec::with_capacity(keys) }
    }

    /// None yet, with room for as many as `before` has.
    pub(crate) fn with_room_of(before: &Self) -> Self {
        Self::with_capacity(and_an_eighth(before.len()), and_an_eighth(before.bytes.len()))
    }

    /// Removes all keys; the memory that they took stays, for the next ones.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.offsets.truncate(1);
        self.hashes.clear();
    }

    /// Ends the key whose bytes were appended since the last one.
    fn finish_key(&mut self, hash: u64) -> Result<()> {
        let end = u32::try_from(self.bytes.len()).map_err(|_| too_many_keys())?;
        self.offsets.push(end);
        self.hashes.push(hash);
        Ok(())
    }

    /// Appends one key whose hash is known.
    pub(crate) fn push(&mut self, key: &[u8], hash: u64) -> Result<()> {
        self.bytes.extend_from_slice(key);
        self.finish_key(hash)
    }

    /// Removes the keys from this one on.
    pub(crate) fn truncate(&mut self, keys: usize) {
        self.hashes.truncate(keys);
        self.offsets.truncate(keys + 1);
        self.bytes.truncate(self.offsets.last().map_or(0, |end| *end as usize));
    }

    /// Row keys of several parts: for each row, the bytes of key `keys.1[row]` and row `row` of
    /// `rest`, which goes first with `rest_first`.
    pub(crate) fn join(
        (keys, key_of): (&Self, &[u32]),
        rest: &Self,
        rest_first: bool,
    ) -> Result<Self> {
        if key_of.len() != rest.len() {
            return Err(Error::invalid(format!(
                "the keys of {} rows are named, but there are {} map keys, positions or times; give \
                 one for each",
                key_of.len(),
                rest.len()
            )));
        }
        let mut joined = Self::with_capacity(rest.len(), rest.bytes.len() * 2);
        for (row, &key) in key_of.iter().enumerate() {
            let key = key as usize;
            if key >= keys.len() {
                return Err(Error::invalid(format!(
                    "key index {key} is past the last of {} keys",
                    keys.len()
                )));
            }
            let start = joined.bytes.len();
            let (first, second) = match rest_first {
                true => (rest.key(row), keys.key(key)),
                false => (keys.key(key), rest.key(row)),
            };
            joined.bytes.extend_from_slice(first);
            joined.bytes.extend_from_slice(second);
            let hash = row_hash(keys.hashes[key], xxh3_64(&joined.bytes[start..]));
            joined.finish_key(hash)?;
        }
        Ok(joined)
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The bytes of key `row`.
    ///
    /// # Panics
    /// When `row` is not less than [`EncodedKeys::len`].
    pub fn key(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The stable 64-bit hashes (XXH3 of the encoded key), one for each row.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The keys of these rows, in this order.
    ///
    /// # Panics
    /// When a row is not less than [`EncodedKeys::len`].
    #[must_use]
    pub fn take(&self, rows: &[u32]) -> Self {
        let hashes = rows.iter().map(|row| self.hashes[*row as usize]).collect();
        // A copy of a length that the compiler knows is no call.
        let (bytes, offsets) = match self.width() {
            Some(width @ 8) => (take_each::<8>(&self.bytes, rows), offsets(rows.len(), width)),
            Some(width @ 16) => (take_each::<16>(&self.bytes, rows), offsets(rows.len(), width)),
            _ => self.take_bytes(rows),
        };
        // What is taken of a list is no longer than the list, unless rows repeat.
        assert!(bytes.len() <= u32::MAX as usize, "keys taken exceed 4 GiB");
        Self { bytes, offsets, hashes }
    }

    fn take_bytes(&self, rows: &[u32]) -> (Vec<u8>, Vec<u32>) {
        let mut bytes = Vec::with_capacity(rows.len() * 16);
        let mut offsets = Vec::with_capacity(rows.len() + 1);
        offsets.push(0);
        for row in rows {
            bytes.extend_from_slice(self.key(*row as usize));
            offsets.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        (bytes, offsets)
    }

    /// The bytes of each key, if all have as many.
    fn width(&self) -> Option<usize> {
        let width = *self.offsets.get(1)?;
        let differs = self
            .offsets
            .windows(2)
            .fold(false, |differs, offsets| differs | (offsets[1] - offsets[0] != width));
        (!differs).then_some(width as usize)
    }

    /// Appends the keys of another list.
    ///
    /// # Errors
    /// `InvalidArgument` past 4 GiB of keys.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        let base = u32::try_from(self.bytes.len())
            .ok()
            .filter(|base| base.checked_add(other.offsets[other.len()]).is_some())
            .ok_or_else(too_many_keys)?;
        self.bytes.extend_from_slice(&other.bytes);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| base + offset));
        self.hashes.extend_from_slice(&other.hashes);
        Ok(())
    }

    /// Bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.offsets.len() * 4 + self.hashes.len() * 8
    }
}

fn take_each<const WIDTH: usize>(bytes: &[u8], rows: &[u32]) -> Vec<u8> {
    let (keys, _) = bytes.as_chunks::<WIDTH>();
    rows.iter().map(|row| keys[*row as usize]).collect::<Vec<_>>().into_flattened()
}

/// Keys of one call: typed columns and encoded bytes side by side.
#[derive(Debug, Clone)]
pub struct KeyBatch {
    columns: Vec<ArrayRef>,
    encoded: EncodedKeys,
}

impl KeyBatch {
    /// Encodes these columns; keys may repeat.
    ///
    /// # Errors
    /// As [`KeyEncoder::encode`].
    pub fn new(encoder: &KeyEncoder, columns: Vec<ArrayRef>) -> Result<Self> {
        let encoded = encoder.encode(&columns)?;
        Ok(Self { columns, encoded })
    }

    /// The distinct keys among rows, in order of first appearance, and for each row the
    /// index of its key. `columns` and `encoded` have one entry for each row.
    ///
    /// # Errors
    /// `InvalidArgument` when columns and encoded keys differ in length.
    pub fn distinct(columns: &[ArrayRef], encoded: &EncodedKeys) -> Result<(Self, Vec<u32>)> {
        if columns.iter().any(|column| column.len() != encoded.len()) {
            return Err(Error::invalid("key columns and encoded keys differ in length"));
        }
        let mut seen: HashTable<u32> = HashTable::with_capacity(encoded.len());
        let mut first_rows: Vec<u32> = Vec::new();
        let mut row_keys = Vec::with_capacity(encoded.len());
        for row in 0..encoded.len() {
            let (key, hash) = (encoded.key(row), encoded.hashes[row]);
            let entry = seen.entry(
                hash,
                |&index| encoded.key(first_rows[index as usize] as usize) == key,
                |&index| encoded.hashes[first_rows[index as usize] as usize],
            );
            match entry {
                hashbrown::hash_table::Entry::Occupied(entry) => row_keys.push(*entry.get()),
                hashbrown::hash_table::Entry::Vacant(entry) => {
                    // `encoded` holds less than 4 GiB, so rows and keys fit 32 bits.
                    let index = u32::try_from(first_rows.len()).unwrap_or(u32::MAX);
                    entry.insert(index);
                    row_keys.push(index);
                    first_rows.push(u32::try_from(row).unwrap_or(u32::MAX));
                }
            }
        }
        if first_rows.len() == encoded.len() {
            return Ok((Self { columns: columns.to_vec(), encoded: encoded.clone() }, row_keys));
        }
        Ok((Self::take(columns, encoded, &first_rows)?, row_keys))
    }

    /// Some of the keys, by index.
    ///
    /// # Errors
    /// `InvalidArgument` for an index past the end.
    pub fn select(&self, indices: &[u32]) -> Result<Self> {
        if let Some(&bad) = indices.iter().find(|&&index| index as usize >= self.len()) {
            return Err(Error::invalid(format!(
                "key index {bad} is past the last of {} keys",
                self.len()
            )));
        }
        Self::take(&self.columns, &self.encoded, indices)
    }

    fn take(columns: &[ArrayRef], encoded: &EncodedKeys, rows: &[u32]) -> Result<Self> {
        let indices = UInt32Array::from(rows.to_vec());
        let columns = columns
            .iter()
            .map(|column| {
                arrow_select::take::take(column, &indices, None)
                    .map_err(|error| Error::invalid(format!("cannot take keys: {error}")))
            })
            .collect::<Result<_>>()?;
        Ok(Self { columns, encoded: encoded.take(rows) })
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.encoded.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// The typed key columns.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// The encoded keys.
    pub fn encoded(&self) -> &EncodedKeys {
        &self.encoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::RecordBatch;
    use proptest::prelude::*;

    /// Columns of all fixed widths, as many of them as there are bits in `chosen`.
    fn columns(chosen: u32, values: &[i64]) -> (Vec<Column>, Vec<ArrayRef>) {
        let decimals = values.iter().map(|value| i128::from(*value) * 1_000);
        let small = || values.iter().map(|value| (value % 1_000_000) as i32);
        let decimal = ColumnType::Decimal128 { precision: 38, scale: 3 };
        let all: [(ColumnType, ArrayRef); 6] = [
            (ColumnType::Int64, Arc::new(Int64Array::from(values.to_vec()))),
            (ColumnType::Int32, Arc::new(Int32Array::from_iter_values(small()))),
            (
                ColumnType::TimestampMillis,
                Arc::new(TimestampMillisecondArray::from(values.to_vec())),
            ),
            (
                ColumnType::Boolean,
                Arc::new(BooleanArray::from_iter(values.iter().map(|it| Some(it % 2 == 0)))),
            ),
            (ColumnType::Date, Arc::new(Date32Array::from_iter_values(small()))),
            (
                decimal,
                Arc::new(
                    Decimal128Array::from_iter_values(decimals).with_data_type(decimal.to_arrow()),
                ),
            ),
        ];
        let chosen = (0..).zip(all).filter(|(at, _)| chosen & (1 << at) != 0);
        chosen
            .map(|(at, (column_type, array))| {
                (Column::required(format!("c{at}"), column_type), array)
            })
            .unzip()
    }

    fn same(one: &EncodedKeys, other: &EncodedKeys) -> bool {
        (&one.bytes, &one.offsets, &one.hashes) == (&other.bytes, &other.offsets, &other.hashes)
    }

    proptest! {
        #[test]
        fn keys_of_a_fixed_width_are_encoded_as_row_by_row(
            chosen in 1_u32..64,
            values in proptest::collection::vec(any::<i64>(), 0..20),
        ) {
            let (columns, arrays) = columns(chosen, &values);
            let encoder = KeyEncoder::new(&columns).unwrap();
            let views: Vec<_> = arrays.iter().map(KeyView::new).collect();
            let encoded = encoder.encode(&arrays).unwrap();
            prop_assert!(same(&encoded, &encoder.encode_rows(&views, values.len()).unwrap()));
            prop_assert_eq!(encoder.decode(&encoded).unwrap(), arrays);
        }

        #[test]
        fn keys_that_are_taken_are_those_of_the_rows(
            chosen in 1_u32..64,
            values in proptest::collection::vec(any::<i64>(), 1..20),
            rows in proptest::collection::vec(0_u32..20, 0..30),
        ) {
            let (columns, arrays) = columns(chosen, &values);
            let count = u32::try_from(values.len()).unwrap();
            let rows: Vec<u32> = rows.iter().map(|row| row % count).collect();
            let encoder = KeyEncoder::new(&columns).unwrap();
            let taken = encoder.encode(&arrays).unwrap().take(&rows);
            let names = columns.iter().map(|column| column.name.as_str());
            let batch = RecordBatch::try_from_iter(names.zip(arrays)).unwrap();
            let batch = arrow_select::take::take_record_batch(&batch, &UInt32Array::from(rows));
            prop_assert!(same(&taken, &encoder.encode(batch.unwrap().columns()).unwrap()));
        }
    }

    #[test]
    fn keys_of_several_lengths_are_taken() {
        let encoder = KeyEncoder::new(&[Column::required("name", ColumnType::Utf8)]).unwrap();
        let encode = |names: &[&str]| {
            let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
            encoder.encode(&[names]).unwrap()
        };
        // The first two are as long as each other.
        let taken = encode(&["anna", "bert", "carola"]).take(&[2, 0, 2]);
        assert!(same(&taken, &encode(&["carola", "anna", "carola"])));
    }
}

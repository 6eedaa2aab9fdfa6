use std::marker::PhantomData;

use crate::columns::{Column, Values, chunk};
use crate::record::Call;
use crate::{
    CurrentKey, Error, Field, Inputs, Key, Keys, Record, Result, RowKind, Timestamp, Value,
    columns, wit,
};

/// The rows of a call, as columns: what [`process_batch`](crate::Operator::process_batch) gets.
#[derive(Debug)]
pub struct Batch<'a, I, K> {
    pub(crate) input: &'a wit::Input,
    pub(crate) call: &'a Call<'a>,
    pub(crate) types: PhantomData<fn() -> (I, K)>,
}

impl<'a, I: Inputs, K: Key> Batch<'a, I, K> {
    /// How many rows there are; at least one.
    pub fn rows(&self) -> usize {
        self.input.batch.rows as usize
    }

    /// Which input the rows came from, by its index.
    pub fn port(&self) -> usize {
        self.input.port as usize
    }

    /// A column of the rows. Fails if there is no such column, or if it is of another type.
    pub fn column<T: Value>(&self, name: &str) -> Result<Values<'a, T>> {
        let fields = I::PORTS.get(self.port()).map_or(&[][..], |port| port.fields);
        columns::named(fields, &self.input.batch.columns, name)
    }

    /// All columns of the rows, in the order of the fields of the input.
    pub fn columns(&self) -> &'a [Column] {
        &self.input.batch.columns
    }

    /// Copies of the columns with these names, in their order. Fails if there is no such column.
    pub fn copy(&self, names: &[&str]) -> Result<Vec<Column>> {
        let all = |name| Ok(self.find(name)?.1.clone());
        names.iter().map(|name| all(*name)).collect()
    }

    /// The same with these rows alone. Fails past the last row, too.
    pub fn copy_rows(&self, names: &[&str], rows: &[u32]) -> Result<Vec<Column>> {
        let selected = |name| {
            let (field, column) = self.find(name)?;
            column.select(field.value_type, rows)
        };
        names.iter().map(|name| selected(*name)).collect()
    }

    /// The event time of each row.
    pub fn timestamps(&self) -> impl ExactSizeIterator<Item = Timestamp> + Clone + 'a {
        <Timestamp as columns::FixedWidth>::all(&self.input.timestamps)
    }

    /// What the row means if the input is a changelog. Fails for a byte that is no kind.
    #[inline]
    pub fn kind(&self, row: usize) -> Result<RowKind> {
        match &self.input.batch.row_kinds {
            None => Ok(RowKind::Insert),
            Some(kinds) => RowKind::from_byte(kinds.get(row).copied().unwrap_or_default()),
        }
    }

    /// No row with an event time at or before it is expected any more, of any input.
    pub fn watermark(&self) -> Timestamp {
        self.call.watermark
    }

    /// How many distinct keys the rows have.
    pub fn keys(&self) -> usize {
        self.call.key_count as usize
    }

    /// The distinct keys themselves, as the calls of a state want them.
    pub fn each_key(&self) -> Keys<'a, K> {
        Keys { call: self.call, key: PhantomData }
    }

    /// For each row, the index of its key.
    pub fn row_keys(&self) -> impl ExactSizeIterator<Item = u32> + Clone + 'a {
        columns::u32s(&self.input.row_keys)
    }

    /// Whether each row has a key of its own, and they come in the order of the keys: row `i` has
    /// key `i`. What belongs to the keys belongs to the rows then.
    pub fn has_one_row_a_key(&self) -> bool {
        let in_order = (0..).zip(self.row_keys()).fold(true, |all, (row, key)| all & (row == key));
        self.rows() == self.keys() && in_order
    }

    /// A column of the distinct keys. Fails if there is no such column, or if it is of another
    /// type.
    pub fn key_column<T: Value>(&self, name: &str) -> Result<Values<'a, T>> {
        columns::named(K::FIELDS, self.call.keys, name)
    }

    /// A row by itself: its fields, and what else is known about it. Fails past the last row.
    #[inline]
    pub fn read(&self, row: usize) -> Result<(I, Record<'a, K>)> {
        Ok((I::read(self.port(), &self.input.batch.columns, row)?, self.record(row)?))
    }

    /// Hands over one row after the other, in registers if `each` is inlined: no `Result` of a whole
    /// row or record is put together in memory.
    #[inline]
    pub(crate) fn for_each(
        &self,
        mut each: impl FnMut(I, &Record<'a, K>) -> Result<()>,
    ) -> Result<()> {
        for (row, (index, timestamp)) in self.row_keys().zip(self.timestamps()).enumerate() {
            if index >= self.call.key_count {
                return Err(no_key(row));
            }
            let current = CurrentKey { call: self.call, index, key: PhantomData };
            let record = Record { current, kind: self.kind(row)?, timestamp };
            each(I::read(self.port(), &self.input.batch.columns, row)?, &record)?;
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<(&'static Field, &'a Column)> {
        let fields = I::PORTS.get(self.port()).map_or(&[][..], |port| port.fields);
        columns::find(fields, self.columns(), name)
    }

    /// What is known about a row beside its fields. Fails past the last row.
    #[inline]
    pub fn record(&self, row: usize) -> Result<Record<'a, K>> {
        let key = chunk(&self.input.row_keys, row).map(u32::from_le_bytes);
        let timestamp = chunk(&self.input.timestamps, row).map(i64::from_le_bytes);
        match (key, timestamp) {
            (Some(key), Some(timestamp)) if key < self.call.key_count => Ok(Record {
                current: CurrentKey { call: self.call, index: key, key: PhantomData },
                kind: self.kind(row)?,
                timestamp: Timestamp::from_millis(timestamp),
            }),
            _ => Err(no_key(row)),
        }
    }
}

#[cold]
fn no_key(row: usize) -> Error {
    Error::invalid_argument(format!("row {row} of the input has no key"))
}

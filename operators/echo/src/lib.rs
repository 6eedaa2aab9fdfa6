//! Counts in the value of each key: what `cargo xtask bench boundary` measures.
//!
//! The first eight bytes of a value are a counter. A key without a value gets that of its row;
//! otherwise each row adds one to the counter. Emits each row with its key's value after it.
//! Works on columns, as hot operators do.

use howdah_sdk::TakenRows;
use howdah_sdk::columns::{Column, column};
use howdah_sdk::prelude::*;

/// What comes in and goes out.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Entry {
    key: i64,
    value: Vec<u8>,
}

/// Whose value.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct EntryKey {
    key: i64,
}

/// The value of a key.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Stored {
    value: Vec<u8>,
}

/// The operator.
#[derive(States)]
pub struct Echo {
    values: ValueState<EntryKey, Stored>,
}

#[operator]
impl Echo {
    fn process_batch(
        &mut self,
        batch: &Batch<Entry, EntryKey>,
        out: &mut Emitter<Entry>,
    ) -> Result<()> {
        let stored = self.values.take()?;
        let (kept, emitted) = if batch.has_one_row_a_key() && stored.has_all() {
            let mut columns = stored.into_columns();
            columns.iter_mut().for_each(count_all);
            (columns, None)
        } else {
            let (kept, emitted) = one_by_one(batch, &stored)?;
            (vec![kept], Some(vec![emitted]))
        };
        self.values.store_all(&kept)?;
        let mut columns = vec![batch.column::<i64>("key")?.column().clone()];
        columns.extend(emitted.unwrap_or(kept));
        out.emit_columns_of(batch, columns)
    }
}

/// Each counter one higher, where the values lie.
fn count_all(values: &mut Column) {
    let starts = values.offsets.as_deref().unwrap_or_default().as_chunks().0;
    for start in starts {
        // The last offset is where the values end.
        if let Some(value) = values.data.get_mut(u32::from_le_bytes(*start) as usize..) {
            count(value);
        }
    }
}

/// For batches with new keys, or several rows of a key: what to keep for each key, and what to
/// emit for each row.
fn one_by_one(
    batch: &Batch<Entry, EntryKey>,
    stored: &TakenRows<Stored>,
) -> Result<(Column, Column)> {
    let given = batch.column::<Vec<u8>>("value")?;
    let before = stored.column::<Vec<u8>>("value")?;
    let mut values = (0..batch.keys())
        .map(|key| stored.has(key).then(|| before.bytes(key).map(<[u8]>::to_vec)))
        .map(Option::transpose)
        .collect::<Result<Vec<_>>>()?;
    let mut emitted = Vec::with_capacity(batch.rows());
    for (row, key) in batch.row_keys().enumerate() {
        let Some(value) = values.get_mut(key as usize) else { continue };
        match value {
            Some(value) => count(value),
            None => *value = Some(given.bytes(row)?.to_vec()),
        }
        emitted.push(value.clone().unwrap_or_default());
    }
    Ok((column(values.into_iter().map(Option::unwrap_or_default)), column(emitted)))
}

/// One more in the counter, if the value is long enough for one.
fn count(value: &mut [u8]) {
    if let Some(counter) = value.first_chunk_mut::<8>() {
        *counter = u64::from_le_bytes(*counter).wrapping_add(1).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::TestHost;

    fn entry(key: i64, counter: u64) -> Entry {
        let mut value = counter.to_le_bytes().to_vec();
        value.extend([7; 4]);
        Entry { key, value }
    }

    fn process(host: &mut TestHost<Echo>, entries: &[Entry]) -> Result<Vec<Entry>> {
        let events = host.process(entries.iter().cloned())?;
        Ok(events.into_iter().map(|event| event.row).collect())
    }

    #[test]
    fn the_first_value_of_a_key_is_kept_and_counted_up() -> Result<()> {
        let mut host = TestHost::new()?;
        assert_eq!(process(&mut host, &[entry(1, 5), entry(2, 0)])?, [entry(1, 5), entry(2, 0)]);
        assert_eq!(process(&mut host, &[entry(2, 9), entry(1, 9)])?, [entry(2, 1), entry(1, 6)]);
        Ok(())
    }

    #[test]
    fn several_rows_of_a_key_count_one_after_the_other() -> Result<()> {
        let mut host = TestHost::new()?;
        let rows = [entry(1, 5), entry(1, 0), entry(2, 3), entry(1, 0)];
        assert_eq!(
            process(&mut host, &rows)?,
            [entry(1, 5), entry(1, 6), entry(2, 3), entry(1, 7)]
        );
        Ok(())
    }
}

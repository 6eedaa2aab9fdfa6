//! A hash map in memory that is written out whole, as an uncompressed Parquet file, at every
//! checkpoint.

use crate::workload::{Batch, Counted, VALUE_BYTES, mix};
use anyhow::Result;
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The hash map of Rust's standard library, which is hashbrown's, with a quick hash.
#[derive(Default)]
pub(crate) struct HashMapStore {
    rows: HashMap<u64, [u8; VALUE_BYTES], BuildHasherDefault<Mixer>>,
    path: PathBuf,
    sync: bool,
}

/// Rows written at a time.
const BATCH_ROWS: usize = 65_536;

impl HashMapStore {
    pub(crate) fn new(directory: &Path, sync: bool) -> Self {
        Self { path: directory.join("snapshot.parquet"), sync, ..Self::default() }
    }

    pub(crate) fn put(&mut self, number: u64, value: [u8; VALUE_BYTES]) {
        self.rows.insert(number, value);
    }

    /// Counts up each of the keys.
    pub(crate) fn count_up(&mut self, batch: &Batch) -> Counted {
        let mut counted = Counted::default();
        let mut new = [0; VALUE_BYTES];
        for &number in &batch.numbers {
            match self.rows.entry(number) {
                std::collections::hash_map::Entry::Occupied(mut entry) => {
                    counted.count_up(number, Some(entry.get()), &mut new);
                    entry.insert(new);
                }
                std::collections::hash_map::Entry::Vacant(entry) => {
                    counted.count_up(number, None, &mut new);
                    entry.insert(new);
                }
            }
        }
        counted
    }

    /// Writes everything.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        let file = File::create(&self.path)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::UNCOMPRESSED)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .build();
        let mut rows = self.rows.iter().peekable();
        let mut writer: Option<ArrowWriter<File>> = None;
        while rows.peek().is_some() {
            let (numbers, values): (Vec<i64>, Vec<&[u8]>) = rows
                .by_ref()
                .take(BATCH_ROWS)
                .map(|(&number, value)| (number as i64, value.as_slice()))
                .unzip();
            let columns: [(&str, ArrayRef); 2] = [
                ("id", Arc::new(Int64Array::from(numbers))),
                ("count", Arc::new(BinaryArray::from_iter_values(values))),
            ];
            let batch = RecordBatch::try_from_iter(columns)?;
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(ArrowWriter::try_new(
                    file.try_clone()?,
                    batch.schema(),
                    Some(properties.clone()),
                )?),
            };
            writer.write(&batch)?;
        }
        if let Some(writer) = writer {
            writer.close()?;
        }
        if self.sync {
            file.sync_all()?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}

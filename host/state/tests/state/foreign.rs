//! Tables of which another engine has rewritten files: compressed, with dictionaries, nullable.

use crate::effort::scratch;
use crate::fixture::{Fixture, Model, eager, files_in, rows, scan};
use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use howdah_state::*;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Puts the same rows in a data file, as another engine would write them, without a filter.
fn rewrite(path: &Path) {
    let source = File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(source).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(std::result::Result::unwrap).collect();
    let fields: Vec<Field> = batches[0]
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    std::fs::remove_file(path).unwrap();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(zstd).build();
    let target = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(target, schema.clone(), Some(properties)).unwrap();
    for batch in batches {
        let batch = RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap();
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    std::fs::remove_file(path.with_file_name(format!("{name}.filter"))).unwrap();
}

#[test]
fn table_that_another_engine_rewrote_is_read_written_and_merged_on() {
    for read_mode in [ReadMode::Mmap, ReadMode::Pread] {
        let directory = scratch();
        let options = StoreOptions { read_cache_limit_bytes: 0, read_mode, ..eager() };
        let mut fixture =
            Fixture::open(directory.path(), 1, options.clone(), Restore::Fresh).unwrap();
        let mut model: Model = (0..500).map(|id| (id, (id * 3, None))).collect();
        model.extend(rows(&[(7, 1, "a"), (8, 2, "b")]));
        fixture.put(&model).unwrap();
        fixture.checkpoint(1);
        fixture.delete(&[9]).unwrap();
        model.remove(&9);
        let snapshot = fixture.checkpoint(2);
        drop(fixture);
        for path in files_in(directory.path(), "bucket-0") {
            if path.extension().is_some_and(|extension| extension == "parquet") {
                rewrite(&path);
            }
        }
        assert_eq!(scan(directory.path(), At::Latest).unwrap(), model);
        let restore = Restore::Snapshot(snapshot);
        let mut fixture = Fixture::open(directory.path(), 1, options, restore).unwrap();
        let ids: Vec<i64> = (0..510).collect();
        assert_eq!(fixture.get(&ids).unwrap(), model);
        // Enough runs for a merge.
        for checkpoint in 3..9 {
            let new = rows(&[(checkpoint as i64, 30, "new"), (600, checkpoint as i64, "x")]);
            fixture.put(&new).unwrap();
            model.extend(new);
            fixture.checkpoint(checkpoint);
            let ids: Vec<i64> = (0..610).collect();
            assert_eq!(fixture.get(&ids).unwrap(), model);
        }
    }
}

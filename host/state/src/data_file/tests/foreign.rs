//! Files that other engines wrote, and files of older schemas.

use super::*;
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use std::fs::File;

/// The rows of a file under another name, as another engine would write them.
fn rewrite(
    directory: &Path,
    written: &Written,
    name: &str,
    properties: WriterProperties,
    nullable: bool,
) -> Arc<DataFile> {
    let source = File::open(directory.join(&written.file.meta.file_name)).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(source).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let fields: Vec<Field> = batches[0]
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(nullable || field.is_nullable()))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let target = File::create(directory.join(name)).unwrap();
    let mut writer = ArrowWriter::try_new(target, schema.clone(), Some(properties)).unwrap();
    for batch in batches {
        let batch = RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap();
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
    let mut meta = written.file.meta.clone();
    meta.file_name = name.to_owned();
    meta.extra_files.clear();
    let files = FileSystem::new(false, None).unwrap();
    let refuse = DamagedSidecar::Refuse;
    let content = Content::open(&files, directory, &meta, &written.schema, refuse).unwrap();
    DataFile::new(0, meta, content)
}

fn shapes() -> Vec<(&'static str, WriterProperties, bool)> {
    let plain = || {
        WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_compression(Compression::UNCOMPRESSED)
    };
    let zstd = Compression::ZSTD(ZstdLevel::default());
    vec![
        ("default", WriterProperties::default(), false),
        ("dictionary", WriterProperties::builder().set_compression(zstd).build(), true),
        ("zstd", plain().set_compression(zstd).build(), false),
        ("snappy", plain().set_compression(Compression::SNAPPY).build(), true),
        ("lz4", plain().set_compression(Compression::LZ4_RAW).build(), false),
        ("nullable", plain().build(), true),
        ("large pages", plain().set_data_page_size_limit(1 << 30).build(), false),
        (
            "small pages of the second version",
            plain()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_data_page_row_count_limit(7)
                .set_write_batch_size(7)
                .build(),
            true,
        ),
        (
            "delta encodings",
            WriterProperties::builder()
                .set_dictionary_enabled(false)
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .build(),
            false,
        ),
        (
            "no page index, several row groups",
            plain()
                .set_offset_index_disabled(true)
                .set_statistics_enabled(EnabledStatistics::None)
                .set_max_row_group_row_count(Some(500))
                .build(),
            true,
        ),
        (
            "several row groups",
            plain()
                .set_max_row_group_row_count(Some(500))
                .set_data_page_row_count_limit(33)
                .build(),
            false,
        ),
    ]
}

#[test]
fn files_of_other_engines_give_the_same_answers() {
    both_modes(|directory, files| {
        let keys = [
            vec![Column::required("id", ColumnType::Int64)],
            vec![
                Column::required("person", ColumnType::Decimal128 { precision: 20, scale: 3 }),
                Column::required("tag", ColumnType::Utf8),
            ],
        ];
        for key in keys {
            let written = write(directory, files, &key, &value_columns(true), 2_500);
            for (name, properties, nullable) in shapes() {
                let file = rewrite(directory, &written, name, properties, nullable);
                written.check(&file.content);
            }
        }
    });
}

/// So that the test above is about decoding too.
#[test]
fn files_of_other_engines_are_read_in_place_only_when_they_are_plain() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSystem::new(false, None).unwrap();
    let key = [Column::required("id", ColumnType::Int64)];
    let value = [Column::required("v", ColumnType::Utf8)];
    let written = write(directory.path(), &files, &key, &value, 2_500);
    let in_place: Vec<&str> = shapes()
        .into_iter()
        .filter_map(|(name, properties, nullable)| {
            let file = rewrite(directory.path(), &written, name, properties, nullable);
            file.content.is_in_place().then_some(name)
        })
        .collect();
    assert_eq!(in_place, ["large pages", "several row groups"]);
}

#[test]
fn only_pages_that_may_have_a_key_are_decoded() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSystem::new(false, None).unwrap();
    for column_type in [ColumnType::Int64, ColumnType::Utf8] {
        let key = [Column::required("id", column_type)];
        let written = write(directory.path(), &files, &key, &[], 5_000);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_data_page_row_count_limit(50)
            .set_write_batch_size(50)
            .build();
        let name = format!("{column_type}.parquet");
        let file = rewrite(directory.path(), &written, &name, properties, false);
        let keys = written.probe_keys([100, 4_000].into_iter());
        let candidates: usize =
            file.content.candidates(&keys).iter().map(ExactSizeIterator::len).sum();
        // The page of each, and those that begin in one key group and end in the next.
        assert!((2..=300).contains(&candidates), "{candidates} rows for two keys");
        written.check(&file.content);
    }
}

#[test]
fn file_of_an_older_schema_is_widened_and_filled_up_with_nulls() {
    let decimal = |precision| ColumnType::Decimal128 { precision, scale: 2 };
    let types = [
        (ColumnType::Int32, ColumnType::Int64),
        (ColumnType::Float32, ColumnType::Float64),
        (ColumnType::Date, ColumnType::TimestampMillis),
        (decimal(9), decimal(18)),
        (decimal(9), decimal(38)),
        (decimal(18), decimal(38)),
        (decimal(20), decimal(38)),
        (ColumnType::Utf8, ColumnType::Utf8),
    ];
    both_modes(|directory, files| {
        let key = [Column::required("id", ColumnType::Int64)];
        for nullable in [false, true] {
            let columns = |of: fn(&(ColumnType, ColumnType)) -> ColumnType| -> Vec<Column> {
                let named = (0..).zip(&types);
                named
                    .map(|(at, both)| Column {
                        name: format!("v{at}"),
                        column_type: of(both),
                        nullable,
                    })
                    .collect()
            };
            let old = write(directory, files, &key, &columns(|both| both.0), 1_500);
            let mut wanted = columns(|both| both.1);
            // What was required may be nullable now.
            wanted.iter_mut().for_each(|column| column.nullable = true);
            wanted.push(Column::nullable("added", ColumnType::Utf8));
            let groups = KeyGroups::new(GROUPS, 1).unwrap();
            let mut values: Vec<ArrayRef> = (old.values.iter().zip(&wanted))
                .map(|(array, column)| {
                    arrow_cast::cast(array, &column.column_type.to_arrow()).unwrap()
                })
                .collect();
            values.push(new_null_array(&ColumnType::Utf8.to_arrow(), 1_500));
            let schema = TableSchema::new(&StateKind::Value, &key, &wanted, groups, 1).unwrap();
            let new = Written { schema, values, ..old };
            let content = new.reopen(directory, files).unwrap();
            new.check(&content);
            let mut at = 0;
            for rows in content.scan(&RoaringBitmap::new()).unwrap() {
                let rows = rows.unwrap();
                for (array, wanted) in rows.value.iter().zip(&new.values) {
                    assert_eq!(array, &wanted.slice(at, rows.rows.len()));
                }
                at += rows.rows.len();
            }
            assert_eq!(at, 1_500);
            for shape in ["nullable", "dictionary"] {
                let (name, properties, nullable) =
                    shapes().into_iter().find(|(name, ..)| *name == shape).unwrap();
                new.check(&rewrite(directory, &new, name, properties, nullable).content);
            }
        }
    });
}

#[test]
fn required_column_that_a_file_lacks_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let files = FileSystem::new(false, None).unwrap();
    let key = [Column::required("id", ColumnType::Int64)];
    let old = write(directory.path(), &files, &key, &[], 10);
    let groups = KeyGroups::new(GROUPS, 1).unwrap();
    let value = [Column::required("added", ColumnType::Int32)];
    let schema = TableSchema::new(&StateKind::Value, &key, &value, groups, 1).unwrap();
    let new = Written { schema, ..old };
    let error = new.reopen(directory.path(), &files).unwrap_err();
    assert!(error.to_string().contains("column `added` is missing"), "{error}");
}

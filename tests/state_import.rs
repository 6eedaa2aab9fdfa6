//! State that was exported is what `howdah state scan` shows, and a pipeline that imports it goes on
//! as the one that it comes from.

use crate::support::rows::{Row, TextFormat, read_text};
use crate::support::{Job, input};
use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use std::fs::File;
use std::path::Path;

const EVENTS: u32 = 20_000;

fn finished() -> Job {
    let job = Job::last_bid(&input::events(EVENTS));
    job.run_to_end();
    job
}

fn export(job: &Job, file: &str, arguments: &[&str]) {
    let arguments = [&["last", "--to", file][..], arguments].concat();
    job.command(&["state", "export"], &arguments).success();
}

/// Another job of the same kind, with state from a file of this one.
fn import(job: &Job, from: &Job, file: &str) -> crate::support::Finished {
    let path = from.directory().join(file);
    job.command(&["state", "import"], &[&format!("last={}", path.display())])
}

fn batches(path: &Path) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReader::try_new(File::open(path).unwrap(), 8_192).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

fn rewrite(path: &Path, batches: &[RecordBatch]) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

#[test]
fn exported_files_have_the_rows_of_the_state() {
    let job = finished();
    let sorted = |mut rows: Vec<Row>| {
        rows.sort();
        rows
    };
    for (file, format) in [("last.csv", TextFormat::Csv), ("last.ndjson", TextFormat::Ndjson)] {
        export(&job, file, &[]);
        let text = std::fs::read(job.directory().join(file)).unwrap();
        assert_eq!(sorted(read_text(&text, format, &job.state_shape)), job.state_rows(None));
    }
    let first = job.checkpoints()[0].id;
    export(&job, "first.csv", &["--at", &first.to_string()]);
    let text = std::fs::read(job.directory().join("first.csv")).unwrap();
    let rows = sorted(read_text(&text, TextFormat::Csv, &job.state_shape));
    assert_eq!(rows, job.state_rows(Some(first)));

    let export = |arguments: &[&str]| job.command(&["state", "export"], arguments);
    export(&["last", "--to", "first.csv"]).failed(2, &["exists", "--force"]);
    export(&["last", "--to", "first.txt"]).failed(2, &[".parquet, .csv or .ndjson"]);
    export(&["lost", "--to", "lost.csv"]).failed(2, &["there is no table `lost`"]);
}

#[test]
fn a_job_begins_with_the_state_of_another_one() {
    let first = finished();
    export(&first, "last.parquet", &[]);
    // Another parallelism and number of key groups; it reads the same rows again, which are not newer
    // than what it knows.
    let second = Job::last_bid(&input::events(EVENTS));
    let second = second.set("", "parallelism", 3).set("", "key-groups", 64);
    let imported = import(&second, &first, "last.parquet").success().stdout;
    assert!(imported.contains("checkpoint 1: `howdah run` begins there"), "{imported}");
    let without_group = |job: &Job| {
        let mut rows: Vec<Row> = job.state_rows(None).iter().map(|row| row[1..].to_vec()).collect();
        rows.sort();
        rows
    };
    assert_eq!(without_group(&second), without_group(&first));
    let summary = second.run_to_end();
    assert_eq!(
        (summary["restored_from"].as_u64(), summary["rows_out"].as_u64()),
        (Some(1), Some(0))
    );
    assert_eq!(without_group(&second), without_group(&first));

    import(&second, &first, "last.parquet").failed(2, &["has state already"]);
}

#[test]
fn a_job_begins_with_the_rows_of_a_table() {
    // The last row of each key is what the state has.
    let first = Job::last_bid(&input::events(EVENTS)).without("sink", "format");
    let first = first.set("sink", "type", "'paimon'").set("sink", "path", "'lake'");
    let first = first.set("sink", "table", "'default.bids'");
    let first = first.set("sink", "primary-key", "['bidder', 'auction']");
    first.run_to_end();
    let second = Job::last_bid(&input::events(EVENTS));
    import(&second, &first, "lake/default.db/bids").success();
    assert_eq!(second.state_rows(None), first.state_rows(None));
}

#[test]
fn columns_that_do_not_fit_are_all_named_and_nothing_is_changed() {
    let first = finished();
    export(&first, "last.parquet", &[]);
    let path = first.directory().join("last.parquet");
    let batches = batches(&path);
    // Without the price; the number of the event as text.
    let changed = |batch: &RecordBatch| {
        let names = ["bidder", "auction", "date_time"];
        let mut columns: Vec<_> =
            names.map(|name| (name, batch.column_by_name(name).unwrap().clone())).to_vec();
        let seq = batch.column_by_name("seq").unwrap();
        columns.push(("seq", arrow_cast::cast(seq, &arrow_schema::DataType::Utf8).unwrap()));
        RecordBatch::try_from_iter(columns).unwrap()
    };
    rewrite(&path, &batches.iter().map(changed).collect::<Vec<_>>());
    let second = Job::last_bid(&input::events(EVENTS));
    import(&second, &first, "last.parquet").failed(
        2,
        &[
            "does not fit the state `last`",
            "`price`: not there in the file, int64 in the state: add it",
            "`seq`: Utf8 in the file, int64 in the state: make it int64",
        ],
    );
    let missing = second.command(&["state", "import"], &["lost=last.parquet"]);
    missing.failed(2, &["no state `lost`; it has last-bid.last"]);
    second.run_to_end();
    assert_eq!(second.state_rows(None), first.state_rows(None));
}

#[test]
fn a_key_that_is_there_twice_leaves_no_state() {
    let first = finished();
    export(&first, "last.parquet", &[]);
    let path = first.directory().join("last.parquet");
    let mut rows = batches(&path);
    rows.push(rows[0].slice(0, 1));
    rewrite(&path, &rows);
    let second = Job::last_bid(&input::events(EVENTS));
    let said = ["more than one row with the key bidder=", "mend the file"];
    import(&second, &first, "last.parquet").failed(1, &said);
    let summary = second.run_to_end();
    assert_eq!(summary["restored_from"], serde_json::Value::Null);
}

#[test]
fn an_import_that_was_broken_off_is_no_beginning() {
    let first = finished();
    export(&first, "last.parquet", &[]);
    let second = Job::last_bid(&input::events(EVENTS));
    import(&second, &first, "last.parquet").success();
    // As a crash leaves it: the mark is there, and no checkpoint yet.
    let mark = "an import of state was broken off; import it again";
    std::fs::write(second.state_directory().join("fresh-start"), mark).unwrap();
    std::fs::remove_dir_all(second.state_directory().join("checkpoints")).unwrap();
    second.run(&[]).failed(1, &[mark, "--fresh"]);
    import(&second, &first, "last.parquet").success();
    assert_eq!(second.run_to_end()["restored_from"], 1);
    assert_eq!(second.state_rows(None), first.state_rows(None));
}

use super::conformance::{Case, Keeps, check, output_spec, rows};
use super::files::Files;
use super::staged::{StagedFile, StagedWriter, Staging};
use super::*;
use crate::config::Format;
use crate::error::ErrorKind;
use crate::place::Place;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Writes rows, with a barrier of checkpoint 7 after them.
fn staged(
    directory: &Path,
    format: Format,
    spec: OutputSpec,
    outputs: Vec<Output>,
) -> Option<SinkHandle> {
    let staging = Staging {
        directory: Place::of(directory).directory().expect("opened"),
        format,
        header: true,
        sync: true,
        output: Some(spec),
        check: None,
    };
    let (sender, receiver) = crossbeam_channel::unbounded();
    let (reports, reported) = crossbeam_channel::unbounded();
    for output in outputs {
        let rows = SinkMessage::Rows { subtask: 1, outputs: vec![output], read_at: None };
        sender.send(rows).expect("sent");
    }
    sender.send(SinkMessage::Barrier { subtask: 1, checkpoint: 7 }).expect("sent");
    drop(sender);
    let writer = |subtask| Box::new(StagedWriter::new(staging.clone(), subtask, 6)) as Box<_>;
    let thread = SinkThread { number: 0, writers: (0..2).map(writer).collect() };
    let latency = LatencyMeter::new("q18", Arc::default());
    thread.run(&receiver, &reports, &latency, &Failure::new()).expect("written");
    match reported.try_recv() {
        Ok(Report::Staged { checkpoint: 7, sink: 0, subtask: 1, handle }) => handle,
        other => panic!("{other:?}"),
    }
}

/// The file that a handle names.
fn file(handle: &SinkHandle) -> StagedFile {
    StagedFile::of("files", std::slice::from_ref(handle)).expect("a file").remove(0)
}

fn text(directory: &Path, format: Format, changelog: bool, outputs: Vec<Output>) -> String {
    let handle = staged(directory, format, output_spec(changelog), outputs).expect("a file");
    let text = std::fs::read_to_string(directory.join(&file(&handle).staged)).expect("text");
    assert_eq!(handle.bytes, text.len() as u64);
    text
}

#[test]
fn csv_has_one_header_and_readable_timestamps() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = text(directory.path(), Format::Csv, false, vec![rows(&[1], None), rows(&[2], None)]);
    assert_eq!(text, "id,name,at\n1,,2023-11-14 22:13:20.123\n2,even,2023-11-14 22:13:20.123\n");
}

#[test]
fn standard_output_gets_its_csv_header_apart_from_the_rows() {
    let header = encoder::header(Format::Csv, &output_spec(true)).expect("a header");
    assert_eq!(header, b"id,name,at,op\n");
    assert_eq!(encoder::header(Format::Ndjson, &output_spec(true)).expect("none"), b"");
}

#[test]
fn ndjson_has_every_column_in_every_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = text(directory.path(), Format::Ndjson, false, vec![rows(&[1], None)]);
    assert_eq!(text, "{\"id\":1,\"name\":null,\"at\":\"2023-11-14 22:13:20.123\"}\n");
}

#[test]
fn parquet_reads_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let outputs = vec![rows(&[1, 2], None), rows(&[3], None)];
    let handle = staged(directory.path(), Format::Parquet, output_spec(false), outputs);
    let handle = handle.expect("a file");
    let file = file(&handle);
    assert_eq!((handle.rows, file.name.as_str()), (3, "part-7-1.parquet"));
    let written = std::fs::File::open(directory.path().join(file.staged)).expect("a file");
    assert_eq!(written.metadata().expect("metadata").len(), handle.bytes);
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(written, 10)
        .expect("a reader");
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().expect("batches");
    assert_eq!(batches[0].slice(0, 2), rows(&[1, 2], None).batch);
}

#[test]
fn a_changelog_has_a_column_for_the_row_kind() {
    let directory = tempfile::tempdir().expect("a directory");
    let outputs = vec![rows(&[2, 2, 2, 2], Some(vec![0, 1, 2, 3])), rows(&[4], None)];
    let text = text(directory.path(), Format::Csv, true, outputs);
    let kinds: Vec<_> =
        text.lines().map(|line| line.rsplit(',').next().expect("a field")).collect();
    assert_eq!(kinds, ["op", "+I", "-U", "+U", "-D", "+I"]);
}

#[test]
fn a_checkpoint_without_rows_makes_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let outputs = vec![rows(&[], None)];
    assert!(staged(directory.path(), Format::Csv, output_spec(false), outputs).is_none());
    assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 0);
}

/// A pipeline whose output is `out` in the directory.
fn config(directory: &Path, name: &str) -> PipelineConfig {
    std::fs::write(directory.join("rows.csv"), "").expect("written");
    std::fs::write(directory.join("o.wasm"), "").expect("written");
    let text = format!(
        "name = \"{name}\"\n[source]\npath = \"rows.csv\"\n[operator]\nname = \"o\"\n\
         component = \"o.wasm\"\n[sink]\ntype = \"files\"\npath = \"out\"\n"
    );
    PipelineConfig::parse(&directory.join("q.toml"), &text).expect("a configuration")
}

fn visible(directory: &Path) -> Vec<String> {
    let names = crate::directory::names(&directory.join("out")).expect("names");
    names.into_iter().filter(|name| !name.starts_with('.')).collect()
}

fn claim(config: &PipelineConfig) -> Result<Files> {
    Files::open(&opening(config, None))
}

/// What a subtask has prepared for a checkpoint.
fn stage(directory: &Path, checkpoint: u64) -> SinkHandle {
    let file = StagedFile {
        staged: format!("{}-1-0.csv", checkpoint - 1),
        name: format!("part-{checkpoint}-0.csv"),
    };
    std::fs::write(directory.join("out/.staging").join(&file.staged), "x\n").expect("written");
    SinkHandle::new(1, 2, &file).expect("a handle")
}

#[test]
fn committed_files_become_visible_and_committing_again_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut sink = claim(&config(directory.path(), "q")).expect("claimed");
    let handle = stage(directory.path(), 7);
    assert_eq!(visible(directory.path()), [""; 0]);
    sink.commit(7, std::slice::from_ref(&handle)).expect("committed");
    sink.commit(7, &[handle]).expect("committed");
    assert_eq!(visible(directory.path()), ["part-7-0.csv"]);
}

#[test]
fn recovery_commits_the_checkpoint_and_removes_what_came_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut sink = claim(&config(directory.path(), "q")).expect("claimed");
    let handle = stage(directory.path(), 7);
    let later = stage(directory.path(), 8);
    sink.commit(8, &[later]).expect("committed");
    stage(directory.path(), 9);
    sink.recover(Some((7, std::slice::from_ref(&handle)))).expect("recovered");
    assert_eq!(visible(directory.path()), ["part-7-0.csv"]);
    let staging = directory.path().join("out/.staging");
    assert_eq!(std::fs::read_dir(staging).expect("listed").count(), 0);
}

#[test]
fn a_fresh_start_removes_all_parts_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut sink = claim(&config(directory.path(), "q")).expect("claimed");
    let handle = stage(directory.path(), 7);
    sink.commit(7, &[handle]).expect("committed");
    let others = ["notes.csv", "part-007-0.csv", "part-7-0.txt", "part-7.csv", "part-x-0.csv"];
    for name in others {
        std::fs::write(directory.path().join("out").join(name), "mine").expect("written");
    }
    sink.recover(None).expect("recovered");
    assert_eq!(visible(directory.path()), others);
}

#[test]
fn a_directory_with_foreign_files_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path(), "q");
    std::fs::create_dir(directory.path().join("out")).expect("made");
    std::fs::write(directory.path().join("out/part-1-0.csv"), "mine").expect("written");
    let error = claim(&config).expect_err("refused");
    assert_eq!(
        error.to_string(),
        format!(
            "the output directory {} has something else in it: `part-1-0.csv`; name another one, \
             or remove it",
            directory.path().join("out").display()
        )
    );
}

#[test]
fn the_directory_of_another_pipeline_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(claim(&config(directory.path(), "one")).expect("claimed"));
    let error = claim(&config(directory.path(), "two")).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("belongs to the pipeline `one`"), "{error}");
}

#[test]
fn a_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path(), "q");
    let _running = claim(&config).expect("claimed");
    let error = claim(&config).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Locked);
}

#[test]
fn a_full_disk_is_named_with_the_way_out() {
    // Linux has a device that is always full.
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let error = std::fs::OpenOptions::new()
        .write(true)
        .open(full)
        .and_then(|mut file| Write::write_all(&mut file, b"x"))
        .expect_err("full");
    let error = Error::io("write", Path::new("out/part-1-0.csv"), error);
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert_eq!(
        error.to_string(),
        "cannot write out/part-1-0.csv: no space left on device; make space and run again"
    );
}

#[test]
fn a_claim_that_was_broken_off_is_made_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("out");
    std::fs::create_dir(&out).expect("made");
    // A full disk: the lock, and half of the marker.
    std::fs::write(out.join(".howdah-lock"), "").expect("written");
    std::fs::write(out.join(".howdah-sink"), "").expect("written");
    std::fs::write(out.join(".howdah-sink.tmp"), "{\"pipe").expect("written");
    drop(claim(&config(directory.path(), "one")).expect("claimed"));
    assert!(!out.join(".howdah-sink.tmp").exists());
    let error = claim(&config(directory.path(), "two")).expect_err("refused");
    assert!(error.to_string().contains("belongs to the pipeline `one`"), "{error}");
}

#[test]
fn a_marker_that_cannot_be_written_leaves_none_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("out");
    // Writing the temporary file fails, as on a full disk.
    std::fs::create_dir_all(out.join(".howdah-sink.tmp")).expect("made");
    claim(&config(directory.path(), "q")).expect_err("refused");
    assert!(!out.join(".howdah-sink").exists());
    std::fs::remove_dir(out.join(".howdah-sink.tmp")).expect("removed");
    claim(&config(directory.path(), "q")).expect("claimed");
}

#[test]
fn output_of_an_earlier_run_is_known_without_a_state_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path(), "q");
    assert!(!config.has_output().expect("listed"));
    let mut sink = claim(&config).expect("claimed");
    let handle = stage(directory.path(), 7);
    sink.commit(7, &[handle]).expect("committed");
    assert!(config.has_output().expect("listed"));
}

/// The ids of the rows of batches, ascending.
fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let column =
        |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    let mut ids: Vec<i64> = batches.iter().flat_map(column).collect();
    ids.sort_unstable();
    ids
}

/// A pipeline file with this sink.
fn config_of(directory: &Path, sink: &str) -> PipelineConfig {
    std::fs::write(directory.join("rows.csv"), "").expect("written");
    std::fs::write(directory.join("o.wasm"), "").expect("written");
    let text = format!(
        "name = \"q\"\n[source]\npath = \"rows.csv\"\n[operator]\nname = \"o\"\n\
         component = \"o.wasm\"\n[sink]\n{sink}\n"
    );
    PipelineConfig::parse(&directory.join("q.toml"), &text).expect("a configuration")
}

fn opening<'a>(config: &'a PipelineConfig, output: Option<&'a OutputSpec>) -> Opening<'a> {
    Opening {
        tenant: &config.tenant,
        pipeline: &config.name,
        state_directory: &config.state_directory,
        sync: true,
        directories: &config.directories,
        config: &config.sinks[0],
        output,
    }
}

fn open_sink(config: &PipelineConfig, output: &OutputSpec) -> Result<Box<dyn Sink>> {
    open(&opening(config, Some(output)))
}

/// The ids in the visible files.
fn ids_of_files(directory: &Path) -> Vec<i64> {
    let mut ids = Vec::new();
    for name in visible(directory) {
        let path = directory.join("out").join(&name);
        if name.ends_with("parquet") {
            let file = std::fs::File::open(path).expect("a file");
            let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(file, 100);
            let batches: Result<Vec<_>, _> = reader.expect("a reader").collect();
            ids.extend(self::ids(&batches.expect("batches")));
            continue;
        }
        let text = std::fs::read_to_string(path).expect("text");
        let skipped = usize::from(name.ends_with("csv"));
        ids.extend(text.lines().skip(skipped).map(|line| {
            let digits = line.trim_start_matches("{\"id\":").split(',').next().expect("a field");
            digits.parse::<i64>().expect("an id")
        }));
    }
    ids.sort_unstable();
    ids
}

#[test]
fn files_of_every_format_keep_the_contract() {
    for format in ["csv", "ndjson", "parquet"] {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let sink = format!("type = \"files\"\npath = \"out\"\nformat = \"{format}\"");
        let config = config_of(directory, &sink);
        check(&Case {
            keeps: Keeps::All,
            begin: &|| {},
            open: &|| open_sink(&config, &output_spec(false)),
            visible: &|| ids_of_files(directory),
            hidden: &|| std::fs::read_dir(directory.join("out/.staging")).expect("listed").count(),
        });
    }
}

/// Whoever reads what is printed.
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<Vec<u8>>>);

impl Write for Reader {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the text").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn standard_output_keeps_the_contract() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config_of(directory.path(), "type = \"stdout\"");
    std::fs::create_dir_all(&config.state_directory).expect("made");
    let reader = Reader::default();
    let id = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        row["id"].as_i64().expect("an id")
    };
    check(&Case {
        keeps: Keeps::Printed,
        begin: &|| reader.0.lock().expect("the text").clear(),
        open: &|| {
            let output = output_spec(false);
            let opening = opening(&config, Some(&output));
            Ok(Box::new(stdout::Stdout::open_to(&opening, Box::new(reader.clone()))?))
        },
        visible: &|| {
            let text = String::from_utf8(reader.0.lock().expect("the text").clone());
            let mut ids: Vec<i64> = text.expect("text").lines().map(id).collect();
            ids.sort_unstable();
            ids
        },
        hidden: &|| {
            let staging = config.state_directory.join(STDOUT_STAGING);
            std::fs::read_dir(staging).expect("listed").count()
        },
    });
}

#[test]
fn nowhere_keeps_the_contract() {
    check(&Case {
        keeps: Keeps::Nothing,
        begin: &|| {},
        open: &|| Ok(null()),
        visible: &Vec::new,
        hidden: &|| 0,
    });
}

#[test]
fn an_output_directory_that_is_a_link_must_lead_where_output_is_granted() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    for name in ["granted", "outside"] {
        std::fs::create_dir(root.join(name)).expect("made");
    }
    let mut config = config(&root.join("granted"), "q");
    std::os::unix::fs::symlink("../outside", root.join("granted/out")).expect("linked");
    let error = claim(&config).expect_err("refused").to_string();
    assert!(error.contains("is in no directory that the host grants"), "{error}");
    let is_empty = || std::fs::read_dir(root.join("outside")).expect("listed").next().is_none();
    assert!(is_empty());
    config.directories.allow([root.join("outside")]);
    claim(&config).expect("granted");
    assert!(!is_empty());
}

#[test]
fn a_link_in_an_output_directory_does_not_lead_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = config(directory.path(), "q");
    drop(claim(&config).expect("claimed"));
    let out = directory.path().join("out");
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::write(outside.path().join("part-9-0.csv"), "mine").expect("written");
    std::fs::remove_dir(out.join(".staging")).expect("removed");
    std::os::unix::fs::symlink(outside.path(), out.join(".staging")).expect("linked");
    claim(&config).expect_err("refused");
    std::fs::remove_file(out.join(".staging")).expect("removed");
    let mut sink = claim(&config).expect("claimed");
    // A document that was tampered with.
    let escape = StagedFile { staged: "../../rows.csv".into(), name: "part-1-0.csv".into() };
    let handle = SinkHandle::new(1, 2, &escape).expect("a handle");
    sink.commit(1, &[handle]).expect_err("refused");
    assert!(directory.path().join("rows.csv").exists(), "it is where it was");
    assert_eq!(std::fs::read(outside.path().join("part-9-0.csv")).expect("read"), b"mine");
}

/// A table in the warehouse `out`.
fn table(directory: &Path, more: &str) -> PipelineConfig {
    config_of(directory, &format!("type = \"paimon\"\npath = \"out\"\ntable = \"db.rows\"\n{more}"))
}

fn rows_of_table(directory: &Path) -> Vec<RecordBatch> {
    howdah_state::read_table(&directory.join("out"), "db", "rows").expect("rows")
}

/// Data files in the buckets of the table.
fn data_files(directory: &Path) -> usize {
    let table = directory.join("out/db.db/rows");
    let names = crate::directory::names(&table).expect("names");
    let buckets = names.iter().filter(|name| name.starts_with("bucket-"));
    buckets.map(|name| crate::directory::names(&table.join(name)).expect("names").len()).sum()
}

#[test]
fn tables_with_and_without_a_primary_key_keep_the_contract() {
    for more in ["", "primary-key = [\"id\"]"] {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        let config = table(directory, more);
        check(&Case {
            keeps: Keeps::All,
            begin: &|| {},
            open: &|| open_sink(&config, &output_spec(false)),
            visible: &|| ids(&rows_of_table(directory)),
            // A checkpoint has a file of five rows for each subtask.
            hidden: &|| data_files(directory) - ids(&rows_of_table(directory)).len() / 5,
        });
    }
}

/// A table after two checkpoints of changes: key 1 is updated, 2 deleted, 3 comes and goes.
fn changed_table(directory: &Path) {
    let config = table(directory, "primary-key = [\"id\"]\nbuckets = 2");
    let mut sink = open_sink(&config, &output_spec(true)).expect("opened");
    sink.recover(None).expect("recovered");
    let mut writer = sink.writer(0, 0).expect("a writer");
    for (checkpoint, changes) in
        [(1, (vec![1, 2, 3, 3, 4], vec![0, 0, 0, 3, 0])), (2, (vec![1, 1, 2, 5], vec![1, 2, 3, 0]))]
    {
        writer.write(&rows(&changes.0, Some(changes.1))).expect("written");
        let handle = writer.prepare(checkpoint).expect("prepared").expect("rows");
        sink.commit(checkpoint, &[handle]).expect("committed");
    }
}

#[test]
fn a_table_with_a_primary_key_takes_a_changelog() {
    let directory = tempfile::tempdir().expect("a directory");
    changed_table(directory.path());
    assert_eq!(ids(&rows_of_table(directory.path())), [1, 4, 5]);
}

#[test]
fn pypaimon_reads_a_table_right() {
    let python = std::env::var_os("HOWDAH_ORACLE_PYTHON").map(std::path::PathBuf::from);
    let Some(python) = python.filter(|python| python.exists()) else {
        println!("skipped: HOWDAH_ORACLE_PYTHON names no Python; run cargo xtask setup");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    changed_table(directory.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/table_rows.py");
    let output = std::process::Command::new(python)
        .arg(script)
        .arg(directory.path().join("out"))
        .args(["db.rows", "id", "name", "at"])
        .output()
        .expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let expected = "[[\"1\", \"\", \"1700000000123\"], [\"4\", \"even\", \"1700000000123\"], \
                    [\"5\", \"\", \"1700000000123\"]]\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn a_changelog_needs_a_table_with_a_primary_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = open_sink(&table(directory.path(), ""), &output_spec(true)).err();
    let error = error.expect("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().ends_with("add `primary-key` to the sink"), "{error}");
}

#[test]
fn a_table_of_another_shape_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = table(directory.path(), "");
    drop(open_sink(&config, &output_spec(false)).expect("made"));
    let mut other = output_spec(false);
    other.fields.pop();
    let error = open_sink(&config, &other).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("(id int64, name utf8)"), "{error}");
    let keyed = table(directory.path(), "primary-key = [\"id\"]");
    let error = open_sink(&keyed, &output_spec(false)).err().expect("refused");
    assert!(error.to_string().contains("no primary key"), "{error}");
}

#[test]
fn a_table_sink_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = table(directory.path(), "");
    let _running = open_sink(&config, &output_spec(false)).expect("opened");
    let error = open_sink(&config, &output_spec(false)).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Locked);
}

#[test]
fn output_of_others_is_not_taken_back_from_a_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = table(directory.path(), "");
    let write = |config: &PipelineConfig, checkpoint, id| {
        let mut sink = open_sink(config, &output_spec(false)).expect("opened");
        let mut writer = sink.writer(0, 0).expect("a writer");
        writer.write(&rows(&[id], None)).expect("written");
        let handle = writer.prepare(checkpoint).expect("prepared").expect("rows");
        sink.commit(checkpoint, &[handle]).expect("committed");
    };
    write(&config, 1, 10);
    config.name = "other".to_owned();
    write(&config, 1, 20);
    let mut sink = open_sink(&config, &output_spec(false)).expect("opened");
    sink.recover(None).expect("the last one can go back");
    assert_eq!(ids(&rows_of_table(directory.path())), [10]);
    drop(sink);
    write(&config, 1, 20);
    config.name = "q".to_owned();
    let mut sink = open_sink(&config, &output_spec(false)).expect("opened");
    let error = sink.recover(None).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("others have written to it since"), "{error}");
    assert_eq!(ids(&rows_of_table(directory.path())), [10, 20]);
}

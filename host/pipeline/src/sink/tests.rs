use super::*;
use crate::ErrorKind;
use crate::config::PipelineConfig;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use howdah_state::{Column, ColumnType};
use std::path::Path;
use std::sync::Arc;

fn output_spec(changelog: bool) -> OutputSpec {
    OutputSpec {
        name: "out".into(),
        fields: vec![
            Column::required("id", ColumnType::Int64),
            Column::nullable("name", ColumnType::Utf8),
            Column::required("at", ColumnType::TimestampMillis),
        ],
        changelog,
    }
}

fn rows(ids: &[i64], row_kinds: Option<Vec<u8>>) -> Output {
    let names = ids.iter().map(|id| (id % 2 == 0).then_some("even"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.to_vec())),
        Arc::new(names.collect::<StringArray>()),
        Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_123; ids.len()])),
    ];
    let batch = RecordBatch::try_new(output_spec(false).schema(), columns).expect("a batch");
    Output { port: 0, batch, timestamps: vec![0; ids.len()], row_kinds }
}

/// Writes rows, with a barrier of checkpoint 7 after them.
fn staged(
    directory: &Path,
    format: Format,
    spec: OutputSpec,
    outputs: Vec<Output>,
) -> Option<SinkFile> {
    let staging = Staging {
        directory: Some(directory.to_owned()),
        format,
        header: true,
        sync: true,
        base: 6,
    };
    let (sender, receiver) = crossbeam_channel::unbounded();
    let (reports, reported) = crossbeam_channel::unbounded();
    for output in outputs {
        sender.send(SinkMessage::Rows { subtask: 1, outputs: vec![output] }).expect("sent");
    }
    sender.send(SinkMessage::Barrier { subtask: 1, checkpoint: 7 }).expect("sent");
    drop(sender);
    Sink::new(0, staging, Some(spec), 2)
        .run(&receiver, &reports, &Failure::new())
        .expect("written");
    match reported.try_recv() {
        Ok(Report::Staged { checkpoint: 7, sink: 0, file }) => file,
        other => panic!("{other:?}"),
    }
}

fn text(directory: &Path, format: Format, changelog: bool, outputs: Vec<Output>) -> String {
    let file = staged(directory, format, output_spec(changelog), outputs).expect("a file");
    let text = std::fs::read_to_string(directory.join(&file.staged)).expect("text");
    assert_eq!(file.bytes, text.len() as u64);
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
    let file = staged(directory.path(), Format::Parquet, output_spec(false), outputs);
    let file = file.expect("a file");
    assert_eq!((file.rows, file.name.as_str()), (3, "part-7-1.parquet"));
    let written = std::fs::File::open(directory.path().join(file.staged)).expect("a file");
    assert_eq!(written.metadata().expect("metadata").len(), file.bytes);
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
fn claim(config: &PipelineConfig) -> Result<Committer> {
    Committer::claim(config, &config.sinks[0], None)
}

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

/// A committer and the staged file of a checkpoint.
fn stage(committer: &Committer, checkpoint: u64) -> SinkFile {
    let staging = committer.staging().expect("a directory");
    let file = SinkFile {
        staged: format!("{}-1-0.csv", checkpoint - 1),
        name: format!("part-{checkpoint}-0.csv"),
        rows: 1,
        bytes: 2,
    };
    std::fs::write(staging.join(&file.staged), "x\n").expect("written");
    file
}

#[test]
fn committed_files_become_visible_and_committing_again_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut committer = claim(&config(directory.path(), "q")).expect("claimed");
    let file = stage(&committer, 7);
    assert_eq!(visible(directory.path()), [""; 0]);
    committer.commit(std::slice::from_ref(&file)).expect("committed");
    committer.commit(&[file]).expect("committed");
    assert_eq!(visible(directory.path()), ["part-7-0.csv"]);
}

#[test]
fn recovery_commits_the_checkpoint_and_removes_what_came_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut committer = claim(&config(directory.path(), "q")).expect("claimed");
    let file = stage(&committer, 7);
    let later = stage(&committer, 8);
    committer.commit(&[later]).expect("committed");
    stage(&committer, 9);
    committer.recover(Some((7, std::slice::from_ref(&file)))).expect("recovered");
    assert_eq!(visible(directory.path()), ["part-7-0.csv"]);
    let staging = committer.staging().expect("a directory");
    assert_eq!(std::fs::read_dir(staging).expect("listed").count(), 0);
}

#[test]
fn a_fresh_start_removes_all_parts_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut committer = claim(&config(directory.path(), "q")).expect("claimed");
    let file = stage(&committer, 7);
    committer.commit(&[file]).expect("committed");
    let others = ["notes.csv", "part-007-0.csv", "part-7-0.txt", "part-7.csv", "part-x-0.csv"];
    for name in others {
        std::fs::write(directory.path().join("out").join(name), "mine").expect("written");
    }
    committer.recover(None).expect("recovered");
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
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"x"))
        .expect_err("full");
    let error = crate::Error::io("write", Path::new("out/part-1-0.csv"), error);
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
    let mut committer = claim(&config).expect("claimed");
    let file = stage(&committer, 7);
    committer.commit(&[file]).expect("committed");
    assert!(config.has_output().expect("listed"));
}

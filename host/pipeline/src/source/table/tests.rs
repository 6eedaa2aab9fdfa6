use crate::checkpoint::SourcePosition;
use crate::clock;
use crate::config::PipelineConfig;
use crate::error::{ErrorKind, Result};
use crate::source::conformance::{Row, check, rest};
use crate::source::{Plan, Source, Wanted};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use howdah_state::{Column, ColumnType, TableSink, TableSinkDescriptor, TableSinkWriter};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A table that is written by a sink, and pipelines that read it.
struct Rows {
    directory: tempfile::TempDir,
    sink: TableSink,
    writer: TableSinkWriter,
    commits: u64,
}

fn columns() -> Vec<Column> {
    vec![Column::required("id", ColumnType::Int64), Column::nullable("name", ColumnType::Utf8)]
}

impl Rows {
    fn new(primary_key: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let sink = TableSink::open(&TableSinkDescriptor {
            warehouse: directory.path().join("warehouse"),
            database: "db".to_owned(),
            table: "rows".to_owned(),
            sink: "q".to_owned(),
            columns: columns(),
            primary_key: primary_key.iter().map(|name| (*name).to_owned()).collect(),
            buckets: 2,
            sync: false,
        });
        let sink = sink.expect("a table");
        let writer = sink.writer().expect("a writer");
        Self { directory, sink, writer, commits: 0 }
    }

    /// One snapshot with these rows, each with its kind.
    fn commit(&mut self, rows: &[(i64, &str, u8)]) {
        let ids: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
        let names = rows.iter().map(|row| Some(row.1)).collect::<StringArray>();
        let batch = RecordBatch::try_from_iter([("id", ids), ("name", Arc::new(names) as _)]);
        let kinds: Vec<u8> = rows.iter().map(|row| row.2).collect();
        let kinds = kinds.iter().any(|kind| *kind != 0).then_some(kinds);
        self.writer.write(&batch.expect("a batch"), kinds.as_deref()).expect("written");
        let (handle, _) = self.writer.prepare().expect("prepared").expect("rows");
        self.commits += 1;
        self.sink.commit(self.commits, &[handle]).expect("committed");
    }

    /// So many rows from an id on.
    fn insert(&mut self, first: i64, count: i64) {
        let rows: Vec<(i64, &str, u8)> = (first..first + count).map(|id| (id, "new", 0)).collect();
        self.commit(&rows);
    }

    fn config(&self, more: &str) -> PipelineConfig {
        std::fs::write(self.directory.path().join("o.wasm"), "").expect("written");
        let text = format!(
            "name = \"q\"\n[source]\nconnector = \"paimon\"\npath = \"warehouse\"\ntable = \
             \"db.rows\"\n{more}\n[operator]\nname = \"o\"\ncomponent = \"o.wasm\"\n[sink]\ntype = \
             \"null\"\n"
        );
        let file = self.directory.path().join("q.toml");
        PipelineConfig::parse(&file, &text).expect("a configuration")
    }

    fn open(&self, more: &str, position: Option<&SourcePosition>) -> Result<Box<dyn Source>> {
        let config = self.config(more);
        let source = &config.sources[0];
        let shape = crate::source::inspect(source, &config.directories)?;
        let wanted = |field: Column| {
            let column = field.name.clone();
            Wanted { field, column, line: None, node_line: 1 }
        };
        let wanted: Vec<Wanted> = columns().into_iter().map(wanted).collect();
        let plan = Plan::resolve(&config.file, source, &wanted, &shape)?;
        crate::source::open(
            source,
            &config.directories,
            Arc::new(plan),
            crate::source::Share::WHOLE,
            position,
        )
    }

    fn snapshots(&self) -> std::path::PathBuf {
        self.directory.path().join("warehouse/db.db/rows/snapshot")
    }

    /// A snapshot expires, as far as a reader can see.
    fn expire(&self, snapshot: i64) {
        let path = self.snapshots().join(format!("snapshot-{snapshot}"));
        std::fs::remove_file(path).expect("removed");
        let earliest = self.snapshots().join("EARLIEST");
        std::fs::write(earliest, (snapshot + 1).to_string()).expect("written");
    }
}

const FOLLOW: &str = "follow = true";

/// What there is after the source has looked for a new snapshot.
fn after_a_look(source: &mut dyn Source) -> Vec<Row> {
    let until = clock::now() + Duration::from_secs(60);
    while clock::now() < until {
        let rows = rest(source, 100);
        if !rows.is_empty() {
            return rows;
        }
        std::thread::yield_now();
    }
    Vec::new()
}

/// The ids of rows, with their kinds, in order.
fn told(rows: &[Row]) -> Vec<String> {
    let mut told: Vec<String> = rows.iter().map(|row| row.0.trim().to_owned()).collect();
    told.sort_unstable();
    told
}

#[test]
fn tables_with_and_without_a_primary_key_keep_the_contract() {
    for (key, more) in [(&[][..], ""), (&["id"][..], ""), (&[][..], FOLLOW), (&["id"][..], FOLLOW)]
    {
        let mut rows = Rows::new(key);
        rows.insert(0, 30);
        rows.insert(30, 20);
        assert_eq!(check(&|position| rows.open(more, position)).len(), 50, "{key:?} {more}");
    }
}

#[test]
fn a_table_without_a_snapshot_is_empty_or_waited_for() {
    let mut rows = Rows::new(&[]);
    assert_eq!(rest(&mut *rows.open("", None).expect("opened"), 10), []);
    let mut source = rows.open(FOLLOW, None).expect("opened");
    assert_eq!(rest(&mut *source, 10), []);
    let position = source.position().expect("a position");
    rows.insert(0, 3);
    assert_eq!(after_a_look(&mut *source).len(), 3);
    let mut again = rows.open(FOLLOW, Some(&position)).expect("opened");
    assert_eq!(rest(&mut *again, 10).len(), 3);
}

#[test]
fn rows_that_are_appended_are_followed_from_any_position() {
    let mut rows = Rows::new(&[]);
    rows.insert(0, 5);
    let mut source = rows.open(FOLLOW, None).expect("opened");
    assert_eq!(rest(&mut *source, 2).len(), 5);
    let position = source.position().expect("a position");
    rows.insert(5, 5);
    rows.insert(10, 5);
    assert_eq!(after_a_look(&mut *source).len(), 10);
    for taken in 0..10 {
        let mut again = rows.open(FOLLOW, Some(&position)).expect("opened");
        let mut before = Vec::new();
        while before.len() < taken {
            if let crate::source::Next::Batch(batch) = again.next(1).expect("read") {
                assert_eq!(batch.rows.num_rows(), 1);
                before.push(());
            }
        }
        let position = again.position().expect("a position");
        let mut again = rows.open(FOLLOW, Some(&position)).expect("opened");
        assert_eq!(rest(&mut *again, 3).len(), 10 - taken, "after {taken}");
    }
    // Without `follow` it stays with the snapshot that it has read.
    let mut source = rows.open("", Some(&position)).expect("opened");
    assert_eq!(rest(&mut *source, 3), []);
}

#[test]
fn changes_of_a_primary_key_are_the_difference_of_snapshots() {
    let mut rows = Rows::new(&["id"]);
    rows.insert(0, 4);
    let mut source = rows.open(FOLLOW, None).expect("opened");
    let first = rest(&mut *source, 10);
    assert_eq!(told(&first)[0], r#"+I {"id":0,"name":"new"}"#);
    let position = source.position().expect("a position");
    rows.commit(&[(0, "new", 1), (0, "other", 2), (1, "new", 3), (9, "new", 0)]);
    let changes = [
        r#"+I {"id":9,"name":"new"}"#,
        r#"+U {"id":0,"name":"other"}"#,
        r#"-D {"id":1,"name":"new"}"#,
        r#"-U {"id":0,"name":"new"}"#,
    ];
    assert_eq!(told(&after_a_look(&mut *source)), changes);
    // However many snapshots there are, the same comes of a filter on one half of an update.
    let filter = "follow = true\nfilter = { name = \"other\" }";
    let mut filtered = rows.open(filter, Some(&position)).expect("opened");
    assert_eq!(told(&rest(&mut *filtered, 10)), [r#"+I {"id":0,"name":"other"}"#]);
    rows.commit(&[(0, "other", 3)]);
    let mut again = rows.open(FOLLOW, Some(&position)).expect("opened");
    let both = [
        r#"+I {"id":9,"name":"new"}"#,
        r#"-D {"id":0,"name":"new"}"#,
        r#"-D {"id":1,"name":"new"}"#,
    ];
    assert_eq!(told(&rest(&mut *again, 10)), both);
    // Without changes to follow, rows of a snapshot are no changelog.
    let batch = rest(&mut *rows.open("", None).expect("opened"), 10);
    assert_eq!(told(&batch)[0], r#"{"id":2,"name":"new"}"#);
}

#[test]
fn a_snapshot_that_has_expired_is_named() {
    for key in [&[][..], &["id"][..]] {
        let mut rows = Rows::new(key);
        rows.insert(0, 5);
        let mut source = rows.open(FOLLOW, None).expect("opened");
        source.next(2).expect("read");
        let within = source.position().expect("a position");
        rest(&mut *source, 10);
        let after = source.position().expect("a position");
        rows.insert(5, 5);
        rows.insert(10, 5);
        rows.expire(1);
        let refused = |position| {
            let error = rows.open(FOLLOW, Some(position)).err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::Incompatible);
            error.to_string()
        };
        assert!(
            refused(&within).contains("snapshot 1 of the table warehouse/db.db/rows has expired")
        );
        if key.is_empty() {
            rows.open(FOLLOW, Some(&after)).expect("the next one is there");
            rows.expire(2);
            assert!(refused(&after).contains("snapshot 2 "), "{}", refused(&after));
        } else {
            assert!(refused(&after).contains("snapshot 1 "), "{}", refused(&after));
        }
        assert!(after_a_look_fails(&mut *source).contains("has expired"));
    }
}

/// What a source fails with once it looks for a new snapshot.
fn after_a_look_fails(source: &mut dyn Source) -> String {
    loop {
        match source.next(10) {
            Ok(_) => std::thread::yield_now(),
            Err(error) => return error.to_string(),
        }
    }
}

#[test]
fn a_table_that_was_rolled_back_is_another_one() {
    let mut rows = Rows::new(&[]);
    rows.insert(0, 5);
    rows.insert(5, 5);
    let mut source = rows.open(FOLLOW, None).expect("opened");
    rest(&mut *source, 10);
    let position = source.position().expect("a position");
    rows.sink.recover(1, &[]).expect("rolled back");
    rows.commits = 1;
    let refused = |rows: &Rows| {
        let error = rows.open(FOLLOW, Some(&position)).err().expect("refused");
        assert!(error.to_string().contains("is not as it was"), "{error}");
    };
    refused(&rows);
    rows.insert(50, 5);
    refused(&rows);
}

#[test]
fn a_table_that_is_not_there_is_named() {
    let rows = Rows::new(&[]);
    let table = rows.directory.path().join("warehouse/db.db/rows");
    std::fs::remove_dir_all(Path::new(&table)).expect("removed");
    let error = rows.open("", None).err().expect("refused");
    assert!(error.to_string().contains("there is no table `db.rows` in "), "{error}");
}

use crate::source::file::tests::Files;

const HINT: &str = "mend the row, or set on-error = \"skip\" or \"dead-letter\" in [source]";
const ROW: &str = "{\"id\": 1, \"at\": \"1970-01-01 00:00:00.005\"}\n";

fn files(rows: &str) -> Files {
    Files::new("rows.ndjson", format!("{ROW}{rows}").as_bytes())
}

#[test]
fn a_wrong_type_names_line_and_column() {
    assert_eq!(
        files("{\"id\": \"2\", \"at\": 5}\n").refused(""),
        format!("rows.ndjson:2: column `id`: `2` is no int64; {HINT}")
    );
    assert_eq!(
        files("{\"id\": [2], \"at\": 5}\n").refused(""),
        format!("rows.ndjson:2: column `id`: a list or object is no int64; {HINT}")
    );
}

#[test]
fn a_missing_member_names_line_and_column() {
    assert_eq!(
        files("{\"at\": 5}\n").refused(""),
        format!(
            "rows.ndjson:2: column `id` has no value, and the operator or event-time needs one; \
             {HINT}"
        )
    );
}

#[test]
fn a_line_that_is_no_object_is_refused() {
    assert_eq!(
        files("[1]\n").refused(""),
        format!(
            "rows.ndjson:2: no JSON object: invalid type: sequence, expected a JSON object; \
             {HINT}"
        )
    );
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    assert_eq!(
        files("{\"id\": 2, \"a").refused(""),
        format!(
            "rows.ndjson:2: the last line is not a whole JSON object, the file is cut off: no \
             JSON object: EOF while parsing a string at character 12; {HINT}"
        )
    );
}

#[test]
fn a_whole_last_line_needs_no_line_break() {
    let (rows, _) = files("{\"id\": 2, \"at\": 5}").read("").expect("read");
    assert_eq!(rows, [(1, None, 5), (2, None, 5)]);
}

#[test]
fn an_empty_file_is_refused() {
    assert_eq!(
        Files::new("rows.ndjson", b"").refused(""),
        "rows.ndjson:1: the file is empty; an NDJSON file has one JSON object a line"
    );
}

#[test]
fn blank_lines_are_skipped() {
    let files = files("\n \r\nx\n");
    assert!(files.refused("").starts_with("rows.ndjson:4: no JSON object: "));
}

#[test]
fn rejected_lines_are_kept_for_the_dead_letter_file() {
    let (rows, rejected) = files("{\"id\": 2\n{\"id\": 3, \"at\": 5}\n")
        .read("on-error = \"dead-letter\"")
        .expect("read");
    assert_eq!(rows, [(1, None, 5), (3, None, 5)]);
    assert_eq!((rejected[0].line, rejected[0].raw.as_slice()), (2, b"{\"id\": 2".as_slice()));
}

#[test]
fn a_line_longer_than_the_limit_is_set_aside() {
    let long = "n".repeat(17 << 20);
    let (rows, rejected) = files(&format!("{{\"name\": \"{long}\"}}\n{ROW}"))
        .read("on-error = \"skip\"")
        .expect("read");
    assert_eq!((rows.len(), rejected.len()), (2, 1));
    assert_eq!(rejected[0].reason, "the line is longer than 16 MiB");
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let marked = |rows: &str| Files::new("rows.ndjson", format!("\u{feff}{rows}").as_bytes());
    let (rows, _) = marked(ROW).read("").expect("read");
    assert_eq!(rows, [(1, None, 5)]);
    let files = marked(ROW);
    let source = files.open("", None).expect("opened");
    let mut source = files.open("", Some(source.position())).expect("opened");
    assert!(source.next_batch(10).expect("read").is_some());
    assert_eq!(source.position().byte_offset, 3 + ROW.len() as u64);
    let mut source = files.open("", Some(source.position())).expect("opened");
    assert!(source.next_batch(10).expect("read").is_none());
}

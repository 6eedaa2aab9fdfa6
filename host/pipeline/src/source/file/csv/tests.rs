use crate::source::file::tests::{Files, Row};

const HINT: &str = "mend the row, or set on-error = \"skip\" or \"dead-letter\" in [source]";

fn files(rows: &str) -> Files {
    Files::new("rows.csv", format!("id,name,at\n{rows}").as_bytes())
}

fn row(id: i64) -> Row {
    (id, Some("n".into()), 5)
}

#[test]
fn a_wrong_value_names_line_and_column() {
    let files = files("1,n,5\n2,n,5\nx,n,5\n");
    assert_eq!(files.refused(""), format!("rows.csv:4: column `id`: `x` is no int64; {HINT}"));
}

#[test]
fn a_missing_value_names_line_and_column() {
    assert_eq!(
        files("1,n,\n").refused(""),
        format!(
            "rows.csv:2: column `at` has no value, and the operator or event-time needs one; {HINT}"
        )
    );
}

#[test]
fn a_row_with_too_few_fields_is_refused() {
    assert_eq!(
        files("1,n\n").refused(""),
        format!("rows.csv:2: the row has 2 fields, the header has 3; {HINT}")
    );
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let files = Files::new("rows.csv", b"id,name,at\n1,\xff\xfe,5\n");
    assert_eq!(
        files.refused(""),
        format!("rows.csv:2: column `name`: `\u{fffd}\u{fffd}` is no UTF-8 text; {HINT}")
    );
}

#[test]
fn a_nul_byte_is_refused_as_damage() {
    assert_eq!(
        files("1,a\0b,5\n").refused(""),
        format!("rows.csv:2: the row has a NUL byte, so the file may be damaged; {HINT}")
    );
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    assert_eq!(
        files("1,n,5\n2,n,").refused(""),
        format!(
            "rows.csv:3: the last row has no line break, so the file may be cut off; complete it, \
             or set final-newline = \"optional\" in [source]; {HINT}"
        )
    );
}

#[test]
fn a_final_line_break_may_be_optional() {
    let (rows, _) = files("1,n,5\n2,n,5").read("final-newline = \"optional\"").expect("read");
    assert_eq!(rows, [row(1), row(2)]);
}

#[test]
fn an_empty_file_is_refused() {
    let files = Files::new("rows.csv", b"");
    assert_eq!(
        files.refused(""),
        "rows.csv:1: the file is empty; a CSV file starts with a header line"
    );
}

#[test]
fn a_file_with_only_a_header_has_no_rows() {
    assert_eq!(files("").read("").expect("read"), (vec![], vec![]));
}

#[test]
fn a_header_that_is_cut_off_is_refused() {
    let files = Files::new("rows.csv", b"id,na");
    assert_eq!(
        files.refused(""),
        "rows.csv:1: the header line has no line break: the file is cut off"
    );
}

#[test]
fn a_column_that_is_there_twice_is_refused() {
    let files = Files::new("rows.csv", b"id,name,at,id\n");
    assert_eq!(files.refused(""), "rows.csv:1: there are two columns `id`; rename one");
}

#[test]
fn an_unclosed_quote_loses_one_line_when_rows_are_skipped() {
    let (rows, rejected) =
        files("1,n,5\n2,\"n,5\n3,n,5\n").read("on-error = \"skip\"").expect("read");
    assert_eq!(rows, [row(1), row(3)]);
    assert_eq!(rejected.len(), 1);
    assert_eq!(rejected[0].line, 3);
}

#[test]
fn a_row_longer_than_the_limit_is_refused_even_when_rows_are_skipped() {
    // Each inner line could pass for a row.
    let inner = "7,n,5\n".repeat((17 << 20) / 6);
    assert_eq!(
        files(&format!("1,n,5\n2,\"{inner}\",5\n3,n,5\n")).refused("on-error = \"skip\""),
        "rows.csv:3: the row is longer than 16 MiB, so where it ends cannot be told, and it cannot \
         be skipped either; a quoted field may lack its closing quote: mend the row"
    );
}

#[test]
fn a_file_that_is_cut_short_while_it_is_read_is_refused() {
    let rows = "1,n,5\n".repeat(200_000);
    let whole = files(&rows);
    let mut source = whole.open("", None).expect("opened");
    assert!(source.next_batch(10).expect("read").is_some());
    whole.write(b"id,name,at\n");
    let error = std::iter::from_fn(|| source.next_batch(10_000).transpose()).find_map(Result::err);
    assert_eq!(
        whole.shown(&error.expect("refused")),
        format!(
            "rows.csv was cut short while it was read: it had {} bytes and has 11; bring the whole \
             file back and run again",
            rows.len() + 11
        )
    );
}

#[test]
fn rejected_rows_are_kept_as_they_are_for_the_dead_letter_file() {
    let (rows, rejected) = files("1,n,5\r\nx,\"a\nb\",5\r\n3,n,5\r\n")
        .read("on-error = \"dead-letter\"")
        .expect("read");
    assert_eq!(rows, [row(1), row(3)]);
    assert_eq!(rejected[0].raw, b"x,\"a\nb\",5");
    assert_eq!(rejected[0].reason, "column `id`: `x` is no int64");
}

#[test]
fn lines_are_counted_through_quoted_line_breaks_and_blank_lines() {
    let files = files("1,\"a\nb\",5\n\nx,n,5\n");
    assert_eq!(files.refused(""), format!("rows.csv:5: column `id`: `x` is no int64; {HINT}"));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let files = Files::new("rows.csv", b"\xef\xbb\xbfid,name,at\n1,n,5\n");
    let mut source = files.open("", None).expect("opened");
    let position = source.position();
    assert_eq!(position.byte_offset, 14);
    assert!(source.next_batch(10).expect("read").is_some());
}

#[test]
fn a_cut_off_row_that_was_set_aside_is_not_read_again_when_it_is_completed() {
    let files = files("1,n,5\n2,n,");
    let mut source = files.open("on-error = \"skip\"", None).expect("opened");
    let batch = source.next_batch(10).expect("read").expect("a batch");
    assert_eq!((batch.rows.num_rows(), batch.rejected.len()), (1, 1));
    files.write(b"id,name,at\n1,n,5\n2,n,5\n3,n,5\n");
    let mut source = files.open("on-error = \"skip\"", Some(source.position())).expect("opened");
    let batch = source.next_batch(10).expect("read").expect("a batch");
    assert_eq!((batch.rows.num_rows(), batch.rejected.len()), (1, 0));
}

#[test]
fn a_last_row_that_was_read_and_has_grown_is_refused() {
    let files = files("1,n,5");
    let optional = "final-newline = \"optional\"";
    let mut source = files.open(optional, None).expect("opened");
    assert!(source.next_batch(10).expect("read").is_some());
    files.write(b"id,name,at\n1,n,57\n");
    let error = files.open(optional, Some(source.position())).err().expect("refused");
    assert_eq!(
        files.shown(&error),
        "rows.csv has a longer last row than the checkpoint has read; bring the old file back, \
         or start afresh with --fresh"
    );
    files.write(b"id,name,at\n1,n,5\n2,n,5\n");
    let mut source = files.open(optional, Some(source.position())).expect("opened");
    let batch = source.next_batch(10).expect("read").expect("a batch");
    assert_eq!(batch.rows.num_rows(), 1);
}

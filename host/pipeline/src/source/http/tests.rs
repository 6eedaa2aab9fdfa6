use super::HttpSource;
use crate::checkpoint::SourcePosition;
use crate::config::PipelineConfig;
use crate::error::Result;
use crate::source::conformance::{check, rest};
use crate::source::{Next, Plan, Source, Wanted};
use howdah_state::{Column, ColumnType};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A port that was free just now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn open_at(port: u16, more: &str, position: Option<&SourcePosition>) -> Result<HttpSource> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("o.wasm"), "").expect("written");
    let text = format!(
        "name = \"q\"\n[source]\nconnector = \"http\"\nport = {port}\n{more}\n[source.schema]\nid = \
         \"int64\"\nname = \"utf8\"\n[operator]\nname = \"o\"\ncomponent = \"o.wasm\"\n[sink]\ntype \
         = \"null\"\n"
    );
    let config = PipelineConfig::parse(&directory.path().join("q.toml"), &text)?;
    let source = &config.sources[0];
    let shape = crate::source::inspect(source, &config.directories)?;
    let fields =
        [Column::required("id", ColumnType::Int64), Column::nullable("name", ColumnType::Utf8)];
    let wanted = fields.map(|field| {
        let column = field.name.clone();
        Wanted { field, column, line: None, node_line: 1 }
    });
    let plan = Plan::resolve(&config.file, source, &wanted, &shape)?;
    HttpSource::open(source, Arc::new(plan), position)
}

/// An open port, and its source.
fn begun(more: &str) -> (u16, HttpSource) {
    let port = free_port();
    let mut source = open_at(port, more, None).expect("opened");
    source.begin().expect("the port is open");
    (port, source)
}

const HEADERS: &str = "Content-Type: application/x-ndjson\r\n";

/// Sends a request; its status and answer.
fn request(port: u16, method: &str, headers: &str, body: &[u8]) -> (u16, Value) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connected");
    let length = body.len();
    let head = format!(
        "{method} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: \
         {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    // What is too long may be refused before it is sent.
    let _ = stream.write_all(body);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), serde_json::from_str(body).unwrap_or_default())
}

fn post(port: u16, body: &[u8]) -> (u16, Value) {
    request(port, "POST", HEADERS, body)
}

/// Sends it from another thread; the answer.
fn post_apart(port: u16, body: String) -> Receiver<(u16, Value)> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("client".to_owned())
        .spawn(move || drop(sender.send(post(port, body.as_bytes()))))
        .expect("a thread");
    receiver
}

fn rows(ids: impl IntoIterator<Item = u64>) -> String {
    ids.into_iter().fold(String::new(), |mut text, id| {
        writeln!(text, "{{\"id\": {id}, \"name\": \"n\", \"other\": []}}").expect("text");
        text
    })
}

/// Reads until there are so many rows; requests are on their way.
fn read(source: &mut HttpSource, count: usize) {
    let mut found = 0;
    while found < count {
        match source.next(2).expect("read") {
            Next::Batch(batch) => found += batch.rows.num_rows(),
            Next::Idle(_) | Next::End => std::thread::yield_now(),
        }
    }
    assert_eq!(found, count);
}

#[test]
fn rows_that_are_sent_keep_the_contract() {
    for filter in ["", "filter = { name = \"n\" }"] {
        let more = format!("acknowledge = \"received\"\n{filter}");
        // Whoever sends rows sends those again that no checkpoint has.
        let open = |position: Option<&SourcePosition>| {
            let port = free_port();
            let mut source = open_at(port, &more, position)?;
            source.begin()?;
            let read = position.map_or(0, |position| position.rows);
            for ids in [read..read.max(25), read.max(25)..40] {
                assert_eq!(post(port, rows(ids).as_bytes()).0, 200);
            }
            Ok(Box::new(source) as Box<dyn Source>)
        };
        assert_eq!(check(&open).len(), 40);
    }
}

#[test]
fn rows_are_acknowledged_when_a_checkpoint_has_them() {
    let (port, mut source) = begun("");
    let before = source.position().expect("a position");
    let answer = post_apart(port, rows(0..3));
    read(&mut source, 3);
    source.checkpoint_completed(&before).expect("heard");
    assert!(answer.try_recv().is_err(), "a checkpoint without them does not count");
    let position = source.position().expect("a position");
    source.checkpoint_completed(&position).expect("heard");
    let (status, json) = answer.recv_timeout(Duration::from_secs(60)).expect("an answer");
    assert_eq!((status, &json["rows"]), (200, &Value::from(3)));
}

#[test]
fn whoever_waits_when_the_pipeline_ends_is_told_to_send_again() {
    let (port, mut source) = begun("");
    let handed_out = post_apart(port, rows(0..3));
    read(&mut source, 3);
    let waiting = post_apart(port, rows(3..6));
    while source.shared.waiting() == 0 {
        std::thread::yield_now();
    }
    drop(source);
    for answer in [handed_out, waiting] {
        let (status, json) = answer.recv_timeout(Duration::from_secs(60)).expect("an answer");
        assert_eq!(status, 503);
        assert!(json["error"].as_str().expect("text").contains("send them again"), "{json}");
    }
    // The port is free again.
    open_at(port, "", None).expect("opened").begin().expect("the port is open");
}

#[test]
fn a_bad_row_is_named_by_line_and_column_and_nothing_of_its_body_is_taken() {
    let (port, mut source) = begun("acknowledge = \"received\"");
    for (body, line, column, said) in [
        ("{\"id\": 1}\n\n{\"id\": \"x\"}\n", 3, Some("id"), "line 3: column `id`: "),
        ("{\"id\": 1}\n{\"name\": \"n\"}", 2, Some("id"), "line 2: column `id` has no value"),
        ("{\"id\": 1}\n{\"id\": 2", 2, None, "line 2: no JSON object: "),
    ] {
        let (status, json) = post(port, body.as_bytes());
        assert_eq!(status, 400, "{json}");
        assert_eq!((&json["line"], json["column"].as_str()), (&Value::from(line), column));
        let error = json["error"].as_str().expect("text");
        assert!(error.starts_with(said) && error.ends_with("; no row was taken"), "{error}");
    }
    assert_eq!(rest(&mut source, 10), []);
    assert_eq!(post(port, b"\n").1["rows"], 0, "an empty body has no rows");
}

#[test]
fn what_is_past_a_limit_is_refused() {
    let limits =
        "acknowledge = \"received\"\nbody-bytes = 1000\nbody-rows = 10\npending-bytes = 1500";
    let (port, mut source) = begun(limits);
    let long = "x".repeat(2_000);
    let (many, some) = (rows(0..11), rows(0..10) + &" ".repeat(400));
    for (status, method, headers, body, said) in [
        (413, "POST", HEADERS, &long, "longer than 1000 bytes"),
        (413, "POST", HEADERS, &many, "more than 10 rows"),
        (415, "POST", "Content-Type: text/plain\r\n", &some, "application/x-ndjson"),
        (415, "POST", "", &some, "application/x-ndjson"),
        (405, "GET", HEADERS, &some, "by POST"),
        (403, "POST", &format!("{HEADERS}Origin: http://evil\r\n"), &some, "web pages"),
        (200, "POST", HEADERS, &some, ""),
        (429, "POST", HEADERS, &some, "1500 bytes wait for it at most"),
    ] {
        let (found, json) = request(port, method, headers, body.as_bytes());
        assert_eq!(found, status, "{json}");
        assert!(json["error"].as_str().unwrap_or_default().contains(said), "{json}");
    }
    // What was refused takes no room, nor what was read.
    read(&mut source, 10);
    assert_eq!(post(port, some.as_bytes()).0, 200);
    read(&mut source, 10);
}

#[test]
fn no_more_requests_are_under_way_than_the_limit() {
    let (port, mut source) = begun("connections = 1");
    let waiting = post_apart(port, rows(0..3));
    read(&mut source, 3);
    let (status, json) = post(port, rows(3..6).as_bytes());
    assert_eq!(status, 503);
    assert!(json["error"].as_str().expect("text").contains("1 requests are under way"), "{json}");
    let position = source.position().expect("a position");
    source.checkpoint_completed(&position).expect("heard");
    assert_eq!(waiting.recv_timeout(Duration::from_secs(60)).expect("an answer").0, 200);
}

#[test]
fn an_http_source_lacks_what_it_needs() {
    let directory = tempfile::tempdir().expect("a directory");
    let text =
        "name = \"q\"\n[source]\nconnector = \"http\"\npath = \"x\"\n[sink]\ntype = \"null\"\n";
    let error = PipelineConfig::parse(&directory.path().join("q.toml"), text).expect_err("refused");
    let error = error.to_string();
    for said in
        ["lacks `port`", "lacks `schema`", "`path` in [source] is for connector = \"file\" or"]
    {
        assert!(error.contains(said), "{said}: {error}");
    }
}

//! Checkpoints on an object store that is reached over HTTP: a server with just enough of the
//! interface of S3, in this process.

use crate::checkpoints::{quiet, request};
use crate::effort::scratch;
use crate::fixture::{Fixture, TABLE, eager, rows, scan};
use howdah_state::*;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Objects by key, `/bucket/key`.
type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Starts the server; returns its port and what it holds.
fn serve() -> (u16, Objects) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let objects = Objects::default();
    let held = objects.clone();
    let accept = move || {
        for stream in listener.incoming() {
            let (stream, objects) = (stream.unwrap(), held.clone());
            // A connection that the client gives up is no fault.
            let answer = move || while answer(&stream, &objects).is_some() {};
            std::thread::Builder::new().spawn(answer).unwrap();
        }
    };
    std::thread::Builder::new().spawn(accept).unwrap();
    (port, objects)
}

/// Answers one request; `None` when there are no more.
fn answer(stream: &TcpStream, objects: &Objects) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let mut named = lines.iter().filter_map(|line| line.split_once(':'));
        named.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    assert!(header("authorization").unwrap().contains("Credential=test-key/"), "{lines:?}");
    let mut body = vec![0; header("content-length").map_or(0, |text| text.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let mut words = lines[0].split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut objects = objects.lock().unwrap();
    let found = objects.get(path).cloned();
    let (status, more, body) = match (method, found) {
        ("GET", _) if query.contains("list-type=2") => {
            (200, String::new(), list(&objects, path, query))
        }
        ("PUT", _) => {
            objects.insert(path.to_owned(), body);
            (200, String::new(), Vec::new())
        }
        ("DELETE", _) => {
            objects.remove(path);
            (204, String::new(), Vec::new())
        }
        ("POST", _) if query.contains("delete") => {
            (200, String::new(), delete(&mut objects, path, &String::from_utf8(body).unwrap()))
        }
        (_, None) => (404, String::new(), Vec::new()),
        (_, Some(bytes)) => match header("range").and_then(|range| range.strip_prefix("bytes=")) {
            None => (200, String::new(), bytes),
            Some(range) => {
                let (from, to) = range.split_once('-').unwrap();
                let from: usize = from.parse().unwrap();
                let to = to.parse().map_or(bytes.len(), |to: usize| (to + 1).min(bytes.len()));
                let range = format!("content-range: bytes {from}-{}/{}\r\n", to - 1, bytes.len());
                (206, range, bytes[from..to].to_vec())
            }
        },
    };
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n{more}\r\n", body.len()).ok()?;
    // What a HEAD would send is only counted.
    if method == "HEAD" { Some(()) } else { stream.write_all(&body).ok() }
}

/// The objects of a bucket whose keys begin with the prefix asked for.
fn list(objects: &BTreeMap<String, Vec<u8>>, bucket: &str, query: &str) -> Vec<u8> {
    let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or("");
    let bucket = format!("{}/", bucket.trim_end_matches('/'));
    let prefix = prefix.replace("%2F", "/");
    let keys = objects.iter().filter_map(|(key, bytes)| {
        let key = key.strip_prefix(&bucket)?;
        key.starts_with(&prefix).then(|| {
            let time = "2026-01-01T00:00:00.000Z";
            let size = bytes.len();
            format!(
                "<Contents><Key>{key}</Key><LastModified>{time}</LastModified>\
                 <ETag>\"1\"</ETag><Size>{size}</Size></Contents>"
            )
        })
    });
    let keys: String = keys.collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>").into()
}

/// Removes the objects that a body names.
fn delete(objects: &mut BTreeMap<String, Vec<u8>>, bucket: &str, body: &str) -> Vec<u8> {
    let mut gone = String::new();
    for part in body.split("<Key>").skip(1) {
        let key = part.split("</Key>").next().unwrap();
        objects.remove(&format!("{}/{key}", bucket.trim_end_matches('/')));
        gone.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
    }
    format!("<DeleteResult>{gone}</DeleteResult>").into()
}

/// In a process of its own, whose environment has the credentials.
#[test]
fn checkpoint_on_s3_comes_back_in_a_fresh_warehouse() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["s3::checkpoint", "--exact", "--ignored", "--nocapture"])
        .env("AWS_ACCESS_KEY_ID", "test-key")
        .env("AWS_SECRET_ACCESS_KEY", "test-secret")
        .env_remove("AWS_ENDPOINT_URL")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "checkpoint_on_s3_comes_back_in_a_fresh_warehouse runs it in a process of its own"]
fn checkpoint() {
    let (port, objects) = serve();
    let root = scratch();
    let (warehouse, copy) = (root.path().join("a"), root.path().join("b"));
    let mut fixture = Fixture::open(&warehouse, 2, eager(), Restore::Fresh).unwrap();
    let url = format!("s3://bucket/some/prefix?region=us-east-1&endpoint=http://127.0.0.1:{port}");
    let mut store = CheckpointStore::open(CheckpointTarget::from_url(&url).unwrap()).unwrap();
    let wanted = [rows(&[(1, 10, "a"), (2, 20, "b")]), rows(&[(1, 11, "c"), (2, 20, "b")])];
    for (checkpoint, wanted) in (1..).zip(&wanted) {
        fixture.put(wanted).unwrap();
        let tables = [(TABLE.to_owned(), fixture.checkpoint(checkpoint))];
        store.checkpoint(&request(&warehouse, checkpoint, &tables), &quiet).unwrap();
    }
    store.subsume(2).unwrap();
    assert!(objects.lock().unwrap().keys().all(|key| key.starts_with("/bucket/some/prefix/")));
    drop(store);
    let mut store = CheckpointStore::open(CheckpointTarget::from_url(&url).unwrap()).unwrap();
    assert_eq!(store.list().len(), 1);
    store.verify(2, &quiet).unwrap();
    store.restore(2, &copy, &quiet).unwrap();
    assert_eq!(scan(&copy, At::Checkpoint(2)).unwrap(), wanted[1]);
    store.remove(2).unwrap();
    assert_eq!(objects.lock().unwrap().keys().cloned().collect::<Vec<_>>(), Vec::<String>::new());
}

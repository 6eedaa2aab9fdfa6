//! Rows that are sent by HTTP: what was acknowledged by a checkpoint is never lost, and comes out once.

use crate::support::{Job, Random, clock, is_full, job::quoted, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Kills of one job.
const KILLS: u64 = 5;

/// Rows of a request.
const ROWS: u64 = 20;

/// A port that was free just now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// A job whose operator emits each row it had not seen.
fn job(port: u16) -> Job {
    let mut job = Job::last_bid(Path::new(""))
        .without("source", "path")
        .without("source.filter", "event_type")
        .set("checkpoint", "interval-ms", 50)
        .set("source", "connector", quoted("http"))
        .set("source", "port", port);
    for column in ["auction", "bidder", "price", "date_time", "seq"] {
        let column_type = if column == "date_time" { "timestamp-millis" } else { "int64" };
        job = job.set("source.schema", column, quoted(column_type));
    }
    job
}

/// The rows of a request.
fn body(first: u64) -> String {
    (first..first + ROWS).fold(String::new(), |mut text, id| {
        writeln!(
            text,
            r#"{{"auction":1,"bidder":{id},"price":5,"date_time":1700000000000,"seq":{id}}}"#
        )
        .unwrap();
        text
    })
}

/// Sends a body; the status, and the answer. Fails when the other end is killed.
fn post(port: u16, body: &str) -> std::io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let length = body.len();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
         application/x-ndjson\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken_off = || std::io::Error::other("broken off");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken_off)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let json = serde_json::from_str(body).map_err(|_| broken_off())?;
    Ok((status.ok_or_else(broken_off)?, json))
}

/// Sends rows until it is told to stop: each request again until it is acknowledged. Gives the number
/// of rows that were.
fn client(port: u16, first: u64, stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let stop = Arc::clone(stop);
    let send = move || {
        let mut next = first;
        while !stop.load(Ordering::Relaxed) {
            match post(port, &body(next)) {
                Ok((200, json)) => {
                    assert_eq!(json["rows"], ROWS);
                    next += ROWS;
                }
                Ok((503, _)) | Err(_) => clock::let_run(Duration::from_millis(5)),
                Ok(other) => panic!("{other:?}"),
            }
        }
        next
    };
    std::thread::Builder::new().name("client".to_owned()).spawn(send).unwrap()
}

/// How often each row came out.
fn output(job: &Job) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let Ok(parts) = std::fs::read_dir(job.output_directory()) else { return found };
    for part in parts.map(|part| part.unwrap().path()) {
        if part.extension().is_none_or(|extension| extension != "ndjson") {
            continue;
        }
        // A restart takes away what no checkpoint has.
        let Ok(text) = std::fs::read_to_string(part) else { continue };
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            *found.entry(row["bidder"].as_u64().unwrap()).or_default() += 1;
        }
    }
    found
}

#[test]
fn what_was_acknowledged_by_a_checkpoint_outlives_kills_and_comes_out_once() {
    for seed in 0..if is_full() { 8 } else { 1 } {
        let mut random = Random::new(seed);
        let port = free_port();
        let job = job(port);
        let mut acknowledged = 0;
        for kill in 0..KILLS {
            let stop = Arc::new(AtomicBool::new(false));
            let running = job.start();
            let client = client(port, acknowledged, &stop);
            let before = output(&job).len();
            wait_for("rows", || (output(&job).len() > before).then_some(()));
            clock::let_run(Duration::from_millis(random.below(300)));
            running.kill();
            stop.store(true, Ordering::Relaxed);
            acknowledged = client.join().unwrap();
            let found = output(&job);
            let lost = (0..acknowledged).find(|id| !found.contains_key(id));
            assert_eq!(lost, None, "of {acknowledged} rows, seed {seed} kill {kill}");
        }
        // What was on its way may be there or not.
        let mut running = job.start();
        job.wait_for_checkpoint(&mut running, 1);
        running.terminate().success();
        let found = output(&job);
        assert!((0..acknowledged).all(|id| found.contains_key(&id)), "seed {seed}");
        assert!(found.keys().all(|id| *id < acknowledged + ROWS), "seed {seed}");
        assert!(found.values().all(|times| *times == 1), "seed {seed}: a row came out twice");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = format!("port {port} of 127.0.0.1 for the HTTP source");
    job(port).run(&[]).failed(1, &[&said]);
}

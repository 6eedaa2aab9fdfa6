use super::*;
use proptest::prelude::*;

/// A checkpoint of a pipeline with one state and one file.
pub(crate) fn example(id: u64) -> Checkpoint {
    Checkpoint {
        id,
        time_ms: 1_700_000_000_000,
        shape: Shape {
            pipeline: "q18".into(),
            tenant: "default".into(),
            key_groups: 1024,
            sources: vec![SourceShape {
                name: "source".into(),
                path: "events.csv".into(),
                format: "csv".into(),
                event_time: Some("date_time".into()),
                filter: vec!["event_type = 2".into()],
                schema: vec![],
            }],
            operators: vec![OperatorShape {
                name: "last-bid".into(),
                parallelism: 2,
                inputs: vec![InputShape {
                    name: Some("bids".into()),
                    from: "source".into(),
                    columns: vec!["bidder = bidder".into(), "price = price".into()],
                }],
                states: vec![StateShape {
                    state: "last".into(),
                    schema_version: 1,
                    kind: "value".into(),
                    key: vec!["bidder int64".into()],
                    map_key: vec![],
                    value: vec!["price int64".into()],
                    ttl_ms: None,
                }],
            }],
            sinks: vec![SinkShape {
                name: "sink".into(),
                from: Some("last-bid".into()),
                kind: "files".into(),
                path: Some("out".into()),
                format: "csv".into(),
            }],
        },
        sources: vec![SourceCheckpoint {
            name: "source".into(),
            position: SourcePosition {
                connector: "file".into(),
                rows: 10,
                at: serde_json::json!({
                    "byte-offset": 1_000, "lines": 11, "start": {"bytes": 1_000, "crc32": 7},
                }),
            },
            closed: false,
            watermark: Some(1_699_999_996_000),
            dead_letters: None,
        }],
        operators: vec![OperatorCheckpoint {
            name: "last-bid".into(),
            component: "ab".repeat(32),
            config_crc32: Some(7),
            watermark: Some(1_699_999_996_000),
            states: vec![StatePosition {
                state: "last".into(),
                table: "q18__last-bid__last".into(),
                snapshot: 3,
            }],
        }],
        sinks: vec![SinkCheckpoint {
            name: "sink".into(),
            connector: "files".into(),
            handles: vec![SinkHandle {
                rows: 10,
                bytes: 100,
                value: serde_json::json!({"staged": "4-0.csv", "name": "part-7-0.csv"}),
            }],
        }],
    }
}

fn listed(directory: &Path) -> Vec<(u64, bool)> {
    let entries = Checkpoints::list(directory).expect("a list");
    entries.iter().map(|entry| (entry.id, entry.checkpoint.is_ok())).collect()
}

#[test]
fn a_written_document_reads_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let checkpoints = Checkpoints::open(directory.path(), true).expect("opened");
    checkpoints.write(&example(7)).expect("written");
    let entries = Checkpoints::list(directory.path()).expect("a list");
    assert_eq!(entries[0].checkpoint.as_ref().expect("whole"), &example(7));
}

#[test]
fn another_configuration_shows_and_an_older_document_does_not_know() {
    let mut operator = example(7).operators.remove(0);
    operator.config_crc32 = Some(config_crc32("{}"));
    assert!(!operator.has_other_config("{}"));
    assert!(operator.has_other_config("{\"size\":3}"));
    operator.config_crc32 = None;
    assert!(!operator.has_other_config("{}"));
}

#[test]
fn documents_are_listed_by_number() {
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(listed(directory.path()), []);
    let checkpoints = Checkpoints::open(directory.path(), false).expect("opened");
    for id in [10, 9, 11] {
        checkpoints.write(&example(id)).expect("written");
    }
    std::fs::write(directory.path().join("checkpoints/notes.txt"), "mine").expect("written");
    assert_eq!(listed(directory.path()), [(9, true), (10, true), (11, true)]);
    checkpoints.remove(&[9, 10]).expect("removed");
    assert_eq!(listed(directory.path()), [(11, true)]);
}

#[test]
fn a_document_is_one_json_object() {
    let bytes = encode(&example(7)).expect("encoded");
    let json: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(json["howdah-checkpoint"], 2);
    assert_eq!(json["body"]["sources"][0]["position"]["at"]["byte-offset"], 1_000);
}

/// `example(7)` as version 1 wrote it.
const VERSION_1: &str = r#"{"id":7,"time-ms":1700000000000,"shape":{"pipeline":"q18","tenant":"default","source-path":"events.csv","source-format":"csv","event-time":"date_time","filter":["event_type = 2"],"schema":[],"columns":["bidder = bidder","price = price"],"parallelism":2,"key-groups":1024,"operator":"last-bid","sink":"files","sink-path":"out","sink-format":"csv","states":[{"state":"last","schema-version":1,"kind":"value","key":["bidder int64"],"value":["price int64"]}]},"component":"abababababababababababababababababababababababababababababababab","config-crc32":7,"source":{"byte-offset":1000,"rows":10,"lines":11},"source-start":{"bytes":1000,"crc32":7},"closed":false,"watermark":1699999996000,"states":[{"state":"last","table":"q18__last-bid__last","snapshot":3}],"sink":[{"staged":"4-0.csv","name":"part-7-0.csv","rows":10,"bytes":100}],"dead-letters":null}"#;

#[test]
fn a_document_of_version_1_is_read() {
    let crc32 = checksum(VERSION_1.as_bytes());
    let text = format!("{{\"howdah-checkpoint\":1,\"crc32\":\"{crc32}\",\"body\":{VERSION_1}}}\n");
    let mut expected = example(7);
    expected.shape.operators[0].inputs[0].name = None;
    expected.shape.sinks[0].from = None;
    expected.operators[0].watermark = None;
    assert_eq!(decode(Path::new("c.json"), 7, text.as_bytes()).expect("read"), expected);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = encode(&example(7)).expect("encoded");
    for byte in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 1 << bit;
            let error = decode(Path::new("c.json"), 7, &damaged).expect_err("damaged");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {byte}, bit {bit}");
        }
    }
}

#[test]
fn a_newer_version_is_refused_as_such() {
    let bytes = encode(&example(7)).expect("encoded");
    let text = String::from_utf8(bytes).expect("text").replacen(":2,", ":3,", 1);
    let error = decode(Path::new("c.json"), 7, text.as_bytes()).expect_err("newer");
    assert_eq!(
        error.to_string(),
        "the checkpoint document c.json has format version 3, newer than this howdah, which \
         reads 2; use a newer howdah"
    );
}

#[test]
fn a_document_under_another_number_is_refused() {
    let bytes = encode(&example(7)).expect("encoded");
    assert!(decode(Path::new("c.json"), 8, &bytes).is_err());
}

#[test]
fn what_a_crash_left_half_written_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    Checkpoints::open(directory.path(), false).expect("opened");
    let half = directory.path().join("checkpoints/checkpoint-8.tmp");
    std::fs::write(&half, "{\"howdah").expect("written");
    assert_eq!(listed(directory.path()), []);
    Checkpoints::open(directory.path(), false).expect("opened");
    assert!(!half.exists());
}

proptest! {
    #[test]
    fn a_document_that_was_cut_off_is_refused(keep in 0.0..1.0_f64) {
        let bytes = encode(&example(7)).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 1.0")]
        let length = (bytes.len() as f64 * keep) as usize;
        prop_assert!(decode(Path::new("c.json"), 7, &bytes[..length]).is_err());
    }
}

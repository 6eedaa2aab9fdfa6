//! Documents of version 1, of pipelines with one source, one operator and one sink.

use super::{
    DeadLetterPosition, InputShape, OperatorCheckpoint, OperatorShape, SinkCheckpoint, SinkHandle,
    SinkShape, SourceCheckpoint, SourcePosition, SourceShape, StatePosition, StateShape,
};
use serde::Deserialize;
use serde_json::json;

/// What was a checkpoint.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Checkpoint {
    id: u64,
    time_ms: u64,
    shape: Shape,
    component: String,
    #[serde(default)]
    config_crc32: Option<u32>,
    source: FilePosition,
    source_start: FileStart,
    closed: bool,
    watermark: Option<i64>,
    states: Vec<StatePosition>,
    sink: Vec<File>,
    dead_letters: Option<DeadLetterPosition>,
}

/// Where the source, a file, was.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FilePosition {
    byte_offset: u64,
    rows: u64,
    lines: u64,
}

/// How it started.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FileStart {
    bytes: u64,
    crc32: u32,
}

/// A file of the sink.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    staged: String,
    name: String,
    rows: u64,
    bytes: u64,
}

/// What was the shape of a pipeline.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Shape {
    pipeline: String,
    tenant: String,
    source_path: String,
    source_format: String,
    event_time: Option<String>,
    filter: Vec<String>,
    schema: Vec<String>,
    columns: Vec<String>,
    parallelism: u32,
    key_groups: u32,
    operator: String,
    sink: String,
    sink_path: Option<String>,
    sink_format: String,
    states: Vec<StateShape>,
}

/// The nodes have the names that they have in the short form of a pipeline file.
impl From<Checkpoint> for super::Checkpoint {
    fn from(old: Checkpoint) -> Self {
        let operator = old.shape.operator.clone();
        let connector = old.shape.sink.clone();
        let FilePosition { byte_offset, rows, lines } = old.source;
        let FileStart { bytes, crc32 } = old.source_start;
        let start = json!({"bytes": bytes, "crc32": crc32});
        let handle = |file: File| SinkHandle {
            rows: file.rows,
            bytes: file.bytes,
            value: json!({"staged": file.staged, "name": file.name}),
        };
        Self {
            id: old.id,
            time_ms: old.time_ms,
            shape: old.shape.into(),
            sources: vec![SourceCheckpoint {
                name: "source".to_owned(),
                position: SourcePosition {
                    connector: "file".to_owned(),
                    rows,
                    at: json!({"byte-offset": byte_offset, "lines": lines, "start": start}),
                },
                closed: old.closed,
                watermark: old.watermark,
                dead_letters: old.dead_letters,
            }],
            operators: vec![OperatorCheckpoint {
                name: operator,
                component: old.component,
                config_crc32: old.config_crc32,
                watermark: None,
                states: old.states,
            }],
            sinks: vec![SinkCheckpoint {
                name: "sink".to_owned(),
                connector,
                handles: old.sink.into_iter().map(handle).collect(),
            }],
        }
    }
}

impl From<Shape> for super::Shape {
    fn from(old: Shape) -> Self {
        Self {
            pipeline: old.pipeline,
            tenant: old.tenant,
            key_groups: old.key_groups,
            sources: vec![SourceShape {
                name: "source".to_owned(),
                path: old.source_path,
                format: old.source_format,
                event_time: old.event_time,
                filter: old.filter,
                schema: old.schema,
            }],
            operators: vec![OperatorShape {
                name: old.operator,
                parallelism: old.parallelism,
                inputs: vec![InputShape {
                    name: None,
                    from: "source".to_owned(),
                    columns: old.columns,
                }],
                states: old.states,
            }],
            sinks: vec![SinkShape {
                name: "sink".to_owned(),
                from: None,
                kind: old.sink,
                path: old.sink_path,
                format: old.sink_format,
            }],
        }
    }
}

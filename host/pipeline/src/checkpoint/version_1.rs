//! Documents of version 1, of pipelines with one source, one operator and one sink.

use super::{
    DeadLetterPosition, InputShape, OperatorCheckpoint, OperatorShape, SinkCheckpoint, SinkFile,
    SinkShape, SourceCheckpoint, SourcePosition, SourceShape, SourceStart, StatePosition,
    StateShape,
};
use serde::Deserialize;

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
    source: SourcePosition,
    source_start: SourceStart,
    closed: bool,
    watermark: Option<i64>,
    states: Vec<StatePosition>,
    sink: Vec<SinkFile>,
    dead_letters: Option<DeadLetterPosition>,
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
        Self {
            id: old.id,
            time_ms: old.time_ms,
            shape: old.shape.into(),
            sources: vec![SourceCheckpoint {
                name: "source".to_owned(),
                position: old.source,
                start: old.source_start,
                closed: old.closed,
                watermark: old.watermark,
                dead_letters: old.dead_letters,
            }],
            operators: vec![OperatorCheckpoint {
                name: operator,
                component: old.component,
                config_crc32: old.config_crc32,
                states: old.states,
            }],
            sinks: vec![SinkCheckpoint { name: "sink".to_owned(), files: old.sink }],
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

//! A build that sends no traces.

use super::TraceArgs;
use crate::failure::{Failure, Result};
use howdah_pipeline::PipelineConfig;
use tracing_subscriber::layer::Identity;

/// There are none.
pub(crate) enum Traces {}

impl Traces {
    /// Refuses to send any. What the environment says is for builds that do.
    pub(crate) fn start(args: &TraceArgs, _: &PipelineConfig) -> Result<Option<Self>> {
        match args.otlp_endpoint {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "--otlp-endpoint: this howdah was built without traces; build it with \
                 `cargo build --release --features opentelemetry`, or leave --otlp-endpoint out",
            )),
        }
    }

    /// Takes the spans.
    pub(crate) fn layer(&self) -> Identity {
        match *self {}
    }
}

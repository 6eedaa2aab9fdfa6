//! The spans of a run, sent as OpenTelemetry traces: in builds with the feature `opentelemetry`.

#[cfg(not(feature = "opentelemetry"))]
mod absent;
#[cfg(feature = "opentelemetry")]
mod otlp;

#[cfg(not(feature = "opentelemetry"))]
pub(crate) use absent::Traces;
#[cfg(feature = "opentelemetry")]
pub(crate) use otlp::Traces;

/// Where traces go.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TraceArgs {
    /// Send traces of checkpoints, restarts and changes there, by OTLP over HTTP: the URL without
    /// /v1/traces (default: $OTEL_EXPORTER_OTLP_ENDPOINT). Needs a build with the feature
    /// `opentelemetry`
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
}

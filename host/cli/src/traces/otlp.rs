//! Sends spans by OTLP over HTTP, from a thread of its own.

use super::TraceArgs;
use crate::environment;
use crate::failure::{Failure, Result};
use anyhow::{Context, anyhow};
use howdah_pipeline::PipelineConfig;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use reqwest::Url;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::registry::LookupSpan;

/// Spans that wait to be sent; more are dropped.
const QUEUE_LIMIT: usize = 2_048;

/// Spans of one request.
const BATCH_LIMIT: usize = 512;

/// How long one request may take, with what is tried again.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of a run waits for the last spans to be sent.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(3);

/// The traces of a run. Dropping it sends what is left.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Begins to send traces, if somebody said where to.
    pub(crate) fn start(args: &TraceArgs, config: &PipelineConfig) -> Result<Option<Self>> {
        let (origin, endpoint) = match (&args.otlp_endpoint, environment::otlp_endpoint()) {
            (Some(endpoint), _) => ("--otlp-endpoint", endpoint.clone()),
            (None, Some(endpoint)) => (environment::OTLP_ENDPOINT, endpoint),
            (None, None) => return Ok(None),
        };
        let url = url_of_traces(&endpoint)
            .map_err(|why| Failure::usage(format!("{origin}: `{endpoint}` {why}")))?;
        let exporter = Teller { exporter: exporter(&url)?, url, told: AtomicBool::new(false) };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_LIMIT)
            .with_max_export_batch_size(BATCH_LIMIT)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource(config))
            .build();
        Ok(Some(Self { provider }))
    }

    /// Takes the spans of howdah, and no events: a log may quote rows.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let is_ours =
            |metadata: &Metadata<'_>| metadata.is_span() && metadata.target().starts_with("howdah");
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("howdah"))
            .with_location(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(FilterFn::new(is_ours).with_max_level_hint(Level::DEBUG))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // An endpoint that cannot be reached has been told of, and is no error here.
        if self.provider.shutdown_with_timeout(SHUTDOWN_LIMIT).is_err() {
            tracing::warn!("the last traces were not sent within {SHUTDOWN_LIMIT:?}");
        }
    }
}

/// What all spans are of.
fn resource(config: &PipelineConfig) -> Resource {
    // What $OTEL_RESOURCE_ATTRIBUTES says is there, too.
    Resource::builder()
        .with_service_name("howdah")
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("howdah.pipeline", config.name.clone()),
            KeyValue::new("howdah.tenant", config.tenant.clone()),
        ])
        .build()
}

/// Where traces go at an endpoint, or what is wrong with it.
fn url_of_traces(endpoint: &str) -> Result<Url, String> {
    let trimmed = endpoint.trim().trim_end_matches('/');
    let url = Url::parse(&format!("{trimmed}/v1/traces"));
    let url = url.map_err(|error| format!("is no URL ({error}); write http://localhost:4318"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err("is not of http or https; write http://localhost:4318".to_owned()),
    }
}

fn exporter(url: &Url) -> Result<opentelemetry_otlp::SpanExporter> {
    // Another part of the program may have chosen before: that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::blocking::Client::builder().timeout(EXPORT_TIMEOUT).build();
    let client = client.context("cannot make an HTTP client for traces")?;
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(url.as_str())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build();
    exporter.map_err(|error| Failure::Failed(anyhow!("cannot set traces up: {error}")))
}

/// Sends spans, and tells once when they do not arrive: nothing else depends on it.
#[derive(Debug)]
struct Teller {
    exporter: opentelemetry_otlp::SpanExporter,
    url: Url,
    told: AtomicBool,
}

impl SpanExporter for Teller {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        if let Err(error) = &exported
            && !self.told.swap(true, Ordering::Relaxed)
        {
            let url = &self.url;
            tracing::warn!(
                "traces do not arrive at {url}: {error}; the pipeline goes on, and this is \
                            not said again"
            );
        }
        exported
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_of_http() {
        for (endpoint, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://otlp.example/otlp/", "https://otlp.example/otlp/v1/traces"),
        ] {
            assert_eq!(url_of_traces(endpoint).unwrap().as_str(), url);
        }
        for endpoint in ["localhost:4318", "", "4318", "grpc://localhost:4317"] {
            assert!(url_of_traces(endpoint).is_err(), "{endpoint}");
        }
    }
}

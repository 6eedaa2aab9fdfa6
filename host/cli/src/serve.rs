//! The HTTP port of a run: figures for Prometheus, and whether the run is well.
//!
//! It listens on the loopback address alone: whoever is to reach it from elsewhere puts a proxy
//! before it, which knows who may.

mod labels;

use crate::environment;
use crate::failure::Result;
use anyhow::{Context, anyhow};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use howdah_pipeline::PipelineConfig;
use labels::Labelled;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// A run that has not looked after its pipeline for so long is not well.
const UNWELL_AFTER: Duration = Duration::from_secs(30);

/// Bounds of the histograms, in seconds.
const BUCKETS_SECONDS: [f64; 14] =
    [0.000_01, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// What is told of the run. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Milliseconds after [`STARTED`].
    looked_after_ms: AtomicU64,
    ready: AtomicBool,
}

static STARTED: LazyLock<Instant> = LazyLock::new(environment::now);

impl Health {
    /// The run looks after its pipeline, which runs, or is about to.
    pub(crate) fn tell(&self, ready: bool) {
        self.shared.looked_after_ms.store(now_ms(), Ordering::Relaxed);
        self.shared.ready.store(ready, Ordering::Relaxed);
    }

    fn is_well(&self) -> bool {
        let looked_after_ms = self.shared.looked_after_ms.load(Ordering::Relaxed);
        u128::from(now_ms().saturating_sub(looked_after_ms)) < UNWELL_AFTER.as_millis()
    }
}

fn now_ms() -> u64 {
    u64::try_from(environment::now().duration_since(*STARTED).as_millis()).unwrap_or(u64::MAX)
}

/// Begins to answer on a port of the loopback address; 0: any that is free. Says which. To be called
/// before anything reports a figure.
pub(crate) fn start(port: u16, config: &PipelineConfig, health: Health) -> Result<SocketAddr> {
    health.tell(false);
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS_SECONDS)
        .map_err(|error| anyhow!("cannot set figures up: {error}"))?
        .add_global_label("tenant", &config.tenant)
        .add_global_label("pipeline", &config.name)
        .build_recorder();
    let figures = recorder.handle();
    metrics::set_global_recorder(Labelled(recorder))
        .map_err(|error| anyhow!("cannot set figures up: {error}"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listen = || -> std::io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (listener, address) = listen().with_context(|| {
        format!("cannot listen on {address}; choose another port with --http-port")
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("cannot start the HTTP port")?;
    let thread = std::thread::Builder::new().name("howdah-http".to_owned());
    let serve = async move {
        let router = Router::new()
            .route("/metrics", get(metrics).with_state(figures))
            .route("/healthz", get(healthz).with_state(health.clone()))
            .route("/readyz", get(readyz).with_state(health));
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router).await
    };
    let run = move || {
        if let Err(error) = runtime.block_on(serve) {
            tracing::error!(%error, "the HTTP port has failed");
        }
    };
    thread.spawn(run).context("cannot start the HTTP port")?;
    Ok(address)
}

async fn metrics(State(figures): State<PrometheusHandle>) -> impl IntoResponse {
    figures.run_upkeep();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], figures.render())
}

/// Whether somebody looks after the pipeline: a process for which that is not so should be killed.
async fn healthz(State(health): State<Health>) -> (StatusCode, &'static str) {
    match health.is_well() {
        true => (StatusCode::OK, "well\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "stuck\n"),
    }
}

/// Whether the pipeline runs: not while it starts, or waits for a restart.
async fn readyz(State(health): State<Health>) -> (StatusCode, &'static str) {
    match health.shared.ready.load(Ordering::Relaxed) {
        true => (StatusCode::OK, "runs\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "does not run yet\n"),
    }
}

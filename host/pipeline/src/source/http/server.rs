//! The port: takes bodies within limits, and answers when they are done with.

use super::body::{BadBody, BodyReader};
use crate::config::{Acknowledge, HttpConfig};
use crate::error::{Error, Result};
use crate::source::SourceBatch;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use futures::channel::oneshot;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How long a body may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long answers may take that are given while the port is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// What a body is. Web pages cannot send that to another origin unasked.
const CONTENT_TYPE: &str = "application/x-ndjson";

/// Tells a request that a checkpoint has its rows.
pub(super) type Done = oneshot::Sender<()>;

/// A body that was taken.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) batch: SourceBatch,
    /// `None`: nobody waits.
    pub(super) done: Option<Done>,
    /// Given back when the rows are handed out.
    _pending: Share,
}

/// What the port and the source have in common.
#[derive(Debug)]
pub(super) struct Shared {
    config: HttpConfig,
    reader: BodyReader,
    /// `None`: nothing is taken any more.
    queue: Mutex<Option<VecDeque<Received>>>,
    pending_bytes: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

/// A part of what is limited, which is given back when it is dropped.
#[derive(Debug)]
struct Share {
    of: Arc<AtomicUsize>,
    taken: usize,
}

impl Share {
    fn none(of: &Arc<AtomicUsize>) -> Self {
        Self { of: Arc::clone(of), taken: 0 }
    }

    /// Takes more; `false`: there is not so much.
    fn take(&mut self, more: usize, limit: usize) -> bool {
        let sum = |taken: usize| taken.checked_add(more).filter(|sum| *sum <= limit);
        let took = self.of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok();
        self.taken += if took { more } else { 0 };
        took
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn new(config: HttpConfig, reader: BodyReader) -> Self {
        Self {
            config,
            reader,
            queue: Mutex::new(Some(VecDeque::new())),
            pending_bytes: Arc::default(),
            requests: Arc::default(),
        }
    }

    /// The body that came first.
    pub(super) fn take(&self) -> Option<Received> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.pop_front()
    }

    /// Takes no more, and lets go of what was not handed out.
    pub(super) fn close(&self) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// `false`: it is closed.
    fn push(&self, received: Received) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.as_mut().map(|queue| queue.push_back(received)).is_some()
    }

    /// Bodies that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.queue.lock().expect("the queue").as_ref().map_or(0, VecDeque::len)
    }
}

/// The thread of the port; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, shared.config.port));
        let place = format!("port {} of 127.0.0.1 for the HTTP source", address.port());
        let failed = |error| Error::io("open", Path::new(&place), error);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let serve = async move {
            let router = Router::new().fallback(take).with_state(shared);
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let stop = is_stopped(stopped.clone());
            let served = axum::serve(listener, router).with_graceful_shutdown(stop);
            let served = tokio::spawn(served.into_future());
            is_stopped(stopped).await;
            // Who does not read answers is not waited for.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, served).await;
            Ok::<(), std::io::Error>(())
        };
        let run = move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!(%error, "the port of an HTTP source has failed");
            }
        };
        let thread = std::thread::Builder::new().name("howdah-http-source".to_owned()).spawn(run);
        Ok(Self { stop, thread: Some(thread.map_err(failed)?) })
    }
}

async fn is_stopped(mut stopped: watch::Receiver<bool>) {
    // The sender is dropped when it has stopped, too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            // It says itself what has failed.
            let _ = thread.join();
        }
    }
}

/// Why a request is not taken.
#[derive(Debug)]
enum Refusal {
    Method,
    FromWebPage,
    ContentType,
    TooManyRequests { limit: usize },
    TooLong { limit: usize },
    TooMuchPending { limit: usize },
    TooSlow,
    BrokenOff,
    Bad(BadBody),
    Stopped,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::FromWebPage => StatusCode::FORBIDDEN,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooManyRequests { .. } | Self::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLong { .. } | Self::Bad(BadBody::TooManyRows { .. }) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::TooMuchPending { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BrokenOff | Self::Bad(BadBody::Row { .. }) => StatusCode::BAD_REQUEST,
            Self::Bad(BadBody::Internal(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn to_json(&self) -> Value {
        let error = match self {
            Self::Bad(bad) => return bad.to_json(),
            Self::Method => "rows are sent by POST".to_owned(),
            Self::FromWebPage => "requests of web pages are not taken".to_owned(),
            Self::ContentType => {
                format!("the body must be NDJSON; send Content-Type: {CONTENT_TYPE}")
            }
            Self::TooManyRequests { limit } => {
                format!("{limit} requests are under way; try again later, or raise connections")
            }
            Self::TooLong { limit } => format!(
                "the body is longer than {limit} bytes; send fewer rows at a time, or raise body-bytes"
            ),
            Self::TooMuchPending { limit } => format!(
                "the pipeline is behind: {limit} bytes wait for it at most; try again later, or \
                 raise pending-bytes"
            ),
            Self::TooSlow => {
                format!("the body did not come within {} s", BODY_TIMEOUT.as_secs())
            }
            Self::BrokenOff => "the body was broken off".to_owned(),
            Self::Stopped => {
                "the pipeline has stopped before a checkpoint had these rows; send them again"
                    .to_owned()
            }
        };
        json!({ "error": error })
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = answer(self.status(), &self.to_json());
        if matches!(
            self,
            Self::TooManyRequests { .. } | Self::TooMuchPending { .. } | Self::Stopped
        ) {
            let second = header::HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, second);
        }
        response
    }
}

fn answer(status: StatusCode, json: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{json}\n")).into_response()
}

/// A request with rows.
async fn take(
    State(shared): State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if method != Method::POST {
        return Err(Refusal::Method);
    }
    check_sender(&headers)?;
    let limit = shared.config.connections;
    let mut request = Share::none(&shared.requests);
    if !request.take(1, limit) {
        return Err(Refusal::TooManyRequests { limit });
    }
    let received = tokio::time::timeout(BODY_TIMEOUT, receive(&shared, body)).await;
    let (body, pending) = received.map_err(|_| Refusal::TooSlow)??;
    let batch = shared.reader.read(&body, shared.config.body_rows).map_err(Refusal::Bad)?;
    drop(body);
    let rows = u64::try_from(batch.rows.num_rows()).unwrap_or(u64::MAX) + batch.filtered;
    let taken = answer(StatusCode::OK, &json!({ "rows": rows }));
    if rows == 0 {
        return Ok(taken);
    }
    let (done, waits) = oneshot::channel();
    let at_once = shared.config.acknowledge == Acknowledge::Received;
    let done = (!at_once).then_some(done);
    if !shared.push(Received { batch, done, _pending: pending }) {
        return Err(Refusal::Stopped);
    }
    if !at_once {
        waits.await.map_err(|_| Refusal::Stopped)?;
    }
    Ok(taken)
}

/// Refuses what web pages can be made to send: this port asks nobody for a password.
fn check_sender(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(header::ORIGIN) {
        return Err(Refusal::FromWebPage);
    }
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let stated = stated.and_then(|stated| stated.split(';').next()).unwrap_or_default();
    if stated.trim().eq_ignore_ascii_case(CONTENT_TYPE) {
        Ok(())
    } else {
        Err(Refusal::ContentType)
    }
}

/// The body, and its share of what may be pending.
async fn receive(shared: &Shared, body: Body) -> Result<(Vec<u8>, Share), Refusal> {
    let (limit, pending_limit) = (shared.config.body_bytes, shared.config.pending_bytes);
    let mut pending = Share::none(&shared.pending_bytes);
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Refusal::BrokenOff)?;
        if bytes.len() + chunk.len() > limit {
            return Err(Refusal::TooLong { limit });
        }
        if !pending.take(chunk.len(), pending_limit) {
            return Err(Refusal::TooMuchPending { limit: pending_limit });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, pending))
}

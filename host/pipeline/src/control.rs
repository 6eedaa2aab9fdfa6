//! Orders to a running pipeline, through a Unix socket in its state directory.
//!
//! A client connects and sends one JSON object on one line; the answer is one, too:
//!
//! ```json
//! {"howdah-control":1,"order":"savepoint","directory":"/backup/monday"}
//! {"ok":{"checkpoint":41}}
//! {"error":"there is no operator `x`"}
//! ```
//!
//! Whoever may write to the state directory may give orders: the socket has the rights of its owner
//! alone.

use crate::clock;
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crossbeam_channel::{Receiver, Sender, bounded};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The socket in a state directory.
pub(crate) const SOCKET: &str = "control.sock";
/// The version of the protocol.
const VERSION: u32 = 1;
/// The longest order.
const ORDER_LIMIT_BYTES: u64 = 4 << 20;
/// The longest answer.
const ANSWER_LIMIT_BYTES: u64 = 16 << 20;
/// How long a client may take to send its order, all of it.
const ORDER_TIMEOUT: Duration = Duration::from_secs(2);
/// Before the next attempt when no connection can be taken: file handles may be used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Orders that wait for whoever runs the pipeline.
const ORDERS_LIMIT: usize = 16;

/// What somebody wants of a running pipeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum ControlRequest {
    /// Say how it is.
    Status,
    /// Make a checkpoint now.
    Checkpoint,
    /// Make a checkpoint now and write a savepoint of it.
    Savepoint {
        /// A directory that is not there yet, from the root.
        directory: PathBuf,
    },
    /// Stop at a checkpoint.
    Stop {
        /// End as if the input were at its end: timers fire, windows close.
        drain: bool,
        /// Write a savepoint of that checkpoint to this directory.
        savepoint: Option<PathBuf>,
    },
    /// Stop at a checkpoint and go on with another pipeline file: the one that it runs is replaced by
    /// it once a checkpoint is complete, or else the pipeline goes back to it.
    Replace {
        /// The new text of the pipeline file.
        text: String,
    },
}

/// An order as it is sent.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    #[serde(rename = "howdah-control")]
    version: u32,
    #[serde(flatten)]
    request: ControlRequest,
}

/// An answer as it is sent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Ok(serde_json::Value),
    Error(String),
}

/// Takes orders for whoever runs a pipeline. The socket goes when it is dropped.
#[derive(Debug)]
pub struct ControlServer {
    socket: PathBuf,
    /// Which file it is: another process may have put its own there.
    inode: u64,
    requests: Receiver<(ControlRequest, Responder)>,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Begins to listen. The lock on the state directory must be held, so that a socket that is there
    /// is one that a dead process left.
    ///
    /// # Errors
    /// [`ErrorKind::Storage`] when the socket cannot be made.
    pub fn open(state_directory: &Path) -> Result<Self> {
        let socket = state_directory.join(SOCKET);
        directory::remove(&socket)?;
        let failed = |error| Error::io("listen on", &socket, error);
        let listener = at_socket(state_directory, |path| UnixListener::bind(path));
        let listener = listener.map_err(failed)?;
        let metadata = std::fs::symlink_metadata(&socket).map_err(failed)?;
        std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o600)).map_err(failed)?;
        let (sender, requests) = bounded(ORDERS_LIMIT);
        let closed = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&closed);
        let thread = clock::spawn("howdah-control", move || listen(&listener, &sender, &until))?;
        let inode = metadata.ino();
        Ok(Self { socket, inode, requests, closed, thread: Some(thread) })
    }

    /// The orders, each with who wants to hear what came of it.
    pub fn requests(&self) -> &Receiver<(ControlRequest, Responder)> {
        &self.requests
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        let own = std::fs::symlink_metadata(&self.socket).is_ok_and(|it| it.ino() == self.inode);
        if own && let Some(directory) = self.socket.parent() {
            // Wakes the thread.
            let _ = at_socket(directory, |path| UnixStream::connect(path));
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
            let _ = std::fs::remove_file(&self.socket);
        }
    }
}

/// Takes orders, one connection after the other, until the server is closed.
fn listen(
    listener: &UnixListener,
    requests: &Sender<(ControlRequest, Responder)>,
    closed: &AtomicBool,
) {
    while !closed.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::park_timeout(ACCEPT_PAUSE);
            continue;
        };
        if closed.load(Ordering::Acquire) {
            return;
        }
        let responder = Responder { stream: Some(stream) };
        match responder.read() {
            Ok(request) => {
                // When too many wait, or nobody runs the pipeline, the client hears it.
                if let Err(refused) = requests.try_send((request, responder)) {
                    let (_, responder) = refused.into_inner();
                    responder.refuse("the pipeline is busy; try again");
                }
            }
            Err(problem) => responder.refuse(&problem),
        }
    }
}

/// Tells a client what came of its order. Dropped without an answer, it says that the pipeline has
/// ended.
#[derive(Debug)]
pub struct Responder {
    stream: Option<UnixStream>,
}

impl Responder {
    /// It was done.
    pub fn answer(mut self, answer: &impl Serialize) {
        match serde_json::to_value(answer) {
            Ok(value) => self.send(&Answer::Ok(value)),
            Err(error) => self.send(&Answer::Error(error.to_string())),
        }
    }

    /// It was not done, and why.
    pub fn refuse(mut self, why: &str) {
        self.send(&Answer::Error(why.to_owned()));
    }

    fn read(&self) -> std::result::Result<ControlRequest, String> {
        let unreadable = |error: std::io::Error| format!("the order cannot be read: {error}");
        let Some(stream) = &self.stream else { return Err("there is no order".to_owned()) };
        let stream = Timed { stream, until: clock::now() + ORDER_TIMEOUT };
        stream.stream.set_write_timeout(Some(ORDER_TIMEOUT)).map_err(unreadable)?;
        let mut line = String::new();
        let mut reader = BufReader::new(stream.take(ORDER_LIMIT_BYTES));
        reader.read_line(&mut line).map_err(unreadable)?;
        let envelope: Envelope = serde_json::from_str(&line)
            .map_err(|error| format!("the order is none that this howdah knows: {error}"))?;
        if envelope.version != VERSION {
            return Err(format!(
                "the order is of version {}, and this pipeline takes version {VERSION}; use the \
                 howdah that runs it",
                envelope.version
            ));
        }
        Ok(envelope.request)
    }

    fn send(&mut self, answer: &Answer) {
        let Some(mut stream) = self.stream.take() else { return };
        let Ok(mut line) = serde_json::to_vec(answer) else { return };
        line.push(b'\n');
        // A client that has gone away does not want to know.
        let _ = stream.write_all(&line);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.send(&Answer::Error("the pipeline ended before it was done".to_owned()));
    }
}

/// Reads until a point in time, however little comes at once.
struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

/// Gives orders to the pipeline of a state directory.
#[derive(Debug)]
pub struct ControlClient {
    stream: UnixStream,
    state_directory: PathBuf,
}

impl ControlClient {
    /// Reaches the process that runs the pipeline; `None`: it does not run.
    ///
    /// # Errors
    /// [`ErrorKind::Storage`] when the socket is there and cannot be used.
    pub fn connect(state_directory: &Path) -> Result<Option<Self>> {
        use std::io::ErrorKind as Io;
        match at_socket(state_directory, |path| UnixStream::connect(path)) {
            Ok(stream) => Ok(Some(Self { stream, state_directory: state_directory.to_owned() })),
            // Nobody listens at the socket that a dead process left.
            Err(error) if matches!(error.kind(), Io::NotFound | Io::ConnectionRefused) => Ok(None),
            Err(error) => Err(Error::io("reach", &state_directory.join(SOCKET), error)),
        }
    }

    /// Gives an order and waits until it is done, however long that takes.
    ///
    /// # Errors
    /// [`ErrorKind::Incompatible`] with the pipeline's own words when it was not done.
    pub fn order<T: DeserializeOwned>(mut self, request: ControlRequest) -> Result<T> {
        let path = self.state_directory.join(SOCKET);
        let mut line = serde_json::to_vec(&Envelope { version: VERSION, request })
            .map_err(|error| Error::internal(format!("an order is no JSON: {error}")))?;
        line.push(b'\n');
        if u64::try_from(line.len()).unwrap_or(u64::MAX) > ORDER_LIMIT_BYTES {
            let message = format!("the order is longer than {ORDER_LIMIT_BYTES} bytes");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let failed = |error| Error::io("reach", &path, error);
        self.stream.write_all(&line).map_err(failed)?;
        let mut answer = String::new();
        let mut reader = BufReader::new(self.stream.take(ANSWER_LIMIT_BYTES));
        reader.read_line(&mut answer).map_err(failed)?;
        let unclear = |error: serde_json::Error| {
            Error::new(
                ErrorKind::Incompatible,
                format!(
                    "the process at {} gave no answer that this howdah knows ({error}); it may \
                     have ended",
                    path.display()
                ),
            )
        };
        match serde_json::from_str(&answer).map_err(unclear)? {
            Answer::Ok(value) => serde_json::from_value(value).map_err(unclear),
            Answer::Error(why) => Err(Error::new(ErrorKind::Incompatible, why)),
        }
    }
}

/// Calls `with` with a path of the socket that is short enough for the system.
fn at_socket<T>(
    state_directory: &Path,
    with: impl FnOnce(&Path) -> std::io::Result<T>,
) -> std::io::Result<T> {
    let directory = File::open(state_directory)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let directory_path = if short.exists() { short.as_path() } else { state_directory };
    with(&directory_path.join(SOCKET))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Answers one order.
    fn answered(directory: &Path, answer: impl FnOnce(ControlRequest, Responder) + Send) -> String {
        let server = ControlServer::open(directory).expect("a server");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (request, responder) = server.requests().recv().expect("an order");
                answer(request, responder);
            });
            let client = ControlClient::connect(directory).expect("reached").expect("it runs");
            let answer = client.order::<serde_json::Value>(ControlRequest::Checkpoint);
            answer.map_or_else(|error| error.to_string(), |value| value.to_string())
        })
    }

    #[test]
    fn an_order_is_answered() {
        let directory = tempfile::tempdir().expect("a directory");
        let answer = answered(directory.path(), |request, responder| {
            assert_eq!(request, ControlRequest::Checkpoint);
            responder.answer(&json!({ "checkpoint": 7 }));
        });
        assert_eq!(answer, "{\"checkpoint\":7}");
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_pipeline() {
        let directory = tempfile::tempdir().expect("a directory");
        let answer = answered(directory.path(), |_, responder| responder.refuse("not today"));
        assert_eq!(answer, "not today");
    }

    #[test]
    fn an_order_that_nobody_answers_is_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let answer = answered(directory.path(), |_, responder| drop(responder));
        assert_eq!(answer, "the pipeline ended before it was done");
    }

    #[test]
    fn a_pipeline_that_does_not_run_is_not_reached() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(ControlClient::connect(directory.path()).expect("no error").is_none());
        // What a process leaves that is killed.
        drop(UnixListener::bind(directory.path().join(SOCKET)).expect("bound"));
        assert!(ControlClient::connect(directory.path()).expect("no error").is_none());
        let server = ControlServer::open(directory.path()).expect("it takes its place");
        drop(server);
        assert!(!directory.path().join(SOCKET).exists());
    }

    #[test]
    fn a_path_that_is_longer_than_a_socket_may_have_is_no_problem() {
        let directory = tempfile::tempdir().expect("a directory");
        let deep = directory.path().join("a".repeat(100)).join("b".repeat(100));
        std::fs::create_dir_all(&deep).expect("made");
        let answer = answered(&deep, |_, responder| responder.answer(&1));
        assert_eq!(answer, "1");
    }

    #[test]
    fn garbage_is_refused_and_the_next_order_is_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let server = ControlServer::open(directory.path()).expect("a server");
        for (garbage, said) in [
            ("\n", "the order is none that this howdah knows"),
            ("{\"howdah-control\":1,\"order\":\"dance\"}\n", "unknown variant `dance`"),
            ("{\"howdah-control\":9,\"order\":\"status\"}\n", "takes version 1"),
        ] {
            let mut stream = UnixStream::connect(directory.path().join(SOCKET)).expect("reached");
            stream.write_all(garbage.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("{\"error\":") && answer.contains(said), "{answer}");
        }
        assert!(server.requests().is_empty());
    }
}

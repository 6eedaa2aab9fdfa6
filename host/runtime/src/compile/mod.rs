//! Compiling a component in a process of its own, which is ended when it takes too much.
//!
//! A compiler is a large program that is fed whatever somebody uploaded: it can be made to run
//! for minutes, to take gigabytes, or to crash. In a process with limits it harms nobody. The
//! process runs no code of the component, so what it answers is trusted like this process.

mod resource_limits;
mod turns;
mod worker;

pub(crate) use turns::Turns;

pub use worker::serve;

use crate::limits::{Limits, display_bytes};
use crate::{Error, ErrorKind, Result, check};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Scope;
use std::time::Duration;

/// Begins request and answer; the digit is the version of what follows.
const MAGIC: &[u8; 8] = b"howdahw1";
/// The most compiled code that is taken: some four times the largest component.
const CODE_LIMIT_BYTES: u64 = 1 << 30;
/// What is kept of the last words of a worker.
const LAST_WORDS_LIMIT_BYTES: u64 = 4 << 10;

/// The program that compiles components: started with `arguments`, it must call [`serve`] with
/// its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileWorker {
    /// The program.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl CompileWorker {
    /// The program that runs now, with these arguments; the same one even when its file has been
    /// replaced meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Host`] if the system does not say which one that is.
    pub fn this_program(arguments: &[&str]) -> Result<Self> {
        let executable = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().map_err(|error| {
                let message = format!("cannot find the program that runs now: {error}");
                Error::with_source(ErrorKind::Host, message, error)
            })?
        };
        Ok(Self { executable, arguments: arguments.iter().map(OsString::from).collect() })
    }
}

/// What a worker is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    /// Whether the code counts fuel.
    metered: bool,
    memory_bytes: u64,
    cpu_seconds: u64,
}

impl Request {
    const BYTES: usize = MAGIC.len() + 17;

    fn new(metered: bool, limits: &Limits) -> Self {
        // Wall time is watched from here; processor time is for a worker whose parent is gone.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let seconds = limits.compile_timeout_ms.div_ceil(1000).saturating_add(1);
        Self {
            metered,
            memory_bytes: u64::try_from(limits.compile_memory_bytes).unwrap_or(u64::MAX),
            cpu_seconds: seconds.saturating_mul(u64::try_from(threads).unwrap_or(1)),
        }
    }

    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let parts = MAGIC
            .iter()
            .copied()
            .chain([u8::from(self.metered)])
            .chain(self.memory_bytes.to_le_bytes())
            .chain(self.cpu_seconds.to_le_bytes());
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (&metered, rest) = bytes.strip_prefix(MAGIC)?.split_first()?;
        let (memory, rest) = rest.split_first_chunk()?;
        Some(Self {
            metered: metered != 0,
            memory_bytes: u64::from_le_bytes(*memory),
            cpu_seconds: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }
}

/// What a worker answers; its first byte after [`MAGIC`].
const ANSWER_CODE: u8 = 0;
const ANSWER_REFUSED: u8 = 1;
const ANSWER_NO_MEMORY: u8 = 2;

/// Compiles a component in a worker. `name` is what errors call it.
pub(crate) fn compile(
    worker: &CompileWorker,
    name: &str,
    component: &[u8],
    metered: bool,
    limits: &Limits,
) -> Result<Vec<u8>> {
    let not_started = |error| {
        let shown = worker.executable.display();
        let message = format!("cannot start {shown}, which compiles components: {error}");
        Error::with_source(ErrorKind::Host, message, error)
    };
    let mut command = Command::new(&worker.executable);
    command.args(&worker.arguments).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().map_err(not_started)?);
    let request = Request::new(metered, limits).encode();
    let timeout = Duration::from_millis(limits.compile_timeout_ms);
    let ended = converse(&mut running.0, &request, component, timeout).map_err(not_started)?;
    ended.code(name, limits)
}

/// A process that does not outlive this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, or it is ended now; there is nothing more to do about either.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a worker ended.
struct Ended {
    /// `None`: it took too long and was ended.
    status: Option<ExitStatus>,
    answer: Vec<u8>,
    last_words: String,
}

/// Gives the worker what it asks for, and takes what it says, until it ends or the time is over.
fn converse(
    child: &mut Child,
    request: &[u8],
    component: &[u8],
    timeout: Duration,
) -> std::io::Result<Ended> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        start(scope, "howdah-compile-in", move || {
            let Some(mut stdin) = stdin else { return };
            // A worker that does not listen says why in its answer, or in how it ends.
            let _ = stdin.write_all(request).and_then(|()| stdin.write_all(component));
        })?;
        let (answer, answered) = mpsc::channel();
        let (words, said) = mpsc::channel();
        start(scope, "howdah-compile-out", move || {
            // Nobody waits for it when the time is over.
            let _ = answer.send(read_answer(stdout));
        })?;
        start(scope, "howdah-compile-err", move || {
            let _ = words.send(read_last_words(stderr));
        })?;
        let answer = match answered.recv_timeout(timeout) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Disconnected) => Some(Vec::new()),
            Err(RecvTimeoutError::Timeout) => None,
        };
        if answer.is_none() {
            child.kill()?;
        }
        let status = child.wait()?;
        let last_words = said.recv().unwrap_or_default();
        Ok(Ended {
            status: answer.is_some().then_some(status),
            answer: answer.unwrap_or_default(),
            last_words,
        })
    })
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    run: impl FnOnce() + Send + 'scope,
) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, run).map(drop)
}

fn read_answer(stdout: Option<ChildStdout>) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Some(stdout) = stdout {
        // What is cut off is no answer, which is noticed later.
        let _ = stdout.take(CODE_LIMIT_BYTES).read_to_end(&mut answer);
    }
    answer
}

fn read_last_words(stderr: Option<ChildStderr>) -> String {
    let mut words = Vec::new();
    if let Some(mut stderr) = stderr {
        let _ = stderr.by_ref().take(LAST_WORDS_LIMIT_BYTES).read_to_end(&mut words);
        // A worker that says more must not wait for a reader.
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
    }
    String::from_utf8_lossy(&words).trim().to_owned()
}

impl Ended {
    /// The code, or why there is none.
    fn code(mut self, name: &str, limits: &Limits) -> Result<Vec<u8>> {
        let limit = |what: String| {
            let way_out = "raise the limit if you trust the component, or build a smaller one";
            Err(Error::new(ErrorKind::Limit, format!("{name} takes more than {what}: {way_out}")))
        };
        let no_time = || {
            let ms = limits.compile_timeout_ms;
            limit(format!("{ms} ms to compile (limits.compile-timeout-ms)"))
        };
        let no_memory = || {
            let bytes = display_bytes(limits.compile_memory_bytes);
            limit(format!("{bytes} of memory to compile (limits.compile-memory-bytes)"))
        };
        let Some(status) = self.status else { return no_time() };
        if resource_limits::was_processor_time(status) {
            return no_time();
        }
        let answer = self.answer.strip_prefix(MAGIC).and_then(<[u8]>::split_first);
        match answer {
            Some((&ANSWER_CODE, _)) if status.success() => {
                Ok(self.answer.split_off(MAGIC.len() + 1))
            }
            Some((&ANSWER_REFUSED, cause)) => {
                Err(check::not_compiled(name, &String::from_utf8_lossy(cause)))
            }
            Some((&ANSWER_NO_MEMORY, _)) => no_memory(),
            // Rust's allocator says so before it ends the process.
            _ if self.last_words.contains("memory allocation of") => no_memory(),
            _ => {
                let last_words = &self.last_words;
                Err(Error::new(
                    ErrorKind::Component,
                    format!(
                        "{name} cannot be compiled: the process that compiled it ended with \
                         {status}; it said: {last_words}"
                    ),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let limits = Limits { compile_memory_bytes: 12_345, ..Limits::default() };
        for metered in [false, true] {
            let request = Request::new(metered, &limits);
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        assert_eq!(Request::decode(&[0; Request::BYTES]), None);
    }
}

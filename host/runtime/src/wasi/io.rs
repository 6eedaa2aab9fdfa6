//! `wasi:io`: streams of files and of the log. All are always ready.

use super::filesystem::ErrorCode;
use super::{Permit, drop_resource, interface};
use crate::bindings::logging::{Host as _, Level};
use crate::host::HostState;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Linker, Lower, Resource, ResourceType};

/// Bytes that one call reads or writes, at most.
pub(super) const CHUNK_BYTES: u64 = 64 << 10;
/// Longer lines go to the log in parts.
const LINE_LIMIT_BYTES: usize = 4 << 10;

/// An open file.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    pub(super) file: Arc<File>,
    pub(super) is_readable: bool,
    pub(super) is_writable: bool,
    pub(super) _permit: Permit,
}

/// Where bytes come from.
#[derive(Debug)]
pub(super) enum InputStream {
    /// Nowhere.
    Empty,
    /// A file, from this position on.
    File(OpenFile, u64),
}

/// Where bytes go.
#[derive(Debug)]
pub(super) enum OutputStream {
    /// The log.
    Output,
    /// The log, and the reason of a trap.
    Errors,
    /// A file, from this position on; `None`: to its end.
    File(OpenFile, Option<u64>),
}

/// What a guest waits for.
#[derive(Debug)]
pub(super) enum Pollable {
    /// A stream.
    Ready,
    /// The monotonic clock, in nanoseconds.
    At(u64),
}

/// Why a stream failed.
#[derive(Debug)]
pub(super) struct IoError(pub(super) ErrorCode);

/// As a guest gets it.
#[derive(Debug, ComponentType, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    Failed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// The inner error is the guest's, the outer one a trap.
type Answer<T> = wasmtime::Result<Result<T, StreamError>>;

/// Bytes of a standard stream, until a line is whole.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The lines that are whole now.
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            for chunk in text.chunks(LINE_LIMIT_BYTES) {
                if self.rest.len() + chunk.len() > LINE_LIMIT_BYTES {
                    lines.extend(self.take());
                }
                self.rest.extend_from_slice(chunk);
            }
            if ends {
                lines.extend(self.take());
            }
        }
        lines
    }

    /// What is left of a line.
    fn take(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.rest);
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        (!line.is_empty()).then_some(line)
    }
}

impl HostState {
    fn lines(&mut self, level: Level) -> Option<&mut Lines> {
        let wasi = self.wasi.as_deref_mut()?;
        Some(if level == Level::Warn { &mut wasi.errors } else { &mut wasi.output })
    }

    /// Prints to the log, line by line.
    fn print(&mut self, level: Level, bytes: &[u8]) {
        let lines = self.lines(level).map(|lines| lines.push(bytes));
        lines.into_iter().flatten().for_each(|line| self.print_line(level, line));
    }

    fn print_line(&mut self, level: Level, line: String) {
        if level == Level::Warn {
            self.call.add_last_words(&line);
        }
        self.log(level, line);
    }

    /// A call ends: lines that are not whole will not be.
    pub(crate) fn print_rest(&mut self) {
        for level in [Level::Info, Level::Warn] {
            if let Some(line) = self.lines(level).and_then(Lines::take) {
                self.print_line(level, line);
            }
        }
    }

    fn failed<T>(&mut self, code: ErrorCode) -> Answer<T> {
        Ok(Err(StreamError::Failed(self.hand_out(IoError(code))?)))
    }

    fn read(&mut self, stream: &Resource<InputStream>, length: u64) -> Answer<Vec<u8>> {
        let InputStream::File(file, position) = self.handles.get_mut(stream)? else {
            return Ok(Err(StreamError::Closed));
        };
        match read_at(&file.file, length, *position) {
            Ok(bytes) if bytes.is_empty() && length > 0 => Ok(Err(StreamError::Closed)),
            Ok(bytes) => {
                *position = position.saturating_add(u64::try_from(bytes.len())?);
                Ok(Ok(bytes))
            }
            Err(error) => self.failed(ErrorCode::of(&error)),
        }
    }

    fn skip(&mut self, stream: &Resource<InputStream>, length: u64) -> Answer<u64> {
        let skipped = self.read(stream, length)?;
        skipped
            .map(|bytes| u64::try_from(bytes.len()))
            .map(Result::ok)
            .map_or_else(|error| Ok(Err(error)), |length| Ok(Ok(length.unwrap_or_default())))
    }

    fn write(&mut self, stream: &Resource<OutputStream>, bytes: &[u8]) -> Answer<()> {
        let length = u64::try_from(bytes.len())?;
        if length > CHUNK_BYTES {
            wasmtime::bail!(
                "it wrote {length} bytes to a stream at once, more than check-write allows \
                 ({CHUNK_BYTES})"
            );
        }
        let (file, position) = match self.handles.get(stream)? {
            OutputStream::Output => {
                self.print(Level::Info, bytes);
                return Ok(Ok(()));
            }
            OutputStream::Errors => {
                self.print(Level::Warn, bytes);
                return Ok(Ok(()));
            }
            OutputStream::File(file, position) => (Arc::clone(&file.file), *position),
        };
        if !self.wasi()?.take_writable(length) {
            return self.failed(ErrorCode::Quota);
        }
        let written = match position {
            Some(position) => file.write_all_at(bytes, position),
            None => file.metadata().and_then(|metadata| file.write_all_at(bytes, metadata.len())),
        };
        if let Err(error) = written {
            return self.failed(ErrorCode::of(&error));
        }
        if let OutputStream::File(_, Some(position)) = self.handles.get_mut(stream)? {
            *position = position.saturating_add(length);
        }
        Ok(Ok(()))
    }

    fn write_zeroes(&mut self, stream: &Resource<OutputStream>, length: u64) -> Answer<()> {
        // One more is refused by `write`.
        let length = usize::try_from(length.min(CHUNK_BYTES + 1))?;
        self.write(stream, &vec![0; length])
    }

    fn splice(
        &mut self,
        to: &Resource<OutputStream>,
        from: &Resource<InputStream>,
        length: u64,
    ) -> Answer<u64> {
        let bytes = match self.read(from, length)? {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let length = u64::try_from(bytes.len())?;
        Ok(self.write(to, &bytes)?.map(|()| length))
    }

    fn is_ready(&mut self, pollable: &Resource<Pollable>) -> wasmtime::Result<bool> {
        match *self.handles.get(pollable)? {
            Pollable::Ready => Ok(true),
            Pollable::At(when) => Ok(when <= self.monotonic_ns()?),
        }
    }

    /// Which of these are ready: at least one, as the clock moves on to the first otherwise.
    fn poll(&mut self, pollables: &[Resource<Pollable>]) -> wasmtime::Result<Vec<u32>> {
        // One may be named many times, but not to take more time than it has handles.
        if pollables.len() > self.limits.handles {
            wasmtime::bail!("it polled more than it may hold at once (limits.handles)");
        }
        let mut first = u64::MAX;
        for pollable in pollables {
            first = match *self.handles.get(pollable)? {
                Pollable::Ready => 0,
                Pollable::At(when) => first.min(when),
            };
            if first == 0 {
                break;
            }
        }
        if pollables.is_empty() {
            wasmtime::bail!("it polled nothing, which would never end");
        }
        self.sleep_until(first)?;
        let mut ready = Vec::new();
        for (index, pollable) in (0..).zip(pollables) {
            if self.is_ready(pollable)? {
                ready.push(index);
            }
        }
        Ok(ready)
    }
}

/// Some bytes at a position, none at the end of the file.
pub(super) fn read_at(file: &File, length: u64, position: u64) -> std::io::Result<Vec<u8>> {
    let length = usize::try_from(length.min(CHUNK_BYTES)).unwrap_or_default();
    let mut bytes = vec![0; length];
    let read = file.read_at(&mut bytes, position)?;
    bytes.truncate(read);
    Ok(bytes)
}

pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let mut error = interface(linker, "wasi:io/error")?;
    error.resource("error", ResourceType::host::<IoError>(), drop_resource::<IoError>)?;
    error.func_wrap(
        "[method]error.to-debug-string",
        |store: StoreContextMut<'_, HostState>, (error,): (Resource<IoError>,)| {
            Ok((format!("{:?}", store.data().handles.get(&error)?.0),))
        },
    )?;

    let mut poll = interface(linker, "wasi:io/poll")?;
    poll.resource("pollable", ResourceType::host::<Pollable>(), drop_resource::<Pollable>)?;
    poll.func_wrap("[method]pollable.ready", |mut store, (own,): (Resource<Pollable>,)| {
        Ok((store.data_mut().is_ready(&own)?,))
    })?;
    poll.func_wrap("[method]pollable.block", |mut store, (own,): (Resource<Pollable>,)| {
        store.data_mut().poll(&[own]).map(drop)
    })?;
    poll.func_wrap("poll", |mut store, (pollables,): (Vec<Resource<Pollable>>,)| {
        Ok((store.data_mut().poll(&pollables)?,))
    })?;

    let mut streams = interface(linker, "wasi:io/streams")?;
    let input = ResourceType::host::<InputStream>();
    streams.resource("input-stream", input, drop_resource::<InputStream>)?;
    for name in ["read", "blocking-read"] {
        streams.func_wrap(
            &format!("[method]input-stream.{name}"),
            |mut store, (own, length): (Resource<InputStream>, u64)| {
                Ok((store.data_mut().read(&own, length)?,))
            },
        )?;
    }
    for name in ["skip", "blocking-skip"] {
        streams.func_wrap(
            &format!("[method]input-stream.{name}"),
            |mut store, (own, length): (Resource<InputStream>, u64)| {
                Ok((store.data_mut().skip(&own, length)?,))
            },
        )?;
    }
    streams.func_wrap(
        "[method]input-stream.subscribe",
        |mut store, (_,): (Resource<InputStream>,)| {
            Ok((store.data_mut().hand_out(Pollable::Ready)?,))
        },
    )?;

    let output = ResourceType::host::<OutputStream>();
    streams.resource("output-stream", output, drop_resource::<OutputStream>)?;
    streams
        .func_wrap("[method]output-stream.check-write", |_, (_,): (Resource<OutputStream>,)| {
            Ok((Ok::<u64, StreamError>(CHUNK_BYTES),))
        })?;
    for name in ["write", "blocking-write-and-flush"] {
        streams.func_wrap(
            &format!("[method]output-stream.{name}"),
            |mut store, (own, bytes): (Resource<OutputStream>, Vec<u8>)| {
                Ok((store.data_mut().write(&own, &bytes)?,))
            },
        )?;
    }
    for name in ["flush", "blocking-flush"] {
        streams.func_wrap(
            &format!("[method]output-stream.{name}"),
            |_, (_,): (Resource<OutputStream>,)| Ok((Ok::<(), StreamError>(()),)),
        )?;
    }
    streams.func_wrap(
        "[method]output-stream.subscribe",
        |mut store, (_,): (Resource<OutputStream>,)| {
            Ok((store.data_mut().hand_out(Pollable::Ready)?,))
        },
    )?;
    for name in ["write-zeroes", "blocking-write-zeroes-and-flush"] {
        streams.func_wrap(
            &format!("[method]output-stream.{name}"),
            |mut store, (own, length): (Resource<OutputStream>, u64)| {
                Ok((store.data_mut().write_zeroes(&own, length)?,))
            },
        )?;
    }
    for name in ["splice", "blocking-splice"] {
        streams.func_wrap(
            &format!("[method]output-stream.{name}"),
            |mut store,
             (own, from, length): (Resource<OutputStream>, Resource<InputStream>, u64)| {
                Ok((store.data_mut().splice(&own, &from, length)?,))
            },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_or_not_longer_than_the_limit() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"a"), Vec::<String>::new());
        assert_eq!(lines.push(b"b\n\nc\r\nd"), ["ab", "c"]);
        let long = "x".repeat(LINE_LIMIT_BYTES);
        assert_eq!(lines.push(long.as_bytes()), ["d"]);
        assert_eq!(lines.push(b"y\n"), [long.as_str(), "y"]);
        assert_eq!(lines.take(), None);
    }
}

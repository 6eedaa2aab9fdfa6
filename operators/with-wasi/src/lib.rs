//! Uses what it has of WASI as its rows say, and says what came of it, to test what a host gives and
//! what it withholds.

mod bindings;

use bindings::wasi::cli::{environment, exit, stderr, stdin, stdout};
use bindings::wasi::clocks::{monotonic_clock, wall_clock};
use bindings::wasi::filesystem::preopens;
use bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags,
};
use bindings::wasi::io::poll::poll;
use bindings::wasi::io::streams::{OutputStream, StreamError};
use bindings::wasi::random::random;
use bindings::wasi::sockets::network::IpAddressFamily;
use bindings::wasi::sockets::tcp_create_socket::create_tcp_socket;
use howdah_sdk::prelude::*;

/// What to do.
#[derive(Row, Clone, Debug, PartialEq)]
pub struct Order {
    /// The key.
    pub key: i64,
    /// What to do.
    pub verb: String,
    /// A path, or what the verb takes.
    pub path: String,
}

/// What came of an order.
#[derive(Row, Clone, Debug, PartialEq)]
pub struct Answer {
    /// For people and for comparison.
    pub text: String,
}

/// What orders are grouped by.
#[derive(Key, Clone, Debug, PartialEq)]
pub struct OrderKey {
    /// The field of the same name.
    pub key: i64,
}

/// The operator.
pub struct WithWasi;

#[operator]
impl WithWasi {
    fn open(_: &mut Open<OrderKey>) -> Result<Self> {
        Ok(Self)
    }

    fn process(
        &mut self,
        order: Order,
        _: &Record<OrderKey>,
        out: &mut Emitter<Answer>,
    ) -> Result<()> {
        let text = obey(&order.verb, &order.path).unwrap_or_else(|error| format!("error: {error}"));
        out.emit(&Answer { text });
        Ok(())
    }
}

type Answered<T> = std::result::Result<T, String>;

fn shown(code: ErrorCode) -> String {
    code.name().to_owned()
}

fn stream_error(error: StreamError) -> String {
    match error {
        StreamError::LastOperationFailed(error) => error.to_debug_string(),
        StreamError::Closed => "closed".to_owned(),
    }
}

fn obey(verb: &str, path: &str) -> Answered<String> {
    let number = path.parse::<u64>().unwrap_or_default();
    Ok(match verb {
        "directories" => {
            let show = |(directory, name): (Descriptor, String)| {
                format!("{name} {:?}", directory.get_flags())
            };
            preopens::get_directories().into_iter().map(show).collect::<Vec<_>>().join(", ")
        }
        "read" => {
            let stream = open(path, OpenFlags::empty(), DescriptorFlags::READ)?
                .read_via_stream(0)
                .map_err(shown)?;
            let bytes = stream.blocking_read(100).map_err(stream_error)?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        "list" => list(path)?.join(", "),
        "append" => {
            let file = open(path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
            let stream = file.append_via_stream().map_err(shown)?;
            stream.write(b"appended").map_err(stream_error)?;
            "done".to_owned()
        }
        "fill" => {
            let file = open(path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
            let stream = file.append_via_stream().map_err(shown)?;
            loop {
                stream.write(&[b'x'; 4096]).map_err(stream_error)?;
            }
        }
        "make" => directory()?.create_directory_at(path).map_err(shown).map(|()| "done".into())?,
        "remove" => directory()?.unlink_file_at(path).map_err(shown).map(|()| "done".into())?,
        "rename" => {
            let directory = directory()?;
            directory.rename_at(path, &directory, "renamed").map_err(shown)?;
            "done".to_owned()
        }
        "link" => directory()?.symlink_at(path, "a-link").map_err(shown).map(|()| "done".into())?,
        "open without end" => {
            let mut files = Vec::new();
            loop {
                match open(path, OpenFlags::empty(), DescriptorFlags::READ) {
                    Ok(file) => files.push(file),
                    Err(error) => break format!("{} files, then {error}", files.len()),
                }
            }
        }
        "hoard streams" => {
            let mut streams = Vec::new();
            loop {
                streams.push(stdout::get_stdout());
            }
        }
        "environment" => {
            format!("{:?} {:?}", environment::get_environment(), environment::get_arguments())
        }
        "input" => match stdin::get_stdin().blocking_read(1) {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(error) => stream_error(error),
        },
        "time" => {
            let now = wall_clock::now();
            format!("{}.{:09} {}", now.seconds, now.nanoseconds, monotonic_clock::now())
        }
        "sleep" => {
            let before = monotonic_clock::now();
            monotonic_clock::subscribe_duration(number).block();
            format!("{}", monotonic_clock::now() - before)
        }
        "sleep the longest" => {
            let timers = [number, number + 1].map(monotonic_clock::subscribe_duration);
            format!("{:?}", poll(&timers.iter().collect::<Vec<_>>()))
        }
        "sleep without end" => loop {
            monotonic_clock::subscribe_duration(u64::MAX).block();
        },
        "poll one often" => {
            let timer = monotonic_clock::subscribe_duration(0);
            format!("{}", poll(&vec![&timer; usize::try_from(number).unwrap_or(0)]).len())
        }
        "poll nothing" => format!("{:?}", poll(&[])),
        "random" => format!("{} {}", random::get_random_u64(), random::get_random_u64()),
        "random without end" => format!("{}", random::get_random_bytes(u64::MAX).len()),
        "print" => print(&stdout::get_stdout(), &format!("{path}\n"))?,
        "print without end" => {
            let stream = stdout::get_stdout();
            loop {
                print(&stream, "again\n")?;
            }
        }
        "print much" => {
            let stream = stdout::get_stdout();
            for _ in 0..number {
                print(&stream, "again\n")?;
            }
            "done".to_owned()
        }
        "complain" => {
            print(&stderr::get_stderr(), path)?;
            std::process::abort()
        }
        "exit" => {
            exit::exit(Ok(()));
            "still here".to_owned()
        }
        "socket" => match create_tcp_socket(IpAddressFamily::Ipv4) {
            Ok(_) => "a socket".to_owned(),
            Err(code) => code.name().to_owned(),
        },
        other => return Err(format!("no idea what {other} is")),
    })
}

fn print(stream: &OutputStream, text: &str) -> Answered<String> {
    stream.write(text.as_bytes()).map_err(stream_error)?;
    Ok("done".to_owned())
}

/// The first of the directories.
fn directory() -> Answered<Descriptor> {
    let first = preopens::get_directories().into_iter().next();
    first.map(|(directory, _)| directory).ok_or_else(|| "no directory".to_owned())
}

fn open(path: &str, open: OpenFlags, flags: DescriptorFlags) -> Answered<Descriptor> {
    directory()?.open_at(PathFlags::SYMLINK_FOLLOW, path, open, flags).map_err(shown)
}

fn list(path: &str) -> Answered<Vec<String>> {
    let directory = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
    let entries = directory.read_directory().map_err(shown)?;
    let mut names = Vec::new();
    while let Some(entry) = entries.read_directory_entry().map_err(shown)? {
        names.push(entry.name);
    }
    names.sort_unstable();
    Ok(names)
}

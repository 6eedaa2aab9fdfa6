//! WASI 0.2, for components that need some of it and were granted it.
//!
//! What an operator gets is less than what WASI has: directories that the pipeline names and the
//! host permits, the clock of the call, random numbers from a seed, and a standard output that goes
//! to the log. It has no network, no environment, no arguments and an empty standard input. Nothing
//! here waits: a sleep ends at once and moves the monotonic clock on, and files that could make a
//! read wait (pipes, devices, sockets) are not opened. So the deadline of a call holds.
//!
//! The functions are written here, not taken from crate `wasmtime-wasi`: that one needs wasmtime's
//! support for async calls and a tokio runtime with threads of its own, and its calls wait for as
//! long as the guest says.

mod cli;
mod clocks;
mod directory;
mod filesystem;
mod grant;
mod io;
mod network;
mod random;

pub(crate) use grant::check;
pub use grant::{Access, DirectoryGrant, WasiGrant, WasiPermission};

use crate::host::{HostState, Subject};
use crate::instance::Context;
use crate::{Error, ErrorKind, Result};
use directory::Directory;
use random::Random;
use std::sync::Arc;
use wasmtime::StoreContextMut;
use wasmtime::component::{Component, Linker, LinkerInstance, Resource};

/// The version of WASI that the functions are of. A component that was built for another 0.2 gets
/// them too.
const VERSION: &str = "0.2.0";

/// Files and directories that an instance may have open at once.
const OPEN_FILES_LIMIT: usize = 64;

/// The interfaces that are there, beside those of sockets.
const INTERFACES: [&str; 20] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];

/// Whether an import is of WASI at all.
pub(crate) fn is_wasi(import: &str) -> bool {
    import.starts_with("wasi:")
}

/// Whether an import, with its version, is one that a host that allows WASI has.
pub(crate) fn has(import: &str) -> bool {
    let Some((interface, version)) = import.split_once('@') else { return false };
    version.starts_with("0.2.")
        && (INTERFACES.contains(&interface) || interface.starts_with(network::PREFIX))
}

/// A linker's functions, and those of WASI that this component imports.
pub(crate) fn link(
    linker: &Linker<HostState>,
    component: &Component,
) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = linker.clone();
    cli::link(&mut linker)?;
    clocks::link(&mut linker)?;
    filesystem::link(&mut linker)?;
    io::link(&mut linker)?;
    random::link(&mut linker)?;
    network::link(&mut linker, component)?;
    Ok(linker)
}

/// What an instance has of WASI.
#[derive(Debug)]
pub(crate) struct Wasi {
    /// Its directories, with the names that it knows them by.
    directories: Vec<(String, Arc<Directory>)>,
    /// Each open file and directory holds a clone.
    open_files: Permit,
    /// What outlives the instance.
    lasting: Lasting,
    output: io::Lines,
    errors: io::Lines,
}

/// What the next instance goes on with after this one failed.
#[derive(Debug)]
pub(crate) struct Lasting {
    random: Random,
    /// Nanoseconds that the monotonic clock has at least.
    monotonic_ns: u64,
    /// Bytes that may still be written to files.
    writable_bytes: u64,
}

/// Held by what is open.
#[derive(Debug, Clone, Default)]
struct Permit(Arc<()>);

impl Wasi {
    /// Opens the directories that were granted. `describe` gets none, as it must be pure.
    pub(crate) fn open(grant: &WasiGrant, subject: &Subject) -> Result<Self> {
        let (name, granted) = match subject {
            Subject::Component(_) => ("describe".to_owned(), [].as_slice()),
            Subject::Subtask(context) => (seed_name(context), grant.directories.as_slice()),
        };
        let open = |granted: &DirectoryGrant| -> Result<(String, Arc<Directory>)> {
            let directory = Directory::open(&granted.path, granted.access).map_err(|error| {
                let what = format!(
                    "{subject} cannot have the directory {} ({} in operator.wasi.directories): \
                     {error}",
                    granted.path.display(),
                    granted.name
                );
                Error::with_source(ErrorKind::Host, what, error)
            })?;
            Ok((granted.name.clone(), Arc::new(directory)))
        };
        Ok(Self {
            directories: granted.iter().map(open).collect::<Result<_>>()?,
            open_files: Permit::default(),
            lasting: Lasting {
                random: Random::new(grant.random_seed, &name),
                monotonic_ns: 0,
                writable_bytes: grant.written_limit_bytes,
            },
            output: io::Lines::default(),
            errors: io::Lines::default(),
        })
    }

    /// What is left for another instance when this one has failed.
    pub(crate) fn into_lasting(self) -> Lasting {
        self.lasting
    }

    /// A permit to open one more file.
    fn permit(&self) -> Option<Permit> {
        (Arc::strong_count(&self.open_files.0) <= OPEN_FILES_LIMIT).then(|| self.open_files.clone())
    }

    /// Counts bytes that are about to be written to files; `false`: they are too many.
    fn take_writable(&mut self, bytes: u64) -> bool {
        let left = self.lasting.writable_bytes.checked_sub(bytes);
        self.lasting.writable_bytes = left.unwrap_or(self.lasting.writable_bytes);
        left.is_some()
    }

    /// Goes on where another instance failed.
    pub(crate) fn go_on(&mut self, lasting: Lasting) {
        self.lasting = lasting;
    }
}

/// What random numbers of a subtask depend on beside the seed. After a restart they are others, as
/// the operator may have made names of the earlier ones.
fn seed_name(context: &Context) -> String {
    let Context { pipeline, operator, subtask, restored_from, .. } = context;
    format!("{pipeline}/{operator}/{subtask}/{}", restored_from.unwrap_or(0))
}

impl HostState {
    /// What the instance has of WASI. Functions of WASI are linked only where it has some.
    fn wasi(&mut self) -> wasmtime::Result<&mut Wasi> {
        self.wasi.as_deref_mut().ok_or_else(|| wasmtime::format_err!("WASI was not granted"))
    }

    /// Puts a resource into the table of handles.
    fn hand_out<R: Send + 'static>(&mut self, resource: R) -> wasmtime::Result<Resource<R>> {
        self.handles.push(resource).map_err(|_| {
            let limit = self.limits.handles;
            wasmtime::format_err!("it holds more than {limit} handles (limits.handles)")
        })
    }
}

/// An interface to link functions into.
fn interface<'a>(
    linker: &'a mut Linker<HostState>,
    name: &str,
) -> wasmtime::Result<LinkerInstance<'a, HostState>> {
    linker.instance(&format!("{name}@{VERSION}"))
}

/// Drops a resource that a guest gave back.
fn drop_resource<R: Send + 'static>(
    mut store: StoreContextMut<'_, HostState>,
    handle: u32,
) -> wasmtime::Result<()> {
    store.data_mut().handles.delete(Resource::<R>::new_own(handle))?;
    Ok(())
}

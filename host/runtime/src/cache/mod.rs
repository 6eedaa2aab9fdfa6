//! Compiled code on disk, so that a component is compiled once and not at every start.
//!
//! A file is named after the component's digest and the engine's compatibility hash, and
//! begins with a checksum of its own: a file that was cut off or damaged is compiled again,
//! never loaded. What is loaded is a sealed copy in memory, so that it is what was checked,
//! whatever happens to the file. The checksum is no signature. Whoever can write to the
//! directory can make this process run any code; it is as much trusted as the executable itself.

mod deserialize;
mod sealed;

pub(crate) use deserialize::component as deserialize;

use sealed::Sealed;
use sha2::{Digest, Sha256};
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::Engine;
use wasmtime::component::Component;
use xxhash_rust::xxh3::Xxh3;

/// Begins every file; the digit is the version of the layout.
const MAGIC: &[u8; 8] = b"howdahc2";
const CHECKSUM_BYTES: usize = 16;

/// A directory with compiled components.
#[derive(Debug)]
pub(crate) struct CodeCache {
    directory: PathBuf,
}

impl CodeCache {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The compiled component, if an intact file has it. Trouble is logged, not returned: the
    /// component can always be compiled.
    pub(crate) fn get(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(engine, digest);
        let code = match fs::File::open(&path).and_then(|file| checked(file, digest)) {
            Ok(Some(code)) => code,
            Ok(None) => {
                tracing::warn!("compiled code {} is damaged; compiling anew", path.display());
                return None;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("cannot read compiled code {}: {error}", path.display());
                return None;
            }
        };
        match deserialize::sealed_component(engine, &code) {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!("cannot use compiled code {}: {error:#}", path.display());
                None
            }
        }
    }

    /// Keeps a compiled component. Trouble is logged, not returned.
    pub(crate) fn put(&self, engine: &Engine, digest: &str, component: &Component) {
        match component.serialize() {
            Ok(code) => self.put_code(engine, digest, &code),
            Err(error) => self.not_kept(&format!("{error:#}")),
        }
    }

    /// Keeps what `Component::serialize` returned. Trouble is logged, not returned.
    pub(crate) fn put_code(&self, engine: &Engine, digest: &str, code: &[u8]) {
        let path = self.path(engine, digest);
        if let Err(error) = self.write(&path, &[MAGIC, &checksum(digest, code), code]) {
            self.not_kept(&error.to_string());
        }
    }

    fn not_kept(&self, error: &str) {
        tracing::warn!(
            "cannot keep compiled code in {}: {error}; it will be compiled at every start",
            self.directory.display()
        );
    }

    /// `<digest>-<compatibility hash>.cwasm`.
    fn path(&self, engine: &Engine, digest: &str) -> PathBuf {
        let mut hasher = StableHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        self.directory.join(format!("{digest}-{:016x}.cwasm", hasher.finish()))
    }

    /// Under a temporary name first: a reader sees a whole file or none. No sync: after a
    /// power failure the checksum tells.
    fn write(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("tmp-{}-{number}", std::process::id()));
        fs::create_dir_all(&self.directory)?;
        let written = fs::File::create(&temporary)
            .and_then(|mut file| parts.iter().try_for_each(|part| file.write_all(part)))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // Nothing more can be done about the leftover than to try.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// The code in a file, if the file is whole and belongs to this component.
fn checked(mut file: impl Read, digest: &str) -> io::Result<Option<Sealed>> {
    let (mut magic, mut sum) = ([0; MAGIC.len()], [0; CHECKSUM_BYTES]);
    for part in [&mut magic[..], &mut sum] {
        match file.read_exact(part) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
    }
    let mut checksum = Checksum::new(digest);
    let code = Sealed::copy(file, |bytes| checksum.add(bytes))?;
    Ok((magic == *MAGIC && sum == checksum.bytes()).then_some(code))
}

fn checksum(digest: &str, code: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = Checksum::new(digest);
    checksum.add(code);
    checksum.bytes()
}

/// Finds damage, of which it lets pass one in 2^128, and takes a fraction of the time that the code
/// takes to be read. Against malice it would not help to be more.
struct Checksum(Xxh3);

impl Checksum {
    fn new(digest: &str) -> Self {
        let mut checksum = Self(Xxh3::new());
        checksum.add(MAGIC);
        checksum.add(digest.as_bytes());
        checksum
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn bytes(&self) -> [u8; CHECKSUM_BYTES] {
        self.0.digest128().to_le_bytes()
    }
}

/// `Hash` over SHA-256: the same in every run and build, which std's hasher does not promise.
struct StableHasher(Sha256);

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        digest.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

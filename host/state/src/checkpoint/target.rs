//! Where checkpoints are kept: a local directory, or whatever an opendal operator reaches.

use crate::file_system::{FileSystem, resolve};
use crate::lock::Lock;
use crate::{Error, ErrorKind, Faults, IoKind, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use opendal_core::Operator;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Files that are downloaded at a time.
const CONCURRENT_FILES: usize = 8;
/// Bytes that are uploaded and downloaded at a time; object stores take no parts below 5 MiB.
const CHUNK_BYTES: usize = 8 << 20;
/// Threads that link and check local files.
const LOCAL_THREADS_LIMIT: usize = 8;

/// A place for checkpoints: a local directory or an opendal operator. One store uses it at a
/// time; a local directory has a lock that sees to it.
#[derive(Debug)]
pub struct CheckpointTarget {
    place: Place,
    /// Of what is read and written locally.
    files: FileSystem,
}

#[derive(Debug)]
enum Place {
    Directory { root: PathBuf, lock: Option<Lock> },
    Operator { operator: Operator, prefix: String, runtime: tokio::runtime::Runtime },
}

/// A file with its length and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) bytes: u64,
    pub(super) crc32: u32,
}

/// A file of a target that is to be checked, or fetched to a local path.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) path: String,
    pub(super) sum: Sum,
    /// `None`: only checked.
    pub(super) to: Option<PathBuf>,
}

/// How far a transfer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Files that are done.
    pub files_done: usize,
    /// Files in all.
    pub files_total: usize,
    /// Bytes that are done.
    pub bytes_done: u64,
    /// Bytes in all.
    pub bytes_total: u64,
}

/// Is told how far a transfer has come; may be called from several threads at once.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Sync);

/// Counts what is done and tells it.
pub(super) struct Meter<'a> {
    files_done: AtomicUsize,
    files_total: usize,
    bytes_done: AtomicU64,
    bytes_total: u64,
    tell: OnProgress<'a>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(files_total: usize, bytes_total: u64, tell: OnProgress<'a>) -> Self {
        Self {
            files_done: AtomicUsize::new(0),
            files_total,
            bytes_done: AtomicU64::new(0),
            bytes_total,
            tell,
        }
    }

    pub(super) fn add(&self, files: usize, bytes: u64) {
        let files_done = self.files_done.fetch_add(files, Ordering::Relaxed) + files;
        let bytes_done = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (files_total, bytes_total) = (self.files_total, self.bytes_total);
        (self.tell)(Progress { files_done, files_total, bytes_done, bytes_total });
    }
}

impl CheckpointTarget {
    /// A local directory; it is created when it is first written to. On the file system of the
    /// warehouse, files get there by hard link, else by copy. With `sync`, a checkpoint is durable
    /// when it is confirmed; without, it survives the process, but not the machine.
    ///
    /// # Errors
    /// `Storage` when the path cannot be resolved.
    pub fn directory(root: &Path, sync: bool) -> Result<Self> {
        let root = resolve(root)?;
        let place = Place::Directory { root, lock: None };
        Ok(Self { place, files: FileSystem::new(sync, None)? })
    }

    /// What an operator of crate `opendal-core` 0.58 reaches, below `prefix` (may be empty). Files
    /// get there by upload. A write must be seen whole or not at all, as object stores do it.
    /// Nothing keeps a second process from using it: see to that.
    ///
    /// For S3 there is [`CheckpointTarget::from_url`]. For other services, add their crate
    /// (`opendal-service-..` 0.58, and `opendal-http-transport-reqwest`) and make the operator of
    /// it.
    ///
    /// ```
    /// use howdah_state::opendal_core::{Operator, services::Memory};
    /// use howdah_state::{CheckpointStore, CheckpointTarget};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let operator = Operator::new(Memory::default())?;
    /// let target = CheckpointTarget::operator(operator, "pipelines/shop")?;
    /// assert!(CheckpointStore::open(target)?.list().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The operator is driven by a runtime of this target's own, so methods of a store that uses
    /// it must not be called from asynchronous code.
    ///
    /// # Errors
    /// `Storage` when the runtime cannot be made.
    pub fn operator(operator: Operator, prefix: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(
            |error| {
                let message = format!("cannot start the runtime of a checkpoint target: {error}");
                Error::with_source(ErrorKind::Storage, message, error)
            },
        )?;
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let place = Place::Operator { operator, prefix, runtime };
        // What a restore writes locally is made durable; a target elsewhere sees to itself.
        Ok(Self { place, files: FileSystem::new(true, None)? })
    }

    /// For tests: failures of the calls to the local file system.
    ///
    /// # Errors
    /// None that tests need to care about.
    pub fn with_faults(mut self, faults: &Faults) -> Result<Self> {
        self.files = FileSystem::new(self.files.is_synced(), Some(faults.clone()))?;
        Ok(self)
    }

    /// Makes the directories and keeps other processes out, where that can be.
    pub(super) fn prepare(&mut self, directories: &[&str]) -> Result<()> {
        if let Place::Directory { root, lock } = &mut self.place
            && lock.is_none()
        {
            self.files.create_root(root)?;
            *lock = Some(Lock::take(&self.files, root)?);
            for directory in directories {
                self.files.create_directory(&root.join(directory))?;
            }
            self.files.sync_directory(root)?;
        }
        Ok(())
    }

    pub(super) fn files(&self) -> &FileSystem {
        &self.files
    }

    /// For messages.
    pub(super) fn describe(&self, path: &str) -> String {
        match &self.place {
            Place::Directory { root, .. } => root.join(path).display().to_string(),
            Place::Operator { operator, prefix, .. } => {
                let info = operator.info();
                format!("{}:{}{prefix}{path}", info.scheme(), info.root())
            }
        }
    }

    fn failed(&self, what: &str, path: &str, error: opendal_core::Error) -> Error {
        let kind = match error.kind() {
            opendal_core::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Storage,
        };
        let message = format!("cannot {what} {}: {error}", self.describe(path));
        Error::with_source(kind, message, error)
    }

    /// A small file; `None` when there is none.
    pub(super) fn read(&self, path: &str, limit_bytes: u64) -> Result<Option<Vec<u8>>> {
        let too_large = || {
            Error::corrupt(format!(
                "{} is larger than {limit_bytes} bytes and cannot be what it should",
                self.describe(path)
            ))
        };
        match &self.place {
            Place::Directory { root, .. } => {
                let path = root.join(path);
                if !self.files.exists(&path)? {
                    return Ok(None);
                }
                if self.files.size(&path)? > limit_bytes {
                    return Err(too_large());
                }
                self.files.read(&path).map(Some)
            }
            Place::Operator { operator, prefix, runtime } => {
                let full = format!("{prefix}{path}");
                let read = async {
                    let length = operator.stat(&full).await?.content_length();
                    if length > limit_bytes {
                        return Ok(None);
                    }
                    operator.read(&full).await.map(Some)
                };
                match runtime.block_on(read) {
                    Ok(Some(buffer)) => Ok(Some(buffer.to_vec())),
                    Ok(None) => Err(too_large()),
                    Err(error) if error.kind() == opendal_core::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(self.failed("read", path, error)),
                }
            }
        }
    }

    /// Writes a small file, whole or not at all.
    pub(super) fn write(&self, path: &str, bytes: Vec<u8>) -> Result<()> {
        match &self.place {
            Place::Directory { root, .. } => {
                let path = root.join(path);
                if let Some(parent) = path.parent() {
                    self.files.create_directory(parent)?;
                }
                self.files.replace(&path, &bytes)
            }
            Place::Operator { operator, prefix, runtime } => runtime
                .block_on(operator.write(&format!("{prefix}{path}"), bytes))
                .map(drop)
                .map_err(|error| self.failed("write", path, error)),
        }
    }

    /// Puts a local file there.
    pub(super) fn put(&self, from: &Path, path: &str, sum: Sum) -> Result<()> {
        match &self.place {
            Place::Directory { root, .. } => self.files.link_or_copy(from, &root.join(path)),
            Place::Operator { operator, prefix, runtime } => {
                let full = format!("{prefix}{path}");
                runtime.block_on(self.upload(operator, from, path, &full, sum))
            }
        }
    }

    async fn upload(
        &self,
        operator: &Operator,
        from: &Path,
        path: &str,
        full: &str,
        sum: Sum,
    ) -> Result<()> {
        let failed = |error| self.failed("write", path, error);
        let mut file = self.files.open(from)?;
        let mut hasher = crc32fast::Hasher::new();
        let mut bytes = 0;
        let mut writer = operator.writer_with(full).chunk(CHUNK_BYTES).await.map_err(failed)?;
        let sent = async {
            loop {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES);
                let mut part = (&mut file).take(CHUNK_BYTES as u64);
                self.files.call(IoKind::Read, "read", from, || part.read_to_end(&mut chunk))?;
                if chunk.is_empty() {
                    break;
                }
                hasher.update(&chunk);
                bytes += chunk.len() as u64;
                writer.write(chunk).await.map_err(failed)?;
            }
            if (Sum { bytes, crc32: hasher.finalize() }) != sum {
                return Err(Error::corrupt(format!(
                    "{} changed while it was uploaded, so it is damaged; restore from an earlier \
                     checkpoint",
                    from.display()
                )));
            }
            writer.close().await.map_err(failed)
        };
        match sent.await {
            Ok(_) => Ok(()),
            Err(error) => {
                // What is half there is removed by whoever aborts.
                let _ = writer.abort().await;
                Err(error)
            }
        }
    }

    /// Makes the names of files that were put into these directories durable.
    pub(super) fn sync(&self, directories: impl Iterator<Item = String>) -> Result<()> {
        if let Place::Directory { root, .. } = &self.place {
            for directory in directories {
                self.files.sync_directory(&root.join(directory))?;
            }
        }
        Ok(())
    }

    /// The same, of those that are there.
    pub(super) fn sync_existing<'a>(
        &self,
        directories: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        if let Place::Directory { root, .. } = &self.place {
            for directory in directories.map(|directory| root.join(directory)) {
                if self.files.is_directory(&directory)? {
                    self.files.sync_directory(&directory)?;
                }
            }
        }
        Ok(())
    }

    /// Removes files; those that are gone already are fine.
    pub(super) fn remove(&self, paths: &[String]) -> Result<()> {
        match &self.place {
            Place::Directory { root, .. } => {
                paths.iter().try_for_each(|path| self.files.remove(&root.join(path)))
            }
            Place::Operator { operator, prefix, runtime } => {
                let all = paths.iter().map(|path| format!("{prefix}{path}"));
                runtime.block_on(operator.delete_iter(all)).map_err(|error| {
                    self.failed("remove", paths.first().map_or("", String::as_str), error)
                })
            }
        }
    }

    /// Names of the files in a directory.
    pub(super) fn list(&self, directory: &str) -> Result<Vec<String>> {
        match &self.place {
            Place::Directory { root, .. } => self.files.list(&root.join(directory)),
            Place::Operator { operator, prefix, runtime } => {
                match runtime.block_on(operator.list(&format!("{prefix}{directory}/"))) {
                    Ok(entries) => Ok(entries
                        .iter()
                        .filter(|entry| entry.metadata().is_file())
                        .map(|entry| entry.name().to_owned())
                        .collect()),
                    Err(error) if error.kind() == opendal_core::ErrorKind::NotFound => {
                        Ok(Vec::new())
                    }
                    Err(error) => Err(self.failed("list", directory, error)),
                }
            }
        }
    }

    /// Checks files, and brings those that have a place to go to there: by link or copy from a
    /// directory, else by download. Returns what is wrong with files, one text for each.
    ///
    /// # Errors
    /// `Storage` when a file cannot be written, or the target cannot be reached.
    pub(super) fn fetch(&self, wanted: &[Fetch], meter: &Meter<'_>) -> Result<Vec<String>> {
        match &self.place {
            Place::Directory { root, .. } => self.fetch_local(root, wanted, meter),
            Place::Operator { operator, prefix, runtime } => runtime.block_on(async {
                let downloads = wanted.iter().map(|fetch| {
                    let full = format!("{prefix}{}", fetch.path);
                    async move { self.download(operator, fetch, &full, meter).await }
                });
                let damages: Vec<Option<String>> = futures::stream::iter(downloads)
                    .buffer_unordered(CONCURRENT_FILES)
                    .try_collect()
                    .await?;
                Ok(damages.into_iter().flatten().collect())
            }),
        }
    }

    fn fetch_local(&self, root: &Path, wanted: &[Fetch], meter: &Meter<'_>) -> Result<Vec<String>> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<Vec<String>> {
            let mut damages = Vec::new();
            while let Some(fetch) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let path = root.join(&fetch.path);
                if !self.files.exists(&path)? {
                    damages.push(format!("{} is missing", path.display()));
                    continue;
                }
                let (bytes, crc32) = self.files.checksum(&path)?;
                let found = Sum { bytes, crc32 };
                if let Some(damage) = damage(&path.display().to_string(), found, fetch.sum) {
                    damages.push(damage);
                } else if let Some(to) = &fetch.to {
                    self.files.link_or_copy(&path, to)?;
                }
                meter.add(1, bytes);
            }
            Ok(damages)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.min(LOCAL_THREADS_LIMIT).min(wanted.len().max(1));
        let results: Vec<Result<Vec<String>>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut results = vec![work()];
            results.extend(others.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(Error::internal("a thread that reads a checkpoint panicked"))
                })
            }));
            results
        });
        let damages: Vec<Vec<String>> = results.into_iter().collect::<Result<_>>()?;
        Ok(damages.into_iter().flatten().collect())
    }

    async fn download(
        &self,
        operator: &Operator,
        fetch: &Fetch,
        full: &str,
        meter: &Meter<'_>,
    ) -> Result<Option<String>> {
        let missing = |error: &opendal_core::Error| {
            (error.kind() == opendal_core::ErrorKind::NotFound)
                .then(|| format!("{} is missing", self.describe(&fetch.path)))
        };
        let read = async {
            // The length first: a range past the end would be an error of the service's own.
            let bytes = operator.stat(full).await?.content_length();
            if bytes != fetch.sum.bytes {
                return Ok(Err(bytes));
            }
            let reader = operator.reader_with(full).chunk(CHUNK_BYTES).await?;
            reader.into_stream(0..bytes).await.map(Ok)
        };
        let mut stream = match read.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(bytes)) => {
                meter.add(1, 0);
                return Ok(damage(
                    &self.describe(&fetch.path),
                    Sum { bytes, ..fetch.sum },
                    fetch.sum,
                ));
            }
            Err(error) => {
                let damage = missing(&error);
                return match damage {
                    Some(damage) => Ok(Some(damage)),
                    None => Err(self.failed("read", &fetch.path, error)),
                };
            }
        };
        let mut file = match &fetch.to {
            Some(to) => Some((self.files.create(to)?, to)),
            None => None,
        };
        let mut hasher = crc32fast::Hasher::new();
        let mut bytes = 0;
        while let Some(buffer) = stream.next().await {
            let buffer = buffer.map_err(|error| self.failed("read", &fetch.path, error))?;
            for chunk in buffer {
                hasher.update(&chunk);
                bytes += chunk.len() as u64;
                meter.add(0, chunk.len() as u64);
                if let Some((file, to)) = &mut file {
                    file.write_all(&chunk).map_err(|error| Error::io("write", to, error))?;
                }
            }
        }
        if let Some((file, _)) = &file {
            self.files.sync_file(file)?;
        }
        meter.add(1, 0);
        let found = Sum { bytes, crc32: hasher.finalize() };
        Ok(damage(&self.describe(&fetch.path), found, fetch.sum))
    }
}

/// What is wrong with a file, if anything is.
fn damage(name: &str, found: Sum, wanted: Sum) -> Option<String> {
    if found.bytes != wanted.bytes {
        return Some(format!("{name} has {} bytes instead of {}", found.bytes, wanted.bytes));
    }
    (found.crc32 != wanted.crc32).then(|| format!("{name} is damaged: its checksum is another"))
}

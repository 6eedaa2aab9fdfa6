//! Files of a table: plain calls, each error with the path, fsync as the store is set.
//!
//! Every call of this crate to the file system goes through here, so that tests can make any
//! of them fail.
//!
//! The Avro codecs of crate `paimon` read and write through an opendal operator. The stock
//! one makes directories, renames and syncs for each file; ours opens the file and is done.

use crate::data_file::ReadMode;
use crate::fault::{Effect, Faults, IoKind, Verdict};
use crate::{Error, ErrorKind, Result};
use opendal_core::raw::{
    OpCopier, OpCopy, OpCreateDir, OpDelete, OpList, OpPresign, OpRead, OpRename, OpStat, OpWrite,
    RpCreateDir, RpPresign, RpRead, RpRename, RpStat, Service, ServiceInfo, new_std_io_error, oio,
};
use opendal_core::{
    Buffer, BytesRange, Capability, EntryMode, Metadata, OperationContext, Operator,
};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends the names of files that are not whole yet.
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Bytes that are read at a time of files that are copied or summed.
const CHUNK_BYTES: usize = 1 << 20;

/// The path without regard to the working directory, which may change.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::io("resolve", path, error))
}

/// How the files of a store are read and written. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct FileSystem {
    disk: Disk,
    sync: bool,
    read_mode: ReadMode,
    /// What the codecs of crate `paimon` read and write through.
    pub(crate) file_io: paimon::io::FileIO,
}

impl FileSystem {
    /// With `sync`, a file is durable when the call that wrote it returns.
    pub(crate) fn new(sync: bool, faults: Option<Faults>) -> Result<Self> {
        let disk = Disk { faults };
        let files = DirectFiles { disk: disk.clone(), sync };
        let operator = Operator::from_parts(OperationContext::default(), Arc::new(files));
        let file_io = paimon::io::FileIOBuilder::new("file")
            .with_fs_operator(operator)
            .build()
            .map_err(|error| {
                Error::new(ErrorKind::Storage, format!("cannot set up the file system: {error}"))
            })?;
        Ok(Self { disk, sync, read_mode: ReadMode::default(), file_io })
    }

    /// How data files are read from now on.
    pub(crate) fn with_read_mode(self, read_mode: ReadMode) -> Self {
        Self { read_mode, ..self }
    }

    pub(crate) fn read_mode(&self) -> ReadMode {
        self.read_mode
    }

    /// Whether what is written is durable when the call returns.
    pub(crate) fn is_synced(&self) -> bool {
        self.sync
    }

    /// One call to the file system for which there is no function here; `action` is what it does
    /// to `path`, for the message.
    pub(crate) fn call<T>(
        &self,
        kind: IoKind,
        action: &str,
        path: &Path,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> Result<T> {
        self.disk.call(kind, path, operation).map_err(|error| Error::io(action, path, error))
    }

    /// Writes a whole file under its final name; what is there is replaced in place, so
    /// only for names that nobody reads yet.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.write_file(path, bytes, self.sync)
    }

    fn write_file(&self, path: &Path, bytes: &[u8], sync: bool) -> Result<()> {
        let written = self.disk.create(path).and_then(|mut file| {
            file.write_all(bytes)?;
            if sync { file.sync() } else { Ok(()) }
        });
        written.map_err(|error| {
            self.disk.abandon(path);
            Error::io("write", path, error)
        })
    }

    /// Writes a whole file so that readers see the old one or the new one, never a part.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.write_and_rename(path, bytes, self.sync)?;
        self.sync_directory(path.parent().unwrap_or(Path::new("/")))
    }

    /// The same for what may be lost with the power: it can be told from other files.
    pub(crate) fn replace_unsynced(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.write_and_rename(path, bytes, false)
    }

    fn write_and_rename(&self, path: &Path, bytes: &[u8], sync: bool) -> Result<()> {
        // Readers list `snapshot-*` and `tag-*`: the temporary name is neither.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unique = crate::seam::unique_name();
        let temporary = path.with_file_name(format!(".{name}.{unique}{TEMPORARY_SUFFIX}"));
        self.write_file(&temporary, bytes, sync)?;
        self.disk.rename(&temporary, path).map_err(|error| {
            self.disk.abandon(&temporary);
            Error::io("replace", path, error)
        })
    }

    /// A new file to write to.
    pub(crate) fn create(&self, path: &Path) -> Result<OutputFile> {
        self.disk.create(path).map_err(|error| Error::io("create", path, error))
    }

    /// Opens a file for reading. To read from it, use [`FileSystem::call`].
    pub(crate) fn open(&self, path: &Path) -> Result<File> {
        self.call(IoKind::Open, "open", path, || File::open(path))
    }

    /// Makes what was written to a file durable, if the store is set so.
    pub(crate) fn sync_file(&self, file: &OutputFile) -> Result<()> {
        if !self.sync {
            return Ok(());
        }
        file.sync().map_err(|error| Error::io("write", &file.path, error))
    }

    /// The same files, where what is written becomes durable only by [`FileSystem::sync_path`].
    pub(crate) fn without_sync(&self) -> Result<Self> {
        Ok(Self::new(false, self.disk.faults.clone())?.with_read_mode(self.read_mode))
    }

    /// Makes what was written to a file that is closed durable, if the store is set so.
    pub(crate) fn sync_path(&self, path: &Path) -> Result<()> {
        if !self.sync {
            return Ok(());
        }
        let synced = self.disk.sync(IoKind::Sync, path, || File::open(path)?.sync_all());
        synced.map_err(|error| Error::io("write", path, error))
    }

    /// Makes new names in a directory durable, if the store is set so.
    pub(crate) fn sync_directory(&self, path: &Path) -> Result<()> {
        if !self.sync {
            return Ok(());
        }
        let synced = self.disk.sync(IoKind::SyncDirectory, path, || File::open(path)?.sync_all());
        synced.map_err(|error| Error::io("sync directory", path, error))
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.call(IoKind::Read, "read", path, || std::fs::read(path))
    }

    /// Whether there is such a file or directory.
    pub(crate) fn exists(&self, path: &Path) -> Result<bool> {
        self.call(IoKind::Metadata, "look for", path, || path.try_exists())
    }

    /// Whether there is such a directory.
    pub(crate) fn is_directory(&self, path: &Path) -> Result<bool> {
        let metadata = self.disk.call(IoKind::Metadata, path, || std::fs::metadata(path));
        match metadata {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(Error::io("look for", path, error)),
        }
    }

    /// Bytes of a file.
    pub(crate) fn size(&self, path: &Path) -> Result<u64> {
        self.call(IoKind::Metadata, "read", path, || Ok(std::fs::metadata(path)?.len()))
    }

    /// Makes a directory that the user named (absolute), and those above it, durable if the store
    /// is set so.
    pub(crate) fn create_root(&self, path: &Path) -> Result<()> {
        // An earlier start may have died between making and syncing it.
        let mut new = vec![path];
        if self.sync {
            for above in path.ancestors().skip(1) {
                if self.exists(above)? {
                    break;
                }
                new.push(above);
            }
        }
        self.create_directory(path)?;
        new.iter().filter_map(|new| new.parent()).try_for_each(|above| self.sync_directory(above))
    }

    pub(crate) fn create_directory(&self, path: &Path) -> Result<()> {
        self.call(IoKind::CreateDirectory, "create directory", path, || {
            std::fs::create_dir_all(path)
        })
    }

    /// Removes a file; one that is gone already is fine.
    pub(crate) fn remove(&self, path: &Path) -> Result<()> {
        self.call(IoKind::Remove, "remove", path, || gone_is_fine(std::fs::remove_file(path)))
    }

    /// Removes files; those that are gone already are fine.
    pub(crate) fn remove_all(&self, paths: &[PathBuf]) -> Result<()> {
        paths.iter().try_for_each(|path| self.remove(path))
    }

    /// Removes a directory with all that is in it; one that is gone already is fine.
    pub(crate) fn remove_directory(&self, path: &Path) -> Result<()> {
        self.call(IoKind::RemoveDirectory, "remove", path, || {
            gone_is_fine(std::fs::remove_dir_all(path))
        })
    }

    /// Gives a file a second name by hard link, or copies it where there can be none: across
    /// file systems, or past the number of links that one allows. What has the name is replaced.
    pub(crate) fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        let link = || {
            self.disk.call_with_name(IoKind::Link, from, Some(to), || std::fs::hard_link(from, to))
        };
        match link() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.remove(to)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = to.parent() {
                    self.create_directory(parent)?;
                }
            }
            Err(error) if cannot_link(&error) => return self.copy(from, to),
            Err(error) => return Err(Error::io("link", from, error)),
        }
        match link() {
            Err(error) if cannot_link(&error) => self.copy(from, to),
            linked => linked.map_err(|error| Error::io("link", from, error)),
        }
    }

    /// Copies a file, durable if the store is set so.
    pub(crate) fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let mut copy = self.create(to)?;
        self.read_chunks(from, |chunk| {
            copy.write_all(chunk).map_err(|error| Error::io("write", to, error))
        })?;
        self.sync_file(&copy)
    }

    /// Length and CRC-32 of a file.
    pub(crate) fn checksum(&self, path: &Path) -> Result<(u64, u32)> {
        let mut hasher = crc32fast::Hasher::new();
        let mut length = 0;
        self.read_chunks(path, |chunk| {
            hasher.update(chunk);
            length += chunk.len() as u64;
            Ok(())
        })?;
        Ok((length, hasher.finalize()))
    }

    /// Reads a file from beginning to end, a part at a time.
    pub(crate) fn read_chunks(
        &self,
        path: &Path,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut file = self.open(path)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = self.call(IoKind::Read, "read", path, || file.read(&mut chunk))?;
            if read == 0 {
                return Ok(());
            }
            each(chunk.get(..read).unwrap_or_default())?;
        }
    }

    /// Gives a file or directory another name.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to).map_err(|error| Error::io("rename", from, error))
    }

    /// Names of the files in a directory; a directory that is not there has none.
    pub(crate) fn list(&self, path: &Path) -> Result<Vec<String>> {
        self.call(IoKind::List, "list", path, || list(path))
    }
}

/// Whether only a copy will do: another file system, one without links, or one with too many.
fn cannot_link(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::CrossesDevices
            | io::ErrorKind::TooManyLinks
            | io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied
    )
}

fn gone_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn list(path: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The calls themselves, and the faults that tests put before them.
#[derive(Debug, Clone)]
struct Disk {
    faults: Option<Faults>,
}

impl Disk {
    fn call<T>(
        &self,
        kind: IoKind,
        path: &Path,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.call_with_name(kind, path, None, operation)
    }

    fn call_with_name<T>(
        &self,
        kind: IoKind,
        path: &Path,
        to: Option<&Path>,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(faults) = &self.faults else { return operation() };
        match faults.next(kind, path, to) {
            Verdict::Go => operation(),
            Verdict::Fail(Effect::Whole, error) => {
                let _ = operation();
                Err(error)
            }
            Verdict::Fail(Effect::Nothing | Effect::Half, error) => Err(error),
        }
    }

    fn sync(
        &self,
        kind: IoKind,
        path: &Path,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let recorded = self.faults.as_ref().is_some_and(Faults::is_recording);
        self.call(kind, path, || if recorded { Ok(()) } else { operation() })
    }

    /// Creates a file, and its directory on the first miss.
    fn create(&self, path: &Path) -> io::Result<OutputFile> {
        let create = || self.call(IoKind::Create, path, || File::create(path));
        let file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().ok_or(error)?;
                self.call(IoKind::CreateDirectory, parent, || std::fs::create_dir_all(parent))?;
                create()?
            }
            other => other?,
        };
        Ok(OutputFile { disk: self.clone(), path: path.to_owned(), file })
    }

    /// Removes what there is of a file that could not be written. What resists is removed when
    /// the table is next opened.
    fn abandon(&self, path: &Path) {
        let _ = self.call(IoKind::Remove, path, || std::fs::remove_file(path));
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call_with_name(IoKind::Rename, from, Some(to), || std::fs::rename(from, to))
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct OutputFile {
    disk: Disk,
    path: PathBuf,
    file: File,
}

impl OutputFile {
    fn sync(&self) -> io::Result<()> {
        self.disk.sync(IoKind::Sync, &self.path, || self.file.sync_all())
    }

    /// Begins to bring what is written to the disk; only a sync makes it durable.
    pub(crate) fn begin_to_sync(&self) {
        crate::seam::begin_to_sync(&self.file);
    }

    /// Bytes written so far.
    pub(crate) fn size(&self) -> Result<u64> {
        let metadata = self.disk.call(IoKind::Metadata, &self.path, || self.file.metadata());
        Ok(metadata.map_err(|error| Error::io("read", &self.path, error))?.len())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(faults) = &self.disk.faults
            && let Verdict::Fail(effect, error) = faults.next(IoKind::Write, &self.path, None)
        {
            let length = match effect {
                Effect::Nothing => 0,
                Effect::Half => bytes.len() / 2,
                Effect::Whole => bytes.len(),
            };
            let _ = self.file.write_all(bytes.get(..length).unwrap_or_default());
            return Err(error);
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An opendal service for what crate `paimon` does to the files of a table: each read and each
/// write is one open.
#[derive(Debug)]
struct DirectFiles {
    disk: Disk,
    sync: bool,
}

/// opendal paths lack the leading slash.
fn absolute(path: &str) -> PathBuf {
    Path::new("/").join(path.trim_start_matches('/'))
}

fn unsupported<T>() -> opendal_core::Result<T> {
    Err(opendal_core::Error::new(
        opendal_core::ErrorKind::Unsupported,
        "the files of a state table are only read and written here",
    ))
}

impl Service for DirectFiles {
    type Reader = DirectReader;
    type Writer = DirectWriter;
    type Lister = DirectLister;
    type Deleter = oio::OneShotDeleter<DirectDeleter>;
    type Copier = ();

    fn info(&self) -> ServiceInfo {
        ServiceInfo::new("fs", "/", "")
    }

    fn capability(&self) -> Capability {
        Capability {
            stat: true,
            read: true,
            write: true,
            write_can_empty: true,
            write_can_multi: true,
            create_dir: true,
            delete: true,
            list: true,
            rename: true,
            ..Capability::default()
        }
    }

    async fn stat(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpStat,
    ) -> opendal_core::Result<RpStat> {
        let path = absolute(path);
        let metadata = self
            .disk
            .call(IoKind::Metadata, &path, || std::fs::metadata(&path))
            .map_err(new_std_io_error)?;
        let mode = if metadata.is_dir() { EntryMode::DIR } else { EntryMode::FILE };
        Ok(RpStat::new(Metadata::new(mode).with_content_length(metadata.len())))
    }

    fn read(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpRead,
    ) -> opendal_core::Result<Self::Reader> {
        Ok(DirectReader { disk: self.disk.clone(), path: absolute(path) })
    }

    fn write(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpWrite,
    ) -> opendal_core::Result<Self::Writer> {
        let (disk, path) = (self.disk.clone(), absolute(path));
        Ok(DirectWriter { disk, path, sync: self.sync, file: None, written: 0 })
    }

    async fn create_dir(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpCreateDir,
    ) -> opendal_core::Result<RpCreateDir> {
        let path = absolute(path);
        self.disk
            .call(IoKind::CreateDirectory, &path, || std::fs::create_dir_all(&path))
            .map_err(new_std_io_error)?;
        Ok(RpCreateDir::default())
    }

    fn delete(&self, _: &OperationContext) -> opendal_core::Result<Self::Deleter> {
        Ok(oio::OneShotDeleter::new(DirectDeleter { disk: self.disk.clone() }))
    }

    fn list(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpList,
    ) -> opendal_core::Result<Self::Lister> {
        let directory = absolute(path);
        let names = self.disk.call(IoKind::List, &directory, || list(&directory));
        let names = names.map_err(new_std_io_error)?;
        let prefix = path.trim_end_matches('/').to_owned();
        Ok(DirectLister { directory, prefix, names: names.into_iter() })
    }

    fn copy(
        &self,
        _: &OperationContext,
        _: &str,
        _: &str,
        _: OpCopy,
        _: OpCopier,
    ) -> opendal_core::Result<Self::Copier> {
        unsupported()
    }

    /// Fails when the new name is taken: of two writers that commit the same snapshot, one wins.
    async fn rename(
        &self,
        _: &OperationContext,
        from: &str,
        to: &str,
        _: OpRename,
    ) -> opendal_core::Result<RpRename> {
        let (from, to) = (absolute(from), absolute(to));
        self.disk
            .call_with_name(IoKind::Rename, &from, Some(&to), || std::fs::hard_link(&from, &to))
            .map_err(new_std_io_error)?;
        self.disk.abandon(&from);
        Ok(RpRename::default())
    }

    async fn presign(
        &self,
        _: &OperationContext,
        _: &str,
        _: OpPresign,
    ) -> opendal_core::Result<RpPresign> {
        unsupported()
    }
}

struct DirectDeleter {
    disk: Disk,
}

impl oio::OneShotDelete for DirectDeleter {
    async fn delete_once(&self, path: String, _: OpDelete) -> opendal_core::Result<()> {
        let path = absolute(&path);
        match self.disk.call(IoKind::Remove, &path, || std::fs::remove_file(&path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(new_std_io_error(error)),
            _ => Ok(()),
        }
    }
}

struct DirectLister {
    directory: PathBuf,
    /// As opendal writes it.
    prefix: String,
    names: std::vec::IntoIter<String>,
}

impl oio::List for DirectLister {
    async fn next(&mut self) -> opendal_core::Result<Option<oio::Entry>> {
        for name in self.names.by_ref() {
            // What was removed meanwhile is not there.
            let Ok(metadata) = std::fs::metadata(self.directory.join(&name)) else { continue };
            let path = format!("{}/{name}", self.prefix);
            let entry = if metadata.is_dir() {
                oio::Entry::new(&format!("{path}/"), Metadata::new(EntryMode::DIR))
            } else {
                let metadata = Metadata::new(EntryMode::FILE).with_content_length(metadata.len());
                oio::Entry::new(&path, metadata)
            };
            return Ok(Some(entry));
        }
        Ok(None)
    }
}

struct DirectReader {
    disk: Disk,
    path: PathBuf,
}

impl DirectReader {
    fn read_range(&self, range: BytesRange) -> io::Result<Vec<u8>> {
        let Self { disk, path } = self;
        let file = disk.call(IoKind::Open, path, || File::open(path))?;
        let length = disk.call(IoKind::Metadata, path, || file.metadata())?.len();
        let rest = length.saturating_sub(range.offset());
        let wanted = range.size().map_or(rest, |size| size.min(rest));
        let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
        disk.call(IoKind::Read, path, || file.read_exact_at(&mut bytes, range.offset()))?;
        Ok(bytes)
    }
}

impl oio::Read for DirectReader {
    async fn open(
        &self,
        range: BytesRange,
    ) -> opendal_core::Result<(RpRead, Box<dyn oio::ReadStreamDyn>)> {
        let (reply, buffer) = self.read(range).await?;
        Ok((reply, Box::new(buffer)))
    }

    async fn read(&self, range: BytesRange) -> opendal_core::Result<(RpRead, Buffer)> {
        let bytes = self.read_range(range).map_err(new_std_io_error)?;
        let metadata = Metadata::new(EntryMode::FILE).with_content_length(bytes.len() as u64);
        Ok((RpRead::new(metadata), Buffer::from(bytes)))
    }
}

struct DirectWriter {
    disk: Disk,
    path: PathBuf,
    sync: bool,
    file: Option<OutputFile>,
    written: u64,
}

impl DirectWriter {
    fn file(&mut self) -> opendal_core::Result<&mut OutputFile> {
        if self.file.is_none() {
            self.file = Some(self.disk.create(&self.path).map_err(new_std_io_error)?);
        }
        self.file.as_mut().ok_or_else(|| {
            opendal_core::Error::new(opendal_core::ErrorKind::Unexpected, "file is not open")
        })
    }

    fn failed(&self, error: io::Error) -> opendal_core::Error {
        self.disk.abandon(&self.path);
        new_std_io_error(error)
    }
}

impl oio::Write for DirectWriter {
    async fn write(&mut self, buffer: Buffer) -> opendal_core::Result<()> {
        self.written += buffer.len() as u64;
        let file = self.file()?;
        let written = buffer.into_iter().try_for_each(|chunk| file.write_all(&chunk));
        written.map_err(|error| self.failed(error))
    }

    async fn close(&mut self) -> opendal_core::Result<Metadata> {
        let sync = self.sync;
        let file = self.file()?;
        let synced = if sync { file.sync() } else { Ok(()) };
        synced.map_err(|error| self.failed(error))?;
        Ok(Metadata::new(EntryMode::FILE).with_content_length(self.written))
    }

    async fn abort(&mut self) -> opendal_core::Result<()> {
        self.disk.abandon(&self.path);
        Ok(())
    }
}

//! `wasi:filesystem`: files in the directories that were granted.
//!
//! Links of either kind cannot be made, and times of files cannot be set.

use super::clocks::Datetime;
use super::directory::{Directory, Opened, Wanted};
use super::io::{CHUNK_BYTES, InputStream, IoError, OpenFile, OutputStream, read_at};
use super::{Access, drop_resource, interface};
use crate::host::HostState;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use wasmtime::component::{
    ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType, flags,
};

/// What a new file or directory takes of the bytes that may be written.
const ENTRY_BYTES: u64 = 4 << 10;

/// What went wrong; the names are those of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "an enumeration has all cases of the interface, or it would not link")]
pub(super) enum ErrorCode {
    #[component(name = "access")]
    Access,
    #[component(name = "would-block")]
    WouldBlock,
    #[component(name = "already")]
    Already,
    #[component(name = "bad-descriptor")]
    BadDescriptor,
    #[component(name = "busy")]
    Busy,
    #[component(name = "deadlock")]
    Deadlock,
    #[component(name = "quota")]
    Quota,
    #[component(name = "exist")]
    Exist,
    #[component(name = "file-too-large")]
    FileTooLarge,
    #[component(name = "illegal-byte-sequence")]
    IllegalByteSequence,
    #[component(name = "in-progress")]
    InProgress,
    #[component(name = "interrupted")]
    Interrupted,
    #[component(name = "invalid")]
    Invalid,
    #[component(name = "io")]
    Io,
    #[component(name = "is-directory")]
    IsDirectory,
    #[component(name = "loop")]
    Loop,
    #[component(name = "too-many-links")]
    TooManyLinks,
    #[component(name = "message-size")]
    MessageSize,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "no-device")]
    NoDevice,
    #[component(name = "no-entry")]
    NoEntry,
    #[component(name = "no-lock")]
    NoLock,
    #[component(name = "insufficient-memory")]
    InsufficientMemory,
    #[component(name = "insufficient-space")]
    InsufficientSpace,
    #[component(name = "not-directory")]
    NotDirectory,
    #[component(name = "not-empty")]
    NotEmpty,
    #[component(name = "not-recoverable")]
    NotRecoverable,
    #[component(name = "unsupported")]
    Unsupported,
    #[component(name = "no-tty")]
    NoTty,
    #[component(name = "no-such-device")]
    NoSuchDevice,
    #[component(name = "overflow")]
    Overflow,
    #[component(name = "not-permitted")]
    NotPermitted,
    #[component(name = "pipe")]
    Pipe,
    #[component(name = "read-only")]
    ReadOnly,
    #[component(name = "invalid-seek")]
    InvalidSeek,
    #[component(name = "text-file-busy")]
    TextFileBusy,
    #[component(name = "cross-device")]
    CrossDevice,
}

impl ErrorCode {
    pub(super) fn of(error: &std::io::Error) -> Self {
        Errno::from_io_error(error).map_or(Self::Io, Self::from)
    }
}

impl From<Errno> for ErrorCode {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ACCESS => Self::Access,
            Errno::AGAIN => Self::WouldBlock,
            Errno::BADF => Self::BadDescriptor,
            Errno::BUSY => Self::Busy,
            Errno::DQUOT => Self::Quota,
            Errno::EXIST => Self::Exist,
            Errno::FBIG => Self::FileTooLarge,
            Errno::ILSEQ => Self::IllegalByteSequence,
            Errno::INTR => Self::Interrupted,
            Errno::INVAL => Self::Invalid,
            Errno::ISDIR => Self::IsDirectory,
            Errno::LOOP => Self::Loop,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::InsufficientMemory,
            Errno::MLINK => Self::TooManyLinks,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::NOENT => Self::NoEntry,
            Errno::NOSPC => Self::InsufficientSpace,
            Errno::NOTDIR => Self::NotDirectory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::OVERFLOW => Self::Overflow,
            Errno::PERM => Self::NotPermitted,
            Errno::ROFS => Self::ReadOnly,
            Errno::TXTBSY => Self::TextFileBusy,
            Errno::XDEV => Self::CrossDevice,
            _ => Self::Io,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
enum DescriptorType {
    #[component(name = "unknown")]
    Unknown,
    #[component(name = "block-device")]
    BlockDevice,
    #[component(name = "character-device")]
    CharacterDevice,
    #[component(name = "directory")]
    Directory,
    #[component(name = "fifo")]
    Fifo,
    #[component(name = "symbolic-link")]
    SymbolicLink,
    #[component(name = "regular-file")]
    RegularFile,
    #[component(name = "socket")]
    Socket,
}

impl From<FileType> for DescriptorType {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::RegularFile,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::SymbolicLink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => Self::Unknown,
        }
    }
}

flags! {
    DescriptorFlags {
        #[component(name = "read")]
        const READ;
        #[component(name = "write")]
        const WRITE;
        #[component(name = "file-integrity-sync")]
        const FILE_INTEGRITY_SYNC;
        #[component(name = "data-integrity-sync")]
        const DATA_INTEGRITY_SYNC;
        #[component(name = "requested-write-sync")]
        const REQUESTED_WRITE_SYNC;
        #[component(name = "mutate-directory")]
        const MUTATE_DIRECTORY;
    }
}

flags! {
    PathFlags {
        #[component(name = "symlink-follow")]
        const SYMLINK_FOLLOW;
    }
}

flags! {
    OpenFlags {
        #[component(name = "create")]
        const CREATE;
        #[component(name = "directory")]
        const DIRECTORY;
        #[component(name = "exclusive")]
        const EXCLUSIVE;
        #[component(name = "truncate")]
        const TRUNCATE;
    }
}

#[derive(Debug, Clone, Copy, ComponentType, Lower)]
#[component(record)]
struct DescriptorStat {
    #[component(name = "type")]
    kind: DescriptorType,
    #[component(name = "link-count")]
    link_count: u64,
    size: u64,
    #[component(name = "data-access-timestamp")]
    accessed: Option<Datetime>,
    #[component(name = "data-modification-timestamp")]
    modified: Option<Datetime>,
    #[component(name = "status-change-timestamp")]
    changed: Option<Datetime>,
}

impl From<&Stat> for DescriptorStat {
    fn from(stat: &Stat) -> Self {
        let time = |seconds: i64, nanoseconds: u64| {
            let (seconds, nanoseconds) = (seconds.try_into(), nanoseconds.try_into());
            Some(Datetime { seconds: seconds.ok()?, nanoseconds: nanoseconds.ok()? })
        };
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            #[allow(clippy::useless_conversion, reason = "it has 32 bits on other processors")]
            link_count: u64::from(stat.st_nlink),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            accessed: time(stat.st_atime, stat.st_atime_nsec),
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            changed: time(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

#[derive(Debug, Clone, Copy, ComponentType, Lift)]
#[component(variant)]
#[expect(dead_code, reason = "times cannot be set, but a component that could must link")]
enum NewTimestamp {
    #[component(name = "no-change")]
    NoChange,
    #[component(name = "now")]
    Now,
    #[component(name = "timestamp")]
    Timestamp(Datetime),
}

#[derive(Debug, Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "advice is not taken, but a component that gives it must link")]
enum Advice {
    #[component(name = "normal")]
    Normal,
    #[component(name = "sequential")]
    Sequential,
    #[component(name = "random")]
    Random,
    #[component(name = "will-need")]
    WillNeed,
    #[component(name = "dont-need")]
    DontNeed,
    #[component(name = "no-reuse")]
    NoReuse,
}

#[derive(Debug, Clone, ComponentType, Lower)]
#[component(record)]
struct DirectoryEntry {
    #[component(name = "type")]
    kind: DescriptorType,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lower)]
#[component(record)]
struct MetadataHash {
    lower: u64,
    upper: u64,
}

impl MetadataHash {
    /// The same for the same file alone.
    fn of(stat: &Stat) -> Self {
        let digest = Sha256::new()
            .chain_update(stat.st_dev.to_le_bytes())
            .chain_update(stat.st_ino.to_le_bytes())
            .finalize();
        let halves = digest.as_chunks::<8>().0;
        let half = |index: usize| halves.get(index).copied().map_or(0, u64::from_le_bytes);
        Self { lower: half(0), upper: half(1) }
    }
}

/// What a guest has open.
#[derive(Debug, Clone)]
enum Descriptor {
    Directory(Arc<Directory>),
    File(OpenFile),
}

/// Entries of a directory, read one by one.
struct Entries {
    entries: rustix::fs::Dir,
    _permit: super::Permit,
}

/// The inner error is the guest's, the outer one a trap.
type Answer<T> = wasmtime::Result<Result<T, ErrorCode>>;
type Handle = Resource<Descriptor>;

impl HostState {
    fn descriptor(&self, handle: &Handle) -> wasmtime::Result<Descriptor> {
        Ok(self.handles.get(handle)?.clone())
    }

    fn with_directory<T>(
        &self,
        handle: &Handle,
        run: impl FnOnce(&Directory) -> Result<T, Errno>,
    ) -> Answer<T> {
        Ok(match self.descriptor(handle)? {
            Descriptor::Directory(directory) => run(&directory).map_err(ErrorCode::from),
            Descriptor::File(_) => Err(ErrorCode::NotDirectory),
        })
    }

    fn file(&self, handle: &Handle) -> Answer<OpenFile> {
        Ok(match self.descriptor(handle)? {
            Descriptor::File(file) => Ok(file),
            Descriptor::Directory(_) => Err(ErrorCode::IsDirectory),
        })
    }

    fn writable_file(&self, handle: &Handle) -> Answer<OpenFile> {
        Ok(self.file(handle)?.and_then(|file| {
            if file.is_writable { Ok(file) } else { Err(ErrorCode::BadDescriptor) }
        }))
    }

    fn stat(&self, handle: &Handle) -> Answer<Stat> {
        let stat = match self.descriptor(handle)? {
            Descriptor::Directory(directory) => rustix::fs::fstat(directory.fd()),
            Descriptor::File(file) => rustix::fs::fstat(&file.file),
        };
        Ok(stat.map_err(ErrorCode::from))
    }

    fn open_at(&mut self, handle: &Handle, path: &str, wanted: Wanted) -> Answer<Handle> {
        let Descriptor::Directory(directory) = self.descriptor(handle)? else {
            return Ok(Err(ErrorCode::NotDirectory));
        };
        let Some(permit) = self.wasi()?.permit() else {
            return Ok(Err(ErrorCode::InsufficientMemory));
        };
        if wanted.create && !self.wasi()?.take_writable(ENTRY_BYTES) {
            return Ok(Err(ErrorCode::Quota));
        }
        let opened = match directory.open_at(path, wanted) {
            Ok(Opened::Directory(fd)) => {
                let opened = Directory::of(fd, directory.access, permit);
                Descriptor::Directory(Arc::new(opened))
            }
            Ok(Opened::File(fd)) => Descriptor::File(OpenFile {
                file: Arc::new(File::from(fd)),
                is_readable: wanted.read || !wanted.write,
                is_writable: wanted.write,
                _permit: permit,
            }),
            Err(error) => return Ok(Err(error.into())),
        };
        Ok(Ok(self.hand_out(opened)?))
    }

    fn create_directory(&mut self, handle: &Handle, path: &str) -> Answer<()> {
        if !self.wasi()?.take_writable(ENTRY_BYTES) {
            return Ok(Err(ErrorCode::Quota));
        }
        self.with_directory(handle, |directory| directory.create_directory(path))
    }

    fn rename(&mut self, handle: &Handle, path: &str, to: &Handle, to_path: &str) -> Answer<()> {
        let Descriptor::Directory(to) = self.descriptor(to)? else {
            return Ok(Err(ErrorCode::NotDirectory));
        };
        self.with_directory(handle, |directory| directory.rename(path, &to, to_path))
    }

    fn read_file(&self, handle: &Handle, length: u64, position: u64) -> Answer<(Vec<u8>, bool)> {
        let file = match self.file(handle)? {
            Ok(file) if file.is_readable => file,
            Ok(_) => return Ok(Err(ErrorCode::BadDescriptor)),
            Err(code) => return Ok(Err(code)),
        };
        let read = read_at(&file.file, length, position);
        Ok(read.map_err(|error| ErrorCode::of(&error)).map(|bytes| {
            let is_end = bytes.is_empty() && length > 0;
            (bytes, is_end)
        }))
    }

    fn write_file(&mut self, handle: &Handle, bytes: &[u8], position: u64) -> Answer<u64> {
        let file = match self.writable_file(handle)? {
            Ok(file) => file,
            Err(code) => return Ok(Err(code)),
        };
        let most = usize::try_from(CHUNK_BYTES)?;
        let bytes = bytes.get(..most).unwrap_or(bytes);
        if !self.wasi()?.take_writable(u64::try_from(bytes.len())?) {
            return Ok(Err(ErrorCode::Quota));
        }
        let written = file.file.write_at(bytes, position).map_err(|error| ErrorCode::of(&error));
        Ok(written.map(|written| u64::try_from(written).unwrap_or_default()))
    }

    fn set_size(&mut self, handle: &Handle, size: u64) -> Answer<()> {
        let file = match self.writable_file(handle)? {
            Ok(file) => file,
            Err(code) => return Ok(Err(code)),
        };
        let stat = match rustix::fs::fstat(&file.file) {
            Ok(stat) => stat,
            Err(error) => return Ok(Err(error.into())),
        };
        let grown = size.saturating_sub(u64::try_from(stat.st_size).unwrap_or(0));
        if !self.wasi()?.take_writable(grown) {
            return Ok(Err(ErrorCode::Quota));
        }
        Ok(file.file.set_len(size).map_err(|error| ErrorCode::of(&error)))
    }

    fn sync(&self, handle: &Handle) -> Answer<()> {
        Ok(match self.descriptor(handle)? {
            Descriptor::File(file) if file.is_writable => {
                file.file.sync_data().map_err(|error| ErrorCode::of(&error))
            }
            // Nothing was written through it.
            Descriptor::File(_) | Descriptor::Directory(_) => Ok(()),
        })
    }

    fn entries(&mut self, handle: &Handle) -> Answer<Resource<Entries>> {
        let Some(permit) = self.wasi()?.permit() else {
            return Ok(Err(ErrorCode::InsufficientMemory));
        };
        let opened = self.with_directory(handle, |d| rustix::fs::Dir::read_from(d.fd()))?;
        match opened {
            Ok(entries) => Ok(Ok(self.hand_out(Entries { entries, _permit: permit })?)),
            Err(code) => Ok(Err(code)),
        }
    }

    fn next_entry(&mut self, handle: &Resource<Entries>) -> Answer<Option<DirectoryEntry>> {
        let entries = &mut self.handles.get_mut(handle)?.entries;
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Ok(Err(error.into())),
            };
            let Ok(name) = entry.file_name().to_str() else {
                return Ok(Err(ErrorCode::IllegalByteSequence));
            };
            if name != "." && name != ".." {
                let kind = entry.file_type().into();
                return Ok(Ok(Some(DirectoryEntry { kind, name: name.to_owned() })));
            }
        }
        Ok(Ok(None))
    }

    fn descriptor_flags(&self, handle: &Handle) -> wasmtime::Result<DescriptorFlags> {
        let mut flags = DescriptorFlags::empty();
        match self.descriptor(handle)? {
            Descriptor::Directory(directory) => {
                flags |= DescriptorFlags::READ;
                if directory.access == Access::ReadWrite {
                    flags |= DescriptorFlags::MUTATE_DIRECTORY;
                }
            }
            Descriptor::File(file) => {
                if file.is_readable {
                    flags |= DescriptorFlags::READ;
                }
                if file.is_writable {
                    flags |= DescriptorFlags::WRITE;
                }
            }
        }
        Ok(flags)
    }

    fn directories(&mut self) -> wasmtime::Result<Vec<(Handle, String)>> {
        let directories = self.wasi()?.directories.clone();
        let hand_out = |(name, directory): (String, Arc<Directory>)| {
            Ok((self.hand_out(Descriptor::Directory(directory))?, name))
        };
        directories.into_iter().map(hand_out).collect()
    }
}

fn wanted(path: PathFlags, open: OpenFlags, flags: DescriptorFlags) -> Wanted {
    Wanted {
        follow: path.contains_all(PathFlags::SYMLINK_FOLLOW),
        read: flags.contains_all(DescriptorFlags::READ),
        write: flags.contains_all(DescriptorFlags::WRITE),
        create: open.contains_all(OpenFlags::CREATE),
        exclusive: open.contains_all(OpenFlags::EXCLUSIVE),
        truncate: open.contains_all(OpenFlags::TRUNCATE),
        directory: open.contains_all(OpenFlags::DIRECTORY),
    }
}

trait Contains {
    fn contains_all(self, other: Self) -> bool;
}

impl<F: Copy + PartialEq + std::ops::BitAnd<Output = F>> Contains for F {
    fn contains_all(self, other: Self) -> bool {
        self & other == other
    }
}

fn follows(path: PathFlags) -> bool {
    path.contains_all(PathFlags::SYMLINK_FOLLOW)
}

pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let mut preopens = interface(linker, "wasi:filesystem/preopens")?;
    preopens.func_wrap("get-directories", |mut store, (): ()| {
        Ok((store.data_mut().directories()?,))
    })?;
    let mut types = interface(linker, "wasi:filesystem/types")?;
    let descriptor = ResourceType::host::<Descriptor>();
    types.resource("descriptor", descriptor, drop_resource::<Descriptor>)?;
    let entries = ResourceType::host::<Entries>();
    types.resource("directory-entry-stream", entries, drop_resource::<Entries>)?;
    types.func_wrap("filesystem-error-code", |store, (error,): (Resource<IoError>,)| {
        Ok((Some(store.data().handles.get(&error)?.0),))
    })?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store, (own,): (Resource<Entries>,)| Ok((store.data_mut().next_entry(&own)?,)),
    )?;
    link_files(&mut types)?;
    link_directories(&mut types)?;
    link_metadata(&mut types)
}

fn link_files(types: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    types.func_wrap(
        "[method]descriptor.read-via-stream",
        |mut store, (own, position): (Handle, u64)| {
            let host = store.data_mut();
            Ok((match host.file(&own)? {
                Ok(file) if file.is_readable => {
                    Ok(host.hand_out(InputStream::File(file, position))?)
                }
                Ok(_) => Err(ErrorCode::BadDescriptor),
                Err(code) => Err(code),
            },))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store, (own, position): (Handle, u64)| {
            let host = store.data_mut();
            Ok((match host.writable_file(&own)? {
                Ok(file) => Ok(host.hand_out(OutputStream::File(file, Some(position)))?),
                Err(code) => Err(code),
            },))
        },
    )?;
    types.func_wrap("[method]descriptor.append-via-stream", |mut store, (own,): (Handle,)| {
        let host = store.data_mut();
        Ok((match host.writable_file(&own)? {
            Ok(file) => Ok(host.hand_out(OutputStream::File(file, None))?),
            Err(code) => Err(code),
        },))
    })?;
    types.func_wrap(
        "[method]descriptor.read",
        |store, (own, length, position): (Handle, u64, u64)| {
            Ok((store.data().read_file(&own, length, position)?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write",
        |mut store, (own, bytes, position): (Handle, Vec<u8>, u64)| {
            Ok((store.data_mut().write_file(&own, &bytes, position)?,))
        },
    )?;
    types.func_wrap("[method]descriptor.set-size", |mut store, (own, size): (Handle, u64)| {
        Ok((store.data_mut().set_size(&own, size)?,))
    })?;
    for name in ["sync", "sync-data"] {
        types.func_wrap(&format!("[method]descriptor.{name}"), |store, (own,): (Handle,)| {
            Ok((store.data().sync(&own)?,))
        })?;
    }
    types.func_wrap(
        "[method]descriptor.advise",
        |store, (own, _, _, _): (Handle, u64, u64, Advice)| {
            Ok((store.data().file(&own)?.map(drop),))
        },
    )
}

fn link_directories(types: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    types.func_wrap(
        "[method]descriptor.open-at",
        |mut store,
         (own, path_flags, path, open, flags): (
            Handle,
            PathFlags,
            String,
            OpenFlags,
            DescriptorFlags,
        )| {
            let wanted = wanted(path_flags, open, flags);
            Ok((store.data_mut().open_at(&own, &path, wanted)?,))
        },
    )?;
    types.func_wrap("[method]descriptor.read-directory", |mut store, (own,): (Handle,)| {
        Ok((store.data_mut().entries(&own)?,))
    })?;
    types.func_wrap(
        "[method]descriptor.create-directory-at",
        |mut store, (own, path): (Handle, String)| {
            Ok((store.data_mut().create_directory(&own, &path)?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.remove-directory-at",
        |store, (own, path): (Handle, String)| {
            Ok((store.data().with_directory(&own, |d| d.remove_directory(&path))?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.unlink-file-at",
        |store, (own, path): (Handle, String)| {
            Ok((store.data().with_directory(&own, |d| d.remove_file(&path))?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.rename-at",
        |mut store, (own, path, to, to_path): (Handle, String, Handle, String)| {
            Ok((store.data_mut().rename(&own, &path, &to, &to_path)?,))
        },
    )?;
    types.func_wrap("[method]descriptor.readlink-at", |store, (own, path): (Handle, String)| {
        Ok((store.data().with_directory(&own, |d| d.read_link(&path))?,))
    })?;
    types.func_wrap(
        "[method]descriptor.link-at",
        |_, _: (Handle, PathFlags, String, Handle, String)| {
            Ok((Err::<(), _>(ErrorCode::NotPermitted),))
        },
    )?;
    types.func_wrap("[method]descriptor.symlink-at", |_, _: (Handle, String, String)| {
        Ok((Err::<(), _>(ErrorCode::NotPermitted),))
    })
}

fn link_metadata(types: &mut LinkerInstance<'_, HostState>) -> wasmtime::Result<()> {
    types.func_wrap("[method]descriptor.get-flags", |store, (own,): (Handle,)| {
        Ok((Ok::<_, ErrorCode>(store.data().descriptor_flags(&own)?),))
    })?;
    types.func_wrap("[method]descriptor.get-type", |store, (own,): (Handle,)| {
        let stat = store.data().stat(&own)?;
        Ok((stat.map(|stat| DescriptorType::from(FileType::from_raw_mode(stat.st_mode))),))
    })?;
    types.func_wrap("[method]descriptor.stat", |store, (own,): (Handle,)| {
        Ok((store.data().stat(&own)?.map(|stat| DescriptorStat::from(&stat)),))
    })?;
    types.func_wrap(
        "[method]descriptor.stat-at",
        |store, (own, flags, path): (Handle, PathFlags, String)| {
            let follow = follows(flags);
            let stat = store.data().with_directory(&own, |d| d.stat_at(&path, follow))?;
            Ok((stat.map(|stat| DescriptorStat::from(&stat)),))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.set-times",
        |_, _: (Handle, NewTimestamp, NewTimestamp)| Ok((Err::<(), _>(ErrorCode::Unsupported),)),
    )?;
    types.func_wrap(
        "[method]descriptor.set-times-at",
        |_, _: (Handle, PathFlags, String, NewTimestamp, NewTimestamp)| {
            Ok((Err::<(), _>(ErrorCode::Unsupported),))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.is-same-object",
        |store, (own, other): (Handle, Handle)| {
            let (own, other) = (store.data().stat(&own)?, store.data().stat(&other)?);
            let is_same = |a: &Stat, b: &Stat| MetadataHash::of(a) == MetadataHash::of(b);
            Ok((matches!((&own, &other), (Ok(own), Ok(other)) if is_same(own, other)),))
        },
    )?;
    types.func_wrap("[method]descriptor.metadata-hash", |store, (own,): (Handle,)| {
        Ok((store.data().stat(&own)?.map(|stat| MetadataHash::of(&stat)),))
    })?;
    types.func_wrap(
        "[method]descriptor.metadata-hash-at",
        |store, (own, flags, path): (Handle, PathFlags, String)| {
            let follow = follows(flags);
            let stat = store.data().with_directory(&own, |d| d.stat_at(&path, follow))?;
            Ok((stat.map(|stat| MetadataHash::of(&stat)),))
        },
    )
}

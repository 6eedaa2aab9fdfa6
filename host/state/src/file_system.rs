//! Files of a table: plain calls, each error with the path, fsync as the store is set.
//!
//! The Avro codecs of crate `paimon` read and write through an opendal operator. The stock
//! one makes directories, renames and syncs for each file; ours opens the file and is done.

use crate::{Error, ErrorKind, Result};
use opendal_core::raw::{
    OpCopier, OpCopy, OpCreateDir, OpList, OpPresign, OpRead, OpRename, OpStat, OpWrite,
    RpCreateDir, RpPresign, RpRead, RpRename, RpStat, Service, ServiceInfo, Servicer,
    new_std_io_error, oio,
};
use opendal_core::{
    Buffer, Builder, BytesRange, Capability, EntryMode, Metadata, OperationContext, Operator,
};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Ends the names of files that are not whole yet.
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// How the files of a store are written. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct FileSystem {
    sync: bool,
    /// What the codecs of crate `paimon` read and write through.
    pub(crate) file_io: paimon::io::FileIO,
}

impl FileSystem {
    /// With `sync`, a file is durable when the call that wrote it returns.
    pub(crate) fn new(sync: bool) -> Result<Self> {
        let unusable = |error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Storage, format!("cannot set up the file system: {error}"))
        };
        let stock: Servicer = Arc::new(
            opendal_service_fs::Fs::default()
                .root("/")
                .build()
                .map_err(|error| unusable(&error))?,
        );
        let operator = Operator::from_parts(
            OperationContext::default(),
            Arc::new(DirectFiles { stock, sync }),
        );
        let file_io = paimon::io::FileIOBuilder::new("file")
            .with_fs_operator(operator)
            .build()
            .map_err(|error| unusable(&error))?;
        Ok(Self { sync, file_io })
    }

    /// Writes a whole file under its final name; what is there is replaced in place, so
    /// only for names that nobody reads yet.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let written = create(path).and_then(|mut file| {
            file.write_all(bytes)?;
            if self.sync { file.sync_all() } else { Ok(()) }
        });
        written.map_err(|error| Error::io("write", path, error))
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
        Self { sync, file_io: self.file_io.clone() }.write(&temporary, bytes)?;
        std::fs::rename(&temporary, path).map_err(|error| Error::io("replace", path, error))
    }

    /// A new file to write to.
    pub(crate) fn create(&self, path: &Path) -> Result<File> {
        create(path).map_err(|error| Error::io("create", path, error))
    }

    /// Makes what was written to an open file durable, if the store is set so.
    pub(crate) fn sync_file(&self, file: &File, path: &Path) -> Result<()> {
        if !self.sync {
            return Ok(());
        }
        file.sync_all().map_err(|error| Error::io("write", path, error))
    }

    /// Makes new names in a directory durable, if the store is set so.
    pub(crate) fn sync_directory(&self, path: &Path) -> Result<()> {
        if !self.sync {
            return Ok(());
        }
        File::open(path)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| Error::io("sync directory", path, error))
    }

    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>> {
        std::fs::read(path).map_err(|error| Error::io("read", path, error))
    }

    pub(crate) fn create_directory(&self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(path).map_err(|error| Error::io("create directory", path, error))
    }

    /// Removes a file; one that is gone already is fine.
    pub(crate) fn remove(&self, path: &Path) -> Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", path, error))
            }
            _ => Ok(()),
        }
    }

    /// Names of the files in a directory; a directory that is not there has none.
    pub(crate) fn list(&self, path: &Path) -> Result<Vec<String>> {
        let entries = match std::fs::read_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| Error::io("list", path, error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::io("list", path, error))?;
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Creates a file, and its directory on the first miss.
fn create(path: &Path) -> std::io::Result<File> {
    match File::create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let parent = path.parent().ok_or(error)?;
            std::fs::create_dir_all(parent)?;
            File::create(path)
        }
        other => other,
    }
}

/// An opendal service whose reads and writes are one open each.
#[derive(Debug)]
struct DirectFiles {
    /// Everything but reading and writing.
    stock: Servicer,
    sync: bool,
}

/// opendal paths lack the leading slash.
fn absolute(path: &str) -> PathBuf {
    Path::new("/").join(path.trim_start_matches('/'))
}

impl Service for DirectFiles {
    type Reader = DirectReader;
    type Writer = DirectWriter;
    type Lister = oio::Lister;
    type Deleter = oio::Deleter;
    type Copier = oio::Copier;

    fn info(&self) -> ServiceInfo {
        self.stock.info_dyn()
    }

    fn capability(&self) -> Capability {
        self.stock.capability_dyn()
    }

    async fn create_dir(
        &self,
        context: &OperationContext,
        path: &str,
        args: OpCreateDir,
    ) -> opendal_core::Result<RpCreateDir> {
        self.stock.create_dir_dyn(context, path, args).await
    }

    async fn stat(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpStat,
    ) -> opendal_core::Result<RpStat> {
        let metadata = std::fs::metadata(absolute(path)).map_err(new_std_io_error)?;
        let mode = if metadata.is_dir() { EntryMode::DIR } else { EntryMode::FILE };
        Ok(RpStat::new(Metadata::new(mode).with_content_length(metadata.len())))
    }

    fn read(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpRead,
    ) -> opendal_core::Result<Self::Reader> {
        Ok(DirectReader { path: absolute(path) })
    }

    fn write(
        &self,
        _: &OperationContext,
        path: &str,
        _: OpWrite,
    ) -> opendal_core::Result<Self::Writer> {
        Ok(DirectWriter { path: absolute(path), sync: self.sync, file: None, written: 0 })
    }

    fn delete(&self, context: &OperationContext) -> opendal_core::Result<Self::Deleter> {
        self.stock.delete_dyn(context)
    }

    fn list(
        &self,
        context: &OperationContext,
        path: &str,
        args: OpList,
    ) -> opendal_core::Result<Self::Lister> {
        self.stock.list_dyn(context, path, args)
    }

    fn copy(
        &self,
        context: &OperationContext,
        from: &str,
        to: &str,
        args: OpCopy,
        options: OpCopier,
    ) -> opendal_core::Result<Self::Copier> {
        self.stock.copy_dyn(context, from, to, args, options)
    }

    async fn rename(
        &self,
        context: &OperationContext,
        from: &str,
        to: &str,
        args: OpRename,
    ) -> opendal_core::Result<RpRename> {
        self.stock.rename_dyn(context, from, to, args).await
    }

    async fn presign(
        &self,
        context: &OperationContext,
        path: &str,
        args: OpPresign,
    ) -> opendal_core::Result<RpPresign> {
        self.stock.presign_dyn(context, path, args).await
    }
}

struct DirectReader {
    path: PathBuf,
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
        let file = File::open(&self.path).map_err(new_std_io_error)?;
        let length = file.metadata().map_err(new_std_io_error)?.len();
        let rest = length.saturating_sub(range.offset());
        let wanted = range.size().map_or(rest, |size| size.min(rest));
        let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, range.offset()).map_err(new_std_io_error)?;
        let metadata = Metadata::new(EntryMode::FILE).with_content_length(wanted);
        Ok((RpRead::new(metadata), Buffer::from(bytes)))
    }
}

struct DirectWriter {
    path: PathBuf,
    sync: bool,
    file: Option<File>,
    written: u64,
}

impl DirectWriter {
    fn file(&mut self) -> opendal_core::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(create(&self.path).map_err(new_std_io_error)?);
        }
        self.file.as_mut().ok_or_else(|| {
            opendal_core::Error::new(opendal_core::ErrorKind::Unexpected, "file is not open")
        })
    }
}

impl oio::Write for DirectWriter {
    async fn write(&mut self, buffer: Buffer) -> opendal_core::Result<()> {
        self.written += buffer.len() as u64;
        let file = self.file()?;
        for chunk in buffer {
            file.write_all(&chunk).map_err(new_std_io_error)?;
        }
        Ok(())
    }

    async fn close(&mut self) -> opendal_core::Result<Metadata> {
        let sync = self.sync;
        let file = self.file()?;
        if sync {
            file.sync_all().map_err(new_std_io_error)?;
        }
        Ok(Metadata::new(EntryMode::FILE).with_content_length(self.written))
    }

    async fn abort(&mut self) -> opendal_core::Result<()> {
        std::fs::remove_file(&self.path).map_err(new_std_io_error)
    }
}

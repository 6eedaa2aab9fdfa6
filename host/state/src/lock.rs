//! One process at a time: a lock file that says who has it.

use crate::fault::IoKind;
use crate::file_system::FileSystem;
use crate::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a forked process may take to run its own program.
const FORKED_FOR: Duration = Duration::from_millis(200);

/// Held for as long as it lives; the operating system frees it when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a directory.
    ///
    /// # Errors
    /// `Locked`, naming the other process, when it is taken.
    pub(crate) fn take(files: &FileSystem, directory: &Path) -> Result<Self> {
        Self::take_file(files, directory, "LOCK")
    }

    /// The same by a file of this name in it.
    pub(crate) fn take_file(files: &FileSystem, directory: &Path, name: &str) -> Result<Self> {
        let path: PathBuf = directory.join(name);
        let mut file = files.call(IoKind::Lock, "open", &path, || {
            OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path)
        })?;
        match try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = file.read_to_string(&mut owner);
                return Err(Error::new(
                    ErrorKind::Locked,
                    format!(
                        "{} is in use by another process ({}); stop it or use another directory",
                        directory.display(),
                        owner.trim(),
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, error)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "pid {}", std::process::id()))
            .map_err(|error| Error::io("write", &path, error))?;
        Ok(Self { _file: file })
    }
}

/// A process that was forked off while the lock was held has it, too, until it runs its own
/// program: what was let go a moment ago may look taken.
fn try_lock(file: &File) -> std::result::Result<(), TryLockError> {
    let start = crate::seam::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if start.elapsed() < FORKED_FOR => {
                std::thread::park_timeout(FORKED_FOR / 20);
            }
            other => return other,
        }
    }
}

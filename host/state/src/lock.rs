//! One process at a time: a lock file that says who has it.

use crate::fault::IoKind;
use crate::file_system::FileSystem;
use crate::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

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
        let path: PathBuf = directory.join("LOCK");
        let mut file = files.call(IoKind::Lock, "open", &path, || {
            OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path)
        })?;
        match file.try_lock() {
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

//! A lock on a directory, held by an open file.

use crate::error::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The most that is read of who holds a lock.
const OWNER_LIMIT_BYTES: u64 = 4_096;

/// A lock that ends with the process, or when it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Locked while it is open.
    _file: File,
}

impl Lock {
    /// Takes the lock on `file` in the name of a pipeline; `what` is the thing it guards.
    pub(crate) fn acquire(file: &Path, what: &Path, pipeline: &str) -> Result<Self> {
        let locked =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file);
        Self::hold(locked.map_err(|error| Error::io("lock", file, error))?, file, what, pipeline)
    }

    /// The same with a file that is open to read and write.
    pub(crate) fn hold(mut locked: File, file: &Path, what: &Path, pipeline: &str) -> Result<Self> {
        let failed = |error| Error::io("lock", file, error);
        match locked.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(
                    ErrorKind::Locked,
                    format!(
                        "{} is in use by {}; stop it, or wait until it ends",
                        what.display(),
                        owner(&mut locked)
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let text = format!("process {} (pipeline `{pipeline}`)", std::process::id());
        locked.set_len(0).map_err(failed)?;
        locked.write_all(text.as_bytes()).map_err(failed)?;
        Ok(Self { _file: locked })
    }
}

/// Who wrote the file; it may be about to.
fn owner(file: &mut File) -> String {
    let mut text = String::new();
    let read = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.take(OWNER_LIMIT_BYTES).read_to_string(&mut text));
    match read {
        Ok(length) if length > 0 => text,
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_is_refused_and_names_the_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("LOCK");
        let _first = Lock::acquire(&file, directory.path(), "one").expect("a lock");
        let error = Lock::acquire(&file, directory.path(), "two").expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::Locked);
        let owner = format!(
            "{} is in use by process {} (pipeline `one`); stop it, or wait until it ends",
            directory.path().display(),
            std::process::id()
        );
        assert_eq!(error.to_string(), owner);
    }

    #[test]
    fn a_dropped_lock_can_be_taken_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("LOCK");
        drop(Lock::acquire(&file, directory.path(), "a long name").expect("a lock"));
        let _again = Lock::acquire(&file, directory.path(), "b").expect("free again");
        let text = std::fs::read_to_string(&file).expect("an owner");
        assert_eq!(text, format!("process {} (pipeline `b`)", std::process::id()));
    }
}

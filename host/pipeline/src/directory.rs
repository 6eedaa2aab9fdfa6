//! Directories: made, synced, listed; small files written whole; paths told apart.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Makes a directory and its parents, if it is not there.
pub(crate) fn create(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::io("create", path, error))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Error::io("sync", path, error))
}

/// Writes a small file so that it is there whole or not at all. `temporary` is the name it has
/// until then, in the same directory.
pub(crate) fn write(path: &Path, temporary: &Path, bytes: &[u8], synced: bool) -> Result<()> {
    let failed = |error| Error::io("write", temporary, error);
    let mut file = File::create(temporary).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    if synced {
        file.sync_all().map_err(failed)?;
    }
    std::fs::rename(temporary, path).map_err(|error| Error::io("write", path, error))?;
    match path.parent().filter(|_| synced) {
        Some(parent) => sync(parent),
        None => Ok(()),
    }
}

/// A path from the root, without links and `..`, as far as it exists: two of them name the same
/// file only when they are equal.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|error| Error::io("find", path, error))?;
    let mut resolved = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            other => resolved.push(other),
        }
        // What does not exist has no links in it.
        if let Ok(real) = resolved.canonicalize() {
            resolved = real;
        }
    }
    Ok(resolved)
}

/// The names in a directory, sorted; none when it does not exist. A name that is not UTF-8 is
/// none of ours and shown as such.
pub(crate) fn names(path: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("list", path, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list", path, error))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes a file that may be gone already.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Removes a directory with all that is in it, if it is there.
pub(crate) fn remove_all(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

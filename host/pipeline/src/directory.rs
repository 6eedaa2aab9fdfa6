//! Directories: made, synced, listed.

use crate::error::{Error, Result};
use std::fs::File;
use std::path::Path;

/// Makes a directory and its parents, if it is not there.
pub(crate) fn create(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::io("create", path, error))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Error::io("sync", path, error))
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

/// The length of a file; 0 when it is not there.
pub(crate) fn file_length(path: &Path) -> Result<u64> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

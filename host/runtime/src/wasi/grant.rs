//! What a pipeline asks for, and what the host permits.

use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// What may be done in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Files can be listed and read.
    Read,
    /// They can be made, written, renamed and removed, too.
    ReadWrite,
}

/// What a pipeline gives its operator of WASI; without one it gets none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasiGrant {
    /// The directories that it sees; it sees no other.
    pub directories: Vec<DirectoryGrant>,
    /// Where its random numbers begin. They are no secret: subtask and pipeline are known.
    pub random_seed: u64,
    /// Bytes that an instance may write to files between its start and its end. A file or
    /// directory that it makes counts 4 KiB more.
    pub written_limit_bytes: u64,
}

impl Default for WasiGrant {
    fn default() -> Self {
        Self { directories: Vec::new(), random_seed: 0, written_limit_bytes: 64 << 20 }
    }
}

/// A directory that an operator gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryGrant {
    /// What the operator calls it: `/rates`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What may be done in it.
    pub access: Access,
}

/// What the host lets pipelines grant; without one, nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WasiPermission {
    /// Directories that operators may get to read, with all that is in them.
    pub readable: Vec<PathBuf>,
    /// Directories that operators may get to write (and to read), with all that is in them.
    pub writable: Vec<PathBuf>,
}

impl WasiPermission {
    /// Whether the pipeline may grant this directory; links are followed first.
    fn permits(&self, path: &Path, access: Access) -> bool {
        let lies_in = |permitted: &PathBuf| {
            permitted.canonicalize().is_ok_and(|permitted| path.starts_with(permitted))
        };
        self.writable.iter().any(lies_in)
            || (access == Access::Read && self.readable.iter().any(lies_in))
    }
}

/// The grant with the real paths of its directories, if the host permits all of it. `name` is what
/// errors call the component.
pub(crate) fn check(
    name: &str,
    permission: &WasiPermission,
    grant: &WasiGrant,
) -> Result<WasiGrant> {
    let mut grant = grant.clone();
    for directory in &mut grant.directories {
        let failed = |what: &dyn std::fmt::Display| {
            let message = format!(
                "{name} was granted the directory {} ({} in operator.wasi.directories), {what}",
                directory.path.display(),
                directory.name
            );
            Err(Error::new(ErrorKind::Host, message))
        };
        let real = match directory.path.canonicalize() {
            Ok(path) => path,
            Err(error) => return failed(&format_args!("which is not there: {error}")),
        };
        if !permission.permits(&real, directory.access) {
            let (access, option) = match directory.access {
                Access::Read => ("read", "--allow-read"),
                Access::ReadWrite => ("write", "--allow-write"),
            };
            return failed(&format_args!(
                "which this host does not let operators {access}: start it with {option} {}",
                real.display()
            ));
        }
        directory.path = real;
    }
    Ok(grant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(path: &Path, access: Access) -> WasiGrant {
        let directory = DirectoryGrant { name: "/data".into(), path: path.into(), access };
        WasiGrant { directories: vec![directory], ..WasiGrant::default() }
    }

    #[test]
    fn a_directory_must_lie_in_one_that_the_host_permits() {
        let root = tempfile::tempdir().unwrap();
        let (inner, beside) = (root.path().join("a/b"), root.path().join("ab"));
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir_all(&beside).unwrap();
        std::os::unix::fs::symlink(&beside, root.path().join("a/link")).unwrap();
        let permission =
            WasiPermission { readable: vec![root.path().join("a")], ..WasiPermission::default() };
        let check = |path: &Path, access| check("x", &permission, &grant(path, access));
        assert!(check(&inner, Access::Read).is_ok());
        assert!(check(&inner.join(".."), Access::Read).is_ok());
        for refused in [beside.clone(), root.path().join("a/link"), inner.join("../../ab")] {
            let error = check(&refused, Access::Read).unwrap_err().to_string();
            assert!(error.contains("--allow-read"), "{error}");
        }
        let error = check(&inner, Access::ReadWrite).unwrap_err().to_string();
        assert!(error.contains("--allow-write"), "{error}");
    }

    #[test]
    fn a_directory_that_may_be_written_may_be_read() {
        let root = tempfile::tempdir().unwrap();
        let permission =
            WasiPermission { writable: vec![root.path().to_owned()], ..WasiPermission::default() };
        for access in [Access::Read, Access::ReadWrite] {
            assert!(check("x", &permission, &grant(root.path(), access)).is_ok());
        }
    }
}

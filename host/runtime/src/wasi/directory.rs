//! Directories that a guest sees, and nothing beside them.
//!
//! Every path is resolved by the kernel, which refuses whatever leads out of the directory
//! (`openat2` with `RESOLVE_BENEATH`): `..`, absolute paths, links, also while others rename
//! what is on the way. Where the kernel cannot do that, no directory is granted.

use super::Access;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// How often a path is resolved again when somebody renamed something on the way.
const RESOLVE_TRIES: usize = 16;

/// A directory that was granted, or one in it.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    pub(super) access: Access,
    pub(super) _permit: Option<super::Permit>,
}

/// How a file is to be opened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) follow: bool,
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) create: bool,
    pub(super) exclusive: bool,
    pub(super) truncate: bool,
    pub(super) directory: bool,
}

/// What was opened.
#[derive(Debug)]
pub(super) enum Opened {
    Directory(OwnedFd),
    File(OwnedFd),
}

impl Directory {
    /// Opens one that was granted.
    pub(super) fn open(path: &Path, access: Access) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let directory = Self { fd, access, _permit: None };
        directory.resolve(".", OFlags::PATH, Mode::empty()).map_err(|error| match error {
            Errno::NOSYS => io::Error::new(
                io::ErrorKind::Unsupported,
                "this system cannot keep an operator inside it: Linux 5.6 can",
            ),
            error => error.into(),
        })?;
        Ok(directory)
    }

    pub(super) fn of(fd: OwnedFd, access: Access, permit: super::Permit) -> Self {
        Self { fd, access, _permit: Some(permit) }
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    fn resolve(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            let opened = rustix::fs::openat2(&self.fd, path, flags | OFlags::CLOEXEC, mode, inside);
            tries += 1;
            match opened {
                // Leads out; to a guest that is not what XDEV says.
                Err(Errno::XDEV) => return Err(Errno::PERM),
                Err(Errno::AGAIN | Errno::INTR) if tries < RESOLVE_TRIES => {}
                opened => return opened,
            }
        }
    }

    /// Opens a regular file or a directory; anything else could make a read wait.
    pub(super) fn open_at(&self, path: &str, wanted: Wanted) -> Result<Opened, Errno> {
        let changes = wanted.write || wanted.create || wanted.truncate;
        if changes && self.access == Access::Read {
            return Err(Errno::ROFS);
        }
        let mut flags = OFlags::empty();
        flags.set(OFlags::NOFOLLOW, !wanted.follow);
        // A device may do something when it is opened, so it is not.
        match self.resolve(path, flags | OFlags::PATH, Mode::empty()) {
            Ok(found) => drop(allowed(&rustix::fs::fstat(&found)?)?),
            Err(Errno::NOENT) if wanted.create => {}
            Err(error) => return Err(error),
        }
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
        flags |= match (wanted.read, wanted.write || wanted.truncate) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        flags.set(OFlags::CREATE, wanted.create);
        flags.set(OFlags::EXCL, wanted.create && wanted.exclusive);
        flags.set(OFlags::TRUNC, wanted.truncate);
        flags.set(OFlags::DIRECTORY, wanted.directory);
        let mode = if wanted.create { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let opened = self.resolve(path, flags, mode)?;
        // Somebody may have put another in its place.
        Ok(match allowed(&rustix::fs::fstat(&opened)?)? {
            FileType::Directory => Opened::Directory(opened),
            _ => Opened::File(opened),
        })
    }

    pub(super) fn stat_at(&self, path: &str, follow: bool) -> Result<Stat, Errno> {
        let mut flags = OFlags::PATH;
        flags.set(OFlags::NOFOLLOW, !follow);
        rustix::fs::fstat(self.resolve(path, flags, Mode::empty())?)
    }

    pub(super) fn create_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path, true)?;
        rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))
    }

    pub(super) fn remove_file(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path, true)?;
        rustix::fs::unlinkat(parent, name, AtFlags::empty())
    }

    pub(super) fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path, true)?;
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
    }

    pub(super) fn rename(&self, path: &str, to: &Self, to_path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path, true)?;
        let (to_parent, to_name) = to.parent(to_path, true)?;
        rustix::fs::renameat(parent, name, to_parent, to_name)
    }

    /// What a link says; one that leads out for certain is not shown.
    pub(super) fn read_link(&self, path: &str) -> Result<String, Errno> {
        let (parent, name) = self.parent(path, false)?;
        let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
        let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
        if target.starts_with('/') { Err(Errno::PERM) } else { Ok(target) }
    }

    /// The directory that the last part of a path is in, and that part, which is a plain name.
    fn parent<'a>(&self, path: &'a str, changes: bool) -> Result<(OwnedFd, &'a str), Errno> {
        if changes && self.access == Access::Read {
            return Err(Errno::ROFS);
        }
        if path.starts_with('/') {
            return Err(Errno::PERM);
        }
        let path = path.trim_end_matches('/');
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        match name {
            "" => return Err(Errno::NOENT),
            "." | ".." => return Err(Errno::INVAL),
            _ => {}
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok((self.resolve(parent, flags, Mode::empty())?, name))
    }
}

fn allowed(stat: &Stat) -> Result<FileType, Errno> {
    match FileType::from_raw_mode(stat.st_mode) {
        kind @ (FileType::RegularFile | FileType::Directory) => Ok(kind),
        FileType::Symlink => Err(Errno::LOOP),
        _ => Err(Errno::ACCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// `secret` lies beside the directory; links in it lead there.
    fn root(access: Access) -> (tempfile::TempDir, Directory) {
        let root = tempfile::tempdir().unwrap();
        let inside = root.path().join("inside");
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::write(root.path().join("secret"), "secret").unwrap();
        std::fs::write(inside.join("file"), "file").unwrap();
        symlink("../secret", inside.join("up")).unwrap();
        symlink(root.path().join("secret"), inside.join("absolute")).unwrap();
        symlink("..", inside.join("parent")).unwrap();
        symlink("../file", inside.join("sub/within")).unwrap();
        let directory = Directory::open(&inside, access).unwrap();
        (root, directory)
    }

    const READ: Wanted = Wanted {
        follow: true,
        read: true,
        write: false,
        create: false,
        exclusive: false,
        truncate: false,
        directory: false,
    };

    #[test]
    fn paths_that_lead_out_are_refused() {
        let (root, directory) = root(Access::ReadWrite);
        let absolute = root.path().join("secret").display().to_string();
        let outside = [
            "..",
            "../secret",
            "sub/../../secret",
            "up",
            "absolute",
            "parent/secret",
            "sub/../parent/secret",
            "/",
            "/etc/passwd",
            absolute.as_str(),
        ];
        for path in outside {
            assert!(directory.open_at(path, READ).is_err(), "{path} was opened");
            assert!(directory.stat_at(path, true).is_err(), "{path} was looked at");
            let create = Wanted { write: true, create: true, ..READ };
            assert!(directory.open_at(path, create).is_err(), "{path} was made");
        }
        for path in ["../new", "parent/new", "/new", "sub/../../new", ".."] {
            assert!(directory.create_directory(path).is_err(), "{path} was made");
            assert!(directory.rename("file", &directory, path).is_err(), "renamed to {path}");
        }
        for path in ["../secret", "parent/secret", absolute.as_str()] {
            assert!(directory.remove_file(path).is_err(), "{path} was removed");
            assert!(directory.rename(path, &directory, "got").is_err(), "{path} was taken");
        }
        assert!(directory.read_link("absolute").is_err());
        assert_eq!(std::fs::read(root.path().join("secret")).unwrap(), b"secret");
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
    }

    #[test]
    fn paths_that_stay_inside_are_good() {
        let (_root, directory) = root(Access::Read);
        for path in ["file", "./file", "sub/../file", "sub/within", "sub/./../sub/within"] {
            assert!(matches!(directory.open_at(path, READ), Ok(Opened::File(_))), "{path}");
        }
        assert!(matches!(directory.open_at("sub", READ), Ok(Opened::Directory(_))));
        assert_eq!(directory.read_link("sub/within").unwrap(), "../file");
    }

    #[test]
    fn a_directory_to_read_is_never_changed() {
        let (root, directory) = root(Access::Read);
        let (_other, writable) = self::root(Access::ReadWrite);
        for wanted in [
            Wanted { write: true, ..READ },
            Wanted { create: true, ..READ },
            Wanted { truncate: true, ..READ },
        ] {
            assert_eq!(directory.open_at("file", wanted).unwrap_err(), Errno::ROFS);
        }
        assert_eq!(directory.create_directory("new"), Err(Errno::ROFS));
        assert_eq!(directory.remove_file("file"), Err(Errno::ROFS));
        assert_eq!(directory.remove_directory("sub"), Err(Errno::ROFS));
        assert_eq!(directory.rename("file", &directory, "new"), Err(Errno::ROFS));
        assert_eq!(directory.rename("file", &writable, "new"), Err(Errno::ROFS));
        assert_eq!(writable.rename("file", &directory, "new"), Err(Errno::ROFS));
        assert_eq!(std::fs::read(root.path().join("inside/file")).unwrap(), b"file");
    }

    #[test]
    fn pipes_and_devices_are_not_opened() {
        let (root, directory) = root(Access::ReadWrite);
        let inside = root.path().join("inside");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            inside.join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
        for path in ["pipe", "socket"] {
            for wanted in [READ, Wanted { write: true, ..READ }] {
                assert_eq!(directory.open_at(path, wanted).unwrap_err(), Errno::ACCESS);
            }
        }
        let devices = Directory::open(Path::new("/dev"), Access::Read).unwrap();
        for path in ["zero", "null", "random"] {
            assert_eq!(devices.open_at(path, READ).unwrap_err(), Errno::ACCESS);
        }
    }
}

//! Files and directories that are opened beneath a directory that was granted: neither `..` nor a
//! symbolic link leads out of it, also while others rename what is on the way.
//!
//! The kernel resolves every path (`openat2` with `RESOLVE_BENEATH`).

use crate::error::{Error, Result};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// How often a path is resolved again when somebody renamed something on the way.
const RESOLVE_TRIES: usize = 16;
/// The most that is read of a small file.
const SMALL_LIMIT_BYTES: u64 = 64 << 10;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// To read.
    Read,
    /// To write; it is made if it is not there.
    Write,
    /// To do both; it is made if it is not there.
    ReadWrite,
    /// To write a file that is not there yet.
    New,
}

impl Open {
    fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::Write => OFlags::WRONLY | OFlags::CREATE,
            Self::ReadWrite => OFlags::RDWR | OFlags::CREATE,
            Self::New => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
        }
    }
}

/// Where a file or a directory is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// For messages.
    shown: PathBuf,
    root: Arc<OwnedFd>,
    inside: PathBuf,
}

/// Opens what a path leads to beneath a directory.
fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mode = if flags.contains(OFlags::CREATE) { 0o666 } else { 0 };
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        let flags = flags | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(root, path, flags, Mode::from_raw_mode(mode), inside);
        tries += 1;
        return match opened {
            Err(Errno::AGAIN | Errno::INTR) if tries < RESOLVE_TRIES => continue,
            Err(Errno::XDEV) => Err(leads_out()),
            Err(Errno::NOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this system cannot keep a pipeline in its directories: Linux 5.6 can",
            )),
            opened => Ok(opened?),
        };
    }
}

fn leads_out() -> io::Error {
    io::Error::other("it leads out of the directory that was granted")
}

/// A name of something in a directory itself.
fn name_in(name: &str) -> io::Result<&str> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(leads_out()),
    }
}

impl Place {
    /// A path in a directory, which is called `shown` in messages.
    pub(crate) fn new(root: &Path, inside: &Path, shown: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(root, flags, Mode::empty());
        let root = opened.map_err(|error| Error::io("open", root, error.into()))?;
        // Of the directory itself nothing is left.
        let itself = inside.as_os_str().is_empty();
        let inside = if itself { Path::new(".") } else { inside };
        Ok(Self { shown: shown.to_owned(), root: Arc::new(root), inside: inside.to_owned() })
    }

    /// A path, its directory granted.
    #[cfg(test)]
    pub(crate) fn of(path: &Path) -> Self {
        let directories = crate::Directories::only([path.parent().expect("a parent")]);
        directories.place(path).expect("granted")
    }

    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Opens the file for reading.
    pub(crate) fn open(&self) -> Result<File> {
        self.open_to(Open::Read).map_err(|error| Error::io("open", &self.shown, error))
    }

    pub(crate) fn open_to(&self, open: Open) -> io::Result<File> {
        // Nothing of a regular file; a pipe would be waited for.
        let flags = open.flags() | OFlags::NONBLOCK;
        open_beneath(&self.root, &self.inside, flags).map(File::from)
    }

    /// The length of a file; 0 when it is not there. `None`: it is a directory, a device, a pipe.
    pub(crate) fn file_length(&self) -> Result<Option<u64>> {
        let found = open_beneath(&self.root, &self.inside, OFlags::PATH);
        match found.and_then(|found| File::from(found).metadata()) {
            Ok(metadata) => Ok(metadata.is_file().then_some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(0)),
            Err(error) => Err(Error::io("read", &self.shown, error)),
        }
    }

    /// Makes the directory that the file is in, if it is not there.
    pub(crate) fn create_parent(&self) -> Result<()> {
        let parent = self.inside.parent().unwrap_or(Path::new(""));
        let created = create_directories(&self.root, parent);
        created.map_err(|error| Error::io("create the directory of", &self.shown, error))
    }

    /// Opens the directory.
    pub(crate) fn directory(&self) -> Result<Directory> {
        let opened = open_beneath(&self.root, &self.inside, OFlags::RDONLY | OFlags::DIRECTORY);
        let fd = opened.map_err(|error| Error::io("open", &self.shown, error))?;
        Ok(Directory { path: self.shown.clone(), fd: Arc::new(fd) })
    }

    /// The same; makes it, if it is not there.
    pub(crate) fn create_directory(&self) -> Result<Directory> {
        let created = create_directories(&self.root, &self.inside);
        created.map_err(|error| Error::io("create", &self.shown, error))?;
        self.directory()
    }
}

/// Makes the directories of a path that are not there.
fn create_directories(root: &OwnedFd, path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut parent = open_beneath(root, Path::new("."), flags)?;
    let mut made = PathBuf::new();
    for component in path.components() {
        made.push(component);
        // From the root each time: a link may lead elsewhere in it.
        let opened = match open_beneath(root, &made, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match rustix::fs::mkdirat(
                    &parent,
                    component.as_os_str(),
                    Mode::from_raw_mode(0o777),
                ) {
                    Ok(()) | Err(Errno::EXIST) => open_beneath(root, &made, flags),
                    Err(error) => Err(error.into()),
                }
            }
            opened => opened,
        };
        parent = opened?;
    }
    Ok(())
}

/// A directory that is open: its files are found in it even when it is renamed.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

impl Directory {
    /// For messages.
    pub(crate) fn shown(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> Place {
        Place { shown: self.path.join(name), root: Arc::clone(&self.fd), inside: name.into() }
    }

    /// A directory in it, which is made if it is not there.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<Self> {
        self.file(name).create_directory()
    }

    /// The names in it, sorted. A name that is not UTF-8 is none of ours and shown as such.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let failed = |error: Errno| Error::io("list", &self.path, error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.fd).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The regular files in it whose names are wanted, with their lengths.
    pub(crate) fn files(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, u64)>> {
        let names = self.names()?.into_iter().filter(|name| wanted(name));
        // What leads out, or is gone since, is not there.
        let with_length = |name: String| self.length(&name).map(|length| (name, length));
        Ok(names.filter_map(with_length).collect())
    }

    /// The length of a regular file, be it behind a link.
    fn length(&self, name: &str) -> Option<u64> {
        let stat = rustix::fs::statat(&*self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => u64::try_from(stat.st_size).ok(),
            FileType::Symlink => {
                let metadata = self.file(name).open().ok()?.metadata().ok()?;
                metadata.is_file().then_some(metadata.len())
            }
            _ => None,
        }
    }

    /// What a small file has; `None`: it is not there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let opened = self.file(name).open_to(Open::Read);
        match opened.and_then(|file| file.take(SMALL_LIMIT_BYTES).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &self.path.join(name), error)),
        }
    }

    /// A new file; one of that name must not be there.
    pub(crate) fn create_new(&self, name: &str) -> Result<File> {
        let created = self.file(name).open_to(Open::New);
        created.map_err(|error| Error::io("write", &self.path.join(name), error))
    }

    /// Writes a small file so that it is there whole or not at all. `temporary` is the name it has
    /// until then.
    pub(crate) fn write(
        &self,
        name: &str,
        temporary: &str,
        bytes: &[u8],
        sync: bool,
    ) -> Result<()> {
        let failed = |error| Error::io("write", &self.path.join(temporary), error);
        let mut file = self.file(temporary).open_to(Open::Write).map_err(failed)?;
        file.set_len(0).and_then(|()| file.write_all(bytes)).map_err(failed)?;
        if sync {
            file.sync_all().map_err(failed)?;
        }
        self.rename(temporary, self, name)?;
        if sync { self.sync() } else { Ok(()) }
    }

    /// Gives a file another name, in another directory. One that is not there stays so.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> Result<()> {
        let rename = || -> io::Result<()> {
            Ok(rustix::fs::renameat(&*self.fd, name_in(name)?, &*to.fd, name_in(new)?)?)
        };
        match rename() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("write", &to.path.join(new), error))
            }
            _ => Ok(()),
        }
    }

    /// Removes a file that may be gone already.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let remove = || -> io::Result<()> {
            Ok(rustix::fs::unlinkat(&*self.fd, name_in(name)?, AtFlags::empty())?)
        };
        match remove() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", &self.path.join(name), error))
            }
            _ => Ok(()),
        }
    }

    /// Makes its entries durable.
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&*self.fd).map_err(|error| Error::io("sync", &self.path, error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory `in` with a file, beside one that is a secret.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::write(root.path().join("secret.csv"), "s").expect("written");
        let inside = root.path().join("in");
        std::fs::create_dir(&inside).expect("made");
        std::fs::write(inside.join("a.csv"), "a").expect("written");
        (root, inside)
    }

    fn link(to: impl AsRef<Path>, at: &Path) {
        std::os::unix::fs::symlink(to, at).expect("linked");
    }

    #[test]
    fn neither_dots_nor_links_lead_out_of_a_directory() {
        let (root, inside) = tree();
        link("../secret.csv", &inside.join("out.csv"));
        link("a.csv", &inside.join("inside.csv"));
        link(root.path().join("secret.csv"), &inside.join("absolute.csv"));
        let directory = Place::of(&inside).directory().expect("opened");
        // The place of `in` is granted by its parent; what is in it must stay in it.
        let mut files = directory.files(|_| true).expect("listed");
        files.sort();
        assert_eq!(files, [("a.csv".to_owned(), 1), ("inside.csv".to_owned(), 1)]);
        for name in ["out.csv", "absolute.csv", "../secret.csv"] {
            assert!(directory.file(name).open().is_err(), "{name}");
            assert!(directory.read(name).is_err(), "{name}");
        }
        assert!(directory.rename("a.csv", &directory, "../stolen.csv").is_err());
        assert!(directory.subdirectory("../made").is_err());
        assert!(!root.path().join("made").exists() && !root.path().join("stolen.csv").exists());
    }

    #[test]
    fn a_link_that_is_swapped_in_is_not_followed_out() {
        let (root, inside) = tree();
        let place = crate::Directories::only([&inside]).place(&inside.join("a.csv"));
        let place = place.expect("granted");
        place.open().expect("opened");
        std::fs::remove_file(inside.join("a.csv")).expect("removed");
        link(root.path().join("secret.csv"), &inside.join("a.csv"));
        place.open().expect_err("leads out");
    }

    #[test]
    fn an_open_directory_is_found_when_a_link_takes_its_name() {
        let (root, inside) = tree();
        let directory = Place::of(&inside).directory().expect("opened");
        std::fs::rename(&inside, root.path().join("moved")).expect("renamed");
        std::fs::create_dir(root.path().join("else")).expect("made");
        link("else", &inside);
        directory.write("b.csv", "b.tmp", b"b", true).expect("written");
        assert!(root.path().join("moved/b.csv").exists());
        assert_eq!(directory.names().expect("listed"), ["a.csv", "b.csv"]);
    }
}

//! Where files are: by their path, or by name in a directory that nothing leads out of.

use crate::error::{Error, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that may be opened.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// For messages.
    shown: PathBuf,
    inside: Option<Directory>,
}

impl Place {
    /// A file by its path.
    pub(super) fn of(path: &Path) -> Self {
        Self { shown: path.to_owned(), inside: None }
    }

    pub(super) fn shown(&self) -> &Path {
        &self.shown
    }

    /// Opens it for reading.
    pub(super) fn open(&self) -> Result<File> {
        let opened = match (&self.inside, self.shown.file_name()) {
            (Some(directory), Some(name)) => {
                // Nothing of a regular file; a pipe would be waited for.
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                let opened =
                    rustix::fs::openat2(&*directory.fd, name, flags, Mode::empty(), inside);
                opened.map(File::from).map_err(std::io::Error::from)
            }
            _ => File::open(&self.shown),
        };
        opened.map_err(|error| Error::io("open", &self.shown, error))
    }
}

/// A directory that is open: its files are found in it even when it is renamed, and neither `..`
/// nor a symbolic link leads out of it.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty());
        let fd = fd.map_err(|error| Error::io("open", path, error.into()))?;
        Ok(Self { path: path.to_owned(), fd: Arc::new(fd) })
    }

    /// A file in it.
    pub(super) fn file(&self, name: &str) -> Place {
        Place { shown: self.path.join(name), inside: Some(self.clone()) }
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

    /// The regular files in it whose names are wanted, with their lengths.
    pub(super) fn files(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, u64)>> {
        let failed = |error: rustix::io::Errno| Error::io("list", &self.path, error.into());
        let mut files = Vec::new();
        for entry in rustix::fs::Dir::read_from(&*self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." || !wanted(name) {
                continue;
            }
            // What leads out, or is gone since, is not there.
            if let Some(length) = self.length(name) {
                files.push((name.to_owned(), length));
            }
        }
        Ok(files)
    }
}

/// Whether a name is one that a pattern means: `*` stands for any characters, `?` for one.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // After a star, the rest of the pattern is tried at every place in turn; only the last star
    // has to be gone back to.
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || name.get(in_name) == Some(wanted) => {
                at += 1;
                in_name += 1;
            }
            _ => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (at, in_name) = (*after + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_names_by_stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("a?c*", "abc-1", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxbab", true),
            ("*a*b", "xaxxba", false),
            ("plain.csv", "plain.csv", true),
            ("plain.csv", "plainxcsv", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn neither_dots_nor_links_lead_out_of_a_directory() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::write(root.path().join("secret.csv"), "s").expect("written");
        std::fs::create_dir(root.path().join("in")).expect("made");
        std::fs::write(root.path().join("in/a.csv"), "a").expect("written");
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, root.path().join("in").join(name)).expect("linked");
        };
        link("../secret.csv", "out.csv");
        link("a.csv", "inside.csv");
        link(root.path().join("secret.csv").to_str().expect("text"), "absolute.csv");
        let directory = Directory::open(&root.path().join("in")).expect("opened");
        let mut files = directory.files(|_| true).expect("listed");
        files.sort();
        assert_eq!(files, [("a.csv".to_owned(), 1), ("inside.csv".to_owned(), 1)]);
        assert!(directory.file("out.csv").open().is_err());
        assert!(directory.file("absolute.csv").open().is_err());
    }
}

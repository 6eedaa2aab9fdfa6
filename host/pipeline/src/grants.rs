//! Which directories a pipeline may use: that is the host's to say.

use crate::directory::resolve;
use crate::error::{Error, ErrorKind, Result};
use crate::place::Place;
use std::path::{Path, PathBuf};

/// Directories that the files of a pipeline may be in: what its sources read, and what its sinks
/// and dead-letter files write. What is outside is refused, be it by an absolute path, by `..` or by
/// a symbolic link.
///
/// A pipeline that is loaded has the directory of its file, its state directory and the current
/// directory. Whoever runs it may [allow](Self::allow) more; a host that runs files of people whom it
/// does not trust grants [only](Self::only) what is theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    granted: Vec<PathBuf>,
}

impl Directories {
    /// These, and what is in them. The state directory must be in one of them, too.
    pub fn only<P: AsRef<Path>>(granted: impl IntoIterator<Item = P>) -> Self {
        Self { granted: granted.into_iter().map(|path| path.as_ref().to_owned()).collect() }
    }

    /// What a pipeline has unless its host says otherwise.
    pub(crate) fn of_pipeline(file: &Path, state_directory: &Path) -> Self {
        let beside = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self::only([beside.unwrap_or(Path::new(".")), state_directory, Path::new(".")])
    }

    /// These as well.
    pub fn allow<P: AsRef<Path>>(&mut self, more: impl IntoIterator<Item = P>) {
        self.granted.extend(more.into_iter().map(|path| path.as_ref().to_owned()));
    }

    /// Where a path leads, in the outermost directory that is granted around it. Nothing in there is
    /// followed out of it, whatever becomes of the path.
    pub(crate) fn place(&self, path: &Path) -> Result<Place> {
        let (root, target) = self.find(path)?;
        let inside = target.strip_prefix(&root).unwrap_or(&target);
        Place::new(&root, inside, path)
    }

    /// Where a path leads, which is granted now: for what is not opened through a [`Place`].
    pub(crate) fn check(&self, path: &Path) -> Result<PathBuf> {
        self.find(path).map(|(_, target)| target)
    }

    /// The directory that is granted, and where the path leads.
    fn find(&self, path: &Path) -> Result<(PathBuf, PathBuf)> {
        let target = resolve(path)?;
        let mut around = Vec::new();
        for granted in &self.granted {
            around.push(resolve(granted)?);
        }
        around.retain(|granted| target.starts_with(granted));
        match around.into_iter().min_by_key(|granted| granted.as_os_str().len()) {
            Some(granted) => Ok((granted, target)),
            None => Err(self.refused(path, &target)),
        }
    }

    fn refused(&self, path: &Path, target: &Path) -> Error {
        let shown = path.display();
        let leads = match std::path::absolute(path) {
            Ok(absolute) if absolute == target => String::new(),
            _ => format!(" leads to {}, which", target.display()),
        };
        let granted: Vec<String> =
            self.granted.iter().map(|granted| granted.display().to_string()).collect();
        let granted = match granted.as_slice() {
            [] => "none".to_owned(),
            granted => granted.join(", "),
        };
        let parent = target.parent().unwrap_or(target).display();
        let message = format!(
            "{shown}{leads} is in no directory that the host grants this pipeline ({granted}); move \
             it there, or grant its directory with --allow-dir {parent}"
        );
        Error::new(ErrorKind::Config, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A directory with `granted/rows.csv`, and `outside/rows.csv`.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        for name in ["granted", "outside"] {
            std::fs::create_dir(root.join(name)).expect("made");
            std::fs::write(root.join(name).join("rows.csv"), name).expect("written");
        }
        (directory, root)
    }

    /// What the file has, or why it is not opened.
    fn read(directories: &Directories, path: &Path) -> Result<String, String> {
        let file = directories.place(path).and_then(|place| place.open());
        let file = file.map_err(|error| error.to_string())?;
        Ok(std::io::read_to_string(file).expect("text"))
    }

    #[test]
    fn what_is_outside_is_refused_with_the_way_in() {
        let (_directory, root) = tree();
        let directories = Directories::only([root.join("granted")]);
        let at = |name: &str| root.join(name);
        assert_eq!(read(&directories, &at("granted/rows.csv")).as_deref(), Ok("granted"));
        assert_eq!(
            read(&directories, &at("outside/../granted/rows.csv")).as_deref(),
            Ok("granted")
        );
        symlink(at("outside/rows.csv"), at("granted/link.csv")).expect("linked");
        symlink("../outside", at("granted/link")).expect("linked");
        let granted = at("granted").display().to_string();
        let way = format!(
            "is in no directory that the host grants this pipeline ({granted}); move it there, or \
             grant its directory with --allow-dir {}",
            at("outside").display()
        );
        let outside = at("outside/rows.csv");
        assert_eq!(read(&directories, &outside), Err(format!("{} {way}", outside.display())));
        for path in ["granted/../outside/rows.csv", "granted/link.csv", "granted/link/rows.csv"] {
            let (path, outside) = (at(path), outside.display());
            let expected = format!("{} leads to {outside}, which {way}", path.display());
            assert_eq!(read(&directories, &path), Err(expected));
        }
    }

    #[test]
    fn a_link_to_another_directory_that_is_granted_is_followed() {
        let (_directory, root) = tree();
        symlink(root.join("outside"), root.join("granted/link")).expect("linked");
        let mut directories = Directories::only([root.join("granted")]);
        let path = root.join("granted/link/rows.csv");
        read(&directories, &path).expect_err("refused");
        directories.allow([root.join("outside")]);
        assert_eq!(read(&directories, &path).as_deref(), Ok("outside"));
    }

    #[test]
    fn a_directory_whose_name_begins_alike_is_another_one() {
        let (_directory, root) = tree();
        let directories = Directories::only([root.join("out")]);
        directories.check(&root.join("outside/rows.csv")).expect_err("refused");
    }
}

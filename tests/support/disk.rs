//! File systems of their own, for what becomes of a disk.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory; dropping it unmounts it.
pub(crate) struct Disk {
    path: PathBuf,
}

impl Disk {
    /// `None` where we may not mount one.
    pub(crate) fn mount(path: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&path)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn enlarge(&self, size: &str) {
        self.remount(&format!("size={size}"));
    }

    /// From now on nothing can be written to it.
    pub(crate) fn make_read_only(&self) {
        self.remount("ro");
    }

    fn remount(&self, option: &str) {
        let options = format!("remount,{option}");
        let mut mount = Command::new("mount");
        assert!(mount.args(["-o", &options]).arg(&self.path).status().unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Best effort: a mount that stays is not what was tested.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}

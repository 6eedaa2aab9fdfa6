//! Who holds a lock, found out without trying to take it.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The kernel's list of locks.
const LOCKS: &str = "/proc/locks";
/// The most that is read of who holds a lock.
const OWNER_LIMIT_BYTES: u64 = 4_096;

/// What the holder of the lock on a file wrote into it; `None`: nobody holds it.
pub(super) fn of_lock(file: &Path) -> Option<String> {
    let mut text = String::new();
    let opened = std::fs::File::open(file).ok()?;
    let inode = opened.metadata().ok()?.ino();
    opened.take(OWNER_LIMIT_BYTES).read_to_string(&mut text).ok()?;
    let locks = std::fs::read_to_string(LOCKS).ok()?;
    is_held(&locks, inode, &text).then_some(text)
}

/// Whether one of the locks is on the file of this inode, by the process that the owner names.
fn is_held(locks: &str, inode: u64, owner: &str) -> bool {
    let process = owner.strip_prefix("process ").and_then(|rest| rest.split(' ').next());
    locks.lines().any(|line| {
        // 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, holder, device, ..] = words.as_slice() else { return false };
        let same_file = device.rsplit(':').next() == Some(inode.to_string().as_str());
        // A process in another namespace has no number here.
        same_file && (Some(*holder) == process || matches!(*holder, "0" | "-1"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owners_lock_on_the_same_file_counts() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 13 08:01:78 0 EOF\n";
        assert!(is_held(locks, 77, "process 12 (pipeline `q`)"));
        assert!(!is_held(locks, 77, "process 13 (pipeline `q`)"));
        assert!(!is_held(locks, 78, "process 13 (pipeline `q`)"), "it waits for the lock");
        assert!(!is_held(locks, 7, "process 12 (pipeline `q`)"));
    }

    #[test]
    fn a_lock_that_is_held_in_another_container_counts() {
        let locks = "1: FLOCK  ADVISORY  WRITE 0 08:01:77 0 EOF\n";
        assert!(is_held(locks, 77, "process 1 (pipeline `q`)"));
    }
}

//! Calls to the file system that fail.

use crate::fixture::{Fixture, eager, rows};
use howdah_state::*;

/// "No space left on device".
const ENOSPC: i32 = 28;

#[test]
fn every_call_to_the_file_system_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let faults = Faults::none();
    let options = StoreOptions { faults: Some(faults.clone()), ..eager() };
    let mut fixture = Fixture::open(directory.path(), 1, options, Restore::Fresh).unwrap();
    fixture.put(&rows(&[(1, 1, "a")])).unwrap();
    let before = faults.calls();
    fixture.checkpoint(1);
    assert!(faults.calls() > before);
    assert_eq!(faults.failed(), None);
}

#[test]
fn failed_call_is_named_in_the_error() {
    let mut refused = 0;
    for call in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let faults = Faults::at(call, Fault::Once(ENOSPC));
        let options = StoreOptions { faults: Some(faults.clone()), ..eager() };
        let Err(error) = Fixture::open(directory.path(), 1, options, Restore::Fresh) else {
            continue;
        };
        let failed = faults.failed().unwrap();
        assert_eq!(error.kind(), ErrorKind::Storage, "{failed:?}: {error}");
        assert!(error.to_string().contains(failed.path.to_str().unwrap()), "{failed:?}: {error}");
        assert!(error.to_string().contains("No space left on device"), "{failed:?}: {error}");
        refused += 1;
    }
    assert!(refused > 10, "{refused} of 20 faults were noticed");
}

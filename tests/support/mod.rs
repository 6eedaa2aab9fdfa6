//! What the tests share.

pub(crate) mod clock;
pub(crate) mod disk;
pub(crate) mod input;
pub(crate) mod job;
pub(crate) mod oracle;
pub(crate) mod random;
pub(crate) mod rows;

pub(crate) use clock::wait_for;
pub(crate) use job::{Finished, Job};
pub(crate) use random::Random;

/// Whether every round and seed is to run.
pub(crate) fn is_full() -> bool {
    std::env::var_os("HOWDAH_TEST_FULL").is_some_and(|value| value == "1")
}

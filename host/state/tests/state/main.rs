//! Behaviour of the state store as its users see it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

mod checkpoints;
mod crash;
mod damage;
mod diff;
mod effort;
mod evolution;
mod failing;
mod faults;
mod fixture;
mod foreign;
mod format;
mod kind_faults;
mod kinds;
mod leases;
mod lifecycle;
mod maintenance;
mod metrics;
mod model;
mod oracle;
mod oracles;
mod probes;
mod rescales;
#[cfg(feature = "s3")]
mod s3;
mod soak;
mod transactions;
mod ttl;
mod types;

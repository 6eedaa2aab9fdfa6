//! Behaviour of the state store as its users see it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "tests"
)]

mod damage;
mod faults;
mod fixture;
mod format;
mod kinds;
mod lifecycle;
mod model;
mod probes;
mod ttl;
mod types;

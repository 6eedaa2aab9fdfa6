//! The runtime as a pipeline sees it: real components, a real state store.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod built_before;
mod code_cache;
mod columns;
mod compile;
mod conformance;
mod describe;
mod engine;
mod hostile;
mod large;
mod load;
mod memory;
mod other_kinds;
mod process;
mod restart;
mod sdk;
mod state_failure;
mod support;
mod timers;
mod wasi;

//! End-to-end tests: the binary, real operators, real files, and independent oracles.
//!
//! One behaviour a file. `cargo xtask test` sets the oracles up; `HOWDAH_TEST_FULL=1` runs more
//! rounds and seeds.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and its helpers are part of it"
)]

mod support;

mod answers;
mod bad_input;
mod bad_pipeline_file;
mod book;
mod changed_operator;
mod check;
mod closed_pipe;
mod compile_bombs;
mod corrupt_checkpoint;
mod directories;
mod disk_full;
mod doctor;
mod dropped_state;
mod fresh_start;
mod graph;
mod hostile_guests;
mod http_source;
mod inspect;
mod isolation;
mod kafka;
mod kill;
mod languages;
mod live_reads;
mod many_checkpoints;
mod new_project;
mod nexmark_file;
mod operations;
mod other_directories;
mod replay;
mod restarts;
mod second_run;
mod state_commands;
mod state_diff;
mod state_import;
mod stop;
mod table_kills;
mod table_source;
mod traces;
mod wasi;

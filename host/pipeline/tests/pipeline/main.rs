//! Whole pipelines in this process, with real operators.

mod bad_input;
mod common;
mod failure;
mod restart;
mod run;

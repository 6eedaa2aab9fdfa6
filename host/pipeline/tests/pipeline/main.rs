//! Whole pipelines in this process, with real operators.

// The marks let helpers do what clippy.toml allows in tests.
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod common;
#[cfg(test)]
mod failure;
#[cfg(test)]
mod graph;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod many_restarts;
#[cfg(test)]
mod random_graph;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod run;
#[cfg(test)]
mod timers;

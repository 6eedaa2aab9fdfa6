//! Runs howdah operators: WebAssembly components in a sandbox with limits.
#![allow(unused)] // skeleton; removed when the crate is whole

mod component;
mod engine;
mod error;
mod instance;
mod spec;

pub use component::Component;
pub use engine::{Engine, EngineOptions};
pub use error::{Error, ErrorKind, Result};
pub use instance::{Context, Instance, Limits, Output};
pub use spec::{InputSpec, OperatorSpec, OutputSpec, StateSpec};

//! Runs howdah operators: WebAssembly components in a sandbox with limits.
//!
//! An [`Engine`] compiles a component file and checks that it fits the contract in `wit/`;
//! [`Component::describe`] asks the operator what it reads, writes and keeps; each subtask
//! then gets an [`Instance`] with the handles of its states, on a thread of its own.
//!
//! ```no_run
//! use howdah_runtime::{Engine, EngineOptions, Limits};
//!
//! # fn main() -> howdah_runtime::Result<()> {
//! let engine = Engine::new(EngineOptions::default())?;
//! let component = engine.load("last-bid.wasm".as_ref())?;
//! let spec = component.describe("{}", &Limits::default())?;
//! for state in &spec.states {
//!     println!("keeps {} with {} fields", state.name, state.fields.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What an operator can and cannot do
//!
//! It computes, keeps state and timers in the tables it declared, logs and measures, and is told
//! the time. It has no files, no network and no environment, unless [`EngineOptions::wasi`] and a
//! [`WasiGrant`] give it some of WASI. Its time, memory, and the size of what it hands over are
//! limited ([`Limits`]); what it hands over is checked before use. An operator that breaks a
//! limit, traps or returns nonsense ends its own instance with an [`Error`] that says why;
//! no other instance notices.
//!
//! Guest memory is a cache, never state: an instance that failed is dropped, and a new one
//! starts from the last checkpoint.

mod bindings;
mod buffers;
mod cache;
mod check;
mod clock;
mod compile;
mod component;
mod describe;
mod engine;
mod epoch;
mod error;
mod exports;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod guest;
mod host;
mod inspect;
mod instance;
mod limits;
mod metrics;
mod spec;
mod text;
mod trap;
mod wasi;

pub use compile::{CompileWorker, serve as serve_compile_worker};
pub use component::Component;
pub use engine::{Engine, EngineOptions, LoadOptions};
pub use error::{Error, ErrorKind, Result};
pub use exports::Handlers;
pub use inspect::{
    CONTRACT_SOURCES, CoreModule, CustomSection, Difference, DifferenceKind, Inspection, Memory,
    Producer,
};
pub use instance::{Context, DiscardedTimers, Input, Instance, Output};
pub use limits::Limits;
pub use metrics::InstanceMetrics;
pub use spec::{InputSpec, OperatorSpec, OutputSpec, StateSpec, TimeDomain, TimerSpec};
pub use text::printable;
pub use wasi::{Access, DirectoryGrant, WasiGrant, WasiPermission};

/// The version of package `howdah:operator` that this host implements.
const HOST_VERSION: &str = "0.1.1";

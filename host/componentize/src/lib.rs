//! Makes components of operators in Rust: finds a compiler for their target, and encodes the core
//! modules that it makes. For the command line, and for the build of this workspace's operators.

mod toolchain;

pub use toolchain::{OVERRIDE, TARGET, Toolchain};

use anyhow::{Context, Result};
use std::path::Path;
use wit_component::ComponentEncoder;

/// Wraps a core module as a component, and checks it.
///
/// # Errors
/// When a file cannot be read or written, or the module has no description of its interfaces, as
/// the SDK puts one in.
pub fn encode(module: &Path, component: &Path) -> Result<()> {
    let bytes =
        std::fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let bytes = ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(ComponentEncoder::encode)
        .with_context(|| format!("cannot make a component of {}", module.display()))?;
    // Under its final name only when it is whole: a pipeline may be about to load it.
    let partial = component.with_extension("wasm.partial");
    std::fs::write(&partial, bytes)
        .and_then(|()| std::fs::rename(&partial, component))
        .with_context(|| format!("cannot write {}", component.display()))
}

//! The only unsafe code of this crate.

use wasmtime::Engine;
use wasmtime::component::Component;

/// Loads compiled code. `code` must come from `Component::serialize`.
pub(super) fn component(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes must be what `Component::serialize` returned, unchanged. The caller
    // has found them under the checksum that is written beside them, so they are what this
    // program, or another of its user, put into the cache directory; that directory is
    // trusted like the executable. wasmtime itself refuses code of another version, target
    // or configuration.
    unsafe { Component::deserialize(engine, code) }
}

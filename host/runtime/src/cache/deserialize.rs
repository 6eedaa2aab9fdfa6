//! Loading compiled code.

use wasmtime::Engine;
use wasmtime::component::Component;

/// Loads compiled code. `code` must come from `Component::serialize` or
/// `Engine::precompile_component`.
pub(crate) fn component(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes must be what wasmtime made, unchanged. They come from one of two places.
    // A compile worker is this program, or one that its user names in its place; it runs no code
    // of the component. A file in the cache directory is found under the checksum that is written
    // beside it, so it is what this program, or another of its user, put there; that directory is
    // trusted like the executable. wasmtime itself refuses code of another version, target or
    // configuration.
    unsafe { Component::deserialize(engine, code) }
}

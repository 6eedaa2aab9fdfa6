//! Loading compiled code.

use super::sealed::Sealed;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Loads compiled code. `code` must come from `Component::serialize` or
/// `Engine::precompile_component`.
pub(crate) fn component(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes must be what wasmtime made, unchanged. They come from a compile worker,
    // which is this program, or one that its user names in its place; it runs no code of the
    // component. wasmtime itself refuses code of another version, target or configuration.
    unsafe { Component::deserialize(engine, code) }
}

/// The same for code in a file of the cache directory, which is mapped, not copied.
pub(super) fn sealed_component(engine: &Engine, code: &Sealed) -> wasmtime::Result<Component> {
    // SAFETY: the bytes must be what wasmtime made, unchanged, and stay so. They have the checksum
    // that was written beside them, so they are what this program, or another of its user, put into
    // that directory, which is trusted like the executable. They are sealed, so nobody can change
    // them from here on. wasmtime itself refuses code of another version, target or configuration.
    unsafe { Component::deserialize_file(engine, code.path()) }
}

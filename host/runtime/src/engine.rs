use crate::{Component, Result};
use std::path::{Path, PathBuf};

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where compiled code is kept between runs; `None`: nowhere.
    pub cache_directory: Option<PathBuf>,
    /// Instances that may be alive at once, over all pipelines of the process.
    pub instances_limit: u32,
    /// The largest `Limits::memory_bytes` that an instance may ask for.
    pub memory_limit_bytes: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { cache_directory: None, instances_limit: 256, memory_limit_bytes: 256 << 20 }
    }
}

/// Compiles and runs components. One per process; cheap to clone.
#[derive(Clone)]
pub struct Engine {}

impl Engine {
    /// Sets up wasmtime and starts the thread that ticks the epoch.
    pub fn new(options: EngineOptions) -> Result<Self> {
        todo!()
    }
    /// Reads a component file, checks what it imports and exports, and compiles it (or takes the compiled code from the cache).
    pub fn load(&self, path: &Path) -> Result<Component> {
        todo!()
    }
    /// The same for bytes in memory; `name` is what errors call it.
    pub fn load_bytes(&self, name: &str, bytes: &[u8]) -> Result<Component> {
        todo!()
    }
}

//! wasmtime, set up for operators.

use crate::bindings::TimedOperator;
use crate::cache::CodeCache;
use crate::compile::{CompileWorker, Turns};
use crate::component::Component;
use crate::epoch::EpochTicker;
use crate::host::{HostState, link_lent};
use crate::limits::{
    CORE_INSTANCES_LIMIT, Limits, MEMORIES_LIMIT, TABLE_ELEMENTS_LIMIT, TABLES_LIMIT,
};
use crate::wasi::{WasiGrant, WasiPermission};
use crate::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// The largest component file that is read: a whole interpreter takes some 20 MiB.
const COMPONENT_LIMIT_BYTES: u64 = 256 << 20;
/// Read at once of a component file.
const READ_BYTES: usize = 128 << 10;

/// Memory that a slot keeps when its instance ends: what most need to open.
const KEPT_MEMORY_BYTES: usize = 512 << 10;
const KEPT_TABLE_BYTES: usize = 16 << 10;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where compiled code is kept between runs; `None`: nowhere. Whoever can write to this
    /// directory can make this process run any code, so it should belong to its user alone.
    pub cache_directory: Option<PathBuf>,
    /// Instances that may be alive at once, over all pipelines of the process. Those that count
    /// fuel have as many of their own.
    pub instances_limit: u32,
    /// The largest `Limits::memory_bytes` that an instance may ask for.
    pub memory_limit_bytes: usize,
    /// How deep the calls of an operator may go, in bytes of the stack of the thread that calls
    /// it. The thread needs some hundred kilobytes more.
    pub stack_limit_bytes: usize,
    /// The program that compiles components, in a process with limits. `None`: this process
    /// compiles them itself, without limits, which is for trusted components only.
    pub compile_worker: Option<CompileWorker>,
    /// Components that workers compile at once; others wait, and a tenant with many waits for one
    /// with few.
    pub compile_workers_limit: usize,
    /// What pipelines may grant their operators of WASI; `None`: nothing.
    pub wasi: Option<WasiPermission>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            cache_directory: None,
            instances_limit: 256,
            memory_limit_bytes: 256 << 20,
            stack_limit_bytes: 512 << 10,
            compile_worker: None,
            compile_workers_limit: 2,
            wasi: None,
        }
    }
}

/// How a component is loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Those of compiling count here, and whether fuel is counted.
    pub limits: Limits,
    /// What it gets of WASI; `None`: nothing.
    pub wasi: Option<WasiGrant>,
    /// Whose it is: compiling is shared fairly between tenants.
    pub tenant: String,
}

/// Compiles and runs components. One per process; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    engine: wasmtime::Engine,
    linker: Linker<HostState>,
    cache: Option<CodeCache>,
    options: EngineOptions,
    /// Whether its code counts fuel.
    metered: bool,
    /// Who compiles.
    turns: Arc<Turns>,
    /// The engine whose code counts fuel, beside one whose code does not; made when first used.
    metered_engine: Mutex<Option<Engine>>,
    _ticker: EpochTicker,
}

impl Engine {
    /// Sets up wasmtime and starts the thread that ticks the epoch.
    ///
    /// # Errors
    /// [`ErrorKind::Host`] if the machine cannot run it, mostly for lack of address space.
    pub fn new(options: EngineOptions) -> Result<Self> {
        let turns = Arc::new(Turns::new(options.compile_workers_limit));
        Self::with_fuel(options, turns, false)
    }

    /// An engine whose code never looks whether its deadline has passed, to measure what looking
    /// costs. Nothing stops its operators.
    ///
    /// # Errors
    /// As for [`Self::new`].
    #[cfg(feature = "bench")]
    #[doc(hidden)]
    pub fn without_deadlines(options: EngineOptions) -> Result<Self> {
        let turns = Arc::new(Turns::new(options.compile_workers_limit));
        let mut config = runtime_config(&options, false);
        config.epoch_interruption(false);
        Self::with_config(options, turns, false, &config)
    }

    /// An engine that tells `perf` where the functions of operators are.
    ///
    /// # Errors
    /// As for [`Self::new`].
    #[cfg(feature = "bench")]
    #[doc(hidden)]
    pub fn with_perf_map(options: EngineOptions) -> Result<Self> {
        let turns = Arc::new(Turns::new(options.compile_workers_limit));
        let mut config = runtime_config(&options, false);
        config.profiler(wasmtime::ProfilingStrategy::PerfMap);
        Self::with_config(options, turns, false, &config)
    }

    fn with_fuel(options: EngineOptions, turns: Arc<Turns>, metered: bool) -> Result<Self> {
        let config = runtime_config(&options, metered);
        Self::with_config(options, turns, metered, &config)
    }

    fn with_config(
        options: EngineOptions,
        turns: Arc<Turns>,
        metered: bool,
        config: &Config,
    ) -> Result<Self> {
        let engine = wasmtime::Engine::new(config)
            .map_err(|error| host_error("cannot set up the WebAssembly engine", &error))?;
        let mut linker = Linker::new(&engine);
        TimedOperator::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)
            .and_then(|()| link_lent(&mut linker))
            .map_err(|error| host_error("cannot link the host's functions", &error))?;
        let ticker = EpochTicker::start(engine.weak())?;
        let cache = options.cache_directory.clone().map(CodeCache::new);
        let shared = Shared {
            engine,
            linker,
            cache,
            options,
            metered,
            turns,
            metered_engine: Mutex::new(None),
            _ticker: ticker,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Reads a component file, checks what it imports and exports, and compiles it (or takes
    /// the compiled code from the cache). It is held to the default limits of compiling.
    ///
    /// # Errors
    /// [`ErrorKind::Host`] if the file cannot be read, [`ErrorKind::Component`] if it is not a
    /// component that this host can run, [`ErrorKind::Limit`] if it takes too much to compile.
    /// The message says how to build one that is.
    pub fn load(&self, path: &Path) -> Result<Component> {
        self.load_with_limits(path, &Limits::default())
    }

    /// The same with these limits: those of compiling, and whether fuel is counted.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_with_limits(&self, path: &Path, limits: &Limits) -> Result<Component> {
        self.load_with(path, &LoadOptions { limits: limits.clone(), ..LoadOptions::default() })
    }

    /// The same for a tenant, and for a component that gets what was granted of WASI.
    ///
    /// # Errors
    /// As for [`Self::load`]; [`ErrorKind::Component`] too if it imports WASI and was granted none,
    /// or [`EngineOptions::wasi`] does not permit it, and [`ErrorKind::Host`] if a directory that was
    /// granted is not there, or not permitted.
    pub fn load_with(&self, path: &Path, options: &LoadOptions) -> Result<Component> {
        Component::load_file(&self.for_limits(&options.limits)?, path, options)
    }

    /// The same as [`Self::load`] for bytes in memory; `name` is what errors call it.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_bytes(&self, name: &str, bytes: &[u8]) -> Result<Component> {
        Component::load(self, name, bytes, &LoadOptions::default())
    }

    /// This engine, or the one beside it whose code counts fuel.
    fn for_limits(&self, limits: &Limits) -> Result<Self> {
        if limits.call_fuel.is_none() || self.shared.metered {
            return Ok(self.clone());
        }
        let metered = &self.shared.metered_engine;
        let mut metered = metered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*metered {
            return Ok(engine.clone());
        }
        let engine =
            Self::with_fuel(self.shared.options.clone(), Arc::clone(&self.shared.turns), true)?;
        Ok(metered.insert(engine).clone())
    }

    /// Whether pipelines may grant their operators anything of WASI.
    pub fn permits_wasi(&self) -> bool {
        self.shared.options.wasi.is_some()
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.shared.turns
    }

    pub(crate) fn counts_fuel(&self) -> bool {
        self.shared.metered
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.shared.engine
    }

    pub(crate) fn linker(&self) -> &Linker<HostState> {
        &self.shared.linker
    }

    pub(crate) fn cache(&self) -> Option<&CodeCache> {
        self.shared.cache.as_ref()
    }

    pub(crate) fn options(&self) -> &EngineOptions {
        &self.shared.options
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// The bytes of a component file.
pub(crate) fn read_component(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    copy_component(path, &mut bytes)?;
    Ok(bytes)
}

/// SHA-256 of a component file.
pub(crate) fn digest_of_component(path: &Path) -> Result<[u8; 32]> {
    let mut sha = Sha256::new();
    copy_component(path, &mut sha)?;
    Ok(sha.finalize().into())
}

fn copy_component(path: &Path, to: &mut impl Write) -> Result<()> {
    copy(path, to).map_err(|error| {
        let message = format!("cannot read component {}: {error}", path.display());
        Error::with_source(ErrorKind::Host, message, error)
    })
}

fn copy(path: &Path, to: &mut impl Write) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?.take(COMPONENT_LIMIT_BYTES + 1);
    let copied = std::io::copy(&mut BufReader::with_capacity(READ_BYTES, file), to)?;
    if copied > COMPONENT_LIMIT_BYTES {
        return Err(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            "it is larger than 256 MiB",
        ));
    }
    Ok(())
}

fn host_error(what: &str, error: &wasmtime::Error) -> Error {
    Error::new(ErrorKind::Host, format!("{what}: {error:#}"))
}

/// What compiles for the engine, and runs nothing.
pub(crate) fn compiler(metered: bool) -> Result<wasmtime::Engine> {
    wasmtime::Engine::new(&code_config(metered))
        .map_err(|error| host_error("cannot set up the compiler", &error))
}

/// What decides which code is made: the same where it is compiled and where it runs.
fn code_config(metered: bool) -> Config {
    let mut config = Config::new();
    // Operators are called synchronously, each on its subtask's thread; the machinery for
    // concurrent calls would double the cost of a call.
    config.concurrency_support(false);
    config.epoch_interruption(true);
    config.consume_fuel(metered);
    config.memory_init_cow(true);
    // Tables beside the code that nobody reads: a backtrace here is names of functions. They are a
    // seventh of what is read and copied to load it.
    config.native_unwind_info(false);
    config.generate_address_map(false);
    // A component of several parts, as interpreters come, is tied together with modules that see
    // the memories of two.
    config.wasm_multi_memory(true);
    // What no guest language needs is off: every proposal is code that an attacker can reach.
    // Garbage collection with exceptions and typed function references, threads, and the
    // component model's concurrency are not even compiled in: features of crate wasmtime.
    config.wasm_tail_call(false);
    config.wasm_relaxed_simd(false);
    config.wasm_memory64(false);
    config.wasm_wide_arithmetic(false);
    config.wasm_custom_page_sizes(false);
    config.wasm_stack_switching(false);
    config.wasm_gc(false);
    config.wasm_shared_everything_threads(false);
    config.wasm_component_model_error_context(false);
    config.wasm_component_model_gc(false);
    config.wasm_component_model_map(false);
    config.wasm_component_model_memory64(false);
    config.wasm_component_model_fixed_length_lists(false);
    config.wasm_component_model_implements(false);
    config
}

fn runtime_config(options: &EngineOptions, metered: bool) -> Config {
    let mut config = code_config(metered);
    config.max_wasm_stack(options.stack_limit_bytes);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options)));
    config
}

/// Slots for `instances_limit` instances; a slot costs address space until it is used.
fn pool(options: &EngineOptions) -> PoolingAllocationConfig {
    let instances = options.instances_limit.max(1);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances);
    // Most components are one module and one memory; those linked from many share the rest.
    pool.total_core_instances(instances.saturating_mul(8).max(CORE_INSTANCES_LIMIT));
    pool.total_memories(instances.max(MEMORIES_LIMIT));
    pool.total_tables(instances.saturating_mul(4).max(TABLES_LIMIT));
    pool.max_core_instances_per_component(CORE_INSTANCES_LIMIT);
    pool.max_memories_per_component(MEMORIES_LIMIT);
    pool.max_tables_per_component(TABLES_LIMIT);
    pool.max_tables_per_module(4);
    pool.max_memory_size(options.memory_limit_bytes);
    pool.table_elements(TABLE_ELEMENTS_LIMIT);
    // The next instance in a slot finds the first of its pages in place, with what is in the
    // component again: a page fault costs more than to write a page anew.
    pool.linear_memory_keep_resident(KEPT_MEMORY_BYTES);
    pool.table_keep_resident(KEPT_TABLE_BYTES);
    pool.pagemap_scan(Enabled::Auto);
    pool
}

//! A compiled operator.

use crate::engine::{Engine, LoadOptions};
use crate::exports::{Handlers, Linked};
use crate::instance::{Context, Instance};
use crate::limits::Limits;
use crate::spec::OperatorSpec;
use crate::wasi::{self, WasiGrant};
use crate::{Result, cache, check, compile, describe, engine};
use howdah_state::StateTable;
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// A compiled, checked operator. Cheap to clone.
#[derive(Clone)]
pub struct Component {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    digest: String,
    engine: Engine,
    linked: Linked,
    /// What it gets of WASI.
    wasi: Option<WasiGrant>,
}

impl Component {
    /// Compiles, or takes from the cache, and checks. A component whose code is in the cache is
    /// read for its digest alone, and not kept: it can be large.
    pub(crate) fn load_file(engine: &Engine, path: &Path, options: &LoadOptions) -> Result<Self> {
        let name = path.display().to_string();
        if let Some(cache) = engine.cache() {
            let digest = hex(&engine::digest_of_component(path)?);
            if let Some(component) = cache.get(engine.wasmtime(), &digest) {
                return Self::check(engine, &name, digest, &component, options);
            }
        }
        let bytes = engine::read_component(path)?;
        let digest = hex(&Sha256::digest(&bytes));
        Self::compile(engine, &name, digest, &bytes, options)
    }

    /// The same for bytes in memory.
    pub(crate) fn load(
        engine: &Engine,
        name: &str,
        bytes: &[u8],
        options: &LoadOptions,
    ) -> Result<Self> {
        let digest = hex(&Sha256::digest(bytes));
        match engine.cache().and_then(|cache| cache.get(engine.wasmtime(), &digest)) {
            Some(component) => Self::check(engine, name, digest, &component, options),
            None => Self::compile(engine, name, digest, bytes, options),
        }
    }

    fn compile(
        engine: &Engine,
        name: &str,
        digest: String,
        bytes: &[u8],
        options: &LoadOptions,
    ) -> Result<Self> {
        check::header(name, bytes)?;
        let component = compiled(engine, name, &digest, bytes, options)?;
        Self::check(engine, name, digest, &component, options)
    }

    fn check(
        engine: &Engine,
        name: &str,
        digest: String,
        component: &wasmtime::component::Component,
        options: &LoadOptions,
    ) -> Result<Self> {
        let wasi = wasi_of(engine, name, component, options.wasi.as_ref())?;
        let linked = check::link(engine, name, component, wasi.is_some())?;
        let (name, engine) = (name.to_owned(), engine.clone());
        let shared = Shared { name, digest, engine, linked, wasi };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Asks the operator what it is. `config` is a JSON object.
    ///
    /// Runs in an instance of its own, without state.
    ///
    /// # Errors
    /// [`ErrorKind::Operator`](crate::ErrorKind::Operator) if it refuses `config`,
    /// [`ErrorKind::Component`](crate::ErrorKind::Component) if it describes an operator that
    /// this host cannot run, and as for [`Instance::process`].
    pub fn describe(&self, config: &str, limits: &Limits) -> Result<OperatorSpec> {
        describe::describe(self, config, limits)
    }

    /// Makes the instance of one subtask and calls its `open`. `tables` are those that
    /// [`OperatorSpec::tables`] asks for, in that order; their handles of the subtask are taken.
    ///
    /// # Errors
    /// [`ErrorKind::Operator`](crate::ErrorKind::Operator) if the operator refuses to open,
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if the process has no room for another
    /// instance or for its memory, and as for [`Instance::process`].
    pub fn instantiate(
        &self,
        spec: &OperatorSpec,
        context: Context,
        limits: &Limits,
        tables: &[StateTable],
    ) -> Result<Instance> {
        Instance::open(self, spec, context, limits, tables)
    }

    /// Which of the handlers it has.
    pub fn handlers(&self) -> Handlers {
        self.shared.linked.handlers()
    }

    /// SHA-256 of the component's bytes, in hex.
    pub fn digest(&self) -> &str {
        &self.shared.digest
    }

    /// What errors call it: the path it was loaded from.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn wasi(&self) -> Option<&WasiGrant> {
        self.shared.wasi.as_ref()
    }

    pub(crate) fn linked(&self) -> &Linked {
        &self.shared.linked
    }
}

/// What a component gets of WASI: nothing, if it imports none.
fn wasi_of(
    engine: &Engine,
    name: &str,
    component: &wasmtime::component::Component,
    grant: Option<&WasiGrant>,
) -> Result<Option<WasiGrant>> {
    let Some(import) = check::wasi_import(engine, component) else { return Ok(None) };
    let permission = engine.options().wasi.as_ref();
    match (permission, grant) {
        (Some(permission), Some(grant)) => wasi::check(name, permission, grant).map(Some),
        _ => Err(check::not_granted(name, &import, permission.is_some(), grant.is_some())),
    }
}

/// Compiles a component, in a worker if there is one, and keeps the code.
fn compiled(
    engine: &Engine,
    name: &str,
    digest: &str,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<wasmtime::component::Component> {
    let not_compiled = |error: wasmtime::Error| check::not_compiled(name, &format!("{error:#}"));
    let wasmtime = engine.wasmtime();
    let Some(worker) = &engine.options().compile_worker else {
        let component =
            wasmtime::component::Component::from_binary(wasmtime, bytes).map_err(not_compiled)?;
        if let Some(cache) = engine.cache() {
            cache.put(wasmtime, digest, &component);
        }
        return Ok(component);
    };
    let turn = engine.turns().wait(&options.tenant);
    let code = compile::compile(worker, name, bytes, engine.counts_fuel(), &options.limits)?;
    drop(turn);
    let component = cache::deserialize(wasmtime, &code).map_err(not_compiled)?;
    if let Some(cache) = engine.cache() {
        cache.put_code(wasmtime, digest, &code);
    }
    Ok(component)
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component")
            .field("name", &self.shared.name)
            .field("digest", &self.shared.digest)
            .finish_non_exhaustive()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

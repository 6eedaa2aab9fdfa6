//! An operator with a state store of its own: a component, or native code.

use crate::language::Language;
use crate::native;
use anyhow::{Context as _, Result, ensure};
use arrow_array::RecordBatch;
use howdah_runtime::{
    Component, Context, Engine, EngineOptions, Input, Instance, Limits, OperatorSpec,
};
use howdah_state::{
    Clock, KeyBatch, KeyGroups, Restore, StateDescriptor, StateStore, StateTable, StoreOptions,
};
use std::path::Path;
use tempfile::TempDir;

/// What an operator gets in one call.
pub(crate) struct Call<'a> {
    pub(crate) batch: &'a RecordBatch,
    pub(crate) timestamps: &'a [i64],
    pub(crate) keys: KeyBatch,
    pub(crate) row_keys: &'a [u32],
}

/// What is measured.
pub(crate) trait Operator {
    /// The rows that it emits, and their event times.
    fn process(&mut self, call: Call<'_>) -> Result<(RecordBatch, Vec<i64>)>;
    /// The barrier of a checkpoint.
    fn barrier(&mut self, checkpoint: u64) -> Result<()>;
}

/// An operator with a state store of its own.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    // Before the store, of which it has states.
    pub(crate) operator: Box<dyn Operator>,
    store: StateStore,
    _directory: TempDir,
}

impl Contestant {
    /// A component on a fresh state.
    pub(crate) fn component(
        language: &Language,
        component: &Component,
        directory: &Path,
    ) -> Result<Self> {
        let spec = component.describe("{}", &limits())?;
        let stored = Stored::open(&spec, directory, 1)?;
        let instance = component.instantiate(&spec, context(0, 1), &limits(), &stored.tables)?;
        Ok(stored.with(language.name, Box::new(instance)))
    }

    /// The native operator that does the same; `spec` is that of the component.
    pub(crate) fn native(name: &str, spec: &OperatorSpec, directory: &Path) -> Result<Self> {
        let stored = Stored::open(spec, directory, 1)?;
        let state = stored.tables.first().context("there is a state")?.value_state(0)?;
        let operator: Box<dyn Operator> = match name {
            "echo" => Box::new(native::Echo::new(spec, state)?),
            "last-bid" => Box::new(native::LastBid::new(spec, state)?),
            _ => Box::new(native::AuctionStats::new(spec, state)?),
        };
        Ok(stored.with("native", operator))
    }

    /// Waits until a checkpoint is published, and gives up all before it.
    pub(crate) fn wait_published(&self, checkpoint: u64) -> Result<()> {
        Ok(self.store.wait_published(checkpoint).map(drop)?)
    }
}

/// Tables in a temporary directory.
pub(crate) struct Stored {
    pub(crate) tables: Vec<StateTable>,
    store: StateStore,
    directory: TempDir,
}

impl Stored {
    pub(crate) fn open(spec: &OperatorSpec, directory: &Path, parallelism: u32) -> Result<Self> {
        let directory = TempDir::new_in(directory)?;
        let options = StoreOptions { sync: false, ..StoreOptions::default() };
        let store = StateStore::open(directory.path(), "bench", options)?;
        let open = |descriptor: StateDescriptor| {
            store.open_table(&StateDescriptor { parallelism, ..descriptor }, Restore::Fresh)
        };
        let tables = spec.tables("bench", "boundary").into_iter().map(open);
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { tables, store, directory })
    }

    fn with(self, name: &'static str, operator: Box<dyn Operator>) -> Contestant {
        let Self { store, directory, .. } = self;
        Contestant { name, operator, store, _directory: directory }
    }
}

impl Operator for Instance {
    fn process(&mut self, call: Call<'_>) -> Result<(RecordBatch, Vec<i64>)> {
        let Call { batch, timestamps, keys, row_keys } = call;
        let input = Input { port: 0, batch, row_kinds: None, timestamps, keys, row_keys };
        let mut outputs = Self::process(self, input)?;
        ensure!(outputs.len() == 1, "{} batches came out, not one", outputs.len());
        let output = outputs.pop().context("one was there")?;
        Ok((output.batch, output.timestamps))
    }

    fn barrier(&mut self, checkpoint: u64) -> Result<()> {
        self.on_barrier(checkpoint)?;
        Ok(self.freeze(checkpoint)?)
    }
}

/// Those of components here: an interpreter is not held up by a busy machine, and has room for
/// the first batches, whose values it takes one by one.
pub(crate) fn limits() -> Limits {
    Limits { call_timeout_ms: 60_000, memory_bytes: 256 << 20, ..Limits::default() }
}

/// An engine that keeps compiled code in `directory`.
pub(crate) fn engine_options(directory: &Path) -> EngineOptions {
    EngineOptions { cache_directory: Some(directory.join("code")), ..EngineOptions::default() }
}

pub(crate) fn engine(directory: &Path) -> Result<Engine> {
    Ok(Engine::new(engine_options(directory))?)
}

pub(crate) fn context(subtask: u32, parallelism: u32) -> Context {
    Context {
        pipeline: "bench".to_owned(),
        operator: "boundary".to_owned(),
        subtask,
        parallelism,
        key_groups: KeyGroups::DEFAULT_COUNT,
        config: "{}".to_owned(),
        restored_from: None,
        watermark: i64::MIN,
        clock: Clock::system(),
    }
}

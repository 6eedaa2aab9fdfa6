//! An operator on a real state store in a temporary directory.

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use howdah_operator_artifacts::{HOSTILE, SCRIPTED};
use howdah_runtime::{
    Component, Context, Engine, EngineOptions, Error, Input, Instance, Limits, OperatorSpec, Output,
};
use howdah_state::{
    Clock, KeyBatch, KeyEncoder, KeyGroups, Restore, StateDescriptor, StateStore, StateTable,
    StoreOptions,
};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

pub(crate) static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::new(EngineOptions { instances_limit: 32, ..EngineOptions::default() }).unwrap()
});

/// Keeps the code of interpreters, which take long to compile, from run to run.
static CACHING_ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages");
    std::fs::create_dir_all(&directory).unwrap();
    let options = EngineOptions {
        cache_directory: Some(directory),
        instances_limit: 64,
        ..EngineOptions::default()
    };
    Engine::new(options).unwrap()
});

/// The languages beside Rust, and the variables that `cargo xtask test` sets to where their
/// operators are.
const LANGUAGES: [(&str, &str); 3] = [
    ("c", "HOWDAH_OPERATORS_C"),
    ("js", "HOWDAH_OPERATORS_JS"),
    ("python", "HOWDAH_OPERATORS_PYTHON"),
];

/// The operator of this name in each language that is set up; that in Rust, at `rust`, is first.
pub(crate) fn in_all_languages(name: &str, rust: &str) -> Vec<(&'static str, Component)> {
    let mut operators = vec![("rust", ENGINE.load(Path::new(rust)).unwrap())];
    for (language, variable) in LANGUAGES {
        match std::env::var_os(variable) {
            Some(directory) => {
                let path = PathBuf::from(directory).join(name).with_extension("wasm");
                operators.push((language, CACHING_ENGINE.load(&path).unwrap()));
            }
            None => {
                // Past the harness, which keeps what is printed until a test fails.
                let _ = writeln!(std::io::stderr(), "skipped: {language} ({variable} is not set)");
            }
        }
    }
    operators
}

static HOSTILE_COMPONENT: LazyLock<Component> =
    LazyLock::new(|| ENGINE.load(Path::new(HOSTILE)).unwrap());

/// The operator that misbehaves on demand.
pub(crate) fn hostile() -> Component {
    HOSTILE_COMPONENT.clone()
}

/// `{"mode": ..}`.
pub(crate) fn mode(mode: &str) -> String {
    serde_json::json!({ "mode": mode }).to_string()
}

static SCRIPTED_COMPONENT: LazyLock<Component> =
    LazyLock::new(|| ENGINE.load(Path::new(SCRIPTED)).unwrap());

/// The operator that does what its rows and configuration say.
pub(crate) fn scripted() -> Component {
    SCRIPTED_COMPONENT.clone()
}

/// One instance, and all that it needs to run.
pub(crate) struct Running {
    pub(crate) instance: Instance,
    pub(crate) spec: OperatorSpec,
    // Dropped after the instance, which has states of it.
    store: Option<StateStore>,
    _directory: TempDir,
}

/// How an operator is started.
#[derive(Clone)]
pub(crate) struct Start {
    pub(crate) config: String,
    pub(crate) limits: Limits,
    pub(crate) parallelism: u32,
    pub(crate) subtask: u32,
    pub(crate) write_buffer_limit_bytes: usize,
}

impl Start {
    pub(crate) fn mode(name: &str) -> Self {
        Self {
            config: mode(name),
            limits: Limits::default(),
            parallelism: 1,
            subtask: 0,
            write_buffer_limit_bytes: StoreOptions::default().write_buffer_limit_bytes,
        }
    }

    pub(crate) fn open(&self, component: &Component) -> Result<Running, Error> {
        let directory = TempDir::new().unwrap();
        let options = StoreOptions {
            sync: false,
            write_buffer_limit_bytes: self.write_buffer_limit_bytes,
            ..StoreOptions::default()
        };
        let store = StateStore::open(directory.path(), "test", options).unwrap();
        let spec = component.describe(&self.config, &self.limits)?;
        let table = |descriptor: StateDescriptor| {
            let descriptor = StateDescriptor { parallelism: self.parallelism, ..descriptor };
            store.open_table(&descriptor, Restore::Fresh).unwrap()
        };
        let tables: Vec<StateTable> =
            spec.tables("pipeline", "counter").into_iter().map(table).collect();
        let context = Context {
            pipeline: "pipeline".to_owned(),
            operator: "counter".to_owned(),
            subtask: self.subtask,
            parallelism: self.parallelism,
            key_groups: KeyGroups::DEFAULT_COUNT,
            config: self.config.clone(),
            restored_from: None,
            watermark: i64::MIN,
            clock: Clock::system(),
        };
        let instance = component.instantiate(&spec, context, &self.limits, &tables)?;
        Ok(Running { instance, spec, store: Some(store), _directory: directory })
    }
}

impl Running {
    /// The store goes away while the instance still has states of it.
    pub(crate) fn close_store(&mut self) {
        self.store.take().unwrap().close().unwrap();
    }

    /// One row for each auction, each with price 1.
    pub(crate) fn process(&mut self, auctions: &[i64]) -> Result<Vec<Output>, Error> {
        let prices = vec![1; auctions.len()];
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(auctions.to_vec())), Arc::new(Int64Array::from(prices))];
        let batch = RecordBatch::try_new(self.spec.inputs[0].schema(), columns).unwrap();
        let (keys, row_keys) = keys_of(&self.spec, &batch);
        let timestamps: Vec<i64> = (0..).take(auctions.len()).collect();
        self.instance.process(Input {
            port: 0,
            batch: &batch,
            row_kinds: None,
            timestamps: &timestamps,
            keys,
            row_keys: &row_keys,
        })
    }
}

/// The distinct keys of a batch whose key columns are the first ones, and the key of each row.
pub(crate) fn keys_of(spec: &OperatorSpec, batch: &RecordBatch) -> (KeyBatch, Vec<u32>) {
    let columns = spec.key_columns();
    let encoder = KeyEncoder::new(&columns).unwrap();
    let key = &batch.columns()[..columns.len()];
    KeyBatch::distinct(key, &encoder.encode(key).unwrap()).unwrap()
}

/// The column of an output as numbers.
pub(crate) fn numbers(output: &Output, column: usize) -> Vec<i64> {
    output.batch.column(column).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
}

//! A component with WASI gets what was granted and no more, and none of it past the limits of a call.

use crate::support::keys_of;
use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, Int64Array, RecordBatch, StringArray};
use howdah_operator_artifacts::WITH_WASI;
use howdah_runtime::{
    Access, Component, Context, DirectoryGrant, Engine, EngineOptions, Error, ErrorKind, Input,
    Instance, Limits, LoadOptions, OperatorSpec, WasiGrant, WasiPermission,
};
use howdah_state::{Clock, KeyGroups, Restore, StateStore, StoreOptions};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

/// Permits everything below the directory for temporary files, and pipes and devices.
static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let wasi =
        WasiPermission { readable: vec!["/dev".into()], writable: vec![std::env::temp_dir()] };
    Engine::new(EngineOptions { instances_limit: 32, wasi: Some(wasi), ..EngineOptions::default() })
        .unwrap()
});

/// A running operator with the directory `inside`, beside which lies `secret`.
struct Running {
    instance: Instance,
    spec: OperatorSpec,
    root: TempDir,
    _store: StateStore,
}

struct Start {
    access: Access,
    limits: Limits,
    restored_from: Option<u64>,
    random_seed: u64,
    written_limit_bytes: u64,
    directory: Option<&'static str>,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            access: Access::Read,
            limits: Limits { call_timeout_ms: 300, ..Limits::default() },
            restored_from: None,
            random_seed: 7,
            written_limit_bytes: 64 << 10,
            directory: None,
        }
    }
}

const NOW_MS: i64 = 1_700_000_000_123;

impl Start {
    fn open(&self) -> Running {
        let root = TempDir::new().unwrap();
        let inside = root.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("file"), "some rates").unwrap();
        std::fs::write(root.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
        let path = self.directory.map_or(inside, Into::into);
        let grant = WasiGrant {
            directories: vec![DirectoryGrant { name: "/data".into(), path, access: self.access }],
            random_seed: self.random_seed,
            written_limit_bytes: self.written_limit_bytes,
        };
        let options = LoadOptions {
            limits: self.limits.clone(),
            wasi: Some(grant),
            ..LoadOptions::default()
        };
        let component = ENGINE.load_with(Path::new(WITH_WASI), &options).unwrap();
        let spec = component.describe("{}", &self.limits).unwrap();
        let options = StoreOptions { sync: false, ..StoreOptions::default() };
        let store = StateStore::open(&root.path().join("state"), "test", options).unwrap();
        let open = |descriptor| store.open_table(&descriptor, Restore::Fresh).unwrap();
        let tables: Vec<_> = spec.tables("pipeline", "operator").into_iter().map(open).collect();
        let context = Context {
            pipeline: "pipeline".to_owned(),
            operator: "operator".to_owned(),
            subtask: 0,
            parallelism: 1,
            key_groups: KeyGroups::DEFAULT_COUNT,
            config: "{}".to_owned(),
            restored_from: self.restored_from,
            watermark: i64::MIN,
            clock: Clock::manual(NOW_MS).0,
        };
        let instance = component.instantiate(&spec, context, &self.limits, &tables).unwrap();
        Running { instance, spec, root, _store: store }
    }
}

impl Running {
    fn try_to(&mut self, verb: &str, path: &str) -> Result<String, Error> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1])),
            Arc::new(StringArray::from(vec![verb])),
            Arc::new(StringArray::from(vec![path])),
        ];
        let batch = RecordBatch::try_new(self.spec.inputs[0].schema(), columns).unwrap();
        let (keys, row_keys) = keys_of(&self.spec, &batch);
        let outputs = self.instance.process(Input {
            port: 0,
            batch: &batch,
            row_kinds: None,
            timestamps: &[0],
            keys,
            row_keys: &row_keys,
        })?;
        let texts = outputs[0].batch.column(0).as_string::<i32>();
        assert_eq!(texts.len(), 1);
        Ok(texts.value(0).to_owned())
    }

    fn told(&mut self, verb: &str, path: &str) -> String {
        self.try_to(verb, path).unwrap()
    }

    /// The call ends in an error of this kind, whose message has this.
    fn ends(&mut self, (verb, path): (&str, &str), kind: ErrorKind, what: &str) {
        let error = self.try_to(verb, path).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

fn load(engine: &Engine, grant: Option<&WasiGrant>) -> Result<Component, Error> {
    let options = LoadOptions { wasi: grant.cloned(), ..LoadOptions::default() };
    engine.load_with(Path::new(WITH_WASI), &options)
}

#[test]
fn a_component_with_wasi_is_refused_unless_its_pipeline_grants_it() {
    let error = load(&ENGINE, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Component);
    assert!(error.to_string().contains("add [operator.wasi] to the pipeline file;"), "{error}");
}

#[test]
fn a_component_with_wasi_is_refused_unless_its_host_permits_it() {
    let error = load(&crate::support::ENGINE, Some(&WasiGrant::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Component);
    assert!(error.to_string().contains("does not allow it: add --allow-wasi"), "{error}");
}

#[test]
fn a_directory_that_the_host_does_not_permit_is_refused() {
    let directory =
        DirectoryGrant { name: "/etc".into(), path: "/etc".into(), access: Access::Read };
    let grant = WasiGrant { directories: vec![directory], ..WasiGrant::default() };
    let error = load(&ENGINE, Some(&grant)).unwrap_err();
    assert!(error.to_string().contains("--allow-read /etc"), "{error}");
}

#[test]
fn files_of_a_directory_that_was_granted_are_read() {
    let mut running = Start::default().open();
    assert_eq!(running.told("directories", ""), "/data Ok(DescriptorFlags { bits: 1 })");
    assert_eq!(running.told("list", "."), "file, link");
    assert_eq!(running.told("read", "file"), "some rates");
    assert_eq!(running.told("read", "none"), "error: no-entry");
}

#[test]
fn no_path_leads_out_of_a_directory() {
    for access in [Access::Read, Access::ReadWrite] {
        let mut running = Start { access, ..Start::default() }.open();
        let absolute = running.root.path().join("secret").display().to_string();
        for path in ["../secret", "link", "./../secret", "/etc/passwd", &absolute, "..", "/"] {
            assert_eq!(running.told("read", path), "error: not-permitted", "{path}");
        }
    }
}

#[test]
fn what_may_be_read_is_not_written() {
    let mut running = Start::default().open();
    for verb in ["append", "make", "remove", "rename"] {
        for path in ["file", "new"] {
            assert_eq!(running.told(verb, path), "error: read-only", "{verb} {path}");
        }
    }
    assert_eq!(running.told("link", "file"), "error: not-permitted");
    let inside = running.root.path().join("inside");
    assert_eq!(std::fs::read(inside.join("file")).unwrap(), b"some rates");
    assert_eq!(std::fs::read_dir(inside).unwrap().count(), 2);
}

#[test]
fn what_may_be_written_is_written_in_the_directory_alone() {
    let mut running = Start { access: Access::ReadWrite, ..Start::default() }.open();
    assert_eq!(running.told("append", "new"), "done");
    assert_eq!(running.told("append", "new"), "done");
    assert_eq!(running.told("read", "new"), "appendedappended");
    assert_eq!(running.told("make", "sub"), "done");
    assert_eq!(running.told("remove", "file"), "done");
    assert_eq!(running.told("rename", "new"), "done");
    assert_eq!(running.told("list", "."), "link, renamed, sub");
    for path in ["../new", "/tmp/new", "sub/../../new"] {
        for verb in ["append", "make"] {
            assert_eq!(running.told(verb, path), "error: not-permitted", "{verb} {path}");
        }
    }
    assert_eq!(running.told("append", "link"), "error: not-permitted");
    assert_eq!(running.told("link", "../secret"), "error: not-permitted");
    assert_eq!(std::fs::read(running.root.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn no_more_is_written_than_the_limit() {
    let mut running = Start { access: Access::ReadWrite, ..Start::default() }.open();
    assert_eq!(running.told("fill", "new"), "error: Quota");
    let length = std::fs::metadata(running.root.path().join("inside/new")).unwrap().len();
    assert_eq!(length, (64 << 10) - 4096);
    assert_eq!(running.told("make", "sub"), "error: quota");
}

#[test]
fn no_more_files_are_opened_than_the_limit() {
    let mut running = Start::default().open();
    for _ in 0..3 {
        let told = running.told("open without end", "file");
        assert_eq!(told, "64 files, then insufficient-memory");
    }
}

#[test]
fn no_more_handles_are_held_than_the_limit() {
    let mut running = Start::default().open();
    running.ends(("hoard streams", ""), ErrorKind::Trap, "limits.handles");
}

#[test]
fn pipes_and_devices_are_not_read() {
    let mut running = Start { directory: Some("/dev"), ..Start::default() }.open();
    for path in ["zero", "random", "null", "tty"] {
        assert_eq!(running.told("read", path), "error: access", "{path}");
    }
    let mut running = Start { access: Access::ReadWrite, ..Start::default() }.open();
    let pipe = running.root.path().join("inside/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(running.told("read", "pipe"), "error: access");
    assert_eq!(running.told("append", "pipe"), "error: access");
}

#[test]
fn the_clock_is_that_of_the_call_and_a_sleep_ends_at_once() {
    let mut running = Start::default().open();
    assert_eq!(running.told("time", ""), "1700000000.123000000 1700000000123000000");
    let hour_ns = 3_600_000_000_000_u64;
    assert_eq!(running.told("sleep", &hour_ns.to_string()), hour_ns.to_string());
    let told = running.told("time", "");
    assert_eq!(told, format!("1700000000.123000000 {}", 1_700_000_000_123_000_000 + hour_ns));
    assert_eq!(running.told("sleep the longest", &hour_ns.to_string()), "[0]");
}

#[test]
fn sleeping_without_end_is_stopped() {
    let mut running = Start::default().open();
    running.ends(("sleep without end", ""), ErrorKind::Limit, "limits.call-timeout-ms");
}

#[test]
fn waiting_for_nothing_is_a_trap() {
    let mut running = Start::default().open();
    running.ends(("poll nothing", ""), ErrorKind::Trap, "polled nothing");
}

#[test]
fn no_more_is_polled_than_the_limit_of_handles() {
    let mut running = Start::default().open();
    assert_eq!(running.told("poll one often", "1024"), "1024");
    running.ends(("poll one often", "2000"), ErrorKind::Trap, "limits.handles");
}

#[test]
fn random_numbers_come_from_the_seed() {
    let told = |random_seed, restored_from| {
        let start = Start { random_seed, restored_from, ..Start::default() };
        start.open().told("random", "")
    };
    assert_eq!(told(1, None), told(1, None));
    assert_ne!(told(1, None), told(2, None));
    assert_ne!(told(1, None), told(1, Some(3)));
    let mut running = Start::default().open();
    assert_ne!(running.told("random", ""), running.told("random", ""));
    running.ends(("random without end", ""), ErrorKind::Trap, "random bytes");
}

#[test]
fn there_is_no_environment_and_no_input() {
    let mut running = Start::default().open();
    assert_eq!(running.told("environment", ""), "[] []");
    assert_eq!(running.told("input", ""), "closed");
}

#[test]
fn there_is_no_network() {
    assert_eq!(Start::default().open().told("socket", ""), "access-denied");
}

#[test]
fn a_flood_of_output_is_dropped_and_counted() {
    let mut running = Start::default().open();
    assert_eq!(running.told("print much", "1500"), "done");
    assert_eq!(running.instance.metrics().log_messages_dropped_total, 500);
    running.ends(("print without end", ""), ErrorKind::Limit, "limits.call-timeout-ms");
}

#[test]
fn the_reason_of_a_trap_is_what_was_printed_last() {
    let mut running = Start::default().open();
    running.ends(("complain", "out of rates"), ErrorKind::Trap, "it said: out of rates");
}

#[test]
fn the_end_of_the_program_is_a_trap() {
    Start::default().open().ends(("exit", ""), ErrorKind::Trap, "ended its program");
}

#[test]
fn what_was_written_counts_on_after_a_failure() {
    let mut running = Start { access: Access::ReadWrite, ..Start::default() }.open();
    running.instance.keep_state_on_failure();
    assert_eq!(running.told("fill", "new"), "error: Quota");
    running.ends(("exit", ""), ErrorKind::Trap, "ended its program");
    running.instance.restart().unwrap();
    assert_eq!(running.told("append", "other"), "error: quota");
}

//! Components of projects in C: a clang that brings its C library, which is Zig's, and what is needed
//! after it.

use super::{Project, run_tool};
use crate::environment;
use crate::failure::{Failure, Result};
use anyhow::anyhow;
use howdah_componentize::encode_for_world;
use howdah_runtime::CONTRACT_SOURCES;
use std::path::Path;
use std::process::Command;

/// Where a project has its copy of the SDK.
const SDK: &str = "howdah";
/// What operators in C have: all that there is.
const WORLD: &str = "timed-operator";

pub(super) fn build(project: &Project) -> Result<()> {
    let (component, source) = (project.whole_component()?, project.source("c")?);
    let module = component.with_extension("core.wasm");
    let mut compiler = compiler()?;
    compiler
        .current_dir(&project.directory)
        .args(["-target", "wasm32-wasi", "-mexec-model=reactor", "-std=c11", "-O3", "-msimd128"])
        // A call of the SDK for each row and state costs more than what most operators do with them.
        .args(["-flto", "-s", "-Wall", "-I", SDK, "-o"])
        .arg(&module)
        .arg(source)
        .arg(Path::new(SDK).join("howdah.c"));
    run_tool(compiler, "the C compiler")?;
    let encoded = if imports_wasi(&module) {
        Err(Failure::Failed(anyhow!(
            "the operator calls functions of the C library that need a system, as files, clocks and \
             printf do, and an operator in C has none: use howdah_log and howdah_now instead; one \
             that needs files is to be written in Rust, for `howdah build --wasi`"
        )))
    } else {
        encode_for_world(&module, &component, CONTRACT_SOURCES, WORLD).map_err(Failure::from)
    };
    // It was a step on the way.
    let _ = std::fs::remove_file(&module);
    encoded
}

/// Whether a module of wasi-libc imports a system, whose name is nowhere else in it.
fn imports_wasi(module: &Path) -> bool {
    let name = b"wasi_snapshot_preview1";
    std::fs::read(module).is_ok_and(|bytes| bytes.windows(name.len()).any(|part| part == name))
}

/// Zig's compiler: of the checkout that this binary was built in, or on the search path.
fn compiler() -> Result<Command> {
    let path = environment::search_path();
    let pythons = path.iter().map(|place| place.join("python3"));
    let ours = environment::toolchain("c/bin/python");
    for python in ours.into_iter().chain(pythons).filter(|python| python.is_file()) {
        let mut probe = Command::new(&python);
        let found = probe.args(["-c", "import ziglang"]).output();
        if found.is_ok_and(|output| output.status.success()) {
            let mut command = Command::new(python);
            command.args(["-m", "ziglang", "cc"]);
            return Ok(command);
        }
    }
    if path.iter().any(|place| place.join("zig").is_file()) {
        let mut command = Command::new("zig");
        command.arg("cc");
        return Ok(command);
    }
    Err(Failure::usage(
        "a project in C needs a compiler for wasm32-wasi, and there is no Zig: `pip install \
         ziglang==0.16.0` (in a virtual environment that is active), or in a checkout of howdah `cargo xtask setup --c`",
    ))
}

//! `howdah compile-worker`: compiles one component for another `howdah`, in a process that may be
//! ended.

use crate::failure::Result;
use anyhow::Context;
use howdah_runtime::CompileWorker;

/// The name of the command.
const NAME: &str = "compile-worker";

/// This program, as it is started to compile.
pub(crate) fn this_program() -> Result<CompileWorker> {
    Ok(CompileWorker::this_program(&[NAME]).context("cannot set up compiling")?)
}

/// Runs `howdah compile-worker`.
pub(crate) fn run() -> Result<()> {
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    Ok(howdah_runtime::serve_compile_worker(input, output).context("cannot compile")?)
}

//! The side of the worker: one component in, its compiled code out.

use super::{ANSWER_CODE, ANSWER_NO_MEMORY, ANSWER_REFUSED, MAGIC, Request, resource_limits};
use crate::engine;
use crate::{Error, ErrorKind, Result};
use std::io::{Read, Write};

/// Compiles one component: what the program of a [`CompileWorker`](crate::CompileWorker) does.
///
/// Takes limits on this process that nothing lifts again, so the program should do nothing else.
///
/// # Errors
/// [`ErrorKind::Host`] if it was not asked by a host of this version, or cannot answer.
pub fn serve(mut input: impl Read, mut output: impl Write) -> Result<()> {
    let failed = |what: &str, error: std::io::Error| {
        Error::with_source(ErrorKind::Host, format!("cannot {what}: {error}"), error)
    };
    let mut request = [0; Request::BYTES];
    input.read_exact(&mut request).map_err(|error| failed("read what to compile", error))?;
    let request = Request::decode(&request).ok_or_else(|| {
        Error::new(ErrorKind::Host, "what to compile is asked in another way than this one knows")
    })?;
    let compiler = engine::compiler(request.metered)?;
    resource_limits::take(request.memory_bytes, request.cpu_seconds)
        .map_err(|error| failed("limit this process", error))?;
    let mut component = Vec::new();
    input.read_to_end(&mut component).map_err(|error| failed("read the component", error))?;
    let (kind, answer) = match compiler.precompile_component(&component) {
        Ok(code) => (ANSWER_CODE, code),
        Err(error) if is_out_of_memory(&error) => (ANSWER_NO_MEMORY, Vec::new()),
        Err(error) => (ANSWER_REFUSED, format!("{error:#}").into_bytes()),
    };
    [MAGIC.as_slice(), &[kind], &answer]
        .into_iter()
        .try_for_each(|part| output.write_all(part))
        .and_then(|()| output.flush())
        .map_err(|error| failed("answer", error))
}

fn is_out_of_memory(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::OutOfMemory)
    })
}

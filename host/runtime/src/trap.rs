//! What a call that did not return says, in words for people.

use crate::host::{Ended, HostState};
use crate::limits::{Limits, display_bytes};
use crate::{Error, ErrorKind};
use std::fmt::Write;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

/// Frames of a backtrace that are shown: where it happened, and who called.
const FRAMES_SHOWN: usize = 8;
/// wasmtime keeps the type of this error to itself; a test notices if the words change.
const FUEL_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// Why `function` did not return.
pub(crate) fn explain(
    host: &HostState,
    function: &str,
    ended: Ended,
    error: &wasmtime::Error,
) -> Error {
    let (subject, limits) = (&host.subject, &host.limits);
    if let Some(what) = limit(function, limits, &ended, error) {
        return Error::new(ErrorKind::Limit, format!("{subject} {what}"));
    }
    let mut message = format!("{subject} trapped in {function}: {}", reason(error));
    // A string takes everything.
    if let Some(reason) = ended.last_error {
        let _ = write!(message, "; it said: {reason}");
    }
    if let Some(trace) = error.downcast_ref::<WasmBacktrace>().and_then(backtrace) {
        let _ = write!(message, "; in {trace}");
    }
    Error::new(ErrorKind::Trap, message)
}

fn reason(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<Trap>() {
        // Guests keep a stack of their own at the bottom of their memory.
        Some(Trap::MemoryOutOfBounds) => {
            "out of bounds memory access (an overflowing stack looks like this too)".to_owned()
        }
        Some(trap) => trap.to_string().trim_start_matches("wasm trap: ").to_owned(),
        None => error.root_cause().to_string(),
    }
}

/// The limit that the call went past, if that is why it ended.
fn limit(
    function: &str,
    limits: &Limits,
    ended: &Ended,
    error: &wasmtime::Error,
) -> Option<String> {
    if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
        let ms = limits.call_timeout_ms;
        return Some(format!(
            "did not return from {function} within {ms} ms (limits.call-timeout-ms)"
        ));
    }
    if ended.memory_refused {
        let bytes = display_bytes(limits.memory_bytes);
        return Some(format!(
            "went past its memory limit of {bytes} in {function} (limits.memory-bytes)"
        ));
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Some(format!(
            "cannot start: this process already runs as many operator instances as it may \
             ({})",
            error.root_cause()
        ));
    }
    if error.root_cause().to_string().contains(FUEL_EXHAUSTED) {
        let bytes = display_bytes(limits.batch_bytes);
        return Some(format!(
            "handed over more than {bytes} in one call, in {function} (limits.batch-bytes)"
        ));
    }
    None
}

/// Innermost function first, without the frames of Rust's panic; recursion is shown once.
fn backtrace(trace: &WasmBacktrace) -> Option<String> {
    let mut names: Vec<String> = trace
        .frames()
        .iter()
        .map(|frame| match frame.func_name() {
            Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("function {}", frame.func_index()),
        })
        .collect();
    names.dedup();
    let first = names.iter().position(|name| !is_panic_frame(name)).unwrap_or_default();
    let mut shown: Vec<&str> =
        names.iter().skip(first).take(FRAMES_SHOWN).map(String::as_str).collect();
    if names.len() > first + FRAMES_SHOWN {
        shown.push("..");
    }
    (!shown.is_empty()).then(|| shown.join(" < "))
}

fn is_panic_frame(name: &str) -> bool {
    const PREFIXES: [&str; 8] = [
        "std::",
        "core::panicking",
        "core::option",
        "core::result",
        "__rust",
        "rust_",
        "panic_abort",
        "abort",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

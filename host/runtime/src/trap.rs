//! What a call that did not return says, in words for people.

use crate::host::{Ended, HostState};
use crate::limits::{DESCRIBE_LIMIT_BYTES, Refused, display_bytes};
use crate::{Error, ErrorKind};
use std::fmt::Write;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

/// Frames of a backtrace that are shown: where it happened, and who called.
const FRAMES_SHOWN: usize = 8;
/// Names of functions come from the component, and may be of any length.
const NAME_LIMIT_BYTES: usize = 256;
/// wasmtime keeps the type of this error to itself; a test notices if the words change.
const FUEL_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// Why `function` did not return.
pub(crate) fn explain(
    host: &HostState,
    function: &str,
    ended: Ended,
    error: &wasmtime::Error,
) -> Error {
    let subject = &host.subject;
    if let Some(what) = limit(host, function, &ended, error) {
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
    host: &HostState,
    function: &str,
    ended: &Ended,
    error: &wasmtime::Error,
) -> Option<String> {
    let limits = &host.limits;
    if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
        let ms = limits.call_timeout_ms;
        return Some(format!(
            "did not return from {function} within {ms} ms (limits.call-timeout-ms)"
        ));
    }
    if error.downcast_ref::<Trap>() == Some(&Trap::OutOfFuel) {
        let fuel = limits.call_fuel.unwrap_or(u64::MAX);
        return Some(format!(
            "used more than {fuel} units of fuel in {function} (limits.call-fuel)"
        ));
    }
    match ended.refused {
        Some(Refused::Memory) => {
            let bytes = display_bytes(limits.memory_bytes);
            return Some(format!(
                "went past its memory limit of {bytes} in {function} (limits.memory-bytes)"
            ));
        }
        Some(Refused::Table) => {
            let elements = limits.table_elements;
            return Some(format!(
                "went past its limit of {elements} elements of a table in {function} \
                 (limits.table-elements)"
            ));
        }
        None => {}
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Some(format!(
            "cannot start: this process already runs as many operator instances as it may \
             ({})",
            error.root_cause()
        ));
    }
    if error.root_cause().to_string().contains(FUEL_EXHAUSTED) {
        if host.task.is_none() {
            let bytes = display_bytes(DESCRIBE_LIMIT_BYTES);
            return Some(format!(
                "returned more than {bytes} from {function}: describe fewer and shorter names"
            ));
        }
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
        .map(|frame| match (frame.func_name(), frame.module().name()) {
            (Some(name), _) => function_name(name),
            (None, Some(module)) => {
                format!("function {} of {}", frame.func_index(), function_name(module))
            }
            (None, None) => format!("function {}", frame.func_index()),
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

/// A name of a name section, demangled, fit for a message.
fn function_name(name: &str) -> String {
    // Mangled names are longer than what they stand for.
    let name = name.get(..name.floor_char_boundary(4 * NAME_LIMIT_BYTES)).unwrap_or_default();
    let mut shown = format!("{:#}", rustc_demangle::demangle(name));
    shown.retain(|c| !c.is_control());
    shown.truncate(shown.floor_char_boundary(NAME_LIMIT_BYTES));
    shown
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_a_character_and_has_no_control_characters() {
        assert_eq!(function_name("a\x1b[31mb\nc"), "a[31mbc");
        let long = function_name(&"ä".repeat(10_000));
        assert_eq!(long, "ä".repeat(NAME_LIMIT_BYTES / 2));
        assert_eq!(
            function_name("_ZN7hostile7process7recurse17h0123456789abcdefE"),
            "hostile::process::recurse"
        );
    }
}

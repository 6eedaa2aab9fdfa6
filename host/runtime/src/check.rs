//! Checks that a file is a component that this host can run, and says what to do if not.

use crate::bindings::{operator as wit, timer_handler};
use crate::engine::Engine;
use crate::exports::{Handlers, Linked};
use crate::wasi;
use crate::{Error, ErrorKind, HOST_VERSION, Result};
use wasmtime::component::Component;
use wasmtime::component::types::{self, ComponentItem};

const PACKAGE: &str = "howdah:operator";
const OPERATOR: &str = "howdah:operator/operator";
/// The interfaces that the host calls, with their functions. Only the first must be there.
const OPERATOR_FUNCTIONS: [&str; 5] = ["describe", "open", "process", "on-barrier", "close"];
const TIMER_HANDLER: (&str, [&str; 1]) = ("timer-handler", ["on-timers"]);
const WATERMARK_HANDLER: (&str, [&str; 1]) = ("watermark-handler", ["on-watermark"]);
const CHECKPOINT_HANDLER: (&str, [&str; 1]) = ("checkpoint-handler", ["on-checkpoint-complete"]);
/// The interfaces of the package that the host implements.
const IMPORTS: [&str; 6] = ["types", "state", "timers", "clock", "logging", "metrics"];

const COMPONENT_HEADER: [u8; 4] = [0x0d, 0, 1, 0];
const MODULE_HEADER: [u8; 4] = [1, 0, 0, 0];

/// How to do without WASI.
const PURE: &str = "or build a pure component (Rust: target wasm32-unknown-unknown; Python: \
    componentize-py with --stub-wasi; C: no wasi-libc functions that need a system; JavaScript: \
    without features that need one)";

/// Which grant a component lacks that imports WASI, and what to do about it.
pub(crate) fn wasi_way_out(host: bool, pipeline: bool) -> String {
    let lacking = match (host, pipeline) {
        (true, false) => {
            "the command line allows it, and the pipeline file does not grant it: add \
             [operator.wasi] to the pipeline file"
        }
        (false, true) => {
            "the pipeline file grants it, and the command line does not allow it: add --allow-wasi, \
             if you trust the component with what [operator.wasi] names"
        }
        _ => {
            "an operator has it where both grant it: add [operator.wasi] to the pipeline file, and \
             --allow-wasi to the command line"
        }
    };
    format!("{lacking}; {PURE}")
}

/// An exported function.
struct Function {
    interface: String,
    name: &'static str,
    exported: types::ComponentFunc,
}

fn refuse<T>(name: &str, what: impl std::fmt::Display) -> Result<T> {
    Err(Error::new(ErrorKind::Component, format!("{name} {what}")))
}

/// Looks at the first bytes: a component, or what else.
pub(crate) fn header(name: &str, bytes: &[u8]) -> Result<()> {
    let Some(rest) = bytes.strip_prefix(b"\0asm") else {
        if bytes.is_empty() {
            return refuse(name, "is empty");
        }
        if bytes.trim_ascii_start().starts_with(b"(") {
            return refuse(
                name,
                "is WebAssembly text: turn it into a binary with `wasm-tools parse`",
            );
        }
        return refuse(name, "is no WebAssembly file");
    };
    match rest.first_chunk::<4>() {
        Some(&COMPONENT_HEADER) => Ok(()),
        Some(&MODULE_HEADER) => refuse(
            name,
            "is a core module, not a component: `howdah build` makes one of a project, \
             `wasm-tools component new` or crate wit-component of a module",
        ),
        Some(_) => refuse(name, "has an unknown WebAssembly version"),
        None => refuse(name, "is cut off: build or copy it again"),
    }
}

/// What compiling a damaged or unusual component says.
pub(crate) fn not_compiled(name: &str, cause: &str) -> Error {
    // A section that goes on past the end, or an end in the midst of one.
    let is_cut = cause.contains("unexpected end") || cause.contains("section range");
    let way_out = if is_cut {
        "is cut off: build or copy it again"
    } else {
        "is no component that this host can compile"
    };
    Error::new(ErrorKind::Component, format!("{name} {way_out} ({cause})"))
}

/// Checks names first, which gives the better messages, then types.
pub(crate) fn link(
    engine: &Engine,
    name: &str,
    component: &Component,
    has_wasi: bool,
) -> Result<Linked> {
    imports(engine, name, component)?;
    let exported = |(interface, functions): (&str, &[&'static str])| {
        exports(engine, name, component, interface, functions)
    };
    let Some(mut functions) = exported(("operator", &OPERATOR_FUNCTIONS))? else {
        return refuse(
            name,
            format_args!(
                "does not export {OPERATOR}@{HOST_VERSION}: build it for world \
                 {PACKAGE}/stateful-operator"
            ),
        );
    };
    let mut handler = |(interface, names): (&str, [&'static str; 1])| -> Result<bool> {
        let found = exported((interface, &names))?;
        let is_there = found.is_some();
        functions.extend(found.into_iter().flatten());
        Ok(is_there)
    };
    let handlers = Handlers {
        timers: handler(TIMER_HANDLER)?,
        watermark: handler(WATERMARK_HANDLER)?,
        checkpoint: handler(CHECKPOINT_HANDLER)?,
    };
    let instantiate = || match has_wasi {
        true => wasi::link(engine.linker(), component)?.instantiate_pre(component),
        false => engine.linker().instantiate_pre(component),
    };
    let linked = instantiate().or_else(|error| {
        let version = HOST_VERSION;
        refuse(
            name,
            format_args!(
                "wants something else from {PACKAGE} than this host ({version}) has: {error:#}"
            ),
        )
    })?;
    for Function { interface, name: function, exported } in &functions {
        signature(&component.component_type(), function, exported).or_else(|error| {
            refuse(
                name,
                format_args!(
                    "has a function `{function}` with another signature than that of \
                     {PACKAGE}/{interface}@{HOST_VERSION}: {error:#}"
                ),
            )
        })?;
    }
    Linked::new(linked, handlers)
        .or_else(|error| refuse(name, format_args!("does not export {OPERATOR}: {error:#}")))
}

/// The first import of WASI, if there is one.
pub(crate) fn wasi_import(engine: &Engine, component: &Component) -> Option<String> {
    let component = component.component_type();
    let mut imports = component.imports(engine.wasmtime());
    imports.find(|(import, _)| wasi::is_wasi(import)).map(|(import, _)| import.to_owned())
}

/// A component that imports WASI and was not granted it by both.
pub(crate) fn not_granted(name: &str, import: &str, host: bool, pipeline: bool) -> Error {
    let way_out = wasi_way_out(host, pipeline);
    Error::new(ErrorKind::Component, format!("{name} imports {import}: {way_out}"))
}

fn imports(engine: &Engine, name: &str, component: &Component) -> Result<()> {
    for (import, _) in component.component_type().imports(engine.wasmtime()) {
        if wasi::has(import) {
            continue;
        }
        if wasi::is_wasi(import) {
            return refuse(
                name,
                format_args!(
                    "imports {import}, which this host does not have: of WASI 0.2 it has cli, \
                     clocks, filesystem, io and random; build it without"
                ),
            );
        }
        let Some(interface) = Interface::parse(import).filter(|i| i.package == PACKAGE) else {
            return refuse(
                name,
                format_args!(
                    "imports {import}, which this host does not have: an operator may import \
                     state, timers, clock, logging and metrics of {PACKAGE}"
                ),
            );
        };
        interface.check_version(name)?;
        if !IMPORTS.contains(&interface.name) {
            return refuse(
                name,
                format_args!("imports {import}, which this host ({HOST_VERSION}) does not have"),
            );
        }
    }
    Ok(())
}

/// The functions of an interface of the package; `None`: the component does not export it.
fn exports(
    engine: &Engine,
    name: &str,
    component: &Component,
    interface: &str,
    functions: &[&'static str],
) -> Result<Option<Vec<Function>>> {
    let engine = engine.wasmtime();
    let component_type = component.component_type();
    let exported = component_type
        .exports(engine)
        .filter_map(|(export, item)| Some((Interface::parse(export)?, item)))
        .filter(|(export, _)| export.package == PACKAGE && export.name == interface);
    // A component may export several versions; the best complaint is about the last.
    let mut complaint = Ok(None);
    for (export, item) in exported {
        if let Err(error) = export.check_version(name) {
            complaint = Err(error);
            continue;
        }
        let ComponentItem::ComponentInstance(instance) = item.ty else {
            return refuse(
                name,
                format_args!("exports {PACKAGE}/{interface}, but not as an interface"),
            );
        };
        let function = |function: &&'static str| {
            let export = instance.get_export(engine, function).map(|export| export.ty);
            match export {
                Some(ComponentItem::ComponentFunc(exported)) => {
                    Ok(Function { interface: interface.to_owned(), name: function, exported })
                }
                _ => refuse(
                    name,
                    format_args!(
                        "lacks the function `{function}` of {PACKAGE}/{interface}@{HOST_VERSION}"
                    ),
                ),
            }
        };
        return functions.iter().map(function).collect::<Result<_>>().map(Some);
    }
    complaint
}

/// Compares the signature with the one that calls use. The generated code does so only when
/// it instantiates a component, which is too late for an error about the file.
fn signature(
    component: &types::Component,
    function: &str,
    exported: &types::ComponentFunc,
) -> wasmtime::Result<()> {
    type Answer<T> = (std::result::Result<T, wit::Error>,);
    let cx = component.instance_type();
    match function {
        "describe" => exported.typecheck::<(&str,), Answer<wit::Spec>>(&cx),
        "open" => exported.typecheck::<(wit::Context<'_>,), Answer<()>>(&cx),
        "process" => exported.typecheck::<(wit::Input<'_>,), Answer<Vec<wit::Output>>>(&cx),
        "on-barrier" => exported.typecheck::<(u64,), Answer<Vec<wit::Output>>>(&cx),
        "close" => exported.typecheck::<(), Answer<Vec<wit::Output>>>(&cx),
        "on-timers" => {
            exported.typecheck::<(timer_handler::Due<'_>,), Answer<Vec<wit::Output>>>(&cx)
        }
        "on-watermark" => exported.typecheck::<(i64,), Answer<Vec<wit::Output>>>(&cx),
        "on-checkpoint-complete" => exported.typecheck::<(u64,), Answer<()>>(&cx),
        _ => Ok(()),
    }
}

/// `package:name/interface@version`, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Interface<'a> {
    package: &'a str,
    name: &'a str,
    version: &'a str,
}

impl<'a> Interface<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (path, version) = text.split_once('@')?;
        let (package, name) = path.split_once('/')?;
        Some(Self { package, name, version })
    }

    /// Before 1.0 the minor version must be the host's; a patch changes nothing.
    fn check_version(&self, component: &str) -> Result<()> {
        let line = |version: &str| -> Option<(String, String)> {
            let (major, rest) = version.split_once('.')?;
            let (minor, _) = rest.split_once('.')?;
            Some((major.to_owned(), minor.to_owned()))
        };
        if line(self.version) == line(HOST_VERSION) {
            return Ok(());
        }
        refuse(
            component,
            format_args!(
                "was built for {PACKAGE}@{}, but this host has {PACKAGE}@{HOST_VERSION}: build \
                 it with the SDK of that version",
                self.version
            ),
        )
    }
}

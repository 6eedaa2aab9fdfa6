//! Checks that a file is a component that this host can run, and says what to do if not.

use crate::bindings::{StatefulOperatorPre, operator as wit};
use crate::engine::Engine;
use crate::host::HostState;
use crate::{Error, ErrorKind, HOST_VERSION, Result};
use wasmtime::component::Component;
use wasmtime::component::types::{self, ComponentItem};

const PACKAGE: &str = "howdah:operator";
const OPERATOR: &str = "howdah:operator/operator";
const FUNCTIONS: [&str; 5] = ["describe", "open", "process", "on-barrier", "close"];
/// The interfaces of the package that the host implements.
const IMPORTS: [&str; 3] = ["types", "state", "logging"];

const COMPONENT_HEADER: [u8; 4] = [0x0d, 0, 1, 0];
const MODULE_HEADER: [u8; 4] = [1, 0, 0, 0];

/// An exported function with its name.
type Function = (&'static str, types::ComponentFunc);

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
            "is a core module, not a component: encode it, for example with \
             `wasm-tools component new`, or with crate wit-component",
        ),
        Some(_) => refuse(name, "has an unknown WebAssembly version"),
        None => refuse(name, "is cut off: build or copy it again"),
    }
}

/// What compiling a damaged or unusual component says.
pub(crate) fn not_compiled(name: &str, error: &wasmtime::Error) -> Error {
    let cause = format!("{error:#}");
    let way_out = if cause.contains("unexpected end") {
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
) -> Result<StatefulOperatorPre<HostState>> {
    imports(engine, name, component)?;
    let functions = exports(engine, name, component)?;
    let linked = engine.linker().instantiate_pre(component).or_else(|error| {
        let version = HOST_VERSION;
        refuse(
            name,
            format_args!(
                "wants something else from {PACKAGE} than this host ({version}) has: {error:#}"
            ),
        )
    })?;
    for (function, exported) in &functions {
        signature(&component.component_type(), function, exported).or_else(|error| {
            refuse(
                name,
                format_args!(
                    "has a function `{function}` with another signature than that of \
                     {OPERATOR}@{HOST_VERSION}: {error:#}"
                ),
            )
        })?;
    }
    StatefulOperatorPre::new(linked)
        .or_else(|error| refuse(name, format_args!("does not export {OPERATOR}: {error:#}")))
}

fn imports(engine: &Engine, name: &str, component: &Component) -> Result<()> {
    for (import, _) in component.component_type().imports(engine.wasmtime()) {
        if import.starts_with("wasi:") {
            return refuse(
                name,
                format_args!(
                    "imports {import}, but this host gives operators no WASI: build a pure \
                     component (Rust: target wasm32-unknown-unknown; Python: componentize-py \
                     with --stub-wasi)"
                ),
            );
        }
        let Some(interface) = Interface::parse(import).filter(|i| i.package == PACKAGE) else {
            return refuse(
                name,
                format_args!(
                    "imports {import}, which this host does not have: an operator may import \
                     {PACKAGE}/state and {PACKAGE}/logging"
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

/// The functions of the operator.
fn exports(engine: &Engine, name: &str, component: &Component) -> Result<Vec<Function>> {
    let engine = engine.wasmtime();
    let component_type = component.component_type();
    let mut operators = component_type
        .exports(engine)
        .filter_map(|(export, item)| Some((Interface::parse(export)?, item)))
        .filter(|(interface, _)| interface.package == PACKAGE && interface.name == "operator")
        .peekable();
    if operators.peek().is_none() {
        return refuse(
            name,
            format_args!(
                "does not export {OPERATOR}@{HOST_VERSION}: build it for world \
                 {PACKAGE}/stateful-operator"
            ),
        );
    }
    // A component may export several versions; the best complaint is about the last.
    let mut complaint = Ok(());
    for (interface, item) in operators {
        complaint = interface.check_version(name);
        if complaint.is_err() {
            continue;
        }
        let ComponentItem::ComponentInstance(instance) = item.ty else {
            return refuse(name, format_args!("exports {OPERATOR}, but not as an interface"));
        };
        let mut found = Vec::with_capacity(FUNCTIONS.len());
        for function in FUNCTIONS {
            let export = instance.get_export(engine, function).map(|export| export.ty);
            let Some(ComponentItem::ComponentFunc(exported)) = export else {
                return refuse(
                    name,
                    format_args!("lacks the function `{function}` of {OPERATOR}@{HOST_VERSION}"),
                );
            };
            found.push((function, exported));
        }
        return Ok(found);
    }
    complaint.map(|()| Vec::new())
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

//! `wasi:sockets`: there, as the C library of most toolchains imports it, and refused.

use crate::host::HostState;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};
use wasmtime::component::{Component, Linker, ResourceType, Val};

pub(super) const PREFIX: &str = "wasi:sockets/";

/// A socket, or an address; there is none.
struct Socket;

/// Defines what the component imports: functions that can say so refuse access, others trap.
pub(super) fn link(linker: &mut Linker<HostState>, component: &Component) -> wasmtime::Result<()> {
    let engine = linker.engine().clone();
    for (name, import) in component.component_type().imports(&engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        if !name.starts_with(PREFIX) {
            continue;
        }
        let mut interface = linker.instance(name)?;
        for (name, export) in instance.exports(&engine) {
            match export.ty {
                // Those that are used from another interface are that one's.
                ComponentItem::Resource(_) if is_of(name) => {
                    interface.resource(name, ResourceType::host::<Socket>(), |_, _| Ok(()))?;
                }
                ComponentItem::ComponentFunc(_) => {
                    interface
                        .func_new(name, |_, function, _, results| refuse(&function, results))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a resource is of `wasi:sockets` itself.
fn is_of(resource: &str) -> bool {
    !matches!(resource, "pollable" | "input-stream" | "output-stream" | "error")
}

fn refuse(function: &ComponentFunc, results: &mut [Val]) -> wasmtime::Result<()> {
    let denied = function.results().next().and_then(|result| match result {
        Type::Result(result) => match result.err()? {
            Type::Enum(code) => {
                code.names().find(|name| *name == "access-denied").map(str::to_owned)
            }
            _ => None,
        },
        _ => None,
    });
    match (denied, results) {
        (Some(denied), [result]) => {
            *result = Val::Result(Err(Some(Box::new(Val::Enum(denied)))));
            Ok(())
        }
        _ => wasmtime::bail!("it used the network, which operators do not have"),
    }
}

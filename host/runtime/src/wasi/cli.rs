//! `wasi:cli`: an empty environment, and standard streams that end in the log.

use super::interface;
use super::io::{InputStream, OutputStream};
use crate::host::HostState;
use wasmtime::component::{Linker, Resource, ResourceType};

/// A terminal; there is none.
struct Terminal;

type Variables = Vec<(String, String)>;

pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let mut environment = interface(linker, "wasi:cli/environment")?;
    environment.func_wrap("get-environment", |_, (): ()| Ok((Variables::new(),)))?;
    environment.func_wrap("get-arguments", |_, (): ()| Ok((Vec::<String>::new(),)))?;
    environment.func_wrap("initial-cwd", |_, (): ()| Ok((None::<String>,)))?;

    let mut exit = interface(linker, "wasi:cli/exit")?;
    exit.func_wrap("exit", |_, (status,): (Result<(), ()>,)| -> wasmtime::Result<()> {
        let how = if status.is_ok() { "success" } else { "failure" };
        wasmtime::bail!("it ended its program with {how}: an operator returns instead")
    })?;
    exit.func_wrap("exit-with-code", |_, (code,): (u8,)| -> wasmtime::Result<()> {
        wasmtime::bail!("it ended its program with code {code}: an operator returns instead")
    })?;

    let mut stdin = interface(linker, "wasi:cli/stdin")?;
    stdin.func_wrap("get-stdin", |mut store, (): ()| {
        Ok((store.data_mut().hand_out(InputStream::Empty)?,))
    })?;
    interface(linker, "wasi:cli/stdout")?.func_wrap("get-stdout", |mut store, (): ()| {
        Ok((store.data_mut().hand_out(OutputStream::Output)?,))
    })?;
    interface(linker, "wasi:cli/stderr")?.func_wrap("get-stderr", |mut store, (): ()| {
        Ok((store.data_mut().hand_out(OutputStream::Errors)?,))
    })?;

    for direction in ["input", "output"] {
        let name = format!("terminal-{direction}");
        let mut terminal = interface(linker, &format!("wasi:cli/{name}"))?;
        terminal.resource(&name, ResourceType::host::<Terminal>(), |_, _| Ok(()))?;
    }
    for stream in ["stdin", "stdout", "stderr"] {
        let mut terminal = interface(linker, &format!("wasi:cli/terminal-{stream}"))?;
        terminal.func_wrap(&format!("get-terminal-{stream}"), |_, (): ()| {
            Ok((None::<Resource<Terminal>>,))
        })?;
    }
    Ok(())
}

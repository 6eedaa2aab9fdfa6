//! `wasi:clocks`: the time of the call. Between calls it moves on, during one it stands still but
//! for sleeps, which end at once.

use super::{interface, io::Pollable};
use crate::host::HostState;
use wasmtime::component::{ComponentType, Lift, Linker, Lower};

const NANOS_PER_MS: u64 = 1_000_000;

/// A time since the Unix epoch.
#[derive(Debug, Clone, Copy, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct Datetime {
    pub(super) seconds: u64,
    pub(super) nanoseconds: u32,
}

impl HostState {
    fn wall_clock(&mut self) -> Datetime {
        let now_ms = u64::try_from(self.call.now_ms()).unwrap_or(0);
        let nanoseconds = u32::try_from(now_ms % 1_000 * NANOS_PER_MS).unwrap_or(0);
        Datetime { seconds: now_ms / 1_000, nanoseconds }
    }

    pub(super) fn monotonic_ns(&mut self) -> wasmtime::Result<u64> {
        let now_ms = u64::try_from(self.call.now_ms()).unwrap_or(0);
        let lasting = &mut self.wasi()?.lasting;
        lasting.monotonic_ns = lasting.monotonic_ns.max(now_ms.saturating_mul(NANOS_PER_MS));
        Ok(lasting.monotonic_ns)
    }

    /// It is at least so late: somebody slept until then.
    pub(super) fn sleep_until(&mut self, monotonic_ns: u64) -> wasmtime::Result<()> {
        let lasting = &mut self.wasi()?.lasting;
        lasting.monotonic_ns = lasting.monotonic_ns.max(monotonic_ns);
        Ok(())
    }
}

pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    let mut wall = interface(linker, "wasi:clocks/wall-clock")?;
    wall.func_wrap("now", |mut store, (): ()| Ok((store.data_mut().wall_clock(),)))?;
    wall.func_wrap("resolution", |_, (): ()| {
        let nanoseconds = u32::try_from(NANOS_PER_MS).unwrap_or(u32::MAX);
        Ok((Datetime { seconds: 0, nanoseconds },))
    })?;
    let mut monotonic = interface(linker, "wasi:clocks/monotonic-clock")?;
    monotonic.func_wrap("now", |mut store, (): ()| Ok((store.data_mut().monotonic_ns()?,)))?;
    monotonic.func_wrap("resolution", |_, (): ()| Ok((1_u64,)))?;
    monotonic.func_wrap("subscribe-instant", |mut store, (when,): (u64,)| {
        Ok((store.data_mut().hand_out(Pollable::At(when))?,))
    })?;
    monotonic.func_wrap("subscribe-duration", |mut store, (duration,): (u64,)| {
        let host = store.data_mut();
        let when = host.monotonic_ns()?.saturating_add(duration);
        Ok((host.hand_out(Pollable::At(when))?,))
    })
}

//! The Rust side of the contract in `wit/`, generated.
//!
//! What goes into the operator is borrowed (`..Param<'_>`), so that Arrow buffers are copied
//! straight into its memory; what comes out is owned (`..Result`).
#![allow(missing_docs, unused_qualifications, unreachable_pub, reason = "generated code")]
#![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated code")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "howdah:operator/timed-operator",
    ownership: Borrowing { duplicate_if_necessary: true },
    with: {
        "howdah:operator/state.value-state": crate::bindings::ValueHandle,
        "howdah:operator/state.list-state": crate::bindings::ListHandle,
        "howdah:operator/state.map-state": crate::bindings::MapHandle,
        "howdah:operator/state.reducing-state": crate::bindings::ReducingHandle,
        "howdah:operator/timers.timer-service": crate::bindings::TimersHandle,
    },
});

pub(crate) use exports::howdah::operator::{
    checkpoint_handler, operator, timer_handler, watermark_handler,
};
pub(crate) use howdah::operator::{clock, logging, metrics, state, timers, types};

/// What a guest's `value-state` stands for: an index into `Task::values`.
pub struct ValueHandle(pub(crate) usize);

/// What a guest's `list-state` stands for: an index into `Task::lists`.
pub struct ListHandle(pub(crate) usize);

/// What a guest's `map-state` stands for: an index into `Task::maps`.
pub struct MapHandle(pub(crate) usize);

/// What a guest's `reducing-state` stands for: an index into `Task::reducing`.
pub struct ReducingHandle(pub(crate) usize);

/// What a guest's `timer-service` stands for: an index into `Task::timers`.
pub struct TimersHandle(pub(crate) usize);

//! The Rust side of the contract in `wit/`, generated.
//!
//! What goes into the operator is borrowed (`..Param<'_>`), so that Arrow buffers are copied
//! straight into its memory; what comes out is owned (`..Result`).
#![allow(missing_docs, unused_qualifications, unreachable_pub, reason = "generated code")]
#![allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated code")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "howdah:operator/stateful-operator",
    ownership: Borrowing { duplicate_if_necessary: true },
    with: {
        "howdah:operator/state.value-state": crate::bindings::StateHandle,
    },
});

pub(crate) use exports::howdah::operator::operator;
pub(crate) use howdah::operator::{logging, state, types};

/// What a guest's `value-state` stands for: an index into `Task::states`.
pub struct StateHandle(pub(crate) usize);

//! Part of `howdah-sdk`: the export macro of the world `stateful-operator`. An operator without
//! timers and its like is exported with it, and its component has no handlers that do nothing.
//!
//! It is a crate of its own because the export macros of two worlds have parts of the same name.
//! What it exports is the types of `howdah-sdk`'s own bindings.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    dead_code,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: "../../../wit",
    world: "howdah:operator/stateful-operator",
    pub_export_macro: true,
    export_macro_name: "export_stateful",
});

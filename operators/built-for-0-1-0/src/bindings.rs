//! What `wit-bindgen` makes of `wit/` as it was in 0.1.0.
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
    path: "wit",
    world: "howdah:operator/stateful-operator",
});

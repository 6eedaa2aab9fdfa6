//! What `wit-bindgen` makes of the parts of WASI in `wit/`.
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
    world: "uses-wasi",
    generate_all,
});

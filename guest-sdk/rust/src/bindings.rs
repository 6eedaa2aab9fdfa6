//! What `wit-bindgen` makes of `wit/`: the types, the imports and the export macro.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated code"
)]

wit_bindgen::generate!({
    path: "../../wit",
    world: "howdah:operator/timed-operator",
    pub_export_macro: true,
    default_bindings_module: "howdah_sdk::bindings",
    additional_derives: [PartialEq],
});

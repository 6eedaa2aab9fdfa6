//! Derive macros of `howdah-sdk`; use them through that crate.

mod derive;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

/// Makes a struct with named fields a row: each field is a column of the same name.
///
/// `#[column(name = "...")]` on a field gives the column another name. An `Option` makes a
/// nullable column.
#[proc_macro_derive(Row, attributes(column))]
pub fn derive_row(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive::row(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a struct with named fields a key: each field is a field of the operator's input with
/// the same name and type. A key is a row too.
///
/// `#[column(name = "...")]` on a field gives the input's field another name.
#[proc_macro_derive(Key, attributes(column))]
pub fn derive_key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive::key(&input).unwrap_or_else(Error::into_compile_error).into()
}

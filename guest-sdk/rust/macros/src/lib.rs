//! Derive macros of `howdah-sdk`; use them through that crate.

mod derive;
mod fields;
mod operator;
mod ports;
mod reduce;
mod states;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, ItemImpl, parse_macro_input};

/// Makes a struct with named fields a row: each field is a column of the same name.
///
/// `#[column(name = "...")]` on a field gives the column another name. An `Option` makes a
/// nullable column. A field with `#[column(flatten)]` is itself a row, whose columns come in its
/// place.
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

/// Says how rows are folded into one: `#[reduce(sum)]`, `min`, `max`, `count`, `first` or `last`
/// on each field of a `#[derive(Row)]` struct.
#[proc_macro_derive(Reduce, attributes(reduce))]
pub fn derive_reduce(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    reduce::reduce(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes an enum the inputs of an operator: each variant has the row of one.
///
/// `#[input(name = "...", key("...", ..), changelog)]` on a variant: its name in pipeline files
/// (else the variant's in `snake_case`), its fields that are the key (else those with the names of
/// the key's fields), and that it has rows that are not inserts.
#[proc_macro_derive(Inputs, attributes(input))]
pub fn derive_inputs(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    ports::inputs(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Makes a struct of emitters the outputs of an operator.
///
/// `#[output(name = "...", changelog)]` on a field: its name in pipeline files (else the field's),
/// and that it has rows that are not inserts.
#[proc_macro_derive(Outputs, attributes(output))]
pub fn derive_outputs(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    ports::outputs(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Opens the fields of an operator by their names; a unit struct has none.
///
/// `#[state(..)]` on a field: `name = "..."`, `version = 2`, `ttl_ms = 60_000`, `processing_time`
/// for timers, or `skip` for what is no state and begins as its type's `Default`.
#[proc_macro_derive(States, attributes(state))]
pub fn derive_states(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    states::states(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// On `impl Type { .. }`: makes the type an operator, and the crate a component of it.
///
/// Methods and constants with the names of the trait `Operator`'s become its implementation; the
/// types of rows and key are those of `process` (or `process_batch`). Without an `open`, the type
/// opens its fields: `#[derive(States)]`. The host calls `on_timer`, `on_watermark` and
/// `on_checkpoint_complete` if they are there. Other methods stay what they are.
///
/// Once for each crate, like `export!`.
#[proc_macro_attribute]
pub fn operator(arguments: TokenStream, block: TokenStream) -> TokenStream {
    let block = parse_macro_input!(block as ItemImpl);
    if !arguments.is_empty() {
        let message = "`#[operator]` has no arguments; set constants like \
                       `const INPUT_CHANGELOG: bool = true` in the block";
        return Error::new_spanned(&block.self_ty, message).into_compile_error().into();
    }
    operator::operator(&block).unwrap_or_else(Error::into_compile_error).into()
}

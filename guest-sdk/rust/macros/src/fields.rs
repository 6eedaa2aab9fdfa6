//! The fields of the structs that macros are for.

use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, LitStr, Result, Token};

/// The named fields of a struct without generics, or why there are none.
pub(crate) fn named<'a>(
    input: &'a DeriveInput,
    derived: &str,
) -> Result<&'a Punctuated<Field, Token![,]>> {
    if !input.generics.params.is_empty() {
        let message = format!("`{derived}` is for structs without generics");
        return Err(Error::new_spanned(&input.generics, message));
    }
    if let Data::Struct(data) = &input.data
        && let Fields::Named(fields) = &data.fields
        && !fields.named.is_empty()
    {
        return Ok(&fields.named);
    }
    let message = format!("`{derived}` is for structs with named fields");
    Err(Error::new_spanned(&input.ident, message))
}

/// Reads the settings in all `#[attribute(..)]` of these.
pub(crate) fn settings(
    attributes: &[Attribute],
    attribute: &str,
    mut read: impl FnMut(syn::meta::ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    attributes
        .iter()
        .filter(|given| given.path().is_ident(attribute))
        .try_for_each(|given| given.parse_nested_meta(&mut read))
}

/// The value of `name = "..."`.
pub(crate) fn text(meta: &syn::meta::ParseNestedMeta<'_>) -> Result<LitStr> {
    let value: LitStr = meta.value()?.parse()?;
    if value.value().is_empty() {
        return Err(Error::new(value.span(), "a name has at least one character"));
    }
    Ok(value)
}

/// `FirstSecond` as `first_second`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

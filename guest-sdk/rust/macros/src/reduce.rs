//! The code that `Reduce` expands to.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Ident, Result};

use crate::fields;

const REDUCERS: [(&str, &str); 6] = [
    ("sum", "Sum"),
    ("min", "Min"),
    ("max", "Max"),
    ("count", "Count"),
    ("first", "First"),
    ("last", "Last"),
];

/// The implementation of `Reduce`.
pub(crate) fn reduce(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let mut reducers = Vec::new();
    let (mut folds, mut merges, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields::named(input, "Reduce")? {
        let (reducer, variant) = reducer(field)?;
        let ident = &field.ident;
        let label = field.ident.as_ref().map(|ident| ident.unraw().to_string());
        // The span of the field's type makes the compiler point at it if it does not fit.
        let span = field.ty.span();
        let merge = quote_spanned! {span=>
            ::howdah_sdk::__private::reduce::#reducer(&mut self.#ident, &other.#ident, #label)?;
        };
        if variant == "Count" {
            firsts.push(quote_spanned! {span=>
                #ident: ::howdah_sdk::reduce::Count::one(&self.#ident)
            });
            folds.push(quote_spanned! {span=>
                ::howdah_sdk::__private::reduce::count(
                    &mut self.#ident,
                    &::howdah_sdk::reduce::Count::one(&other.#ident),
                    #label,
                )?;
            });
        } else {
            firsts.push(quote_spanned!(span=> #ident: ::core::clone::Clone::clone(&self.#ident)));
            folds.push(merge.clone());
        }
        merges.push(merge);
        reducers.push(quote!(::howdah_sdk::reduce::Reducer::#variant));
    }
    Ok(quote! {
        #[automatically_derived]
        impl ::howdah_sdk::Reduce for #name {
            const REDUCERS: &'static [::howdah_sdk::reduce::Reducer] = &[#(#reducers),*];

            fn first(&self) -> Self {
                Self { #(#firsts),* }
            }

            fn fold(&mut self, other: &Self) -> ::howdah_sdk::Result<()> {
                #(#folds)*
                ::core::result::Result::Ok(())
            }

            fn merge(&mut self, other: &Self) -> ::howdah_sdk::Result<()> {
                #(#merges)*
                ::core::result::Result::Ok(())
            }
        }
    })
}

/// What `#[reduce(..)]` says of a field: the name of the function, and of the variant.
fn reducer(field: &syn::Field) -> Result<(Ident, Ident)> {
    let mut found = None;
    fields::settings(&field.attrs, "reduce", |meta| {
        let known = REDUCERS.iter().find(|(name, _)| meta.path.is_ident(name));
        let Some((name, variant)) = known else { return Err(meta.error(choices())) };
        let span = meta.path.span();
        match found.replace((Ident::new(name, span), Ident::new(variant, span))) {
            None => Ok(()),
            Some(_) => Err(meta.error("a field is folded in one way")),
        }
    })?;
    found.ok_or_else(|| {
        let name = field.ident.to_token_stream();
        Error::new_spanned(field, format!("how is `{name}` folded? {}", choices()))
    })
}

fn choices() -> String {
    let names: Vec<_> = REDUCERS.iter().map(|(name, _)| format!("`#[reduce({name})]`")).collect();
    format!("There are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    /// The message with which `Reduce` refuses this.
    fn refusal(input: &DeriveInput) -> String {
        reduce(input).unwrap_err().to_string()
    }

    #[test]
    fn a_field_without_a_reducer_is_refused_with_all_there_are() {
        let refusal = refusal(&parse_quote!(
            struct Totals {
                price: i64,
            }
        ));
        assert!(refusal.contains("how is `price` folded?"), "{refusal}");
        assert!(refusal.contains("`#[reduce(sum)]`"), "{refusal}");
    }

    #[test]
    fn two_reducers_and_unknown_ones_are_refused() {
        let twice = refusal(&parse_quote!(
            struct Totals {
                #[reduce(sum, min)]
                price: i64,
            }
        ));
        assert!(twice.contains("in one way"), "{twice}");
        let unknown = refusal(&parse_quote!(
            struct Totals {
                #[reduce(average)]
                price: i64,
            }
        ));
        assert!(unknown.contains("`#[reduce(max)]`"), "{unknown}");
    }
}

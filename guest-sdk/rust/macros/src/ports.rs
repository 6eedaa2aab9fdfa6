//! The code that `Inputs` and `Outputs` expand to.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Fields, GenericArgument, LitStr, PathArguments, Result, Type, token,
};

use crate::fields;

/// What an attribute says of an input or output.
#[derive(Default)]
struct Settings {
    name: Option<LitStr>,
    key: Vec<LitStr>,
    changelog: bool,
}

/// The implementation of `Inputs`.
pub(crate) fn inputs(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(name, "`Inputs` is for enums: a variant for each input"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "`Inputs` is for enums without generics"));
    }
    let mut ports = Vec::new();
    let mut reads = Vec::new();
    let mut indices = Vec::new();
    let mut writes = Vec::new();
    for (index, variant) in data.variants.iter().enumerate() {
        let row = match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed.first(),
            _ => None,
        };
        let Some(row) = row.map(|field| &field.ty) else {
            let message = "an input has one row: write `Variant(Row)`";
            return Err(Error::new_spanned(variant, message));
        };
        let Settings { name: given, key, changelog } = settings(&variant.attrs, "input")?;
        let ident = &variant.ident;
        let own = fields::snake_case(&ident.unraw().to_string());
        let given = given.map_or(own, |name| name.value());
        let row_trait = quote_spanned!(row.span()=> <#row as ::howdah_sdk::Row>);
        ports.push(quote! {
            ::howdah_sdk::InputPort {
                name: #given,
                fields: #row_trait::FIELDS,
                key: &[#(#key),*],
                changelog: #changelog,
            }
        });
        reads.push(quote!(#index => #row_trait::read(columns, row).map(Self::#ident)));
        indices.push(quote!(Self::#ident(_) => #index));
        writes.push(quote!(Self::#ident(row) => #row_trait::write(row, columns)));
    }
    Ok(quote! {
        #[automatically_derived]
        impl ::howdah_sdk::Inputs for #name {
            const PORTS: &'static [::howdah_sdk::InputPort] = &[#(#ports),*];

            fn read(
                port: usize,
                columns: &[::howdah_sdk::columns::Column],
                row: usize,
            ) -> ::howdah_sdk::Result<Self> {
                match port {
                    #(#reads,)*
                    _ => ::core::result::Result::Err(
                        ::howdah_sdk::Error::new(::core::format_args!("there is no input {port}")),
                    ),
                }
            }

            fn port(&self) -> usize {
                match self { #(#indices,)* }
            }

            fn write(&self, columns: &mut [::howdah_sdk::columns::ColumnBuilder]) {
                match self { #(#writes,)* }
            }
        }
    })
}

/// The implementation of `Outputs`.
pub(crate) fn outputs(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let mut ports = Vec::new();
    let (mut idents, mut rows, mut emitters, mut events) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, field) in (0_u32..).zip(fields::named(input, "Outputs")?) {
        let Some(ident) = &field.ident else { continue };
        let Some(row) = emitted(&field.ty) else {
            let message = "an output is an `Emitter<Row>`";
            return Err(Error::new_spanned(&field.ty, message));
        };
        let Settings { name: given, changelog, key } = settings(&field.attrs, "output")?;
        if let Some(key) = key.first() {
            return Err(Error::new_spanned(key, "an output has no key"));
        }
        let given = given.map_or_else(|| ident.unraw().to_string(), |name| name.value());
        ports.push(quote_spanned! {row.span()=>
            ::howdah_sdk::OutputPort {
                name: #given,
                fields: <#row as ::howdah_sdk::Row>::FIELDS,
                changelog: #changelog,
            }
        });
        emitters.push(quote! {
            #ident: ::howdah_sdk::Emitter::new(#index, #changelog, time, 0)
        });
        events.push(quote!(::howdah_sdk::__private::events::<#row>(outputs, #index)?));
        idents.push(ident);
        rows.push(row);
    }
    let count = format_ident!("emitted");
    Ok(quote! {
        #[automatically_derived]
        impl ::howdah_sdk::Outputs for #name {
            const PORTS: &'static [::howdah_sdk::OutputPort] = &[#(#ports),*];

            type Emitters = Self;
            #[cfg(not(target_arch = "wasm32"))]
            type Events = (#(::std::vec::Vec<::howdah_sdk::testing::Event<#rows>>,)*);

            fn emitters(_: bool, time: ::howdah_sdk::Timestamp, _: usize) -> Self {
                Self { #(#emitters),* }
            }

            fn set_time(emitters: &mut Self, time: ::howdah_sdk::Timestamp) {
                #(emitters.#idents.set_time(time);)*
            }

            fn finish(
                emitters: Self,
            ) -> ::howdah_sdk::Result<::std::vec::Vec<::howdah_sdk::__private::Output>> {
                let mut #count = ::std::vec::Vec::new();
                #(emitters.#idents.finish(&mut #count)?;)*
                ::core::result::Result::Ok(#count)
            }

            #[cfg(not(target_arch = "wasm32"))]
            fn events(
                outputs: &[::howdah_sdk::__private::Output],
            ) -> ::howdah_sdk::Result<Self::Events> {
                ::core::result::Result::Ok((#(#events,)*))
            }
        }
    })
}

fn settings(attributes: &[syn::Attribute], attribute: &str) -> Result<Settings> {
    let mut settings = Settings::default();
    fields::settings(attributes, attribute, |meta| {
        if meta.path.is_ident("name") {
            settings.name = Some(fields::text(&meta)?);
        } else if meta.path.is_ident("changelog") {
            settings.changelog = true;
        } else if meta.path.is_ident("key") && attribute == "input" {
            let names;
            syn::parenthesized!(names in meta.input);
            let names =
                names.parse_terminated(<LitStr as syn::parse::Parse>::parse, token::Comma)?;
            settings.key.extend(names);
        } else {
            return Err(meta.error(match attribute {
                "input" => "there are `name = \"...\"`, `key(\"...\")` and `changelog`",
                _ => "there are `name = \"...\"` and `changelog`",
            }));
        }
        Ok(())
    })?;
    Ok(settings)
}

/// The `Row` of an `Emitter<Row>`.
pub(crate) fn emitted(emitter: &Type) -> Option<&Type> {
    let Type::Path(path) = emitter else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == "Emitter")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.last() {
        Some(GenericArgument::Type(row)) => Some(row),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn an_input_is_called_like_its_variant() {
        let code = inputs(&parse_quote!(
            enum In {
                NewAuction(Auction),
            }
        ));
        assert!(code.unwrap().to_string().contains("name : \"new_auction\""));
    }

    #[test]
    fn a_variant_without_a_row_is_refused() {
        let refusal = inputs(&parse_quote!(
            enum In {
                Auction,
            }
        ));
        assert!(refusal.unwrap_err().to_string().contains("`Variant(Row)`"));
    }

    #[test]
    fn an_output_that_is_no_emitter_is_refused() {
        let refusal = outputs(&parse_quote!(
            struct Out {
                late: Vec<Bid>,
            }
        ));
        assert_eq!(refusal.unwrap_err().to_string(), "an output is an `Emitter<Row>`");
    }
}

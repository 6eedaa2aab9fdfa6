//! The code that `States` expands to.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DataStruct, DeriveInput, Fields, LitInt, LitStr, Result};

use crate::fields;

/// What an attribute says of a field.
#[derive(Default)]
struct Settings {
    name: Option<LitStr>,
    version: Option<LitInt>,
    ttl_ms: Option<LitInt>,
    processing_time: bool,
    skip: bool,
}

/// The implementation of `States`.
pub(crate) fn states(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    if let Data::Struct(DataStruct { fields: Fields::Unit, .. }) = &input.data {
        return Ok(quote! {
            #[automatically_derived]
            impl<K: ::howdah_sdk::Key> ::howdah_sdk::States<K> for #name {
                fn open(_: &mut ::howdah_sdk::Open<K>) -> ::howdah_sdk::Result<Self> {
                    ::core::result::Result::Ok(Self)
                }
            }
        });
    }
    let mut opened = Vec::new();
    let mut bounds = Vec::new();
    for field in fields::named(input, "States")? {
        let Some(ident) = &field.ident else { continue };
        let settings = settings(&field.attrs)?;
        let state = &field.ty;
        let name = settings.name.map_or_else(|| ident.unraw().to_string(), |name| name.value());
        if settings.skip {
            opened.push(quote!(#ident: ::core::default::Default::default()));
            continue;
        }
        let version = settings.version.map(|version| quote!(schema_version: #version,));
        let ttl_ms =
            settings.ttl_ms.map(|ttl_ms| quote!(ttl_ms: ::core::option::Option::Some(#ttl_ms),));
        let processing_time = settings.processing_time.then(|| quote!(processing_time: true,));
        opened.push(quote_spanned! {state.span()=>
            #ident: <#state as ::howdah_sdk::State<K>>::open(
                open,
                #name,
                ::howdah_sdk::StateOptions {
                    #version
                    #ttl_ms
                    #processing_time
                    ..::core::default::Default::default()
                },
            )?
        });
        bounds.push(quote_spanned! {state.span()=> #state: ::howdah_sdk::State<K> });
    }
    Ok(quote! {
        #[automatically_derived]
        impl<K: ::howdah_sdk::Key> ::howdah_sdk::States<K> for #name
        where
            #(#bounds,)*
        {
            fn open(open: &mut ::howdah_sdk::Open<K>) -> ::howdah_sdk::Result<Self> {
                ::core::result::Result::Ok(Self { #(#opened,)* })
            }
        }
    })
}

fn settings(attributes: &[syn::Attribute]) -> Result<Settings> {
    let mut settings = Settings::default();
    fields::settings(attributes, "state", |meta| {
        if meta.path.is_ident("name") {
            settings.name = Some(fields::text(&meta)?);
        } else if meta.path.is_ident("version") {
            settings.version = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("ttl_ms") {
            settings.ttl_ms = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("processing_time") {
            settings.processing_time = true;
        } else if meta.path.is_ident("skip") {
            settings.skip = true;
        } else {
            return Err(meta.error(
                "there are `name = \"...\"`, `version = 2`, `ttl_ms = 60_000`, \
                 `processing_time` and `skip`",
            ));
        }
        Ok(())
    })?;
    Ok(settings)
}

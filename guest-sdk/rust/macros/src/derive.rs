//! The code that `Row` and `Key` expand to.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Type};

use crate::fields;

/// A field of the struct, and the columns it stands for.
struct Column<'a> {
    ident: &'a Ident,
    value_type: &'a Type,
    kind: Kind,
}

/// What a field stands for.
enum Kind {
    /// A column of this name.
    Named(LitStr),
    /// The columns of another row.
    Flattened,
}

/// The implementation of `Row`.
pub(crate) fn row(input: &DeriveInput) -> Result<TokenStream> {
    let columns = columns(input, "Row")?;
    Ok(row_impl(&input.ident, &columns))
}

/// The implementations of `Key` and of `Row`, which it stands on.
pub(crate) fn key(input: &DeriveInput) -> Result<TokenStream> {
    let columns = columns(input, "Key")?;
    if let Some(column) = columns.iter().find(|column| matches!(column.kind, Kind::Flattened)) {
        return Err(Error::new_spanned(column.ident, "a key has no rows in it"));
    }
    let name = &input.ident;
    let row = row_impl(name, &columns);
    let checks = columns.iter().map(|column| {
        let value_type = column.value_type;
        quote_spanned!(value_type.span()=> is_key_value::<#value_type>();)
    });
    Ok(quote! {
        #row

        #[automatically_derived]
        impl ::howdah_sdk::Key for #name {}

        const _: fn() = || {
            fn is_key_value<T: ::howdah_sdk::KeyValue>() {}
            #(#checks)*
        };
    })
}

/// The columns of the struct, or why there are none.
fn columns<'a>(input: &'a DeriveInput, derived: &str) -> Result<Vec<Column<'a>>> {
    let refuse = |reason: &str| {
        Err(Error::new_spanned(
            &input.ident,
            format!("`{derived}` is for structs with named fields: {reason}"),
        ))
    };
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if !fields.named.is_empty() => &fields.named,
            Fields::Named(_) | Fields::Unit => return refuse("this one has no fields"),
            Fields::Unnamed(_) => {
                return refuse("a column needs a name, so give each field one");
            }
        },
        Data::Enum(_) => return refuse("this is an enum; store it as an `i32` or `String` column"),
        Data::Union(_) => return refuse("this is a union"),
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            format!("`{derived}` is for structs without generics: a column has one type"),
        ));
    }

    let mut names = HashSet::new();
    let mut columns = Vec::new();
    for field in fields {
        let Some(ident) = &field.ident else { continue };
        let kind = kind(field, ident)?;
        if let Kind::Named(name) = &kind
            && !names.insert(name.value())
        {
            let message = format!("column `{}` is there twice", name.value());
            return Err(Error::new(name.span(), message));
        }
        columns.push(Column { ident, value_type: &field.ty, kind });
    }
    Ok(columns)
}

/// `#[column(flatten)]`, `#[column(name = "...")]`, or a column with the name of the field.
fn kind(field: &syn::Field, ident: &Ident) -> Result<Kind> {
    let mut kind = None;
    fields::settings(&field.attrs, "column", |meta| {
        let given = if meta.path.is_ident("name") {
            Kind::Named(fields::text(&meta)?)
        } else if meta.path.is_ident("flatten") {
            Kind::Flattened
        } else {
            return Err(meta.error("unknown setting; there are `name = \"...\"` and `flatten`"));
        };
        match kind.replace(given) {
            None => Ok(()),
            Some(_) => Err(meta.error("a field has one name, or is flattened")),
        }
    })?;
    Ok(kind.unwrap_or_else(|| Kind::Named(LitStr::new(&ident.unraw().to_string(), ident.span()))))
}

fn row_impl(name: &Ident, columns: &[Column<'_>]) -> TokenStream {
    let variables: Vec<_> =
        (0..columns.len()).map(|index| format_ident!("column_{index}")).collect();
    let idents: Vec<_> = columns.iter().map(|column| column.ident).collect();
    // The span of the field's type makes the compiler point at it if it is no column type.
    let values: Vec<_> = columns
        .iter()
        .map(|Column { value_type, kind, .. }| match kind {
            Kind::Named(_) => {
                quote_spanned!(value_type.span()=> <#value_type as ::howdah_sdk::Value>)
            }
            Kind::Flattened => {
                quote_spanned!(value_type.span()=> <#value_type as ::howdah_sdk::Row>)
            }
        })
        .collect();
    let fields = fields_of(columns, &values);
    let wrong_count = quote! {
        return ::core::result::Result::Err(
            ::howdah_sdk::__private::wrong_column_count(Self::FIELDS.len(), columns.len()),
        )
    };
    let to_read = bind(columns, &variables, &values, "split_at_checked", &wrong_count);
    let to_write = bind(columns, &variables, &values, "split_at_mut_checked", &quote!(return));
    let to_match = bind(columns, &variables, &values, "split_at_checked", &quote!(return false));
    quote! {
        #[automatically_derived]
        impl ::howdah_sdk::Row for #name {
            const FIELDS: &'static [::howdah_sdk::Field] = #fields;

            #[inline]
            fn read(
                columns: &[::howdah_sdk::columns::Column],
                row: usize,
            ) -> ::howdah_sdk::Result<Self> {
                #to_read
                ::core::result::Result::Ok(Self {
                    #(#idents: #values::read(#variables, row)?,)*
                })
            }

            #[inline]
            fn write(&self, columns: &mut [::howdah_sdk::columns::ColumnBuilder]) {
                #to_write
                #(#values::write(&self.#idents, #variables);)*
            }

            #[inline]
            fn matches(&self, columns: &[::howdah_sdk::columns::Column], row: usize) -> bool {
                #to_match
                #(#values::matches(&self.#idents, #variables, row))&&*
            }
        }
    }
}

/// The columns of all fields.
fn fields_of(columns: &[Column<'_>], values: &[TokenStream]) -> TokenStream {
    let field = |name: &LitStr, value: &TokenStream| {
        quote! {
            ::howdah_sdk::Field {
                name: #name,
                value_type: #value::TYPE,
                nullable: #value::NULLABLE,
            }
        }
    };
    let parts = columns.iter().zip(values).map(|(column, value)| match &column.kind {
        Kind::Named(name) => {
            let field = field(name, value);
            quote!(&[#field])
        }
        Kind::Flattened => quote!(#value::FIELDS),
    });
    quote! {
        {
            const PARTS: &[&[::howdah_sdk::Field]] = &[#(#parts),*];
            const ALL: [::howdah_sdk::Field; ::howdah_sdk::__private::count_fields(PARTS)] =
                ::howdah_sdk::__private::join_fields(PARTS);
            &ALL
        }
    }
}

/// Gives each field its column or columns in a variable, or does something else if there are not as
/// many as it takes.
fn bind(
    columns: &[Column<'_>],
    variables: &[Ident],
    values: &[TokenStream],
    split_at: &str,
    otherwise: &TokenStream,
) -> TokenStream {
    if columns.iter().all(|column| matches!(column.kind, Kind::Named(_))) {
        return quote!(let [#(#variables),*] = columns else { #otherwise };);
    }
    // One after the other, from the front of those that are left.
    let split_at = format_ident!("{split_at}");
    let mut binds = TokenStream::new();
    for ((column, variable), value) in columns.iter().zip(variables).zip(values) {
        binds.extend(match &column.kind {
            Kind::Named(_) => {
                quote!(let [#variable, columns @ ..] = columns else { #otherwise };)
            }
            Kind::Flattened => quote! {
                let ::core::option::Option::Some((#variable, columns)) =
                    columns.#split_at(#value::FIELDS.len())
                else {
                    #otherwise
                };
            },
        });
    }
    quote! {
        #binds
        let [] = columns else { #otherwise };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    /// The message with which `Row` refuses this.
    fn refusal(input: &DeriveInput) -> String {
        row(input).unwrap_err().to_string()
    }

    #[test]
    fn an_enum_is_refused_with_a_way_out() {
        let refusal = refusal(&parse_quote!(
            enum Side {
                Buy,
                Sell,
            }
        ));
        assert!(refusal.contains("this is an enum; store it as"), "{refusal}");
    }

    #[test]
    fn a_tuple_struct_is_refused() {
        assert!(
            refusal(&parse_quote!(
                struct Pair(i64, i64);
            ))
            .contains("a column needs a name")
        );
    }

    #[test]
    fn a_struct_without_fields_is_refused() {
        assert!(
            refusal(&parse_quote!(
                struct Nothing;
            ))
            .contains("no fields")
        );
        assert!(
            refusal(&parse_quote!(
                struct Nothing {}
            ))
            .contains("no fields")
        );
    }

    #[test]
    fn generics_are_refused() {
        assert!(
            refusal(&parse_quote!(
                struct Any<T> {
                    value: T,
                }
            ))
            .contains("without generics")
        );
        let borrowed = parse_quote!(
            struct Borrowed<'a> {
                text: &'a str,
            }
        );
        assert!(refusal(&borrowed).contains("without generics"));
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let input = parse_quote! {
            struct Twice { price: i64, #[column(name = "price")] other: i64 }
        };
        assert_eq!(refusal(&input), "column `price` is there twice");
    }

    #[test]
    fn an_unknown_setting_is_refused() {
        let input = parse_quote!(
            struct Bid {
                #[column(rename = "p")]
                price: i64,
            }
        );
        assert!(refusal(&input).contains("unknown setting"));
    }

    #[test]
    fn a_field_is_flattened_or_named() {
        let input = parse_quote!(
            struct Bid {
                #[column(flatten, name = "money")]
                money: Money,
            }
        );
        assert_eq!(refusal(&input), "a field has one name, or is flattened");
    }

    #[test]
    fn a_key_has_no_rows_in_it() {
        let input = parse_quote!(
            struct Auction {
                #[column(flatten)]
                auction: Other,
            }
        );
        assert_eq!(key(&input).unwrap_err().to_string(), "a key has no rows in it");
    }

    #[test]
    fn a_key_is_a_row_too() {
        let input = parse_quote!(
            struct Auction {
                auction: i64,
            }
        );
        let code = key(&input).unwrap().to_string();
        assert!(code.contains("impl :: howdah_sdk :: Row for Auction"), "{code}");
        assert!(code.contains("impl :: howdah_sdk :: Key for Auction"), "{code}");
    }
}

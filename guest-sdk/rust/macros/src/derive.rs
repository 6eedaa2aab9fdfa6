//! The code that `Row` and `Key` expand to.

use std::collections::HashSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Type};

/// A field of the struct, and the column it stands for.
struct Column<'a> {
    ident: &'a Ident,
    value_type: &'a Type,
    name: LitStr,
}

/// The implementation of `Row`.
pub(crate) fn row(input: &DeriveInput) -> Result<TokenStream> {
    let columns = columns(input, "Row")?;
    Ok(row_impl(&input.ident, &columns))
}

/// The implementations of `Key` and of `Row`, which it stands on.
pub(crate) fn key(input: &DeriveInput) -> Result<TokenStream> {
    let columns = columns(input, "Key")?;
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
        let name = column_name(field, ident)?;
        if !names.insert(name.value()) {
            let message = format!("column `{}` is there twice", name.value());
            return Err(Error::new(name.span(), message));
        }
        columns.push(Column { ident, value_type: &field.ty, name });
    }
    Ok(columns)
}

/// `#[column(name = "...")]`, or the name of the field.
fn column_name(field: &syn::Field, ident: &Ident) -> Result<LitStr> {
    let mut name = None;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("column")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("unknown setting; there is `name = \"...\"`"));
            }
            let value: LitStr = meta.value()?.parse()?;
            if value.value().is_empty() {
                return Err(Error::new(value.span(), "a column needs a name"));
            }
            match name.replace(value) {
                None => Ok(()),
                Some(_) => Err(meta.error("`name` is given twice")),
            }
        })?;
    }
    Ok(name.unwrap_or_else(|| LitStr::new(&ident.unraw().to_string(), ident.span())))
}

fn row_impl(name: &Ident, columns: &[Column<'_>]) -> TokenStream {
    let count = columns.len();
    let variables: Vec<_> = (0..count).map(|index| format_ident!("column_{index}")).collect();
    let idents: Vec<_> = columns.iter().map(|column| column.ident).collect();
    // The span of the field's type makes the compiler point at it if it is no column type.
    let values: Vec<_> = columns
        .iter()
        .map(|column| {
            let value_type = column.value_type;
            quote_spanned!(value_type.span()=> <#value_type as ::howdah_sdk::Value>)
        })
        .collect();
    let fields = columns.iter().zip(&values).map(|(column, value)| {
        let column_name = &column.name;
        quote! {
            ::howdah_sdk::Field {
                name: #column_name,
                value_type: #value::TYPE,
                nullable: #value::NULLABLE,
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl ::howdah_sdk::Row for #name {
            const FIELDS: &'static [::howdah_sdk::Field] = &[#(#fields),*];

            #[inline]
            fn read(
                columns: &[::howdah_sdk::columns::Column],
                row: usize,
            ) -> ::howdah_sdk::Result<Self> {
                let [#(#variables),*] = columns else {
                    return ::core::result::Result::Err(
                        ::howdah_sdk::__private::wrong_column_count(#count, columns.len()),
                    );
                };
                ::core::result::Result::Ok(Self {
                    #(#idents: #values::read(#variables, row)?,)*
                })
            }

            #[inline]
            fn write(&self, columns: &mut [::howdah_sdk::columns::ColumnBuilder]) {
                if let [#(#variables),*] = columns {
                    #(#values::write(&self.#idents, #variables);)*
                }
            }

            #[inline]
            fn matches(&self, columns: &[::howdah_sdk::columns::Column], row: usize) -> bool {
                match columns {
                    [#(#variables),*] => {
                        #(#values::matches(&self.#idents, #variables, row))&&*
                    }
                    _ => false,
                }
            }
        }
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

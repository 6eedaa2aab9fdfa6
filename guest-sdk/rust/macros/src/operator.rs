//! The code that `#[operator]` expands to.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Error, FnArg, GenericArgument, ImplItem, ImplItemFn, ItemImpl, PathArguments, Result, Type,
    TypeReference, parse_quote,
};

use crate::ports;

/// Methods of the trait, and whether they need handlers to be exported.
const METHODS: [(&str, bool); 10] = [
    ("open", false),
    ("prepare", false),
    ("process", false),
    ("process_batch", false),
    ("finish_batch", false),
    ("on_timer", true),
    ("on_watermark", true),
    ("on_barrier", false),
    ("on_checkpoint_complete", true),
    ("close", false),
];

const CONSTANTS: [&str; 4] = ["INPUT", "OUTPUT", "INPUT_CHANGELOG", "OUTPUT_CHANGELOG"];

const PROCESS: &str = "an operator needs `fn process(&mut self, row: Row, record: &Record<Key>, \
                       out: &mut Emitter<Row>) -> Result<()>`";

/// What `process` says of the operator.
struct Types<'a> {
    input: &'a Type,
    key: &'a Type,
    output: TokenStream,
}

/// The implementation of `Operator`, the other methods, and the exports.
pub(crate) fn operator(block: &ItemImpl) -> Result<TokenStream> {
    if block.trait_.is_some() || !block.generics.params.is_empty() {
        let message = "`#[operator]` is for `impl Type { .. }`, without a trait and generics";
        return Err(Error::new_spanned(&block.self_ty, message));
    }
    let name = &block.self_ty;
    let types = types(block)?;
    let mut ours = Vec::new();
    let mut others = Vec::new();
    let mut has_handlers = false;
    for item in &block.items {
        match item {
            ImplItem::Fn(function) => match method(function)? {
                Some(needs_handlers) => {
                    has_handlers |= needs_handlers;
                    ours.push(of_trait(function));
                }
                None => others.push(item),
            },
            ImplItem::Const(constant) if CONSTANTS.iter().any(|name| constant.ident == name) => {
                ours.push(ImplItem::Const(constant.clone()));
            }
            _ => others.push(item),
        }
    }
    let has = |name: &str| find(block, name).is_some();
    let opens = (!has("open")).then(|| {
        quote! {
            fn open(open: &mut ::howdah_sdk::Open<Self::Key>) -> ::howdah_sdk::Result<Self> {
                <Self as ::howdah_sdk::States<Self::Key>>::open(open)
            }
        }
    });
    let processes = (!has("process")).then(|| {
        quote! {
            fn process(
                &mut self,
                _: Self::Input,
                _: &::howdah_sdk::Record<'_, Self::Key>,
                _: &mut ::howdah_sdk::Emitters<Self>,
            ) -> ::howdah_sdk::Result<()> {
                ::core::result::Result::Err(::howdah_sdk::Error::new("it works on whole batches"))
            }
        }
    });
    let prepares = has("prepare").then(|| {
        quote!(
            const PREPARES: bool = true;
        )
    });
    let others = (!others.is_empty()).then(|| quote!(impl #name { #(#others)* }));
    let handlers = has_handlers.then(|| {
        let handlers = format_ident!("handlers");
        quote!(, #handlers)
    });
    let Types { input, key, output } = types;
    Ok(quote! {
        impl ::howdah_sdk::Operator for #name {
            type Input = #input;
            type Key = #key;
            type Output = #output;

            #prepares
            #opens
            #processes
            #(#ours)*
        }

        #others

        ::howdah_sdk::export!(#name #handlers);
    })
}

/// Whether the method is one of the trait's, and if so, whether it is a handler.
fn method(function: &ImplItemFn) -> Result<Option<bool>> {
    let name = &function.sig.ident;
    if let Some((_, needs_handlers)) = METHODS.iter().find(|(method, _)| name == method) {
        return Ok(Some(*needs_handlers));
    }
    if name.to_string().starts_with("on_") {
        let names: Vec<_> = METHODS.iter().map(|(name, _)| format!("`{name}`")).collect();
        let names = names.join(", ");
        return Err(Error::new_spanned(
            name,
            format!("an operator has no `{name}`, which looks like one of {names}"),
        ));
    }
    Ok(None)
}

/// The method as one of a trait, which has no visibility of its own.
fn of_trait(function: &ImplItemFn) -> ImplItem {
    let mut function = ImplItemFn { vis: syn::Visibility::Inherited, ..function.clone() };
    let says_inline = function.attrs.iter().any(|attribute| attribute.path().is_ident("inline"));
    if function.sig.ident == "process" && !says_inline {
        // It has one caller, the loop over the rows: a call for each of them costs more than most
        // operators do with a row.
        function.attrs.push(parse_quote!(#[inline(always)]));
    }
    ImplItem::Fn(function)
}

fn find<'a>(block: &'a ItemImpl, name: &str) -> Option<&'a ImplItemFn> {
    block.items.iter().find_map(|item| match item {
        ImplItem::Fn(function) if function.sig.ident == name => Some(function),
        _ => None,
    })
}

/// Input, key and output, as `process` or `process_batch` has them.
fn types(block: &ItemImpl) -> Result<Types<'_>> {
    if let Some(process) = find(block, "process") {
        let refuse = || Error::new_spanned(&process.sig, PROCESS);
        let [input, record, out] = arguments(process).ok_or_else(refuse)?;
        let [key] = generics(target(record).ok_or_else(refuse)?).ok_or_else(refuse)?;
        return Ok(Types { input, key, output: output(target(out).ok_or_else(refuse)?) });
    }
    let Some(process) = find(block, "process_batch") else {
        return Err(Error::new_spanned(&block.self_ty, PROCESS));
    };
    let refuse = || {
        Error::new_spanned(
            &process.sig,
            "write `fn process_batch(&mut self, batch: &Batch<Row, Key>, out: &mut Emitter<Row>) \
             -> Result<()>`",
        )
    };
    let [batch, out] = arguments(process).ok_or_else(refuse)?;
    let [input, key] = generics(target(batch).ok_or_else(refuse)?).ok_or_else(refuse)?;
    Ok(Types { input, key, output: output(target(out).ok_or_else(refuse)?) })
}

/// The types of the arguments after `&mut self`.
fn arguments<const N: usize>(function: &ImplItemFn) -> Option<[&Type; N]> {
    let mut arguments = function.sig.inputs.iter();
    let Some(FnArg::Receiver(_)) = arguments.next() else { return None };
    let types: Option<Vec<_>> = arguments
        .map(|argument| match argument {
            FnArg::Typed(argument) => Some(&*argument.ty),
            FnArg::Receiver(_) => None,
        })
        .collect();
    types?.try_into().ok()
}

/// The `T` of `&T`.
fn target(reference: &Type) -> Option<&Type> {
    match reference {
        Type::Reference(TypeReference { elem, .. }) => Some(elem),
        _ => None,
    }
}

/// The types in angle brackets, without lifetimes.
fn generics<const N: usize>(path: &Type) -> Option<[&Type; N]> {
    let Type::Path(path) = path else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    let types: Vec<_> = arguments
        .args
        .iter()
        .filter_map(|argument| match argument {
            GenericArgument::Type(argument) => Some(argument),
            _ => None,
        })
        .collect();
    types.try_into().ok()
}

/// The output of an operator that emits to this.
fn output(emitters: &Type) -> TokenStream {
    match ports::emitted(emitters) {
        Some(row) => quote!(#row),
        None => quote!(#emitters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message with which `#[operator]` refuses this.
    fn refusal(block: &ItemImpl) -> String {
        operator(block).unwrap_err().to_string()
    }

    /// The code that it becomes.
    fn code(block: &ItemImpl) -> String {
        operator(block).unwrap().to_string()
    }

    #[test]
    fn types_come_from_the_signature_of_process() {
        let code = code(&parse_quote! {
            impl Totals {
                pub fn process(&mut self, bid: Bid, record: &Record<'_, Auction>, out: &mut Out)
                    -> Result<()> { Ok(()) }
                fn helper(&self) {}
            }
        });
        assert!(
            code.contains("type Input = Bid ; type Key = Auction ; type Output = Out ;"),
            "{code}"
        );
        assert!(code.contains("impl Totals { fn helper"), "{code}");
        assert!(code.contains("export ! (Totals) ;"), "no handlers: {code}");
        assert!(!code.contains("pub fn process"), "{code}");
    }

    #[test]
    fn an_emitter_stands_for_its_row() {
        let code = code(&parse_quote! {
            impl Totals {
                fn process(&mut self, _: Bid, _: &Record<Auction>, _: &mut Emitter<Total>)
                    -> Result<()> { Ok(()) }
                fn on_timer(&mut self, _: &Timer<Auction>, _: &mut Emitter<Total>)
                    -> Result<()> { Ok(()) }
            }
        });
        assert!(code.contains("type Output = Total ;"), "{code}");
        assert!(code.contains("export ! (Totals , handlers) ;"), "{code}");
    }

    #[test]
    fn a_method_that_looks_like_a_handler_is_refused() {
        let refusal = refusal(&parse_quote! {
            impl Totals {
                fn process(&mut self, _: Bid, _: &Record<Auction>, _: &mut Emitter<Total>)
                    -> Result<()> { Ok(()) }
                fn on_timers(&mut self) {}
            }
        });
        assert!(refusal.contains("no `on_timers`"), "{refusal}");
        assert!(refusal.contains("`on_timer`"), "{refusal}");
    }

    #[test]
    fn a_block_without_process_is_told_how_it_looks() {
        let refusal = refusal(&parse_quote!(
            impl Totals {
                fn helper(&self) {}
            }
        ));
        assert!(refusal.contains("fn process(&mut self, row: Row"), "{refusal}");
    }

    #[test]
    fn a_process_with_other_arguments_is_told_how_it_looks() {
        let refusal = refusal(&parse_quote!(
            impl Totals {
                fn process(&mut self, bid: Bid) {}
            }
        ));
        assert!(refusal.contains("record: &Record<Key>"), "{refusal}");
    }
}

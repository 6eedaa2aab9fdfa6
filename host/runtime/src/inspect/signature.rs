//! Functions and types of WIT: whether two of them are the same, and how they read.
//!
//! Types match by what they are made of, as they do when a component is linked; names of
//! records, fields of which are the same, do not matter there.

use std::collections::HashSet;
use std::fmt::Write;
use wit_parser::{Function, FunctionKind, Handle, Resolve, Type, TypeDefKind, TypeId};

/// Nested types that are looked into; those of the contract are five deep.
const DEPTH_LIMIT: usize = 64;

/// Two sets of types, side by side.
pub(super) struct Pair<'a> {
    component: &'a Resolve,
    host: &'a Resolve,
    /// Types that were found to be the same.
    same: HashSet<(TypeId, TypeId)>,
}

/// A type of the contract that a component has otherwise: its definitions in WIT.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangedType {
    pub(super) name: String,
    pub(super) component: String,
    pub(super) host: String,
}

impl<'a> Pair<'a> {
    pub(super) fn new(component: &'a Resolve, host: &'a Resolve) -> Self {
        Self { component, host, same: HashSet::new() }
    }

    /// Whether a caller of the one can call the other.
    pub(super) fn same_function(&mut self, component: &Function, host: &Function) -> bool {
        component.params.len() == host.params.len()
            && self.same_options(component.result, host.result, 0)
            && component
                .params
                .iter()
                .zip(&host.params)
                .all(|(a, b)| self.same_types(a.ty, b.ty, 0))
    }

    fn same_options(&mut self, a: Option<Type>, b: Option<Type>, depth: usize) -> bool {
        match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => self.same_types(a, b, depth),
            _ => false,
        }
    }

    fn same_types(&mut self, a: Type, b: Type, depth: usize) -> bool {
        let (a, b) = (without_alias(self.component, a), without_alias(self.host, b));
        let (Type::Id(a), Type::Id(b)) = (a, b) else { return a == b };
        if self.same.contains(&(a, b)) {
            return true;
        }
        let same = depth < DEPTH_LIMIT && self.same_definitions(a, b, depth + 1);
        if same {
            self.same.insert((a, b));
        }
        same
    }

    fn same_definitions(&mut self, a: TypeId, b: TypeId, depth: usize) -> bool {
        use TypeDefKind as K;
        let (component, host) = (self.component, self.host);
        let (Some(a), Some(b)) = (component.types.get(a), host.types.get(b)) else { return false };
        match (&a.kind, &b.kind) {
            (K::Record(x), K::Record(y)) => {
                x.fields.len() == y.fields.len()
                    && x.fields
                        .iter()
                        .zip(&y.fields)
                        .all(|(x, y)| x.name == y.name && self.same_types(x.ty, y.ty, depth))
            }
            (K::Variant(x), K::Variant(y)) => {
                x.cases.len() == y.cases.len()
                    && x.cases
                        .iter()
                        .zip(&y.cases)
                        .all(|(x, y)| x.name == y.name && self.same_options(x.ty, y.ty, depth))
            }
            (K::Enum(x), K::Enum(y)) => {
                x.cases.iter().map(|case| &case.name).eq(y.cases.iter().map(|case| &case.name))
            }
            (K::Flags(x), K::Flags(y)) => {
                x.flags.iter().map(|flag| &flag.name).eq(y.flags.iter().map(|flag| &flag.name))
            }
            (K::Tuple(x), K::Tuple(y)) => {
                x.types.len() == y.types.len()
                    && x.types.iter().zip(&y.types).all(|(x, y)| self.same_types(*x, *y, depth))
            }
            (K::Option(x), K::Option(y)) | (K::List(x), K::List(y)) => {
                self.same_types(*x, *y, depth)
            }
            (K::Result(x), K::Result(y)) => {
                self.same_options(x.ok, y.ok, depth) && self.same_options(x.err, y.err, depth)
            }
            (K::Handle(Handle::Own(x)), K::Handle(Handle::Own(y)))
            | (K::Handle(Handle::Borrow(x)), K::Handle(Handle::Borrow(y))) => {
                self.same_types(Type::Id(*x), Type::Id(*y), depth)
            }
            (K::Resource, K::Resource) => a.name == b.name,
            // The contract has no others.
            _ => false,
        }
    }

    /// The named types that make two functions differ whose texts are the same.
    pub(super) fn changed_types(
        &mut self,
        component: &Function,
        host: &Function,
    ) -> Vec<ChangedType> {
        let mut changed = Vec::new();
        let params = component.params.iter().zip(&host.params);
        let pairs = params.map(|(a, b)| (a.ty, b.ty)).chain(component.result.zip(host.result));
        for (a, b) in pairs {
            self.collect(a, b, &mut changed, 0);
        }
        changed
    }

    fn collect(&mut self, a: Type, b: Type, changed: &mut Vec<ChangedType>, depth: usize) {
        if depth >= DEPTH_LIMIT || self.same_types(a, b, 0) {
            return;
        }
        let (a, b) = (without_alias(self.component, a), without_alias(self.host, b));
        let (Type::Id(a), Type::Id(b)) = (a, b) else { return };
        let (component, host) = (self.component, self.host);
        let (Some(x), Some(y)) = (component.types.get(a), host.types.get(b)) else { return };
        if let Some(name) = &y.name {
            let (component, host) = (definition(component, a), definition(host, b));
            if component != host && !changed.iter().any(|known| known.name == *name) {
                changed.push(ChangedType { name: name.clone(), component, host });
            }
        }
        for (a, b) in parts(&x.kind, &y.kind) {
            self.collect(a, b, changed, depth + 1);
        }
    }
}

/// The types that two types are made of, where they go together.
fn parts(a: &TypeDefKind, b: &TypeDefKind) -> Vec<(Type, Type)> {
    use TypeDefKind as K;
    match (a, b) {
        (K::Record(x), K::Record(y)) => x
            .fields
            .iter()
            .filter_map(|x| Some((x.ty, y.fields.iter().find(|y| y.name == x.name)?.ty)))
            .collect(),
        (K::Variant(x), K::Variant(y)) => x
            .cases
            .iter()
            .filter_map(|x| Some((x.ty?, y.cases.iter().find(|y| y.name == x.name)?.ty?)))
            .collect(),
        (K::Tuple(x), K::Tuple(y)) => {
            x.types.iter().copied().zip(y.types.iter().copied()).collect()
        }
        (K::Option(x), K::Option(y)) | (K::List(x), K::List(y)) => vec![(*x, *y)],
        (K::Result(x), K::Result(y)) => {
            x.ok.zip(y.ok).into_iter().chain(x.err.zip(y.err)).collect()
        }
        _ => Vec::new(),
    }
}

/// What an alias stands for.
fn without_alias(resolve: &Resolve, mut id: Type) -> Type {
    for _ in 0..DEPTH_LIMIT {
        let Type::Id(of) = id else { break };
        match resolve.types.get(of).map(|definition| &definition.kind) {
            Some(TypeDefKind::Type(target)) => id = *target,
            _ => break,
        }
    }
    id
}

/// The name of a function as WIT knows it: `process`, `value-state.get`.
pub(super) fn name(function: &Function) -> &str {
    match function.name.split_once(']') {
        Some((_, name)) if function.name.starts_with('[') => name,
        _ => &function.name,
    }
}

/// A function in WIT, on one line.
pub(super) fn function(resolve: &Resolve, function: &Function) -> String {
    let (word, skipped) = match function.kind {
        FunctionKind::Method(_) => ("func", 1),
        FunctionKind::AsyncMethod(_) => ("async func", 1),
        FunctionKind::Static(_) => ("static func", 0),
        FunctionKind::AsyncStatic(_) => ("static async func", 0),
        FunctionKind::AsyncFreestanding => ("async func", 0),
        FunctionKind::Constructor(_) => ("constructor", 0),
        _ => ("func", 0),
    };
    let params = function.params.iter().skip(skipped);
    let params: Vec<String> =
        params.map(|param| format!("{}: {}", param.name, shown(resolve, param.ty, 0))).collect();
    let mut text = format!("{}: {word}({})", name(function), params.join(", "));
    if let Some(result) = function.result {
        // A string takes everything.
        let _ = write!(text, " -> {}", shown(resolve, result, 0));
    }
    text
}

/// The definition of a type in WIT, on one line; types that it is made of by name.
fn definition(resolve: &Resolve, id: TypeId) -> String {
    let Some(definition) = resolve.types.get(id) else { return String::new() };
    let name = definition.name.as_deref().unwrap_or("_");
    let case = |(name, ty): (&String, Option<Type>)| match ty {
        Some(ty) => format!("{name}({})", shown(resolve, ty, 0)),
        None => name.clone(),
    };
    let braces =
        |word: &str, parts: Vec<String>| format!("{word} {name} {{ {} }}", parts.join(", "));
    match &definition.kind {
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter();
            let field = |field: &wit_parser::Field| {
                format!("{}: {}", field.name, shown(resolve, field.ty, 0))
            };
            braces("record", fields.map(field).collect())
        }
        TypeDefKind::Variant(variant) => {
            let cases = variant.cases.iter().map(|case| (&case.name, case.ty));
            braces("variant", cases.map(case).collect())
        }
        TypeDefKind::Enum(cases) => {
            braces("enum", cases.cases.iter().map(|case| case.name.clone()).collect())
        }
        TypeDefKind::Flags(flags) => {
            braces("flags", flags.flags.iter().map(|flag| flag.name.clone()).collect())
        }
        TypeDefKind::Resource => format!("resource {name}"),
        _ => format!("type {name} = {}", structure(resolve, &definition.kind, 0)),
    }
}

/// A type where it is used: its name, or what it is.
fn shown(resolve: &Resolve, ty: Type, depth: usize) -> String {
    let id = match ty {
        Type::Id(id) => id,
        Type::Bool => return "bool".into(),
        Type::U8 => return "u8".into(),
        Type::U16 => return "u16".into(),
        Type::U32 => return "u32".into(),
        Type::U64 => return "u64".into(),
        Type::S8 => return "s8".into(),
        Type::S16 => return "s16".into(),
        Type::S32 => return "s32".into(),
        Type::S64 => return "s64".into(),
        Type::F32 => return "f32".into(),
        Type::F64 => return "f64".into(),
        Type::Char => return "char".into(),
        Type::String => return "string".into(),
        Type::ErrorContext => return "error-context".into(),
    };
    match resolve.types.get(id) {
        Some(definition) => match &definition.name {
            Some(name) => name.clone(),
            None if depth < DEPTH_LIMIT => structure(resolve, &definition.kind, depth + 1),
            None => "…".into(),
        },
        None => "_".into(),
    }
}

/// A type without a name.
fn structure(resolve: &Resolve, kind: &TypeDefKind, depth: usize) -> String {
    let of = |ty: &Type| shown(resolve, *ty, depth);
    let optional = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "_".to_owned(), of);
    match kind {
        TypeDefKind::Handle(Handle::Own(id)) => shown(resolve, Type::Id(*id), depth),
        TypeDefKind::Handle(Handle::Borrow(id)) => format!("borrow<{}>", of(&Type::Id(*id))),
        TypeDefKind::Tuple(tuple) => {
            format!("tuple<{}>", tuple.types.iter().map(of).collect::<Vec<_>>().join(", "))
        }
        TypeDefKind::Option(ty) => format!("option<{}>", of(ty)),
        TypeDefKind::List(ty) => format!("list<{}>", of(ty)),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".into(),
            (Some(ok), None) => format!("result<{}>", of(ok)),
            (ok, err) => format!("result<{}, {}>", optional(ok), optional(err)),
        },
        TypeDefKind::Future(ty) => format!("future<{}>", optional(ty)),
        TypeDefKind::Stream(ty) => format!("stream<{}>", optional(ty)),
        TypeDefKind::Type(ty) => of(ty),
        other => other.as_str().into(),
    }
}

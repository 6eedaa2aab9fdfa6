//! What a pipeline file may have, for editors and for readers.

use super::keys::{self, Key, Kind, Presence};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The JSON Schema (draft 7) of the pipeline file. Whatever is accepted is valid by it; what it finds
/// valid may still be refused, as where two keys do not go together.
pub fn pipeline_file_schema() -> Value {
    let mut schema = table(keys::FILE, Form::Named);
    let definitions = keys::FILE.iter().filter_map(|key| {
        let Kind::Nodes(keys) = key.kind else { return None };
        let short = (format!("only-{}", key.name), Value::Object(table(keys, Form::Short)));
        Some([(key.name.to_owned(), Value::Object(table(keys, Form::Named))), short])
    });
    let definitions: Map<String, Value> = definitions.flatten().collect();
    for (name, value) in [
        ("$schema", json!("http://json-schema.org/draft-07/schema#")),
        ("title", json!("howdah pipeline file")),
        ("description", json!("Sources, operators and sinks, and how they are put together.")),
        ("definitions", Value::Object(definitions)),
    ] {
        schema.insert(name.to_owned(), value);
    }
    Value::Object(schema)
}

/// Whether a table of nodes is the one node, or each has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Named,
}

fn table(keys: &[Key], form: Form) -> Map<String, Value> {
    let is_required = |key: &&Key| match key.presence {
        Presence::Required => true,
        Presence::RequiredInShortForm => form == Form::Short,
        Presence::Optional | Presence::Default(_) => false,
    };
    let has = |key: &&Key| form == Form::Short || key.presence != Presence::RequiredInShortForm;
    let properties: Map<String, Value> =
        keys.iter().filter(has).map(|key| (key.name.to_owned(), described(key))).collect();
    let mut schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    let required: Vec<&str> = keys.iter().filter(is_required).map(|key| key.name).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let unfit: Map<String, Value> = keys.iter().filter_map(|key| needed(keys, key)).collect();
    if !unfit.is_empty() {
        schema.insert("dependencies".to_owned(), Value::Object(unfit));
    }
    schema
}

/// What must be chosen for a key that not all kinds of source or sink have.
fn needed(keys: &[Key], key: &Key) -> Option<(String, Value)> {
    if key.only.is_empty() {
        return None;
    }
    let chooser = chooser(keys)?;
    let kinds = json!({ chooser.name: { "enum": key.only } });
    let mut chosen = Map::from_iter([("properties".to_owned(), kinds)]);
    // Where nothing is chosen, that is the default.
    let default = literal(chooser.presence);
    if !key.only.iter().any(|kind| default == Some(json!(kind))) {
        chosen.insert("required".to_owned(), json!([chooser.name]));
    }
    Some((key.name.to_owned(), Value::Object(chosen)))
}

/// The key that says of which kind a source or sink is.
fn chooser(keys: &[Key]) -> Option<&Key> {
    keys.iter().find(|key| matches!(key.name, "connector" | "type"))
}

fn described(key: &Key) -> Value {
    let mut schema = of(key.name, key.kind);
    schema.insert("description".to_owned(), json!(key.meaning));
    if let Some(default) = literal(key.presence) {
        schema.insert("default".to_owned(), default);
    }
    Value::Object(schema)
}

/// The default as JSON: of numbers, words and truth values TOML is no other.
fn literal(presence: Presence) -> Option<Value> {
    match presence {
        Presence::Default(value) => serde_json::from_str(value).ok(),
        _ => None,
    }
}

fn of(name: &str, kind: Kind) -> Map<String, Value> {
    let schema = match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Integer(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Texts => texts(),
        Kind::TextOrTexts => json!({ "anyOf": [{ "type": "string" }, texts()] }),
        Kind::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Table(keys) => return table(keys, Form::Named),
        Kind::TextOr(keys) => json!({ "anyOf": [{ "type": "string" }, table(keys, Form::Named)] }),
        Kind::TextsOr(keys) => {
            json!({ "anyOf": [{ "type": "string" }, texts(), table(keys, Form::Named)] })
        }
        Kind::Settings(names) => json!({
            "type": "object",
            "propertyNames": { "enum": names },
            "additionalProperties": of(name, Kind::Scalar),
        }),
        Kind::Map(value) => json!({ "type": "object", "additionalProperties": of(name, *value) }),
        Kind::Any => return Map::new(),
        Kind::Nodes(_) => json!({ "anyOf": [
            { "$ref": format!("#/definitions/only-{name}") },
            {
                "type": "object",
                "minProperties": 1,
                "propertyNames": { "pattern": "^[A-Za-z0-9_-]{1,64}$" },
                "additionalProperties": { "$ref": format!("#/definitions/{name}") },
            },
        ] }),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

/// How the page begins.
const PAGE: &str = "\
<!-- Made by `howdah schema --output markdown` from the code of the parser. Do not edit. -->

# Pipeline file

A pipeline is described in a [TOML](https://toml.io) file. Paths in it are relative to it. A key that
is not known, a value of another type and a number out of range are refused, all at once, each with
its line. `howdah schema` prints a JSON Schema for editors. An
[annotated example](../../examples/reference.toml) has every key.

With one source, one operator and one sink, their tables are called `[source]`, `[operator]` and
`[sink]`. Where there are more, each has a name: `[source.NAME]`, `[operator.NAME]`, `[sink.NAME]`;
operators and sinks then say with `input` what they take. Any graph without circles can be described.
";

/// The reference of the pipeline file, as a page in Markdown.
pub fn pipeline_file_reference() -> String {
    let mut page = PAGE.to_owned();
    section(&mut page, "The file", "", keys::FILE);
    page
}

/// A heading, a table of the keys, and the sections of the tables among them.
fn section(page: &mut String, heading: &str, name: &str, keys: &[Key]) {
    // Writing to a string does not fail.
    let _ = write!(page, "\n## {heading}\n\n| Key | Type | Unless stated | Meaning |\n");
    page.push_str("|---|---|---|---|\n");
    for key in keys {
        let default = match key.presence {
            Presence::Required => "**must be there**".to_owned(),
            Presence::RequiredInShortForm => "must be there in `[operator]`".to_owned(),
            Presence::Optional => String::new(),
            Presence::Default(value) => format!("`{value}`"),
        };
        let mut meaning = key.meaning.to_owned();
        if let Some(chooser) = chooser(keys).filter(|_| !key.only.is_empty()) {
            let kinds: Vec<String> = key.only.iter().map(|kind| format!("`{kind}`")).collect();
            let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
            let kinds = super::enumerate(&kinds, "or");
            let _ = write!(meaning, ". Only with `{}` {kinds}", chooser.name);
        }
        let shown = type_name(key.kind);
        let _ = writeln!(page, "| `{}` | {shown} | {default} | {meaning}. |", key.name);
    }
    for key in keys {
        let path =
            if name.is_empty() { key.name.to_owned() } else { format!("{name}.{}", key.name) };
        match key.kind {
            Kind::Table(keys) => section(page, &format!("`[{path}]`"), &path, keys),
            Kind::Nodes(keys) => {
                section(page, &format!("`[{path}]` or `[{path}.NAME]`"), &path, keys);
            }
            Kind::Map(Kind::TextOr(keys) | Kind::TextsOr(keys)) => {
                section(page, &format!("`[{path}.NAME]`"), &path, keys);
            }
            _ => {}
        }
    }
}

fn type_name(kind: Kind) -> String {
    match kind {
        Kind::Text => "string".to_owned(),
        Kind::Boolean => "true or false".to_owned(),
        Kind::Integer(least, most) if most == i64::MAX.unsigned_abs() => format!("from {least}"),
        Kind::Integer(least, most) => format!("{least} to {most}"),
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Kind::Texts => "list of strings".to_owned(),
        Kind::TextOrTexts => "string or list of strings".to_owned(),
        Kind::Scalar => "value".to_owned(),
        Kind::Any => "anything".to_owned(),
        Kind::Table(_) | Kind::Nodes(_) => "table".to_owned(),
        Kind::TextOr(_) => "string or table".to_owned(),
        Kind::TextsOr(_) => "string, list of strings or table".to_owned(),
        Kind::Settings(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("table of {}", names.join(", "))
        }
        Kind::Map(Kind::Any) => "table".to_owned(),
        Kind::Map(Kind::TextOr(_)) => "table of strings or tables".to_owned(),
        Kind::Map(Kind::TextsOr(_)) => "table of strings, lists of strings or tables".to_owned(),
        Kind::Map(value) => format!("table of {}s", type_name(*value)),
    }
}

#[cfg(test)]
mod tests;

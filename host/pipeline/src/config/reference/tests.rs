use super::*;
use crate::PipelineConfig;
use std::path::Path;

/// The page in the book.
const BOOK: &str = include_str!("../../../../../docs/src/reference.md");
/// The annotated example.
const EXAMPLE: &str = include_str!("../../../../../examples/reference.toml");

#[test]
fn the_page_in_the_book_is_the_one_that_the_code_makes() {
    let way_out = "cargo run -- schema --output markdown > docs/src/reference.md";
    assert!(BOOK == pipeline_file_reference(), "make it again: {way_out}");
}

/// All keys, with those of the tables below.
fn all(keys: &'static [Key]) -> Vec<&'static Key> {
    let below = keys.iter().flat_map(|key| match key.kind {
        Kind::Map(value) => all(value.keys()),
        kind => all(kind.keys()),
    });
    keys.iter().chain(below).collect()
}

#[test]
fn the_annotated_example_has_every_key() {
    for key in all(keys::FILE) {
        assert!(EXAMPLE.contains(key.name), "examples/reference.toml lacks `{}`", key.name);
    }
}

/// The defaults of the keys that this kind of source or sink has, each on a line.
fn defaults(keys: &[Key], kind: &str) -> String {
    let fit = keys.iter().filter(|key| key.only.is_empty() || key.only.contains(&kind));
    let line = |key: &Key| match key.presence {
        Presence::Default(value) => Some(format!("{} = {value}\n", key.name)),
        _ => None,
    };
    fit.filter_map(line).collect()
}

/// The keys of a table within a table.
fn below(keys: &'static [Key], name: &str) -> &'static [Key] {
    let key = keys.iter().find(|key| key.name == name).expect("a key");
    match key.kind {
        Kind::Map(value) => value.keys(),
        kind => kind.keys(),
    }
}

#[test]
fn a_default_that_is_stated_changes_nothing() {
    let [source, operator, sink] =
        ["source", "operator", "sink"].map(|name| below(keys::FILE, name));
    let of_operator = |name| below(operator, name);
    let directory = below(of_operator("wasi"), "directories");
    let other = |kind| defaults(source, kind).replace("connector = \"file\"\n", "");
    let sent = "[source.sent]\nconnector = 'http'\nport = 8080\nschema = { a = 'int64' }";
    let topic = "[source.topic]\nconnector = 'kafka'\nbrokers = 'b'\ntopic = 't'";
    let messages = "[sink.d]\ninput = 'topic'\ntype = 'kafka'\nbrokers = 'b'\ntopic = 't'";
    let table = "[sink.b]\ninput = 'generated'\ntype = 'paimon'\npath = 'w'\ntable = 'd.t'";
    let tables = [
        ("[checkpoint]", defaults(below(keys::FILE, "checkpoint"), "")),
        ("[source.file]\npath = 'events.csv'", defaults(source, "file")),
        ("[source.generated]\nconnector = 'nexmark'", other("nexmark")),
        (sent, other("http")),
        (topic, other("kafka")),
        ("[operator.o]\ncomponent = 'o.wasm'\ninput = 'file'", defaults(operator, "")),
        ("[operator.o.batch]", defaults(of_operator("batch"), "")),
        ("[operator.o.limits]", defaults(of_operator("limits"), "")),
        ("[operator.o.failure]", defaults(of_operator("failure"), "")),
        ("[operator.o.wasi]", defaults(of_operator("wasi"), "")),
        ("[operator.o.wasi.directories.'/a']\npath = 'a'", defaults(directory, "")),
        ("[sink.a]\ninput = 'o'\ntype = 'null'", defaults(sink, "null")),
        ("[sink.c]\ninput = 'sent'\ntype = 'null'", String::new()),
        (table, defaults(sink, "paimon")),
        (messages, defaults(sink, "kafka")),
    ];
    let root = format!("name = 'defaults'\n{}", defaults(keys::FILE, ""));
    let tables = tables.map(|(head, keys)| format!("{head}\n{keys}"));
    let stated = format!("{root}{}", tables.concat());
    assert!(stated.lines().count() > 50, "{stated}");
    // On the same lines.
    let is_default = |line: &str| stated_default(line) && !line.contains('\'');
    let left_out = stated.lines().map(|line| if is_default(line) { "#" } else { line });
    let left_out: Vec<&str> = left_out.collect();
    let parsed = |text: &str| {
        let config = PipelineConfig::parse_alone(Path::new("defaults.toml"), text);
        format!("{:?}", config.expect("a configuration"))
    };
    assert_eq!(parsed(&stated), parsed(&left_out.join("\n")));
}

fn stated_default(line: &str) -> bool {
    all(keys::FILE).iter().any(|key| match key.presence {
        Presence::Default(value) => line == format!("{} = {value}", key.name),
        _ => false,
    })
}

/// As much of JSON Schema as the schema uses; any other word in it is an error.
fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    for (word, rule) in schema.as_object().expect("a schema") {
        let holds = match word.as_str() {
            "$schema" | "title" | "description" | "default" | "definitions" => true,
            "$ref" => {
                let pointer = rule.as_str().expect("a reference").trim_start_matches('#');
                check(root, root.pointer(pointer).expect("a definition"), value)?;
                true
            }
            "anyOf" => {
                let schemas = rule.as_array().expect("schemas").iter();
                let checked = schemas.map(|schema| check(root, schema, value));
                let failed: Vec<_> = checked.map_while(Result::err).collect();
                if rule.as_array().is_some_and(|schemas| failed.len() == schemas.len()) {
                    return Err(failed.join("; or "));
                }
                true
            }
            "type" => match rule {
                Value::String(name) => is_of(name, value),
                names => names
                    .as_array()
                    .expect("names")
                    .iter()
                    .any(|name| is_of(name.as_str().expect("a name"), value)),
            },
            "enum" => rule.as_array().expect("values").contains(value),
            "minimum" => value.as_f64() >= rule.as_f64(),
            "maximum" => value.as_f64() <= rule.as_f64(),
            "minProperties" => {
                value.as_object().is_none_or(|table| Some(table.len() as u64) >= rule.as_u64())
            }
            // Which text may be a name of a node is the parser's affair.
            "propertyNames" => rule.get("enum").is_none_or(|known| {
                let known = known.as_array().expect("names");
                let names = value.as_object().into_iter().flat_map(|table| table.keys());
                names.into_iter().all(|name| known.contains(&json!(name)))
            }),
            "required" => {
                let names = rule.as_array().expect("names").iter();
                names.into_iter().all(|name| value.get(name.as_str().expect("a name")).is_some())
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    check(root, rule, item)?;
                }
                true
            }
            "properties" | "dependencies" => {
                for (name, value_schema) in rule.as_object().expect("schemas") {
                    let Some(found) = value.get(name) else { continue };
                    let found = if word == "properties" { found } else { value };
                    check(root, value_schema, found).map_err(|why| format!("{name}: {why}"))?;
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties");
                for (name, found) in value.as_object().into_iter().flatten() {
                    let is_known = known.is_some_and(|known| known.get(name).is_some());
                    match rule {
                        Value::Bool(false) if !is_known => return Err(format!("unknown {name}")),
                        Value::Object(_) if !is_known => {
                            check(root, rule, found).map_err(|why| format!("{name}: {why}"))?;
                        }
                        _ => {}
                    }
                }
                true
            }
            other => panic!("the test does not know the word {other}"),
        };
        if !holds {
            return Err(format!("{value} is against {word} {rule}"));
        }
    }
    Ok(())
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type {other}"),
    }
}

/// Whether the schema and the parser take a file.
fn taken(text: &str) -> (Result<(), String>, bool) {
    let value: Value = toml::from_str(text).expect("TOML");
    let schema = pipeline_file_schema();
    let parsed = PipelineConfig::parse_alone(Path::new("pipeline.toml"), text);
    (check(&schema, &schema, &value), parsed.is_ok())
}

#[test]
fn the_schema_takes_every_example() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let examples = [directory.join("nexmark"), directory];
    let examples = examples.iter().flat_map(|directory| directory.read_dir().expect("examples"));
    let examples = examples.map(|entry| entry.expect("an entry").path());
    let mut found = 0;
    for example in examples.filter(|path| path.extension().is_some_and(|it| it == "toml")) {
        let text = std::fs::read_to_string(&example).expect("read");
        assert_eq!(taken(&text), (Ok(()), true), "{}", example.display());
        found += 1;
    }
    assert!(found >= 26, "{found}");
}

const JOIN: &str = r#"
name = "join"
[source.a]
path = "a.csv"
filter = { x = 1, y = "z", w = true }
[source.b]
connector = "nexmark"
events = 5
[operator.join]
component = "join.wasm"
inputs = { left = "a", right = { from = "b", key = ["id"] } }
config = { deep = { list = [1, "a"] } }
[operator.join.wasi.directories]
"/a" = "a"
"/b" = { path = "b", access = "read-write" }
[sink.out]
input = "join"
type = "null"
"#;

#[test]
fn the_schema_refuses_what_the_parser_refuses() {
    assert_eq!(taken(JOIN), (Ok(()), true));
    for (from, to) in [
        ("name = \"join\"", "nmae = \"join\""),
        ("name = \"join\"", "name = \"join\"\nparallelism = 257"),
        ("name = \"join\"", "name = \"join\"\n[checkpoint]\nsync = 1"),
        ("events = 5", "events = -1"),
        ("path = \"a.csv\"", "path = \"a.csv\"\nevents = 5"),
        ("path = \"a.csv\"", "path = \"a.csv\"\non-error = \"stop\""),
        ("component = \"join.wasm\"\n", ""),
        ("component = \"join.wasm\"", "component = \"join.wasm\"\nname = \"join\""),
        ("key = [\"id\"]", "key = \"id\""),
        ("from = \"b\", ", ""),
        ("read-write", "write"),
        ("type = \"null\"", ""),
        ("type = \"null\"", "type = \"null\"\nbuckets = 2"),
        ("[sink.out]", "[sink.out]\npth = \"x\""),
    ] {
        assert!(JOIN.contains(from), "{from}");
        let (schema, parser) = taken(&JOIN.replacen(from, to, 1));
        assert!(schema.is_err(), "the schema takes {to}");
        assert!(!parser, "the parser takes {to}");
    }
}

//! `[operator]`: what to run.

use super::section::Section;
use super::{
    BATCH_ROWS_LIMIT, BATCH_WAIT_LIMIT_MS, BYTES_LIMIT, BatchConfig, COMPILE_BYTES_LIMIT,
    DIRECTORIES_LIMIT, FUEL_LIMIT, HANDLES_LIMIT, ISOLATED_ROWS_LIMIT, Located, Node,
    OperatorConfig, RESTARTS_LIMIT, SEED_LIMIT, TABLE_ELEMENTS_LIMIT, TIME_LIMIT_MS,
    WRITTEN_BYTES_LIMIT, to_u32,
};
use crate::graph::{StatedInput, StatedNode};
use crate::restart::RestartPolicy;
use howdah_runtime::{Access, DirectoryGrant, Limits, WasiGrant};
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;

/// What it may have.
pub(super) const KEYS: &[&str] = &[
    "name",
    "component",
    "parallelism",
    "input",
    "inputs",
    "key",
    "columns",
    "config",
    "batch",
    "limits",
    "wasi",
    "failure",
];

/// Its name and what it takes.
pub(super) fn stated(node: &Node<'_>) -> StatedNode {
    let name = match &node.name {
        Some(name) => Some(name.clone()),
        None => node.section.text("name"),
    };
    let name = name.map(|name| name.value).unwrap_or_default();
    StatedNode { name, line: node.section.line(), inputs: inputs(&node.section) }
}

/// `input`, with `key` and `columns`, or `inputs`.
fn inputs(section: &Section<'_>) -> Vec<StatedInput> {
    let only = StatedInput {
        port: None,
        from: None,
        line: section.line(),
        key: section.texts("key"),
        columns: columns(section),
    };
    if !section.has("inputs") {
        return only.of_each(section.text_or_texts("input"));
    }
    for key in ["input", "key", "columns"] {
        if section.has(key) {
            let what = section.describe(key);
            let problem = format!(
                "{what} does not go with `inputs`; write inputs = {{ NAME = {{ from = \"...\", \
                 key = [...], columns = {{ ... }} }} }}"
            );
            section.problem(section.line(), problem);
        }
    }
    let ports = section.open_section("inputs");
    let input = |(port, value): (Located<String>, &Spanned<DeValue<'_>>)| {
        let line = port.line;
        let (from, key, columns) = match value.get_ref() {
            DeValue::Table(_) => {
                let input = ports.section(&port.value, &["from", "key", "columns"]);
                if !input.has("from") {
                    input.problem(line, format!("{} lacks `from`", input.title()));
                }
                (input.text_or_texts("from"), input.texts("key"), columns(&input))
            }
            _ => (ports.text_or_texts_of(&port.value, value), Vec::new(), Vec::new()),
        };
        let input = StatedInput { port: Some(port), from: None, line, key, columns };
        // What is wrong with it has been told.
        if from.is_empty() { Vec::new() } else { input.of_each(from) }
    };
    ports.entries().into_iter().flat_map(input).collect()
}

/// Fields of the operator and the columns that they take.
fn columns(section: &Section<'_>) -> Vec<(Located<String>, Located<String>)> {
    let columns = section.open_section("columns");
    let column = |(field, value): (Located<String>, _)| {
        let column = columns.text_of(&field.value, value)?;
        Some((field, column))
    };
    columns.entries().into_iter().filter_map(column).collect()
}

/// `None`: something is wrong.
pub(super) fn operator(
    node: &Node<'_>,
    directory: &Path,
    parallelism: u32,
) -> Option<OperatorConfig> {
    let section = &node.section;
    let name = match &node.name {
        None => section.required_text("name").and_then(|name| section.name("name", name)),
        Some(name) => {
            if let Some(stated) = section.text("name") {
                let problem = format!("leave `name` out: the operator is called `{}`", name.value);
                section.problem(stated.line, problem);
            }
            Some(name.clone())
        }
    };
    let component = section.required_text("component");
    let config = json_object(&section.open_section("config"));
    let failure = [
        "policy",
        "isolated-rows",
        "restarts",
        "restart-window-ms",
        "restart-backoff-ms",
        "restart-backoff-limit-ms",
    ];
    let failure = section.section("failure", &failure);
    let (limits, wasi) = (limits(section), wasi(section, directory));
    let batch = section.section("batch", &["rows", "wait-ms"]);
    let batch_rows = batch.integer("rows", 1..=BATCH_ROWS_LIMIT).unwrap_or(8_192);
    let batch_wait_ms = batch.integer("wait-ms", 0..=BATCH_WAIT_LIMIT_MS).unwrap_or(0);
    let (restart, isolated_rows) = (restart(&failure), isolated_rows(&failure));
    let component = component?;
    Some(OperatorConfig {
        name: name?.value,
        parallelism,
        component: Located { value: directory.join(component.value), line: component.line },
        config,
        batch: BatchConfig {
            rows: usize::try_from(batch_rows).unwrap_or(usize::MAX),
            wait_ms: batch_wait_ms,
        },
        limits,
        wasi,
        restart,
        isolated_rows,
    })
}

/// What the operator gets of WASI, if the file says so.
fn wasi(operator: &Section<'_>, directory: &Path) -> Option<WasiGrant> {
    let section = operator.section("wasi", &["random-seed", "written-bytes", "directories"]);
    if !section.is_there() {
        return None;
    }
    let default = WasiGrant::default();
    let seed = section.integer("random-seed", 0..=SEED_LIMIT);
    let written = section.integer("written-bytes", 0..=WRITTEN_BYTES_LIMIT);
    let directories = section.open_section("directories");
    let entries = directories.entries();
    if entries.len() > DIRECTORIES_LIMIT {
        let message = format!("{} has more than {DIRECTORIES_LIMIT}", directories.title());
        section.problem(directories.line(), message);
    }
    let granted = entries.into_iter().filter_map(|(name, value)| {
        let what = directories.describe(&name.value);
        if !name.value.starts_with('/') || name.value.len() > 255 {
            let message = format!("{what} must begin with / and have 255 bytes at most");
            directories.problem(name.line, message);
        }
        let (path, access) = match value.get_ref() {
            DeValue::Table(_) => {
                let granted = directories.section(&name.value, &["path", "access"]);
                let choices = [("read", Access::Read), ("read-write", Access::ReadWrite)];
                let access = granted.choice("access", &choices);
                (granted.required_text("path")?, access)
            }
            _ => (directories.text_of(&name.value, value)?, None),
        };
        let access = access.unwrap_or(Access::Read);
        Some(DirectoryGrant { name: name.value, path: directory.join(path.value), access })
    });
    Some(WasiGrant {
        directories: granted.collect(),
        random_seed: seed.unwrap_or(default.random_seed),
        written_limit_bytes: written.unwrap_or(default.written_limit_bytes),
    })
}

/// How many rows may be set aside, if any.
fn isolated_rows(section: &Section<'_>) -> Option<u64> {
    let policy = section.choice("policy", &[("fail", false), ("isolate", true)]);
    let limit = section.integer("isolated-rows", 0..=ISOLATED_ROWS_LIMIT);
    if policy == Some(true) {
        return Some(limit.unwrap_or(1_000));
    }
    if limit.is_some() {
        let what = section.describe("isolated-rows");
        section.problem(section.line(), format!("{what} needs policy = \"isolate\""));
    }
    None
}

fn restart(section: &Section<'_>) -> RestartPolicy {
    let default = RestartPolicy::default();
    let time_ms = |key, default: u64| section.integer(key, 1..=TIME_LIMIT_MS).unwrap_or(default);
    RestartPolicy {
        limit: section.integer("restarts", 0..=RESTARTS_LIMIT).map_or(default.limit, to_u32),
        window_ms: time_ms("restart-window-ms", default.window_ms),
        backoff_ms: time_ms("restart-backoff-ms", default.backoff_ms),
        backoff_limit_ms: time_ms("restart-backoff-limit-ms", default.backoff_limit_ms),
    }
}

fn limits(operator: &Section<'_>) -> Limits {
    let known = [
        "memory-bytes",
        "table-elements",
        "handles",
        "call-timeout-ms",
        "call-fuel",
        "batch-bytes",
        "batch-rows",
        "compile-timeout-ms",
        "compile-memory-bytes",
    ];
    let section = operator.section("limits", &known);
    let default = Limits::default();
    let number = |key, most: u64, default: usize| {
        let stated = section.integer(key, 1..=most);
        stated.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let time_ms = |key, default: u64| section.integer(key, 1..=TIME_LIMIT_MS).unwrap_or(default);
    Limits {
        memory_bytes: number("memory-bytes", BYTES_LIMIT, default.memory_bytes),
        table_elements: number("table-elements", TABLE_ELEMENTS_LIMIT, default.table_elements),
        handles: number("handles", HANDLES_LIMIT, default.handles),
        call_timeout_ms: time_ms("call-timeout-ms", default.call_timeout_ms),
        call_fuel: section.integer("call-fuel", 1..=FUEL_LIMIT),
        batch_bytes: number("batch-bytes", BYTES_LIMIT, default.batch_bytes),
        batch_rows: number("batch-rows", u64::from(u32::MAX), default.batch_rows),
        compile_timeout_ms: time_ms("compile-timeout-ms", default.compile_timeout_ms),
        compile_memory_bytes: number(
            "compile-memory-bytes",
            COMPILE_BYTES_LIMIT,
            default.compile_memory_bytes,
        ),
    }
}

/// A free table as a JSON object.
fn json_object(section: &Section<'_>) -> String {
    let entry = |(key, value): (Located<String>, &Spanned<DeValue<'_>>)| {
        let json = json(section, &key.value, value)?;
        Some((key.value, json))
    };
    let entries = section.entries().into_iter().filter_map(entry);
    serde_json::Value::Object(entries.collect()).to_string()
}

fn json(
    section: &Section<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Option<serde_json::Value> {
    use serde_json::Value;
    Some(match value.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(integer) => {
            let parsed = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
            let parsed = parsed.map(Value::from);
            parsed.or_else(|| section.wrong_type(key, value, "a 64-bit whole number"))?
        }
        DeValue::Float(float) => {
            let parsed = float.as_str().parse::<f64>().ok();
            let number = parsed.and_then(serde_json::Number::from_f64);
            if number.is_none() {
                let (what, stated) = (section.describe(key), float.as_str());
                let message = format!("{what} is {stated}, and JSON has finite numbers alone");
                section.problem(section.line_of(value), message);
            }
            Value::Number(number?)
        }
        DeValue::Boolean(boolean) => Value::Bool(*boolean),
        DeValue::Datetime(datetime) => Value::String(datetime.to_string()),
        DeValue::Array(array) => {
            let values = array.iter().map(|value| json(section, key, value));
            Value::Array(values.collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let entries = table
                .iter()
                .map(|(key, value)| Some((key.to_string(), json(section, key.get_ref(), value)?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
    })
}

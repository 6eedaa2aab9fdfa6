//! `[operator]`: what to run.

use super::keys::Kind::{
    Any, Choice, Integer, Map, Table, Text, TextOr, TextOrTexts, Texts, TextsOr,
};
use super::keys::{Key, Presence, default, optional, required};
use super::section::Section;
use super::{
    BATCH_ROWS_LIMIT, BATCH_WAIT_LIMIT_MS, BYTES_LIMIT, BatchConfig, COMPILE_BYTES_LIMIT,
    DIRECTORIES_LIMIT, FUEL_LIMIT, HANDLES_LIMIT, ISOLATED_ROWS_LIMIT, Located, Node,
    OperatorConfig, PARALLELISM_LIMIT, RESTARTS_LIMIT, SEED_LIMIT, TABLE_ELEMENTS_LIMIT,
    TIME_LIMIT_MS, WRITTEN_BYTES_LIMIT, to_u32,
};
use crate::graph::{StatedInput, StatedNode};
use crate::restart::RestartPolicy;
use howdah_runtime::{Access, DirectoryGrant, Limits, WasiGrant};
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;

/// What it may have.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "name",
        kind: Text,
        presence: Presence::RequiredInShortForm,
        only: &[],
        meaning: "Letters, digits, `-` and single `_`; part of the names of its state tables. In \
                  `[operator.NAME]` it is that name",
    },
    required("component", Text, "The file of the WebAssembly component"),
    optional(
        "parallelism",
        Integer(1, PARALLELISM_LIMIT),
        "How many subtasks it has. Unless stated, that of the pipeline",
    ),
    optional(
        "input",
        TextOrTexts,
        "The source or operator whose rows it takes; `OPERATOR.OUTPUT` where that has several \
         outputs. A list takes the rows of all of them, of the same columns. May be left out where \
         there is only one it could be",
    ),
    optional(
        "inputs",
        Map(&TextsOr(INPUT)),
        "In place of `input`, `key` and `columns`, of an operator with several inputs: for each, \
         what it takes, or a table",
    ),
    optional(
        "key",
        Texts,
        "Columns that its key fields come from, in their order. Unless stated, those of their names",
    ),
    optional("columns", Map(&Text), "Fields of the operator and columns, where the names differ"),
    optional("config", Map(&Any), "What the operator reads as its configuration"),
    optional("batch", Table(BATCH), "How rows are gathered for a call"),
    optional("limits", Table(LIMITS), "What the component may take, in each subtask"),
    optional("wasi", Table(WASI), "What it gets of WASI, where the command line says --allow-wasi"),
    optional("failure", Table(FAILURE), "What happens when it traps, fails or goes past a limit"),
];

/// One of several inputs.
const INPUT: &[Key] = &[
    required("from", TextOrTexts, "The source or operator whose rows it takes, as in `input`"),
    optional("key", Texts, "Columns that its key fields come from, in their order"),
    optional("columns", Map(&Text), "Fields of the operator and columns, where the names differ"),
];

const BATCH: &[Key] = &[
    default("rows", Integer(1, BATCH_ROWS_LIMIT), "8192", "As many at most"),
    default(
        "wait-ms",
        Integer(0, BATCH_WAIT_LIMIT_MS),
        "0",
        "How long the first row waits for others. 0: not at all",
    ),
];

const LIMITS: &[Key] = &[
    default("memory-bytes", Integer(1, BYTES_LIMIT), "67108864", "Linear memory"),
    default(
        "table-elements",
        Integer(1, TABLE_ELEMENTS_LIMIT),
        "65536",
        "Functions that it calls by pointer",
    ),
    default(
        "handles",
        Integer(1, HANDLES_LIMIT),
        "1024",
        "Of states, timers and metrics, open at once",
    ),
    default(
        "call-timeout-ms",
        Integer(1, TIME_LIMIT_MS),
        "10000",
        "Wall time of one call; waiting for the disk does not count",
    ),
    optional(
        "call-fuel",
        Integer(1, FUEL_LIMIT),
        "About the WebAssembly instructions of one call, which are the same on every machine. \
         Unless stated they are not counted: that makes an operator some percent slower",
    ),
    default("batch-bytes", Integer(1, BYTES_LIMIT), "67108864", "What one call may hand over"),
    default("batch-rows", Integer(1, u32::MAX as u64), "1048576", "What one call may emit"),
    default(
        "compile-timeout-ms",
        Integer(1, TIME_LIMIT_MS),
        "300000",
        "Wall time to compile the component, once",
    ),
    default(
        "compile-memory-bytes",
        Integer(1, COMPILE_BYTES_LIMIT),
        "2147483648",
        "Memory to compile the component",
    ),
];

const WASI: &[Key] = &[
    default(
        "random-seed",
        Integer(0, SEED_LIMIT),
        "0",
        "Of its random numbers, which are no secret",
    ),
    default(
        "written-bytes",
        Integer(0, WRITTEN_BYTES_LIMIT),
        "67108864",
        "What a subtask may write to files in a run",
    ),
    optional(
        "directories",
        Map(&TextOr(DIRECTORY)),
        "The names that it has for directories, which begin with `/`; for each, the directory, or a \
         table. 16 at most. The command line must grant them, too: --allow-read, --allow-write",
    ),
];

const DIRECTORY: &[Key] = &[
    required("path", Text, "The directory"),
    default("access", Choice(&["read", "read-write"]), "\"read\"", "What may be done there"),
];

const FAILURE: &[Key] = &[
    default(
        "policy",
        Choice(&["fail", "isolate"]),
        "\"fail\"",
        "`isolate`: the rows that fail are set aside in `failed-rows/` of the state directory, and \
         the others proceed",
    ),
    optional(
        "isolated-rows",
        Integer(0, ISOLATED_ROWS_LIMIT),
        "With `isolate`: how many in a run, before it fails; 1000 unless stated",
    ),
    default(
        "restarts",
        Integer(0, RESTARTS_LIMIT),
        "3",
        "Restarts from the last checkpoint, in one window. 0: none",
    ),
    default("restart-window-ms", Integer(1, TIME_LIMIT_MS), "600000", "The window"),
    default(
        "restart-backoff-ms",
        Integer(1, TIME_LIMIT_MS),
        "500",
        "The wait before the first restart; it doubles with each",
    ),
    default("restart-backoff-limit-ms", Integer(1, TIME_LIMIT_MS), "60000", "The longest wait"),
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
                let input = ports.section(&port.value);
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
    let failure = section.section("failure");
    let (limits, wasi) = (limits(section), wasi(section, directory));
    let batch = section.section("batch");
    let batch_rows = batch.integer("rows").unwrap_or(8_192);
    let batch_wait_ms = batch.integer("wait-ms").unwrap_or(0);
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
    let section = operator.section("wasi");
    if !section.is_there() {
        return None;
    }
    let default = WasiGrant::default();
    let seed = section.integer("random-seed");
    let written = section.integer("written-bytes");
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
                let granted = directories.section(&name.value);
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
    let limit = section.integer("isolated-rows");
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
    let time_ms = |key, default: u64| section.integer(key).unwrap_or(default);
    RestartPolicy {
        limit: section.integer("restarts").map_or(default.limit, to_u32),
        window_ms: time_ms("restart-window-ms", default.window_ms),
        backoff_ms: time_ms("restart-backoff-ms", default.backoff_ms),
        backoff_limit_ms: time_ms("restart-backoff-limit-ms", default.backoff_limit_ms),
    }
}

fn limits(operator: &Section<'_>) -> Limits {
    let section = operator.section("limits");
    let default = Limits::default();
    let number = |key, default: usize| {
        let stated = section.integer(key);
        stated.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let time_ms = |key, default: u64| section.integer(key).unwrap_or(default);
    Limits {
        memory_bytes: number("memory-bytes", default.memory_bytes),
        table_elements: number("table-elements", default.table_elements),
        handles: number("handles", default.handles),
        call_timeout_ms: time_ms("call-timeout-ms", default.call_timeout_ms),
        call_fuel: section.integer("call-fuel"),
        batch_bytes: number("batch-bytes", default.batch_bytes),
        batch_rows: number("batch-rows", default.batch_rows),
        compile_timeout_ms: time_ms("compile-timeout-ms", default.compile_timeout_ms),
        compile_memory_bytes: number("compile-memory-bytes", default.compile_memory_bytes),
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

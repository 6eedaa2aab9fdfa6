//! `[source]`: what to read.

use super::kafka;
use super::section::{Section, enumerate};
use super::sink;
use super::{
    Acknowledge, FilterValue, FinalNewline, Format, HttpConfig, Located, Node, OnError,
    PARALLELISM_LIMIT, SourceConfig, SourceConnector, TIME_LIMIT_MS, connectors, to_u32,
};
use howdah_state::ColumnType;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;
use toml::de::DeValue;

/// What it may have.
pub(super) const KEYS: &[&str] = &[
    "connector",
    "parallelism",
    "path",
    "table",
    "port",
    "acknowledge",
    "body-bytes",
    "body-rows",
    "connections",
    "pending-bytes",
    "format",
    "follow",
    "events",
    "event-time",
    "watermark-delay-ms",
    "idle-after-ms",
    "on-error",
    "dead-letter",
    "final-newline",
    "filter",
    "rate-limit-rows-per-second",
    "schema",
    "brokers",
    "topic",
    "properties",
    "start",
    "bounded",
];

/// Keys that are not for every connector, and those that they are for.
const CONNECTOR_KEYS: &[(&str, &[&str])] = &[
    ("path", &["file", "paimon"]),
    ("format", &["file", "kafka"]),
    ("follow", &["file", "paimon"]),
    ("final-newline", &["file"]),
    ("table", &["paimon"]),
    ("port", &["http"]),
    ("acknowledge", &["http"]),
    ("body-bytes", &["http"]),
    ("body-rows", &["http"]),
    ("connections", &["http"]),
    ("pending-bytes", &["http"]),
    ("on-error", &["file", "paimon", "kafka", "nexmark"]),
    ("dead-letter", &["file", "paimon", "kafka", "nexmark"]),
    ("events", &["nexmark"]),
    ("brokers", &["kafka"]),
    ("topic", &["kafka"]),
    ("properties", &["kafka"]),
    ("start", &["kafka"]),
    ("bounded", &["kafka"]),
];

/// The most bytes of a body, and of bodies that wait.
const HTTP_BYTES_LIMIT: u64 = 1 << 32;
/// The most rows of a body.
const HTTP_ROWS_LIMIT: u64 = 10_000_000;
/// The most requests at a time.
const HTTP_CONNECTIONS_LIMIT: u64 = 10_000;

/// The most events of a generator; a number in TOML has 63 bits.
const EVENTS_LIMIT: u64 = i64::MAX.unsigned_abs();

/// What kind of source; what only other kinds have is refused.
fn connector(section: &Section<'_>) -> SourceConnector {
    let connector = section.choice(
        "connector",
        &[
            ("file", SourceConnector::File),
            ("paimon", SourceConnector::Paimon),
            ("http", SourceConnector::Http),
            ("nexmark", SourceConnector::Nexmark { events: None }),
            ("kafka", SourceConnector::Kafka),
        ],
    );
    let connector = connector.unwrap_or(SourceConnector::File);
    for (key, _) in section.entries() {
        let of = CONNECTOR_KEYS.iter().find(|(of, _)| *of == key.value).map(|(_, of)| *of);
        if let Some(of) = of.filter(|of| !of.contains(&connector.name())) {
            let of: Vec<String> = of.iter().map(|name| format!("\"{name}\"")).collect();
            let of: Vec<&str> = of.iter().map(String::as_str).collect();
            let (what, of) = (section.describe(&key.value), enumerate(&of, "or"));
            section.problem(key.line, format!("{what} is for connector = {of}; remove it"));
        }
    }
    match connector {
        SourceConnector::Nexmark { .. } => {
            SourceConnector::Nexmark { events: section.integer("events", 0..=EVENTS_LIMIT) }
        }
        other => other,
    }
}

/// `None`: something is wrong.
pub(super) fn source(
    node: &Node<'_>,
    directory: &Path,
    state_directory: &Path,
) -> Option<SourceConfig> {
    let section = &node.section;
    let connector = connector(section);
    let stated = match connector {
        SourceConnector::File | SourceConnector::Paimon => section.required_text("path"),
        SourceConnector::Kafka => section.text("topic"),
        other => Some(Located { value: other.name().to_owned(), line: section.line() }),
    };
    let http = (connector == SourceConnector::Http).then(|| http(section));
    let table = match connector {
        SourceConnector::Paimon => Some(sink::table_name(section)),
        _ => None,
    };
    let topic = (connector == SourceConnector::Kafka).then(|| kafka::source(section));
    let format = match connector {
        SourceConnector::File => section.choice("format", Format::CHOICES),
        _ => Some(Format::Csv),
    };
    let guessed = || {
        let stated = stated.as_ref().filter(|_| !section.has("format"))?;
        let format = Format::from_extension(Path::new(&stated.value));
        if format.is_none() {
            let problem = format!(
                "the extension of `{}` says no format; add format = \"csv\", \"ndjson\" or \
                 \"parquet\"",
                stated.value
            );
            section.problem(stated.line, problem);
        }
        format
    };
    let format = format.or_else(guessed);
    let final_newline = section.choice(
        "final-newline",
        &[("required", FinalNewline::Required), ("optional", FinalNewline::Optional)],
    );
    let event_time = section.text("event-time");
    let watermark_delay_ms = section.integer("watermark-delay-ms", 0..=TIME_LIMIT_MS);
    let idle_after_ms = section.integer("idle-after-ms", 0..=TIME_LIMIT_MS);
    let on_error = on_error(node, directory, state_directory);
    let filter = filter(&section.open_section("filter"));
    let rate_limit = section.integer("rate-limit-rows-per-second", 0..=1_000_000_000);
    let schema = schema(&section.open_section("schema"));
    let follow = section.boolean("follow").unwrap_or(false);
    let stated = stated?;
    let path = match connector {
        SourceConnector::Kafka => PathBuf::from(format!("topic {}", stated.value)),
        _ => directory.join(&stated.value),
    };
    let path = Located { value: path, line: stated.line };
    let is_file = connector == SourceConnector::File;
    if follow && is_file && !connectors::has_many(&path.value) {
        let what = section.describe("follow");
        let problem =
            format!("{what} is for a directory, or a pattern such as \"in/*.csv\"; name one");
        section.problem(section.line(), problem);
    }
    let table = match table {
        None => None,
        Some(name) => Some(name?),
    };
    let http = match http {
        None => None,
        Some(http) => Some(http?),
    };
    let stated_path = match &table {
        Some(table) => table.within(Path::new(&stated.value)).display().to_string(),
        None => stated.value,
    };
    let parallelism = section.integer("parallelism", 1..=PARALLELISM_LIMIT).map_or(1, to_u32);
    let can_be_shared = match connector {
        SourceConnector::File => connectors::has_many(&path.value),
        SourceConnector::Nexmark { .. } => true,
        SourceConnector::Paimon | SourceConnector::Http | SourceConnector::Kafka => false,
    };
    let what = section.describe("parallelism");
    if parallelism > 1 && !can_be_shared {
        let problem = format!(
            "{what} is for a directory, a pattern such as \"in/*.csv\", or generated events; others \
             are read by one subtask"
        );
        section.problem(section.line(), problem);
    }
    if parallelism > 1 && matches!(on_error, OnError::DeadLetter(_)) {
        let problem = format!(
            "{what} does not go with on-error = \"dead-letter\", whose file has one writer; take \
             on-error = \"skip\", or leave `parallelism` out"
        );
        section.problem(section.line(), problem);
    }
    Some(SourceConfig {
        name: node.name_or("source"),
        parallelism,
        connector,
        follow,
        path,
        http,
        table,
        stated_path,
        format: format?,
        topic: match topic {
            Some(topic) => Some(topic?),
            None => None,
        },
        event_time,
        watermark_delay_ms: watermark_delay_ms.unwrap_or(0),
        idle_after_ms: idle_after_ms.unwrap_or(0),
        on_error,
        final_newline: final_newline.unwrap_or(FinalNewline::Required),
        filter,
        rate_limit_rows_per_second: rate_limit.unwrap_or(0),
        schema,
    })
}

/// The port of an HTTP source, and its limits.
fn http(section: &Section<'_>) -> Option<HttpConfig> {
    let choices = [("checkpoint", Acknowledge::Checkpoint), ("received", Acknowledge::Received)];
    let acknowledge = section.choice("acknowledge", &choices).unwrap_or(Acknowledge::Checkpoint);
    let number = |key, limit, default| {
        let stated = section.integer(key, 1..=limit).unwrap_or(default);
        usize::try_from(stated).unwrap_or(usize::MAX)
    };
    let body_bytes = number("body-bytes", HTTP_BYTES_LIMIT, 8 << 20);
    let pending_bytes = number("pending-bytes", HTTP_BYTES_LIMIT, 64 << 20);
    let body_rows = number("body-rows", HTTP_ROWS_LIMIT, 100_000);
    let connections = number("connections", HTTP_CONNECTIONS_LIMIT, 64);
    for (key, problem) in [
        ("port", "the port of 127.0.0.1 that rows are sent to"),
        ("schema", "the types of the columns, as there are no rows to guess them from"),
    ] {
        if !section.has(key) {
            section
                .problem(section.line(), format!("{} lacks `{key}`, {problem}", section.title()));
        }
    }
    if body_bytes > pending_bytes {
        let what = section.describe("body-bytes");
        section.problem(section.line(), format!("{what} is more than pending-bytes; lower it"));
    }
    let port = section.integer("port", 1..=u64::from(u16::MAX))?;
    let port = u16::try_from(port).ok()?;
    Some(HttpConfig { port, acknowledge, body_bytes, body_rows, connections, pending_bytes })
}

fn on_error(node: &Node<'_>, directory: &Path, state_directory: &Path) -> OnError {
    let section = &node.section;
    let choices = [("fail", 0), ("skip", 1), ("dead-letter", 2)];
    let choice = section.choice("on-error", &choices);
    match (choice, section.text("dead-letter")) {
        (Some(2), None) => {
            let name = match &node.name {
                None => "dead-letter.ndjson".to_owned(),
                Some(name) => format!("dead-letter-{}.ndjson", name.value),
            };
            let path = state_directory.join(name);
            OnError::DeadLetter(Located { value: path, line: section.line() })
        }
        (Some(2) | None, Some(file)) => {
            OnError::DeadLetter(Located { value: directory.join(file.value), line: file.line })
        }
        (Some(choice), file) => {
            if let Some(file) = file {
                let what = section.describe("dead-letter");
                section.problem(file.line, format!("{what} needs on-error = \"dead-letter\""));
            }
            if choice == 1 { OnError::Skip } else { OnError::Fail }
        }
        (None, None) => OnError::Fail,
    }
}

fn filter(section: &Section<'_>) -> Vec<(Located<String>, FilterValue)> {
    let kept = |(column, value): (Located<String>, &Spanned<DeValue<'_>>)| {
        let wrong = |expected| section.wrong_type(&column.value, value, expected);
        let kept = match value.get_ref() {
            DeValue::Boolean(boolean) => Some(FilterValue::Boolean(*boolean)),
            DeValue::Integer(integer) => {
                let parsed = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
                let parsed = parsed.map(FilterValue::Integer);
                parsed.or_else(|| wrong("a 64-bit whole number"))
            }
            DeValue::Float(float) => {
                let parsed = float.as_str().parse().ok().map(FilterValue::Float);
                parsed.or_else(|| wrong("a float"))
            }
            DeValue::String(text) => Some(FilterValue::Text(text.clone().into_owned())),
            DeValue::Datetime(datetime) => Some(FilterValue::Text(datetime.to_string())),
            DeValue::Array(_) | DeValue::Table(_) => wrong("one value"),
        }?;
        Some((column, kept))
    };
    section.entries().into_iter().filter_map(kept).collect()
}

fn schema(section: &Section<'_>) -> Vec<(Located<String>, ColumnType)> {
    let typed = |(column, value): (Located<String>, &Spanned<DeValue<'_>>)| {
        let text = section.text_of(&column.value, value)?;
        match ColumnType::from_str(&text.value) {
            Ok(column_type) => Some((column, column_type)),
            Err(error) => {
                let close = suggestion_of_type(&text.value);
                let what = section.describe(&column.value);
                section.problem(text.line, format!("{what} is {error}{close}"));
                None
            }
        }
    };
    section.entries().into_iter().filter_map(typed).collect()
}

/// Names that other systems have for our types.
fn suggestion_of_type(text: &str) -> String {
    let known = match text.to_ascii_lowercase().as_str() {
        "int" | "integer" => "int32",
        "long" | "bigint" => "int64",
        "float" | "real" => "float32",
        "double" => "float64",
        "string" | "text" | "varchar" => "utf8",
        "bool" => "boolean",
        "bytes" | "varbinary" => "binary",
        "timestamp" | "datetime" => "timestamp-millis",
        _ => return String::new(),
    };
    format!("; did you mean `{known}`?")
}

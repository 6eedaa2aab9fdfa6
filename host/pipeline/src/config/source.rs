//! `[source]`: what to read.

use super::kafka;
use super::keys::Kind::{Boolean, Choice, Integer, Map, Scalar, Text};
use super::keys::{Key, default, optional};
use super::section::Section;
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
pub(super) const KEYS: &[Key] = &[
    default(
        "connector",
        Choice(&["file", "paimon", "http", "nexmark", "kafka"]),
        "\"file\"",
        "What kind of source it is",
    ),
    optional(
        "path",
        Text,
        "A file, a directory, or a pattern as in `in/*.csv`, which are all files there; or the \
         warehouse of the table. Must be there",
    )
    .only(&["file", "paimon"]),
    default(
        "parallelism",
        Integer(1, PARALLELISM_LIMIT),
        "1",
        "Subtasks that read it, of a directory, a pattern, a topic of Kafka or generated events. Of a \
         topic not more than it has partitions",
    ),
    optional("table", Text, "`DATABASE.TABLE`. Must be there").only(&["paimon"]),
    optional("port", Integer(1, 65_535), "Of 127.0.0.1, that rows are sent to. Must be there")
        .only(&["http"]),
    default(
        "acknowledge",
        Choice(&["checkpoint", "received"]),
        "\"checkpoint\"",
        "When rows are acknowledged: when a checkpoint has them, or at once",
    )
    .only(&["http"]),
    default("body-bytes", Integer(1, HTTP_BYTES_LIMIT), "8388608", "The longest body")
        .only(&["http"]),
    default("body-rows", Integer(1, HTTP_ROWS_LIMIT), "100000", "The most rows of a body")
        .only(&["http"]),
    default("connections", Integer(1, HTTP_CONNECTIONS_LIMIT), "64", "The most requests at a time")
        .only(&["http"]),
    default(
        "pending-bytes",
        Integer(1, HTTP_BYTES_LIMIT),
        "67108864",
        "The most bytes that wait for the pipeline",
    )
    .only(&["http"]),
    optional(
        "format",
        Choice(&["csv", "ndjson", "parquet", "json", "raw"]),
        "Of files `csv`, `ndjson` or `parquet`: unless stated, what the extension of the path says. \
         Of messages `json` unless stated, `csv` or `raw`",
    )
    .only(&["file", "kafka"]),
    default(
        "follow",
        Boolean,
        "false",
        "Wait for more files and lines, of a directory or pattern; or for more snapshots",
    )
    .only(&["file", "paimon"]),
    optional("events", Integer(0, EVENTS_LIMIT), "How many. Unless stated, it goes on for ever")
        .only(&["nexmark"]),
    optional(
        "event-time",
        Text,
        "The column with the event time. Unless stated, there are no event times and no watermark",
    ),
    default(
        "watermark-delay-ms",
        Integer(0, TIME_LIMIT_MS),
        "0",
        "How far rows may be behind the latest event time. Those further behind are late",
    ),
    default(
        "idle-after-ms",
        Integer(0, TIME_LIMIT_MS),
        "0",
        "Without rows for so long it holds no watermark back. 0: it does",
    ),
    default(
        "on-error",
        Choice(&["fail", "skip", "dead-letter"]),
        "\"fail\"",
        "What to do about a malformed row: stop, count it and go on, or set it aside in a file",
    )
    .only(&["file", "paimon", "kafka", "nexmark"]),
    optional(
        "dead-letter",
        Text,
        "The file for malformed rows. Unless stated, `dead-letter.ndjson` in the state directory, \
         or `dead-letter-NAME.ndjson` of a source with a name",
    )
    .only(&["file", "paimon", "kafka", "nexmark"]),
    default(
        "final-newline",
        Choice(&["required", "optional"]),
        "\"required\"",
        "Whether the last line of a text file must end with a line break. Without one it counts \
         as cut off",
    )
    .only(&["file"]),
    optional("filter", Map(&Scalar), "Columns and values: only rows that equal all of them"),
    default(
        "rate-limit-rows-per-second",
        Integer(0, 1_000_000_000),
        "0",
        "Rows read in a second, at most. 0: no limit",
    ),
    optional(
        "schema",
        Map(&Text),
        "Columns and their types: boolean, int32, int64, float32, float64, \
         decimal128(precision,scale), date, timestamp-millis, utf8, binary. Unless stated, what the \
         operator wants, else what a sample looks like",
    ),
    kafka::BROKERS,
    kafka::TOPIC,
    kafka::PROPERTIES,
    default(
        "start",
        Choice(&["earliest", "latest"]),
        "\"earliest\"",
        "Where a run without a checkpoint begins",
    )
    .only(kafka::KIND),
    default(
        "bounded",
        Boolean,
        "false",
        "Whether it ends with the messages that were there when it was opened first",
    )
    .only(kafka::KIND),
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
    section.refuse_unfit("connector", connector.name());
    match connector {
        SourceConnector::Nexmark { .. } => {
            SourceConnector::Nexmark { events: section.integer("events") }
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
    let watermark_delay_ms = section.integer("watermark-delay-ms");
    let idle_after_ms = section.integer("idle-after-ms");
    let on_error = on_error(node, directory, state_directory);
    let filter = filter(&section.open_section("filter"));
    let rate_limit = section.integer("rate-limit-rows-per-second");
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
    let parallelism = section.integer("parallelism").map_or(1, to_u32);
    let can_be_shared = match connector {
        SourceConnector::File => connectors::has_many(&path.value),
        SourceConnector::Nexmark { .. } | SourceConnector::Kafka => true,
        SourceConnector::Paimon | SourceConnector::Http => false,
    };
    let what = section.describe("parallelism");
    if parallelism > 1 && !can_be_shared {
        let problem = format!(
            "{what} is for a directory, a pattern such as \"in/*.csv\", a topic of Kafka, or \
             generated events; others are read by one subtask"
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
    let number = |key, default| {
        let stated = section.integer(key).unwrap_or(default);
        usize::try_from(stated).unwrap_or(usize::MAX)
    };
    let body_bytes = number("body-bytes", 8 << 20);
    let pending_bytes = number("pending-bytes", 64 << 20);
    let body_rows = number("body-rows", 100_000);
    let connections = number("connections", 64);
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
    let port = section.integer("port")?;
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

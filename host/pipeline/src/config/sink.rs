//! `[sink]`: where to write.

use super::kafka;
use super::keys::Kind::{Choice, Integer, Text, TextOrTexts, Texts};
use super::keys::{FORMATS, Key, default, optional, required};
use super::section::Section;
use super::{Format, Located, Node, SinkConfig, SinkType, TableConfig, TableName, to_u32};
use crate::graph::{StatedInput, StatedNode};
use std::path::Path;

/// What it may have.
pub(super) const KEYS: &[Key] = &[
    optional(
        "input",
        TextOrTexts,
        "The source or operator whose rows it takes; `OPERATOR.OUTPUT` where that has several \
         outputs. A list takes the rows of all of them, of the same columns. May be left out where \
         there is only one it could be",
    ),
    required("type", Choice(&["files", "paimon", "kafka", "stdout", "null"]), "What kind of sink it is"),
    optional(
        "path",
        Text,
        "The directory of the files, or the warehouse of the table. Must be there for both",
    )
    .only(&["files", "paimon"]),
    optional(
        "format",
        Choice(FORMATS),
        "Of files `csv` unless stated, of standard output `ndjson`. Standard output has no `parquet`",
    )
    .only(&["files", "stdout", "null"]),
    optional("table", Text, "`DATABASE.TABLE`, which is made if it is not there. Must be there")
        .only(&["paimon"]),
    optional(
        "primary-key",
        Texts,
        "Rows are changes of rows with these keys. Unless stated, rows are appended",
    )
    .only(&["paimon"]),
    default("buckets", Integer(1, BUCKETS_LIMIT), "1", "Of a table with a primary key that is made")
        .only(&["paimon"]),
    kafka::BROKERS,
    kafka::TOPIC,
    kafka::PROPERTIES,
    optional("key", Texts, "Columns whose values, as JSON, are the key of a message")
        .only(kafka::KIND),
    default(
        "delivery",
        Choice(&["exactly-once", "at-least-once"]),
        "\"exactly-once\"",
        "In a transaction for each checkpoint, or as soon as it is there",
    )
    .only(kafka::KIND),
];

/// Its name and what it takes.
pub(super) fn stated(node: &Node<'_>) -> StatedNode {
    let line = node.section.line();
    let input = StatedInput { port: None, from: None, line, key: Vec::new(), columns: Vec::new() };
    let inputs = input.of_each(node.section.text_or_texts("input"));
    StatedNode { name: node.name_or("sink"), line, inputs }
}

/// `None`: something is wrong.
pub(super) fn sink(node: &Node<'_>, directory: &Path) -> Option<SinkConfig> {
    let section = &node.section;
    if !section.has("type") {
        let problem = "lacks `type`: \"files\", \"paimon\", \"kafka\", \"stdout\" or \"null\"";
        section.problem(section.line(), format!("{} {problem}", section.title()));
    }
    let sink_type = section.choice("type", SinkType::CHOICES);
    if let Some(sink_type) = sink_type {
        section.refuse_unfit("type", sink_type.name());
    }
    let stated = section.text("path");
    let table = sink_type.and_then(|sink_type| table(section, sink_type));
    let stated_path = stated.as_ref().map(|stated| match &table {
        Some(table) => table.name.within(Path::new(&stated.value)).display().to_string(),
        None => stated.value.clone(),
    });
    let path =
        stated.map(|stated| Located { value: directory.join(stated.value), line: stated.line });
    match (sink_type, &path) {
        (Some(SinkType::Files), None) if !section.has("path") => {
            let title = section.title();
            let problem = format!("{title} lacks `path`, the directory that the files go to");
            section.problem(section.line(), problem);
        }
        (Some(SinkType::Paimon), None) if !section.has("path") => {
            let title = section.title();
            let problem = format!("{title} lacks `path`, the warehouse that the table is in");
            section.problem(section.line(), problem);
        }
        _ => {}
    }
    let format = section.choice("format", Format::CHOICES);
    let sink_type = sink_type?;
    let default = if sink_type == SinkType::Files { Format::Csv } else { Format::Ndjson };
    let format = format.unwrap_or(default);
    if sink_type == SinkType::Stdout && format == Format::Parquet {
        let problem = "standard output takes format = \"csv\" or \"ndjson\", not parquet";
        section.problem(section.line(), problem);
    }
    let topic = match sink_type {
        SinkType::Kafka => Some(kafka::sink(section)?),
        _ => None,
    };
    let topic_name = topic.as_ref().map(|topic| topic.kafka.topic.value.clone());
    let stated_path = stated_path.or(topic_name);
    let (name, line) = (node.name_or("sink"), section.line());
    Some(SinkConfig { name, line, sink_type, path, stated_path, table, topic, format })
}

/// The most buckets of a table that is made.
const BUCKETS_LIMIT: u64 = 1_024;

/// The table of a Paimon sink; what other sinks do not have is refused.
fn table(section: &Section<'_>, sink_type: SinkType) -> Option<TableConfig> {
    if sink_type != SinkType::Paimon {
        return None;
    }
    let name = table_name(section);
    let primary_key = section.texts("primary-key");
    let buckets = section.integer("buckets");
    Some(TableConfig {
        name: name?,
        primary_key: primary_key.into_iter().map(|column| column.value).collect(),
        buckets: buckets.map_or(1, to_u32),
    })
}

/// The name of a table, with its database.
pub(super) fn table_name(section: &Section<'_>) -> Option<TableName> {
    let stated = section.required_text("table")?;
    let Some((database, table)) = stated.value.split_once('.') else {
        let (what, name) = (section.describe("table"), &stated.value);
        let problem =
            format!("{what} is `{name}`; it must name the database, too: \"default.{name}\"");
        section.problem(stated.line, problem);
        return None;
    };
    Some(TableName { database: database.to_owned(), table: table.to_owned() })
}

//! `[sink]`: where to write.

use super::{Format, Located, Node, SinkConfig, SinkType};
use crate::graph::{StatedInput, StatedNode};
use std::path::Path;

/// What it may have.
pub(super) const KEYS: &[&str] = &["input", "type", "path", "format"];

/// Its name and what it takes.
pub(super) fn stated(node: &Node<'_>) -> StatedNode {
    let line = node.section.line();
    let input = StatedInput {
        port: None,
        from: node.section.text("input"),
        line,
        key: Vec::new(),
        columns: Vec::new(),
    };
    StatedNode { name: node.name_or("sink"), line, inputs: vec![input] }
}

/// `None`: something is wrong.
pub(super) fn sink(node: &Node<'_>, directory: &Path) -> Option<SinkConfig> {
    let section = &node.section;
    if !section.has("type") {
        let problem =
            format!("{} lacks `type`: \"files\", \"stdout\" or \"null\"", section.title());
        section.problem(section.line(), problem);
    }
    let sink_type = section.choice("type", SinkType::CHOICES);
    let stated = section.text("path");
    let stated_path = stated.as_ref().map(|stated| stated.value.clone());
    let path =
        stated.map(|stated| Located { value: directory.join(stated.value), line: stated.line });
    match (sink_type, &path) {
        (Some(SinkType::Files), None) if !section.has("path") => {
            let title = section.title();
            let problem = format!("{title} lacks `path`, the directory that the files go to");
            section.problem(section.line(), problem);
        }
        (Some(SinkType::Stdout | SinkType::Null), Some(path)) => {
            let what = section.describe("path");
            let problem = format!("{what} is for type = \"files\" alone; remove it");
            section.problem(path.line, problem);
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
    let (name, line) = (node.name_or("sink"), section.line());
    Some(SinkConfig { name, line, sink_type, path, stated_path, format })
}

//! Prints rows that differ between two versions, and counts them.

use crate::failure::Result;
use anyhow::Context;
use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;
use howdah_runtime::printable;
use howdah_state::{ChangedRows, RowChange};
use indicatif::HumanCount;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;

/// How differences are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people: `+` added, `-` removed, `~` changed.
    Text,
    /// One JSON object a line: each row that differs, at the end the counts of each table.
    Json,
}

/// What differs so far.
pub(crate) struct Differences {
    /// Rows of each table that are shown.
    limit: u64,
    output: Output,
    counts: Vec<Counts>,
}

/// Of a table.
#[derive(Debug, Default)]
struct Counts {
    table: String,
    added: u64,
    removed: u64,
    changed: u64,
}

impl Counts {
    fn all(&self) -> u64 {
        self.added + self.removed + self.changed
    }
}

impl Differences {
    pub(crate) fn new(limit: Option<u64>, output: Output) -> Self {
        Self { limit: limit.unwrap_or(u64::MAX), output, counts: Vec::new() }
    }

    /// The rows that follow are of this table.
    pub(crate) fn begin(&mut self, table: &str) {
        self.counts.push(Counts { table: table.to_owned(), ..Counts::default() });
    }

    /// Counts rows, and prints those that are within the limit.
    pub(crate) fn rows(&mut self, rows: &ChangedRows) -> Result<()> {
        let Some(counts) = self.counts.last_mut() else { return Ok(()) };
        let left = usize::try_from(self.limit.saturating_sub(counts.all())).unwrap_or(usize::MAX);
        let shown = left.min(rows.changes.len());
        if shown > 0 {
            let text = match self.output {
                Output::Text => text(&counts.table, rows, shown, counts.all() == 0)?,
                Output::Json => lines(&counts.table, rows, shown)?,
            };
            write!(std::io::stdout(), "{text}")?;
        }
        for change in &rows.changes {
            *match change {
                RowChange::Added => &mut counts.added,
                RowChange::Removed => &mut counts.removed,
                RowChange::Changed => &mut counts.changed,
            } += 1;
        }
        Ok(())
    }

    /// Prints the counts of all tables.
    pub(crate) fn counts(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        for Counts { table, added, removed, changed } in &self.counts {
            match self.output {
                Output::Text => writeln!(
                    out,
                    "{table}: {} added, {} removed, {} changed",
                    HumanCount(*added),
                    HumanCount(*removed),
                    HumanCount(*changed)
                )?,
                Output::Json => {
                    let line = json!({
                        "table": table, "added": added, "removed": removed, "changed": changed,
                    });
                    writeln!(out, "{line}")?;
                }
            }
        }
        Ok(())
    }

    /// How many rows differ.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(Counts::all).sum()
    }
}

/// Without the key group, which follows from the others.
fn named(key: &RecordBatch) -> anyhow::Result<RecordBatch> {
    let columns: Vec<usize> = (1..key.num_columns()).collect();
    key.project(&columns).context("cannot show a key")
}

fn text(table: &str, rows: &ChangedRows, shown: usize, first: bool) -> anyhow::Result<String> {
    let mut text = if first { format!("{table}\n") } else { String::new() };
    let (keys, before, after) =
        (words(&named(&rows.key)?)?, words(&rows.before)?, words(&rows.after)?);
    let cells = keys.iter().zip(before.iter().zip(&after));
    for (change, (key, (before, after))) in rows.changes.iter().zip(cells).take(shown) {
        let key = key.iter().map(|(name, value)| format!("{name}={value}"));
        let key = key.collect::<Vec<_>>().join(" ");
        let all = |values: &[(String, String)]| {
            let named = values.iter().map(|(name, value)| format!("{name}={value}"));
            named.collect::<Vec<_>>().join(" ")
        };
        // Writing to a string does not fail.
        let _ = match change {
            RowChange::Added => writeln!(text, "+ {key}: {}", all(after)),
            RowChange::Removed => writeln!(text, "- {key}: {}", all(before)),
            RowChange::Changed => {
                let changed = before.iter().zip(after).filter(|(before, after)| before != after);
                let changed = changed
                    .map(|((name, before), (_, after))| format!("{name} {before} -> {after}"));
                writeln!(text, "~ {key}: {}", changed.collect::<Vec<_>>().join(", "))
            }
        };
    }
    Ok(text)
}

/// For each row the names and values of its columns.
fn words(batch: &RecordBatch) -> anyhow::Result<Vec<Vec<(String, String)>>> {
    let options = FormatOptions::default().with_null("null");
    let schema = batch.schema();
    let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let formatters = formatters.collect::<Result<Vec<_>, _>>().context("cannot show a row")?;
    let row = |row| {
        let named = schema.fields().iter().zip(&formatters);
        // A value stays on its line, and gives no orders to the terminal.
        let shown =
            |it: &ArrayFormatter<'_>| printable(&it.value(row).to_string()).replace('\n', "\\n");
        named.map(|(field, it)| (field.name().clone(), shown(it))).collect()
    };
    Ok((0..batch.num_rows()).map(row).collect())
}

fn lines(table: &str, rows: &ChangedRows, shown: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    let keys = objects(&named(&rows.key)?)?;
    let (before, after) = (objects(&rows.before)?, objects(&rows.after)?);
    let cells = keys.into_iter().zip(before.into_iter().zip(after));
    for (change, (key, (before, after))) in rows.changes.iter().zip(cells).take(shown) {
        // As text: a number that is read again may have more digits than a number here has. Writing to
        // a string does not fail.
        let (table, change_name) = (json!(table), json!(change));
        let _ = write!(text, "{{\"table\":{table},\"change\":{change_name},\"key\":{key}");
        if *change != RowChange::Added {
            let _ = write!(text, ",\"before\":{before}");
        }
        if *change != RowChange::Removed {
            let _ = write!(text, ",\"after\":{after}");
        }
        text.push_str("}\n");
    }
    Ok(text)
}

/// Each row as the text of a JSON object, with its nulls.
fn objects(batch: &RecordBatch) -> anyhow::Result<Vec<String>> {
    if batch.num_columns() == 0 {
        return Ok(vec!["{}".to_owned(); batch.num_rows()]);
    }
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(batch).and_then(|()| writer.finish()).context("cannot write JSON")?;
    let text = String::from_utf8(writer.into_inner()).context("JSON that is no text")?;
    Ok(text.lines().map(str::to_owned).collect())
}

//! The pipeline files that are measured, and the events that they read.

use std::fmt;

/// The operator of q18.
pub(super) const COMPONENT: &str = "last-bid.wasm";

/// The columns of an event: name, type here, type in Flink.
pub(super) const COLUMNS: [(&str, &str, &str); 23] = [
    ("event_type", "int32", "INT"),
    ("seq", "int64", "BIGINT"),
    ("date_time", "timestamp-millis", "TIMESTAMP(3)"),
    ("p_id", "int64", "BIGINT"),
    ("name", "utf8", "STRING"),
    ("email", "utf8", "STRING"),
    ("card", "utf8", "STRING"),
    ("city", "utf8", "STRING"),
    ("state", "utf8", "STRING"),
    ("a_id", "int64", "BIGINT"),
    ("item_name", "utf8", "STRING"),
    ("description", "utf8", "STRING"),
    ("initial_bid", "int64", "BIGINT"),
    ("reserve", "int64", "BIGINT"),
    ("expires", "timestamp-millis", "TIMESTAMP(3)"),
    ("seller", "int64", "BIGINT"),
    ("category", "int64", "BIGINT"),
    ("auction", "int64", "BIGINT"),
    ("bidder", "int64", "BIGINT"),
    ("price", "int64", "BIGINT"),
    ("channel", "utf8", "STRING"),
    ("url", "utf8", "STRING"),
    ("extra", "utf8", "STRING"),
];

/// Where events come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Csv,
    Ndjson,
    Parquet,
    /// Made in the process.
    Generated,
}

impl Source {
    pub(super) const ALL: [Self; 4] = [Self::Csv, Self::Ndjson, Self::Parquet, Self::Generated];

    /// The format of its files, if it has any.
    pub(super) fn format(self) -> Option<&'static str> {
        match self {
            Self::Csv => Some("csv"),
            Self::Ndjson => Some("ndjson"),
            Self::Parquet => Some("parquet"),
            Self::Generated => None,
        }
    }

    /// The name of its file of so many events.
    pub(super) fn file(self, events: u64) -> String {
        format!("events-{events}.{}", self.format().unwrap_or_default())
    }

    /// `[source]`.
    fn section(self, events: u64) -> String {
        match self {
            Self::Generated => format!("[source]\nconnector = \"nexmark\"\nevents = {events}\n"),
            _ => format!("[source]\npath = \"{}\"\n", self.file(events)),
        }
    }

    /// `[source.schema]`, where the types of columns would be guessed.
    fn schema(self) -> String {
        if matches!(self, Self::Parquet | Self::Generated) {
            return String::new();
        }
        let columns = COLUMNS.map(|(name, data_type, _)| format!("{name} = \"{data_type}\"\n"));
        format!("[source.schema]\n{}", columns.concat())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "CSV",
            Self::Ndjson => "NDJSON",
            Self::Parquet => "Parquet",
            Self::Generated => "generated events",
        })
    }
}

/// A pipeline to nowhere. Shown as its file, or, in the alternate form, in a few words.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    source: Source,
    events: u64,
    /// Whether its operator is that of q18; else it has none.
    is_q18: bool,
    parallelism: u32,
    interval_ms: u64,
    /// Rows a second, at most; 0: no limit.
    rate: u64,
}

/// All columns of all events, without an operator.
pub(super) fn pass_through(source: Source, events: u64) -> Pipeline {
    Pipeline { source, events, is_q18: false, parallelism: 1, interval_ms: 500, rate: 0 }
}

/// The last bid of each bidder on each auction (Nexmark query 18).
pub(super) fn q18(source: Source, events: u64) -> Pipeline {
    Pipeline { is_q18: true, ..pass_through(source, events) }
}

impl Pipeline {
    pub(super) fn parallelism(self, parallelism: u32) -> Self {
        Self { parallelism, ..self }
    }

    pub(super) fn interval_ms(self, interval_ms: u64) -> Self {
        Self { interval_ms, ..self }
    }

    pub(super) fn rate(self, rate: u64) -> Self {
        Self { rate, ..self }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, events, is_q18, parallelism, interval_ms, rate } = self;
        if f.alternate() {
            let name = if *is_q18 { "q18" } else { "pass-through" };
            return write!(
                f,
                "{name} of {events} events ({source}), parallelism {parallelism}, {interval_ms} ms"
            );
        }
        write!(
            f,
            "name = \"bench\"\nparallelism = {parallelism}\nstate-directory = \"state\"\n\n\
             [checkpoint]\ninterval-ms = {interval_ms}\n\n{}",
            source.section(*events)
        )?;
        if *rate > 0 {
            writeln!(f, "rate-limit-rows-per-second = {rate}")?;
        }
        if *is_q18 {
            write!(
                f,
                "event-time = \"date_time\"\nwatermark-delay-ms = 1000\n\n\
                 [source.filter]\nevent_type = 2\n\n\
                 [operator]\nname = \"last-bid\"\ncomponent = \"{COMPONENT}\"\n"
            )?;
        } else {
            write!(f, "\n{}", source.schema())?;
        }
        write!(f, "\n[sink]\ntype = \"null\"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_file_says_what_was_chosen() {
        let text = q18(Source::Generated, 7).parallelism(2).interval_ms(100).rate(9).to_string();
        for line in [
            "parallelism = 2",
            "interval-ms = 100",
            "events = 7",
            "rate-limit-rows-per-second = 9",
            "component = \"last-bid.wasm\"",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in:\n{text}");
        }
        let text = pass_through(Source::Csv, 7).to_string();
        assert!(text.contains("path = \"events-7.csv\"") && !text.contains("[operator]"), "{text}");
    }
}

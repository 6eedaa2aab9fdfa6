//! Where rows of a source come from, for what is said of them.

use crate::config::{Format, SourceConfig, SourceConnector};
use std::fmt;
use std::sync::Arc;

/// What rows are read from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    name: String,
    /// What rows are counted by.
    unit: &'static str,
}

impl Origin {
    pub(crate) fn of(config: &SourceConfig) -> Self {
        let path = || config.path.value.display().to_string();
        match (config.connector, config.format) {
            (SourceConnector::Nexmark { .. }, _) => {
                Self { name: "the Nexmark generator".to_owned(), unit: "event" }
            }
            (SourceConnector::Http, _) => {
                let port = config.http.as_ref().map_or(0, |http| http.port);
                Self { name: format!("the HTTP port {port}"), unit: "row" }
            }
            (SourceConnector::Paimon, _) => {
                Self { name: format!("the table {}", config.stated_path), unit: "row" }
            }
            (SourceConnector::Kafka, _) => Self { name: path(), unit: "message" },
            (SourceConnector::File, Format::Parquet) => Self { name: path(), unit: "row" },
            (SourceConnector::File, Format::Csv | Format::Ndjson) => {
                Self { name: path(), unit: "line" }
            }
        }
    }

    /// A partition of a topic.
    #[cfg(feature = "kafka")]
    pub(crate) fn of_partition(topic: &str, partition: i32) -> Self {
        Self { name: format!("topic {topic}, partition {partition}"), unit: "offset" }
    }

    /// A file of lines.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn of_lines(name: &str) -> Self {
        Self { name: name.to_owned(), unit: "line" }
    }

    /// The path of a file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Where each row of a batch is in its source. Rows of an operator have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    runs: Vec<Run>,
}

/// Rows that follow each other in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    origin: Arc<Origin>,
    /// The line that each row starts on, or its number where there are no lines, from 1.
    numbers: Vec<u64>,
}

impl Lines {
    pub(crate) fn new(origin: &Arc<Origin>, numbers: Vec<u64>) -> Self {
        Self { runs: vec![Run { origin: Arc::clone(origin), numbers }] }
    }

    /// Lines of a file.
    #[cfg(test)]
    pub(crate) fn of(name: &str, numbers: impl IntoIterator<Item = u64>) -> Self {
        Self::new(&Arc::new(Origin::of_lines(name)), numbers.into_iter().collect())
    }

    /// Those of some rows, which are in ascending order.
    pub(crate) fn take(&self, rows: &[u32]) -> Self {
        let index = |row: &u32| usize::try_from(*row).unwrap_or(usize::MAX);
        let (mut start, mut rest) = (0, rows);
        let mut runs = Vec::with_capacity(self.runs.len());
        for Run { origin, numbers } in &self.runs {
            let end = start + numbers.len();
            let (of_run, following) = rest.split_at(rest.partition_point(|row| index(row) < end));
            let number = |row: &u32| numbers.get(index(row) - start).copied().unwrap_or_default();
            let numbers: Vec<u64> = of_run.iter().map(number).collect();
            if !numbers.is_empty() {
                runs.push(Run { origin: Arc::clone(origin), numbers });
            }
            (start, rest) = (end, following);
        }
        Self { runs }
    }

    /// Adds those of the rows that follow.
    pub(crate) fn append(&mut self, following: Self) {
        for run in following.runs {
            match self.runs.last_mut() {
                Some(last) if Arc::ptr_eq(&last.origin, &run.origin) => {
                    last.numbers.extend_from_slice(&run.numbers);
                }
                _ => self.runs.push(run),
            }
        }
    }

    /// What each row comes from, and its line there.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Origin, u64)> {
        self.runs.iter().flat_map(|run| run.numbers.iter().map(|number| (&*run.origin, *number)))
    }

    /// `line 17 of events.csv`, or the first and the last of several; `None`: they have none.
    pub(crate) fn describe(&self) -> Option<String> {
        let count: usize = self.runs.iter().map(|run| run.numbers.len()).sum();
        let (origin, first) = self.iter().next()?;
        let (last_origin, last) = self.iter().next_back()?;
        let unit = origin.unit;
        Some(if count == 1 {
            format!("{unit} {first} of {origin}")
        } else if origin == last_origin {
            format!("{count} rows, from {unit} {first} to {last} of {origin}")
        } else {
            format!("{count} rows, from {unit} {first} of {origin} to {last} of {last_origin}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines 7, 9 and 12 of one file, and 2 and 3 of the next.
    fn of_two_files() -> Lines {
        let mut lines = Lines::default();
        let first = Arc::new(Origin::of_lines("a.csv"));
        lines.append(Lines::new(&first, vec![7]));
        lines.append(Lines::new(&first, vec![9, 12]));
        lines.append(Lines::of("b.csv", [2, 3]));
        lines
    }

    fn places(lines: &Lines) -> Vec<String> {
        lines.iter().map(|(origin, line)| format!("{origin}:{line}")).collect()
    }

    #[test]
    fn rows_keep_their_file_and_line_when_they_are_gathered_and_split() {
        let lines = of_two_files();
        assert_eq!(places(&lines), ["a.csv:7", "a.csv:9", "a.csv:12", "b.csv:2", "b.csv:3"]);
        assert_eq!(lines.runs.len(), 2);
        assert_eq!(places(&lines.take(&[1, 3])), ["a.csv:9", "b.csv:2"]);
        assert_eq!(places(&lines.take(&[3, 4])), ["b.csv:2", "b.csv:3"]);
        assert_eq!(places(&lines.take(&[])), [""; 0]);
        assert_eq!(places(&Lines::default().take(&[0, 1])), [""; 0]);
    }

    #[test]
    fn rows_are_named_by_line_or_number() {
        let lines = of_two_files();
        let told = |lines: Lines| lines.describe().expect("told");
        assert_eq!(told(lines.take(&[0])), "line 7 of a.csv");
        assert_eq!(told(lines.take(&[0, 1, 2])), "3 rows, from line 7 to 12 of a.csv");
        assert_eq!(told(lines), "5 rows, from line 7 of a.csv to 3 of b.csv");
        let parquet = Arc::new(Origin { name: "a.parquet".to_owned(), unit: "row" });
        assert_eq!(told(Lines::new(&parquet, vec![7])), "row 7 of a.parquet");
        assert_eq!(Lines::default().describe(), None);
    }
}

//! DuckDB, which answers the queries over the same events.

use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// `tests/oracles/nexmark_outputs.py`, which has read the events.
pub(super) struct Oracle {
    process: Child,
    /// Always there; closed to end the process.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// An output beside the answer, as multisets of rows.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Comparison {
    rows: i64,
    expected_rows: u64,
    /// Distinct rows that are there too often or too rarely.
    differing: u64,
    /// The first of them.
    differences: Vec<Difference>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Difference {
    /// How often it is there beyond what is expected; less than 0: how often it is missing.
    times: i64,
    row: serde_json::Map<String, serde_json::Value>,
}

/// A line that the oracle prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Compared(Comparison),
    Failed { error: String },
}

impl Oracle {
    /// Starts it over a file of so many events.
    pub(super) fn start(workspace: &Workspace, events: &Path, count: u64) -> Result<Self> {
        let python = workspace.oracle_python();
        let mut process = Command::new(&python)
            .arg(workspace.root.join("tests/oracles/nexmark_outputs.py"))
            .arg(events)
            .args(["--events", &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}: cargo xtask setup", python.display()))?;
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().context("the oracle has no output")?);
        let mut oracle = Self { process, requests, answers };
        // It says that it has read the events.
        oracle.line()?;
        Ok(oracle)
    }

    /// Compares the files of a directory with the answer to a query.
    pub(super) fn compare(&mut self, query: &str, output: &Path) -> Result<Comparison> {
        let requests = self.requests.as_mut().context("the oracle has no input")?;
        // Where it has ended, what it did not answer says so.
        let _ = writeln!(requests, "{query} {}", output.display());
        let line = self.line()?;
        match serde_json::from_str(&line).with_context(|| format!("the oracle says: {line}"))? {
            Answer::Compared(comparison) => Ok(comparison),
            Answer::Failed { error } => bail!("the output cannot be compared: {error}"),
        }
    }

    /// The next line that it prints.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("cannot read from the oracle")?;
        if line.is_empty() {
            bail!("the oracle has ended; above is why");
        }
        Ok(line)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // It ends when nothing more is asked.
        self.requests = None;
        let _ = self.process.wait();
    }
}

impl Comparison {
    pub(super) fn is_exact(&self) -> bool {
        self.differing == 0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} rows  ", self.rows)?;
        if self.is_exact() {
            return f.write_str("ok");
        }
        write!(f, "DIFFERS: {} expected, {} differ", self.expected_rows, self.differing)?;
        for Difference { times, row } in &self.differences {
            let what = if *times < 0 { "missing" } else { "not expected" };
            let row = serde_json::Value::Object(row.clone());
            write!(f, "\n    {what}, {} times: {row}", times.unsigned_abs())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> String {
        serde_json::from_str::<Comparison>(line).unwrap().to_string()
    }

    #[test]
    fn rows_that_differ_are_told_with_how_often() {
        let exact = r#"{"rows": 14, "expected_rows": 14, "differing": 0, "differences": []}"#;
        assert_eq!(text(exact), "      14 rows  ok");
        let wrong = r#"{"rows": 13, "expected_rows": 14, "differing": 2, "differences": [
            {"times": -2, "row": {"num": "7"}}, {"times": 1, "row": {"num": "8"}}]}"#;
        let told = "      13 rows  DIFFERS: 14 expected, 2 differ\n    \
                    missing, 2 times: {\"num\":\"7\"}\n    not expected, 1 times: {\"num\":\"8\"}";
        assert_eq!(text(wrong), told);
    }

    /// Three bids, the first two of which are of one bidder on one auction.
    const BIDS: &str = "\
event_type,seq,date_time,p_id,name,email,card,city,state,a_id,item_name,description,initial_bid,reserve,\
expires,seller,category,auction,bidder,price,channel,url,extra
2,0,2023-11-14 22:13:20.000,,,,,,,,,,,,,,,123,7,10,Apple,https://a/b,x
2,1,2023-11-14 22:13:20.000,,,,,,,,,,,,,,,123,7,11,Apple,https://a/b,x
2,2,2023-11-14 22:13:20.001,,,,,,,,,,,,,,,123,8,10,Apple,https://a/b,x
";

    /// What is said of these lines as the output of a query over the bids.
    fn compared(query: &str, lines: &[&str]) -> Result<String> {
        let directory = tempfile::tempdir()?;
        let events = directory.path().join("events.csv");
        std::fs::write(&events, BIDS)?;
        std::fs::write(directory.path().join("part-1-0.ndjson"), lines.join("\n") + "\n")?;
        let mut oracle = Oracle::start(&Workspace::find()?, &events, 3)?;
        Ok(oracle.compare(query, directory.path())?.to_string())
    }

    #[test]
    fn rows_are_compared_as_often_as_they_are_there() {
        let (ten, eleven) = (r#"{"auction":123,"price":10}"#, r#"{"auction":123,"price":11}"#);
        assert_eq!(compared("q2", &[ten, eleven, ten]).unwrap(), "       3 rows  ok");
        let wrong = compared("q2", &[ten, eleven, eleven]).unwrap();
        assert!(wrong.contains("3 rows  DIFFERS: 3 expected, 2 differ"), "{wrong}");
        assert!(wrong.contains(r#"missing, 1 times: {"auction":"123","price":"10"}"#), "{wrong}");
        assert!(wrong.contains("not expected, 1 times"), "{wrong}");
    }

    #[test]
    fn a_changelog_comes_to_what_it_adds_less_what_it_removes() {
        let row = |kind: &str, bidder: u32, price: u32, millis: u32| {
            format!(
                r#"{{"auction":123,"bidder":{bidder},"price":{price},"channel":"Apple","url":"https://a/b","date_time":"2023-11-14 22:13:20.00{millis}","extra":"x","op":"{kind}"}}"#
            )
        };
        let [first, gone, second, other] =
            [row("+I", 7, 10, 0), row("-U", 7, 10, 0), row("+U", 7, 11, 0), row("+I", 8, 10, 1)];
        let exact = compared("q18", &[&first, &gone, &second, &other]).unwrap();
        assert_eq!(exact, "       2 rows  ok");
        let wrong = compared("q18", &[&first, &second, &other]).unwrap();
        assert!(wrong.contains("3 rows  DIFFERS: 2 expected, 1 differ"), "{wrong}");
    }

    #[test]
    fn an_output_with_other_columns_cannot_be_compared() {
        let error = compared("q2", &[r#"{"auction":123,"bidder":7}"#]).unwrap_err().to_string();
        assert!(error.contains("its columns are auction, bidder"), "{error}");
    }
}

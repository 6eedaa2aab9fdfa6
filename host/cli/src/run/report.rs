//! What a run prints: progress, events and the summary.

use super::Output;
use crate::failure::Result;
use anyhow::Context;
use howdah_pipeline::{PipelineConfig, Progress, SourceConfig, Summary};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) fn progress_text(progress: &Progress) -> String {
    let checkpoint = match progress.checkpoint {
        Some(checkpoint) => format!("checkpoint {checkpoint}"),
        None => "no checkpoint yet".to_owned(),
    };
    format!(
        "{} rows in, {} out, {checkpoint}",
        HumanCount(progress.rows_in),
        HumanCount(progress.rows_out)
    )
}

/// A line of `--output json` beside the pipeline's own events.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line<'a> {
    Progress(&'a Progress),
    /// The HTTP port is open.
    Listening {
        address: SocketAddr,
    },
    /// It failed, and is started again after a wait.
    Restarting {
        restart: usize,
        wait_ms: u64,
        error: &'a str,
    },
    Summary(&'a Summary),
}

pub(super) fn print_json(line: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(line).context("cannot write JSON")?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

/// Says that the pipeline failed and is started again.
pub(super) fn restarting(
    output: Output,
    error: &str,
    restart: usize,
    wait: Duration,
) -> Result<()> {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    if output == Output::Json {
        return print_json(&Line::Restarting { restart, wait_ms, error });
    }
    writeln!(std::io::stderr(), "{error}\nstarts again in {wait_ms} ms (restart {restart})")?;
    Ok(())
}

/// Says where the HTTP port is.
pub(super) fn listening(output: Output, address: SocketAddr) -> Result<()> {
    if output == Output::Json {
        return print_json(&Line::Listening { address });
    }
    writeln!(std::io::stderr(), "figures are at http://{address}/metrics")?;
    Ok(())
}

/// Where rows went that did not go through the operator.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    dead_letters: String,
    failed_rows: String,
}

impl SetAside {
    pub(super) fn of(config: &PipelineConfig) -> Self {
        let letters = config.sources.iter().filter_map(SourceConfig::dead_letter_file);
        let letters: Vec<String> = letters.map(|path| path.display().to_string()).collect();
        Self {
            dead_letters: letters.join(", "),
            failed_rows: config.failed_rows_directory().display().to_string(),
        }
    }
}

/// The closing summary.
pub(super) fn summary_text(summary: &Summary, aside: &SetAside) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_summary(&mut text, summary, aside);
    text
}

/// A number of things; the word is for one of them.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", HumanCount(count), if count == 1 { one } else { many })
}

fn milliseconds(microseconds: u64) -> f64 {
    Duration::from_micros(microseconds).as_secs_f64() * 1_000.0
}

fn write_summary(text: &mut String, summary: &Summary, aside: &SetAside) -> std::fmt::Result {
    let Summary { checkpoints, latency, .. } = summary;
    let outcome = if summary.finished { "finished" } else { "stopped at a checkpoint" };
    write!(text, "{}: {outcome}", summary.pipeline)?;
    if let Some(checkpoint) = summary.restored_from {
        write!(text, ", went on from checkpoint {checkpoint}")?;
    }
    writeln!(text)?;
    writeln!(
        text,
        "  rows         {} in, {} out, {:.0} read per second, {:.2} s",
        HumanCount(summary.rows_in),
        HumanCount(summary.rows_out),
        summary.rows_per_second,
        Duration::from_millis(summary.elapsed_ms).as_secs_f64()
    )?;
    for (count, what, place) in [
        (summary.rows_filtered, "kept out by the filter", ""),
        (summary.rows_skipped, "malformed, skipped", ""),
        (summary.rows_dead_lettered, "malformed, written to ", &aside.dead_letters),
        (summary.rows_isolated, "failed in the operator, set aside in ", &aside.failed_rows),
    ] {
        if count > 0 {
            writeln!(text, "               {} {what}{place}", HumanCount(count))?;
        }
    }
    if latency.rows > 0 {
        let [median, p99, max] =
            [latency.median_us, latency.p99_us, latency.max_us].map(milliseconds);
        writeln!(
            text,
            "  latency      median {median:.1} ms, 99% within {p99:.1} ms, longest {max:.1} ms"
        )?;
    }
    write!(text, "  checkpoints  {} completed", checkpoints.completed)?;
    if checkpoints.failed > 0 {
        write!(text, ", {} failed", checkpoints.failed)?;
    }
    if let Some(last) = checkpoints.last {
        write!(
            text,
            "; median {} ms, longest {} ms; the last is {last}",
            checkpoints.duration_median_ms, checkpoints.duration_max_ms
        )?;
    }
    writeln!(text)?;
    writeln!(
        text,
        "  look-ups     {} in {}, {} of the disk",
        counted(summary.keys, "key", "keys"),
        counted(summary.batches, "batch", "batches"),
        counted(summary.probes, "probe", "probes")
    )?;
    for state in &summary.states {
        writeln!(
            text,
            "  state        {}: {}, {} in {}",
            state.table,
            counted(state.metrics.rows, "row", "rows"),
            HumanBytes(state.metrics.bytes),
            counted(state.metrics.files, "file", "files")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_pipeline::{CheckpointSummary, LatencySummary, StateSummary};
    use howdah_state::TableMetrics;

    fn summary() -> Summary {
        let metrics =
            TableMetrics { rows: 145_734, bytes: 7_075_628, files: 6, ..TableMetrics::default() };
        Summary {
            pipeline: "q18".to_owned(),
            finished: true,
            restored_from: None,
            rows_in: 460_000,
            rows_out: 459_000,
            rows_filtered: 40_000,
            rows_skipped: 0,
            rows_dead_lettered: 0,
            rows_isolated: 0,
            elapsed_ms: 1_880,
            rows_per_second: 265_310.4,
            batches: 94,
            probes: 90,
            keys: 149_000,
            latency: LatencySummary {
                rows: 459_000,
                median_us: 21_503,
                p99_us: 48_127,
                max_us: 63_487,
            },
            checkpoints: CheckpointSummary {
                completed: 3,
                failed: 0,
                last: Some(3),
                duration_median_ms: 38,
                duration_max_ms: 62,
                bytes: 1,
            },
            states: vec![StateSummary {
                state: "last".to_owned(),
                table: "q18__last-bid__last".to_owned(),
                metrics,
            }],
        }
    }

    #[test]
    fn the_summary_says_what_a_run_did() {
        let expected = "\
q18: finished
  rows         460,000 in, 459,000 out, 265310 read per second, 1.88 s
               40,000 kept out by the filter
  latency      median 21.5 ms, 99% within 48.1 ms, longest 63.5 ms
  checkpoints  3 completed; median 38 ms, longest 62 ms; the last is 3
  look-ups     149,000 keys in 94 batches, 90 probes of the disk
  state        q18__last-bid__last: 145,734 rows, 6.75 MiB in 6 files
";
        assert_eq!(summary_text(&summary(), &SetAside::default()), expected);
    }

    #[test]
    fn the_summary_names_what_did_not_go_well() {
        let mut summary = summary();
        summary.finished = false;
        summary.restored_from = Some(2);
        summary.rows_skipped = 7;
        summary.rows_isolated = 3;
        summary.states[0].metrics.rows = 1;
        summary.checkpoints.failed = 1;
        let aside = SetAside { failed_rows: "state/failed-rows".to_owned(), ..SetAside::default() };
        let text = summary_text(&summary, &aside);
        for line in [
            "q18: stopped at a checkpoint, went on from checkpoint 2\n",
            "               7 malformed, skipped\n",
            "               3 failed in the operator, set aside in state/failed-rows\n",
            "q18__last-bid__last: 1 row, 6.75 MiB in 6 files\n",
            "  checkpoints  3 completed, 1 failed; median",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn a_json_line_says_what_it_is() {
        let summary = summary();
        let line = serde_json::to_value(Line::Summary(&summary)).unwrap();
        assert_eq!(line["event"], "summary");
        assert_eq!(line["states"][0]["rows"], 145_734);
    }
}

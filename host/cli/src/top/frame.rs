//! What `howdah top` draws: a status, and what has changed since the one before.

use indicatif::{HumanBytes, HumanCount};
use serde::Deserialize;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// What a running pipeline answers.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Status {
    pipeline: String,
    process: u32,
    restarts: u32,
    /// Milliseconds since the Unix epoch.
    time_ms: i64,
    elapsed_ms: u64,
    progress: Progress,
    threads: Vec<Thread>,
    states: Vec<State>,
    checkpoints: Vec<Checkpoint>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Progress {
    rows_in: u64,
    rows_out: u64,
    rows_skipped: u64,
    rows_dead_lettered: u64,
    watermark: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Thread {
    node: String,
    subtask: usize,
    busy_us: u64,
    idle_us: u64,
    blocked_us: u64,
    rows_in: u64,
    rows_out: u64,
    watermark: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct State {
    table: String,
    rows: u64,
    bytes: u64,
    files: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Checkpoint {
    checkpoint: u64,
    time_ms: i64,
    duration_ms: u64,
    rows_read: u64,
}

/// Checkpoints that a frame shows.
const CHECKPOINTS: usize = 8;
/// The longest bar.
const BAR: u64 = 20;

/// One frame. Rates are since `before`, if that is of the same run, or else since its start.
pub(super) fn frame(now: &Status, before: Option<&Status>) -> String {
    let same = |before: &&Status| {
        before.process == now.process
            && before.elapsed_ms < now.elapsed_ms
            && before.threads.len() == now.threads.len()
    };
    let nothing = Status::default();
    let before = before.filter(same).unwrap_or(&nothing);
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = head(&mut text, now, before);
    let _ = subtasks(&mut text, now, before);
    let _ = states(&mut text, now);
    let _ = checkpoints(&mut text, now);
    text
}

fn head(text: &mut String, now: &Status, before: &Status) -> std::fmt::Result {
    let since = Rate::between(now, before);
    let (progress, earlier) = (&now.progress, &before.progress);
    let elapsed = duration(i64::try_from(now.elapsed_ms).unwrap_or(i64::MAX));
    write!(text, "{}: runs for {elapsed} (process {})", now.pipeline, now.process)?;
    match now.restarts {
        0 => writeln!(text)?,
        restarts => writeln!(text, ", {restarts} restarts")?,
    }
    writeln!(
        text,
        "  rows         {} in, {} out a second; {} in, {} out since it was started",
        since.of(progress.rows_in, earlier.rows_in),
        since.of(progress.rows_out, earlier.rows_out),
        HumanCount(progress.rows_in),
        HumanCount(progress.rows_out),
    )?;
    let malformed = progress.rows_skipped + progress.rows_dead_lettered;
    if malformed > 0 {
        writeln!(text, "  malformed    {}", HumanCount(malformed))?;
    }
    let behind = behind(now.time_ms, progress.watermark);
    writeln!(text, "  watermark    {behind}")?;
    let (rows, bytes) =
        now.states.iter().fold((0, 0), |(rows, bytes), it| (rows + it.rows, bytes + it.bytes));
    writeln!(text, "  state        {} rows, {}", HumanCount(rows), HumanBytes(bytes))
}

fn subtasks(text: &mut String, now: &Status, before: &Status) -> std::fmt::Result {
    let since = Rate::between(now, before);
    let nothing = Thread::default();
    let mut threads: Vec<_> = now
        .threads
        .iter()
        .enumerate()
        .map(|(at, thread)| (thread, before.threads.get(at).unwrap_or(&nothing)))
        .map(|(thread, earlier)| (thread, earlier, Shares::between(thread, earlier)))
        .collect();
    threads.sort_by_key(|(.., shares)| Reverse(shares.busy));
    let width = now.threads.iter().map(|thread| thread.node.len()).max().unwrap_or(0).max(9);
    writeln!(
        text,
        "\n{:<width$} {:>7} {:>12} {:>12} {:>5} {:>8} {:>5}  watermark",
        "operator", "subtask", "rows in/s", "rows out/s", "busy", "blocked", "idle"
    )?;
    for (thread, earlier, shares) in threads {
        writeln!(
            text,
            "{:<width$} {:>7} {:>12} {:>12} {:>4}% {:>7}% {:>4}%  {}",
            thread.node,
            thread.subtask,
            since.of(thread.rows_in, earlier.rows_in).to_string(),
            since.of(thread.rows_out, earlier.rows_out).to_string(),
            shares.busy,
            shares.blocked,
            shares.idle,
            behind(now.time_ms, thread.watermark),
        )?;
    }
    Ok(())
}

fn states(text: &mut String, now: &Status) -> std::fmt::Result {
    if now.states.is_empty() {
        return Ok(());
    }
    let width = now.states.iter().map(|state| state.table.len()).max().unwrap_or(0).max(5);
    writeln!(text, "\n{:<width$} {:>15} {:>12} {:>7}", "state", "rows", "bytes", "files")?;
    for State { table, rows, bytes, files } in &now.states {
        let (rows, bytes) = (HumanCount(*rows).to_string(), HumanBytes(*bytes).to_string());
        writeln!(text, "{table:<width$} {rows:>15} {bytes:>12} {files:>7}")?;
    }
    Ok(())
}

/// The newest first, each with a bar of its duration.
fn checkpoints(text: &mut String, now: &Status) -> std::fmt::Result {
    let newest: Vec<&Checkpoint> = now.checkpoints.iter().rev().take(CHECKPOINTS).collect();
    let longest = newest.iter().map(|it| it.duration_ms).max().unwrap_or(0).max(1);
    writeln!(text, "\n{:>10} {:>14} {:>15}  took", "checkpoint", "completed", "rows read")?;
    for Checkpoint { checkpoint, time_ms, duration_ms, rows_read } in newest {
        let ago = duration(now.time_ms.saturating_sub(*time_ms)) + " ago";
        let rows = HumanCount(*rows_read).to_string();
        let length = (duration_ms.saturating_mul(BAR) / longest).max(1);
        let bar = "#".repeat(usize::try_from(length).unwrap_or(0));
        writeln!(text, "{checkpoint:>10} {ago:>14} {rows:>15}  {duration_ms} ms {bar}")?;
    }
    if now.checkpoints.is_empty() {
        writeln!(text, "none was completed in this run")?;
    }
    Ok(())
}

/// Turns counts into rates.
#[derive(Debug, Clone, Copy)]
struct Rate {
    elapsed_ms: u64,
}

impl Rate {
    fn between(now: &Status, before: &Status) -> Self {
        Self { elapsed_ms: now.elapsed_ms.saturating_sub(before.elapsed_ms).max(1) }
    }

    /// In a second.
    fn of(self, now: u64, before: u64) -> HumanCount {
        let more = u128::from(now.saturating_sub(before)) * 1_000 / u128::from(self.elapsed_ms);
        HumanCount(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

/// How a thread spends its time, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    busy: u64,
    blocked: u64,
    idle: u64,
}

impl Shares {
    fn between(now: &Thread, before: &Thread) -> Self {
        let busy = now.busy_us.saturating_sub(before.busy_us);
        let blocked = now.blocked_us.saturating_sub(before.blocked_us);
        let idle = now.idle_us.saturating_sub(before.idle_us);
        let whole = busy.saturating_add(blocked).saturating_add(idle).max(1);
        let share = |part: u64| part.saturating_mul(100) / whole;
        Self { busy: share(busy), blocked: share(blocked), idle: share(idle) }
    }
}

/// How far a watermark is behind the clock.
fn behind(now_ms: i64, watermark: Option<i64>) -> String {
    match watermark {
        None => "none".to_owned(),
        // The end of the input is the end of time.
        Some(i64::MAX) => "at the end".to_owned(),
        Some(watermark) if watermark > now_ms => {
            format!("{} ahead", duration(watermark.saturating_sub(now_ms)))
        }
        Some(watermark) => format!("{} behind", duration(now_ms.saturating_sub(watermark))),
    }
}

/// In the largest unit that there is one of.
fn duration(ms: i64) -> String {
    const UNITS: [(i64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match UNITS.into_iter().find(|(length, _)| ms >= *length) {
        Some((length, unit)) => format!("{}.{} {unit}", ms / length, ms % length * 10 / length),
        None => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// After so many seconds, at 1,000 rows a second.
    fn after(seconds: u64) -> Status {
        let thread = |node: &str, busy: u64, blocked: u64| {
            json!({
                "node": node, "subtask": 0, "rows_in": seconds * 1_000, "rows_out": seconds * 500,
                "busy_us": seconds * busy, "blocked_us": seconds * blocked,
                "idle_us": seconds * (1_000_000 - busy - blocked), "watermark": 7_500,
            })
        };
        let checkpoint = |id: u64| json!({ "checkpoint": id, "time_ms": id * 1_000, "duration_ms": id * 10, "rows_read": id });
        let status = json!({
            "pipeline": "q18", "process": 7, "restarts": 0, "running": true,
            "time_ms": 10_000, "elapsed_ms": seconds * 1_000,
            "progress": {
                "rows_in": seconds * 1_000, "rows_out": seconds * 500, "rows_skipped": 0,
                "rows_dead_lettered": 3, "watermark": 7_500, "checkpoint": 9,
            },
            "threads": [thread("source", 100_000, 700_000), thread("last-bid", 900_000, 0)],
            "states": [{ "table": "q18__last-bid__last", "rows": 1_500, "bytes": 4_096, "files": 2 }],
            "checkpoints": (1..10).map(checkpoint).collect::<Vec<_>>(),
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn a_frame_shows_the_busiest_first_and_the_newest_checkpoints() {
        let expected = "\
q18: runs for 10.0 s (process 7)
  rows         1,000 in, 500 out a second; 10,000 in, 5,000 out since it was started
  malformed    3
  watermark    2.5 s behind
  state        1,500 rows, 4.00 KiB

operator  subtask    rows in/s   rows out/s  busy  blocked  idle  watermark
last-bid        0        1,000          500   90%       0%   10%  2.5 s behind
source          0        1,000          500   10%      70%   20%  2.5 s behind

state                          rows        bytes   files
q18__last-bid__last           1,500     4.00 KiB       2

checkpoint      completed       rows read  took
         9      1.0 s ago               9  90 ms ####################
         8      2.0 s ago               8  80 ms #################
";
        let drawn = frame(&after(10), None);
        assert!(drawn.starts_with(expected), "{drawn}");
        assert_eq!(drawn.lines().count(), 22, "{drawn}");
    }

    #[test]
    fn rates_are_those_since_the_frame_before() {
        let (mut before, now) = (after(10), after(12));
        before.progress.rows_in = 0;
        assert!(frame(&now, Some(&before)).contains(" 6,000 in, 500 out a second;"));
        // Another process: what it did before does not count.
        before.process = 8;
        assert!(frame(&now, Some(&before)).contains(" 1,000 in, 500 out a second;"));
    }

    #[test]
    fn a_pipeline_that_has_only_begun_is_shown() {
        let drawn = frame(&Status::default(), None);
        assert!(drawn.contains("  watermark    none\n"), "{drawn}");
        assert!(drawn.ends_with("none was completed in this run\n"), "{drawn}");
    }

    #[test]
    fn durations_are_in_the_largest_unit() {
        for (ms, shown) in [(999, "999 ms"), (1_000, "1.0 s"), (90_000, "1.5 min")] {
            assert_eq!(duration(ms), shown);
        }
        assert_eq!(behind(10, Some(i64::MAX)), "at the end");
        assert_eq!(behind(10, Some(2_010)), "2.0 s ahead");
    }
}

//! The thread that reads a source: batches to those who take them, barriers where it is told.

use crate::checkpoint::DeadLetterPosition;
use crate::clock;
use crate::coordinator::{Command, Report, SourceState};
use crate::dead_letter::DeadLetters;
use crate::error::Result;
use crate::failure::Failure;
use crate::outlet::Outlets;
use crate::progress::Counters;
use crate::source::{Next, Rejected, Source, SourceBatch};
use crate::watermark::{Idleness, Watermark};
use crossbeam_channel::{Receiver, Sender};
use howdah_runtime::Output;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows of a batch.
pub(crate) const BATCH_ROWS: usize = 8_192;

/// A source, or its share of one, and its channels.
pub(crate) struct Reader {
    /// Which of all readers it is.
    pub(crate) number: usize,
    pub(crate) source: Box<dyn Source>,
    pub(crate) outlets: Outlets,
    /// `None`: rows have no event times.
    pub(crate) watermark: Option<Watermark>,
    /// When those who take the rows need not wait for its watermark.
    pub(crate) idleness: Idleness,
    /// Where malformed rows go that are not just counted.
    pub(crate) dead_letters: Option<DeadLetters>,
    /// Where they went in an earlier run: what is there then stays, should they go there again.
    pub(crate) earlier_dead_letters: Option<DeadLetterPosition>,
    /// Rows a second at most.
    pub(crate) rate_limit: Option<RateLimit>,
    /// Whether those who take the rows knew of the end, at the checkpoint that the run goes on
    /// from.
    pub(crate) closed: bool,
    /// Whether it reads no more, though there may be more.
    pub(crate) draining: bool,
    pub(crate) commands: Receiver<Command>,
    pub(crate) reports: Sender<Report>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) failure: Arc<Failure>,
}

impl Reader {
    /// Reads until the last barrier, a failure, or the end of those it talks to.
    pub(crate) fn run(mut self) -> Result<()> {
        self.counters.source(self.number, |source| {
            let progress = self.source.progress();
            source.bytes_total.set(progress.bytes_total);
            source.bytes_read.set(progress.bytes_read);
        });
        if self.read()?.is_break() || self.close().is_break() {
            return Ok(());
        }
        // Nothing is left but to wait for the last barrier.
        while let Ok(command) = self.outlets.meter.idle(|| self.commands.recv()) {
            if self.obey(command)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Reads to the end of the input.
    fn read(&mut self) -> Result<ControlFlow<()>> {
        let mut idle_until = None;
        let rows_limit = self.rate_limit.as_ref().map_or(BATCH_ROWS, RateLimit::batch_rows);
        loop {
            if self.failure.is_raised() || self.obey_all(idle_until.take())?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if self.draining {
                return Ok(ControlFlow::Continue(()));
            }
            let rows_before = self.source.progress().rows;
            self.outlets.read_at = Some(clock::now());
            let batch = match self.source.next(rows_limit)? {
                Next::Batch(batch) => batch,
                Next::Idle(wait) => {
                    if self.nothing().is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    let now = clock::now();
                    idle_until = Some(now + self.idleness.wait(now, wait));
                    continue;
                }
                Next::End => return Ok(ControlFlow::Continue(())),
            };
            let read = self.source.progress().rows.saturating_sub(rows_before);
            if self.hand_on(batch, read)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if let Some(limit) = &mut self.rate_limit {
                limit.spend(read, clock::now());
            }
        }
    }

    /// Sends a batch on, for which so many rows were read, and the watermark after it.
    fn hand_on(&mut self, batch: SourceBatch, read: u64) -> Result<ControlFlow<()>> {
        self.closed = false;
        self.set_aside(&batch.rejected)?;
        let kept = batch.rows.num_rows();
        let told = if kept > 0 { self.something() } else { self.nothing() };
        if told.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let before = self.watermark();
        if let Some(watermark) = &mut self.watermark {
            watermark.observe(&batch.event_times, self.source.event_time_limit());
        }
        self.count(read, batch.filtered, kept);
        let rows = Output {
            port: 0,
            batch: batch.rows,
            timestamps: batch.event_times,
            row_kinds: batch.row_kinds,
        };
        if self.outlets.rows(&rows, &batch.lines)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let risen = self.watermark().filter(|watermark| Some(*watermark) > before);
        Ok(risen.map_or(ControlFlow::Continue(()), |it| self.outlets.watermark(it)))
    }

    /// There are rows. All who take some wait for the watermark again, those too that get none of
    /// these.
    fn something(&mut self) -> ControlFlow<()> {
        if !self.idleness.something() {
            return ControlFlow::Continue(());
        }
        self.counters.source(self.number, |source| source.set_idle(false));
        self.outlets.watermark(self.watermark().unwrap_or(i64::MIN))
    }

    /// There are no rows. When it has been so for long, or always, nobody is to wait for the watermark.
    fn nothing(&mut self) -> ControlFlow<()> {
        let begins = match self.source.has_had_nothing() {
            true => self.idleness.begin(),
            false => self.idleness.nothing(clock::now()),
        };
        if !begins {
            return ControlFlow::Continue(());
        }
        self.counters.source(self.number, |source| source.set_idle(true));
        self.outlets.idle()
    }

    /// Obeys the commands that are there, up to the one to drain; with a rate limit, or an idle source,
    /// those that come until it is time to read on.
    fn obey_all(&mut self, idle_until: Option<Instant>) -> Result<ControlFlow<()>> {
        loop {
            let limited = self.rate_limit.as_ref().and_then(RateLimit::wait);
            let idle = idle_until.map(|until| until.saturating_duration_since(clock::now()));
            let wait = limited.max(idle.filter(|idle| !idle.is_zero()));
            let command = match wait {
                Some(wait) => match self.outlets.meter.idle(|| self.commands.recv_timeout(wait)) {
                    Ok(command) => command,
                    Err(error) if error.is_timeout() => return Ok(ControlFlow::Continue(())),
                    Err(_) => return Ok(ControlFlow::Break(())),
                },
                None => match self.commands.try_recv() {
                    Ok(command) => command,
                    Err(error) if error.is_empty() => return Ok(ControlFlow::Continue(())),
                    Err(_) => return Ok(ControlFlow::Break(())),
                },
            };
            if self.obey(command)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if self.draining {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    fn obey(&mut self, command: Command) -> Result<ControlFlow<()>> {
        let (checkpoint, last) = match command {
            Command::Barrier { checkpoint, last } => (checkpoint, last),
            Command::Completed { position } => {
                self.source.checkpoint_completed(&position)?;
                return Ok(ControlFlow::Continue(()));
            }
            Command::Drain => {
                self.draining = true;
                return Ok(ControlFlow::Continue(()));
            }
        };
        let dead_letters = match &mut self.dead_letters {
            Some(letters) => Some(letters.seal()?),
            None => self.earlier_dead_letters.clone(),
        };
        let state = SourceState {
            position: self.source.position()?,
            watermark: self.watermark(),
            closed: self.closed,
            dead_letters,
        };
        if self.outlets.barrier(checkpoint, last).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let report = Report::Source { checkpoint, reader: self.number, state };
        if self.reports.send(report).is_err() {
            return Ok(ControlFlow::Break(()));
        }
        if last {
            // The source hears of that checkpoint, too. A pipeline that fails drops the sender.
            while let Ok(Command::Completed { position }) = self.commands.recv() {
                self.source.checkpoint_completed(&position)?;
            }
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The input is at its end. Those who take the rows hear of it once, however often the
    /// pipeline is run again without new rows.
    fn close(&mut self) -> ControlFlow<()> {
        if !self.closed {
            self.closed = true;
            if self.outlets.end().is_break() {
                return ControlFlow::Break(());
            }
        }
        if self.reports.send(Report::SourceEnded).is_err() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn watermark(&self) -> Option<i64> {
        self.watermark.as_ref().and_then(Watermark::value)
    }

    fn set_aside(&mut self, rejected: &[Rejected]) -> Result<()> {
        match &mut self.dead_letters {
            _ if rejected.is_empty() => {}
            Some(letters) => {
                letters.append(rejected)?;
                self.counters.rows_dead_lettered.add(rejected.len());
            }
            None => self.counters.rows_skipped.add(rejected.len()),
        }
        Ok(())
    }

    fn count(&self, read: u64, filtered: u64, kept: usize) {
        self.counters.rows_read.add_u64(read);
        self.counters.rows_filtered.add_u64(filtered);
        self.counters.rows_in.add(kept);
        self.outlets.meter.rows_in(usize::try_from(read).unwrap_or(usize::MAX));
        self.counters.source(self.number, |source| {
            let progress = self.source.progress();
            source.bytes_total.set(progress.bytes_total);
            source.bytes_read.set(progress.bytes_read);
            source.set_watermark(self.watermark());
        });
    }
}

/// Spreads rows over time.
#[derive(Debug)]
pub(crate) struct RateLimit {
    rows_per_second: u64,
    /// From when on the next rows may be read.
    ready: Instant,
}

/// Batches that a rate limit makes of a second.
const BATCHES_PER_SECOND: u64 = 20;

/// A reader that was held up reads faster than it may for this much of its rows, at most.
const CATCH_UP_LIMIT: Duration = Duration::from_millis(200);

impl RateLimit {
    /// At most this many rows a second, by so many readers together, of which each gets its part; 0:
    /// no limit.
    pub(crate) fn new(rows_per_second: u64, readers: u32) -> Option<Self> {
        let of_each = (rows_per_second / u64::from(readers.max(1))).max(1);
        (rows_per_second > 0).then(|| Self { rows_per_second: of_each, ready: clock::now() })
    }

    fn batch_rows(&self) -> usize {
        let rows = self.rows_per_second.div_ceil(BATCHES_PER_SECOND);
        usize::try_from(rows).unwrap_or(BATCH_ROWS).min(BATCH_ROWS)
    }

    fn wait(&self) -> Option<Duration> {
        let wait = self.ready.saturating_duration_since(clock::now());
        (!wait.is_zero()).then_some(wait)
    }

    /// So many rows were read, and handed on by now.
    fn spend(&mut self, rows: u64, now: Instant) {
        let nanos = u128::from(rows) * 1_000_000_000 / u128::from(self.rows_per_second);
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        // The time that the rows took is part of it, and what was missed is caught up with.
        let earliest = now.checked_sub(CATCH_UP_LIMIT);
        let ready = earliest.map_or(self.ready, |earliest| self.ready.max(earliest));
        self.ready = ready + Duration::from_nanos(nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_time_that_rows_take_is_part_of_what_they_may_take() {
        let mut limit = RateLimit::new(1_000, 1).expect("a limit");
        let start = limit.ready;
        limit.spend(500, start + SECOND / 10);
        assert_eq!(limit.ready, start + SECOND / 2);
    }

    #[test]
    fn what_was_missed_is_caught_up_with_to_a_limit() {
        let mut limit = RateLimit::new(1_000, 1).expect("a limit");
        let start = limit.ready;
        limit.spend(50, start + CATCH_UP_LIMIT);
        assert_eq!(limit.ready, start + SECOND / 20, "late, and ready at once");
        limit.spend(50, start + SECOND * 10);
        assert_eq!(limit.ready, start + SECOND * 10 - CATCH_UP_LIMIT + SECOND / 20);
    }
}

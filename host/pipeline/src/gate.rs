//! Where the channels of a subtask's inputs come together: barriers are aligned, watermarks
//! combined.
//!
//! A channel that has delivered a barrier is not read until all have: so what the subtask sees
//! before a barrier is exactly what was sent before it, on every channel. The watermark of the
//! subtask is the lowest of its channels, without those that are idle or at their end.

use crate::error::{Error, Result};
use crate::exchange::{Message, Rows};
use crossbeam_channel::{Receiver, Select, TryRecvError};
use std::time::Duration;

/// Where a channel is when a run begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// Which input of the operator it belongs to.
    pub(crate) port: u32,
    /// Its watermark at the checkpoint.
    pub(crate) watermark: i64,
    /// Whether it was at its end, and the operator knew it.
    pub(crate) ended: bool,
}

/// What comes out of a gate.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "taken apart at once, one for each batch")]
pub(crate) enum Arrival {
    /// Rows of an input.
    Rows { port: u32, rows: Rows },
    /// The watermark of all channels, which has risen; or is waited for again, after all were idle.
    Watermark(i64),
    /// All channels are idle or at their end. Nobody is left to wait for, so the watermark is the
    /// highest of theirs.
    Idle(i64),
    /// All channels have delivered this barrier.
    Barrier { checkpoint: u64, last: bool },
    /// All channels are at their end.
    End,
}

/// What is known of a channel.
#[derive(Debug)]
struct Channel {
    port: u32,
    watermark: i64,
    ended: bool,
    idle: bool,
    /// Has delivered the barrier that the others have not.
    blocked: bool,
}

/// Aligns and combines what channels deliver. Knows no threads.
#[derive(Debug)]
pub(crate) struct Alignment {
    channels: Vec<Channel>,
    barrier: Option<(u64, bool)>,
    /// The combined watermark, which never goes back.
    watermark: i64,
    /// Whether the last that was told is that all are idle.
    idle: bool,
    /// Watermarks that were lower than one before them on their channel.
    regressions: u64,
}

impl Alignment {
    /// Goes on at a watermark, which may be higher than those of the channels: one that was idle may
    /// be behind it.
    pub(crate) fn new(starts: &[Start], watermark: i64) -> Self {
        let channel = |start: &Start| Channel {
            port: start.port,
            watermark: start.watermark,
            ended: start.ended,
            idle: false,
            blocked: false,
        };
        Self {
            channels: starts.iter().map(channel).collect(),
            barrier: None,
            watermark,
            idle: false,
            regressions: 0,
        }
    }

    /// Whether this channel is to be read.
    pub(crate) fn is_open(&self, channel: usize) -> bool {
        self.channels.get(channel).is_some_and(|channel| !channel.blocked)
    }

    /// What the watermarks of all channels have come to.
    pub(crate) fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Watermarks that went back, which were ignored.
    pub(crate) fn regressions(&self) -> u64 {
        self.regressions
    }

    /// The next message of a channel that is open; `None`: nothing comes of it.
    pub(crate) fn accept(&mut self, from: usize, message: Message) -> Result<Option<Arrival>> {
        let Some(channel) = self.channels.get_mut(from).filter(|channel| !channel.blocked) else {
            return Err(Error::internal("a message of a channel that is not to be read"));
        };
        match message {
            Message::Rows(rows) => {
                (channel.ended, channel.idle, self.idle) = (false, false, false);
                let port = channel.port;
                Ok(Some(Arrival::Rows { port, rows: Rows { watermark: self.watermark, ..rows } }))
            }
            Message::Watermark(watermark) => {
                (channel.ended, channel.idle) = (false, false);
                if watermark < channel.watermark {
                    self.regressions += 1;
                } else {
                    channel.watermark = watermark;
                }
                Ok(self.combine())
            }
            Message::Idle => {
                channel.idle = true;
                Ok(self.combine())
            }
            Message::Barrier { checkpoint, last } => {
                channel.blocked = true;
                self.align(checkpoint, last)
            }
            Message::End => {
                channel.ended = true;
                if self.channels.iter().all(|channel| channel.ended) {
                    return Ok(Some(Arrival::End));
                }
                Ok(self.combine())
            }
        }
    }

    fn align(&mut self, checkpoint: u64, last: bool) -> Result<Option<Arrival>> {
        let (expected, _) = *self.barrier.get_or_insert((checkpoint, last));
        if expected != checkpoint {
            let message =
                format!("the barrier of checkpoint {checkpoint} came while {expected} was on");
            return Err(Error::internal(message));
        }
        if self.channels.iter().any(|channel| !channel.blocked) {
            return Ok(None);
        }
        self.channels.iter_mut().for_each(|channel| channel.blocked = false);
        self.barrier = None;
        Ok(Some(Arrival::Barrier { checkpoint, last }))
    }

    /// What the watermarks of all channels come to.
    fn combine(&mut self) -> Option<Arrival> {
        let Some(lowest) = self.lowest() else {
            if std::mem::replace(&mut self.idle, true) {
                return None;
            }
            // So it does not matter which of them was idle first.
            let highest = self.channels.iter().map(|channel| channel.watermark).max();
            self.watermark = self.watermark.max(highest.unwrap_or(i64::MIN));
            return Some(Arrival::Idle(self.watermark));
        };
        let was_idle = std::mem::take(&mut self.idle);
        if lowest <= self.watermark && !was_idle {
            return None;
        }
        self.watermark = self.watermark.max(lowest);
        Some(Arrival::Watermark(self.watermark))
    }

    /// `None`: nothing is to be waited for.
    fn lowest(&self) -> Option<i64> {
        let active = self.channels.iter().filter(|channel| !channel.idle && !channel.ended);
        active.map(|channel| channel.watermark).min()
    }
}

/// The channels of a subtask.
#[derive(Debug)]
pub(crate) struct Gate {
    alignment: Alignment,
    channels: Vec<Receiver<Message>>,
    /// Where to look first, so that each has its turn.
    next: usize,
}

/// Why nothing arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// Not yet.
    Yet,
    /// Not any more: a sender is gone, as it is only when the pipeline fails.
    Ever,
}

impl Gate {
    /// See [`Alignment::new`].
    pub(crate) fn new(channels: Vec<(Start, Receiver<Message>)>, watermark: i64) -> Self {
        let (starts, channels): (Vec<Start>, Vec<_>) = channels.into_iter().unzip();
        Self { alignment: Alignment::new(&starts, watermark), channels, next: 0 }
    }

    /// See [`Alignment::watermark`].
    pub(crate) fn watermark(&self) -> i64 {
        self.alignment.watermark()
    }

    /// See [`Alignment::regressions`].
    pub(crate) fn regressions(&self) -> u64 {
        self.alignment.regressions()
    }

    /// The next that is there already.
    pub(crate) fn try_receive(&mut self) -> Result<Result<Arrival, Nothing>> {
        let count = self.channels.len();
        let mut seen = 0;
        while seen < count {
            let at = self.next;
            self.next = (at + 1) % count;
            let Some(channel) = self.channels.get(at).filter(|_| self.alignment.is_open(at)) else {
                seen += 1;
                continue;
            };
            match channel.try_recv() {
                Ok(message) => {
                    if let Some(arrival) = self.alignment.accept(at, message)? {
                        return Ok(Ok(arrival));
                    }
                    // It may have more, or have let the others go on.
                    seen = 0;
                }
                Err(TryRecvError::Empty) => seen += 1,
                Err(TryRecvError::Disconnected) => return Ok(Err(Nothing::Ever)),
            }
        }
        Ok(Err(Nothing::Yet))
    }

    /// The next, for which it waits so long; `None`: until it is there.
    pub(crate) fn receive(&mut self, wait: Option<Duration>) -> Result<Result<Arrival, Nothing>> {
        loop {
            let found = self.try_receive()?;
            if !matches!(found, Err(Nothing::Yet)) {
                return Ok(found);
            }
            if !self.wait(wait) {
                return Ok(Err(Nothing::Yet));
            }
        }
    }

    /// Whether a channel that is open has something, or is gone, within this time.
    pub(crate) fn wait(&self, wait: Option<Duration>) -> bool {
        let mut select = Select::new();
        for (at, channel) in self.channels.iter().enumerate() {
            if self.alignment.is_open(at) {
                select.recv(channel);
            }
        }
        match wait {
            None => {
                select.ready();
                true
            }
            Some(wait) => select.ready_timeout(wait).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests;

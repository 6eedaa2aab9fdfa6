//! Events of the Nexmark benchmark, generated in the process.

use super::columnar::Columnar;
use super::plan::{FileShape, Plan};
use super::reject::Rejects;
use super::{Next, Progress, Share, Source};
use crate::checkpoint::SourcePosition;
use crate::config::SourceConfig;
use crate::connector::Kept;
use crate::error::{Error, Result};
use crate::nexmark::NexmarkEvents;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The name of the connector.
pub(super) const CONNECTOR: &str = "nexmark";

/// Events are dealt to so many parts in turn, a block to each. Subtasks share the parts: what has been
/// read of each is known whatever their number.
const PARTS: u64 = 256;
/// The most events: far enough from the end of the numbers to count on.
const EVENTS_LIMIT: u64 = i64::MAX.unsigned_abs();
/// Events of a block.
const BLOCK: u64 = 1_024;

/// The generator's columns.
pub(super) fn inspect() -> FileShape {
    FileShape::of_schema(&NexmarkEvents::schema())
}

/// What a checkpoint keeps beside the number of rows, unless those are the first events.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Stored {
    /// The next event of each part.
    next: Vec<u64>,
}

/// The part that an event belongs to.
fn part(event: u64) -> u64 {
    event / BLOCK % PARTS
}

/// For each part its first event that is not before this one, in their order.
fn from(event: u64) -> Vec<u64> {
    let block = event / BLOCK;
    let others = (block + 1..block + PARTS).map(|block| block * BLOCK);
    std::iter::once(event).chain(others).collect()
}

/// How many events of its part are before an event.
fn before(event: u64) -> u64 {
    event / (BLOCK * PARTS) * BLOCK + event % BLOCK
}

/// Where parts are, as a checkpoint keeps it. That events do not follow from a number alone is said
/// only where it is so.
fn position(mut next: Vec<u64>) -> Result<SourcePosition> {
    let rows = next.iter().map(|event| before(*event)).sum();
    next.sort_unstable();
    if next == from(rows) {
        return SourcePosition::new(CONNECTOR, rows, &());
    }
    SourcePosition::new(CONNECTOR, rows, &Stored { next })
}

/// The next event of each part that a position has, which are those of a share or all.
fn next(position: &SourcePosition) -> Result<Vec<u64>> {
    let stored: Option<Stored> = position.read(CONNECTOR)?;
    let last = match &stored {
        Some(stored) => stored.next.iter().max(),
        None => Some(&position.rows),
    };
    // A part may be some blocks ahead of the others.
    if last.is_some_and(|last| *last > EVENTS_LIMIT + PARTS * BLOCK) {
        return Err(unreadable("it is after the last event that there is"));
    }
    Ok(stored.map_or_else(|| from(position.rows), |stored| stored.next))
}

/// The next event of each part at a position of the whole source.
fn next_of_all(position: &SourcePosition) -> Result<Vec<u64>> {
    let next = next(position)?;
    let mut parts: Vec<u64> = next.iter().map(|event| part(*event)).collect();
    parts.sort_unstable();
    if parts.into_iter().eq(0..PARTS) {
        Ok(next)
    } else {
        Err(unreadable("it does not have each part of the events once"))
    }
}

fn unreadable(reason: &str) -> Error {
    Kept::Position.unreadable(CONNECTOR, reason)
}

/// See [`source::merge`](super::merge): each part belongs to one share.
pub(super) fn merge(positions: &[SourcePosition]) -> Result<SourcePosition> {
    let parts: Result<Vec<_>> = positions.iter().map(next).collect();
    position(parts?.concat())
}

/// The source. An event depends on its number alone, so a position is numbers of events.
pub(super) struct NexmarkSource {
    events: NexmarkEvents,
    /// The next event of each part, the lowest first.
    next: BinaryHeap<Reverse<u64>>,
    /// Events that were read.
    rows: u64,
    /// Events in all, of all shares; `None`: it goes on for ever.
    limit: Option<u64>,
    columnar: Columnar,
}

impl NexmarkSource {
    pub(super) fn open(
        config: &SourceConfig,
        limit: Option<u64>,
        plan: Arc<Plan>,
        share: Share,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let all = match position {
            None => from(0),
            Some(position) => next_of_all(position)?,
        };
        let own = all.into_iter().filter(|event| share.has(part(*event)));
        let next: BinaryHeap<Reverse<u64>> = own.map(Reverse).collect();
        Ok(Self {
            events: NexmarkEvents::from(0),
            rows: next.iter().map(|Reverse(event)| before(*event)).sum(),
            next,
            limit,
            columnar: Columnar::new(plan, Rejects::new(config)),
        })
    }

    /// Generates events up to this one, as far as they follow each other here.
    fn generate(&mut self, first: u64, end: u64) {
        self.events.seek(first);
        let mut event = first;
        // Where the one before it ends, another part may go on.
        while event < end && self.next.peek() == Some(&Reverse(event)) {
            self.next.pop();
            let block_end = (event / BLOCK + 1) * BLOCK;
            let stop = block_end.min(end);
            self.events.append(stop - event);
            let is_whole = stop == block_end;
            self.next.push(Reverse(if is_whole { stop + (PARTS - 1) * BLOCK } else { stop }));
            event = stop;
        }
        self.rows += event - first;
    }
}

impl Source for NexmarkSource {
    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        let limit = self.limit.unwrap_or(u64::MAX);
        let Some(Reverse(first)) = self.next.peek().copied().filter(|next| next.0 < limit) else {
            return Ok(Next::End);
        };
        let rows_limit = u64::try_from(rows_limit).unwrap_or(u64::MAX);
        self.generate(first, first.saturating_add(rows_limit).min(limit));
        let batch = self.events.finish()?;
        self.columnar.take(&batch, first + 1).map(Next::Batch)
    }

    fn progress(&self) -> Progress {
        Progress { rows: self.rows, ..Progress::default() }
    }

    fn position(&self) -> Result<SourcePosition> {
        position(self.next.iter().map(|Reverse(event)| *event).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_position_among_the_first_events_is_their_number() {
        for events in [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 7, BLOCK * PARTS, BLOCK * PARTS + 1] {
            let found = position(from(events)).expect("a position");
            assert_eq!((found.rows, found.at.is_null()), (events, true));
            assert_eq!(next(&found).expect("parts"), from(events));
        }
    }

    #[test]
    fn a_position_that_no_run_has_left_is_refused() {
        let refused = |rows: u64, stored: Option<Vec<u64>>| {
            let stored = stored.map(|next| Stored { next });
            let position = SourcePosition::new(CONNECTOR, rows, &stored).expect("a position");
            next_of_all(&position).expect_err("refused").kind()
        };
        let with = |event: u64| from(0).into_iter().skip(1).chain([event]).collect::<Vec<_>>();
        assert_eq!(refused(u64::MAX, None), ErrorKind::Corrupt);
        for stored in [Vec::new(), with(BLOCK), with(u64::MAX - u64::MAX % (BLOCK * PARTS))] {
            assert_eq!(refused(1, Some(stored)), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn parts_have_all_events_between_them() {
        let mut counts = vec![0; usize::try_from(PARTS).expect("few")];
        for event in 0..3 * BLOCK * PARTS {
            let count = &mut counts[usize::try_from(part(event)).expect("few")];
            assert_eq!(before(event), *count, "{event}");
            *count += 1;
        }
        assert!(counts.iter().all(|count| *count == 3 * BLOCK));
    }
}

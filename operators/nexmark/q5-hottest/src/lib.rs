//! The auctions with the most bids in each window (second part of Nexmark query 5).
//!
//! Takes in what `nexmark-q5` counts, grouped by the window, and keeps the highest count and its
//! auctions until the window is over. Auctions with equally many bids are all emitted.

use howdah_sdk::prelude::*;

/// How long a window is.
const SIZE_MS: i64 = 10_000;

/// How many bids an auction has in a window: what comes in and, if none has more, goes out.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct BidCount {
    window_start: Timestamp,
    auction: i64,
    num: i64,
}

/// A window.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Start {
    window_start: Timestamp,
}

/// The most bids of an auction so far.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Most {
    num: i64,
}

/// An auction with so many.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Auction {
    auction: i64,
}

/// The operator.
#[derive(States)]
pub struct Hottest {
    most: ValueState<Start, Most>,
    auctions: ListState<Start, Auction>,
    ends: Timers<Start>,
}

#[operator]
impl Hottest {
    fn process(
        &mut self,
        count: BidCount,
        record: &Record<Start>,
        _: &mut Emitter<BidCount>,
    ) -> Result<()> {
        let BidCount { window_start, auction, num } = count;
        let most = self.most.get(record)?.map_or(0, |most| most.num);
        if num > most {
            self.most.put(record, Most { num });
            self.auctions.clear(record);
            self.ends.set(record, window_start.plus_millis(SIZE_MS - 1));
        }
        if num >= most {
            self.auctions.append(record, Auction { auction });
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: &Timer<Start>, out: &mut Emitter<BidCount>) -> Result<()> {
        let Start { window_start } = timer.key()?;
        if let Some(Most { num }) = self.most.get(timer)? {
            for Auction { auction } in self.auctions.get(timer)? {
                out.emit(&BidCount { window_start, auction, num });
            }
        }
        self.most.delete(timer);
        self.auctions.clear(timer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn count(start: i64, auction: i64, num: i64) -> Event<BidCount> {
        let window_start = at(start);
        Event::insert(BidCount { window_start, auction, num }).at(window_start.plus_millis(9_999))
    }

    #[test]
    fn the_auctions_with_the_most_bids_come_when_the_window_is_over() -> Result<()> {
        let mut host = TestHost::<Hottest>::new()?;
        let counts = [count(0, 1, 3), count(2_000, 1, 1), count(0, 2, 5), count(0, 3, 4)];
        assert_eq!(host.process_events(counts)?, []);
        host.process_events([count(0, 4, 5)])?;
        assert_eq!(host.advance_watermark(at(9_999))?, [count(0, 2, 5), count(0, 4, 5)]);
        assert_eq!(host.advance_watermark(at(11_999))?, [count(2_000, 1, 1)]);
        Ok(())
    }

    #[test]
    fn nothing_is_kept_of_a_window_that_is_over() -> Result<()> {
        let mut host = TestHost::<Hottest>::new()?;
        host.process_events([count(0, 1, 3)])?;
        host.advance_watermark(at(9_999))?;
        assert_eq!(host.values::<Most>("most")?.len(), 0);
        assert_eq!(host.values::<Auction>("auctions")?.len(), 0);
        assert_eq!(host.timers("ends")?.len(), 0);
        Ok(())
    }

    #[test]
    fn a_window_goes_on_over_a_crash() -> Result<()> {
        let mut host = TestHost::<Hottest>::new()?;
        host.process_events([count(0, 1, 3)])?;
        host.barrier()?;
        host.process_events([count(0, 2, 9)])?;
        host.crash();
        host.restore()?;
        host.process_events([count(0, 3, 3)])?;
        assert_eq!(host.advance_watermark(at(9_999))?, [count(0, 1, 3), count(0, 3, 3)]);
        Ok(())
    }
}

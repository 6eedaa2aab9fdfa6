//! How many bids each auction has in windows of ten seconds, of which one begins every two (first
//! part of Nexmark query 5).
//!
//! Emits a count when the watermark passes the end of its window. `nexmark-q5-hottest` takes it in.

use howdah_sdk::prelude::*;
use howdah_sdk::window::{Hopping, Pane, WindowOptions, Windows};

/// A bid. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
}

/// What is bid on.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Auction {
    auction: i64,
}

/// The bids of a window.
#[derive(Row, Reduce, Debug, Clone, PartialEq)]
pub struct Bids {
    #[reduce(count)]
    num: i64,
}

/// How many bids an auction has in a window.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct BidCount {
    window_start: Timestamp,
    auction: i64,
    num: i64,
}

/// The operator.
pub struct BidCounts {
    windows: Windows<Auction, Hopping, Bids>,
}

#[operator]
impl BidCounts {
    fn open(open: &mut Open<Auction>) -> Result<Self> {
        let windows = Hopping::of_millis(10_000, 2_000);
        Ok(Self { windows: open.windows("windows", windows, WindowOptions::default())? })
    }

    fn process(
        &mut self,
        _: Bid,
        record: &Record<Auction>,
        out: &mut Emitter<BidCount>,
    ) -> Result<()> {
        let added = self.windows.add(record, &Bids { num: 1 })?;
        added.into_iter().try_for_each(|pane| emit(record, &pane, out))
    }

    fn on_timer(&mut self, timer: &Timer<Auction>, out: &mut Emitter<BidCount>) -> Result<()> {
        let pane = self.windows.on_timer(timer)?;
        pane.iter().try_for_each(|pane| emit(timer, pane, out))
    }
}

fn emit(key: &CurrentKey<Auction>, pane: &Pane<Bids>, out: &mut Emitter<BidCount>) -> Result<()> {
    let Auction { auction } = key.key()?;
    let Pane { window, result: Bids { num } } = pane;
    out.emit(&BidCount { window_start: window.start, auction, num: *num });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn bid(auction: i64, millis: i64) -> Event<Bid> {
        Event::insert(Bid { auction }).at(at(millis))
    }

    fn count(window_start: i64, auction: i64, num: i64) -> Event<BidCount> {
        let window_start = at(window_start);
        Event::insert(BidCount { window_start, auction, num }).at(window_start.plus_millis(9_999))
    }

    #[test]
    fn a_bid_counts_in_five_windows() -> Result<()> {
        let mut host = TestHost::<BidCounts>::new()?;
        host.process_events([bid(1, 8_000), bid(1, 9_999), bid(1, 10_000)])?;
        assert_eq!(host.advance_watermark(at(9_998))?, []);
        assert_eq!(host.advance_watermark(at(9_999))?, [count(0, 1, 2)]);
        let rest = [2_000, 4_000, 6_000, 8_000].map(|start| count(start, 1, 3));
        let rest = rest.into_iter().chain([count(10_000, 1, 1)]).collect::<Vec<_>>();
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, rest);
        Ok(())
    }

    #[test]
    fn a_late_bid_counts_in_the_windows_that_are_open() -> Result<()> {
        let mut host = TestHost::<BidCounts>::new()?;
        host.advance_watermark(at(15_999))?;
        host.process_events([bid(1, 9_000)])?;
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, [count(8_000, 1, 1)]);
        Ok(())
    }

    #[test]
    fn counts_come_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<BidCounts>::new()?;
        host.process_events([bid(1, 1_000)])?;
        host.barrier()?;
        host.process_events([bid(1, 1_001), bid(2, 1_001)])?;
        host.crash();
        host.restore()?;
        host.process_events([bid(1, 1_001)])?;
        assert_eq!(host.advance_watermark(at(9_999))?.last(), Some(&count(0, 1, 2)));
        Ok(())
    }
}

//! How much each bidder bids in ten seconds of the clock (Nexmark query 12): windows of processing time.
//!
//! The clock is the host's, which tests set by hand. It does not go back, so a bidder has one window at
//! a time.

use howdah_sdk::prelude::*;

/// How long a window is.
const SIZE_MS: i64 = 10_000;

/// A bid. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    bidder: i64,
}

/// Who bids.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Bidder {
    bidder: i64,
}

/// The window that a bidder has, and how many bids are in it.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Window {
    start: Timestamp,
    bids: i64,
}

impl Window {
    /// The window that begins last at this time.
    fn at(time: Timestamp) -> Self {
        Self { start: time.plus_millis(-time.millis().rem_euclid(SIZE_MS)), bids: 0 }
    }

    fn end(&self) -> Timestamp {
        self.start.plus_millis(SIZE_MS)
    }
}

/// A window that is over.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct BidderWindow {
    bidder: i64,
    bid_count: i64,
    start_time: Timestamp,
    end_time: Timestamp,
}

/// The operator.
#[derive(States)]
pub struct BidderWindows {
    windows: ValueState<Bidder, Window>,
    #[state(processing_time)]
    ends: Timers<Bidder>,
}

#[operator]
impl BidderWindows {
    fn process(
        &mut self,
        _: Bid,
        record: &Record<Bidder>,
        out: &mut Emitter<BidderWindow>,
    ) -> Result<()> {
        let current = Window::at(record.now());
        let mut window = match self.windows.get(record)? {
            // Its timer is due, but has not fired yet.
            Some(window) if window.start < current.start => {
                emit(record, &window, out)?;
                current
            }
            Some(window) => window,
            None => current,
        };
        window.bids += 1;
        self.ends.set(record, window.end());
        self.windows.put(record, window);
        Ok(())
    }

    fn on_timer(&mut self, timer: &Timer<Bidder>, out: &mut Emitter<BidderWindow>) -> Result<()> {
        if let Some(window) = self.windows.get(timer)?.filter(|window| window.end() <= timer.time())
        {
            emit(timer, &window, out)?;
            self.windows.delete(timer);
        }
        Ok(())
    }
}

fn emit(key: &CurrentKey<Bidder>, window: &Window, out: &mut Emitter<BidderWindow>) -> Result<()> {
    let Bidder { bidder } = key.key()?;
    let (start_time, end_time) = (window.start, window.end());
    out.emit(&BidderWindow { bidder, bid_count: window.bids, start_time, end_time });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::TestHost;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn bid(bidder: i64) -> Bid {
        Bid { bidder }
    }

    fn window(bidder: i64, bid_count: i64, start: i64) -> BidderWindow {
        let (start_time, end_time) = (at(start), at(start + SIZE_MS));
        BidderWindow { bidder, bid_count, start_time, end_time }
    }

    /// The rows that are emitted when the clock goes on.
    fn advance(host: &mut TestHost<BidderWindows>, millis: i64) -> Result<Vec<BidderWindow>> {
        Ok(host.advance_clock(at(millis))?.into_iter().map(|event| event.row).collect())
    }

    #[test]
    fn a_window_is_over_when_the_clock_says_so() -> Result<()> {
        let mut host = TestHost::<BidderWindows>::new()?;
        host.advance_clock(at(3_000))?;
        host.process([bid(1), bid(2), bid(1)])?;
        assert_eq!(advance(&mut host, 9_999)?, []);
        host.process([bid(1)])?;
        assert_eq!(advance(&mut host, 10_000)?, [window(1, 3, 0), window(2, 1, 0)]);
        host.process([bid(1)])?;
        assert_eq!(advance(&mut host, 40_000)?, [window(1, 1, 10_000)]);
        assert_eq!(host.timers("ends")?, []);
        Ok(())
    }

    #[test]
    fn event_time_does_not_matter() -> Result<()> {
        let mut host = TestHost::<BidderWindows>::new()?;
        host.process([bid(1)])?;
        assert_eq!(host.advance_watermark(at(1_000_000))?, []);
        assert_eq!(advance(&mut host, 10_000)?, [window(1, 1, 0)]);
        Ok(())
    }

    #[test]
    fn a_window_goes_on_over_a_crash() -> Result<()> {
        let mut host = TestHost::<BidderWindows>::new()?;
        host.process([bid(1)])?;
        host.barrier()?;
        host.process([bid(1)])?;
        host.crash();
        host.restore()?;
        host.process([bid(1)])?;
        assert_eq!(advance(&mut host, 10_000)?, [window(1, 2, 0)]);
        Ok(())
    }
}

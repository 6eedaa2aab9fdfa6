//! The sessions of each bidder, of which none waits ten seconds for its next bid (Nexmark query 11).

use howdah_sdk::prelude::*;
use howdah_sdk::window::{Pane, Session, WindowOptions, Windows};

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

/// The bids of a session.
#[derive(Row, Reduce, Debug, Clone, PartialEq)]
pub struct Bids {
    #[reduce(count)]
    bid_count: i64,
}

/// A session that is over.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct BidderSession {
    bidder: i64,
    bid_count: i64,
    start_time: Timestamp,
    end_time: Timestamp,
}

/// The operator.
pub struct BidderSessions {
    sessions: Windows<Bidder, Session, Bids>,
}

#[operator]
impl BidderSessions {
    fn open(open: &mut Open<Bidder>) -> Result<Self> {
        let sessions = Session::of_millis(10_000);
        Ok(Self { sessions: open.windows("sessions", sessions, WindowOptions::default())? })
    }

    fn process(
        &mut self,
        _: Bid,
        record: &Record<Bidder>,
        out: &mut Emitter<BidderSession>,
    ) -> Result<()> {
        let added = self.sessions.add(record, &Bids { bid_count: 1 })?;
        added.into_iter().try_for_each(|pane| emit(record, &pane, out))
    }

    fn on_timer(&mut self, timer: &Timer<Bidder>, out: &mut Emitter<BidderSession>) -> Result<()> {
        let pane = self.sessions.on_timer(timer)?;
        pane.iter().try_for_each(|pane| emit(timer, pane, out))
    }
}

fn emit(
    key: &CurrentKey<Bidder>,
    pane: &Pane<Bids>,
    out: &mut Emitter<BidderSession>,
) -> Result<()> {
    let Bidder { bidder } = key.key()?;
    let Pane { window, result: Bids { bid_count } } = pane;
    let (bid_count, start_time, end_time) = (*bid_count, window.start, window.end);
    out.emit(&BidderSession { bidder, bid_count, start_time, end_time });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn bid(bidder: i64, millis: i64) -> Event<Bid> {
        Event::insert(Bid { bidder }).at(at(millis))
    }

    fn session(bidder: i64, [start, end]: [i64; 2], bid_count: i64) -> Event<BidderSession> {
        let (start_time, end_time) = (at(start), at(end));
        Event::insert(BidderSession { bidder, bid_count, start_time, end_time }).at(at(end - 1))
    }

    #[test]
    fn a_session_ends_ten_seconds_after_its_last_bid() -> Result<()> {
        let mut host = TestHost::<BidderSessions>::new()?;
        host.process_events([bid(1, 0), bid(1, 9_999), bid(1, 30_000), bid(2, 5_000)])?;
        assert_eq!(host.advance_watermark(at(14_999))?, [session(2, [5_000, 15_000], 1)]);
        let rest = [session(1, [0, 19_999], 2), session(1, [30_000, 40_000], 1)];
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, rest);
        Ok(())
    }

    #[test]
    fn a_bid_between_two_sessions_makes_them_one() -> Result<()> {
        let mut host = TestHost::<BidderSessions>::new()?;
        host.process_events([bid(1, 0), bid(1, 20_000), bid(1, 10_000)])?;
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, [session(1, [0, 30_000], 3)]);
        Ok(())
    }

    #[test]
    fn a_bid_that_is_too_late_is_left_out() -> Result<()> {
        let mut host = TestHost::<BidderSessions>::new()?;
        host.advance_watermark(at(20_000))?;
        host.process_events([bid(1, 10_001), bid(2, 10_002)])?;
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, [session(2, [10_002, 20_002], 1)]);
        assert_eq!(host.counter("sessions_late_rows_total"), 1);
        Ok(())
    }

    #[test]
    fn a_session_goes_on_over_a_crash() -> Result<()> {
        let mut host = TestHost::<BidderSessions>::new()?;
        host.process_events([bid(1, 0)])?;
        host.barrier()?;
        host.process_events([bid(1, 1)])?;
        host.crash();
        host.restore()?;
        host.process_events([bid(1, 5_000)])?;
        assert_eq!(host.advance_watermark(Timestamp::MAX)?, [session(1, [0, 15_000], 2)]);
        Ok(())
    }
}

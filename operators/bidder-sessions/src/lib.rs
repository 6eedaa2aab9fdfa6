//! The sessions of each bidder: bids of which none comes more than a gap after the one before
//! (Nexmark query 11).
//!
//! Emits a session when the watermark passes its end, and again if a late bid still joins it. Bids
//! that are too late go to an output of their own. Configuration: `gap-ms` and
//! `allowed-lateness-ms`.

use howdah_sdk::prelude::*;
use howdah_sdk::window::{Pane, Session, WindowOptions, Windows};

/// A bid. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    bidder: i64,
    price: i64,
}

/// Whose sessions.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Bidder {
    bidder: i64,
}

/// What the bids of a session come to.
#[derive(Row, Reduce, Debug, Clone, PartialEq)]
pub struct Totals {
    #[reduce(count)]
    bids: i64,
    #[reduce(max)]
    highest: i64,
}

/// A session that is over.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct BidderSession {
    bidder: i64,
    start: Timestamp,
    end: Timestamp,
    bids: i64,
    highest: i64,
}

/// What goes out.
#[derive(Outputs)]
pub struct Out {
    sessions: Emitter<BidderSession>,
    late: Emitter<Bid>,
}

/// The operator's table of the pipeline file.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    gap_ms: i64,
    allowed_lateness_ms: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self { gap_ms: 10_000, allowed_lateness_ms: 0 }
    }
}

/// The operator.
pub struct BidderSessions {
    sessions: Windows<Bidder, Session, Totals>,
}

#[operator]
impl BidderSessions {
    fn open(open: &mut Open<Bidder>) -> Result<Self> {
        let Config { gap_ms, allowed_lateness_ms } = open.config()?;
        let options = WindowOptions { allowed_lateness_ms };
        Ok(Self { sessions: open.windows("sessions", Session::of_millis(gap_ms), options)? })
    }

    fn process(&mut self, bid: Bid, record: &Record<Bidder>, out: &mut Out) -> Result<()> {
        let added = self.sessions.add(record, &Totals { bids: 1, highest: bid.price })?;
        if added.is_late() {
            out.late.emit(&bid);
        }
        added.into_iter().try_for_each(|pane| emit(record, &pane, out))
    }

    fn on_timer(&mut self, timer: &Timer<Bidder>, out: &mut Out) -> Result<()> {
        let pane = self.sessions.on_timer(timer)?;
        pane.iter().try_for_each(|pane| emit(timer, pane, out))
    }
}

fn emit(key: &CurrentKey<Bidder>, pane: &Pane<Totals>, out: &mut Out) -> Result<()> {
    let Bidder { bidder } = key.key()?;
    let (window, Totals { bids, highest }) = (pane.window, &pane.result);
    let session = BidderSession {
        bidder,
        start: window.start,
        end: window.end,
        bids: *bids,
        highest: *highest,
    };
    out.sessions.emit_at(RowKind::Insert, window.max_timestamp(), &session);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    /// A session as it is stored.
    #[derive(Row, Debug, PartialEq)]
    struct Stored {
        window_end: Timestamp,
        fired: bool,
        bids: i64,
        highest: i64,
    }

    #[derive(Row, Debug, PartialEq)]
    struct WindowStart {
        window_start: Timestamp,
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn bid(bidder: i64, price: i64, millis: i64) -> Event<Bid> {
        Event::insert(Bid { bidder, price }).at(at(millis))
    }

    fn session(bidder: i64, times: [i64; 2], bids: i64, highest: i64) -> Event<BidderSession> {
        let [start, end] = times;
        Event::insert(BidderSession { bidder, start: at(start), end: at(end), bids, highest })
            .at(at(end - 1))
    }

    fn host(allowed_lateness_ms: i64) -> Result<TestHost<BidderSessions>> {
        TestHost::with_config(&format!(
            r#"{{"gap-ms": 100, "allowed-lateness-ms": {allowed_lateness_ms}}}"#
        ))
    }

    #[test]
    fn a_session_is_emitted_when_the_watermark_passes_its_end() -> Result<()> {
        let mut host = host(0)?;
        host.process_events([bid(1, 5, 0), bid(1, 9, 90), bid(2, 7, 50)])?;
        assert_eq!(host.advance_watermark(at(148))?.0, []);
        assert_eq!(host.advance_watermark(at(149))?.0, [session(2, [50, 150], 1, 7)]);
        assert_eq!(host.advance_watermark(at(500))?.0, [session(1, [0, 190], 2, 9)]);
        assert_eq!(host.map::<WindowStart, Stored>("sessions", &Bidder { bidder: 1 })?, []);
        assert_eq!(host.timers("sessions-timers")?, [], "nothing is left behind");
        Ok(())
    }

    #[test]
    fn a_bid_between_two_sessions_makes_them_one() -> Result<()> {
        let mut host = host(0)?;
        host.process_events([bid(1, 5, 0), bid(1, 9, 200)])?;
        host.process_events([bid(1, 1, 100)])?;
        let (sessions, _) = host.advance_watermark(Timestamp::MAX)?;
        assert_eq!(sessions, [session(1, [0, 300], 3, 9)]);
        Ok(())
    }

    #[test]
    fn a_bid_that_comes_too_late_goes_to_its_own_output() -> Result<()> {
        let mut host = host(0)?;
        host.advance_watermark(at(150))?;
        let (sessions, late) = host.process_events([bid(1, 5, 51), bid(1, 6, 52)])?;
        assert_eq!(sessions, []);
        assert_eq!(late, [bid(1, 5, 51)]);
        assert_eq!(host.counter("sessions_late_rows_total"), 1);
        Ok(())
    }

    #[test]
    fn a_bid_within_the_allowed_lateness_emits_its_session_again() -> Result<()> {
        let mut host = host(50)?;
        host.process_events([bid(1, 5, 0)])?;
        let (sessions, _) = host.advance_watermark(at(120))?;
        assert_eq!(sessions, [session(1, [0, 100], 1, 5)]);
        let (sessions, late) = host.process_events([bid(1, 8, 10)])?;
        assert_eq!((sessions, late), (vec![session(1, [0, 110], 2, 8)], vec![]));
        Ok(())
    }

    #[test]
    fn at_the_end_of_the_input_all_sessions_are_emitted() -> Result<()> {
        let mut host = host(0)?;
        host.process_events([bid(1, 5, 0)])?;
        assert_eq!(host.end_input()?, (vec![session(1, [0, 100], 1, 5)], vec![]));
        Ok(())
    }

    #[test]
    fn a_state_that_is_looked_at_as_another_says_what_it_has() -> Result<()> {
        let error = host(0)?.values::<Totals>("sessions").unwrap_err();
        assert!(error.message().contains("window_end, fired, bids, highest, not bids, highest"));
        Ok(())
    }

    #[test]
    fn a_session_goes_on_over_a_crash() -> Result<()> {
        let mut host = host(0)?;
        host.process_events([bid(1, 5, 0)])?;
        host.barrier()?;
        host.process_events([bid(1, 500, 20)])?;
        host.crash();
        host.restore()?;
        host.process_events([bid(1, 6, 30)])?;
        let (sessions, _) = host.advance_watermark(at(129))?;
        assert_eq!(sessions, [session(1, [0, 130], 2, 6)]);
        Ok(())
    }

    #[test]
    fn a_gap_of_nothing_is_refused() {
        let error = TestHost::<BidderSessions>::with_config(r#"{"gap-ms": 0}"#).err();
        assert!(error.is_some_and(|error| error.message().contains("`sessions`")));
    }
}
